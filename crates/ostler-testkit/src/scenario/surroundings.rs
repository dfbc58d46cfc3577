//! The agent's surroundings: its directory and its environment.

use super::{Driver, Task, TestEnv, run};
use crate::model::{Rule, Script};

fn run_command(driver: &dyn Driver, command: &str) -> TestEnv {
    driver.test_env(
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(driver.subject().shell(command)))
            .rule(Rule::on_tool_result().text("{tool_result}")),
    )
}

/// The agent and its tools work in the given directory. S3-17, S4-15, S2-5, S2-24.
pub fn directory(driver: &dyn Driver) {
    let env = run_command(driver, "pwd");
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_story("cwd");
    seen.assert_ended("completed", 0);
    let work = env.work();
    assert_eq!(seen.started()["cwd"].as_str(), work.to_str());
    if env.skips_live_checks() {
        return;
    }
    assert!(
        driver
            .subject()
            .is_printed(seen.answer(), &work.display().to_string()),
        "{:?}",
        seen.answer()
    );
}

/// Added variables reach the agent's tools; variables that were not added and are not needed do
/// not. S3-16, S4-16, P31.
pub fn variables(driver: &dyn Driver) {
    let env = run_command(
        driver,
        "echo \"$FLAVOUR, $OSTLER_SESSION, ${DEPLOY_PASSWORD:-nothing}\"",
    )
    .with_host("DEPLOY_PASSWORD", "a-secret")
    .with_host("OSTLER_SESSION", "of-an-outer-ostler");
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").trusting().env("FLAVOUR", "süß & $HOME"),
    );
    seen.assert_story("env");
    seen.assert_ended("completed", 0);
    let wanted = format!("süß & $HOME, {}, nothing", seen.session());
    assert!(
        driver.subject().is_printed(seen.answer(), &wanted),
        "{:?}, not {wanted:?}",
        seen.answer()
    );
}

/// The agent gets its own variables and the added ones, but neither the host's secrets nor the
/// markers of an enclosing agent. S3-16, S4-16, P31.
pub fn environment(driver: &dyn Driver) {
    // The agent is the parent of its shell.
    let env = run_command(
        driver,
        "tr '\\0' '\\n' < /proc/$PPID/environ; echo \"the tool sees $FLAVOUR\"",
    )
    .with_host("GITHUB_TOKEN", "a-secret")
    .with_host("CLAUDECODE", "1")
    .with_host("CLAUDE_CODE_ENTRYPOINT", "cli")
    .with_host("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "4321")
    .with_host("OSTLER_SESSION", "of-an-outer-ostler");
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").trusting().env("FLAVOUR", "süß & $HOME"),
    );
    seen.assert_ended("completed", 0);
    let environment: Vec<&str> = seen.answer().lines().collect();
    let session_variable = format!("OSTLER_SESSION={}", seen.session());
    for present in [
        session_variable.as_str(),
        "FLAVOUR=süß & $HOME",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS=4321",
        "the tool sees süß & $HOME",
    ] {
        assert!(
            environment.contains(&present),
            "{present} is missing: {environment:#?}"
        );
    }
    for absent in [
        "GITHUB_TOKEN=",
        "CLAUDECODE=",
        "CLAUDE_CODE_ENTRYPOINT=cli",
        "OSTLER_SESSION=of-an-outer",
    ] {
        assert!(
            !environment.iter().any(|line| line.starts_with(absent)),
            "{absent} came through: {environment:#?}"
        );
    }
    assert_eq!(
        env.server.requests()[0].body["max_tokens"],
        4321,
        "the agent uses its own variables"
    );
}
