//! OpenClaw's document, and output without one.

use ostler_core::dialect::{
    Action, Conversation, Exit, FromConversation, Launching, Outbox, ToAgent,
};
use ostler_core::event::{EventKind, TextKind};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::find;

use crate::harness::fixtures;

fn asked() -> (Box<dyn Conversation>, Outbox) {
    let mut conversation = find("openclaw")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    (conversation, out)
}

/// Returns all output for these lines and this exit.
fn outputs(text: &str, code: i32, stderr: &str) -> Vec<FromConversation> {
    let (mut conversation, mut out) = asked();
    text.lines()
        .filter(|line| !line.is_empty())
        .for_each(|line| conversation.on_line(line, &mut out));
    conversation.on_exit(
        &Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        },
        &mut out,
    );
    out.drain().collect()
}

fn ending(all: &[FromConversation]) -> (Cause, Option<&str>) {
    let results: Vec<_> = all
        .iter()
        .filter_map(|out| {
            if let FromConversation::TurnEnded(result) = out {
                Some(result)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(results.len(), 1, "one ending: {all:#?}");
    (results[0].outcome.cause, results[0].text.as_deref())
}

fn notices(all: &[FromConversation], code: &str) -> usize {
    all.iter()
        .filter(|out| {
            matches!(out,
        FromConversation::Event(EventKind::Notice(notice)) if notice.code.as_str() == code)
        })
        .count()
}

#[test]
fn prompt_goes_to_stdin_and_silence_is_announced() {
    let (_, mut out) = asked();
    let all: Vec<FromConversation> = out.drain().collect();
    assert_eq!(
        all[..2],
        [
            FromConversation::Do(Action::Write(b"hello".to_vec())),
            FromConversation::Do(Action::CloseInput)
        ]
    );
    assert_eq!(notices(&all, "silent_until_done"), 1);
}

#[test]
fn a_document_is_a_turn() {
    let text = std::fs::read_to_string(fixtures("openclaw").join("hello/stdout.json")).unwrap();
    let all = outputs(
        &format!("a warning\n{text}"),
        0,
        "noise\n".repeat(1000).as_str(),
    );
    assert_eq!(
        ending(&all),
        (Cause::Completed, Some("Hello from the mock model."))
    );
    assert_eq!(notices(&all, "stdout_noise"), 1);
    // Known fields come first; those from the document follow with it.
    let started: Vec<_> = all
        .iter()
        .filter_map(|out| {
            if let FromConversation::Event(EventKind::Started(it)) = out {
                Some(it)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        (started.len(), started[0].native_session.as_deref()),
        (2, None)
    );
    let started = started.last();
    assert_eq!(started.unwrap().model.as_deref(), Some("mock/gpt-mock"));
    assert_eq!(
        started.unwrap().native_session.as_deref(),
        Some("7bc0ba01-532d-4189-b07a-57974b0cb6e2")
    );
    let Some(FromConversation::TurnEnded(result)) = all.last() else {
        panic!("{all:#?}")
    };
    let usage = &result.usage[0];
    assert_eq!(
        (usage.input, usage.cache_read, usage.output),
        (Some(89), Some(11), Some(25))
    );
    assert_eq!(usage.cost_usd, Some(0.000_139));
}

// S2-14
#[test]
fn output_without_json_is_the_answer() {
    let all = outputs("Hello,\nthis is it.", 0, "");
    assert_eq!(
        ending(&all),
        (Cause::Completed, Some("Hello,\nthis is it."))
    );
    assert_eq!(notices(&all, "not_json"), 1);
    let is_reply = |out: &&FromConversation| {
        matches!(out,
        FromConversation::Event(EventKind::Text(text)) if text.kind == TextKind::Reply)
    };
    assert_eq!(all.iter().filter(is_reply).count(), 1);
}

#[test]
fn failures_have_their_causes() {
    // Documents printed by OpenClaw.
    for (name, code, cause) in [
        ("unauthorized", 1, Cause::Auth),
        ("bad_request", 1, Cause::BadRequest),
        ("timeout", 2, Cause::WallLimit),
    ] {
        let text =
            std::fs::read_to_string(fixtures("openclaw").join(name).join("stdout.json")).unwrap();
        assert_eq!(
            ending(&outputs(&text, code, "")),
            (cause, None),
            "{name}: an error is not an answer"
        );
    }
    assert_eq!(
        ending(&outputs(
            "{\n  \"status\": \"timeout\",\n  \"final\": \"half\"\n}",
            2,
            ""
        )),
        (Cause::WallLimit, Some("half"))
    );
    assert_eq!(ending(&outputs("", 2, "")).0, Cause::WallLimit);
    assert_eq!(ending(&outputs("", 0, "")).0, Cause::Protocol);
    assert_eq!(
        ending(&outputs(
            "",
            1,
            "(node:1) warning\nError: Unknown model: a/b"
        ))
        .0,
        Cause::BadRequest
    );
    // A document without a verdict waits for the exit code.
    assert_eq!(
        ending(&outputs(r#"{"final": "x"}"#, 2, "")).0,
        Cause::WallLimit
    );
}

#[test]
fn killed_process_leaves_the_outcome_to_the_session() {
    let (mut conversation, mut out) = asked();
    conversation.on_line("{", &mut out);
    conversation.on_exit(
        &Exit {
            code: None,
            signal: Some(9),
            stderr: String::new(),
        },
        &mut out,
    );
    assert!(
        !out.drain()
            .any(|out| matches!(out, FromConversation::TurnEnded(_)))
    );
    let (mut conversation, mut out) = asked();
    conversation.send(ToAgent::Interrupt, &mut out);
    assert!(
        out.drain()
            .any(|out| out == FromConversation::Do(Action::Terminate))
    );
    conversation.on_exit(
        &Exit {
            code: None,
            signal: Some(15),
            stderr: String::new(),
        },
        &mut out,
    );
    assert_eq!(
        ending(&out.drain().collect::<Vec<_>>()).0,
        Cause::Interrupted
    );
}

#[test]
fn log_lines_before_the_document_are_ignored() {
    let text = std::fs::read_to_string(fixtures("openclaw").join("hello/stdout.json")).unwrap();
    let all = outputs(
        &format!("{{\"level\":\"warn\",\"msg\":\"x\"}}\n{text}"),
        0,
        "",
    );
    assert_eq!(
        ending(&all),
        (Cause::Completed, Some("Hello from the mock model."))
    );
    assert_eq!(notices(&all, "stdout_noise"), 1);
}

// OpenClaw itself rejects this and prints its help.
#[test]
fn a_fallback_needs_a_model() {
    let launch = |settings: &[(&str, &str)]| {
        let mut spec = Spec::default();
        spec.apply(&settings.iter().copied().collect()).unwrap();
        find("openclaw")
            .unwrap()
            .launch(&Launching::new(&spec))
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert!(
        launch(&[("fallback", "a/b")])
            .unwrap_err()
            .contains("needs model")
    );
    assert_eq!(launch(&[("fallback", "a/b"), ("model", "a/c")]), Ok(()));
}
