//! Requests to the server, and unusual responses from servers.

use serde_json::json;

use super::calls::two_files;
use super::{answers, completes, only};
use crate::model::{Answer, Delivery, Framing, Reasoning, Request, Rule, Script};
use crate::scenario::{Driver, KEY, Task, run};

fn call_of(driver: &dyn Driver, task: &Task) -> Request {
    let env = only(driver, Answer::text("Hello."));
    completes(driver, &env, task);
    env.only_call()
}

/// The key, the caller's headers, the organization and the project. S2-19.
pub fn headers(driver: &dyn Driver) {
    let task = Task::new("PROMPT")
        .set("header", "X-Title: Ostler's tests")
        .set("header", "X-Other: a: b")
        .set("organization", "org-1")
        .set("project", "proj-2");
    let call = call_of(driver, &task);
    assert_eq!(
        call.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(call.header("x-title"), Some("Ostler's tests"));
    assert_eq!(call.header("x-other"), Some("a: b"));
    assert_eq!(
        (
            call.header("openai-organization"),
            call.header("openai-project")
        ),
        (Some("org-1"), Some("proj-2"))
    );
    assert_eq!(call.header("content-type"), Some("application/json"));
    assert!(
        call.header("user-agent")
            .is_some_and(|agent| agent.starts_with("ostler/")),
        "{:?}",
        call.headers
    );
    assert!(call.wants_stream() && call.wants_usage());
}

/// The key can be in a variable with another name.
pub fn key_in_another_variable(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello.")).with_host("ROUTER_KEY", "another-key");
    completes(
        driver,
        &env,
        &Task::new("PROMPT").set("api_key_env", "ROUTER_KEY"),
    );
    assert_eq!(
        env.only_call().header("authorization"),
        Some("Bearer another-key")
    );
}

/// A self-hosted server needs no key.
pub fn no_key(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello.")).without_host("OPENAI_API_KEY");
    completes(driver, &env, &Task::new("PROMPT"));
    assert_eq!(env.only_call().header("authorization"), None);
}

/// The setting overrides the variable. A trailing slash makes no difference, and a path prefix is
/// preserved.
pub fn a_base_url(driver: &dyn Driver) {
    let env =
        only(driver, Answer::text("Hello.")).with_host("OPENAI_BASE_URL", "http://127.86.75.30:9");
    for (end, path) in [("/v1", "/v1"), ("/openai/v1/", "/openai/v1"), ("", "")] {
        let url = format!("{}{end}", env.server.base_url());
        completes(driver, &env, &Task::new("PROMPT").set("base_url", url));
        let call = env.server.requests().pop().expect("a call");
        assert_eq!(call.path, format!("{path}/chat/completions"));
    }
}

/// Without a configured model, the server's only model is used; if it has several, the caller must
/// choose.
pub fn the_only_model(driver: &dyn Driver) {
    let script = |models: &[&str]| {
        models
            .iter()
            .fold(Script::new(), |script, name| script.model(*name))
            .rule(Rule::any().text("Hello."))
    };
    let env = driver
        .test_env(script(&["the-one"]))
        .without_host("OPENAI_MODEL");
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert_eq!(
        (env.only_call().model(), &seen.one("started")["model"]),
        ("the-one", &json!("the-one"))
    );
    let listing = env
        .server
        .all_requests()
        .into_iter()
        .find(|request| request.path.ends_with("/models"));
    assert_eq!(
        listing.and_then(|r| r.header("authorization").map(str::to_owned)),
        Some(format!("Bearer {KEY}"))
    );
    let env = driver
        .test_env(script(&["one", "another"]))
        .without_host("OPENAI_MODEL");
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("bad_request", 2);
    let words = seen.outcome().to_string();
    assert!(
        words.contains("--model") && words.contains("another"),
        "{words}"
    );
    assert!(env.server.requests().is_empty());
}

/// Settings that become request fields, and fields without a setting.
pub fn fields_of_a_request(driver: &dyn Driver) {
    let plain = call_of(driver, &Task::new("PROMPT")).body;
    for absent in [
        "max_tokens",
        "temperature",
        "reasoning_effort",
        "response_format",
        "n",
    ] {
        assert!(
            plain.get(absent).is_none(),
            "{absent} was not requested: {plain:#}"
        );
    }
    let task = Task::new("PROMPT")
        .set("max_tokens", "321")
        .set("temperature", "0.5")
        .set("reasoning_effort", "low")
        .set(
            "extra_body",
            r#"{"top_p": 0.9, "provider": {"only": ["x"]}}"#,
        );
    let body = call_of(driver, &task).body;
    assert_eq!(
        (
            &body["max_tokens"],
            &body["temperature"],
            &body["reasoning_effort"]
        ),
        (&json!(321), &json!(0.5), &json!("low"))
    );
    assert_eq!(
        (&body["top_p"], &body["provider"]),
        (&json!(0.9), &json!({"only": ["x"]}))
    );
    let tool = &body["tools"][0];
    assert_eq!(
        (&tool["type"], &tool["function"]["parameters"]["type"]),
        (&json!("function"), &json!("object"))
    );
}

/// A server that cannot stream is supported.
pub fn never_streams(driver: &dyn Driver) {
    let answer = Answer::thinking("Hm.")
        .and_text("Forty-two.")
        .manner(Delivery::AlwaysWhole);
    let seen = completes(driver, &only(driver, answer), &Task::new("PROMPT"));
    seen.assert_usage(1..=1);
    let texts: Vec<&str> = seen
        .all("text")
        .iter()
        .filter_map(|text| text["text"].as_str())
        .collect();
    assert_eq!(
        (texts, seen.answer()),
        (vec!["Hm.", "Forty-two."], "Forty-two.")
    );
}

/// The same with tool calls.
pub fn never_streams_with_tools(driver: &dyn Driver) {
    let env = answers(
        driver,
        [
            two_files().manner(Delivery::AlwaysWhole),
            Answer::text("Done.").manner(Delivery::AlwaysWhole),
        ],
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    seen.assert_usage(1..=2);
    assert!(env.work().join("one.txt").exists() && env.work().join("two.txt").exists());
}

fn framed(driver: &dyn Driver, framing: Framing) {
    let text = "Grüße an alle 🐎 und 👩‍🚀.";
    let env = answers(
        driver,
        [
            two_files().manner(framing),
            Answer::text(text).deltas(5).manner(framing),
        ],
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    seen.assert_usage(1..=2);
    assert_eq!(seen.answer(), text);
    let texts: Vec<&str> = seen
        .all("text")
        .iter()
        .filter_map(|text| text["text"].as_str())
        .collect();
    assert_eq!((texts.len(), texts.concat().as_str()), (5, text));
}

/// Comments between events, which gateways send as keep-alives.
pub fn comments(driver: &dyn Driver) {
    framed(driver, Framing::Comments);
}

/// Windows line endings.
pub fn carriage_returns(driver: &dyn Driver) {
    framed(driver, Framing::CrLf);
}

/// Chunks that split a character in the middle.
pub fn torn_bytes(driver: &dyn Driver) {
    framed(driver, Framing::Torn);
}

/// No `[DONE]` at the end: the finish reason is sufficient.
pub fn without_done(driver: &dyn Driver) {
    framed(driver, Framing::WithoutDone);
}

fn thoughts(driver: &dyn Driver, reasoning: Reasoning) {
    let answer = Answer::thinking("Hm, let me see.")
        .deltas(3)
        .and_text("Forty-two.")
        .manner(reasoning);
    let env = only(driver, answer);
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    let thoughts = seen
        .all("text")
        .into_iter()
        .filter(|text| text["kind"] == "thinking");
    let thoughts: String = thoughts.filter_map(|text| text["text"].as_str()).collect();
    assert_eq!(
        (thoughts.as_str(), seen.answer()),
        ("Hm, let me see.", "Forty-two.")
    );
}

/// Reasoning in the field `reasoning`.
pub fn reasoning_in_another_field(driver: &dyn Driver) {
    thoughts(driver, Reasoning::Plain);
}

/// Reasoning in both fields is emitted once.
pub fn reasoning_twice(driver: &dyn Driver) {
    thoughts(driver, Reasoning::Both);
}

/// An answer that violates the schema is sent back at most twice; then the turn fails. P64.
pub fn schema_violation_is_sent_back(driver: &dyn Driver) {
    let schema = r#"{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false}"#;
    let task = Task::new("PROMPT").set("json_schema", schema);
    let env = answers(
        driver,
        [Answer::text("It is 42."), Answer::text(r#"{"answer": 42}"#)],
    );
    let seen = completes(driver, &env, &task);
    assert_eq!(seen.one("turn_ended")["structured"], json!({"answer": 42}));
    assert!(
        env.server.requests()[1].last_user_text().contains("JSON"),
        "the model gets the error"
    );
    let env = only(driver, Answer::text("It is 42."));
    let seen = run(driver, &env, &task);
    seen.assert_ended("protocol", 1);
    assert_eq!(env.server.requests().len(), 3);
}
