//! Messages to sessions that wait to be started.

use ostler_daemon::api::{CreateSession, SendMessage, SessionView, WhenBusy};
use serde_json::Value;

use crate::queue::at_most;
use crate::rig::{ECHO, PATIENCE, Rig, assert_complete, cause, of_type};

const JSON: &str = "Content-Type: application/json";

fn message(text: &str) -> SendMessage {
    SendMessage {
        text: text.to_owned(),
        when_busy: WhenBusy::Queue,
    }
}

/// Starts a daemon for one session at a time, one that runs, and one that waits.
async fn waiting() -> (Rig, SessionView, SessionView) {
    let rig = Rig::with(at_most(1)).await;
    rig.agent("echo", ECHO);
    let first = rig.create("echo").await;
    let second = rig.create("echo").await;
    assert_eq!(second.status, "CREATED");
    (rig, first, second)
}

fn prompts(events: &[Value]) -> Vec<&str> {
    let turns = of_type(events, "turn_started").into_iter();
    turns.filter_map(|turn| turn["prompt"].as_str()).collect()
}

#[tokio::test]
async fn they_are_delivered_in_order_after_the_first_message() {
    let (rig, first, second) = waiting().await;
    rig.client.send(&second.id, &message("one")).await.unwrap();
    // A repeated request takes effect once.
    let path = format!("POST /v1/sessions/{}/messages", second.id);
    let key = [JSON, "Idempotency-Key: two"];
    for is_repeated in [false, true] {
        let answer = rig.tcp(&path, &key, r#"{"text":"two"}"#).await;
        assert_eq!(answer.status(), 202, "{}", answer.0);
        let replayed = answer.header("idempotent-replayed").is_some();
        assert_eq!(replayed, is_repeated);
    }
    let steered = SendMessage {
        when_busy: WhenBusy::Steer,
        ..message("three")
    };
    rig.client.send(&second.id, &steered).await.unwrap();
    let refused = SendMessage {
        when_busy: WhenBusy::Refuse,
        ..message("never")
    };
    assert_eq!(
        cause(rig.client.send(&second.id, &refused).await),
        "refused"
    );
    rig.client.stop(&first.id).await.unwrap();
    // The result waits for all of them.
    let result = rig.client.result(&second.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (4, true));
    rig.client.send(&second.id, &message("four")).await.unwrap();
    rig.client.result(&second.id, PATIENCE).await.unwrap();
    rig.client.stop(&second.id).await.unwrap();
    let events = rig.all_events(&second.id).await;
    assert_eq!(prompts(&events), ["go", "one", "two", "three", "four"]);
    assert_complete(&events);
}

#[tokio::test]
async fn one_is_the_first_of_a_session_without_a_prompt() {
    let (rig, first, _) = waiting().await;
    let request = CreateSession {
        prompt: None,
        ..rig.request("echo")
    };
    let third = rig.client.create(&request).await.unwrap();
    rig.client.send(&third.id, &message("hello")).await.unwrap();
    let page = rig.client.sessions("state=created").await.unwrap().sessions;
    for session in page.iter().chain([&first]).filter(|it| it.id != third.id) {
        rig.client.stop(&session.id).await.unwrap();
    }
    let result = rig.client.result(&third.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (1, true));
    rig.client.stop(&third.id).await.unwrap();
    assert_eq!(prompts(&rig.all_events(&third.id).await), ["hello"]);
}

#[tokio::test]
async fn they_survive_the_daemon() {
    let (rig, first, second) = waiting().await;
    rig.events_until(&first.id, |event| event["type"] == "turn_ended")
        .await;
    rig.client.send(&second.id, &message("one")).await.unwrap();
    let dir = rig.stop().await;
    let rig = Rig::in_dir(dir, at_most(1)).await;
    assert_eq!(rig.recovered.queued, 1);
    let result = rig.client.result(&second.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (2, true));
    rig.client.stop(&second.id).await.unwrap();
    assert_eq!(prompts(&rig.all_events(&second.id).await), ["go", "one"]);
}

#[tokio::test]
async fn a_session_that_is_stopped_refuses_them() {
    let (rig, _first, second) = waiting().await;
    for text in ["one", "two"] {
        rig.client.send(&second.id, &message(text)).await.unwrap();
    }
    rig.client.stop(&second.id).await.unwrap();
    let events = rig.all_events(&second.id).await;
    assert_complete(&events);
    let refused = of_type(&events, "refused");
    assert_eq!((refused.len(), events.len()), (2, 3), "{events:#?}");
    for refused in refused {
        assert_eq!(
            (&refused["request"], &refused["code"]),
            (&"send".into(), &"ending".into())
        );
    }
    assert_eq!(rig.store.queued_messages(&second.id).unwrap(), [""; 0]);
    let late = rig.client.send(&second.id, &message("late")).await;
    assert_eq!(cause(late), "session_ended");
}

#[tokio::test]
async fn a_session_that_cannot_start_refuses_them() {
    let (rig, first, second) = waiting().await;
    rig.client.send(&second.id, &message("one")).await.unwrap();
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    rig.client.stop(&first.id).await.unwrap();
    let events = rig.all_events(&second.id).await;
    assert_complete(&events);
    assert!(!of_type(&events, "refused").is_empty(), "{events:#?}");
}

#[tokio::test]
async fn they_are_limited_and_deleted_with_the_session() {
    let (rig, _first, second) = waiting().await;
    for number in 0..100 {
        let text = number.to_string();
        rig.client.send(&second.id, &message(&text)).await.unwrap();
    }
    let more = rig.client.send(&second.id, &message("more")).await;
    assert_eq!(cause(more), "refused");
    let path = format!("DELETE /v1/sessions/{}", second.id);
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    assert_eq!(rig.tcp(&path, &[&code], "").await.status(), 204);
    assert_eq!(rig.store.queued_messages(&second.id).unwrap(), [""; 0]);
    assert_eq!(
        cause(rig.client.session(&second.id).await),
        "unknown_session"
    );
}
