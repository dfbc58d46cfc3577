//! The API as a whole: its description, idempotency, conditional requests, metrics.

use ostler_daemon::Embedder;
use serde_json::Value;

use crate::rig::{ECHO, Rig};

/// The description of the API, as it is published.
const PUBLISHED: &str = "../../docs/openapi.json";

#[test]
fn the_published_description_is_current() {
    let current = format!("{:#}\n", ostler_daemon::openapi::document());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PUBLISHED);
    if std::env::var_os("OSTLER_UPDATE").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        published, current,
        "run `OSTLER_UPDATE=1 cargo test -p ostler-daemon` to update {PUBLISHED}"
    );
}

#[tokio::test]
async fn every_described_route_is_served() {
    let rig = Rig::new().await;
    let document = rig.tcp("GET /openapi.json", &[], "").await.body();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    for (path, operations) in paths {
        if path == "/v1/events" {
            continue; // an endless stream
        }
        let path = path.replace("{id}", "00000000-0000-4000-8000-000000000000");
        for method in operations.as_object().unwrap().keys() {
            let start = format!("{} {path}", method.to_uppercase());
            let response = rig.tcp(&start, &[], "").await;
            let cause = &response.body()["cause"];
            assert!(
                cause != "not_found" && cause != "method_not_allowed",
                "{start}"
            );
            assert!(response.status() < 500, "{start}");
        }
    }
}

