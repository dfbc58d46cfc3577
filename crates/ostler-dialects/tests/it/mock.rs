//! The mock agent's language.

use ostler_core::dialect::{FromConversation, Outbox, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::find;

fn heard(lines: &str) -> Vec<FromConversation> {
    let mut talk = find("mock").unwrap().converse(&Spec::default());
    let mut out = Outbox::default();
    for line in lines.lines() {
        talk.on_line(line, &mut out);
    }
    out.drain().collect()
}

#[test]
fn lines_are_events_and_turn_ended_ends_the_turn() {
    let out = heard(concat!(
        r#"{"type":"text","kind":"reply","text":"Hi","delta":true,"message":"m1"}"#,
        "\n",
        r#"{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":""}"#,
        "\n",
    ));
    assert!(matches!(&out[0], FromConversation::Event(EventKind::Text(text)) if text.text == "Hi"));
    let FromConversation::TurnOver(over) = &out[1] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (over.outcome.cause, over.text.as_deref(), over.usage.len()),
        (Cause::Completed, None, 0)
    );
}

#[test]
fn what_only_a_session_says_is_unreadable() {
    let out = heard(concat!(
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
fn it_is_told_in_json() {
    let mut talk = find("mock").unwrap().converse(&Spec::default());
    let mut out = Outbox::default();
    talk.send(ToAgent::Prompt("say \"hi\"\n".into()), &mut out);
    talk.send(ToAgent::Interrupt, &mut out);
    let written: Vec<_> = out.drain().collect();
    assert_eq!(
        written[0],
        FromConversation::Write(b"{\"prompt\":\"say \\\"hi\\\"\\n\"}\n".to_vec())
    );
    assert_eq!(
        written[1],
        FromConversation::Write(b"{\"interrupt\":true}\n".to_vec())
    );
}

#[test]
fn its_settings_are_checked() {
    let dialect = find("mock").unwrap();
    let mut spec = Spec::default();
    spec.settings.set("script", "demo.jsonl");
    assert_eq!(dialect.launch(&spec).unwrap().program, "mock");
    spec.settings.set("scripts", "x");
    assert!(
        dialect
            .launch(&spec)
            .unwrap_err()
            .why
            .contains("did you mean script?")
    );
    assert!(dialect.probe().is_none());
}
