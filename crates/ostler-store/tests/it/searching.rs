//! Full-text search of sessions.

use std::path::Path;

use ostler_core::event::{Origin, Text, TextKind, Timestamp, ToolCall, ToolResult, TurnStarted};
use ostler_core::raw_json::RawJson;
use ostler_store::{
    Cancel, Log, LogEntry, PruneLimits, SearchHit, SearchPage, SearchQuery, Speaker, Store,
};

use crate::rig::{append, entry, new_session, store_whole, text, whole_session};

fn filled_store(dir: &Path) -> Store {
    let store = Store::open(dir).unwrap();
    for (at, session, prompt, answer) in [
        (
            1,
            "s-1",
            "Fix the Parser\nand \"quote\" it",
            "Done: the lexer was wrong.",
        ),
        (2, "s-2", "write tests for the lexer", "Straße"),
        (3, "s-3", "100% of _that_", "修复了解析器 in src/lib.rs"),
    ] {
        store.open(&new_session(session, at)).unwrap();
        append(&store, whole_session(session, prompt, answer)).unwrap();
    }
    let mut other = new_session("s-4", 4);
    other.agent = "two".into();
    other.dir = "/other".into();
    other.pid = u32::MAX;
    store.open(&other).unwrap();
    let thought = Text {
        kind: TextKind::Thinking,
        ..text("Perhaps the lexer")
    };
    append(
        &store,
        vec![
            entry("s-4", 1, call(r#"{"command":"cargo test -p lexer"}"#)),
            entry("s-4", 2, result("error: foo_bar not found\n")),
            entry("s-4", 3, thought),
        ],
    )
    .unwrap();
    store
}

fn call(input: &str) -> ToolCall {
    ToolCall {
        id: "c".into(),
        name: "Bash".into(),
        input: RawJson::parse(input).unwrap(),
        parent: None,
    }
}

fn result(output: &str) -> ToolResult {
    ToolResult {
        id: "c".into(),
        name: None,
        ok: false,
        output: output.into(),
        denied: false,
        content: None,
    }
}

fn search(store: &Store, query: &SearchQuery) -> SearchPage {
    store.search(query, &Cancel::default()).unwrap()
}

fn hits(store: &Store, text: &str) -> Vec<SearchHit> {
    search(store, &SearchQuery::new(text, 100)).hits
}

/// Returns session and event of each hit.
fn found(store: &Store, query: &SearchQuery) -> Vec<(String, u64)> {
    let hits = search(store, query).hits.into_iter();
    hits.map(|hit| (hit.session.session, hit.seq)).collect()
}

fn at(session: &str, seq: u64) -> (String, u64) {
    (session.to_owned(), seq)
}

#[test]
fn everything_that_was_said_and_done_is_found_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let all = hits(&store, "LEXER");
    let shown: Vec<_> = all
        .iter()
        .map(|hit| (&*hit.session.session, hit.seq, hit.speaker, hit.excerpt()))
        .collect();
    let expected = [
        ("s-4", 3, Speaker::Thinking, "Perhaps the lexer"),
        ("s-4", 1, Speaker::Tool, "command: cargo test -p lexer"),
        ("s-2", 2, Speaker::User, "write tests for the lexer"),
        ("s-1", 3, Speaker::Agent, "Done: the lexer was wrong."),
    ];
    let expected = expected.map(|(id, seq, who, text)| (id, seq, who, text.to_owned()));
    assert_eq!(shown, expected);
    let marked: Vec<&str> = all
        .iter()
        .flat_map(|hit| &hit.snippet)
        .filter(|part| part.hit)
        .map(|part| &*part.text)
        .collect();
    assert_eq!(marked, ["lexer"; 4]);
    assert_eq!((all[3].turn, all[3].at), (1, Timestamp(1_000_003)));
}

#[test]
fn users_type_words_prefixes_identifiers_paths_and_phrases() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    for (text, expected) in [
        ("parser", &[("s-1", 2)][..]),
        ("pars", &[("s-1", 2)]),
        ("arse", &[("s-1", 2)]),
        ("wrong lexer", &[("s-1", 3)]),
        ("\"lexer was\"", &[("s-1", 3)]),
        ("\"was lexer\"", &[]),
        ("\"Parser and\"", &[("s-1", 2)]),
        ("parser\nand \"Quote\"", &[("s-1", 2)]),
        ("\"quote\\\"", &[]),
        ("foo_bar", &[("s-4", 2)]),
        ("o_b", &[("s-4", 2)]),
        ("foo-bar", &[]),
        ("src/lib.rs", &[("s-3", 3)]),
        ("src/", &[("s-3", 3)]),
        ("解析器", &[("s-3", 3)]),
        ("修复", &[("s-3", 3)]),
        ("器", &[("s-3", 3)]),
        ("複", &[]),
        ("straße", &[("s-2", 3)]),
        ("STRASSE", &[]), // case folding does not expand letters
        // Syntax of SQL, of full-text queries, and of patterns is plain text.
        ("0% of _", &[("s-3", 2)]),
        ("1%%", &[]),
        ("-p", &[("s-4", 1)]),
        ("par*", &[]),
        ("lexer NOT parser", &[]),
        ("grams:lexer", &[]),
        ("NEAR(a b)", &[]),
        ("'\";--\0😀", &[]),
        ("\"", &[("s-1", 2)]),
        ("", &[]),
        (" \t", &[]),
    ] {
        let query = SearchQuery::new(text, 100);
        let expected: Vec<_> = expected.iter().map(|(id, seq)| at(id, *seq)).collect();
        assert_eq!(found(&store, &query), expected, "{text:?}");
    }
}

