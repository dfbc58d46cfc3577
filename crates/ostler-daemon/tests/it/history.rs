//! History of sessions: pages of events and of transcripts, changes, timelines, documents.

use std::sync::Arc;

use ostler::event::{
    EventKind, Origin, RawJson, Text, TextKind, Timestamp, ToolCall, ToolResult, TurnStarted,
};
use ostler_core::event::Event;
use ostler_store::{Log, LogEntry, NewSession};
use serde_json::{Value, json};

use crate::rig::{ECHO, Rig};

const ID: &str = "11111111-0000-4000-8000-000000000001";

/// Stores a session as another process does.
async fn stored(rig: &Rig, kinds: impl IntoIterator<Item = EventKind>) {
    opened(rig);
    append(rig, 1, kinds).await;
}

fn opened(rig: &Rig) {
    let new = NewSession {
        session: ID.into(),
        agent: "claude".into(),
        dir: "/w".into(),
        at: Timestamp(1_000),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: std::process::id(),
    };
    rig.store.open(&new).unwrap();
}

/// Stores events from the number `first` on.
async fn append(rig: &Rig, first: u64, kinds: impl IntoIterator<Item = EventKind>) {
    let entries: Vec<LogEntry> = (first..)
        .zip(kinds)
        .map(|(seq, kind)| LogEntry {
            event: Event {
                seq,
                at: Timestamp(1_000 * i64::try_from(seq).unwrap()),
                session: ID.into(),
                turn: 1,
                kind,
            },
            raw_offset: 0,
        })
        .collect();
    for chunk in entries.chunks(1_000) {
        rig.store.append(Arc::new(chunk.to_vec())).await.unwrap();
    }
}

fn prompt(text: &str) -> EventKind {
    TurnStarted {
        origin: Origin::Caller,
        prompt: Some(text.into()),
    }
    .into()
}

fn delta(text: &str) -> EventKind {
    Text {
        kind: TextKind::Reply,
        text: text.into(),
        delta: true,
        message: Some("m".into()),
        parent: None,
    }
    .into()
}

fn edit(id: &str, old: &str, new: &str) -> [EventKind; 2] {
    let input = json!({"file_path": "/w/src/a.rs", "old_string": old, "new_string": new});
    let call = ToolCall {
        id: id.into(),
        name: "Edit".into(),
        input: RawJson::of(&input),
        parent: None,
    };
    let result = ToolResult {
        id: id.into(),
        name: Some("Edit".into()),
        ok: true,
        output: "done".into(),
        denied: false,
        content: None,
    };
    [call.into(), result.into()]
}

fn story() -> Vec<EventKind> {
    let mut kinds = vec![prompt("Fix **it**"), delta("I will"), delta(" fix it.")];
    kinds.extend(edit("1", "one", "two"));
    kinds.extend(edit("2", "two", "three"));
    kinds
}

async fn get(rig: &Rig, path: &str) -> Value {
    let response = rig
        .tcp(&format!("GET /v1/sessions/{ID}/{path}"), &[], "")
        .await;
    assert_eq!(response.status(), 200, "{path}: {}", response.0);
    response.body()
}

#[tokio::test]
async fn events_are_paged_in_both_directions() {
    let rig = Rig::new().await;
    stored(&rig, (1..=10).map(|n| delta(&n.to_string()))).await;
    let seqs = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().unwrap();
        events
            .iter()
            .map(|it| it["seq"].as_u64().unwrap())
            .collect()
    };
    for (query, want) in [
        ("limit=3", vec![1, 2, 3]),
        ("after=8", vec![9, 10]),
        ("after=3&limit=2", vec![4, 5]),
        ("before=4", vec![1, 2, 3]),
        ("before=9&limit=2", vec![7, 8]),
        ("before=99&limit=2", vec![9, 10]),
        ("after=5&before=8", vec![6, 7]),
        ("after=10", vec![]),
        ("before=1", vec![]),
    ] {
        let page = get(&rig, &format!("history?{query}")).await;
        assert_eq!(seqs(&page), want, "{query}");
        assert_eq!(page["first"].as_u64(), want.first().copied(), "{query}");
        assert_eq!(page["last"].as_u64(), want.last().copied(), "{query}");
    }
    let page = get(&rig, "history?limit=1").await;
    assert_eq!(
        (&page["events"][0]["type"], &page["events"][0]["text"]),
        (&json!("text"), &json!("1"))
    );
}

