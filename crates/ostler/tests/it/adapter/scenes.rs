//! Real agents as plain models: each scene runs with the agents listed in `real::adapter`.

use std::time::Duration;

use ostler::adapter::{AgentModel, Calling, Message, ModelAdapter, ModelOptions, Reply, Stop};
use ostler::agent_loop::{Condition, Ending, Loop};
use ostler::spec::Settings;
use ostler::{Agents, Cause};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Pairs, Subject, TestEnv};
use serde_json::{Value, json};

use super::{ask, ask_listening, block, calculator, hello};
use crate::driver::host;

fn model(place: &TestEnv, calling: Calling) -> AgentModel {
    asked_with(place, calling, &Settings::default())
}

fn options(place: &TestEnv, calling: Calling) -> ModelOptions {
    let mut settings = Settings::default();
    place
        .subject
        .settings
        .always
        .iter()
        .for_each(|(key, value)| settings.set(key, value));
    ModelOptions {
        program: place.program(),
        calling,
        settings,
        ..ModelOptions::default()
    }
}

fn agent_model(place: &TestEnv, options: ModelOptions) -> AgentModel {
    AgentModel::new(
        Agents::builtin().get(place.subject.name).unwrap(),
        host(place),
        options,
    )
}

fn asked_with(place: &TestEnv, calling: Calling, settings: &Settings) -> AgentModel {
    let mut options = options(place, calling);
    for (key, values) in settings.iter() {
        values
            .iter()
            .for_each(|value| options.settings.push(key, value));
    }
    agent_model(place, options)
}

/// The calculator of source S0, limited to sums.
fn calculate(args: &str) -> String {
    let args: Value = serde_json::from_str(args).unwrap();
    let terms = args["expression"].as_str().unwrap().split('+');
    terms
        .map(|term| term.trim().parse::<i64>().unwrap())
        .sum::<i64>()
        .to_string()
}

/// Output tokens of all answers that the server gave, as the agent should report them.
fn output(place: &TestEnv) -> u64 {
    place.subject.numbers.sum(&place.server.served())[3]
}

/// Runs the calls of a reply, and adds both to the conversation.
fn run(messages: &mut Vec<Message>, reply: &Reply) {
    messages.push(reply.to_message());
    for call in &reply.tool_calls {
        assert_eq!(call.name, "calculator");
        messages.push(Message::tool(call.id.clone(), calculate(call.args.get())));
    }
}

/// Plain text and its cost. The model sees none of the agent's built-in tools, or may use none.
/// S0-5.
pub(crate) async fn plain_text(subject: &'static Subject) {
    let place = TestEnv::new(subject, Script::always("  It is 42.\n"));
    let (reply, streamed) = ask_listening(&model(&place, Calling::Auto), &hello()).await;
    assert_eq!(
        (reply.content.as_str(), reply.stop, reply.tool_calls.len()),
        ("It is 42.", Stop::End, 0)
    );
    assert_eq!(streamed.concat().trim(), "It is 42.");
    assert_eq!(
        reply
            .usage
            .iter()
            .filter_map(|usage| usage.output)
            .sum::<u64>(),
        output(&place)
    );
    let call = place.only_call();
    assert!(
        call.last_user_text().contains("[User]\nWhat is 17 + 25?"),
        "{}",
        call.last_user_text()
    );
    match subject.name {
        "claude" => assert_eq!(call.tool_names(), [""; 0]),
        // This tool cannot be removed; `an_own_patch` covers it.
        "codex" => assert_eq!(call.tool_names(), ["apply_patch"]),
        _ => {}
    }
    assert_eq!(place.processes(), []);
}

