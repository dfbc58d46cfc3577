//! Documents: one file that loads nothing, runs only the page's script, and contains its data
//! unchanged, whatever the data is.

use std::path::Path;

use ostler_core::event::{
    Event, EventKind, Origin, Text, TextKind, Timestamp, ToolCall, ToolResult, TurnStarted,
};
use ostler_core::raw_json::RawJson;
use ostler_page::export::{self, DATA_ID, SessionDocument};
use ostler_page::tools::ToolContext;
use serde_json::{Value, json};

use crate::hostile::payloads;
use crate::html::{Parsed, parse};

fn event(seq: u64, kind: impl Into<EventKind>) -> Event {
    Event {
        seq,
        at: Timestamp(1_000),
        session: "s".into(),
        turn: 1,
        kind: kind.into(),
    }
}

/// A session in which every text is hostile.
fn document(payload: &str) -> String {
    let mut document = SessionDocument::new(&ToolContext::new(None, Path::new("/w")));
    let prompt = TurnStarted {
        origin: Origin::Caller,
        prompt: Some(payload.into()),
    };
    let reply = Text {
        kind: TextKind::Reply,
        text: payload.into(),
        delta: false,
        message: Some(payload.into()),
        parent: None,
    };
    let call = ToolCall {
        id: "1".into(),
        name: payload.into(),
        input: RawJson::of(&json!({ "command": payload, payload: payload })),
        parent: None,
    };
    let result = ToolResult {
        id: "1".into(),
        name: Some(payload.into()),
        ok: true,
        output: payload.into(),
        denied: false,
        content: None,
    };
    document.push(&event(1, prompt));
    document.push(&event(2, reply));
    document.push(&event(3, call));
    document.push(&event(4, result));
    let data = document.into_data(json!({ "name": payload }), Timestamp(2_000));
    export::html(payload, &data).unwrap()
}

/// Returns the JSON of a document.
fn data(html: &str) -> Value {
    let (_, after) = html.split_once(&format!("id=\"{DATA_ID}\">")).unwrap();
    let (json, _) = after.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

/// Returns the policy, and the contents of all scripts and styles.
fn policy(parsed: &Parsed) -> String {
    let is_policy = |value: Option<&str>| value == Some("Content-Security-Policy");
    let metas = parsed.elements.iter();
    let meta = metas
        .filter(|it| it.name == "meta")
        .find(|it| is_policy(it.attribute("http-equiv")));
    meta.unwrap().attribute("content").unwrap().to_owned()
}

fn hash(content: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(content.as_bytes());
    format!("'sha256-{}'", base64::prelude::BASE64_STANDARD.encode(hash))
}

#[test]
fn a_document_loads_nothing_and_runs_only_the_page() {
    let html = document("hello");
    let parsed = parse(&html);
    let policy = policy(&parsed);
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    for element in &parsed.elements {
        for (name, value) in &element.attributes {
            let is_loading = matches!(&**name, "src" | "href" | "srcset" | "action" | "data");
            let is_inside = value.starts_with("data:") || value.starts_with('#');
            assert!(!is_loading || is_inside, "{element:?}");
        }
    }
    // Every inline script and style is allowed by its hash.
    for (open, close) in [
        ("<script type=\"module\">", "</script>"),
        ("<style>", "</style>"),
    ] {
        let contents: Vec<&str> = html
            .split(open)
            .skip(1)
            .filter_map(|rest| rest.split(close).next())
            .collect();
        assert!(!contents.is_empty());
        for content in contents {
            assert!(policy.contains(&hash(content)), "{open}: {policy}");
        }
    }
    let policy_at = html.find("Content-Security-Policy").unwrap();
    assert!(policy_at < html.find("<style").unwrap() && policy_at < html.find("<script").unwrap());
    assert!(html.find("charset").unwrap() < 1024);
    assert!(html.find(DATA_ID).unwrap() < html.find("<script type=\"module\">").unwrap());
    let data = data(&html);
    assert_eq!(
        (&data["kind"], &data["exported_at"]),
        (&json!("session"), &json!("1970-01-01T00:00:02.000Z"))
    );
    let items = data["transcript"]["items"].as_array().unwrap();
    let types: Vec<&str> = items
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["prompt", "reply", "tool"]);
    assert_eq!(data["timeline"]["spans"][0]["kind"], "tool");
    assert_eq!(data["changes"]["source"], "events");
}

#[test]
fn hostile_data_stays_data() {
    let names = |html: &str| -> Vec<String> {
        let elements = parse(html).elements;
        elements.into_iter().map(|it| it.name).collect()
    };
    let clean = document("hello");
    let structure = names(&clean);
    for payload in payloads() {
        let html = document(&payload);
        // The structure of the document is the same whatever it contains.
        assert_eq!(names(&html), structure, "{payload:?}");
        let data = data(&html);
        assert_eq!(data["session"]["name"], payload);
        let items = &data["transcript"]["items"];
        assert_eq!(items[0]["text"], payload);
        assert_eq!(items[1]["text"], payload);
        assert_eq!(
            (&items[2]["name"], &items[2]["output"]),
            (&json!(payload), &json!(payload))
        );
        assert_eq!(
            html.matches("</script>").count(),
            clean.matches("</script>").count()
        );
    }
}
