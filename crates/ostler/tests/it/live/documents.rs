//! An agent that works silently and prints one document at its end. Anything else it prints has a
//! defined outcome too.

use ostler::event::Started;
use ostler::{Agents, Cause, EventKind, Session};

use crate::rig::{Rig, Seen, assert_nothing_left, finish, finish_after, read_until};

fn start(rig: &Rig) -> Session {
    Agents::builtin()
        .get("openclaw")
        .unwrap()
        .start(&rig.host, rig.spec.clone())
        .unwrap()
}

async fn run(verbs: &str) -> Seen {
    let seen = finish(start(&Rig::new(format!("dump-stdin $DIR/stdin\n{verbs}")))).await;
    assert_eq!(seen.turns().len(), 1, "{:#?}", seen.0);
    assert_eq!(seen.notices("silent_until_done").len(), 1);
    assert_nothing_left(&seen.0[0].session);
    seen
}

fn started(seen: &Seen) -> Vec<&Started> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::Started(it) = kind {
                Some(&**it)
            } else {
                None
            }
        })
        .collect()
}

const DOCUMENT: &str = "print {\nprint   \"ok\": true,\nprint   \"status\": \"ok\",\nprint   \"final\": \"Hello.\",\n\
                        print   \"sessionId\": \"one\"\nprint }\n";

// Its stderr is noisy even on success: it is neither an event nor a reason to fail. S2-14
#[tokio::test]
async fn a_document_among_noise_is_the_answer() {
    let seen = run(&format!(
        "stderr-flood 300000\nstderr fetch failed\n{DOCUMENT}exit 0"
    ))
    .await;
    assert_eq!(
        (seen.turn().text.as_str(), seen.replies()),
        ("Hello.", vec!["Hello."])
    );
    assert_eq!(
        (seen.outcome().cause, seen.unreadable().len()),
        (Cause::Completed, 0),
        "{:?}",
        seen.outcome()
    );
    assert!(
        !seen
            .0
            .iter()
            .any(|event| event.to_json().contains("fetch failed")),
        "noise is no event"
    );
    let natives: Vec<_> = started(&seen)
        .iter()
        .map(|it| it.native_session.as_deref())
        .collect();
    assert_eq!(natives, [None, Some("one")]);
}

#[tokio::test]
async fn its_own_limit_on_time_is_a_limit_on_time() {
    for verbs in [
        "exit 2",
        "print {\"ok\": false, \"status\": \"timeout\", \"error\": {\"kind\": \"timeout\"}}\nexit 2",
    ] {
        let seen = run(verbs).await;
        assert_eq!(
            seen.outcome().cause,
            Cause::WallLimit,
            "{:?}",
            seen.outcome()
        );
        assert!(
            seen.outcome()
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains("timeout"))
        );
        assert_eq!(
            (seen.turn().text.as_str(), seen.ended().exit_code),
            ("", Some(2))
        );
    }
}

#[tokio::test]
async fn output_that_is_not_a_document_is_the_answer() {
    let seen = run("print Hello,\nprint {this} is it.\nexit 0").await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "Hello,\n{this} is it.")
    );
    assert_eq!(seen.notices("not_json").len(), 1);
}

#[tokio::test]
async fn a_failure_in_the_document_is_the_ending_and_no_answer() {
    let error = r#"{"ok": false, "status": "error", "final": "", "payloads": [{"text": "a/b failed", "isError": true}], "error": {"message": "a/b failed (HTTP 401).", "kind": "exception"}}"#;
    let seen = run(&format!("print {error}\nexit 1")).await;
    let detail = seen.outcome().detail.clone().unwrap();
    assert_eq!(
        (seen.outcome().cause, detail.http_status),
        (Cause::Auth, Some(401))
    );
    assert_eq!(
        (detail.native.as_deref(), seen.replies().len()),
        (Some("exception"), 0)
    );
}

// The outcome's detail has the end of stderr, and only the end.
#[tokio::test]
async fn without_a_document_the_end_of_stderr_explains_it() {
    let seen = run("stderr-flood 300000\nstderr Error: Unknown model: x/y\nexit 1").await;
    assert_eq!(
        seen.outcome().cause,
        Cause::BadRequest,
        "{:?}",
        seen.outcome()
    );
    let stderr = seen
        .outcome()
        .detail
        .as_ref()
        .unwrap()
        .stderr
        .as_ref()
        .unwrap();
    assert!(
        stderr.contains("Unknown model: x/y") && stderr.len() < 100_000,
        "{}",
        stderr.len()
    );
}

// P2, P4
#[tokio::test]
async fn killed_in_the_middle_of_its_document_it_has_died() {
    let seen = run("print {\nprint   \"ok\": true,\ndie-by 9").await;
    assert_eq!(
        seen.outcome().cause,
        Cause::AgentDied,
        "{:?}",
        seen.outcome()
    );
    assert_eq!(seen.outcome().detail.as_ref().unwrap().signal, Some(9));
    assert_eq!(started(&seen).len(), 1, "the agent is identified anyway");
}

#[tokio::test]
async fn interrupted_in_its_silence_it_ends() {
    let rig = Rig::new("hang").grace_ms(200);
    let mut session = start(&rig);
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Started(_))).await;
    session.interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(
        seen.outcome().cause,
        Cause::Interrupted,
        "{:?}",
        seen.outcome()
    );
}
