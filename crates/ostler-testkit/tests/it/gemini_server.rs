//! The model server as a Gemini API server, over a plain socket.

use ostler_testkit::model::{Answer, ModelServer, Rule, Script};
use serde_json::{Value, json};

use crate::model_server::exchange;

fn ask(server: &ModelServer, text: &str, verb: &str) -> (String, bool) {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": text}]}]});
    exchange(
        server,
        &format!("POST /v1beta/models/gemini-pro:{verb}"),
        &body.to_string(),
    )
}

/// Parses the body of a response that was not streamed.
fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn contents_stream_or_come_whole_and_are_recorded() {
    let server =
        ModelServer::start(Script::new().rule(Rule::any().for_model("pro").text("Hello you")));
    let (streamed, _) = ask(&server, "hi", "streamGenerateContent?alt=sse");
    assert!(
        streamed.contains("text/event-stream") && streamed.contains(r#""finishReason":"STOP""#),
        "{streamed}"
    );
    let whole = body(&ask(&server, "ho", "generateContent").0);
    assert_eq!(
        whole["candidates"][0]["content"]["parts"][0]["text"],
        "Hello you"
    );
    let count = body(&ask(&server, "count", "countTokens").0);
    assert_eq!(count["totalTokens"], 100);
    let embeddings = body(&ask(&server, "embed", "embedContent").0);
    assert!(embeddings["embedding"]["values"].is_array());
    let texts: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.last_user_text())
        .collect();
    assert_eq!(
        (texts, server.all_requests().len()),
        (vec!["hi".to_owned(), "ho".to_owned()], 4)
    );
}

#[test]
fn errors_are_the_providers() {
    let error = Answer::error(429, "RESOURCE_EXHAUSTED", "slow down").header("retry-after", "7");
    let server = ModelServer::start(Script::new().rule(Rule::any().answer(error)));
    let (answer, _) = ask(&server, "x", "streamGenerateContent?alt=sse");
    assert!(
        answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: 7\r\n"),
        "{answer}"
    );
    let expected = json!({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"});
    assert_eq!(body(&answer)["error"], expected);
}

#[test]
fn streams_can_end_badly() {
    let text = Answer::text("abcdef").deltas(6);
    let script = Script::new()
        .rule(Rule::on_text("cut").answer(text.clone().cut_after(2)))
        .rule(Rule::on_text("hang").answer(text.clone().hang_after(2)))
        .rule(Rule::on_text("garbage").answer(text.clone().garbage_after(2)))
        .rule(Rule::on_text("error").answer(text.error_after(2, "INTERNAL", "all is lost")));
    let server = ModelServer::start(script);
    for (how, closes, ends_well) in [
        ("cut", true, false),
        ("hang", false, false),
        ("garbage", true, true),
        ("error", true, true),
    ] {
        let (answer, closed) = ask(&server, how, "streamGenerateContent?alt=sse");
        let deltas = answer.matches(r#""candidates""#).count();
        assert_eq!(
            (deltas, closed, answer.ends_with("0\r\n\r\n")),
            (2, closes, ends_well),
            "{how}: {answer}"
        );
        assert!(!answer.contains("finishReason"), "{answer}");
        assert_eq!(answer.contains("all is lost"), how == "error");
    }
}
