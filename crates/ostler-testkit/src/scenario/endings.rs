//! Runs that do not succeed: each has its own cause, exit code and hint, and leaves nothing
//! behind.

use std::time::Duration;

use serde_json::json;

use super::{Driver, Observed, Running, Signal, Task, TestEnv, run, run_with, signal};
use crate::model::{Answer, Rule, Script};

fn only(driver: &dyn Driver, answer: Answer) -> TestEnv {
    driver.test_env(Script::new().rule(Rule::any().answer(answer)))
}

/// The model runs a command that creates a file and then sleeps for five minutes.
fn long_tool(driver: &dyn Driver) -> TestEnv {
    only(
        driver,
        driver.subject().shell("echo running > running; sleep 300"),
    )
}

fn assert_hint(seen: &Observed, part: &str) {
    // A setting is named by its key, or by its flag.
    let hint = seen.outcome()["hint"]
        .as_str()
        .unwrap_or_default()
        .to_lowercase();
    let part = part.to_lowercase();
    let flag = format!("--{}", part.replace('_', "-"));
    assert!(
        hint.contains(&part) || hint.contains(&flag),
        "no {part:?} in the hint: {hint}"
    );
}

fn fails(driver: &dyn Driver, (status, kind): (u16, &str), (cause, exit): (&str, i32)) -> Observed {
    let quirks = &driver.subject().quirks;
    let env = only(
        driver,
        Answer::error(status, kind, quirks.provider_message(status)).header("retry-after", "0"),
    );
    let subject = driver.subject();
    let patience = subject.numbers.retries_for;
    let task = Task::new("PROMPT")
        .with(&subject.settings.one_retry)
        .wall(patience)
        .idle(patience);
    let seen = run(driver, &env, &task);
    seen.assert_ended(cause, exit);
    let reported = &seen.outcome()["detail"]["http_status"];
    let is_unreported = !quirks.reports_status || quirks.unreported_statuses.contains(&status);
    assert!(
        *reported == status || (reported.is_null() && is_unreported),
        "{:#}",
        seen.outcome()
    );
    // The error arrives in the form of an answer, but is not one.
    assert_eq!((seen.answer(), seen.all("text").len()), ("", 0));
    let retried = seen
        .story()
        .contains(&format!("notice {}", subject.hints.retry));
    assert_eq!(
        retried,
        subject.numbers.retried.contains(&status),
        "{:#?}",
        seen.story()
    );
    // An agent ended by a signal has no exit code.
    let code = &seen.one("ended")["exit_code"];
    assert!(
        *code == subject.numbers.exit_codes[1] || (code.is_null() && quirks.lingers),
        "{code}"
    );
    seen
}

/// The key is rejected. S1-23, P43, S4-43.
pub fn unauthorized(driver: &dyn Driver) {
    let seen = fails(driver, (401, "authentication_error"), ("auth", 4));
    seen.assert_story("auth_error");
    assert_hint(&seen, &driver.subject().hints.auth);
}

/// Not logged in: reported at once, without a model call. S4-3.
pub fn not_logged_in(driver: &dyn Driver) {
    let subject = driver.subject();
    let env = driver
        .test_env(Script::new())
        .without_host(&subject.settings.variables.key);
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("auth", 4);
    assert_hint(&seen, &subject.hints.auth);
    assert!(env.server.requests().is_empty());
}

/// The account's rate limit. S1-24, S4-44.
pub fn rate_limited(driver: &dyn Driver) {
    let seen = fails(driver, (429, "rate_limit_error"), ("rate_limit", 5));
    seen.assert_story("rate_limit");
    assert_hint(&seen, "Wait");
}

/// The service is overloaded.
pub fn overloaded(driver: &dyn Driver) {
    let status = driver.subject().numbers.overloaded;
    assert_hint(
        &fails(driver, (status, "overloaded_error"), ("overloaded", 5)),
        "try again",
    );
}

/// The service fails with an internal error. The agents retry first, without delay as configured
/// here.
pub fn server_error(driver: &dyn Driver) {
    assert_hint(
        &fails(driver, (500, "api_error"), ("server_error", 5)),
        "temporary",
    );
}

/// The service's address refuses connections.
pub fn unreachable(driver: &dyn Driver) {
    // An address and port on which nothing listens.
    let subject = driver.subject();
    let env = driver
        .test_env(Script::new())
        .with_host(&subject.settings.variables.url, "http://127.86.75.30:9");
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").with(&subject.settings.one_retry),
    );
    seen.assert_ended("network", 1);
    assert_hint(&seen, &subject.hints.network);
}

