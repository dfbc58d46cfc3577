//! A handshake that fails is told, whether somebody waits for it or not.

use ostler_core::dialect::{Exit, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::acp::{GEMINI, OPENCODE};
use serde_json::json;

use super::stage::{Stage, hello};

const CODE: &str = "handshake_failed";

type Fails = fn(&mut Stage);

// An editor or a chat begins without a message: what fails then is told at once, and the first turn ends with it.
#[test]
fn a_handshake_that_fails_before_a_turn_is_told_and_ends_the_next() {
    let auth: Fails = |stage| {
        stage.answer(1, &hello(&json!({})));
        stage.fail(2, -32000, "Authentication required");
    };
    let version: Fails = |stage| stage.answer(1, &json!({"protocolVersion": 7}));
    for (fails, cause) in [(auth, Cause::Auth), (version, Cause::Protocol)] {
        let mut stage = Stage::begun(&GEMINI, &Spec::default());
        fails(&mut stage);
        let [told] = stage.notices(CODE)[..] else {
            panic!("{:?}", stage.outs)
        };
        let told = told.to_owned();
        assert!(
            stage.over().is_none() && told.starts_with("gemini ") && told.contains(cause.as_str()),
            "{told}"
        );
        stage.say(ToAgent::Prompt("hello".into()));
        let outcome = stage.over().unwrap().outcome.clone();
        assert_eq!(outcome.cause, cause);
        assert!(
            told.contains(&outcome.message) && told.contains(outcome.hint.as_deref().unwrap()),
            "{told}"
        );
        assert_eq!(stage.notices(CODE).len(), 1);
        // Where a turn waits for it, its ending says so, and nothing else does.
        let mut stage = Stage::begun(&GEMINI, &Spec::default());
        stage.say(ToAgent::Prompt("hello".into()));
        fails(&mut stage);
        assert_eq!((stage.cause(), stage.notices(CODE).len()), (Some(cause), 0));
    }
}

#[test]
fn an_agent_that_goes_in_the_handshake_is_told() {
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "error: unknown option '--acp'".into(),
    };
    let mut stage = Stage::begun(&OPENCODE, &Spec::default());
    stage.exit(&exit);
    assert!(stage.notices(CODE)[0].contains("--acp"), "{:?}", stage.outs);
    // One that was ended, and one that had its session.
    let mut stage = Stage::begun(&OPENCODE, &Spec::default());
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
