//! Calls that are retried, and calls that are not.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{answers, completes, only};
use crate::model::Answer;
use crate::scenario::{Driver, Observed, Task, run};

fn busy() -> Answer {
    Answer::error(503, "overloaded_error", "busy").header("retry-after", "0")
}

fn retries(seen: &Observed) -> usize {
    seen.all("notice")
        .iter()
        .filter(|notice| notice["code"] == seen.subject.hints.retry)
        .count()
}

/// The server fails twice: the call is retried, with a notice, and nothing is emitted twice.
pub fn retried_and_emitted_once(driver: &dyn Driver) {
    let env = answers(
        driver,
        [
            busy(),
            busy(),
            Answer::thinking("Hm.").and_text("One two.").deltas(2),
        ],
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    seen.assert_usage(1..=1);
    assert_eq!((retries(&seen), seen.answer()), (2, "One two."));
    let texts: Vec<&str> = seen
        .all("text")
        .iter()
        .filter_map(|text| text["text"].as_str())
        .collect();
    assert_eq!(texts, ["Hm.", "One ", "two."]);
    let notices = seen.all("notice");
    let notice = notices
        .iter()
        .find(|notice| notice["code"] == seen.subject.hints.retry)
        .expect("a notice");
    assert_eq!(notice["level"], "warning");
    assert!(
        notice["message"]
            .as_str()
            .is_some_and(|words| words.contains("busy")),
        "{notice}"
    );
    let bodies: Vec<Value> = env
        .server
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert!(
        bodies[0] == bodies[1] && bodies[1] == bodies[2],
        "the same call"
    );
}

/// The connection drops before any text was emitted, so the call can be retried.
pub fn retried_if_cut_before_text(driver: &dyn Driver) {
    let env = answers(
        driver,
        [
            Answer::text("never").cut_at_once(),
            Answer::text("At last."),
        ],
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert_eq!((retries(&seen), seen.answer()), (1, "At last."));
    seen.assert_usage(2..=2);
}

/// Not after the first text: the caller already has it.
pub fn not_retried_after_text(driver: &dyn Driver) {
    let cut = Answer::text("never to be finished").deltas(4).cut_after(1);
    let env = answers(driver, [cut, Answer::text("At last.")]);
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("network", 1);
    assert_eq!(
        (retries(&seen), env.server.requests().len(), seen.answer()),
        (0, 1, "never")
    );
}

/// As often as the setting allows.
pub fn retried_up_to_limit(driver: &dyn Driver) {
    for allowed in [0_usize, 2] {
        let env = only(driver, busy());
        let seen = run(
            driver,
            &env,
            &Task::new("PROMPT").set("retries", allowed.to_string()),
        );
        seen.assert_ended("overloaded", 5);
        assert_eq!(
            (retries(&seen), env.server.requests().len()),
            (allowed, allowed + 1)
        );
    }
}

/// The delay requested by the server is respected.
pub fn retry_delay_from_server(driver: &dyn Driver) {
    let wait = Answer::error(429, "requests", "slow down").header("retry-after", "2");
    let env = answers(driver, [wait, Answer::text("At last.")]);
    let began = Instant::now();
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(retries(&seen), 1);
}

/// An exhausted quota is not retried.
pub fn not_retried_without_quota(driver: &dyn Driver) {
    let empty =
        Answer::error(429, "insufficient_quota", "You have no credit.").code("insufficient_quota");
    let env = only(driver, empty);
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("rate_limit", 5);
    assert_eq!(env.server.requests().len(), 1);
}

/// The reset time of a limit is part of the outcome, whichever header contains it.
pub fn reset_headers(driver: &dyn Driver) {
    for (name, value) in [
        ("retry-after", "90"),
        ("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"),
        ("x-ratelimit-reset-requests", "1m30s"),
        ("retry-after-ms", "90000"),
    ] {
        let env = only(
            driver,
            Answer::error(429, "requests", "slow down").header(name, value),
        );
        let seen = run(driver, &env, &Task::new("PROMPT").set("retries", "0"));
        seen.assert_ended("rate_limit", 5);
        let resets_at = &seen.outcome()["detail"]["resets_at"];
        let is_a_time =
            |time: &str| time.len() >= 20 && time.as_bytes()[10] == b'T' && time.ends_with('Z');
        assert!(
            resets_at.as_str().is_some_and(is_a_time),
            "{name}: {:#}",
            seen.outcome()
        );
    }
}

/// A delay longer than the turn's remaining time is cut short by the turn's limit, or not started.
pub fn not_retried_beyond_time_limit(driver: &dyn Driver) {
    let env = only(
        driver,
        Answer::error(429, "requests", "slow down").header("retry-after", "3600"),
    );
    let began = Instant::now();
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").wall(Duration::from_secs(2)),
    );
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "{:?}",
        began.elapsed()
    );
    let cause = seen.outcome()["cause"].as_str().unwrap_or_default();
    assert!(
        ["rate_limit", "wall_limit"].contains(&cause),
        "{:#}",
        seen.outcome()
    );
}