/// The service repeatedly drops the connection in mid-answer: partial text is preserved, and the
/// cause is specific.
pub fn broken_off(driver: &dyn Driver) {
    let env = only(
        driver,
        Answer::text("never to be finished").deltas(4).cut_after(2),
    );
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("network", 1);
    assert!(seen.answer().starts_with("never to"), "{:?}", seen.answer());
}

/// The model refuses.
pub fn refused(driver: &dyn Driver) {
    let env = only(
        driver,
        Answer::text("I cannot help with that.").stop_reason("refusal"),
    );
    run(driver, &env, &Task::new("PROMPT")).assert_ended("refused", 1);
}

/// The answer is cut off at the model's limit, however often the agent asks it to continue.
pub fn output_limit(driver: &dyn Driver) {
    let env = only(driver, Answer::text("and so on ").stop_reason("max_tokens"));
    run(driver, &env, &Task::new("PROMPT")).assert_ended("output_limit", 6);
}

/// The cost limit ends the turn after the step that exceeded it; the cost is known. S3-6, S3-44.
pub fn budget(driver: &dyn Driver) {
    let env = only(driver, driver.subject().shell("echo again"));
    let task = Task::new("PROMPT")
        .trusting()
        .set("max_budget_usd", "0.0001")
        .with(&driver.subject().settings.priced);
    let seen = run(driver, &env, &task);
    seen.assert_ended("budget", 6);
    seen.assert_tokens(1..=env.server.served().len() as u64);
    assert!(
        seen.one("ended")["usage"]["cost_usd"]
            .as_f64()
            .is_some_and(|cost| cost > 0.0001),
        "{}",
        seen.one("ended")
    );
    assert_hint(&seen, "max_budget_usd");
    assert!(
        seen.story().contains(&"notice budget_near".to_owned()),
        "{:#?}",
        seen.story()
    );
}

/// The limit on steps.
pub fn max_turns(driver: &dyn Driver) {
    let env = only(driver, driver.subject().shell("echo again"));
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").trusting().set("max_turns", "2"),
    );
    seen.assert_ended("turn_limit", 6);
    seen.assert_usage(1..=2);
    assert_hint(&seen, "max_turns");
}

/// The service never answers: the turn's time limit ends it promptly. S2-20, S4-8, S4-37.
pub fn wall_limit(driver: &dyn Driver) {
    let env = only(
        driver,
        Answer::text("half an ")
            .deltas(1)
            .and_text("answer")
            .hang_after(1),
    );
    // Longer than the tolerance below, which is longer than the time an agent gets to react to an
    // interrupt. A recording starts at once.
    let shortest = Duration::from_secs(8);
    let limit = if env.is_replayed() {
        shortest
    } else {
        shortest.max(driver.subject().numbers.soon)
    };
    let seen = run(driver, &env, &Task::new("PROMPT").wall(limit));
    // Measured with event times: program startup and shutdown do not count.
    let took = seen
        .at("turn_ended")
        .saturating_sub(seen.at("turn_started"));
    let rounding = Duration::from_millis(50);
    assert!(
        took + rounding >= limit && took < limit + limit * 3 / 4,
        "{took:?}"
    );
    seen.assert_story("limits");
    seen.assert_ended("wall_limit", 6);
    let reported = (
        &seen.outcome()["status"],
        &seen.outcome()["detail"]["limit_ms"],
    );
    assert_eq!(reported, (&json!("timeout"), &json!(limit.as_millis())));
    let expected = if driver.subject().settings.streams {
        "half an "
    } else {
        ""
    };
    assert_eq!(seen.answer(), expected, "partial text is preserved");
}

/// The time limit counts while a tool runs, and ends the tool with the turn. S4-8.
pub fn wall_limit_in_a_tool(driver: &dyn Driver) {
    let limit = driver.subject().numbers.soon + Duration::from_secs(1);
    let seen = run(
        driver,
        &long_tool(driver),
        &Task::new("PROMPT").trusting().wall(limit),
    );
    seen.assert_ended("wall_limit", 6);
    assert_eq!(seen.one("tool_result")["ok"], false);
}

/// The service never answers: the idle limit ends the turn. P39, P40.
pub fn idle_limit(driver: &dyn Driver) {
    let limit = driver.subject().numbers.soon;
    let seen = run(
        driver,
        &only(driver, Answer::hang()),
        &Task::new("PROMPT").idle(limit),
    );
    seen.assert_ended("idle_limit", 6);
    assert_eq!(
        seen.outcome()["detail"]["limit_ms"],
        json!(limit.as_millis())
    );
}