/// A JSON block, our calculator, the final answer: each call is a separate session. S0-25.
pub(crate) async fn a_tool_block(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("[Tool Result (c1)]\n42").text("It is 42."))
        .rule(Rule::on_text("Available tools:").text(format!("I count.\n\n{}", block(&["c1"]))));
    let place = TestEnv::new(subject, script);
    let model = model(&place, Calling::Prompt).bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let (reply, streamed) = ask_listening(&*model, &messages).await;
    assert_eq!(
        (
            reply.content.as_str(),
            reply.stop,
            streamed.concat().as_str()
        ),
        ("I count.", Stop::ToolCalls, "I count.")
    );
    assert!(!reply.usage.is_empty());
    run(&mut messages, &reply);
    let reply = ask(&*model, &messages).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.stop),
        ("It is 42.", Stop::End)
    );
    assert_eq!(place.server.requests().len(), 2);
    assert_eq!(place.processes(), []);
}

/// Several calls in one block, in order. S0-23.
pub(crate) async fn several_calls(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("[Tool Result (b)]").text("Both are 42."))
        .rule(Rule::any().text(block(&["a", "b"])));
    let place = TestEnv::new(subject, script);
    let model = model(&place, Calling::Prompt).bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let reply = ask(&*model, &messages).await.unwrap();
    let ids: Vec<&str> = reply
        .tool_calls
        .iter()
        .map(|call| call.id.as_str())
        .collect();
    assert_eq!((ids, reply.content.as_str()), (vec!["a", "b"], ""));
    run(&mut messages, &reply);
    assert_eq!(
        ask(&*model, &messages).await.unwrap().content,
        "Both are 42."
    );
}

/// A block that is not valid JSON is text, not an error. S0-21.
pub(crate) async fn invalid_json(subject: &'static Subject) {
    let broken = "```json\n{\"tool_calls\": [{\"name\": oops]\n```";
    let place = TestEnv::new(subject, Script::always(broken));
    let reply = ask(
        &*model(&place, Calling::Prompt).bind_tools(vec![calculator()]),
        &hello(),
    )
    .await
    .unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.tool_calls.len(), reply.stop),
        (broken, 0, Stop::End)
    );
}

/// Native calls: one session, which waits for our calculator.
pub(crate) async fn native_calls(subject: &'static Subject) {
    let call = Answer::text("I count.").and_tool(
        format!("{}calculator", subject.tools.bound),
        json!({"expression": "17 + 25"}),
    );
    let script = Script::new()
        .rule(Rule::on_tool_result().text("It is 42."))
        .rule(Rule::any().answer(call));
    let place = TestEnv::new(subject, script);
    let model = model(&place, Calling::Auto).bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let reply = ask(&*model, &messages).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.stop),
        ("I count.", Stop::ToolCalls)
    );
    let pid = place.agent();
    run(&mut messages, &reply);
    let last = model.invoke(&messages);
    assert_eq!(place.agent(), pid);
    let reply = last.await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.stop),
        ("It is 42.", Stop::End)
    );
    let calls = place.server.requests();
    assert_eq!(calls.len(), 2, "one session: two model calls");
    let result = &calls[1].last_tool_results()[0].text;
    assert!(
        result == "42" || (subject.quirks.wraps_outputs && result.contains("\n42\n")),
        "{result}"
    );
    if subject.name == "claude" {
        // Claude Code adds a harmless placeholder when other tools are present.
        let names: Vec<&str> = calls[0]
            .tool_names()
            .into_iter()
            .filter(|name| *name != "DeferredToolPlaceholder")
            .collect();
        assert_eq!(names, ["mcp__ostler__calculator"]);
    }
    assert_eq!(
        reply
            .usage
            .iter()
            .filter_map(|usage| usage.output)
            .sum::<u64>(),
        output(&place)
    );
    assert_eq!(place.processes(), []);
}

