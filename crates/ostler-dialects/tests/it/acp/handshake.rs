//! A failed handshake is reported, whether or not a turn waits for it.

use ostler_core::dialect::{Exit, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::acp::{GEMINI, OPENCODE};
use serde_json::json;

use super::harness::{Harness, hello};

const CODE: &str = "handshake_failed";

type Fails = fn(&mut Harness);

// An editor or a chat starts without a message: a failure is reported at once, and ends the first
// turn.
#[test]
fn handshake_failure_before_a_turn_is_reported_and_ends_the_next_turn() {
    let auth: Fails = |harness| {
        harness.answer(1, &hello(&json!({})));
        harness.fail(2, -32000, "Authentication required");
    };
    let version: Fails = |harness| harness.answer(1, &json!({"protocolVersion": 7}));
    for (fails, cause) in [(auth, Cause::Auth), (version, Cause::Protocol)] {
        let mut harness = Harness::started(&GEMINI, &Spec::default());
        fails(&mut harness);
        let [notice] = harness.notices(CODE)[..] else {
            panic!("{:?}", harness.outs)
        };
        let notice = notice.to_owned();
        assert!(
            harness.turn_result().is_none()
                && notice.starts_with("gemini ")
                && notice.contains(cause.as_str()),
            "{notice}"
        );
        harness.send(ToAgent::Prompt("hello".into()));
        let outcome = harness.turn_result().unwrap().outcome.clone();
        assert_eq!(outcome.cause, cause);
        assert!(
            notice.contains(&outcome.message) && notice.contains(outcome.hint.as_deref().unwrap()),
            "{notice}"
        );
        assert_eq!(harness.notices(CODE).len(), 1);
        // If a turn waits for it, only the outcome of that turn reports the failure.
        let mut harness = Harness::started(&GEMINI, &Spec::default());
        harness.send(ToAgent::Prompt("hello".into()));
        fails(&mut harness);
        assert_eq!(
            (harness.cause(), harness.notices(CODE).len()),
            (Some(cause), 0)
        );
    }
}

#[test]
fn exit_during_the_handshake_is_reported() {
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "error: unknown option '--acp'".into(),
    };
    let mut harness = Harness::started(&OPENCODE, &Spec::default());
    harness.exit(&exit);
    assert!(
        harness.notices(CODE)[0].contains("--acp"),
        "{:?}",
        harness.outs
    );
    // An agent that was terminated, and one that had its session.
    let mut harness = Harness::started(&OPENCODE, &Spec::default());
    harness.exit(&Exit {
        code: None,
        signal: Some(15),
        ..exit.clone()
    });
    assert!(harness.outs.len() == 1 && harness.notices(CODE).is_empty());
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.answer(3, &json!({"stopReason": "end_turn"}));
    harness.exit(&exit);
    assert!(harness.notices(CODE).is_empty());
}
