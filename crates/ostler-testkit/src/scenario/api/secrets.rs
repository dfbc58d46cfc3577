//! The API key: sent to the server and nowhere else.

use super::{answers, completes, only};
use crate::model::Answer;
use crate::scenario::{Driver, KEY, Observed, Task, run};

fn assert_key_absent(seen: &Observed) {
    let found = seen
        .events
        .iter()
        .find(|event| event.to_string().contains(KEY));
    assert!(found.is_none(), "{found:#?}");
}

/// Appears in no event, neither of a successful run nor of a failed one. S2-30.
pub fn key_is_in_no_event(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello."));
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert_key_absent(&seen);
    let call = env.only_call();
    assert_eq!(
        call.header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert!(!call.body.to_string().contains(KEY));
    let env = only(
        driver,
        Answer::error(401, "invalid_request_error", "no").code("invalid_api_key"),
    );
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("auth", 4);
    assert_key_absent(&seen);
}

/// A server that echoes the key in its error does not get it into an event. S2-30.
pub fn echoed_key_is_in_no_event(driver: &dyn Driver) {
    let message = format!("Incorrect API key provided: {KEY}.");
    let env = only(
        driver,
        Answer::error(401, "invalid_request_error", message).code("invalid_api_key"),
    );
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("auth", 4);
    assert_key_absent(&seen);
}

/// A command that the model runs does not have the key in its environment, nor do its parents.
/// This holds even if the key came with the run's variables, of which the command gets the others.
/// Variables that Ostler sets itself stay. S3-16, P31.
pub fn commands_do_not_get_the_key(driver: &dyn Driver) {
    let given = |task: Task| {
        task.env("FLAVOUR", "sweet")
            .env("PATH", "/nowhere")
            .env("TMPDIR", "/nowhere")
    };
    let tasks = [
        Task::new("PROMPT"),
        given(Task::new("PROMPT")).env("OPENAI_API_KEY", KEY),
        given(Task::new("PROMPT"))
            .env("OTHER_KEY", KEY)
            .set("api_key_env", "OTHER_KEY"),
    ];
    for (at, task) in tasks.iter().enumerate() {
        let look = driver.subject().shell("env; echo the end");
        let env = answers(driver, [look, Answer::text("{tool_result}")]);
        let seen = completes(driver, &env, task);
        let printed = seen.answer();
        assert!(
            printed.contains("the end")
                && printed.contains("PATH=")
                && !printed.contains("/nowhere"),
            "{printed}"
        );
        assert_eq!(printed.contains("FLAVOUR=sweet"), at > 0, "{printed}");
        assert_key_absent(&seen);
    }
}
