//! Replies in parts: of a server's chunks, and of a model that is not a server.

use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::usage::{CostSource, Scope, Tokens, Usage};
use ostler_model::openai::decode;
use ostler_model::runner_protocol::{Failed, RunnerEvent, RunnerLine};
use ostler_model::{Finish, ModelError, Part, PartialReply, Price, Reply, Stop, ToolRequest};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Harness, SCRIPTED, spec};

fn call(id: &str, args: &str) -> ToolRequest {
    ToolRequest {
        id: id.into(),
        name: "add".into(),
        args: RawJson::parse(args).unwrap(),
    }
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

fn reply(content: &str) -> Reply {
    Reply {
        content: content.into(),
        tool_calls: vec![],
        usage: vec![usage()],
        stop: Stop::End,
    }
}

/// Returns the parts of a reply, after a round trip through a line of the runner.
fn parts(reply: &Reply) -> Vec<Part> {
    let mut parts = vec![Part::Text(reply.content.clone())];
    parts.extend(reply.parts_after_text());
    parts.push(Part::Done);
    let line = RunnerLine {
        ostler: RunnerEvent::Parts(parts),
    };
    let line = serde_json::from_str(RawJson::of(&line).get()).unwrap();
    let RunnerLine {
        ostler: RunnerEvent::Parts(parts),
    } = line
    else {
        panic!("{line:?}")
    };
    parts
}

/// Assembles a reply from its own parts.
fn back(reply: &Reply) -> Reply {
    let (mut partial, mut streamed) = (PartialReply::new("1", "m"), String::new());
    for part in parts(reply) {
        partial.push(vec![part], |text| streamed.push_str(&text.text));
    }
    assert_eq!(streamed, reply.content);
    partial.into_reply(|_| None).unwrap()
}

#[test]
fn replies_round_trip() {
    let plain = reply("Hi.");
    let another = Usage {
        model: Some("another".into()),
        ..usage()
    };
    let with = |usage: Vec<Usage>| Reply {
        usage,
        ..plain.clone()
    };
    let replies = [
        plain.clone(),
        with(vec![]),
        with(vec![usage().reported(0.25)]),
        with(vec![usage().estimated(0.25), another.partial(0.5)]),
        Reply {
            stop: Stop::Length,
            ..plain.clone()
        },
        Reply {
            stop: Stop::Refused,
            ..plain.clone()
        },
        Reply {
            tool_calls: vec![call("c1", r#"{"a":1.50}"#), call("c2", "{}")],
            stop: Stop::ToolCalls,
            ..plain
        },
    ];
    for reply in replies {
        assert_eq!(back(&reply), reply);
    }
}

#[test]
fn chunks_become_parts() {
    let text = |text: &str| Part::Text(text.into());
    let table: [(Value, Vec<Part>); 7] = [
        (
            json!({"id": "1", "model": "m", "choices": [{"delta": {"role": "assistant"}}]}),
            vec![Part::Id("1".into()), Part::Model("m".into()), text("")],
        ),
        (
            json!({"choices": [{"index": 0, "delta": {"content": "a", "reasoning": "b"}}, {"index": 1, "delta": {"content": "c"}}]}),
            vec![Part::Thinking("b".into()), text("a")],
        ),
        (
            json!({"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"text": "b"}]}, {"type": "text", "text": "a"}]}}]}),
            vec![Part::Thinking("b".into()), text("a")],
        ),
        (
            json!({"choices": [{"message": {"content": "whole"}, "finish_reason": "end_turn"}]}),
            vec![
                Part::Whole(vec![text("whole")]),
                Part::Finish(Finish::Other("end_turn".into())),
            ],
        ),
        (
            json!({"choices": [{"delta": {"content": null, "refusal": "no"}}]}),
            vec![text(""), Part::Refusal("no".into())],
        ),
        (
            json!({"choices": [], "usage": {"cost": 0.5}}),
            vec![Part::Usage(Usage::unknown(Scope::Turn).reported(0.5))],
        ),
        (json!({"choices": [], "usage": {}}), vec![]),
    ];
    for (chunk, wanted) in table {
        assert_eq!(decode(&chunk.to_string()).unwrap(), wanted, "{chunk}");
    }
    assert_eq!(decode(" [DONE]").unwrap(), [Part::Done]);
    assert!(decode("<html>").is_err());
}

#[test]
fn overlapping_counters_become_disjoint() {
    let chunk = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 90},
        "completion_tokens_details": {"reasoning_tokens": 9}}});
    let tokens = Tokens {
        input: 0,
        cache_read: 60,
        cache_write: 40,
        output: 9,
        reasoning: Some(9),
    };
    assert_eq!(
        decode(&chunk.to_string()).unwrap(),
        [Part::Usage(Usage::for_turn(None, tokens))]
    );
}

#[test]
fn a_price_list_estimates_what_is_not_reported() {
    let answer = |price: Option<&str>| {
        let mut partial = PartialReply::new("1", "gpt-5");
        let chunk = json!({"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}});
        partial.push(decode(&chunk.to_string()).unwrap(), |_| {});
        let price = price.map(|price| Price::parse(price).unwrap());
        let reply = partial.into_reply(|model| price.filter(|_| model == "gpt-5"));
        reply.unwrap().usage.swap_remove(0)
    };
    let (listed, unlisted) = (answer(Some("1.25/10")), answer(None));
    assert_eq!(
        (listed.cost_source, unlisted.cost_source),
        (CostSource::Estimated, CostSource::Unknown)
    );
    assert!((listed.cost_usd.unwrap() - 1.25).abs() < 1e-9);
    assert_eq!(listed.model.as_deref(), Some("gpt-5"));
}

#[test]
fn incomplete_replies_are_errors() {
    let cause = |parts: Vec<Part>| {
        let mut partial = PartialReply::new("1", "m");
        partial.push(parts, |_| {});
        partial.into_reply(|_| None).unwrap_err().cause()
    };
    assert_eq!(cause(vec![Part::Text("Hal".into())]), Cause::Network);
    assert_eq!(cause(vec![Part::Done]), Cause::Protocol);
    let busy = decode(r#"{"error":{"code":"overloaded"}}"#).unwrap();
    assert_eq!(cause(busy), Cause::Overloaded);
}

// The outcome of an adapter's failure is preserved.
#[test]
fn a_failure_keeps_its_outcome() {
    let outcome = Outcome::new(Cause::Protocol, "It used its own tool.").hint("Use another.");
    assert_eq!(Failed::from(outcome.clone()).outcome(), outcome);
    assert_eq!(
        ModelError::new(outcome).to_string(),
        "It used its own tool."
    );
}

// A conversation takes typed parts like the chunks of a server, live and from a recording.
#[test]
fn a_loop_runs_on_typed_parts() {
    let mut harness = Harness::of(SCRIPTED, &spec(&[]));
    let feed = |harness: &mut Harness, reply: &Reply| {
        harness.feed(&json!({"ostler": {"parts": parts(reply)}}));
        harness.end_answer();
    };
    harness.prompt("go");
    let tools = Reply {
        tool_calls: vec![call("1", "{}"), call("2", "{}")],
        stop: Stop::ToolCalls,
        ..reply("I add.")
    };
    feed(&mut harness, &tools);
    harness.result("1", "one");
    harness.result("2", "two");
    feed(&mut harness, &reply("Done."));
    let ended = harness.ended().pop().unwrap();
    assert_eq!(ended.text.as_deref(), Some("Done."));
    assert_eq!(ended.usage[0].output, Some(50));
    assert_eq!(ended.usage[0].model.as_deref(), Some("the-model"));
    // No request: the answer is one of a recording.
    feed(&mut harness, &reply("Again."));
    assert_eq!(
        (harness.ended().len(), harness.cause()),
        (2, Cause::Completed)
    );
}

proptest! {
    #[test]
    fn arbitrary_text_round_trips(text in any::<String>(), key in any::<String>()) {
        let args = RawJson::of(&std::collections::BTreeMap::from([(key, text.clone())]));
        let said = Reply {
            tool_calls: vec![ToolRequest { id: "c1".into(), name: "add".into(), args }],
            stop: Stop::ToolCalls,
            ..reply(&text)
        };
        prop_assert_eq!(back(&said), said);
    }
}
