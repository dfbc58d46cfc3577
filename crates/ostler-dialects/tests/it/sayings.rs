//! What is said to the agent: prompts, interrupts, answers to its questions.

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent};
use ostler_core::event::{Decision, EventKind};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use serde_json::{Value, json};

use crate::stage::{asked, claude, replay, scenario};

fn wrote(out: &mut Outbox) -> Vec<Value> {
    out.drain()
        .filter_map(|out| {
            if let FromConversation::Write(bytes) = out {
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
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one line, ended");
    serde_json::from_str(text).unwrap()
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/"}"#;

// S3-31, S1-14, P28, S4-9: the prompt is a stream-json user message on stdin, whatever is in it.
#[test]
fn a_prompt_is_one_line_of_json() {
    for prompt in [
        "hello",
        "-p --version",
        "a\nb\r\n\"q\" `x` $HOME \\ 😀 \u{2028}",
        &"x".repeat(5_000_000),
    ] {
        let mut talk = claude().converse(&Spec::default());
        let mut out = Outbox::default();
        talk.on_start(&mut out);
        assert!(out.is_empty(), "no handshake is needed");
        talk.send(ToAgent::Prompt(prompt.into()), &mut out);
        assert_eq!(
            wrote(&mut out),
            [json!({"type": "user", "message": {"role": "user", "content": prompt}})]
        );
    }
}

fn hear(talk: &mut dyn Conversation, line: &str) -> Vec<Value> {
    let mut out = Outbox::default();
    talk.on_line(line, &mut out);
    wrote(&mut out)
}

#[test]
fn an_interrupt_waits_for_the_first_word_of_its_turn() {
    let interrupt = |n: u32| json!({"type": "control_request", "request_id": format!("ostler-interrupt-{n}"), "request": {"subtype": "interrupt"}});
    let (mut talk, mut out) = (asked(), Outbox::default());
    talk.send(ToAgent::Interrupt, &mut out);
    assert!(out.is_empty(), "before init it would go unheard");
    assert!(hear(&mut *talk, r#"{"type":"keep_alive"}"#).is_empty());
    assert_eq!(hear(&mut *talk, INIT), [interrupt(1)]);
    assert!(hear(&mut *talk, INIT).is_empty(), "sent once");
    talk.send(ToAgent::Interrupt, &mut out);
    assert_eq!(
        wrote(&mut out),
        [interrupt(2)],
        "the agent was heard: at once"
    );
    // The next turn has not been heard yet, and what waits for it is not sent into another.
    hear(
        &mut *talk,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    talk.send(ToAgent::Prompt("again".into()), &mut out);
    talk.send(ToAgent::Interrupt, &mut out);
    assert_eq!(wrote(&mut out).len(), 1, "only the prompt");
    talk.send(ToAgent::Prompt("another".into()), &mut out);
    wrote(&mut out);
    assert!(
        hear(&mut *talk, INIT).is_empty(),
        "it was meant for a turn that is gone"
    );
}

// P46: nothing malformed is ever allowed; what can be answered is answered.
#[test]
fn questions_are_denied_and_malformed_ones_too() {
    let outs = replay(&[scenario("control_malformed").as_bytes()]);
    let answers: Vec<Value> = outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Write(bytes) = out {
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
        "each answered once; without an id there is nothing to answer"
    );
    for answer in &answers {
        let response = &answer["response"];
        assert!(
            response["subtype"] == "error" || response["response"]["behavior"] == "deny",
            "{answer}"
        );
    }
    assert!(!outs.iter().any(|out| matches!(out, FromConversation::Event(EventKind::Permission(p)) if p.decision != Decision::Denied)));
}

// S3-32, S1-24: the last words of a process that ended without a result.
#[test]
fn an_exit_is_blamed_on_what_stderr_says() {
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "error: unknown option '--nope'\n(Did you mean --name?)\n".into(),
    };
    let finish = |talk: &mut dyn Conversation| {
        let mut out = Outbox::default();
        talk.on_exit(&exit, &mut out);
        out.drain().collect::<Vec<_>>()
    };
    let mut talk = asked();
    let outs = finish(&mut *talk);
    let [FromConversation::TurnOver(over)] = &outs[..] else {
        panic!("{outs:?}")
    };
    assert_eq!(over.outcome.cause, Cause::BadRequest);
    assert_eq!(
        over.outcome.message,
        "claude did not start: error: unknown option '--nope'"
    );
    assert!(
        over.outcome
            .hint
            .as_ref()
            .unwrap()
            .contains("claude update")
    );
    // Once the agent was heard, its stderr can hold anything.
    for heard in [
        INIT,
        r#"{"type":"assistant","message":{"id":"m","content":[]}}"#,
    ] {
        let mut talk = asked();
        hear(&mut *talk, heard);
        assert!(finish(&mut *talk).is_empty(), "{heard}");
    }
    // Nor does it explain a later turn of a process that did start.
    let mut talk = asked();
    hear(&mut *talk, INIT);
    hear(
        &mut *talk,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    talk.send(ToAgent::Prompt("again".into()), &mut Outbox::default());
    assert!(finish(&mut *talk).is_empty());
    // After a result there is no turn to blame anybody for.
    let mut talk = asked();
    hear(
        &mut *talk,
        r#"{"type":"result","subtype":"success","result":"x"}"#,
    );
    assert!(finish(&mut *talk).is_empty());
}

// What a turn used is told even when the process is gone and nobody knows why.
#[test]
fn a_process_that_dies_leaves_what_it_used() {
    let mut talk = asked();
    hear(&mut *talk, INIT);
    hear(
        &mut *talk,
        r#"{"type":"assistant","message":{"id":"m","model":"a","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}"#,
    );
    let mut out = Outbox::default();
    talk.on_exit(
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
    talk.on_exit(&Exit::default(), &mut out);
    assert!(out.is_empty(), "once");
}

// A resumed session's counters hold the earlier process's: what cannot be told apart is not counted.
#[test]
fn a_resumed_session_does_not_count_the_earlier_one_again() {
    let result = |cost: f64, input: u64, own: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","result":"x","total_cost_usd":{cost},"usage":{{"input_tokens":7,"output_tokens":3}},"modelUsage":{{"m":{{"inputTokens":{input},"outputTokens":9,"costUSD":{cost}}}}}{own}}}"#
        )
    };
    let used = |set: fn(&mut Spec), lines: &[String]| {
        let mut spec = Spec::default();
        set(&mut spec);
        let (mut talk, mut out) = (claude().converse(&spec), Outbox::default());
        talk.send(ToAgent::Prompt("hello".into()), &mut out);
        for line in [INIT].into_iter().chain(lines.iter().map(String::as_str)) {
            talk.on_line(line, &mut out);
        }
        out.drain()
            .filter_map(|out| {
                if let FromConversation::TurnOver(over) = out {
                    Some(over.usage)
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
        used(|spec| spec.settings.set("resume", "s"), &lines),
        [m(7, None), m(40, Some(0.5))]
    );
    assert_eq!(
        used(|spec| spec.extra_args.push("--continue".into()), &lines),
        [m(7, None), m(40, Some(0.5))]
    );
    let own = r#","model_usage_since_last_result":{"m":{"inputTokens":8,"costUSD":0.25}}"#;
    assert_eq!(
        used(
            |spec| spec.settings.set("resume", "s"),
            &[result(1.5, 1000, own)]
        ),
        [m(8, Some(0.25))]
    );
}

// S3-10: the program must not take a plain answer for the structured one it asked for.
#[test]
fn a_missing_structured_answer_is_told() {
    let mut spec = Spec::default();
    spec.settings.set("json_schema", "{}");
    let told = |line: &str| {
        let (mut talk, mut out) = (claude().converse(&spec), Outbox::default());
        talk.on_line(line, &mut out);
        out.drain().any(|out| matches!(out, FromConversation::Event(EventKind::Notice(notice)) if notice.code == "no_structured_answer"))
    };
    assert!(told(
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#
    ));
    assert!(!told(
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x","structured_output":{"a":1}}"#
    ));
}

// A line that ends a turn without counters: what the messages said is told, but not an output that nobody counted.
#[test]
fn an_output_that_was_not_counted_stays_unknown() {
    let outs = replay(&[br#"{"type":"assistant","message":{"id":"m","model":"a","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}
{"type":"result","subtype":"success","result":"x"}
"#]);
    let Some(FromConversation::TurnOver(over)) = outs.last() else {
        panic!("{outs:?}")
    };
    assert_eq!(
        (over.usage[0].input, over.usage[0].output),
        (Some(10), None)
    );
}
