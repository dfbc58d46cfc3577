//! The protocol of the mock agent.

use ostler_core::dialect::{Action, FromConversation, Launching, Outbox, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::find;

fn outputs(lines: &str) -> Vec<FromConversation> {
    let mut conversation = find("mock")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    for line in lines.lines() {
        conversation.on_line(line, &mut out);
    }
    out.drain().collect()
}

#[test]
fn lines_are_events_and_turn_ended_ends_the_turn() {
    let out = outputs(concat!(
        r#"{"type":"text","kind":"reply","text":"Hi","delta":true,"message":"m1"}"#,
        "\n",
        r#"{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":""}"#,
        "\n",
    ));
    assert!(matches!(&out[0], FromConversation::Event(EventKind::Text(text)) if text.text == "Hi"));
    let FromConversation::TurnEnded(result) = &out[1] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (
            result.outcome.cause,
            result.text.as_deref(),
            result.usage.len()
        ),
        (Cause::Completed, None, 0)
    );
}

#[test]
fn events_reserved_for_the_session_are_unreadable() {
    let out = outputs(concat!(
        r#"{"type":"turn_started","origin":"caller"}"#,
        "\n",
        r#"{"type":"state","from":"idle","to":"working"}"#,
        "\n",
        r#"{"type":"ended","outcome":{"status":"success","cause":"completed","message":"ok"}}"#,
        "\n",
        "not json\n{\"type\":\"brand_new\"}\n{\"type\":\"text\"}\n",
    ));
    assert_eq!(out.len(), 6);
    assert!(
        out.iter()
            .all(|out| matches!(out, FromConversation::Event(EventKind::Unreadable(_)))),
        "{out:?}"
    );
}

#[test]
fn input_is_written_as_json() {
    let mut conversation = find("mock")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.send(ToAgent::Prompt("say \"hi\"\n".into()), &mut out);
    conversation.send(ToAgent::Interrupt, &mut out);
    let written: Vec<_> = out.drain().collect();
    assert_eq!(
        written[0],
        FromConversation::Do(Action::Write(
            b"{\"prompt\":\"say \\\"hi\\\"\\n\"}\n".to_vec()
        ))
    );
    assert_eq!(
        written[1],
        FromConversation::Do(Action::Write(b"{\"interrupt\":true}\n".to_vec()))
    );
}

#[test]
fn settings_are_checked() {
    let dialect = find("mock").unwrap();
    let mut spec = Spec::default();
    spec.set("script", ["demo.jsonl"]).unwrap();
    assert_eq!(
        dialect.launch(&Launching::new(&spec)).unwrap().program,
        "mock"
    );
    spec.set("scripts", ["x"]).unwrap();
    assert!(
        dialect
            .launch(&Launching::new(&spec))
            .unwrap_err()
            .why
            .contains("did you mean script?")
    );
    assert!(dialect.about().probe.is_none());
}
