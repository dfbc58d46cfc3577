//! A failed handshake is reported, whether or not a turn waits for it.

use ostler_core::dialect::{Exit, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::acp::{GEMINI, OPENCODE};
use serde_json::json;

use super::stage::{Stage, hello};

const CODE: &str = "handshake_failed";

type Fails = fn(&mut Stage);

// An editor or a chat starts without a message: a failure is reported at once, and ends the first
// turn.
#[test]
fn handshake_failure_before_a_turn_is_reported_and_ends_the_next_turn() {
    let auth: Fails = |stage| {
        stage.answer(1, &hello(&json!({})));
        stage.fail(2, -32000, "Authentication required");
    };
    let version: Fails = |stage| stage.answer(1, &json!({"protocolVersion": 7}));
    for (fails, cause) in [(auth, Cause::Auth), (version, Cause::Protocol)] {
        let mut stage = Stage::started(&GEMINI, &Spec::default());
        fails(&mut stage);
        let [notice] = stage.notices(CODE)[..] else {
            panic!("{:?}", stage.outs)
        };
        let notice = notice.to_owned();
        assert!(
            stage.over().is_none()
                && notice.starts_with("gemini ")
                && notice.contains(cause.as_str()),
            "{notice}"
        );
        stage.say(ToAgent::Prompt("hello".into()));
        let outcome = stage.over().unwrap().outcome.clone();
        assert_eq!(outcome.cause, cause);
        assert!(
            notice.contains(&outcome.message) && notice.contains(outcome.hint.as_deref().unwrap()),
            "{notice}"
        );
        assert_eq!(stage.notices(CODE).len(), 1);
        // If a turn waits for it, only the outcome of that turn reports the failure.
        let mut stage = Stage::started(&GEMINI, &Spec::default());
        stage.say(ToAgent::Prompt("hello".into()));
        fails(&mut stage);
        assert_eq!((stage.cause(), stage.notices(CODE).len()), (Some(cause), 0));
    }
}

#[test]
fn exit_during_the_handshake_is_reported() {
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "error: unknown option '--acp'".into(),
    };
    let mut stage = Stage::started(&OPENCODE, &Spec::default());
    stage.exit(&exit);
    assert!(stage.notices(CODE)[0].contains("--acp"), "{:?}", stage.outs);
    // An agent that was terminated, and one that had its session.
    let mut stage = Stage::started(&OPENCODE, &Spec::default());
    stage.exit(&Exit {
        code: None,
        signal: Some(15),
        ..exit.clone()
    });
    assert!(stage.outs.len() == 1 && stage.notices(CODE).is_empty());
    let mut stage = Stage::asked(&OPENCODE, &Spec::default());
    stage.answer(3, &json!({"stopReason": "end_turn"}));
    stage.exit(&exit);
    assert!(stage.notices(CODE).is_empty());
}
