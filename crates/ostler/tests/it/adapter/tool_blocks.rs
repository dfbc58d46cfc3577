//! Tool calls written as a JSON block in the text.

use ostler::adapter::{Message, ModelAdapter, Stop};

use super::{Part, Stage, ask, ask_listening, block, calculator, hello};

// S0-16, S0-17: the tool definitions precede the conversation.
#[tokio::test]
async fn prompt_lists_the_tools() {
    for part in Part::BOTH {
        let stage = Stage::answering(part, "42");
        ask(&*stage.model().bind_tools(vec![calculator()]), &hello())
            .await
            .unwrap();
        let prompt = stage.prompt();
        let parts = [
            "Available tools:\n",
            r#""name": "calculator""#,
            r#""description": "Evaluates an arithmetic expression.""#,
            r#""parameters": {"#,
            "```json\n{\"tool_calls\": [{\"name\": ",
            "plain text without such a block.\n\n[User]\nWhat is 17 + 25?",
        ];
        let mut rest = prompt.as_str();
        for part in parts {
            let at = rest
                .find(part)
                .unwrap_or_else(|| panic!("{part:?} is missing: {prompt}"));
            rest = &rest[at + part.len()..];
        }
        assert!(
            prompt.starts_with("Available tools:") && rest.is_empty(),
            "{prompt}"
        );
    }
}

// S0-18…S0-23, S0-25: the agent's output, the text parsed from it, and the calls parsed from it.
#[tokio::test]
async fn calls_are_parsed_from_text() {
    let one = block(&["c1"]);
    let two = block(&["c1", "c2"]);
    let broken = "```json\n{\"tool_calls\": [{\"name\": \"calculator\", oops\n```";
    let cases: [(&str, String, &str, &[&str]); 7] = [
        ("one", one.clone(), "", &["c1"]),
        ("several", two, "", &["c1", "c2"]),
        ("none", "It is 42.".into(), "It is 42.", &[]),
        (
            "words around",
            format!("I count.\n\n{one}\n\nWait."),
            "I count.\n\n\n\nWait.",
            &["c1"],
        ),
        ("invalid JSON", broken.into(), broken, &[]),
        (
            "other JSON",
            "```json\n{\"answer\": 42}\n```".into(),
            "```json\n{\"answer\": 42}\n```",
            &[],
        ),
        ("a trailing comma", one.replace("}]}", "},]}"), "", &["c1"]),
    ];
    for part in Part::BOTH {
        for (kind, said, content, ids) in &cases {
            let stage = Stage::answering(part, said);
            let reply = ask(&*stage.model().bind_tools(vec![calculator()]), &hello())
                .await
                .unwrap();
            let found: Vec<&str> = reply
                .tool_calls
                .iter()
                .map(|call| call.id.as_str())
                .collect();
            assert_eq!(
                (reply.content.as_str(), &found[..]),
                (*content, *ids),
                "{part:?}, {kind}"
            );
            for call in &reply.tool_calls {
                assert_eq!(
                    (call.name.as_str(), call.args.get()),
                    ("calculator", r#"{"expression":"17 + 25"}"#)
                );
            }
            assert_eq!(
                reply.stop,
                if ids.is_empty() {
                    Stop::End
                } else {
                    Stop::ToolCalls
                },
                "{kind}"
            );
        }
    }
}

// S0-19: a call without an id gets a unique one; a call without arguments gets an empty object.
#[tokio::test]
async fn missing_call_ids_are_generated() {
    let said =
        "```json\n{\"tool_calls\":[{\"name\":\"calculator\"},{\"name\":\"calculator\"}]}\n```";
    let stage = Stage::answering(Part::Claude, said);
    let reply = ask(&*stage.model().bind_tools(vec![calculator()]), &hello())
        .await
        .unwrap();
    let [first, second] = &reply.tool_calls[..] else {
        panic!("not two calls: {reply:?}")
    };
    assert!(!first.id.is_empty() && first.id != second.id, "{reply:?}");
    assert_eq!((first.args.get(), second.args.get()), ("{}", "{}"));
}

// S0-18, S0-24: only the returned adapter knows the tools.
#[tokio::test]
async fn unbound_model_parses_no_calls() {
    for part in Part::BOTH {
        let said = block(&["c1"]);
        let stage = Stage::answering(part, &said);
        let model = stage.model();
        let bound = model.bind_tools(vec![calculator()]);
        let reply = ask(&model, &hello()).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.tool_calls.len(), reply.stop),
            (said.as_str(), 0, Stop::End)
        );
        assert!(
            !stage.prompt().contains("Available tools:"),
            "{}",
            stage.prompt()
        );
        assert_eq!(ask(&*bound, &hello()).await.unwrap().tool_calls.len(), 1);
        assert_eq!(
            ask(&*bound.bind_tools(Vec::new()), &hello())
                .await
                .unwrap()
                .tool_calls
                .len(),
            0
        );
    }
}

// The next prompt contains the call, in the format the model is asked to use, and its result.
#[tokio::test]
async fn next_prompt_contains_the_result() {
    let stage = Stage::answering(Part::Claude, &format!("I count.\n{}", block(&["c1"])));
    let model = stage.model().bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let reply = ask(&*model, &messages).await.unwrap();
    messages.extend([reply.to_message(), Message::tool("c1", "42")]);
    ask(&*model, &messages).await.unwrap();
    let wanted = "[User]\nWhat is 17 + 25?\n\n[Assistant]\nI count.\n\n```json\n{\"tool_calls\":[{\"id\":\"c1\",\"name\":\"calculator\",\
                  \"args\":{\"expression\":\"17 + 25\"}}]}\n```\n\n[Tool Result (c1)]\n42";
    assert!(stage.prompt().ends_with(wanted), "{}", stage.prompt());
}

// Text is streamed and the block is not. A block without tool calls is streamed as text.
#[tokio::test]
async fn call_block_is_not_streamed() {
    let pieces = |pieces: &[&str]| {
        let said = pieces.concat();
        let escaped = |text: &str| text.replace('\n', "\\n");
        let deltas: String = pieces
            .iter()
            .map(|piece| format!("delta {}\n", escaped(piece)))
            .collect();
        format!(
            "{deltas}text {}\nresult {}\n",
            escaped(&said),
            escaped(&said)
        )
    };
    let calls = block(&["c1"]);
    let (head, tail) = calls.split_at(2);
    let stage = Stage::new(Part::Claude, &pieces(&["I ", "count.\n\n", head, tail]));
    let (reply, streamed) =
        ask_listening(&*stage.model().bind_tools(vec![calculator()]), &hello()).await;
    assert_eq!(
        (reply.tool_calls.len(), streamed.concat().as_str()),
        (1, "I count.")
    );
    let stage = Stage::new(
        Part::Claude,
        &pieces(&["See: ", "```json\n{\"answer\":", " 42}\n```"]),
    );
    let (reply, streamed) =
        ask_listening(&*stage.model().bind_tools(vec![calculator()]), &hello()).await;
    assert_eq!(
        (streamed.concat(), reply.tool_calls.len()),
        (reply.content, 0)
    );
}
