//! Tokens and cost: exactly the server's counts, wherever it reports them, and unknown if it does
//! not.

use serde_json::{Value, json};

use super::{answers, completes, only};
use crate::model::{Answer, Delivery, Tokens, Usage};
use crate::scenario::{Driver, Observed, Task};

/// Runs a tool call and an answer, both with usage reported in the given style.
fn counted(driver: &dyn Driver, tokens: Tokens) -> Observed {
    let call = Answer::tool("list_files", json!({})).manner(tokens);
    let env = answers(
        driver,
        [
            call,
            Answer::text("One two three.").deltas(3).manner(tokens),
        ],
    );
    completes(driver, &env, &Task::new("PROMPT"))
}

fn exact(seen: &Observed, calls: u64) {
    seen.assert_usage(1..=calls);
    let usage = &seen.one("ended")["usage"];
    let reasoning: u64 = seen.served.iter().map(|of| of.reasoning).sum();
    assert_eq!(
        (&usage["reasoning"], &usage["model"]),
        (&json!(reasoning), &json!("scripted-large"))
    );
}

/// In a separate chunk, as OpenAI does.
pub fn in_a_separate_chunk(driver: &dyn Driver) {
    exact(&counted(driver, Tokens::AsAsked), 2);
}

/// In every chunk: each answer is still counted once.
pub fn in_every_chunk(driver: &dyn Driver) {
    exact(&counted(driver, Tokens::InEveryChunk), 2);
}

/// In the chunk with the finish reason.
pub fn in_the_last_choice(driver: &dyn Driver) {
    exact(&counted(driver, Tokens::InTheLastChoice), 2);
}

/// Nowhere: the counts are unknown, not zero.
pub fn never(driver: &dyn Driver) {
    let seen = counted(driver, Tokens::Never);
    let usage = &seen.one("ended")["usage"];
    for name in ["input", "cache_read", "output", "cost_usd"] {
        assert_eq!(usage[name], Value::Null, "{name} in {usage}");
    }
}

/// In a response that is not streamed.
pub fn whole(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello.").manner(Delivery::AlwaysWhole));
    exact(&completes(driver, &env, &Task::new("PROMPT")), 1);
}

/// Usage is not requested from a server that rejects the option.
pub fn not_asked_for(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello."));
    let seen = completes(
        driver,
        &env,
        &Task::new("PROMPT").set("stream_usage", "false"),
    );
    assert!(env.only_call().body.get("stream_options").is_none());
    assert_eq!(seen.one("ended")["usage"]["input"], Value::Null);
}

/// With a price the cost is computed exactly and marked as an estimate; without one it is unknown.
pub fn a_price_makes_a_cost(driver: &dyn Driver) {
    let usage = Usage {
        input: 1_000_000,
        cache_creation: 0,
        cache_read: 2_000_000,
        output: 300_000,
        reasoning: 0,
    };
    let env = only(driver, Answer::text("Hello.").usage(usage));
    let cost = |task: Task| {
        let seen = completes(driver, &env, &task);
        let usage = &seen.one("ended")["usage"];
        (usage["cost_usd"].as_f64(), usage["cost_source"].clone())
    };
    let (dollars, source) = cost(Task::new("PROMPT").set("price", "2.5/1.25/10"));
    assert!(
        dollars.is_some_and(|dollars| (dollars - 8.0).abs() < 1e-9),
        "2.5 + 2.5 + 3: {dollars:?}"
    );
    assert_eq!(source, "estimated");
    assert_eq!(cost(Task::new("PROMPT")), (None, json!("unknown")));
}
