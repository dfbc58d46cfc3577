//! The model server over a plain socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ostler_testkit::model::{Answer, ModelServer, Rule, Script};
use serde_json::{Value, json};

/// Returns the response on a new connection, and whether the peer closed it (rather than our
/// timeout).
pub(crate) fn exchange(server: &ModelServer, head: &str, body: &str) -> (String, bool) {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let closed = socket.read_to_end(&mut answer).is_ok();
    (String::from_utf8_lossy(&answer).into_owned(), closed)
}

fn ask(server: &ModelServer, text: &str, stream: bool) -> (String, bool) {
    let body =
        json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]});
    exchange(server, "POST /v1/messages?beta=true", &body.to_string())
}

#[test]
fn streams_whole_messages_and_records_requests() {
    let server = ModelServer::start(Script::always("Hello you"));
    let (streamed, _) = ask(&server, "hi", true);
    assert!(streamed.contains("text/event-stream") && streamed.contains("event: message_stop"));
    let (whole, _) = ask(&server, "ho", false);
    let body: Value = serde_json::from_str(whole.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["content"][0]["text"], "Hello you");
    let requests = server.requests();
    let texts: Vec<String> = requests
        .iter()
        .map(|request| request.last_user_text())
        .collect();
    assert_eq!(texts, ["hi", "ho"]);
    assert_eq!(requests[0].path, "/v1/messages?beta=true");
    assert!(server.wait_for_requests(2, Duration::ZERO));
    assert!(!server.wait_for_requests(3, Duration::from_millis(20)));
}

#[test]
fn errors_carry_status_headers_and_the_providers_body() {
    let error = Answer::error(429, "rate_limit_error", "slow down").header("retry-after", "7");
    let server = ModelServer::start(Script::new().rule(Rule::any().answer(error)));
    let (answer, _) = ask(&server, "x", true);
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(
        answer.contains("retry-after: 7\r\n") && answer.contains("rate_limit_error"),
        "{answer}"
    );
}

#[test]
fn a_cut_drops_the_connection_and_a_hang_keeps_it() {
    let text = Answer::text("abcdef").deltas(6);
    let script = Script::new()
        .rule(Rule::on_text("cut").answer(text.clone().cut_after(2)))
        .rule(Rule::on_text("hang").answer(text.hang_after(2)))
        .rule(Rule::on_text("silent").answer(Answer::hang()));
    let server = ModelServer::start(script);
    let deltas = |answer: &str| answer.matches("text_delta").count();
    let (cut, closed) = ask(&server, "cut", true);
    assert!(
        closed && deltas(&cut) == 2 && !cut.ends_with("0\r\n\r\n"),
        "{cut}"
    );
    let (hung, closed) = ask(&server, "hang", true);
    assert!(!closed && deltas(&hung) == 2, "{hung}");
    assert_eq!(ask(&server, "silent", true), (String::new(), false));
    // Claude falls back to a non-streamed message after a dropped stream: that is dropped as well.
    let (whole, closed) = ask(&server, "cut", false);
    assert!(
        closed && whole.contains("\"id\"") && !whole.contains("\"usage\""),
        "{whole}"
    );
    let (whole, closed) = ask(&server, "hang", false);
    assert!(!closed && !whole.contains("\"usage\""), "{whole}");
}

#[test]
fn delays_are_respected() {
    let slow = Answer::text("abc")
        .deltas(3)
        .delta_delay(Duration::from_millis(40));
    let slow = slow.delay(Duration::from_millis(80));
    let server = ModelServer::start(Script::new().rule(Rule::any().answer(slow)));
    let start = Instant::now();
    let (answer, closed) = ask(&server, "x", true);
    assert!(closed && answer.contains("message_stop"));
    assert!(
        start.elapsed() >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn other_paths_are_harmless_and_recorded() {
    let server = ModelServer::start(Script::new());
    assert!(
        exchange(&server, "HEAD /", "")
            .0
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        exchange(&server, "HEAD /api/hello", "")
            .0
            .starts_with("HTTP/1.1 200 ")
    );
    let (count, _) = exchange(&server, "POST /v1/messages/count_tokens?beta=true", "{}");
    assert!(count.contains("input_tokens"), "{count}");
    let (unknown, _) = exchange(&server, "GET /v1/strange", "");
    assert!(
        unknown.starts_with("HTTP/1.1 404 ") && unknown.contains("/v1/strange"),
        "{unknown}"
    );
    assert_eq!(server.all_requests().len(), 4);
    assert!(server.requests().is_empty());
}

#[test]
fn a_call_without_a_rule_is_refused_and_recorded() {
    let server = ModelServer::start(Script::new().rule(Rule::on_text("x").once().text("one")));
    assert!(ask(&server, "x", true).0.starts_with("HTTP/1.1 200 "));
    let (refused, _) = ask(&server, "x", true);
    assert!(
        refused.starts_with("HTTP/1.1 400 ") && refused.contains("no rule"),
        "{refused}"
    );
    assert_eq!(server.unmatched().len(), 1);
}

#[tokio::test]
async fn it_starts_and_ends_inside_a_single_threaded_runtime() {
    let server = ModelServer::start(Script::always("hi"));
    let address = server.address();
    assert!(ask(&server, "x", true).0.contains("message_stop"));
    drop(server);
    let gone = || TcpStream::connect(address).is_err();
    assert!(ostler_testkit::processes::wait_until(
        Duration::from_secs(60),
        gone
    ));
}
