//! Requests as OpenAI-compatible servers get them.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use ostler_model::openai::RequestOptions;
use ostler_model::{Message, ModelRequest, ToolRequest};
use serde_json::{Value, json};

use super::harness::spec;

fn encoded(request: &ModelRequest, settings: &[(&str, &str)]) -> Value {
    let body = RequestOptions::of(&spec(settings), false).encode(request);
    serde_json::from_str(body.get()).unwrap()
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "m".into(),
        messages,
        ..ModelRequest::default()
    }
}

fn call(id: &str, args: &str) -> ToolRequest {
    ToolRequest {
        id: id.into(),
        name: "add".into(),
        args: RawJson::parse(args).unwrap(),
    }
}

#[test]
fn every_message_has_its_form() {
    let parts = RawJson::parse(r#"[{"type":"text","text":"hi"}]"#).unwrap();
    let other = |name: &str| Message::Other {
        name: name.into(),
        content: "psst".into(),
    };
    let request = request(vec![
        Message::system("Be brief."),
        Message::user(parts),
        Message::Assistant {
            content: "I add.".into(),
            tool_calls: vec![call("c1", r#"{"a":1.50}"#)],
        },
        Message::tool("c1", "3"),
        Message::Assistant {
            content: "".into(),
            tool_calls: vec![call("c2", "{}")],
        },
        Message::tool("c2", ""),
        Message::assistant(""),
        other("developer"),
        other("Ada"),
    ]);
    let calls = |id: &str, arguments: &str| json!([{"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}}]);
    assert_eq!(
        encoded(&request, &[]),
        json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": "I add.", "tool_calls": calls("c1", r#"{"a":1.50}"#)},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "assistant", "content": null, "tool_calls": calls("c2", "{}")},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "assistant", "content": ""},
            {"role": "developer", "content": "psst"},
            {"role": "user", "name": "Ada", "content": "psst"},
        ]})
    );
    // The runner gets the same request.
    let line = serde_json::to_string(&request).unwrap();
    assert_eq!(
        serde_json::from_str::<ModelRequest>(&line).unwrap(),
        request
    );
}

// S0-15: structured content that is not a list of parts becomes text.
#[test]
fn an_object_as_content_becomes_text() {
    let object = RawJson::parse(r#"{"a": 1}"#).unwrap();
    let body = encoded(&request(vec![Message::user(object)]), &[]);
    assert_eq!(body["messages"][0]["content"], r#"{"a": 1}"#);
}

#[test]
fn settings_become_fields() {
    let with_tools = ModelRequest {
        tools: vec![ToolOffer {
            name: "add".into(),
            description: "Adds.".into(),
            parameters: RawJson::parse(r#"{"properties":{"a":{"type":"number"}}}"#).unwrap(),
        }],
        schema: Some(RawJson::parse(r#"{"type":"array"}"#).unwrap()),
        ..request(Vec::new())
    };
    let settings = [
        ("max_tokens", "9"),
        ("temperature", "0.30"),
        ("reasoning_effort", "low"),
        ("stream_usage", "false"),
        ("extra_body", r#"{"top_p": 1, "model": "other"}"#),
    ];
    assert_eq!(
        encoded(&with_tools, &settings),
        json!({"model": "other", "messages": [], "stream": true, "top_p": 1, "max_tokens": 9,
            "temperature": 0.3, "reasoning_effort": "low",
            "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.",
                "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}],
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "array"}}}})
    );
    let body = RequestOptions::of(&spec(&[("max_tokens", "9")]), true).encode(&with_tools);
    assert!(
        body.get().contains(r#""max_completion_tokens":9"#),
        "{body:?}"
    );
}