#[tokio::test]
async fn a_transcript_condenses_events_and_knows_the_agents_tools() {
    let rig = Rig::new().await;
    stored(&rig, story()).await;
    let page = get(&rig, "transcript").await;
    let items = page["items"].as_array().unwrap();
    let types: Vec<&str> = items
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["prompt", "reply", "tool", "tool"]);
    assert_eq!(items[0]["text"], "Fix **it**");
    assert!(items[0].get("html").is_none());
    assert_eq!(
        (&items[1]["text"], &items[1]["last_seq"]),
        (&json!("I will fix it."), &json!(3))
    );
    assert_eq!(
        (&items[2]["kind"], &items[2]["summary"]),
        (&json!("edit"), &json!("src/a.rs"))
    );
    let hunk = &items[2]["diff"][0]["hunks"][0];
    assert_eq!(
        hunk["lines"],
        json!([{"op": "-", "text": "one"}, {"op": "+", "text": "two"}])
    );
    assert_eq!(
        (&page["first_seq"], &page["last_seq"], &page["complete_to"]),
        (&json!(1), &json!(7), &json!(7))
    );
    assert_eq!(
        (
            &page["has_before"],
            &page["has_after"],
            &page["total_events"]
        ),
        (&json!(false), &json!(false), &json!(7))
    );
    let page = get(&rig, "transcript?before=4&limit=1").await;
    assert_eq!(
        (&page["first_seq"], &page["items"][0]["type"]),
        (&json!(2), &json!("reply"))
    );
    let page = get(&rig, "transcript?around=3&limit=2").await;
    assert!(
        page["first_seq"].as_u64() <= Some(2) && page["last_seq"].as_u64() >= Some(3),
        "{page}"
    );
    // The call is on one page only, with its result.
    let page = get(&rig, "transcript?after=4&limit=5").await;
    assert_eq!(
        (
            page["items"].as_array().unwrap().len(),
            &page["items"][0]["id"]
        ),
        (1, &json!("2"))
    );
    for bad in [
        "transcript?after=1&before=3",
        "transcript?after=x",
        "history?limit=x",
        "export?format=pdf",
        "timeline?x=1",
    ] {
        let response = rig
            .tcp(&format!("GET /v1/sessions/{ID}/{bad}"), &[], "")
            .await;
        assert_eq!(
            (response.status(), &response.body()["cause"]),
            (400, &json!("bad_request")),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_long_message_is_read_page_by_page() {
    let rig = Rig::new().await;
    let deltas = (0..15_000).map(|n| delta(&format!("{n} ")));
    stored(&rig, [prompt("go")].into_iter().chain(deltas)).await;
    let (mut text, mut after, mut pages) = (String::new(), 0, 0);
    loop {
        let page = get(&rig, &format!("transcript?after={after}")).await;
        for item in page["items"].as_array().unwrap() {
            if item["type"] == "reply" {
                assert_eq!(item["continued"] == json!(true), !text.is_empty());
                text.push_str(item["text"].as_str().unwrap());
            }
        }
        (after, pages) = (page["last_seq"].as_u64().unwrap(), pages + 1);
        if page["has_after"] == json!(false) {
            break;
        }
    }
    let want: String = (0..15_000).map(|n| format!("{n} ")).collect();
    assert_eq!((text == want, after), (true, 15_001));
    assert!((3..=4).contains(&pages), "{pages}");
}

#[tokio::test]
async fn changes_and_timeline_cover_the_whole_session() {
    let rig = Rig::new().await;
    stored(&rig, story()).await;
    let changes = get(&rig, "changes").await;
    assert_eq!(
        (&changes["added"], &changes["removed"], &changes["source"]),
        (&json!(1), &json!(1), &json!("events"))
    );
    let file = &changes["files"][0];
    assert_eq!(file["path"], "src/a.rs");
    // Composed: the second edit changes what the first wrote.
    assert_eq!(
        file["hunks"][0]["lines"],
        json!([{"op": "-", "text": "one"}, {"op": "+", "text": "three"}])
    );
    assert!(changes["note"].as_str().unwrap().contains("commands"));
    let timeline = get(&rig, "timeline").await;
    assert_eq!(
        (&timeline["from"], &timeline["to"]),
        (
            &json!("1970-01-01T00:00:01.000Z"),
            &json!("1970-01-01T00:00:07.000Z")
        )
    );
    let spans = timeline["spans"].as_array().unwrap();
    assert_eq!(
        (spans.len(), &spans[0]["label"], &spans[0]["ok"]),
        (2, &json!("Edit src/a.rs"), &json!(true))
    );
    assert_eq!(timeline["turns"][0]["seq"], 1);
}

#[tokio::test]
async fn a_timeline_continues_after_its_last_event() {
    let rig = Rig::new().await;
    stored(&rig, story()).await;
    let before = get(&rig, "timeline").await;
    assert_eq!(get(&rig, "timeline").await, before);
    append(&rig, 8, edit("3", "three", "four")).await;
    let after = get(&rig, "timeline").await;
    assert_eq!(
        (after["spans"].as_array().unwrap().len(), &after["to"]),
        (3, &json!("1970-01-01T00:00:09.000Z"))
    );
    assert_eq!(after["turns"], before["turns"]);
}

#[tokio::test]
async fn documents_are_downloads() {
    let rig = Rig::new().await;
    stored(&rig, story()).await;
    for (format, kind, end) in [
        ("", "text/html; charset=utf-8", "html"),
        ("?format=html", "text/html; charset=utf-8", "html"),
        ("?format=md", "text/markdown; charset=utf-8", "md"),
        ("?format=json", "application/jsonl", "jsonl"),
    ] {
        let response = rig
            .tcp(&format!("GET /v1/sessions/{ID}/export{format}"), &[], "")
            .await;
        assert_eq!(
            (response.status(), response.header("content-type")),
            (200, Some(kind))
        );
        let name = format!("attachment; filename=\"ostler-claude-11111111.{end}\"");
        assert_eq!(response.header("content-disposition"), Some(&*name));
        assert_eq!(response.header("content-security-policy"), Some("sandbox"));
        assert!(
            response.0.contains("Fix **it**") || response.0.contains("Fix \\*\\*it\\*\\*"),
            "{}",
            response.0
        );
    }
    let page = rig
        .tcp(&format!("GET /v1/sessions/{ID}/export"), &[], "")
        .await
        .0;
    assert!(page.contains("id=\"ostler-data\"") && page.contains("default-src 'none'"));
}

#[tokio::test]
async fn a_running_session_has_a_transcript() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let path = format!("GET /v1/sessions/{}/transcript", session.id);
    let page = rig.tcp(&path, &[], "").await.body();
    let items = page["items"].as_array().unwrap();
    let of = |kind: &str| items.iter().find(|it| it["type"] == kind);
    assert_eq!(of("prompt").unwrap()["text"], "go");
    assert_eq!(of("reply").unwrap()["text"], "hi");
    assert!(of("turn_ended").unwrap()["duration_ms"].as_i64().is_some());
    // Not without credentials.
    let host = format!("Host: 127.0.0.1:{}", rig.port);
    assert_eq!(rig.raw(&path, &[&host], "").await.status(), 401);
}
