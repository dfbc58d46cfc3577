//! A server and a script as plain models, with native function calls.

use ostler::adapter::{ApiModel, Message, ModelAdapter, Models, Stop};
use ostler::testing::Script;
use ostler::{Agents, Cause, Spec};
use ostler_core::usage::CostSource;
use ostler_testkit::model::{Answer, ModelServer, Rule, Script as Served};
use serde_json::json;

use super::{ask, ask_listening, calculator, hello};
use crate::rig::host;

fn server(script: Served) -> (ModelServer, ApiModel) {
    let server = ModelServer::start(script);
    let mut spec = Spec::default();
    spec.set("base_url", [format!("{}/v1", server.base_url())])
        .unwrap();
    spec.set("model", ["gpt-5-mini"]).unwrap();
    spec.set("retries", ["0"]).unwrap();
    let model = ApiModel::server(
        "openai:gpt-5-mini",
        &host(&[("OPENAI_API_KEY", "sk-test")]),
        &spec,
    )
    .unwrap();
    (server, model)
}

fn counting() -> Served {
    let call = Answer::text("I count.").and_tool("calculator", json!({"expression": "17 + 25"}));
    Served::new()
        .rule(Rule::on_tool_result().text("It is {tool_result}."))
        .rule(Rule::any().answer(call))
}

// S0-1, S0-16, S0-23: prompt, call, result, answer.
#[tokio::test]
async fn a_call_and_its_result() {
    let (server, model) = server(counting());
    let bound = model.bind_tools(vec![calculator()]);
    let mut messages = vec![
        Message::system("Be brief."),
        Message::user("What is 17 + 25?"),
    ];
    let (reply, streamed) = ask_listening(&*bound, &messages).await;
    assert_eq!(
        (
            reply.content.as_str(),
            reply.stop,
            streamed.concat().as_str()
        ),
        ("I count.", Stop::ToolCalls, "I count.")
    );
    let [call] = &reply.tool_calls[..] else {
        panic!("not one call: {reply:?}")
    };
    assert_eq!(
        (&*call.name, call.args.get()),
        ("calculator", r#"{"expression":"17 + 25"}"#)
    );
    let [usage] = &reply.usage[..] else {
        panic!("no usage: {reply:?}")
    };
    assert!(
        usage.output.is_some_and(|n| n > 0) && usage.cost_source == CostSource::Unknown,
        "{usage:?}"
    );
    messages.extend([reply.to_message(), Message::tool(call.id.clone(), "42")]);
    let reply = ask(&*bound, &messages).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.stop),
        ("It is 42.", Stop::End)
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (requests[0].tool_names(), requests[0].system_text()),
        (vec!["calculator"], "Be brief.".to_owned())
    );
    assert_eq!(requests[1].last_tool_results()[0].text, "42");
    // S0-24: the original model does not know the tool.
    ask(&model, &hello()).await.unwrap();
    assert!(server.requests()[2].tool_names().is_empty());
}

#[tokio::test]
async fn several_calls_keep_their_order() {
    let two = Answer::tool("calculator", json!({"expression": "1"}))
        .and_tool("calculator", json!({"expression": "2"}));
    let (_server, model) = server(Served::new().rule(Rule::any().answer(two)));
    let reply = ask(&*model.bind_tools(vec![calculator()]), &hello())
        .await
        .unwrap();
    let args: Vec<&str> = reply
        .tool_calls
        .iter()
        .map(|call| call.args.get())
        .collect();
    assert_eq!(args, [r#"{"expression":"1"}"#, r#"{"expression":"2"}"#]);
    assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id);
}

// S0-13: every failure has a cause.
#[tokio::test]
async fn failures_have_a_cause() {
    let cases = [
        (
            Answer::error(401, "invalid_request_error", "no such key"),
            Cause::Auth,
        ),
        (
            Answer::error(429, "requests", "slow down"),
            Cause::RateLimit,
        ),
        (
            Answer::text("half an answer").deltas(2).cut_after(1),
            Cause::Network,
        ),
    ];
    for (answer, cause) in cases {
        let (_server, model) = server(Served::new().rule(Rule::any().answer(answer)));
        let error = ask(&model, &hello()).await.unwrap_err();
        assert_eq!(error.cause(), cause, "{error:?}");
    }
    let (_server, model) = server(counting());
    assert_eq!(
        ask(&model, &[]).await.unwrap_err().cause(),
        Cause::BadRequest
    );
}

// The name contains the address. The server has a single model, which may be named or omitted.
#[tokio::test]
async fn a_server_by_its_address() {
    let server = ModelServer::start(Served::always("Here.").model("qwen"));
    let models = Models::new(host(&[]), Agents::builtin());
    for end in ["", "#qwen"] {
        let model = models
            .get(&format!("openai-compatible:{}/v1{end}", server.base_url()))
            .unwrap();
        assert_eq!(ask(&*model, &hello()).await.unwrap().content, "Here.");
    }
    assert!(
        server
            .requests()
            .iter()
            .filter(|call| call.is_chat())
            .all(|call| call.model() == "qwen")
    );
}

const SCRIPT: &str = r#"
[[reply]]
when = { result = "42" }
text = "It is 42."
usage = { input = 20, output = 4 }

[[reply]]
calls = [{ tool = "calculator", input = { expression = "17 + 25" } }]
"#;

// S0-26
#[tokio::test]
async fn a_script_plays_a_model() {
    let model = ApiModel::scripted("scripted", Script::parse(SCRIPT).unwrap())
        .bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let reply = ask(&*model, &messages).await.unwrap();
    assert_eq!((reply.tool_calls.len(), reply.stop), (1, Stop::ToolCalls));
    messages.extend([
        reply.to_message(),
        Message::tool(reply.tool_calls[0].id.clone(), "42"),
    ]);
    let reply = ask(&*model, &messages).await.unwrap();
    assert_eq!(reply.content, "It is 42.");
    assert_eq!(
        (reply.usage[0].input, reply.usage[0].output),
        (Some(20), Some(4))
    );
}
