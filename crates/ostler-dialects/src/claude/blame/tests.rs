//! Table of every observed way for a turn to end.

use ostler_core::dialect::Exit;

use super::*;

fn end<'a>() -> Ending<'a> {
    Ending {
        subtype: "success",
        is_error: true,
        terminal: "api_error",
        stop: "stop_sequence",
        status: None,
        api_error: "",
        text: String::new(),
        interrupted: false,
        denied: Vec::new(),
        denials: Denials::Fail,
        has_policy: false,
        resets_at: None,
    }
}

// P43: each form of a result maps to one cause; a success with `is_error` is not a success. S1-23,
// S1-24.
#[test]
#[expect(clippy::too_many_lines, reason = "one flat table")]
fn every_form_of_result_has_its_cause() {
    let ok = || Ending {
        is_error: false,
        terminal: "completed",
        stop: "end_turn",
        ..end()
    };
    let cut = |subtype, terminal| Ending {
        subtype,
        terminal,
        stop: "tool_use",
        ..end()
    };
    let api = |api_error, status| Ending {
        api_error,
        status,
        ..end()
    };
    let text = |text: &str| Ending {
        text: text.into(),
        subtype: "error_during_execution",
        terminal: "",
        stop: "",
        ..end()
    };
    let table = [
        (ok(), Cause::Completed),
        (
            Ending {
                terminal: "",
                stop: "",
                ..ok()
            },
            Cause::Completed,
        ), // a local command such as /compact
        (
            Ending {
                stop: "refusal",
                ..ok()
            },
            Cause::Refused,
        ),
        (
            Ending {
                stop: "max_tokens",
                ..ok()
            },
            Cause::OutputLimit,
        ),
        (
            Ending {
                stop: "refusal",
                api_error: "invalid_request",
                ..end()
            },
            Cause::Refused,
        ),
        (
            Ending {
                denied: vec!["Bash".into()],
                ..ok()
            },
            Cause::Denied,
        ),
        (
            Ending {
                denied: vec!["Bash".into()],
                denials: Denials::Tolerate,
                ..ok()
            },
            Cause::Completed,
        ),
        (api("authentication_failed", Some(401)), Cause::Auth),
        (api("authentication_failed", None), Cause::Auth),
        (api("", Some(401)), Cause::Auth),
        (api("", Some(403)), Cause::Auth),
        (api("rate_limit", Some(429)), Cause::RateLimit),
        (api("", Some(429)), Cause::RateLimit),
        (api("billing_error", None), Cause::RateLimit),
        (api("server_error", Some(529)), Cause::Overloaded),
        (api("overloaded", None), Cause::Overloaded),
        (api("server_error", Some(500)), Cause::ServerError),
        (api("server_error", None), Cause::ServerError),
        (api("connection_failed", None), Cause::Network),
        (api("unknown", Some(400)), Cause::BadRequest),
        (api("model_not_found", Some(404)), Cause::BadRequest),
        (api("max_output_tokens", None), Cause::OutputLimit),
        (end(), Cause::Network),
        (
            Ending {
                text: "API Error: 500 Connection error".into(),
                ..end()
            },
            Cause::ServerError,
        ),
        (
            Ending {
                text: "API Error: Connection error".into(),
                ..end()
            },
            Cause::Network,
        ),
        (cut("error_max_turns", "max_turns"), Cause::TurnLimit),
        (
            cut("error_max_budget_usd", "budget_exhausted"),
            Cause::Budget,
        ),
        (
            cut(
                "error_max_structured_output_retries",
                "structured_output_retry_exhausted",
            ),
            Cause::Protocol,
        ),
        (
            cut("error_during_execution", "aborted_streaming"),
            Cause::Interrupted,
        ),
        (
            cut("error_during_execution", "aborted_tools"),
            Cause::Interrupted,
        ),
        (
            Ending {
                interrupted: true,
                ..cut("error_during_execution", "")
            },
            Cause::Interrupted,
        ),
        (cut("error_during_execution", ""), Cause::Protocol),
        (
            text("No conversation found with session ID: x"),
            Cause::BadRequest,
        ),
        (text("Not logged in · Please run /login"), Cause::Auth),
    ];
    for (ending, cause) in table {
        let outcome = of_result(&ending);
        assert_eq!(outcome.cause, cause, "{ending:?}");
        let no_hint = matches!(cause, Cause::Completed | Cause::Interrupted);
        assert_eq!(outcome.hint.is_none(), no_hint, "{ending:?}");
    }
}

