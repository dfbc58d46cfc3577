//! The model's context window: handled before it overflows, and never silently.

use std::fs;

use serde_json::json;

use super::{answers, completes};
use crate::model::{Answer, Rule, Script, Usage};
use crate::scenario::{Driver, Observed, Task, TestEnv, run};

/// A file of about a thousand tokens, and a model that reads it `times` times before it answers.
fn reader(driver: &dyn Driver, times: u32) -> TestEnv {
    let read = |time: u64| {
        let usage = Usage {
            input: 1500 + 1100 * time,
            cache_read: 0,
            cache_creation: 0,
            output: 30 + time,
            ..Usage::of_nth(time)
        };
        Answer::tool("read_file", json!({"path": "long.txt"})).usage(usage)
    };
    let mut script = Script::new().rule(Rule::on_side_request().text("THE SUMMARY"));
    for time in 1..=times {
        script = script.rule(
            Rule::any()
                .with_tools()
                .once()
                .answer(read(u64::from(time))),
        );
    }
    let env = driver.test_env(script.rule(Rule::any().with_tools().text("Done.")));
    fs::write(
        env.work().join("long.txt"),
        "some words to read, and again\n".repeat(140),
    )
    .expect("write a file");
    env
}

fn notices(seen: &Observed) -> Vec<&str> {
    seen.all("notice")
        .iter()
        .filter_map(|notice| notice["code"].as_str())
        .collect()
}

/// Old results are truncated before the window is full; the latest stay complete, and a notice is
/// emitted.
pub fn results_are_shortened(driver: &dyn Driver) {
    let env = reader(driver, 6);
    let seen = completes(
        driver,
        &env,
        &Task::new("PROMPT").set("context_window", "8000"),
    );
    assert!(
        notices(&seen).contains(&"context_shortened"),
        "{:#?}",
        seen.story()
    );
    assert_eq!(seen.answer(), "Done.");
    let last = env.server.requests().pop().expect("a call");
    let lengths: Vec<usize> = last
        .tool_results()
        .iter()
        .map(|result| result.text.len())
        .collect();
    let (first, latest) = (lengths[0], lengths[lengths.len() - 1]);
    assert!(first < 1000 && latest > 4000, "{lengths:?}");
    assert!(
        last.tool_results()[0].text.contains("left out"),
        "the truncation is marked"
    );
}

/// If that is not enough, the model summarizes old messages, with a notice, and the task
/// continues.
pub fn messages_are_summarised(driver: &dyn Driver) {
    let env = reader(driver, 6);
    let seen = completes(
        driver,
        &env,
        &Task::new("PROMPT: the task").set("context_window", "5000"),
    );
    assert!(
        notices(&seen).contains(&"context_summarised"),
        "{:#?}",
        seen.story()
    );
    assert_eq!(seen.answer(), "Done.");
    assert!(
        !seen
            .events
            .iter()
            .any(|event| event["type"] == "text" && event.to_string().contains("THE SUMMARY"))
    );
    let calls = env.server.requests();
    let summary = calls
        .iter()
        .find(|call| call.tool_names().is_empty())
        .expect("a request for a summary");
    assert!(
        summary.last_user_text().contains("PROMPT: the task"),
        "{}",
        summary.last_user_text()
    );
    let last = calls.last().expect("a call");
    assert!(
        last.body["messages"].to_string().contains("THE SUMMARY"),
        "{:#}",
        last.body
    );
    // The tokens of the summary count too.
    assert_eq!(seen.served.len(), calls.len());
    seen.assert_tokens(1..=calls.len() as u64);
}

/// The window is unknown, and the server reports an overflow: the context is compacted and the
/// call retried.
pub fn server_reports_overflow(driver: &dyn Driver) {
    let full = Answer::error(
        400,
        "invalid_request_error",
        "This model's maximum context length is 4096 tokens.",
    );
    let read = || Answer::tool("read_file", json!({"path": "long.txt"}));
    let env = answers(
        driver,
        [
            read(),
            read(),
            read(),
            read(),
            full.code("context_length_exceeded"),
            Answer::text("Done."),
        ],
    );
    fs::write(
        env.work().join("long.txt"),
        "some words to read, and again\n".repeat(140),
    )
    .expect("write a file");
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert!(
        notices(&seen).contains(&"context_shortened"),
        "{:#?}",
        seen.story()
    );
    assert_eq!(seen.answer(), "Done.");
}

/// A prompt too long even for an empty context is an invalid request.
pub fn prompt_longer_than_window(driver: &dyn Driver) {
    let full = Answer::error(
        400,
        "invalid_request_error",
        "This model's maximum context length is 4096 tokens.",
    );
    let env = answers(driver, [full.code("context_length_exceeded")]);
    let seen = run(driver, &env, &Task::new("PROMPT ".repeat(10_000)));
    seen.assert_ended("bad_request", 2);
    assert!(
        seen.outcome()["message"]
            .as_str()
            .is_some_and(|words| words.contains("context length"))
    );
}
