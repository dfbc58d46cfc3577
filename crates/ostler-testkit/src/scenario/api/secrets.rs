//! The API key: sent to the server and nowhere else.

use super::{answers, completes, only};
use crate::model::Answer;
use crate::scenario::{Driver, KEY, Seen, Task, run};

fn nowhere(seen: &Seen) {
    let found = seen
        .events
        .iter()
        .find(|event| event.to_string().contains(KEY));
    assert!(found.is_none(), "{found:#?}");
}

/// Appears in no event, neither of a successful run nor of a failed one. S2-30.
pub fn the_key_is_nowhere(driver: &dyn Driver) {
    let place = only(driver, Answer::text("Hello."));
    let seen = completes(driver, &place, &Task::new("PROMPT"));
    nowhere(&seen);
    let call = place.only_call();
    assert_eq!(
        call.header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert!(!call.body.to_string().contains(KEY));
    let place = only(
        driver,
        Answer::error(401, "invalid_request_error", "no").code("invalid_api_key"),
    );
    let seen = run(driver, &place, &Task::new("PROMPT"));
    seen.ended_with("auth", 4);
    nowhere(&seen);
}

/// A server that echoes the key in its error does not get it into an event. S2-30.
pub fn an_echoed_key_is_nowhere(driver: &dyn Driver) {
    let message = format!("Incorrect API key provided: {KEY}.");
    let place = only(
        driver,
        Answer::error(401, "invalid_request_error", message).code("invalid_api_key"),
    );
    let seen = run(driver, &place, &Task::new("PROMPT"));
    seen.ended_with("auth", 4);
    nowhere(&seen);
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
        let place = answers(driver, [look, Answer::text("{tool_result}")]);
        let seen = completes(driver, &place, task);
        let env = seen.answer();
        assert!(
            env.contains("the end") && env.contains("PATH=") && !env.contains("/nowhere"),
            "{env}"
        );
        assert_eq!(env.contains("FLAVOUR=sweet"), at > 0, "{env}");
        nowhere(&seen);
    }
}