// S4-3
#[test]
fn auth_failure_has_a_hint() {
    let outcome = of_result(&Ending {
        text: "Invalid API key · Fix external API key".into(),
        status: Some(401),
        ..end()
    });
    assert_eq!(outcome.message, "Invalid API key · Fix external API key");
    let hint = outcome.hint.unwrap();
    assert!(
        hint.contains("claude auth login") && hint.contains("API key"),
        "{hint}"
    );
    assert_eq!(outcome.detail.unwrap().http_status, Some(401));
}

#[test]
fn rate_limit_includes_the_reset_time() {
    let resets_at = Some("2026-11-15T20:00:00.000Z".to_owned());
    let outcome = of_result(&Ending {
        status: Some(429),
        resets_at: resets_at.clone(),
        ..end()
    });
    assert_eq!(outcome.detail.unwrap().resets_at, resets_at);
}

// S3-32: what claude 2.1.325 writes to stderr when it fails to start.
#[test]
fn stderr_explains_a_failed_start() {
    for (stderr, cause) in [
        (
            "error: unknown option '--nope'\n(Did you mean --name?)\n",
            Some(Cause::BadRequest),
        ),
        (
            "Error: Session ID 123e4567-e89b-42d3-a456-426614174000 is already in use.\n",
            Some(Cause::BadRequest),
        ),
        (
            "No conversation found with session ID: x\n",
            Some(Cause::BadRequest),
        ),
        (
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security \
             reasons\n",
            Some(Cause::BadRequest),
        ),
        (
            "Error: Invalid MCP configuration:\nMCP config file not found: /nope.json\n",
            Some(Cause::BadRequest),
        ),
        (
            "Error: Settings file not found: /nope.json\n",
            Some(Cause::BadRequest),
        ),
        ("Invalid API key · Please run /login\n", Some(Cause::Auth)),
        (
            "Error: listen EADDRINUSE: address is already in use :::8080\n",
            None,
        ),
        ("Session ID: x\nthe port is already in use\n", None),
        ("Segmentation fault\n", None),
        ("", None),
    ] {
        let exit = Exit {
            code: Some(1),
            signal: None,
            stderr: stderr.into(),
        };
        assert_eq!(BLAME.of_exit(&exit).map(|o| o.cause), cause, "{stderr}");
        assert_eq!(
            BLAME.of_exit(&Exit {
                signal: Some(9),
                code: None,
                ..exit.clone()
            }),
            None
        );
    }
}

#[test]
fn policy_denial_hint_names_the_policy_flag() {
    let denied = Ending {
        is_error: false,
        terminal: "completed",
        stop: "end_turn",
        denied: vec!["Bash".into()],
        ..end()
    };
    let hint = |end: Ending<'_>| of_result(&end).hint.unwrap();
    assert!(
        hint(Ending {
            has_policy: true,
            ..denied
        })
        .starts_with("Allow the tools by a rule (--permissions")
    );
    let denied = Ending {
        is_error: false,
        terminal: "completed",
        stop: "end_turn",
        denied: vec!["Bash".into()],
        ..end()
    };
    assert!(hint(denied).starts_with("Allow the tools (--allowed-tools)"));
}

#[test]
fn no_message_hides_another() {
    crate::blame::testing::check(&BLAME);
}
