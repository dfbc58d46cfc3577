//! Finding sessions and what was said in them: lists, search, usage.

use std::sync::Arc;

use ostler_core::event::{
    Event, EventKind, Origin, Text, TextKind, Timestamp, ToolResult, TurnEnded, TurnStarted,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Tokens, Usage};
use ostler_daemon::ManagerOptions;
use ostler_store::{Log, LogEntry, NewSession, Store};
use serde_json::{Value, json};

use crate::rig::{ECHO, PATIENCE, Rig};

/// Stores a session of another process.
async fn store_session(store: &Store, id: &str, agent: &str, kinds: Vec<EventKind>) {
    let new_session = NewSession {
        session: id.to_owned(),
        agent: agent.to_owned(),
        dir: "/elsewhere".into(),
        at: Timestamp(1_000),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: std::process::id(),
    };
    Log::open(store, &new_session).unwrap();
    let entries = (1..).zip(kinds).map(|(seq, kind)| LogEntry {
        event: Event {
            seq,
            at: Timestamp(i64::try_from(seq).unwrap() * 1_000),
            session: id.into(),
            turn: 1,
            kind,
        },
        raw_offset: 0,
    });
    let entries = Arc::new(entries.collect());
    store.append(entries).await.unwrap();
}

fn turn(text: &str) -> Vec<EventKind> {
    let usage = Usage::for_turn(
        Some("m".into()),
        Tokens {
            input: 3,
            output: 4,
            ..Tokens::default()
        },
    );
    vec![
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some("Fix the parser\nplease".into()),
        }
        .into(),
        Text {
            kind: TextKind::Thinking,
            text: "Perhaps the parser".into(),
            delta: false,
            message: None,
            parent: None,
        }
        .into(),
        ToolResult {
            id: "c".into(),
            name: None,
            ok: true,
            output: "parser.rs".into(),
            denied: false,
            content: None,
        }
        .into(),
        TurnEnded {
            outcome: Outcome::new(Cause::Completed, "done"),
            text: text.into(),
            structured: None,
            usage: Some(usage),
        }
        .into(),
    ]
}

async fn get(rig: &Rig, path: &str) -> Value {
    let response = rig.tcp(&format!("GET {path}"), &[], "").await;
    assert_eq!(response.status(), 200, "{path}: {}", response.0);
    response.body()
}

async fn status(rig: &Rig, path: &str) -> u16 {
    rig.tcp(&format!("GET {path}"), &[], "").await.status()
}