// S2-33
#[test]
fn the_table_of_problems_is_current() {
    use ostler_daemon::problem::ProblemKind;
    let mut kinds = ProblemKind::ALL.to_vec();
    kinds.sort_by_key(|kind| kind.code());
    let rows = kinds.iter().map(|kind| {
        let (status, code) = (kind.status().as_u16(), kind.code());
        format!("| `{kind}` | {status} | {code} | `OBEY-{code}` | ")
    });
    let page = include_str!("../../../../docs/daemon-problems.md");
    let found = page.lines().filter(|line| line.contains("| `OBEY-"));
    let found = found.map(|line| &line[..=line.rfind("` | ").unwrap() + 3]);
    assert_eq!(found.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
}

// The router cannot list its routes, so the source is read.
#[test]
fn every_served_route_is_described() {
    let source = include_str!("../../src/http.rs");
    let document = ostler_daemon::openapi::document();
    let mut count = 0;
    for route in source.split(".route(").skip(1) {
        let mut words = route.split('"');
        let path = words.nth(1).unwrap();
        if path == "/" || path.starts_with("/assets/") {
            continue; // files of the page
        }
        let handler = words.next().unwrap().trim_start_matches([',', ' ', '\n']);
        let (method, _) = handler.split_once('(').unwrap();
        let described = &document["paths"][path][method];
        assert!(described.is_object(), "{method} {path}");
        count += 1;
    }
    let described = document["paths"].as_object().unwrap().values();
    let described: usize = described.map(|it| it.as_object().unwrap().len()).sum();
    assert_eq!(count, described, "every route was found");
}

#[tokio::test]
async fn a_repeated_request_takes_effect_once() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let (json, key) = ("Content-Type: application/json", "Idempotency-Key: k1");
    let body = serde_json::to_string(&rig.request("echo")).unwrap();
    let create = async || rig.tcp("POST /v1/sessions", &[json, key], &body).await;
    let (first, second) = (create().await, create().await);
    assert_eq!((first.status(), second.status()), (201, 201));
    assert_eq!(first.body(), second.body());
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(
        rig.client
            .sessions("all=true")
            .await
            .unwrap()
            .sessions
            .len(),
        1
    );
    let other = body.replace("\"go\"", "\"stay\"");
    let reused = rig.tcp("POST /v1/sessions", &[json, key], &other).await;
    assert_eq!(reused.status(), 422);

    let id = first.body()["id"].as_str().unwrap().to_owned();
    rig.events_until(&id, |event| event["type"] == "turn_ended")
        .await;
    let path = format!("POST /v1/sessions/{id}/messages");
    for _ in 0..3 {
        let sent = rig
            .tcp(&path, &[json, "Idempotency-Key: k2"], r#"{"text":"once"}"#)
            .await;
        assert_eq!(sent.status(), 202);
    }
    let sent = rig
        .tcp(&path, &[json, "Idempotency-Key: k3"], r#"{"text":"twice"}"#)
        .await;
    assert_eq!(sent.status(), 202);
    let is_last = |event: &Value| event["type"] == "turn_ended" && event["turn"] == 3;
    rig.events_until(&id, is_last).await;
    assert_eq!(rig.client.session(&id).await.unwrap().turns, 3);
    // A request that failed can be repeated.
    for _ in 0..2 {
        let headers = [json, "Idempotency-Key: k4"];
        let bad = rig
            .tcp("POST /v1/sessions", &headers, r#"{"dir":"x"}"#)
            .await;
        assert_eq!(bad.status(), 400);
    }
}

#[tokio::test]
async fn agents_are_probed_once_a_minute_or_on_request() {
    let rig = Rig::new().await;
    let began = rig.embedder.now();
    let mut probes = Vec::new();
    for path in ["/v1/agents", "/v1/agents", "/v1/agents?fresh=true"] {
        let response = rig.tcp(&format!("GET {path}"), &[], "").await;
        assert_eq!(response.status(), 200, "{}", response.0);
        probes.push(
            rig.embedder
                .probes
                .load(std::sync::atomic::Ordering::Relaxed),
        );
    }
    // On a very slow machine, the result may be too old by then.
    if rig.embedder.now().0 - began.0 < 60_000 {
        assert_eq!(probes, [1, 1, 2]);
    }
    assert_eq!(
        rig.tcp("GET /v1/agents?fresh=x", &[], "").await.status(),
        400
    );
}

#[tokio::test]
async fn an_unchanged_session_is_not_sent_again() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    rig.events_until(&session.id, |event| event["to"] == "idle")
        .await;
    let path = format!("GET /v1/sessions/{}", session.id);
    let first = rig.tcp(&path, &[], "").await;
    let tag = first.header("etag").unwrap().to_owned();
    let header = format!("If-None-Match: {tag}");
    assert_eq!(rig.tcp(&path, &[&header], "").await.status(), 304);
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    assert_eq!(rig.tcp(&path, &[&header], "").await.status(), 200);
}

#[tokio::test]
async fn metrics_add_up_tokens_and_cost() {
    let rig = Rig::new().await;
    let result = |tokens: u32, cost: f64| {
        let usage = serde_json::json!({"input_tokens": tokens, "output_tokens": 1});
        let result = serde_json::json!({"type": "result", "subtype": "success", "is_error": false,
            "session_id": "$SESSION", "result": "hi", "usage": usage, "total_cost_usd": cost});
        format!("print {result}")
    };
    // The agent reports its cost since it was started.
    let script = [
        "read-user\ninit\ntext hi",
        &result(10, 0.25),
        "read-user\ntext hi",
        &result(20, 0.75),
        "read-until-eof",
    ];
    rig.agent("costly", &script.join("\n"));
    let session = rig.create("costly").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let more = ostler_daemon::api::SendMessage {
        text: "more".to_owned(),
        when_busy: ostler_daemon::api::WhenBusy::Queue,
    };
    rig.client.send(&session.id, &more).await.unwrap();
    rig.events_until(&session.id, |event| {
        event["type"] == "turn_ended" && event["turn"] == 2
    })
    .await;
    let text = rig.tcp("GET /metrics", &[], "").await.0;
    for line in ["ostler_tokens_total 32", "ostler_cost_usd_total 0.75"] {
        assert!(text.lines().any(|it| it == line), "{text}");
    }
}

#[tokio::test]
async fn metrics_count_sessions_and_turns() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    rig.events_until(&session.id, |event| event["to"] == "idle")
        .await;
    let text = rig.tcp("GET /metrics", &[], "").await.0;
    for line in [
        "ostler_sessions_running 1",
        "ostler_turns_ended_total{cause=\"completed\"} 1",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(rig.tcp("GET /readyz", &[], "").await.status(), 200);
    let usage = rig.tcp("GET /v1/usage?by=agent", &[], "").await.body();
    assert_eq!(usage["total"]["turns"], 1);
    let found = rig.tcp("GET /v1/search?q=GO", &[], "").await.body();
    assert_eq!(found["matches"][0]["session"]["id"], session.id.as_str());
}