/// A tool that is silent for longer than the idle limit is working, not idle. Claude Code reports
/// on a command once, after three seconds, so the command has to take longer than both together.
/// Copilot moves a command to the background after half a minute. P40.
pub fn a_silent_tool_is_not_idle(driver: &dyn Driver) {
    let limit = driver.subject().numbers.soon;
    let sleep = driver
        .subject()
        .shell(&format!("sleep {}", limit.as_secs() + 5));
    let script = Script::new().rule(Rule::on_text("PROMPT").answer(sleep));
    let env = driver.test_env(script.rule(Rule::any().text("It took its time.")));
    let seen = run(driver, &env, &Task::new("PROMPT").trusting().idle(limit));
    seen.assert_ended("completed", 0);
    assert_eq!(seen.one("tool_result")["ok"], true);
}

/// Interrupted while the model is silent: the agent acknowledges it and exits cleanly. P37.
pub fn interrupted(driver: &dyn Driver) {
    let env = only(driver, Answer::hang());
    let seen = run_with(driver, &env, &Task::new("PROMPT"), &|running| {
        env.wait_for_calls(1);
        running.interrupt();
    });
    seen.assert_ended("interrupted", 130);
    assert_eq!(
        (
            &seen.outcome()["status"],
            &seen.outcome()["detail"]["acknowledged"]
        ),
        (&json!("stopped"), &json!(true))
    );
    assert_eq!(
        seen.one("ended")["signal"],
        json!(null),
        "it was not killed"
    );
}

/// Interrupted before the first output of the agent: the interrupt still takes effect. P37.
pub fn interrupted_at_once(driver: &dyn Driver) {
    let env = only(driver, Answer::hang());
    let seen = run_with(driver, &env, &Task::new("PROMPT"), &|running| {
        match env.subject.pinned() {
            Some(_) => drop(env.agent()),
            None => running.wait_for("turn_started"),
        }
        running.interrupt();
    });
    seen.assert_ended("interrupted", 130);
    assert_eq!(
        seen.outcome()["detail"]["acknowledged"],
        true,
        "{:#}",
        seen.outcome()
    );
}

/// Interrupted while the model streams: partial text is preserved, and the agent exits cleanly.
pub fn interrupted_in_mid_stream(driver: &dyn Driver) {
    let env = only(
        driver,
        Answer::text("half an answer").deltas(2).hang_after(1),
    );
    let seen = run_with(driver, &env, &Task::new("PROMPT"), &|running| {
        running.wait_for("text");
        running.interrupt();
    });
    seen.assert_ended("interrupted", 130);
    assert_eq!(seen.answer(), "half an", "partial text is preserved");
}

/// Interrupted while a tool runs: the tool ends too, and its call gets a result. P38.
pub fn interrupted_in_a_tool(driver: &dyn Driver) {
    let env = long_tool(driver);
    let seen = run_with(driver, &env, &Task::new("PROMPT").trusting(), &|running| {
        // Some agents report a command only once it runs: one that is cut off before that was
        // never reported.
        in_a_tool(&env, running);
        running.interrupt();
    });
    seen.assert_ended("interrupted", 130);
    assert_eq!(seen.one("tool_result")["ok"], false);
}

/// Stopped by the caller: the agent and its tool exit cleanly.
pub fn stopped(driver: &dyn Driver) {
    let env = long_tool(driver);
    let seen = run_with(driver, &env, &Task::new("PROMPT").trusting(), &|running| {
        in_a_tool(&env, running);
        running.stop();
    });
    seen.assert_story("nothing_left_behind");
    seen.assert_ended("stopped", 143);
    assert!(driver.subject().silent || seen.one("tool_result")["ok"] == false);
}

/// The agent is killed by another process: reported at once with its own cause, and the command
/// that it ran ends with it. S2-20, S3-32, S4-45, P2, P4, P8.
pub fn killed_from_outside(driver: &dyn Driver) {
    let env = long_tool(driver);
    let seen = run_with(driver, &env, &Task::new("PROMPT").trusting(), &|running| {
        in_a_tool(&env, running);
        signal(env.agent(), Signal::KILL);
    });
    seen.assert_story("died");
    seen.assert_ended("agent_died", 1);
    assert_eq!(
        (
            &seen.one("ended")["signal"],
            &seen.outcome()["detail"]["signal"]
        ),
        (&json!(9), &json!(9))
    );
    assert!(
        driver.subject().silent || seen.one("tool_result")["output"] == "no result: the turn ended"
    );
}

/// Waits until the long tool runs and, if the agent reports tools, until that is reported.
fn in_a_tool(env: &TestEnv, running: &dyn Running) {
    running.wait_for(if env.subject.silent {
        "started"
    } else {
        "tool_call"
    });
    let _ = env.wait_for_file("running");
}
