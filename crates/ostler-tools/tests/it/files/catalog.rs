//! The tools as a model sees them.

use ostler_tools::Workspace;
use ostler_tools::catalog::{FILE_TOOLS, unknown_tool};
use serde_json::{Value, json};

use super::rig::Rig;

#[test]
fn every_tool_has_a_plain_schema() {
    for tool in FILE_TOOLS {
        let text = (tool.schema)();
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{text}"
        );
        for noise in [
            "$schema",
            "$ref",
            "$defs",
            "\"title\"",
            "null",
            "\"format\"",
        ] {
            assert!(!text.contains(noise), "{}: {noise} in {text}", tool.name);
        }
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string() && property["type"].is_string(),
                "{}: {name}",
                tool.name
            );
        }
        assert!(tool.description.len() > 20);
    }
}

// S2-18
#[test]
fn names_and_arguments_match_the_contract() {
    let tool = |name: &str| FILE_TOOLS.iter().find(|tool| tool.name == name).unwrap();
    let required = |name: &str| -> Value {
        let schema: Value = serde_json::from_str(&(tool(name).schema)()).unwrap();
        schema.get("required").cloned().unwrap_or(json!([]))
    };
    assert_eq!(required("read_file"), json!(["path"]));
    assert_eq!(required("write_file"), json!(["path", "content"]));
    assert_eq!(required("list_files"), json!([]));
    assert_eq!(required("search_files"), json!(["pattern"]));
    let reading: Vec<_> = FILE_TOOLS
        .iter()
        .filter(|tool| tool.only_reads)
        .map(|tool| tool.name)
        .collect();
    assert_eq!(reading, ["read_file", "list_files", "search_files"]);
}

#[test]
fn unknown_tool_error_lists_the_tools() {
    let rig = Rig::new();
    let error = rig.call("fly", &json!({})).unwrap_err();
    assert_eq!(error.code.as_str(), "unknown_tool");
    assert!(
        FILE_TOOLS
            .iter()
            .all(|tool| error.message.contains(tool.name)),
        "{error}"
    );
    assert_eq!(
        unknown_tool("x\n", ["a", "b"]).message,
        "there is no tool `x`; the tools are a, b"
    );
}

#[test]
fn every_tool_can_be_called_by_its_name() {
    let rig = Rig::new();
    for tool in FILE_TOOLS {
        let result = rig.call(tool.name, &json!({"no_such_argument": 1}));
        assert_eq!(
            result.unwrap_err().code.as_str(),
            "bad_arguments",
            "{}",
            tool.name
        );
    }
}

#[test]
fn workspace_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Workspace>();
}
