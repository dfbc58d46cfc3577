//! `ostler sessions search`: finds sessions by their prompts, answers and tool calls.

use ostler_store::{SearchHit, Speaker, Store};
use serde_json::{Value, json};

use super::{ago, as_json, filter, short_id};
use crate::args::SessionsSearchArgs;
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{Align, name, one_line, print_json, table};

/// Searches, and prints the first match of each session.
pub(super) fn run(store: &Store, args: SessionsSearchArgs) -> Result<Code> {
    if args.text.trim().is_empty() {
        return Err(Fault::usage("the search text is empty")
            .hint("for example: ostler sessions search \"flaky test\""));
    }
    let hits = store.search(&args.text, &filter(args.filter)?)?;
    if args.json {
        print_json(&json!({ "hits": hits.iter().map(hit).collect::<Vec<_>>() }));
    } else if hits.is_empty() {
        errln!(
            "No sessions contain {}.",
            one_line(&format!("{:?}", args.text), 100)
        );
    } else {
        let heads =
            ["session", "agent", "when", "turn", "who", "text"].map(|head| (head, Align::Left));
        table(heads, &hits.iter().map(cells).collect::<Vec<_>>());
    }
    Ok(exit::OK)
}

fn hit(hit: &SearchHit) -> Value {
    let mut report = as_json(&hit.session);
    report["match"] = json!({
        "turn": hit.turn, "at": hit.at, "speaker": hit.speaker.as_str(), "excerpt": hit.excerpt,
    });
    report
}

fn cells(hit: &SearchHit) -> [String; 6] {
    let who = match hit.speaker {
        Speaker::User => "you".to_owned(),
        Speaker::Agent => name(&hit.session.agent),
        Speaker::Tool => "tool".to_owned(),
    };
    [
        short_id(&hit.session.session),
        name(&hit.session.agent),
        ago(environment::now(), hit.at),
        hit.turn.to_string(),
        who,
        one_line(&hit.excerpt, 120),
    ]
}
