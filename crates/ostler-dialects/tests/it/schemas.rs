//! Schemas of the caller's tools as offered to each agent: one golden file per agent in `schemas/`.

use std::path::Path;

use ostler_core::dialect::{Action, Bridge, Dialect, FromConversation, Launching, Outbox, ToAgent};
use ostler_core::spec::{Spec, ToolOffer};
use ostler_dialects::all;
use serde_json::{Value, json};

use crate::harness::{offer, on_the_wire};

/// Schema forms that agents were seen to rewrite or reject: a plain object, references,
/// alternatives, a list type, none.
fn offers() -> Vec<ToolOffer> {
    let schemas = [
        (
            "plain",
            json!({"type": "object", "properties": {"path": {"type": "string",
                "description": "A file."}, "lines": {"type": "integer", "minimum": 1,
                "default": 10}, "how": {"enum": ["a", "b"]}}, "required": ["path"],
                "additionalProperties": false}),
        ),
        (
            "referenced",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object",
                "properties": {"p": {"$ref": "#/$defs/Point"}}}, "Point": {"type": "object",
                "properties": {"x": {"type": "number"}}}}}),
        ),
        (
            "alternatives",
            json!({"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"},
                "r": {"type": "number"}}, "required": ["kind", "r"]}, {"type": "object",
                "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                "required": ["kind", "side"]}]}),
        ),
        (
            "nullable",
            json!({"type": ["object", "null"], "properties": {"n": {"type": ["integer", "null"], "format": "uint32"}}}),
        ),
        ("anything", json!({})),
    ];
    schemas
        .iter()
        .map(|(name, schema)| offer(name, &schema.to_string()))
        .collect()
}

/// Returns the tools that a conversation offers: in a request, over the bridge or on the control
/// channel.
fn offered(dialect: &dyn Dialect) -> Option<Value> {
    let bridge = Bridge {
        program: "/bin/ostler".into(),
        args: Vec::new(),
    };
    let spec = Spec::default().bound_tools(offers());
    let launching = Launching {
        bridge: Some(&bridge),
        ..Launching::new(&spec)
    };
    let (mut conversation, mut out) = (dialect.converse(&launching), Outbox::default());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let control = json!({"type": "control_request", "request_id": "c", "request": {"subtype": "mcp_message", "server_name": "ostler", "message": list}});
    // A model's tools are those of its runner.
    let ready =
        json!({"ostler": {"ready": {"model": "m", "cwd": "/work", "tools": spec.bound_tools}}});
    conversation.on_start(&mut out);
    for line in [
        control,
        ready,
        json!({"id": "initialize", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ] {
        conversation.on_line(&line.to_string(), &mut out);
    }
    conversation.on_bridge_line(1, &list.to_string(), &mut out);
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    let lines = out.drain().filter_map(|out| match out {
        FromConversation::Do(Action::Write(line) | Action::WriteBridge { line, .. }) => {
            serde_json::from_slice::<Value>(&on_the_wire(&line)).ok()
        }
        _ => None,
    });
    let pointers = [
        "/result/tools",
        "/response/response/mcp_response/result/tools",
        "/params/dynamicTools",
        "/call/tools",
    ];
    lines.into_iter().find_map(|line| {
        pointers
            .iter()
            .find_map(|pointer| line.pointer(pointer).cloned())
    })
}

// P62
#[test]
fn every_agent_is_offered_its_schemas() {
    #[expect(
        clippy::disallowed_methods,
        reason = "switch to rewrite the golden files"
    )]
    let update = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schemas");
    let mut agents = 0;
    for dialect in all()
        .iter()
        .filter(|dialect| dialect.about().capabilities.tools)
    {
        agents += 1;
        let tools =
            offered(*dialect).unwrap_or_else(|| panic!("{} offers no tools", dialect.about().name));
        let found = serde_json::to_string_pretty(&tools).unwrap() + "\n";
        let path = folder.join(format!("{}.json", dialect.about().name));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == golden,
            "{}: differs from {} (UPDATE_GOLDEN=1 rewrites):\n{found}",
            dialect.about().name,
            path.display()
        );
        assert_eq!(
            tools.as_array().unwrap().len(),
            offers().len(),
            "no tool is dropped"
        );
    }
    assert_eq!(
        agents,
        std::fs::read_dir(&folder).unwrap().count(),
        "one golden file per agent"
    );
}