/// Two calls in one answer of the model: both run, whether the agent passes them on together or one
/// by one. S0-23.
pub(crate) async fn two_native_calls(subject: &'static Subject) {
    let name = format!("{}calculator", subject.tools.bound);
    let both = Answer::tool(name.clone(), json!({"expression": "17 + 25"}))
        .and_tool(name, json!({"expression": "1 + 2"}));
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Both."))
        .rule(Rule::any().answer(both));
    let place = TestEnv::new(subject, script);
    let model = model(&place, Calling::Native).bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let mut calls = 0;
    let last = loop {
        let reply = ask(&*model, &messages).await.unwrap();
        if reply.tool_calls.is_empty() {
            break reply;
        }
        calls += reply.tool_calls.len();
        run(&mut messages, &reply);
    };
    assert_eq!((calls, last.content.as_str()), (2, "Both."));
    let results: Vec<String> = place.server.requests()[1]
        .tool_results()
        .into_iter()
        .map(|result| result.text)
        .collect();
    assert_eq!(
        (results, place.server.requests().len()),
        (vec!["42".to_owned(), "3".to_owned()], 2)
    );
    assert_eq!(place.processes(), []);
}

/// The model uses a built-in tool anyway: nothing is executed, and the breach names the tool.
async fn breaks(
    subject: &'static Subject,
    settings: &Pairs,
    (tool, input): (&str, fn(&str) -> Value),
) {
    let made = tempfile::tempdir().unwrap();
    let file = made.path().join("made");
    let order = Answer::tool(tool, input(file.to_str().unwrap()));
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(Rule::any().answer(order));
    let place = TestEnv::new(subject, script);
    let mut given = Settings::default();
    settings
        .iter()
        .for_each(|(key, value)| given.push(key, value));
    let asked = ask(&asked_with(&place, Calling::Auto, &given), &hello()).await;
    let error = asked.expect_err("the agent has broken its contract");
    assert_eq!(error.cause(), Cause::Protocol, "{error:?}");
    let native = error
        .outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.as_deref());
    assert_eq!(native, Some("own_tool"), "{error:?}");
    assert!(error.to_string().contains(tool), "{error}");
    assert_eq!(place.processes(), []);
    assert!(!file.exists(), "it was done");
}

/// A command in Claude Code, which has no tool for it, even if the caller's own settings would
/// allow everything. S0-5.
pub(crate) async fn an_own_tool(subject: &'static Subject) {
    let command = (
        subject.command(),
        |file: &str| json!({"command": format!("touch {file}"), "description": "x"}),
    );
    breaks(subject, &Pairs::new(), (command.0, command.1)).await;
    breaks(subject, &subject.settings.trust, (command.0, command.1)).await;
}

/// A command in Codex after the caller restored the tool and all permissions: it still asks, and is
/// denied.
pub(crate) async fn an_own_command(subject: &'static Subject) {
    let mut settings = subject.settings.trust.clone();
    settings.insert("config".to_owned(), "features.shell_tool=true".to_owned());
    breaks(
        subject,
        &settings,
        (
            subject.command(),
            |file| json!({"cmd": format!("touch {file}")}),
        ),
    )
    .await;
}

/// A patch, the one tool that Codex cannot be started without. S0-5.
pub(crate) async fn an_own_patch(subject: &'static Subject) {
    let patch = |file: &str| {
        json!(format!(
            "*** Begin Patch\n*** Add File: {file}\n+made\n*** End Patch"
        ))
    };
    breaks(subject, &Pairs::new(), ("apply_patch", patch)).await;
    breaks(subject, &subject.settings.trust, ("apply_patch", patch)).await;
}

/// Without a tool for it, a command fails, and the model learns that.
pub(crate) async fn no_command(subject: &'static Subject) {
    let made = tempfile::tempdir().unwrap();
    let file = made.path().join("made");
    let order = subject.shell(&format!("touch {}", file.display()));
    let script = Script::new()
        .rule(Rule::on_tool_result().text("I cannot."))
        .rule(Rule::any().answer(order));
    let place = TestEnv::new(subject, script);
    assert_eq!(
        ask(&model(&place, Calling::Auto), &hello())
            .await
            .unwrap()
            .content,
        "I cannot."
    );
    assert!(!file.exists(), "the command was run");
}

/// A model that never answers: the timeout applies, and no process is left. S0-25.
pub(crate) async fn too_late(subject: &'static Subject) {
    let place = TestEnv::new(
        subject,
        Script::new().rule(Rule::any().answer(Answer::hang())),
    );
    let mut model = options(&place, Calling::Prompt);
    model.timeout = Duration::from_secs(4);
    let error = ask(&agent_model(&place, model), &hello())
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::WallLimit, "{error:?}");
    assert_eq!(place.processes(), []);
}