#[test]
fn hits_are_filtered_and_paged() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let lexer = SearchQuery::new("lexer", 100);
    let all = found(&store, &lexer);
    let only = |change: fn(&mut SearchQuery)| {
        let mut query = lexer.clone();
        change(&mut query);
        found(&store, &query)
    };
    assert_eq!(only(|it| it.agent = Some("two".into())), all[..2]);
    assert_eq!(only(|it| it.dir = Some("/work".into())), all[2..]);
    assert_eq!(only(|it| it.speaker = Some(Speaker::User)), [at("s-2", 2)]);
    assert_eq!(
        only(|it| it.since = Some(Timestamp(1_000_003))),
        [at("s-4", 3), at("s-1", 3)]
    );
    assert_eq!(
        only(|it| it.until = Some(Timestamp(1_000_002))),
        [at("s-4", 1)]
    );
    assert_eq!(only(|it| it.limit = 0), []);
    let once = only(|it| it.once_per_session = true);
    assert_eq!(once, [at("s-4", 3), at("s-2", 2), at("s-1", 3)]);
    for limit in 1..=all.len() {
        let (mut paged, mut query) = (Vec::new(), lexer.clone());
        query.limit = limit;
        loop {
            let page = search(&store, &query);
            assert!(page.hits.len() <= limit);
            paged.extend(page.hits.into_iter().map(|it| (it.session.session, it.seq)));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(paged, all, "{limit}");
    }
}

/// Returns the events of a turn that is under way.
fn open_turn(session: &str) -> Vec<LogEntry> {
    let prompt = TurnStarted {
        origin: Origin::Caller,
        prompt: Some("begin".into()),
    };
    vec![
        entry(session, 1, prompt),
        entry(session, 2, text("A half-")),
        entry(session, 3, text("finished sen")),
    ]
}

// A reply that never ends, since its process was killed, is found; and one is found while it grows.
#[test]
fn a_reply_is_found_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.open(&new_session("s", 1)).unwrap();
    append(&store, open_turn("s")).unwrap();
    let is_found = |text: &str| {
        let hits = hits(&store, text);
        hits.iter().map(|hit| hit.seq).collect::<Vec<_>>()
    };
    assert_eq!(
        (is_found("half-finished"), is_found("sentence")),
        (vec![2], vec![])
    );
    append(&store, vec![entry("s", 4, text("tence"))]).unwrap();
    assert_eq!(
        (is_found("half-finished sentence"), is_found("tence")),
        (vec![2], vec![2])
    );
    // Another process continues where this one was.
    let other = Store::open(dir.path()).unwrap();
    append(&store, vec![entry("s", 5, text(" here."))]).unwrap();
    assert_eq!(hits(&other, "\"sentence here\"").len(), 1);
    // The end of the turn repeats the reply, and is not found twice.
    let mut end = whole_session("s", "", "A half-finished sentence here.").remove(3);
    end.event.seq = 6;
    append(&store, vec![end]).unwrap();
    assert_eq!(is_found("sentence"), [2]);
    assert_eq!(is_found("half"), [2]);
}

// What is indexed and what is not yet are searched alike.
#[test]
fn unindexed_events_are_found_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    store.open(&new_session("s", 9)).unwrap();
    append(&store, open_turn("s")).unwrap();
    assert_eq!(hits(&store, "sen").len(), 1, "all of it is indexed");
    append(&store, vec![entry("s", 4, text("tence about a lexer"))]).unwrap();
    append(&store, vec![entry("s", 5, result("lexer"))]).unwrap();
    let reader = Store::open_to_read(dir.path()).unwrap();
    assert_eq!(reader.unindexed_events().unwrap(), 2);
    assert!(!reader.index_some().unwrap());
    let queries = [
        SearchQuery::new("lexer", 100),
        SearchQuery::new("lexer", 1),
        SearchQuery::new("lexer", 3),
        SearchQuery::new("sentence", 100),
        SearchQuery {
            once_per_session: true,
            ..SearchQuery::new("lexer", 100)
        },
        SearchQuery {
            agent: Some("two".into()),
            ..SearchQuery::new("lexer", 100)
        },
    ];
    let unindexed: Vec<_> = queries.iter().map(|it| search(&reader, it)).collect();
    assert_eq!(reader.unindexed_events().unwrap(), 2);
    let indexed: Vec<_> = queries.iter().map(|it| search(&store, it)).collect();
    assert_eq!(reader.unindexed_events().unwrap(), 0);
    assert_eq!(unindexed, indexed);
    let seqs: Vec<u64> = indexed[0].hits.iter().map(|hit| hit.seq).collect();
    assert_eq!(seqs, [5, 2, 3, 1, 2, 3]);
}

