//! What is asked is read back, and what is answered too: an adapter that stands in for a server loses nothing.

use ostler_core::event::TextKind;
use ostler_core::outcome::Cause;
use ostler_core::usage::Tokens;
use proptest::prelude::*;

use super::*;

fn call(id: &str, args: &str) -> ToolRequest {
    ToolRequest {
        id: id.into(),
        name: "add".into(),
        args: RawJson::parse(args).unwrap(),
    }
}

fn tools() -> Vec<ToolOffer> {
    let parameters =
        RawJson::parse(r#"{"type":"object","properties":{"a":{"type":"number"}}}"#).unwrap();
    vec![ToolOffer {
        name: "add".into(),
        description: "Adds.".into(),
        parameters,
    }]
}

#[test]
fn a_question_is_read_back() {
    let parts = RawJson::parse(r#"[{"type":"text","text":"hi"}]"#).unwrap();
    let messages = vec![
        Message::system("Be brief."),
        Message::user(parts),
        Message::Assistant {
            content: "I add.".into(),
            tool_calls: vec![call("c1", r#"{"a":1.50}"#), call("c2", "{}")],
        },
        Message::tool("c1", "3"),
        Message::tool("c2", ""),
        Message::assistant("3."),
        Message::Other {
            name: "developer".into(),
            content: "psst".into(),
        },
    ];
    let tools = tools();
    let request = Question {
        model: "m",
        messages: &messages,
        tools: &tools,
    }
    .request();
    assert_eq!(Asked::of(&request).unwrap(), Asked { messages, tools });
    let value: serde_json::Value = serde_json::from_str(&request).unwrap();
    assert_eq!(
        (&value["model"], &value["stream"]),
        (&json!("m"), &json!(true))
    );
    assert_eq!(
        value["messages"][2]["tool_calls"][0]["function"]["arguments"],
        json!(r#"{"a":1.50}"#)
    );
    assert_eq!(value["tools"][0]["type"], json!("function"));
}

#[test]
fn without_tools_there_is_no_list_of_them() {
    let request = Question {
        model: "m",
        messages: &[Message::user("hi")],
        tools: &[],
    }
    .request();
    assert!(!request.contains("tools"), "{request}");
    assert!(Asked::of(&request).unwrap().tools.is_empty());
}

// S0-15: what is structured and no list of parts becomes text.
#[test]
fn an_object_as_content_becomes_text() {
    let object = RawJson::parse(r#"{"a": 1}"#).unwrap();
    let request = Question {
        model: "m",
        messages: &[Message::user(object)],
        tools: &[],
    }
    .request();
    assert_eq!(
        Asked::of(&request).unwrap().messages,
        [Message::user(r#"{"a": 1}"#)]
    );
}

#[test]
fn what_is_no_request_is_an_error() {
    assert!(Asked::of("{}").is_err() && Asked::of("").is_err());
}

/// The reply that comes out of what a reply is written as.
fn back(reply: &plain::Reply) -> plain::Reply {
    let mut answering = Answering::new("m", false);
    let text = Text {
        kind: TextKind::Reply,
        text: reply.content.clone(),
        delta: true,
        message: None,
        parent: None,
    };
    let mut told = String::new();
    for payload in [piece(&text)]
        .into_iter()
        .chain(pieces_behind(reply))
        .chain(["[DONE]".to_owned()])
    {
        told.extend(answering.hear(&payload).into_iter().map(|text| text.text));
    }
    assert_eq!(told, reply.content);
    answering.finish().unwrap()
}

fn usage() -> Usage {
    let tokens = Tokens {
        input: 100,
        cache_read: 11,
        cache_write: 7,
        output: 25,
        reasoning: Some(4),
    };
    Usage::of(Some("the-model".into()), tokens)
}

#[test]
fn a_reply_is_read_back() {
    let plain = plain::Reply {
        content: "Hi.".into(),
        tool_calls: vec![],
        usage: vec![usage()],
        stop: Stop::End,
    };
    let replies = [
        plain.clone(),
        plain::Reply {
            usage: vec![usage().reported(0.25)],
            ..plain.clone()
        },
        plain::Reply {
            usage: vec![usage().estimated(0.25)],
            ..plain.clone()
        },
        plain::Reply {
            usage: vec![],
            ..plain.clone()
        },
        plain::Reply {
            stop: Stop::Length,
            ..plain.clone()
        },
        plain::Reply {
            stop: Stop::Refused,
            ..plain.clone()
        },
        plain::Reply {
            tool_calls: vec![call("c1", r#"{"a":1.50}"#), call("c2", "{}")],
            stop: Stop::ToolCalls,
            ..plain
        },
    ];
    for reply in replies {
        assert_eq!(back(&reply), reply);
    }
}

// A server has one model: the sum is right, and so is where the cost comes from.
#[test]
fn several_models_become_a_sum() {
    let other = Usage {
        model: Some("another".into()),
        ..usage()
    };
    let usage = vec![usage().reported(0.25), other.clone().reported(0.5)];
    let reply = plain::Reply {
        content: "Hi.".into(),
        tool_calls: vec![],
        usage,
        stop: Stop::End,
    };
    let [sum] = &back(&reply).usage[..] else {
        panic!("not one sum")
    };
    assert_eq!(
        (sum.input, sum.cache_write, sum.output),
        (Some(200), Some(14), Some(50))
    );
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.75), CostSource::Reported)
    );
    let unknown = plain::Reply {
        usage: vec![reply.usage[0].clone(), other],
        ..reply
    };
    let [sum] = &back(&unknown).usage[..] else {
        panic!("not one sum")
    };
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.25), CostSource::Partial)
    );
}

// Nobody has counted: that is not zero.
#[test]
fn what_nobody_counted_stays_unknown() {
    let usage = vec![Usage::unknown(ostler_core::usage::Scope::Turn)];
    let reply = plain::Reply {
        content: "Hi.".into(),
        tool_calls: vec![],
        usage,
        stop: Stop::End,
    };
    assert_eq!(back(&reply).usage, []);
}

#[test]
fn prices_are_those_of_the_official_server() {
    let answer = |official| {
        let mut answering = Answering::new("gpt-5", official);
        let behind = plain::Reply {
            content: String::new(),
            tool_calls: vec![],
            usage: vec![],
            stop: Stop::End,
        };
        let spent =
            json!({"choices": [], "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}})
                .to_string();
        let word = json!({"choices": [{"index": 0, "delta": {"content": "Hi."}}]}).to_string();
        for payload in [word, spent].into_iter().chain(pieces_behind(&behind)) {
            answering.hear(&payload);
        }
        answering.finish().unwrap().usage.swap_remove(0)
    };
    assert_eq!(
        (answer(true).cost_source, answer(false).cost_source),
        (CostSource::Estimated, CostSource::Unknown)
    );
    assert!((answer(true).cost_usd.unwrap() - 1.25).abs() < 1e-9);
}

#[test]
fn half_an_answer_is_none() {
    let mut answering = Answering::new("m", false);
    answering.hear(&json!({"choices": [{"index": 0, "delta": {"content": "Hal"}}]}).to_string());
    assert_eq!(answering.finish().unwrap_err().0.cause, Cause::Network);
    assert!(Answering::new("m", false).finish().is_err());
}

// What an adapter says about its failure is what the loop says.
#[test]
fn a_failure_keeps_its_outcome() {
    let outcome = Outcome::new(Cause::Protocol, "It used its own tool.").hint("Use another.");
    assert_eq!(outcome_of(&failed_with(outcome.clone())), outcome);
}

proptest! {
    #[test]
    fn any_words_are_read_back(said in any::<String>(), result in any::<String>(), key in any::<String>()) {
        let args = RawJson::of(&std::collections::BTreeMap::from([(key, result.clone())]));
        let tool_calls = vec![ToolRequest { id: "c1".into(), name: "add".into(), args }];
        let messages = vec![
            Message::user(said.clone()),
            Message::Assistant { content: said.into(), tool_calls },
            Message::tool("c1", result),
        ];
        let request = Question { model: "m", messages: &messages, tools: &[] }.request();
        prop_assert_eq!(Asked::of(&request).unwrap().messages, messages);
    }
}
