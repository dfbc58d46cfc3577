//! Input to Claude Code: prompts, interrupts, and replies to its requests.

use ostler_core::dialect::{
    Action, Conversation, Exit, FromConversation, Launching, Outbox, ToAgent,
};
use ostler_core::event::{Decision, EventKind};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use serde_json::{Value, json};

use crate::harness::{asked, claude, replay, scenario};

fn written(out: &mut Outbox) -> Vec<Value> {
    out.drain()
        .filter_map(|out| {
            if let FromConversation::Do(Action::Write(bytes)) = out {
                Some(bytes)
            } else {
                None
            }
        })
        .map(|bytes| one_line(&bytes))
        .collect()
}

fn one_line(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).unwrap();
    assert_eq!(text.find('\n'), Some(text.len() - 1), "exactly one line");
    serde_json::from_str(text).unwrap()
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/"}"#;

// S3-31, S1-14, P28, S4-9: the prompt is a stream-json user message on stdin, whatever it contains.
#[test]
fn a_prompt_is_one_line_of_json() {
    for prompt in [
        "hello",
        "-p --version",
        "a\nb\r\n\"q\" `x` $HOME \\ 😀 \u{2028}",
        &"x".repeat(5_000_000),
    ] {
        let mut conversation = claude().converse(&Launching::new(&Spec::default()));
        let mut out = Outbox::default();
        conversation.on_start(&mut out);
        assert!(out.is_empty(), "no handshake is needed");
        conversation.send(ToAgent::Prompt(prompt.into()), &mut out);
        assert_eq!(
            written(&mut out),
            [json!({"type": "user", "message": {"role": "user", "content": prompt}})]
        );
    }
}

fn feed(conversation: &mut dyn Conversation, line: &str) -> Vec<Value> {
    let mut out = Outbox::default();
    conversation.on_line(line, &mut out);
    written(&mut out)
}