/// Twelve megabytes exceed the limit of a reply. S0-25.
pub(crate) async fn too_long(subject: &'static Subject) {
    let long = Answer::text("x".repeat(12 * 1024 * 1024)).deltas(12);
    let place = TestEnv::new(subject, Script::new().rule(Rule::any().answer(long)));
    let error = ask(&model(&place, Calling::Prompt), &hello())
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::OutputLimit, "{error:?}");
    assert_eq!(place.processes(), []);
}

/// A missing program is named in the error. S0-25.
pub(crate) async fn missing(subject: &'static Subject) {
    let place = TestEnv::new(subject, Script::always("unheard"));
    let mut model = options(&place, Calling::Prompt);
    model.program = Some("no-such-agent".into());
    let error = ask(&agent_model(&place, model), &hello())
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::Unavailable, "{error:?}");
    assert!(error.to_string().contains("no-such-agent"), "{error}");
}

/// The agent loop around an agent: we run its tool, in a single session if the agent supports
/// tools. S0-25.
pub(crate) async fn in_a_loop(subject: &'static Subject) {
    let call = Answer::text("I count.").and_tool(
        format!("{}calculator", subject.tools.bound),
        json!({"expression": "17 + 25"}),
    );
    let script = Script::new()
        .rule(Rule::on_tool_result().text("It is 42."))
        .rule(Rule::any().answer(call));
    let place = TestEnv::new(subject, script);
    let result = looping(model(&place, Calling::Auto))
        .run(&host(&place), "What is 17 + 25?")
        .await
        .unwrap();
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!((result.text.as_str(), result.iterations), ("It is 42.", 2));
    assert_eq!(
        place.server.requests().len(),
        2,
        "one session: two model calls"
    );
    assert_eq!(
        result.usage.and_then(|usage| usage.output),
        Some(output(&place))
    );
    assert_eq!(place.processes(), []);
}

/// With a budget, each reply reports its cost; if it cannot, the loop stops because the budget
/// cannot be enforced.
pub(crate) async fn in_a_loop_with_a_budget(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("[Tool Result (c1)]\n42").text("It is 42."))
        .rule(Rule::on_text("Available tools:").text(block(&["c1"])));
    let place = TestEnv::new(subject, script);
    let agent = looping(model(&place, Calling::Auto)).max_cost_usd(1000.0);
    let result = agent.run(&host(&place), "What is 17 + 25?").await.unwrap();
    if subject.name == "claude" {
        assert!(
            matches!(result.ending, Ending::Completed),
            "{:?}",
            result.outcome
        );
        assert!(
            result
                .usage
                .and_then(|usage| usage.cost_usd)
                .is_some_and(|cost| cost > 0.0)
        );
        // A budget that is too small stops the loop before it continues.
        let agent = looping(model(&place, Calling::Auto)).max_cost_usd(0.000_001);
        let result = agent.run(&host(&place), "What is 17 + 25?").await.unwrap();
        assert!(
            matches!(result.ending, Ending::Stopped(Condition::Budget)),
            "{:?}",
            result.outcome
        );
    } else {
        assert!(
            matches!(result.ending, Ending::Stopped(Condition::Budget)),
            "{:?}",
            result.outcome
        );
        assert!(
            result.outcome.message.contains("cannot be enforced"),
            "{:?}",
            result.outcome
        );
    }
    assert_eq!(place.processes(), []);
}

/// Builds a loop with the calculator.
fn looping(model: AgentModel) -> Loop {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Sum {
        /// The sum, such as 1 + 2.
        expression: String,
    }
    let calculator = ostler::tool(
        "calculator",
        "Evaluates an arithmetic expression.",
        |Sum { expression }| async move {
            Ok(calculate(&json!({ "expression": expression }).to_string()))
        },
    );
    Loop::new(model).bare().tool(calculator)
}
