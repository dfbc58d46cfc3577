//! Compaction of a conversation that gets too long for the model.

use ostler_core::event::EventKind;
use ostler_core::outcome::{Cause, Outcome, Reason};
use serde_json::json;

use super::harness::Harness;

// S2-19
#[test]
fn full_context_is_compacted_with_a_notice() {
    let mut harness = Harness::new(&[("context_window", "2000")]);
    harness.counts = true;
    harness.prompt("go");
    for n in 0..8 {
        let id = n.to_string();
        harness.calls(&[(&id, "read_file", "{}")]);
        harness.result(&id, &"x".repeat(1500));
        if harness.notices().contains(&"context_shortened") {
            break;
        }
    }
    assert!(
        harness.notices().contains(&"context_shortened"),
        "{:?}",
        harness.notices()
    );
    // Shortening is not enough in the long run.
    for n in 10..40 {
        if harness.last_request().len() == 1 {
            break; // the prompt for a summary
        }
        let id = n.to_string();
        harness.calls(&[(&id, "read_file", "{}")]);
        harness.result(&id, &"y".repeat(2500));
    }
    let question = harness.last_request()[0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        question.contains("Summarise") && question.contains("USER: go"),
        "{question}"
    );
    let count_before = harness.events.len();
    harness.text("They read files.");
    assert!(harness.notices().contains(&"context_summarised"));
    let texts = harness.events[count_before..]
        .iter()
        .filter(|kind| matches!(kind, EventKind::Text(_)))
        .count();
    assert_eq!(texts, 0, "a summary is not an answer");
    assert!(
        harness.last_request()[1]["content"]
            .as_str()
            .unwrap()
            .contains("They read files."),
        "{:?}",
        harness.last_request()
    );
    harness.text("done");
    assert_eq!(harness.cause(), Cause::Completed);
}

#[test]
fn overlong_conversation_is_compacted_and_retried() {
    let too_long = json!({"ostler": {"failed": {"kind": "status", "status": 400, "message": "Bad Request",
        "body": "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}"}}});
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    for n in 0..4 {
        let id = n.to_string();
        harness.calls(&[(&id, "read_file", "{}")]);
        harness.result(&id, &"x".repeat(5000));
    }
    harness.feed(&too_long);
    assert_eq!(harness.notices(), ["context_shortened"]);
    harness.feed(&too_long);
    assert_eq!(harness.last_request().len(), 1, "a summary is requested");
    harness.text("short");
    harness.feed(&too_long);
    assert_eq!(
        harness.cause(),
        Cause::BadRequest,
        "then nothing else can be done"
    );
}

// The reason decides, not the sentence.
#[test]
fn a_model_says_by_its_reason_that_the_conversation_is_too_long() {
    for (reason, message, notices) in [
        (
            Some(Reason::ContextTooLong),
            "Quoi?",
            &["context_shortened"][..],
        ),
        (None, "The prompt is too long.", &[]),
    ] {
        let mut outcome = Outcome::new(Cause::BadRequest, message);
        outcome.detail.get_or_insert_default().reason = reason;
        let mut harness = Harness::new(&[]);
        harness.prompt("go");
        for n in 0..4 {
            let id = n.to_string();
            harness.calls(&[(&id, "read_file", "{}")]);
            harness.result(&id, &"x".repeat(5000));
        }
        let failed = json!({"kind": "status", "message": message, "ended": outcome});
        harness.feed(&json!({"ostler": {"failed": failed}}));
        assert_eq!(harness.notices(), notices, "{message}");
    }
}

#[test]
fn empty_summary_removes_nothing() {
    let mut harness = Harness::new(&[("context_window", "2000")]);
    harness.counts = true;
    harness.prompt("IMPORTANT: do X");
    for n in 0..4 {
        let id = n.to_string();
        harness.calls(&[(&id, "read_file", "{}")]);
        harness.result(&id, &"x".repeat(4000));
        if harness.last_request().len() == 1 {
            break;
        }
    }
    assert_eq!(harness.last_request().len(), 1, "a summary is requested");
    harness.feed(&json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}));
    harness.finish("stop");
    assert!(
        harness.notices().contains(&"context_not_summarised"),
        "{:?}",
        harness.notices()
    );
    assert_eq!(harness.last_request()[1]["content"], "IMPORTANT: do X");
}

#[test]
fn summary_includes_the_task_verbatim() {
    let mut harness = Harness::new(&[("context_window", "2000")]);
    harness.counts = true;
    harness.prompt("IMPORTANT: do X");
    for n in 0..40 {
        let id = n.to_string();
        harness.calls(&[(&id, "read_file", "{}")]);
        harness.result(&id, &"x".repeat(4000));
        if harness.last_request().len() == 1 {
            harness.text("They read files.");
            let first = harness.last_request()[1]["content"].to_string();
            assert!(
                first.contains("They read files.") && first.contains("IMPORTANT: do X"),
                "{first}"
            );
        }
    }
    assert!(
        harness
            .notices()
            .iter()
            .filter(|code| **code == "context_summarised")
            .count()
            > 1
    );
}

#[test]
fn absurd_token_counts_do_not_overflow() {
    let mut harness = Harness::new(&[("context_window", "2000")]);
    harness.prompt("go");
    let most = u64::MAX;
    harness.feed(
        &json!({"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": most, "completion_tokens": most}}),
    );
    harness.end_answer();
    assert_eq!(harness.cause(), Cause::Completed);
}
