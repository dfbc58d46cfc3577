//! Tests of the prompt convention: writing, parsing, and the round trip.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use proptest::prelude::*;

use super::*;
use crate::message::{Message, ToolRequest};

fn read(text: &str) -> ParsedReply {
    let mut n = 0;
    read_reply(text, || {
        n += 1;
        format!("made-{n}")
    })
}

fn request(id: &str, name: &str, args: &str) -> ToolRequest {
    ToolRequest {
        id: id.into(),
        name: name.into(),
        args: RawJson::parse(args).unwrap(),
    }
}

// S0-14, S0-15
#[test]
fn each_message_has_its_label() {
    let parts = RawJson::parse(r#"[{"type":"text","text":"hi"}]"#).unwrap();
    let messages = [
        Message::system("Be brief."),
        Message::user(parts),
        Message::Assistant {
            content: "I add.".into(),
            tool_calls: vec![request("c1", "add", r#"{"a":1}"#)],
        },
        Message::tool("c1", "3"),
        Message::assistant("3."),
        Message::Other {
            name: "developer".into(),
            content: "psst".into(),
        },
    ];
    let wanted = "[System]\nBe brief.\n\n[User]\n[{\"type\":\"text\",\"text\":\"hi\"}]\n\n[Assistant]\nI add.\n\n```json\n\
                  {\"tool_calls\":[{\"id\":\"c1\",\"name\":\"add\",\"args\":{\"a\":1}}]}\n```\n\n[Tool Result (c1)]\n3\n\n\
                  [Assistant]\n3.\n\n[developer]\npsst";
    assert_eq!(write_messages(&messages), wanted);
    assert_eq!(write_messages(&[]), "");
}

// A thread can be saved and resumed.
#[test]
fn messages_are_written_and_read_as_json() {
    let messages = vec![
        Message::system("Be brief."),
        Message::user(RawJson::parse(r#"[{"type":"text","text":"hi"}]"#).unwrap()),
        Message::Assistant {
            content: "I \"add\".".into(),
            tool_calls: vec![request("c1", "add", r#"{"a":1.50}"#)],
        },
        Message::tool("c1", RawJson::parse(r#"{"sum":3}"#).unwrap()),
        Message::Other {
            name: "developer".into(),
            content: "psst".into(),
        },
    ];
    let json = serde_json::to_string(&messages).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<Message>>(&json).unwrap(),
        messages,
        "{json}"
    );
    let wrong = serde_json::from_str::<Message>(r#"{"role":"oracle","content":"x"}"#)
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("oracle") && wrong.contains("assistant"),
        "{wrong}"
    );
}

// S0-16, S0-17
#[test]
fn tools_are_listed_with_the_way_to_call_them() {
    let parameters = RawJson::parse(r#"{"type":"object"}"#).unwrap();
    let offer = ToolOffer {
        name: "add".into(),
        description: "Adds.".into(),
        parameters,
    };
    let text = tool_preamble(&[offer]);
    assert!(text.starts_with("Available tools:\n[\n"), "{text}");
    for part in [
        r#""name": "add""#,
        r#""description": "Adds.""#,
        r#""parameters": {"#,
        "```json\n{\"tool_calls\": [",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Name, reply, expected text and expected calls.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

const ADD: &[(&str, &str, &str)] = &[("1", "add", r#"{"a":1}"#)];

// S0-18…S0-23
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("plain text", "  Hello.\n", "Hello.", &[]),
    ("a block alone", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "", ADD),
    ("no line breaks", "```json{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}```", "", ADD),
    ("text around it", "Before.\n```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```\nAfter.", "Before.\n\nAfter.", ADD),
    ("several calls", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{}},{\"name\":\"sub\",\"id\":\"2\",\"args\":{}}]}\n```", "", &[("1", "add", "{}"), ("2", "sub", "{}")]),
    ("no id, no args", "```json\n{\"tool_calls\":[{\"name\":\"add\"},{\"name\":\"sub\",\"id\":null,\"args\":null}]}\n```", "", &[("made-1", "add", "{}"), ("made-2", "sub", "{}")]),
    ("one id twice", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\"},{\"name\":\"sub\",\"id\":\"1\"}]}\n```", "", &[("1", "add", "{}"), ("made-1", "sub", "{}")]),
    ("an id that is a number", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":7}]}\n```", "", &[("7", "add", "{}")]),
    ("not JSON", "```json\n{\"tool_calls\": [oops\n```", "```json\n{\"tool_calls\": [oops\n```", &[]),
    ("JSON of another kind", "```json\n{\"answer\": 42}\n```", "```json\n{\"answer\": 42}\n```", &[]),
    ("calls that are not a list", "```json\n{\"tool_calls\": \"add\"}\n```", "```json\n{\"tool_calls\": \"add\"}\n```", &[]),
    ("an empty list", "All done.\n```json\n{\"tool_calls\": []}\n```", "All done.", &[]),
    ("another block before it", "```json\n{\"answer\": 42}\n```\n```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "```json\n{\"answer\": 42}\n```", ADD),
    ("a broken block before it", "```json\n{\"tool_calls\": [\n```\n```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "```json\n{\"tool_calls\": [\n```", ADD),
    ("another language before it", "```sh\nls {\n```\n```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "```sh\nls {\n```", ADD),
    ("a trailing comma", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1,},},],}\n```", "", ADD),
    ("comments", "```json\n{ // mine: }\n\"tool_calls\":[{\"name\":\"add\",/* } */\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "", ADD),
    ("single quotes", "```json\n{'tool_calls':[{'name':'add','id':'1','args':{'a':1}}]}\n```", "", ADD),
    ("braces and fences in a string", "```json\n{\"tool_calls\":[{\"name\":\"write\",\"id\":\"1\",\"args\":{\"text\":\"} ]\\n```\\n{\"}}]}\n```\ndone", "done", &[("1", "write", "{\"text\":\"} ]\\n```\\n{\"}")]),
    ("the same, repaired", "```json\n{\"tool_calls\":[{\"name\":\"write\",\"id\":\"1\",\"args\":{\"text\":\"}```\\\"{\",}}]}\n```", "", &[("1", "write", "{\"text\":\"}```\\\"{\"}")]),
    ("not closed", "Here:\n```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}", "Here:", ADD),
    ("no label", "```\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n```", "", ADD),
    ("no fence", "{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}", "", ADD),
    ("no fence, followed by text", "{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]} That is it.", "That is it.", ADD),
    ("no fence, on a separate line", "I add.\n  {\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\nSo be it.", "I add.\n  \nSo be it.", ADD),
    ("an object in the middle of a line is text", "The form is {\"tool_calls\":[{\"name\":\"add\"}]}.", "The form is {\"tool_calls\":[{\"name\":\"add\"}]}.", &[]),
    ("four backticks", "````json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n````\nend", "end", ADD),
    ("tildes", "~~~json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n~~~", "", ADD),
    ("two objects in one fence", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\n{\"tool_calls\":[]}\n```\nend", "end", ADD),
    ("a comment after the object", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]} // that is all\n```", "", ADD),
    ("not closed, followed by text", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1}}]}\nI wait.", "I wait.", ADD),
    ("arguments that are none are passed on", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":\"{broken\"},{\"name\":\"add\",\"id\":\"2\",\"args\":[1]}]}\n```", "", &[("1", "add", "\"{broken\""), ("2", "add", "[1]")]),
    ("two names for the arguments", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":1},\"arguments\":{\"a\":2}}]}\n```", "", ADD),
    ("in a function", "```json\n{\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}}]}\n```", "", ADD),
    ("no name", "```json\n{\"tool_calls\":[{\"id\":\"1\"}, 5]}\n```", "", &[("1", "unnamed", "{}"), ("made-1", "unnamed", "{}")]),
    ("big numbers stay as they are", "```json\n{\"tool_calls\":[{\"name\":\"add\",\"id\":\"1\",\"args\":{\"a\":12345678901234567890123}}]}\n```", "", &[("1", "add", "{\"a\":12345678901234567890123}")]),
];

// S0-19
#[test]
fn replies_are_read() {
    for (kind, text, content, calls) in CASES {
        let reply = read(text);
        let found: Vec<_> = reply
            .calls
            .iter()
            .map(|c| (&*c.id, &*c.name, c.args.get()))
            .collect();
        assert_eq!((&*reply.content, &found[..]), (*content, *calls), "{kind}");
        assert_eq!(reply.ignored, 0, "{kind}");
    }
}

// S0-19
#[test]
fn only_the_first_block_counts_and_all_are_removed() {
    let block = |name: &str| format!("```json\n{{\"tool_calls\":[{{\"name\":\"{name}\"}}]}}\n```");
    let reply = read(&format!("one {} two {} three", block("add"), block("sub")));
    assert_eq!(
        (
            &*reply.content,
            reply.calls.len(),
            &*reply.calls[0].name,
            reply.ignored
        ),
        ("one  two  three", 1, "add", 1)
    );
}

#[test]
fn hostile_replies_are_handled() {
    for text in [
        "```json\n{".repeat(20_000),
        format!("```json\n{}", "{\"a\":[".repeat(50_000)),
        "```".repeat(100_000),
    ] {
        assert_eq!(read(&text).calls, []);
    }
}

fn text_strategy() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        Just("```json\n".to_owned()),
        Just("```".to_owned()),
        Just("{\"tool_calls\":".to_owned()),
        Just("{\"a\": \"}\"}".to_owned()),
        Just("\n".to_owned()),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn call() -> impl Strategy<Value = (String, String)> {
    (
        "[a-z_]{1,12}",
        prop::collection::btree_map("[a-z\"}{`]{0,6}", text_strategy(), 0..4),
    )
        .prop_map(|(name, args)| (name, serde_json::to_string(&args).unwrap()))
}

/// Returns the text that a gate passes, and the text of the reply.
fn passed(text: &str, cuts: &[usize]) -> (String, String) {
    let mut gate = Gate::default();
    let mut passed = String::new();
    let mut rest = text;
    for cut in cuts {
        let at = rest.floor_char_boundary(*cut);
        passed.extend(gate.pass(&rest[..at]));
        rest = &rest[at..];
    }
    passed.extend(gate.pass(rest));
    let content = read(text).content;
    passed.push_str(gate.rest(&content));
    (passed, content)
}

#[test]
fn gate_passes_text_immediately_and_holds_back_blocks() {
    let mut gate = Gate::default();
    let pieces = [
        "  Hello",
        " there ",
        "you.\n\n",
        "``",
        "`json\n{\"tool_calls\":",
        "[]}\n```",
    ];
    let passed: Vec<_> = pieces
        .iter()
        .map(|piece| gate.pass(piece).unwrap_or_default())
        .collect();
    assert_eq!(passed, ["Hello", " there", " you.", "", "", ""]);
    let mut gate = Gate::default();
    assert_eq!(
        (gate.pass("{\"tool"), gate.pass("_calls\":[]}")),
        (None, None)
    );
}

proptest! {
    // However the text is split, the gate passes exactly the text of the reply, without blocks.
    #[test]
    fn gate_passes_exactly_the_text_of_the_reply(text in text_strategy(),
        calls in prop::collection::vec(call(), 0..2),
                                    cuts in prop::collection::vec(0usize..20, 0..8)) {
        let calls: Vec<_> = calls.iter().map(|(name, args)| request("c", name, args)).collect();
        let (passed, content) = passed(&write_reply(&text, &calls), &cuts);
        prop_assert_eq!(passed, content);
    }

    // S0-20: a reply that was written is parsed back to the same calls and the same text, without
    // the block.
    #[test]
    fn written_replies_round_trip(content in text_strategy(), calls in prop::collection::vec(call(),
        1..4)) {
        // Text that itself contains calls is parsed as such and is not the subject here.
        prop_assume!(read(&content).calls.is_empty());
        let calls: Vec<_> = calls.iter().enumerate().map(|(n, (name,
            args))| request(&format!("c{n}"), name, args)).collect();
        let reply = read(&write_reply(&content, &calls));
        prop_assert_eq!(&reply.calls, &calls);
        prop_assert_eq!(reply.content, read(&content).content);
    }

    // Whatever text surrounds them, parsed calls do not remain in the text.
    #[test]
    fn parsed_calls_are_removed_from_the_text(before in text_strategy(), after in "[^`~{]*",
        calls in prop::collection::vec(call(), 1..3)) {
        prop_assume!(!before.contains("tool_calls"));
        let calls: Vec<_> = calls.iter().map(|(name, args)| request("c", name, args)).collect();
        prop_assume!(calls.iter().all(|call| !call.args.get().contains("tool_calls")));
        let reply = read(&format!("{before}\n\n{}\n{after}", write_reply("", &calls)));
        prop_assert!(!reply.calls.is_empty());
        prop_assert!(!reply.content.contains("tool_calls"), "{}", reply.content);
    }

    #[test]
    fn nothing_is_lost_from_plain_text(content in "[^`~{]*") {
        prop_assert_eq!(read(&content).content, content.trim());
    }
}
