//! Prompts: they arrive unchanged, whatever they contain and however long they are.

use super::{Driver, Observed, Task, run};
use crate::model::Script;

fn arrives(driver: &dyn Driver, prompt: &str) -> Observed {
    let allowed = &driver.subject().settings.long_prompts;
    let env = driver.test_env(Script::always("Read."));
    let env = allowed
        .env
        .iter()
        .fold(env, |env, (name, value)| env.with_host(name, value));
    let seen = run(driver, &env, &Task::new(prompt).with(&allowed.settings));
    seen.assert_ended("completed", 0);
    let arrived = env.only_call().last_user_text();
    assert!(
        driver.subject().prompt_arrived(&arrived, prompt),
        "{} bytes were sent, {} arrived",
        prompt.len(),
        arrived.len()
    );
    seen
}

fn long() -> String {
    let mut prompt = String::with_capacity(5_100_000);
    while prompt.len() < 5_000_000 {
        prompt.push_str(&format!(
            "line {} of a long prompt, with an ümlaut and a 🐎\n",
            prompt.len()
        ));
    }
    prompt + "the end"
}

/// No length limit: the prompt is not an argument. P28.
pub fn five_megabytes(driver: &dyn Driver) {
    arrives(driver, &long()).assert_story("big_prompt");
}

/// A prompt too long for the model is an invalid request, and reported as such.
pub fn too_long_for_the_model(driver: &dyn Driver) {
    let env = driver.test_env(Script::new());
    let seen = run(driver, &env, &Task::new(long()));
    seen.assert_ended("bad_request", 2);
    assert_eq!(seen.outcome()["message"], "Prompt is too long");
    assert!(env.server.requests().is_empty());
}

/// Nothing in a prompt is interpreted before the model gets it. S4-18, S0-6.
pub fn awkward_characters(driver: &dyn Driver) {
    arrives(
        driver,
        "'single' \"double\" `touch made` $(touch made) $HOME ${PATH} \\n \\\\ !! %s {} <b>&amp;</b>\n\n\ttab\r\nthen\u{7f}\u{1b}[31m ümläut 中文 🐎👩‍🚀\u{2028}end; rm -rf / # --version",
    )
    .assert_story("unicode");
}

/// A prompt that looks like a flag is still a prompt. P29.
pub fn a_leading_dash(driver: &dyn Driver) {
    arrives(driver, "--version");
}

/// The system prompt is replaced or extended verbatim. S3-1, S3-2, S3-38.
pub fn system_prompts(driver: &dyn Driver) {
    let env = driver.test_env(Script::always("Aye."));
    let words = "--speak like a \"sailor\" $HOME\n- always";
    run(
        driver,
        &env,
        &Task::new("PROMPT").set("append_system_prompt", words),
    )
    .assert_ended("completed", 0);
    run(
        driver,
        &env,
        &Task::new("PROMPT").set("system_prompt", words),
    )
    .assert_ended("completed", 0);
    let systems: Vec<String> = env
        .server
        .requests()
        .iter()
        .map(|call| call.system_text())
        .collect();
    assert!(
        systems[0].contains(words) && systems[1].contains(words),
        "{systems:#?}"
    );
    assert!(
        systems[0].len() > systems[1].len(),
        "one appends, the other replaces"
    );
}