fn grams(dir: &Path) -> i64 {
    let db = rusqlite::Connection::open(dir.join("sessions.db")).unwrap();
    db.query_row("SELECT count(*) FROM search_index", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn what_is_removed_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (session, when) in [("a", 100), ("b", 200), ("c", 300)] {
        store_whole(&store, session, when);
    }
    let ids = |text| {
        let hits = hits(&store, text).into_iter();
        hits.map(|hit| hit.session.session).collect::<Vec<_>>()
    };
    assert_eq!(ids("words"), ["c", "b", "a"]);
    assert_eq!(grams(dir.path()), 6);
    store.remove("c").unwrap();
    assert_eq!(ids("words"), ["b", "a"]);
    let limits = PruneLimits {
        older_than: Some(Timestamp(150)),
        ..PruneLimits::default()
    };
    store.prune(&limits, false).unwrap();
    assert_eq!((ids("words"), grams(dir.path())), (vec!["b".into()], 2));
    // Positions of removed events are not used again, so that none is taken for indexed.
    store_whole(&store, "d", 400);
    assert_eq!(ids("words"), ["d", "b"]);
}

// Appending is as fast as without an index.
#[test]
fn events_are_indexed_by_a_search_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let waiting = store.unindexed_events().unwrap();
    assert_eq!((grams(dir.path()), waiting), (0, 18));
    assert!(store.index_some().unwrap() && !store.index_some().unwrap());
    assert_eq!(
        (grams(dir.path()), store.unindexed_events().unwrap()),
        (9, 0)
    );
}

#[test]
fn processes_index_the_same_events_once() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Store::open(dir.path()).unwrap();
    let stores = [(); 3].map(|()| Store::open(dir.path()).unwrap());
    std::thread::scope(|scope| {
        for n in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                for m in 0..25 {
                    store_whole(writer, &format!("{n}-{m}"), 1);
                }
            });
        }
        for store in &stores {
            scope.spawn(move || {
                let mut before = 0;
                while before < 100 {
                    let now = hits(store, "words").len();
                    assert!(now >= before, "nothing is lost");
                    before = now;
                }
            });
        }
    });
    assert_eq!(grams(dir.path()), 200);
}

#[test]
fn a_cancelled_search_fails() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let cancel = Cancel::default();
    cancel.cancel();
    let query = SearchQuery::new("lexer", 1);
    assert!(store.search(&query, &cancel).is_err());
    assert_eq!(
        search(&store, &query).hits.len(),
        1,
        "others are not affected"
    );
}

// Long texts are indexed up to a bound: 48 KiB from the start, and 16 KiB from the end.
#[test]
fn long_output_is_found_by_its_start_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.open(&new_session("s", 1)).unwrap();
    let filler = "x ".repeat(100_000);
    let output = format!("alpha {filler} beta {filler} gamma");
    append(&store, vec![entry("s", 1, result(&output))]).unwrap();
    // A long reply is found everywhere, with the event where it is.
    let reply = (2..102).map(|n| entry("s", n, text(&format!("part{n}x {}", "y ".repeat(1_000)))));
    append(&store, reply.collect()).unwrap();
    let count = |text: &str| hits(&store, text).len();
    assert_eq!((count("alpha"), count("beta"), count("gamma")), (1, 0, 1));
    assert!((2..102).all(|n| count(&format!("part{n}x")) == 1));
    let seqs: Vec<u64> = hits(&store, "y").iter().map(|hit| hit.seq).collect();
    assert_eq!(seqs, [77, 52, 27, 2]);
}

// An event of a later Ostler is skipped.
#[test]
fn unknown_events_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.open(&new_session("s", 1)).unwrap();
    append(
        &store,
        vec![
            entry("s", 1, text("known")),
            entry("s", 2, text("known too")),
        ],
    )
    .unwrap();
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute_batch("UPDATE events SET json = '{\"known\":1' WHERE seq = 1")
        .unwrap();
    assert_eq!(hits(&store, "known").len(), 1);
}