#[test]
fn interrupt_is_held_until_first_output_of_its_turn() {
    let interrupt = |n: u32| json!({"type": "control_request", "request_id": format!("ostler-interrupt-{n}"), "request": {"subtype": "interrupt"}});
    let (mut conversation, mut out) = (asked(), Outbox::default());
    conversation.send(ToAgent::Interrupt, &mut out);
    assert!(out.is_empty(), "before init it would be ignored");
    assert!(feed(&mut *conversation, r#"{"type":"keep_alive"}"#).is_empty());
    assert_eq!(feed(&mut *conversation, INIT), [interrupt(1)]);
    assert!(feed(&mut *conversation, INIT).is_empty(), "sent once");
    conversation.send(ToAgent::Interrupt, &mut out);
    assert_eq!(
        written(&mut out),
        [interrupt(2)],
        "sent at once after output"
    );
    // The next turn has produced no output yet, so its interrupt is held and not sent to another
    // turn.
    feed(
        &mut *conversation,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    conversation.send(ToAgent::Prompt("again".into()), &mut out);
    conversation.send(ToAgent::Interrupt, &mut out);
    assert_eq!(written(&mut out).len(), 1, "only the prompt");
    conversation.send(ToAgent::Prompt("another".into()), &mut out);
    written(&mut out);
    assert!(
        feed(&mut *conversation, INIT).is_empty(),
        "the interrupt was for an earlier turn"
    );
}

// P46: nothing malformed is ever allowed; every request with an id gets a reply.
#[test]
fn unattended_and_malformed_requests_are_denied() {
    let outs = replay(&[scenario("control_malformed").as_bytes()]);
    let answers: Vec<Value> = outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Do(Action::Write(bytes)) = out {
                Some(one_line(bytes))
            } else {
                None
            }
        })
        .collect();
    let ids: Vec<&Value> = answers
        .iter()
        .map(|answer| &answer["response"]["request_id"])
        .collect();
    assert_eq!(
        ids,
        ["q1", "q2", "q3", "q4", "q5"],
        "one reply each; without an id there is nothing to reply to"
    );
    for answer in &answers {
        let response = &answer["response"];
        assert!(
            response["subtype"] == "error" || response["response"]["behavior"] == "deny",
            "{answer}"
        );
    }
    assert!(!outs.iter().any(|out| matches!(out,
        FromConversation::Event(EventKind::Permission(p)) if p.decision != Decision::Denied)));
}

// S3-32, S1-24: the last output of a process that ended without a result.
#[test]
fn exit_is_explained_by_stderr() {
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "error: unknown option '--nope'\n(Did you mean --name?)\n".into(),
    };
    let finish = |conversation: &mut dyn Conversation| {
        let mut out = Outbox::default();
        conversation.on_exit(&exit, &mut out);
        out.drain().collect::<Vec<_>>()
    };
    let mut conversation = asked();
    let outs = finish(&mut *conversation);
    let [FromConversation::TurnEnded(result)] = &outs[..] else {
        panic!("{outs:?}")
    };
    assert_eq!(result.outcome.cause, Cause::BadRequest);
    assert_eq!(
        result.outcome.message,
        "claude did not start: error: unknown option '--nope'"
    );
    assert!(
        result
            .outcome
            .hint
            .as_ref()
            .unwrap()
            .contains("claude update")
    );
    // Once the agent has produced output, its stderr can contain anything.
    for line in [
        INIT,
        r#"{"type":"assistant","message":{"id":"m","content":[]}}"#,
    ] {
        let mut conversation = asked();
        feed(&mut *conversation, line);
        assert!(finish(&mut *conversation).is_empty(), "{line}");
    }
    // Nor does stderr explain a later turn of a process that started successfully.
    let mut conversation = asked();
    feed(&mut *conversation, INIT);
    feed(
        &mut *conversation,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    conversation.send(ToAgent::Prompt("again".into()), &mut Outbox::default());
    assert!(finish(&mut *conversation).is_empty());
    // After a result there is no turn to explain.
    let mut conversation = asked();
    feed(
        &mut *conversation,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    assert!(finish(&mut *conversation).is_empty());
}

// The usage of a turn is reported even if the process exits for an unknown reason.
#[test]
fn usage_is_reported_when_the_process_dies() {
    let mut conversation = asked();
    feed(&mut *conversation, INIT);
    feed(
        &mut *conversation,
        r#"{"type":"assistant","message":{"id":"m","model":"a","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}"#,
    );
    let mut out = Outbox::default();
    conversation.on_exit(
        &Exit {
            signal: Some(9),
            ..Exit::default()
        },
        &mut out,
    );
    let outs: Vec<FromConversation> = out.drain().collect();
    let [FromConversation::Event(EventKind::Usage(usage))] = &outs[..] else {
        panic!("{outs:?}")
    };
    assert_eq!(
        (
            usage.model.as_deref(),
            usage.input,
            usage.output,
            usage.cost_usd
        ),
        (Some("a"), Some(10), None, None)
    );
    conversation.on_exit(&Exit::default(), &mut out);
    assert!(out.is_empty(), "once");
}

// The counters of a resumed session include the earlier process; usage that cannot be attributed is
// not counted.
#[test]
fn resumed_session_excludes_earlier_usage() {
    let result = |cost: f64, input: u64, own: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","result":"x","total_cost_usd":{cost},"usage":{{"input_tokens":7,"output_tokens":3}},"modelUsage":{{"m":{{"inputTokens":{input},"outputTokens":9,"costUSD":{cost}}}}}{own}}}"#
        )
    };
    let used = |set: fn(&mut Spec), lines: &[String]| {
        let mut spec = Spec::default();
        set(&mut spec);
        let (mut conversation, mut out) =
            (claude().converse(&Launching::new(&spec)), Outbox::default());
        conversation.send(ToAgent::Prompt("hello".into()), &mut out);
        for line in [INIT].into_iter().chain(lines.iter().map(String::as_str)) {
            conversation.on_line(line, &mut out);
        }
        out.drain()
            .filter_map(|out| {
                if let FromConversation::TurnEnded(result) = out {
                    Some(result.usage)
                } else {
                    None
                }
            })
            .map(|parts| {
                parts
                    .iter()
                    .map(|u| (u.model.clone().unwrap(), u.input, u.cost_usd))
                    .collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let m = |input, cost| vec![("m".to_owned(), Some(input), cost)];
    let lines = [result(1.5, 1000, ""), result(2.0, 1040, "")];
    assert_eq!(used(|_| {}, &lines), [m(1000, Some(1.5)), m(40, Some(0.5))]);
    assert_eq!(
        used(|spec| spec.resume = Some("s".into()), &lines),
        [m(7, None), m(40, Some(0.5))]
    );
    assert_eq!(
        used(|spec| spec.extra_args.push("--continue".into()), &lines),
        [m(7, None), m(40, Some(0.5))]
    );
    let own = r#","model_usage_since_last_result":{"m":{"inputTokens":8,"costUSD":0.25}}"#;
    assert_eq!(
        used(
            |spec| spec.resume = Some("s".into()),
            &[result(1.5, 1000, own)]
        ),
        [m(8, Some(0.25))]
    );
}

// S3-10: a plain answer must not be mistaken for the requested structured one.
#[test]
fn missing_structured_answer_is_reported() {
    let mut spec = Spec::default();
    spec.set("json_schema", ["{}"]).unwrap();
    let is_reported = |line: &str| {
        let (mut conversation, mut out) =
            (claude().converse(&Launching::new(&spec)), Outbox::default());
        conversation.on_line(line, &mut out);
        out.drain().any(|out| {
            matches!(out,
            FromConversation::Event(EventKind::Notice(
            notice)) if notice.code.as_str() == "no_structured_answer")
        })
    };
    assert!(is_reported(
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#
    ));
    assert!(!is_reported(
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x","structured_output":{"a":1}}"#
    ));
}

// A result without counters: the messages' counters are reported, but not an output count that is
// not final.
#[test]
fn uncounted_output_stays_unknown() {
    let outs = replay(&[br#"{"type":"assistant","message":{"id":"m","model":"a","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}
{"type":"result","subtype":"success","result":"x"}
"#]);
    let Some(FromConversation::TurnEnded(result)) = outs.last() else {
        panic!("{outs:?}")
    };
    assert_eq!(
        (result.usage[0].input, result.usage[0].output),
        (Some(10), None)
    );
}
