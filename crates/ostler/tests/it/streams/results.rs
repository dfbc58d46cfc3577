//! The agent's many ways to end a turn: each maps to one cause. Tokens are counted once.

use ostler::Cause;
use ostler::event::{EventKind, Scope};
use ostler::spec::Denials;

use crate::rig::Rig;

/// A result line; `fields` come after its type.
fn result(fields: &str) -> String {
    format!(
        "print {{\"type\":\"result\",\"total_cost_usd\":0.01,\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}},{fields}}}"
    )
}

// P43
#[tokio::test]
async fn each_shape_of_a_result_is_one_cause() {
    let table: &[(String, Cause)] = &[
        ("result all is well".into(), Cause::Completed),
        (
            "result-error success API Error: 500".into(),
            Cause::ServerError,
        ),
        (
            result(
                r#""subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key""#,
            ),
            Cause::Auth,
        ),
        (
            result(
                r#""subtype":"success","is_error":true,"api_error_status":429,"result":"slow down""#,
            ),
            Cause::RateLimit,
        ),
        (
            result(r#""subtype":"success","is_error":true,"api_error_status":529,"result":"busy""#),
            Cause::Overloaded,
        ),
        (
            result(r#""subtype":"success","is_error":true,"result":"something new""#),
            Cause::Protocol,
        ),
        (
            result(r#""subtype":"success","is_error":false,"stop_reason":"refusal","result":"""#),
            Cause::Refused,
        ),
        (
            result(
                r#""subtype":"success","is_error":false,"stop_reason":"max_tokens","result":"cut""#,
            ),
            Cause::OutputLimit,
        ),
        (
            result(
                r#""subtype":"success","is_error":false,"permission_denials":[{"tool_name":"Bash"}],"result":"x""#,
            ),
            Cause::Denied,
        ),
        (
            "result-error error_max_turns Reached maximum number of turns".into(),
            Cause::TurnLimit,
        ),
        (
            "result-error error_max_budget_usd Reached maximum budget".into(),
            Cause::Budget,
        ),
        (
            "result-error error_during_execution No conversation found with session ID: x".into(),
            Cause::BadRequest,
        ),
        (
            "result-error error_brand_new what is this".into(),
            Cause::Protocol,
        ),
        (
            result(
                r#""subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming""#,
            ),
            Cause::Interrupted,
        ),
    ];
    for (line, cause) in table {
        let seen = Rig::new(format!(
            "read\ninit\ntext said before\n{line}\nread-until-eof"
        ))
        .run()
        .await;
        assert_eq!(
            (seen.turn().outcome.cause, seen.outcome().cause),
            (*cause, *cause),
            "{line}"
        );
        assert!(!seen.outcome().message.is_empty());
        // An error message is not an answer.
        assert!(
            !seen.turn().text.contains("API"),
            "{line}: {}",
            seen.turn().text
        );
    }
}

// P43, S4-7: a result before the process dies takes precedence, whatever the exit code.
#[tokio::test]
async fn a_result_counts_more_than_an_exit_code() {
    let seen = Rig::new("read\ninit\ntext hi\nresult hi\nexit 1")
        .run()
        .await;
    assert_eq!(
        (seen.turn().outcome.cause, seen.ended().exit_code),
        (Cause::Completed, Some(1))
    );
}

// P43: if denials are tolerated, a turn with one is completed.
#[tokio::test]
async fn denials_can_be_tolerated() {
    let line = result(
        r#""subtype":"success","is_error":false,"permission_denials":[{"tool_name":"Bash"}],"result":"fine""#,
    );
    let mut rig = Rig::new(format!("read\ninit\n{line}\nread-until-eof"));
    rig.spec.denials = Denials::Tolerate;
    let seen = rig.run().await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "fine")
    );
}

// S4-45: the end of stderr explains a death.
#[tokio::test]
async fn a_death_is_blamed_on_its_last_words() {
    let rig = Rig::new("read\nstderr Invalid API key · Please run /login\nexit 1");
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Auth);
    assert!(
        seen.outcome()
            .hint
            .as_ref()
            .unwrap()
            .contains("claude auth login")
    );
}

// P21: thinking, text and a tool call of one message each repeat its tokens; the total is the
// result's.
#[tokio::test]
async fn tokens_of_one_message_are_counted_once() {
    let seen = Rig::new(concat!(
        "read\ninit\nthinking hm\ndelta one \ndelta two\ntext one two\ntool-use t1 Bash {}\ntool-use t2 Read {}\n",
        "tool-result t1 ok\ntool-result t2 ok\ntext done\nresult done\nread-until-eof",
    ))
    .run()
    .await;
    let usage = seen.turn().usage.as_ref().unwrap();
    assert_eq!(
        (
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write
        ),
        (Some(100), Some(25), Some(11), Some(7))
    );
    let session = seen.ended().usage.as_ref().unwrap();
    assert_eq!(
        (session.input, session.output, session.cost_usd),
        (usage.input, usage.output, usage.cost_usd)
    );
    let of_session = |kind: &&EventKind| {
        matches!(
            kind,
            EventKind::Usage(usage) if usage.scope == Scope::Session
        )
    };
    assert_eq!(seen.kinds().filter(of_session).count(), 1);
}

// P43: streamed text is not emitted twice; the answer contains it once.
#[tokio::test]
async fn streamed_text_is_not_repeated() {
    let seen =
        Rig::new("read\ninit\ndelta Hel\ndelta lo\ntext Hello\nresult Hello\nread-until-eof")
            .run()
            .await;
    assert_eq!(
        (seen.replies(), seen.turn().text.as_str()),
        (vec!["Hel", "lo"], "Hello")
    );
}
