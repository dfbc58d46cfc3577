//! `ostler sessions search`: finds sessions by what was said and done in them.

use ostler_store::{Cancel, SearchHit, SearchQuery, SnippetPart, Speaker, Store};
use serde_json::{Value, json};

use super::{ago, as_json, before, filter, short_id};
use crate::args::{SearchSpeaker, SessionsSearchArgs};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{Align, name, one_line, print_json, table, thousands};

/// Number of events from which indexing takes a noticeable time.
const MANY_EVENTS: u64 = 50_000;

/// Searches, and prints the newest match of each session, or every match.
pub(super) fn run(store: &Store, args: SessionsSearchArgs) -> Result<Code> {
    if args.text.trim().is_empty() {
        return Err(Fault::usage("the search text is empty")
            .hint("for example: ostler sessions search \"flaky test\""));
    }
    let waiting = store.unindexed_events()?;
    if waiting >= MANY_EVENTS {
        errln!(
            "Indexing {} events for the search, once…",
            thousands(waiting)
        );
    }
    let limit = args.filter.limit.get();
    let filter = filter(args.filter)?;
    let query = SearchQuery {
        agent: filter.agent,
        dir: filter.dir,
        speaker: args.speaker.map(speaker),
        since: args.since.map(before),
        until: args.until.map(before),
        once_per_session: !args.all_matches,
        ..SearchQuery::new(args.text, limit)
    };
    let hits = store.search(&query, &Cancel::default())?.hits;
    if args.json {
        print_json(&json!({ "hits": hits.iter().map(hit).collect::<Vec<_>>() }));
    } else if hits.is_empty() {
        errln!(
            "No sessions contain {}.",
            one_line(&format!("{:?}", query.text), 100)
        );
    } else {
        let heads =
            ["session", "agent", "when", "turn", "who", "text"].map(|head| (head, Align::Left));
        table(heads, &hits.iter().map(cells).collect::<Vec<_>>());
    }
    Ok(exit::OK)
}

fn speaker(arg: SearchSpeaker) -> Speaker {
    match arg {
        SearchSpeaker::User => Speaker::User,
        SearchSpeaker::Agent => Speaker::Agent,
        SearchSpeaker::Thinking => Speaker::Thinking,
        SearchSpeaker::Tool => Speaker::Tool,
        SearchSpeaker::Result => Speaker::Result,
    }
}

fn hit(hit: &SearchHit) -> Value {
    let mut report = as_json(&hit.session);
    let part = |part: &SnippetPart| json!({ "text": part.text, "hit": part.hit });
    report["match"] = json!({
        "seq": hit.seq,
        "turn": hit.turn,
        "at": hit.at,
        "speaker": hit.speaker.as_str(),
        "excerpt": hit.excerpt(),
        "snippet": hit.snippet.iter().map(part).collect::<Vec<_>>(),
    });
    report
}

fn cells(hit: &SearchHit) -> [String; 6] {
    let who = match hit.speaker {
        Speaker::User => "you".to_owned(),
        Speaker::Agent => name(&hit.session.agent),
        Speaker::Thinking | Speaker::Tool | Speaker::Result => hit.speaker.to_string(),
    };
    [
        short_id(&hit.session.session),
        name(&hit.session.agent),
        ago(environment::now(), hit.at),
        hit.turn.to_string(),
        who,
        one_line(&hit.excerpt(), 160),
    ]
}
