//! Tests that requests and replies round-trip, so that an adapter that acts as a server loses
//! nothing.

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
fn requests_round_trip() {
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
    let request = ModelRequest {
        model: "m",
        messages: &messages,
        tools: &tools,
    }
    .request();
    assert_eq!(
        ParsedRequest::of(&request).unwrap(),
        ParsedRequest { messages, tools }
    );
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
    let request = ModelRequest {
        model: "m",
        messages: &[Message::user("hi")],
        tools: &[],
    }
    .request();
    assert!(!request.contains("tools"), "{request}");
    assert!(ParsedRequest::of(&request).unwrap().tools.is_empty());
}

// S0-15: structured content that is not a list of parts becomes text.
#[test]
fn an_object_as_content_becomes_text() {
    let object = RawJson::parse(r#"{"a": 1}"#).unwrap();
    let request = ModelRequest {
        model: "m",
        messages: &[Message::user(object)],
        tools: &[],
    }
    .request();
    assert_eq!(
        ParsedRequest::of(&request).unwrap().messages,
        [Message::user(r#"{"a": 1}"#)]
    );
}

#[test]
fn invalid_requests_are_errors() {
    assert!(ParsedRequest::of("{}").is_err() && ParsedRequest::of("").is_err());
}

/// Parses a reply from its own chunks.
fn back(reply: &plain::Reply) -> plain::Reply {
    let mut parser = ReplyParser::new("m", false);
    let text = Text {
        kind: TextKind::Reply,
        text: reply.content.clone(),
        delta: true,
        message: None,
        parent: None,
    };
    let mut streamed = String::new();
    for payload in [text_chunk(&text)]
        .into_iter()
        .chain(final_chunks(reply))
        .chain(["[DONE]".to_owned()])
    {
        streamed.extend(parser.push(&payload).into_iter().map(|text| text.text));
    }
    assert_eq!(streamed, reply.content);
    parser.finish().unwrap()
}

fn usage() -> Usage {
    let tokens = Tokens {
        input: 100,
        cache_read: 11,
        cache_write: 7,
        output: 25,
        reasoning: Some(4),
    };
    Usage::for_turn(Some("the-model".into()), tokens)
}

#[test]
fn replies_round_trip() {
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

// A server has one model: the sum and the source of the cost must be correct.
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
        panic!("expected a single sum")
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
        panic!("expected a single sum")
    };
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.25), CostSource::Partial)
    );
}

// An unknown count is not zero.
#[test]
fn unknown_counts_stay_unknown() {
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
        let mut parser = ReplyParser::new("gpt-5", official);
        let behind = plain::Reply {
            content: String::new(),
            tool_calls: vec![],
            usage: vec![],
            stop: Stop::End,
        };
        let spent =
            json!({"choices": [], "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}})
                .to_string();
        let text = json!({"choices": [{"index": 0, "delta": {"content": "Hi."}}]}).to_string();
        for payload in [text, spent].into_iter().chain(final_chunks(&behind)) {
            parser.push(&payload);
        }
        parser.finish().unwrap().usage.swap_remove(0)
    };
    assert_eq!(
        (answer(true).cost_source, answer(false).cost_source),
        (CostSource::Estimated, CostSource::Unknown)
    );
    assert!((answer(true).cost_usd.unwrap() - 1.25).abs() < 1e-9);
}

#[test]
fn incomplete_answers_are_errors() {
    let mut parser = ReplyParser::new("m", false);
    parser.push(&json!({"choices": [{"index": 0, "delta": {"content": "Hal"}}]}).to_string());
    assert_eq!(parser.finish().unwrap_err().0.cause, Cause::Network);
    assert!(ReplyParser::new("m", false).finish().is_err());
}

// The outcome of an adapter's failure is preserved.
#[test]
fn a_failure_keeps_its_outcome() {
    let outcome = Outcome::new(Cause::Protocol, "It used its own tool.").hint("Use another.");
    assert_eq!(outcome_of(&failed_with(outcome.clone())), outcome);
}

proptest! {
    #[test]
    fn arbitrary_text_round_trips(text in any::<String>(), result in any::<String>(),
        key in any::<String>()) {
        let args = RawJson::of(&std::collections::BTreeMap::from([(key, result.clone())]));
        let tool_calls = vec![ToolRequest { id: "c1".into(), name: "add".into(), args }];
        let messages = vec![
            Message::user(text.clone()),
            Message::Assistant { content: text.into(), tool_calls },
            Message::tool("c1", result),
        ];
        let request = ModelRequest { model: "m", messages: &messages, tools: &[] }.request();
        prop_assert_eq!(ParsedRequest::of(&request).unwrap().messages, messages);
    }
}
