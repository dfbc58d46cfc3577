//! Server errors, each with its cause.

use serde_json::json;

use super::{completes, only};
use crate::model::Answer;
use crate::scenario::{Driver, Observed, Task, TestEnv, run, run_with_unreadable_lines};

fn task() -> Task {
    Task::new("PROMPT").set("retries", "0")
}

fn fails(driver: &dyn Driver, answer: Answer, (cause, exit): (&str, i32)) -> (TestEnv, Observed) {
    let env = only(driver, answer);
    let seen = run_with_unreadable_lines(driver, &env, &task(), &|_| ());
    seen.assert_ended(cause, exit);
    assert!(
        seen.outcome()["hint"]
            .as_str()
            .is_some_and(|hint| !hint.is_empty()),
        "{:#}",
        seen.outcome()
    );
    (env, seen)
}

/// The key is valid, but lacks permission.
pub fn forbidden(driver: &dyn Driver) {
    let answer = Answer::error(403, "permission_error", "Your key may not use this model.");
    let (_, seen) = fails(driver, answer, ("auth", 4));
    assert_eq!(seen.outcome()["detail"]["http_status"], 403);
}

/// A model that the server does not have.
pub fn no_such_model(driver: &dyn Driver) {
    let answer = Answer::error(
        404,
        "invalid_request_error",
        "The model `x` does not exist.",
    )
    .code("model_not_found");
    let (_, seen) = fails(driver, answer, ("bad_request", 2));
    let detail = &seen.outcome()["detail"];
    assert_eq!(
        (&detail["http_status"], &detail["native"]),
        (&json!(404), &json!("model_not_found"))
    );
    assert!(
        seen.outcome()["message"]
            .as_str()
            .is_some_and(|words| words.contains("does not exist"))
    );
}

/// A proxy in front of the server fails with an HTML page.
pub fn proxy_error_page(driver: &dyn Driver) {
    let page = Answer::error(502, "", "")
        .body("<html><h1>Bad Gateway</h1></html>")
        .header("content-type", "text/html");
    let (_, seen) = fails(driver, page, ("server_error", 5));
    assert_eq!(seen.outcome()["detail"]["http_status"], 502);
    assert!(
        seen.outcome()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("temporary")),
        "{:#}",
        seen.outcome()
    );
    assert!(
        !seen.outcome().to_string().contains("<html>"),
        "{:#}",
        seen.outcome()
    );
}

/// The stream starts well and then reports an error: partial text is preserved, and the cause is
/// the server's.
pub fn an_error_in_the_stream(driver: &dyn Driver) {
    let answer = Answer::text("never to be finished").deltas(4).error_after(
        2,
        "overloaded_error",
        "too busy to continue",
    );
    let (env, seen) = fails(driver, answer, ("overloaded", 5));
    assert!(seen.answer().starts_with("never to"), "{:?}", seen.answer());
    assert!(
        seen.outcome()["message"]
            .as_str()
            .is_some_and(|words| words.contains("too busy to continue"))
    );
    assert_eq!(env.server.requests().len(), 1);
}

/// The same before any text was sent.
pub fn an_error_before_the_first_text(driver: &dyn Driver) {
    let answer = Answer::text("never").error_after(0, "rate_limit_error", "too much");
    let (_, seen) = fails(driver, answer, ("rate_limit", 5));
    assert_eq!(seen.all("text").len(), 0);
}

/// A line that is not JSON: recorded verbatim, and there is no answer.
pub fn garbage_in_the_stream(driver: &dyn Driver) {
    let answer = Answer::text("never to be finished")
        .deltas(4)
        .garbage_after(2);
    let (_, seen) = fails(driver, answer, ("protocol", 1));
    assert_eq!(
        seen.one("unreadable")["raw"].as_str().map(str::trim_end),
        Some("{\"half\":")
    );
    assert!(seen.answer().starts_with("never to"), "{:?}", seen.answer());
}

/// A stream without a final event.
pub fn stream_without_answer(driver: &dyn Driver) {
    let answer = Answer::error(200, "", "")
        .body("")
        .header("content-type", "text/event-stream");
    fails(driver, answer, ("protocol", 1));
}

/// An unrelated page with a success status, for example because the address is a website.
pub fn html_page_with_success_status(driver: &dyn Driver) {
    let page = Answer::error(200, "", "")
        .body("<html>Log in</html>")
        .header("content-type", "text/html");
    fails(driver, page, ("protocol", 1));
}

/// The server does not speak TLS.
pub fn no_tls(driver: &dyn Driver) {
    let env = only(driver, Answer::text("never"));
    let url = format!("https://{}/v1", env.server.address());
    let seen = run(driver, &env, &task().set("base_url", url));
    seen.assert_ended("network", 1);
    assert!(
        seen.outcome()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("http or https")),
        "{:#}",
        seen.outcome()
    );
}

/// An answer cut off at the configured limit is distinguished from a complete one.
pub fn answer_cut_at_limit(driver: &dyn Driver) {
    let env = only(driver, Answer::text("and so on").stop_reason("length"));
    let seen = run(driver, &env, &task().set("max_tokens", "3"));
    seen.assert_ended("output_limit", 6);
    assert_eq!(seen.answer(), "and so on");
}

/// An empty answer is an answer.
pub fn an_empty_answer(driver: &dyn Driver) {
    let seen = completes(driver, &only(driver, Answer::default()), &task());
    assert_eq!(seen.answer(), "");
    assert!(
        seen.story().contains(&"notice empty_answer".to_owned()),
        "{:#?}",
        seen.story()
    );
}
