//! Copilot's lines with interleaved or late telemetry.

use ostler_core::dialect::{Action, Exit, FromConversation, Launching, Outbox, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::find;

const SPAN: &str = r#"{"type":"span","name":"chat m","attributes":{"gen_ai.operation.name":"chat","gen_ai.request.model":"m","gen_ai.usage.input_tokens":118,"gen_ai.usage.output_tokens":25,"gen_ai.usage.cache_read.input_tokens":11}}"#;
const CALL_FINISHED: &str = r#"{"type":"model.call_finished","data":{"outcome":"success"}}"#;
const MESSAGE: &str =
    r#"{"type":"assistant.message","data":{"messageId":"1","content":"Hello you"}}"#;
const RESULT: &str = r#"{"type":"result","sessionId":"s","exitCode":0}"#;

fn outputs(lines: &[&str], exit: bool) -> Vec<FromConversation> {
    let mut conversation = find("copilot")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.send(ToAgent::Prompt("hello".into()), &mut Outbox::default());
    lines
        .iter()
        .for_each(|line| conversation.on_line(line, &mut out));
    if exit {
        conversation.on_exit(
            &Exit {
                code: Some(0),
                ..Exit::default()
            },
            &mut out,
        );
    }
    out.drain().collect()
}

fn tokens(all: &[FromConversation]) -> Vec<u64> {
    let result = all.iter().filter_map(|out| {
        if let FromConversation::TurnEnded(result) = out {
            Some(result)
        } else {
            None
        }
    });
    result
        .map(|result| result.usage.iter().filter_map(|usage| usage.output).sum())
        .collect()
}

#[test]
fn telemetry_inside_a_line_is_extracted() {
    let (head, tail) = MESSAGE.split_at(40);
    for torn in [
        vec![format!("{head}{SPAN}"), tail.to_owned()],
        vec![
            format!("{head}{SPAN}"),
            format!("{}{SPAN}", &tail[..9]),
            tail[9..].to_owned(),
        ],
    ] {
        let mut lines: Vec<&str> = vec![CALL_FINISHED];
        lines.extend(torn.iter().map(String::as_str));
        lines.push(RESULT);
        let all = outputs(&lines, false);
        assert!(
            !all.iter()
                .any(|out| matches!(out, FromConversation::Event(EventKind::Unreadable(_)))),
            "{all:#?}"
        );
        let Some(FromConversation::TurnEnded(result)) = all.last() else {
            panic!("{all:#?}")
        };
        assert_eq!(result.text.as_deref(), Some("Hello you"));
        assert_eq!(tokens(&all), [25 * (torn.len() as u64 - 1)]);
    }
    let broken = outputs(&[&format!("{head}{SPAN}")], true);
    assert!(
        broken
            .iter()
            .any(|out| matches!(out, FromConversation::Event(EventKind::Unreadable(_))))
    );
}

#[test]
fn tokens_after_the_last_line_belong_to_the_turn() {
    assert_eq!(
        tokens(&outputs(&[CALL_FINISHED, MESSAGE, SPAN, RESULT], false)),
        [25]
    );
    assert_eq!(
        tokens(&outputs(&[CALL_FINISHED, MESSAGE, RESULT], false)),
        [0; 0],
        "waits for the tokens"
    );
    assert_eq!(
        tokens(&outputs(&[CALL_FINISHED, MESSAGE, RESULT, SPAN], false)),
        [25]
    );
    assert_eq!(
        tokens(&outputs(&[CALL_FINISHED, MESSAGE, RESULT], true)),
        [0],
        "but not forever"
    );
}

#[test]
fn an_interrupt_ends_the_process() {
    let mut conversation = find("copilot")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    conversation.send(ToAgent::Interrupt, &mut out);
    let all: Vec<FromConversation> = out.drain().collect();
    assert_eq!(
        all,
        [
            FromConversation::Do(Action::Write(b"hello".to_vec())),
            FromConversation::Do(Action::CloseInput),
            FromConversation::Do(Action::Terminate)
        ]
    );
    conversation.on_exit(
        &Exit {
            code: None,
            signal: Some(15),
            stderr: String::new(),
        },
        &mut out,
    );
    let Some(FromConversation::TurnEnded(result)) = out.drain().next() else {
        panic!("the turn did not end")
    };
    assert_eq!(result.outcome.cause, Cause::Interrupted);
}

// Copilot moves a command that runs for half a minute to the background and reports its end later.
#[test]
fn system_notifications_become_notices() {
    let line = r#"{"type":"system.notification","data":{"content":"<system_notification>\nIt has completed.\n</system_notification>","kind":{"type":"shell_completed","exitCode":0}}}"#;
    let notices = |line: &str| -> Vec<(String, String)> {
        let notice = |out: FromConversation| {
            if let FromConversation::Event(EventKind::Notice(it)) = out {
                Some((it.code.to_string(), it.message))
            } else {
                None
            }
        };
        outputs(&[CALL_FINISHED, line], false)
            .into_iter()
            .filter_map(notice)
            .collect()
    };
    assert_eq!(
        notices(line),
        [("shell_completed".to_owned(), "It has completed.".to_owned())]
    );
    let bare = r#"{"type":"system.notification","data":{"kind":"odd"}}"#;
    assert_eq!(notices(bare), [("informational".to_owned(), String::new())]);
}