/// Returns session and event of each match.
fn places(found: &Value) -> Vec<(String, u64)> {
    let matches = found["matches"].as_array().unwrap().iter();
    let id = |it: &Value| it["session"]["id"].as_str().unwrap().to_owned();
    matches
        .map(|it| (id(it), it["seq"].as_u64().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_search_finds_events_newest_first() {
    let rig = Rig::new().await;
    store_session(&rig.store, "s-1", "one", turn("The parser is fixed.")).await;
    store_session(&rig.store, "s-2", "two", turn("The PARSER works.")).await;
    let at = |id: &str, seqs: &[u64]| -> Vec<(String, u64)> {
        seqs.iter().map(|seq| (id.to_owned(), *seq)).collect()
    };
    let all = get(&rig, "/v1/search?q=parser").await;
    let expected = [at("s-2", &[4, 3, 2, 1]), at("s-1", &[4, 3, 2, 1])].concat();
    assert_eq!(places(&all), expected);
    let first = &all["matches"][0];
    assert_eq!(
        first["snippet"],
        json!([
            {"text": "The ", "hit": false},
            {"text": "PARSER", "hit": true},
            {"text": " works.", "hit": false},
        ])
    );
    assert_eq!(
        (
            &first["excerpt"],
            &first["speaker"],
            &first["turn"],
            &first["at"]
        ),
        (
            &json!("The PARSER works."),
            &json!("agent"),
            &json!(1),
            &json!("1970-01-01T00:00:04.000Z")
        )
    );
    assert_eq!(first["session"]["title"], "Fix the parser");
    let speakers = all["matches"].as_array().unwrap()[..4].iter();
    let speakers: Vec<&Value> = speakers.map(|it| &it["speaker"]).collect();
    assert_eq!(speakers, ["agent", "result", "thinking", "user"]);
    for (filter, expected) in [
        ("agent=one", at("s-1", &[4, 3, 2, 1])),
        ("dir=/elsewhere&speaker=tool", Vec::new()),
        ("dir=/nowhere", Vec::new()),
        ("speaker=thinking&agent=two", at("s-2", &[2])),
        ("agent=two&since=1970-01-01T00:00:03Z", at("s-2", &[4, 3])),
        ("agent=two&until=1970-01-01T00:00:03Z", at("s-2", &[2, 1])),
    ] {
        let found = get(&rig, &format!("/v1/search?q=parser&{filter}")).await;
        assert_eq!(places(&found), expected, "{filter}");
    }
    let (mut paged, mut path) = (Vec::new(), "/v1/search?q=parser&limit=3".to_owned());
    loop {
        let page = get(&rig, &path).await;
        paged.extend(places(&page));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/search?q=parser&limit=3&cursor={next}");
    }
    assert_eq!(paged, places(&all));
    for wrong in ["speaker=me", "since=now", "cursor=x", "until=", "limit=x"] {
        assert_eq!(
            status(&rig, &format!("/v1/search?q=a&{wrong}")).await,
            400,
            "{wrong}"
        );
    }
}

// A daemon indexes what is stored, so that a search need not.
#[tokio::test]
async fn events_are_indexed_in_the_background() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let store = Store::open(&dir.path().join("state")).unwrap();
    store_session(&store, "s-1", "one", turn("done")).await;
    assert_eq!(store.unindexed_events().unwrap(), 4);
    drop(store);
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    let indexed = async {
        while rig.store.unindexed_events().unwrap() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, indexed).await.unwrap();
}

#[tokio::test]
async fn sessions_are_listed_by_text_and_by_what_waits() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    rig.agent(
        "asks",
        "read\ninit\ncontrol-request q Bash {\"command\":\"ls\"}\nwait-control\nread-until-eof",
    );
    let echo = rig.create("echo").await;
    assert_eq!(echo.title.as_deref(), Some("go"), "even while it waits");
    rig.events_until(&echo.id, |event| event["to"] == "idle")
        .await;
    let asks = rig.create("asks").await;
    rig.events_until(&asks.id, |event| event["decision"] == "asked")
        .await;
    store_session(&rig.store, "other-1", "one", turn("done")).await;
    let list = async |query: &str| -> Vec<String> {
        let sessions = rig.client.sessions(query).await.unwrap().sessions;
        sessions.into_iter().map(|it| it.id).collect()
    };
    assert_eq!(list("waiting=true").await, [&*asks.id]);
    assert_eq!(list("waiting=false").await.len(), 3);
    assert_eq!(list("q=FIX+THE").await, ["other-1"]);
    assert_eq!(list("q=elsewhere").await, ["other-1"]);
    assert_eq!(list("q=please").await, [""; 0], "not in the title");
    assert_eq!(list(&format!("q={}", echo.id)).await, [&*echo.id]);
    assert_eq!(list(&format!("q={}", echo.name)).await, [&*echo.id]);
    assert_eq!(list("q=").await.len(), 3);
    assert_eq!(list("dir_contains=ELSE").await, ["other-1"]);
    assert_eq!(list("label_contains=").await.len(), 3);
    assert_eq!(status(&rig, "/v1/sessions?waiting=x").await, 400);
    let asks = get(&rig, &format!("/v1/sessions/{}", asks.id)).await;
    assert_eq!(
        (&asks["pending_approvals"], &asks["driver"], &asks["title"]),
        (&json!(1), &json!("daemon"), &json!("go"))
    );
    let other = get(&rig, "/v1/sessions/other-1").await;
    assert_eq!(
        (
            &other["pending_approvals"],
            &other["driver"],
            &other["last_seq"]
        ),
        (&json!(0), &json!("other"), &json!(4))
    );
}

#[tokio::test]
async fn a_session_has_its_counters_and_how_its_last_turn_ended() {
    let rig = Rig::new().await;
    store_session(&rig.store, "s-1", "claude", turn("done")).await;
    let failed = TurnEnded {
        outcome: Outcome::new(Cause::Auth, "not logged in"),
        text: String::new(),
        structured: None,
        usage: None,
    };
    let start = turn("").into_iter().take(1);
    let failed: Vec<EventKind> = start.clone().chain([failed.into()]).collect();
    store_session(&rig.store, "s-2", "codex", failed).await;
    store_session(&rig.store, "s-3", "unknown", start.collect()).await;
    let done = get(&rig, "/v1/sessions/s-1").await;
    assert_eq!(
        (
            &done["usage"]["input"],
            &done["usage"]["output"],
            &done["usage"]["tokens"]
        ),
        (&json!(3), &json!(4), &json!(7))
    );
    assert_eq!(
        done["last_turn"],
        json!({"status": "success", "cause": "completed"})
    );
    let failed = get(&rig, "/v1/sessions/s-2").await;
    assert_eq!(
        failed["last_turn"],
        json!({"status": "failed", "cause": "auth"})
    );
    let running = get(&rig, "/v1/sessions/s-3").await;
    assert_eq!(
        (running.get("last_turn"), &running["steer"]),
        (None, &json!(false))
    );
    let steers = |name: &str| {
        let agent = ostler::Agents::builtin().get(name).unwrap();
        json!(agent.about().capabilities.steer)
    };
    assert_eq!(
        (&done["steer"], &failed["steer"]),
        (&steers("claude"), &steers("codex"))
    );
}

#[tokio::test]
async fn usage_is_split_and_limited_in_time() {
    let rig = Rig::new().await;
    store_session(&rig.store, "s-1", "one", turn("done")).await;
    store_session(&rig.store, "s-2", "two", turn("done")).await;
    let usage = get(&rig, "/v1/usage?by=day&split=agent").await;
    assert_eq!(
        (&usage["by"], &usage["split"]),
        (&json!("day"), &json!("agent"))
    );
    let day = &usage["groups"][0];
    assert_eq!(
        (&day["key"], &day["turns"]),
        (&json!("1970-01-01"), &json!(2))
    );
    assert_eq!(day["usage"]["output"], 8);
    let parts = day["parts"].as_array().unwrap().iter();
    let parts: Vec<_> = parts
        .map(|part| (&part["key"], &part["sessions"], &part["usage"]["input"]))
        .collect();
    let (one, three) = (json!(1), json!(3));
    assert_eq!(
        parts,
        [(&json!("one"), &one, &three), (&json!("two"), &one, &three)]
    );
    assert_eq!(usage["total"]["usage"]["input"], 6);
    assert!(usage["total"].get("parts").is_none());
    let plain = get(&rig, "/v1/usage?by=day").await;
    assert!(plain.get("split").is_none() && plain["groups"][0].get("parts").is_none());
    let west = get(&rig, "/v1/usage?by=day&tz=-01:00").await;
    assert_eq!(west["groups"][0]["key"], "1969-12-31");
    for tz in ["+14:00", "%2B14:00", "Z"] {
        let east = get(&rig, &format!("/v1/usage?by=day&tz={tz}")).await;
        assert_eq!(east["groups"][0]["key"], "1970-01-01", "{tz}");
    }
    let none = get(&rig, "/v1/usage?until=1970-01-01T00:00:01Z").await;
    assert_eq!(
        (&none["total"]["turns"], &none["groups"]),
        (&json!(0), &json!([]))
    );
    for wrong in ["split=x", "by=model&split=model", "tz=2", "until=x"] {
        assert_eq!(
            status(&rig, &format!("/v1/usage?{wrong}")).await,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn sessions_are_listed_by_directory() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let here = rig.create("echo").await;
    let there = "00000000-0000-4000-8000-000000000001";
    store_session(&rig.store, there, "claude", turn("hi")).await;
    let work = rig.path("work").canonicalize().unwrap();
    let list = async |dir: &str| {
        let page = rig.client.sessions(&format!("all=true&dir={dir}")).await;
        let sessions = page.unwrap().sessions.into_iter();
        sessions.map(|session| session.id).collect::<Vec<String>>()
    };
    assert_eq!(list(work.to_str().unwrap()).await, [here.id]);
    assert_eq!(list("/elsewhere").await, [there]);
    assert_eq!(list("/else").await, [""; 0]);
}
