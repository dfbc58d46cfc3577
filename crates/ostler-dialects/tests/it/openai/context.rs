//! What is done when a conversation grows too long for the model.

use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use serde_json::json;

use super::stage::Stage;

// S2-19
#[test]
fn a_full_window_is_made_room_in_and_said_so() {
    let mut stage = Stage::new(&[("context_window", "2000")]);
    stage.counts = true;
    stage.say("go");
    for n in 0..8 {
        let id = n.to_string();
        stage.calls(&[(&id, "read_file", "{}")]);
        stage.result(&id, &"x".repeat(1500));
        if stage.notices().contains(&"context_shortened") {
            break;
        }
    }
    assert!(
        stage.notices().contains(&"context_shortened"),
        "{:?}",
        stage.notices()
    );
    // Shortening is not enough for ever.
    for n in 10..40 {
        if stage.asked().len() == 1 {
            break; // the question for a summary
        }
        let id = n.to_string();
        stage.calls(&[(&id, "read_file", "{}")]);
        stage.result(&id, &"y".repeat(2500));
    }
    let question = stage.asked()[0]["content"].as_str().unwrap().to_owned();
    assert!(
        question.contains("Summarise") && question.contains("USER: go"),
        "{question}"
    );
    let said_before = stage.events.len();
    stage.text("They read files.");
    assert!(stage.notices().contains(&"context_summarised"));
    let words = stage.events[said_before..]
        .iter()
        .filter(|kind| matches!(kind, EventKind::Text(_)))
        .count();
    assert_eq!(words, 0, "a summary is not an answer");
    assert!(
        stage.asked()[1]["content"]
            .as_str()
            .unwrap()
            .contains("They read files."),
        "{:?}",
        stage.asked()
    );
    stage.text("done");
    assert_eq!(stage.cause(), Cause::Completed);
}

#[test]
fn a_server_that_finds_the_conversation_too_long_is_asked_again_with_less() {
    let too_long = json!({"ostler": {"failed": {"kind": "status", "status": 400, "message": "Bad Request",
        "body": "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}"}}});
    let mut stage = Stage::new(&[]);
    stage.say("go");
    for n in 0..4 {
        let id = n.to_string();
        stage.calls(&[(&id, "read_file", "{}")]);
        stage.result(&id, &"x".repeat(5000));
    }
    stage.hear(&too_long);
    assert_eq!(stage.notices(), ["context_shortened"]);
    stage.hear(&too_long);
    assert_eq!(stage.asked().len(), 1, "a summary is asked for");
    stage.text("short");
    stage.hear(&too_long);
    assert_eq!(
        stage.cause(),
        Cause::BadRequest,
        "and then there is nothing left to do"
    );
}

#[test]
fn a_summary_that_is_none_takes_nothing_away() {
    let mut stage = Stage::new(&[("context_window", "2000")]);
    stage.counts = true;
    stage.say("IMPORTANT: do X");
    for n in 0..4 {
        let id = n.to_string();
        stage.calls(&[(&id, "read_file", "{}")]);
        stage.result(&id, &"x".repeat(4000));
        if stage.asked().len() == 1 {
            break;
        }
    }
    assert_eq!(stage.asked().len(), 1, "a summary is asked for");
    stage.hear(&json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}));
    stage.finish("stop");
    assert!(
        stage.notices().contains(&"context_not_summarised"),
        "{:?}",
        stage.notices()
    );
    assert_eq!(stage.asked()[1]["content"], "IMPORTANT: do X");
}

#[test]
fn a_summary_keeps_the_task_in_the_user_s_words() {
    let mut stage = Stage::new(&[("context_window", "2000")]);
    stage.counts = true;
    stage.say("IMPORTANT: do X");
    for n in 0..40 {
        let id = n.to_string();
        stage.calls(&[(&id, "read_file", "{}")]);
        stage.result(&id, &"x".repeat(4000));
        if stage.asked().len() == 1 {
            stage.text("They read files.");
            let first = stage.asked()[1]["content"].to_string();
            assert!(
                first.contains("They read files.") && first.contains("IMPORTANT: do X"),
                "{first}"
            );
        }
    }
    assert!(
        stage
            .notices()
            .iter()
            .filter(|code| **code == "context_summarised")
            .count()
            > 1
    );
}
