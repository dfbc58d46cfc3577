//! The model server as a chat completions server, over a plain socket.

use ostler_testkit::model::{Answer, Delivery, Framing, ModelServer, Rule, Script};
use serde_json::{Value, json};

use crate::model_server::exchange;

fn ask(server: &ModelServer, text: &str, stream: bool) -> (String, bool) {
    let body =
        json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]});
    exchange(
        server,
        "POST /some/prefix/v1/chat/completions",
        &body.to_string(),
    )
}

fn only(answer: Answer) -> ModelServer {
    ModelServer::start(Script::new().rule(Rule::any().answer(answer)))
}

/// Parses the body of a response that was not streamed.
fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn chats_stream_or_come_whole_and_are_recorded() {
    let server = ModelServer::start(Script::always("Hello you").model("small"));
    let (streamed, _) = ask(&server, "hi", true);
    assert!(
        streamed.contains("text/event-stream") && streamed.contains("data: [DONE]\n\n"),
        "{streamed}"
    );
    assert!(
        !streamed.contains("usage"),
        "usage was not requested: {streamed}"
    );
    let whole = body(&ask(&server, "ho", false).0);
    assert_eq!(whole["choices"][0]["message"]["content"], "Hello you");
    let texts: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.last_user_text())
        .collect();
    assert_eq!(texts, ["hi", "ho"]);
    let models = body(&exchange(&server, "GET /v1/models", "").0);
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["object"]),
        (&json!("small"), &json!("model"))
    );
    assert_eq!(
        (server.requests().len(), server.all_requests().len()),
        (2, 3)
    );
}

#[test]
fn errors_come_from_provider_or_proxy() {
    let error = Answer::error(429, "requests", "slow down")
        .code("rate_limit_exceeded")
        .header("retry-after", "7");
    let (answer, _) = ask(
        &only(error.header("x-ratelimit-reset-requests", "1m3s")),
        "x",
        true,
    );
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(
        answer.contains("retry-after: 7\r\n")
            && answer.contains("x-ratelimit-reset-requests: 1m3s\r\n")
    );
    let expected = json!({"message": "slow down", "type": "requests", "param": null, "code": "rate_limit_exceeded"});
    assert_eq!(body(&answer)["error"], expected);
    let page = Answer::error(502, "", "")
        .body("<html>Bad gateway</html>")
        .header("content-type", "text/html");
    let (answer, _) = ask(&only(page), "x", true);
    assert!(
        answer.contains("content-type: text/html\r\n")
            && answer.ends_with("<html>Bad gateway</html>"),
        "{answer}"
    );
}

#[test]
fn streams_can_end_badly() {
    let text = Answer::text("abcdef").deltas(6);
    let script = Script::new()
        .rule(Rule::on_text("cut").answer(text.clone().cut_after(2)))
        .rule(Rule::on_text("hang").answer(text.clone().hang_after(2)))
        .rule(Rule::on_text("garbage").answer(text.clone().garbage_after(2)))
        .rule(Rule::on_text("error").answer(text.error_after(2, "server_error", "all is lost")));
    let server = ModelServer::start(script);
    // The first chunk of a message has a role besides its empty content.
    let deltas = |answer: &str| answer.matches(r#""content":""#).count() - 1;
    for (how, closes, ends_well) in [
        ("cut", true, false),
        ("hang", false, false),
        ("garbage", true, true),
        ("error", true, true),
    ] {
        let (answer, closed) = ask(&server, how, true);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert_eq!(
            (deltas(&answer), closed, answer.ends_with("0\r\n\r\n")),
            (2, closes, ends_well),
            "{how}: {answer}"
        );
        assert!(!answer.contains("[DONE]"), "{answer}");
        assert_eq!(answer.contains("all is lost"), how == "error");
        assert_eq!(answer.contains("data: {\"half\": \n\n"), how == "garbage");
    }
}

#[test]
fn lines_are_framed_in_the_given_style() {
    let framed = |framing: Framing| ask(&only(Answer::text("grün").manner(framing)), "x", true).0;
    assert!(framed(Framing::Comments).contains(": still here\n\ndata: [DONE]\n\n"));
    assert!(framed(Framing::CrLf).contains("data: [DONE]\r\n\r\n"));
    assert!(!framed(Framing::WithoutDone).contains("[DONE]"));
    let torn = framed(Framing::Torn);
    assert!(
        torn.contains("7\r\ndata: {\r\n") && !torn.contains("grün"),
        "{torn}"
    );
}

#[test]
fn a_server_can_ignore_that_a_stream_was_asked_for() {
    let (answer, _) = ask(
        &only(Answer::text("whole").manner(Delivery::AlwaysWhole)),
        "x",
        true,
    );
    assert!(
        answer.contains("content-type: application/json\r\n"),
        "{answer}"
    );
    assert_eq!(body(&answer)["choices"][0]["message"]["content"], "whole");
}
