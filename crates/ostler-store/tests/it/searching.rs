//! Full-text search of sessions.

use ostler_core::event::{Timestamp, ToolCall};
use ostler_core::raw_json::RawJson;
use ostler_store::{Filter, Log, Speaker, Store};

use crate::rig::{append, entry, new_session, whole_session};

fn filled_store(dir: &std::path::Path) -> Store {
    let store = Store::open(dir).unwrap();
    for (at, session, prompt, answer) in [
        (
            1,
            "s-1",
            "Fix the Parser\nand \"quote\" it",
            "Done: the lexer was wrong.",
        ),
        (2, "s-2", "write tests for the lexer", "Straße"),
        (3, "s-3", "100% of _that_", "nothing"),
    ] {
        store.open(&new_session(session, at)).unwrap();
        append(&store, whole_session(session, prompt, answer)).unwrap();
    }
    let mut other = new_session("s-4", 4);
    other.agent = "two".into();
    other.pid = u32::MAX;
    store.open(&other).unwrap();
    let input: RawJson = serde_json::from_str(r#"{"command":"cargo test -p lexer"}"#).unwrap();
    let call = ToolCall {
        id: "c".into(),
        name: "Bash".into(),
        input,
        parent: None,
    };
    append(&store, vec![entry("s-4", 1, call)]).unwrap();
    store
}

#[test]
fn prompts_replies_and_commands_are_searched_newest_session_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let found = |text: &str, filter: &Filter| -> Vec<(String, Speaker, String)> {
        let hits = store.search(text, filter).unwrap();
        hits.into_iter()
            .map(|hit| (hit.session.session, hit.speaker, hit.excerpt))
            .collect()
    };
    let hit = |id: &str, speaker, excerpt: &str| (id.to_owned(), speaker, excerpt.to_owned());
    let all = Filter::default();
    let tool = hit("s-4", Speaker::Tool, r#"{"command":"cargo test -p lexer"}"#);
    let user = hit("s-2", Speaker::User, "write tests for the lexer");
    let agent = hit("s-1", Speaker::Agent, "Done: the lexer was wrong.");
    assert_eq!(found("LEXER", &all), [tool.clone(), user.clone(), agent]);
    assert_eq!(
        found(
            "lexer",
            &Filter {
                limit: Some(2),
                ..all.clone()
            }
        ),
        [tool.clone(), user]
    );
    assert_eq!(
        found(
            "lexer",
            &Filter {
                agent: Some("two".into()),
                ..all.clone()
            }
        ),
        [tool]
    );
    let quoted = hit("s-1", Speaker::User, "Fix the Parser\nand \"quote\" it");
    assert_eq!(
        found("parser\nand \"Quote\"", &all),
        [quoted],
        "the text, not its JSON encoding"
    );
    assert_eq!(
        found("STRASSE", &all),
        [],
        "case folding does not expand letters"
    );
    assert_eq!(found("straße", &all).len(), 1);
    // Wildcards of SQL are plain text.
    assert_eq!(
        (
            found("0% of _", &all).len(),
            found("1%%", &all).len(),
            found("", &all).len()
        ),
        (1, 0, 0)
    );
    let first = &store.search("quote", &all).unwrap()[0];
    assert_eq!(
        (first.turn, first.at, first.speaker.as_str()),
        (1, Timestamp(1_000_002), "user")
    );
}
