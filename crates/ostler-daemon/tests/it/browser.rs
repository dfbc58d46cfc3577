//! Browsers: login with a one-time link, and everything that could pretend to be one.

use std::time::Duration;

use ostler_daemon::api::CreateSession;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{ECHO, PATIENCE, Response, Rig, cause};

const JSON: &str = "Content-Type: application/json";
const SESSION: &str = "/v1/browser-session";
const LIST: &str = "GET /v1/sessions";

/// A browser that is logged in.
struct LoggedIn {
    host: String,
    origin: String,
    cookie: String,
    key: String,
}

/// Returns the code of a new link.
async fn new_code(rig: &Rig) -> String {
    let link = rig.client.browser_link().await.unwrap();
    let (address, code) = link.url.split_once("/#login=").unwrap();
    assert_eq!(address, format!("http://127.0.0.1:{}", rig.port));
    assert_eq!(code.len(), 64);
    code.to_owned()
}

/// Logs in as the page does.
async fn redeem(rig: &Rig, code: &str) -> Response {
    let port = rig.port;
    let headers = [
        format!("Host: 127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{port}"),
        "Sec-Fetch-Site: same-origin".to_owned(),
        JSON.to_owned(),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = json!({"code": code}).to_string();
    rig.raw(&format!("POST {SESSION}"), &headers, &body).await
}

async fn log_in(rig: &Rig) -> LoggedIn {
    let response = redeem(rig, &new_code(rig).await).await;
    assert_eq!(response.status(), 200, "{}", response.0);
    let cookie = response.header("set-cookie").unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
    LoggedIn {
        host: format!("Host: 127.0.0.1:{}", rig.port),
        origin: format!("Origin: http://127.0.0.1:{}", rig.port),
        cookie: format!("Cookie: other=1; {pair}"),
        key: format!(
            "Ostler-Page-Key: {}",
            response.body()["key"].as_str().unwrap()
        ),
    }
}

impl LoggedIn {
    /// Sends a request as the page does.
    async fn page(&self, rig: &Rig, start: &str, body: &str) -> Response {
        let mut headers = vec![&*self.host, &self.cookie, &self.key, JSON];
        headers.push("Sec-Fetch-Site: same-origin");
        if !start.starts_with("GET") {
            headers.push(&self.origin);
        }
        rig.raw(start, &headers, body).await
    }

    /// Sends a request with the cookie and the key, and these headers of a browser.
    async fn with(&self, rig: &Rig, start: &str, headers: &[&str]) -> Response {
        let mut all = vec![&*self.cookie, &self.key, JSON];
        all.extend(headers);
        rig.raw(start, &all, "{}").await
    }

    async fn enter(&self, rig: &Rig, code: &str) -> Response {
        let body = json!({"code": code}).to_string();
        let start = format!("POST {SESSION}/approve");
        self.page(rig, &start, &body).await
    }

    async fn status(&self, rig: &Rig) -> Value {
        self.page(rig, &format!("GET {SESSION}"), "").await.body()
    }
}

/// Checks that a request is refused as one of a foreign web page.
fn assert_foreign(response: &Response, what: &str) {
    assert_eq!(response.status(), 403, "{what}: {}", response.0);
    assert_eq!(response.body()["cause"], "cross_origin", "{what}");
    for name in [
        "access-control-allow-origin",
        "access-control-allow-methods",
        "access-control-allow-credentials",
    ] {
        assert_eq!(response.header(name), None, "{what}");
    }
}

#[tokio::test]
async fn a_link_logs_a_browser_in() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let nobody = [&*format!("Host: 127.0.0.1:{}", rig.port)];
    let before = rig.raw(&format!("GET {SESSION}"), &nobody, "").await;
    assert_eq!(before.status(), 200);
    let version = env!("CARGO_PKG_VERSION");
    let expected = json!({"authenticated": false, "can_prompt": false, "can_approve": false, "version": version});
    assert_eq!(before.body(), expected);

    let browser = log_in(&rig).await;
    let status = browser.status(&rig).await;
    assert_eq!(status["authenticated"], true);
    assert_eq!(
        (&status["can_prompt"], &status["can_approve"]),
        (&true.into(), &false.into())
    );
    assert_eq!(browser.page(&rig, LIST, "").await.status(), 200);
    let body = serde_json::to_string(&rig.request("echo")).unwrap();
    let created = browser.page(&rig, "POST /v1/sessions", &body).await;
    assert_eq!(created.status(), 201, "{}", created.0);
}

#[tokio::test]
async fn a_link_works_once_and_its_second_use_logs_the_first_user_out() {
    let rig = Rig::new().await;
    let code = new_code(&rig).await;
    let first = redeem(&rig, &code).await;
    let cookie = first
        .header("set-cookie")
        .unwrap()
        .split_once(';')
        .unwrap()
        .0;
    let headers = [
        format!("Host: 127.0.0.1:{}", rig.port),
        format!("Cookie: {cookie}"),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert_eq!(rig.raw(LIST, &headers, "").await.status(), 200);
    let second = redeem(&rig, &code).await;
    assert_eq!((second.status(), second.header("set-cookie")), (401, None));
    assert_eq!(rig.raw(LIST, &headers, "").await.status(), 401);
    for wrong in ["", "x", &"0".repeat(64), &code[1..]] {
        assert_eq!(redeem(&rig, wrong).await.status(), 401, "{wrong}");
    }
}

#[tokio::test]
async fn only_a_user_on_the_socket_gets_a_link() {
    let rig = Rig::new().await;
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    for headers in [vec![JSON], vec![JSON, &code]] {
        let response = rig.tcp("POST /v1/browser-links", &headers, "{}").await;
        assert_eq!(response.status(), 403, "token: {}", response.0);
        assert!(!response.0.contains("login="));
    }
    let browser = log_in(&rig).await;
    assert_eq!(browser.enter(&rig, &rig.code).await.status(), 204);
    let response = browser.page(&rig, "POST /v1/browser-links", "{}").await;
    assert_eq!(response.status(), 403, "browser: {}", response.0);
    let host = format!("Host: 127.0.0.1:{}", rig.port);
    let response = rig.raw("POST /v1/browser-links", &[&host], "").await;
    assert_eq!(response.status(), 401, "anyone: {}", response.0);
}

// P59: an agent reaches the socket and loopback, and gets nothing on either.
#[tokio::test]
async fn an_agent_gets_neither_a_link_nor_a_browser_session() {
    let rig = Rig::new().await;
    let attack = r#"
ask() { "$FAKE" request "$SOCKET" "$@"; }
ask POST /v1/browser-links $DIR/link
ask POST /v1/browser-session/approve $DIR/approve
ask DELETE /v1/browser-session $DIR/delete
ask GET /v1/approval-code $DIR/code
tcp() { # method, path, file, more headers
  exec 3<>/dev/tcp/127.0.0.1/PORT
  printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n%bConnection: close\r\n\r\n' "$1" "$2" "$4" >&3
  head -1 <&3 | cut -d' ' -f2 | tr -d '\r\n' > $DIR/$3.new; mv $DIR/$3.new $DIR/$3
}
tcp GET /v1/sessions tcp-list ""
tcp GET /v1/sessions tcp-cookie "Cookie: ostler_PORT=0000\r\n"
tcp POST /v1/browser-session tcp-login "Origin: http://127.0.0.1:PORT\r\nContent-Length: 2\r\n"
tcp POST /v1/browser-links tcp-link "Content-Length: 0\r\n"
"#;
    let attack = attack.replace("PORT", &rig.port.to_string());
    let talk = "read\ninit\ntext hi\nresult hi\nread-until-eof";
    rig.shell_agent("attacker", &attack, talk);
    let session = rig.create("attacker").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    for (name, status) in [
        ("link", "403"),
        ("approve", "403"),
        ("delete", "403"),
        ("code", "403"),
        ("tcp-list", "403"),
        ("tcp-cookie", "403"),
        ("tcp-login", "403"),
        ("tcp-link", "403"),
    ] {
        assert_eq!(rig.file(name).await, status, "{name}");
    }
}

#[tokio::test]
async fn the_approval_code_lets_a_browser_approve() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let browser = log_in(&rig).await;
    let answer = r#"{"decision":"allow"}"#;
    let approve = "POST /v1/approvals/0123";
    let delete = format!("DELETE /v1/sessions/{}", session.id);
    assert_eq!(browser.page(&rig, approve, answer).await.status(), 403);
    assert_eq!(browser.page(&rig, &delete, "").await.status(), 403);
    // The header of TCP clients does not help: entering the code is limited.
    let host = browser.host.clone();
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    let headers = [&*host, &browser.origin, &code];
    assert_eq!(browser.with(&rig, approve, &headers).await.status(), 403);

    assert_eq!(browser.enter(&rig, "aaaa-aaaa-aaaa").await.status(), 403);
    let typed = format!(" {} ", rig.code.to_uppercase());
    assert_eq!(browser.enter(&rig, &typed).await.status(), 204);
    assert_eq!(browser.status(&rig).await["can_approve"], true);
    assert_eq!(browser.page(&rig, approve, answer).await.status(), 404);
    // Another browser may not.
    let other = log_in(&rig).await;
    assert_eq!(other.page(&rig, approve, answer).await.status(), 403);
    assert_eq!(browser.page(&rig, &delete, "").await.status(), 204);
    // The code is never given to a browser.
    let path = "GET /v1/approval-code";
    assert_eq!(browser.page(&rig, path, "").await.status(), 403);
}

#[tokio::test]
async fn five_wrong_approval_codes_log_the_browser_out() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    for left in (1..5).rev() {
        let wrong = browser.enter(&rig, "wrong").await;
        let detail = wrong.body()["detail"].as_str().unwrap().to_owned();
        assert!(detail.ends_with(&format!("left: {left}")), "{detail}");
    }
    assert_eq!(browser.enter(&rig, "wrong").await.status(), 401);
    assert_eq!(browser.enter(&rig, &rig.code).await.status(), 401);
    assert_eq!(browser.page(&rig, LIST, "").await.status(), 401);
}

#[tokio::test]
async fn logout_ends_the_session_and_its_streams() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", rig.port))
        .await
        .unwrap();
    let head = format!(
        "GET /v1/events HTTP/1.1\r\n{}\r\n{}\r\nConnection: close\r\n\r\n",
        browser.host, browser.cookie
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = [0_u8; 4096];
    let length = stream.read(&mut text).await.unwrap();
    assert!(text[..length].starts_with(b"HTTP/1.1 200"));
    let out = browser.page(&rig, &format!("DELETE {SESSION}"), "").await;
    assert_eq!(out.status(), 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    closed.expect("the stream ends").unwrap();
    assert_eq!(browser.page(&rig, LIST, "").await.status(), 401);
    assert_eq!(browser.status(&rig).await["authenticated"], false);
}

#[tokio::test]
async fn the_cookie_alone_only_reads() {
    let rig = Rig::new().await;
    let mut browser = log_in(&rig).await;
    assert_eq!(browser.enter(&rig, &rig.code).await.status(), 204);
    // What a server of an agent on another port gets, if the user opens it: it forges the rest.
    let key = std::mem::replace(&mut browser.key, "X: y".to_owned());
    assert_eq!(browser.page(&rig, LIST, "").await.status(), 200);
    let status = browser.status(&rig).await;
    assert_eq!(
        (&status["can_prompt"], &status["can_approve"]),
        (&false.into(), &false.into())
    );
    for start in [
        "POST /v1/sessions",
        "POST /v1/sessions/0123/messages",
        "POST /v1/approvals/0123",
        "DELETE /v1/sessions/0123",
        "POST /v1/browser-session/approve",
    ] {
        let response = browser.page(&rig, start, "{}").await;
        assert_eq!(response.status(), 403, "{start}");
        assert_eq!(response.body()["cause"], "forbidden", "{start}");
    }
    browser.key = format!("{key}\r\n{key}");
    let twice = browser.page(&rig, "POST /v1/approvals/0123", "{}").await;
    assert_eq!(twice.status(), 403);
    browser.key = key;
    let right = browser.page(&rig, "POST /v1/approvals/0123", r#"{"decision":"deny"}"#);
    assert_eq!(right.await.status(), 404);
}

// P58: cookies ignore ports, so a page of another server on this address sends ours along.
#[tokio::test]
async fn another_port_of_this_address_is_another_origin() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let host = browser.host.clone();
    let other = format!("Origin: http://127.0.0.1:{}", rig.port.wrapping_add(1));
    for start in [LIST, "POST /v1/sessions", "DELETE /v1/browser-session"] {
        for headers in [
            vec![&*host, "Sec-Fetch-Site: same-site"],
            vec![&*host, &other],
            vec![&*host, &other, "Sec-Fetch-Site: same-site"],
            vec![&*host, &other, "Sec-Fetch-Site: same-origin"],
            vec![&*host, "Origin: http://127.0.0.1"],
        ] {
            let response = browser.with(&rig, start, &headers).await;
            assert_foreign(&response, &format!("{start} {headers:?}"));
        }
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_with_the_cookie() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let host = browser.host.clone();
    let port = rig.port;
    for origin in [
        "null".to_owned(),
        String::new(),
        "https://evil.example".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}.evil.example"),
        format!("http://evil@127.0.0.1:{port}"),
        format!("HTTP://127.0.0.1:{port}"),
    ] {
        let header = format!("Origin: {origin}");
        for start in [
            LIST,
            "POST /v1/sessions",
            "GET /",
            "GET /v1/browser-session",
        ] {
            let response = browser.with(&rig, start, &[&host, &header]).await;
            assert_foreign(&response, &format!("{start} {origin}"));
        }
    }
    for site in ["cross-site", "same-site", "", "Same-Origin", "x"] {
        let header = format!("Sec-Fetch-Site: {site}");
        for start in [LIST, "POST /v1/sessions", "GET /", "GET /assets/app.js"] {
            let response = browser.with(&rig, start, &[&host, &header]).await;
            assert_foreign(&response, &format!("{start} {site}"));
        }
    }
    // Two origins, one of them ours.
    let both = [&*host, &browser.origin, "Origin: https://evil.example"];
    assert_foreign(&browser.with(&rig, LIST, &both).await, "two origins");
}

// P58: DNS rebinding.
#[tokio::test]
async fn a_foreign_host_is_refused_with_the_cookie() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let port = rig.port;
    for host in [
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("127.0.0.1.evil.example:{port}"),
        format!("0.0.0.0:{port}"),
        format!("127.1:{port}"),
    ] {
        let header = format!("Host: {host}");
        for start in [
            LIST,
            "POST /v1/sessions",
            "GET /",
            "GET /v1/browser-session",
        ] {
            let response = browser.with(&rig, start, &[&header]).await;
            assert_foreign(&response, &format!("{start} {host}"));
        }
    }
    assert_foreign(&browser.with(&rig, LIST, &[]).await, "no host");
}

#[tokio::test]
async fn localhost_and_the_ipv6_address_are_other_origins() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let code = new_code(&rig).await;
    for name in ["localhost", "[::1]"] {
        let host = format!("Host: {name}:{}", rig.port);
        let origin = format!("Origin: http://{name}:{}", rig.port);
        for start in [
            LIST,
            "POST /v1/sessions",
            "GET /",
            "GET /v1/browser-session",
        ] {
            let headers = [&*host, "Sec-Fetch-Site: same-origin"];
            let response = browser.with(&rig, start, &headers).await;
            assert_foreign(&response, &format!("{start} {name}"));
            let response = browser.with(&rig, start, &[&host, &origin]).await;
            assert_foreign(&response, &format!("{start} {name} with origin"));
        }
        let body = json!({"code": code}).to_string();
        let headers = [&*host, "Sec-Fetch-Site: same-origin", JSON];
        let login = rig.raw(&format!("POST {SESSION}"), &headers, &body).await;
        assert_foreign(&login, name);
    }
    assert_eq!(
        redeem(&rig, &code).await.status(),
        200,
        "the link was not used"
    );
}

#[tokio::test]
async fn a_post_without_an_origin_is_refused_with_the_cookie() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let host = browser.host.clone();
    for start in [
        "POST /v1/sessions",
        "POST /v1/browser-session/approve",
        "POST /v1/browser-session",
        "DELETE /v1/browser-session",
        "PUT /v1/sessions",
    ] {
        for headers in [vec![&*host], vec![&*host, "Sec-Fetch-Site: none"]] {
            let response = browser.with(&rig, start, &headers).await;
            assert_foreign(&response, &format!("{start} {headers:?}"));
        }
    }
    let headers = [&*host, JSON];
    let login = rig.raw(&format!("POST {SESSION}"), &headers, "{}").await;
    assert_foreign(&login, "login without a cookie");
}

// A bookmark opens the page, and nothing else.
#[tokio::test]
async fn an_address_that_was_typed_opens_only_the_page() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let headers = [&*browser.host.clone(), "Sec-Fetch-Site: none"];
    assert_eq!(browser.with(&rig, "GET /", &headers).await.status(), 200);
    for start in [LIST, "GET /v1/events", "GET /openapi.json"] {
        assert_foreign(&browser.with(&rig, start, &headers).await, start);
    }
}

#[tokio::test]
async fn a_form_is_refused_with_the_cookie() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ] {
        let kind = format!("Content-Type: {kind}");
        let headers = [
            &*browser.host,
            &browser.cookie,
            &browser.key,
            &browser.origin,
            &kind,
        ];
        for start in ["POST /v1/sessions", "POST /v1/browser-session"] {
            let response = rig.raw(start, &headers, "{}").await;
            assert_eq!(response.status(), 415, "{start} {kind}");
        }
        // A form of another page.
        let headers = [
            &*browser.host,
            &browser.cookie,
            "Origin: https://evil.example",
            &kind,
        ];
        let response = rig.raw("POST /v1/sessions", &headers, "{}").await;
        assert_foreign(&response, &kind);
    }
}

#[tokio::test]
async fn a_preflight_is_refused() {
    let rig = Rig::new().await;
    let host = format!("Host: 127.0.0.1:{}", rig.port);
    for origin in ["https://evil.example", "http://127.0.0.1:1", "null"] {
        let origin = format!("Origin: {origin}");
        let headers = [
            &*host,
            &origin,
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: ostler-page-key, content-type",
            "Access-Control-Request-Private-Network: true",
        ];
        for path in ["/", "/v1/sessions", "/v1/browser-session", "/healthz"] {
            let response = rig.raw(&format!("OPTIONS {path}"), &headers, "").await;
            assert_foreign(&response, path);
        }
    }
}

// The token is not for pages, not even for ours; and the cookie is not a token.
#[tokio::test]
async fn the_token_is_not_for_a_page() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let response = rig.tcp(LIST, &[&browser.origin, &browser.cookie], "").await;
    assert_foreign(&response, "token and cookie from our page");
    let value = browser.cookie.rsplit_once('=').unwrap().1.to_owned();
    let bearer = format!("Authorization: Bearer {value}");
    let response = rig.raw(LIST, &[&browser.host, &bearer], "").await;
    assert_eq!(response.status(), 401);
    let start = format!("{LIST}?token={value}");
    let query = rig.raw(&start, &[&browser.host], "").await;
    assert_eq!(query.status(), 401);
}

#[tokio::test]
async fn only_the_right_cookie_counts() {
    let rig = Rig::new().await;
    let browser = log_in(&rig).await;
    let value = browser.cookie.rsplit_once('=').unwrap().1.to_owned();
    let name = format!("ostler_{}", rig.port);
    for (cookie, status) in [
        (format!("{name}={value}"), 200),
        // Another server on this address can set more cookies.
        (format!("{name}=x; {name}={value}"), 200),
        (format!("{name}={value}x"), 401),
        (format!("{name}={}", &value[1..]), 401),
        (format!("{name}="), 401),
        (name.clone(), 401),
        (format!("ostler={value}"), 401),
        (format!("x{name}={value}"), 401),
        (String::new(), 401),
    ] {
        let header = format!("Cookie: {cookie}");
        let response = rig.raw(LIST, &[&browser.host, &header], "").await;
        assert_eq!(response.status(), status, "{cookie}");
    }
}

#[tokio::test]
async fn the_page_is_served_with_strict_headers() {
    let rig = Rig::new().await;
    let host = format!("Host: 127.0.0.1:{}", rig.port);
    let page = rig.raw("GET /", &[&host], "").await;
    assert_eq!(page.status(), 200);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
        img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types ostler";
    for (name, value) in [
        ("content-security-policy", policy),
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    // All scripts load at once.
    let links = page.header("link").unwrap();
    let (_, rest) = links.split_once("</assets/").unwrap();
    let (version, _) = rest.split_once('/').unwrap();
    for name in ["api.js", "app.js", "timeline.js"] {
        let link = format!("</assets/{version}/{name}>; rel=modulepreload");
        assert!(links.contains(&link), "{links}");
    }
    // Files with the version never change: a browser asks for them once.
    let script = format!("/assets/{version}/app.js");
    assert!(page.0.contains(&format!("src=\"{script}\"")));
    let file = rig.raw(&format!("GET {script}"), &[&host], "").await;
    let cached = Some("max-age=31536000, immutable");
    assert_eq!((file.status(), file.header("cache-control")), (200, cached));
    let file = rig.raw("GET /assets/app.js", &[&host], "").await;
    assert_eq!(file.header("cache-control"), Some("no-cache"));
    let tag = format!("If-None-Match: {}", page.header("etag").unwrap());
    let same = rig.raw("GET /", &[&host, &tag], "").await;
    assert_eq!(same.status(), 304);
    for path in [
        "/assets/",
        "/assets/none.js",
        "/assets/0123/app.js",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e",
        "/index.html",
    ] {
        let response = rig.raw(&format!("GET {path}"), &[&host], "").await;
        assert!([401, 404].contains(&response.status()), "{path}");
    }
    // Whatever is not a file of the page is data, and never runs.
    let browser = log_in(&rig).await;
    let list = browser.page(&rig, LIST, "").await;
    let policy = list.header("content-security-policy").unwrap();
    assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"));
    assert_eq!(list.header("cache-control"), Some("no-store"));
}

// A daemon without `--listen` opens a listener for browsers only.
#[tokio::test]
async fn a_listener_is_opened_for_the_first_link() {
    let mut rig = Rig::without_listener().await;
    let link = rig.client.browser_link().await.unwrap();
    let again = rig.client.browser_link().await.unwrap();
    let port = |url: &str| -> u16 {
        let address = url.strip_prefix("http://127.0.0.1:").unwrap();
        address.split_once('/').unwrap().0.parse().unwrap()
    };
    assert_eq!(port(&link.url), port(&again.url));
    assert_ne!(link.url, again.url);
    rig.port = port(&link.url);
    assert!(!rig.path("run/token").exists());
    let browser = log_in(&rig).await;
    assert_eq!(browser.page(&rig, LIST, "").await.status(), 200);
    let code = rig.client.approval_code().await.unwrap().code;
    assert_eq!(browser.enter(&rig, &code).await.status(), 204);
    // A token of an earlier daemon is worth nothing here.
    std::fs::write(rig.path("run/token"), "0".repeat(64)).unwrap();
    assert_eq!(rig.tcp(LIST, &[], "").await.status(), 401);
    rig.stop().await;
}

#[tokio::test]
async fn a_browser_decides_in_its_name_and_may_always_allow() {
    let rig = Rig::new().await;
    let ask = "control-request qN Bash {\"command\":\"rm x\"}\nwait-control\n";
    let asks = format!(
        "read\ninit\n{}{}text hi\nresult hi\nread-until-eof",
        ask.replace("qN", "q1"),
        ask.replace("qN", "q2")
    );
    rig.agent("asks", &asks);
    let session = rig.create("asks").await;
    let pending = async {
        loop {
            let pending = rig.client.pending_approvals().await.unwrap().approvals;
            if let Some(first) = pending.into_iter().next() {
                return first;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let approval = tokio::time::timeout(PATIENCE, pending).await.unwrap();
    assert_eq!((&*approval.agent, &approval.dir), ("claude", &session.dir));
    assert_eq!(approval.name, session.name);
    assert_eq!(approval.summary.as_deref(), Some("rm x"));
    let always = "Until this session ends, the agent may run `rm x` with Bash, exactly as it is here, \
                  without asking again.";
    assert_eq!(approval.always.as_deref(), Some(always));

    let browser = log_in(&rig).await;
    assert_eq!(browser.enter(&rig, &rig.code).await.status(), 204);
    let path = format!("POST /v1/approvals/{}", approval.id);
    let deny = browser
        .page(&rig, &path, r#"{"decision":"deny","always":true}"#)
        .await;
    assert_eq!(deny.status(), 400, "{}", deny.0);
    let allow = browser
        .page(&rig, &path, r#"{"decision":"allow","always":true}"#)
        .await;
    assert_eq!(allow.body()["decided_by"], "browser", "{}", allow.0);
    // The same command is not asked about again.
    let events = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let decisions: Vec<(&Value, &Value)> = events
        .iter()
        .filter(|event| event["type"] == "permission")
        .map(|event| (&event["id"], &event["decision"]))
        .collect();
    assert_eq!(decisions.len(), 3, "{decisions:?}");
    assert_eq!(decisions[2].1, "allowed");

    let list = async |query: &str| {
        let start = format!("GET /v1/approvals?{query}");
        browser.page(&rig, &start, "").await.body()
    };
    assert_eq!(
        list("state=decided").await["approvals"][0]["id"],
        approval.id.as_str()
    );
    assert_eq!(list("state=pending").await["approvals"], json!([]));
    assert_eq!(list("state=all&session=none").await["approvals"], json!([]));
    let query = format!("state=all&session={}&limit=1", session.id);
    assert_eq!(list(&query).await["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(list("state=x").await["cause"], "bad_request");
}

#[tokio::test]
async fn a_browser_without_the_code_cannot_widen_permissions() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let browser = log_in(&rig).await;
    let request = CreateSession {
        permissions: Some("all".to_owned()),
        ..rig.request("echo")
    };
    let body = serde_json::to_string(&request).unwrap();
    let refused = browser.page(&rig, "POST /v1/sessions", &body).await;
    assert_eq!(refused.status(), 403);
    browser.enter(&rig, &rig.code).await;
    let created = browser.page(&rig, "POST /v1/sessions", &body).await;
    assert_eq!(created.status(), 201);
}

#[tokio::test]
async fn the_code_is_not_accepted_on_the_socket() {
    let rig = Rig::new().await;
    let code = new_code(&rig).await;
    let mut socket = tokio::net::UnixStream::connect(rig.client.socket())
        .await
        .unwrap();
    let body = json!({"code": code}).to_string();
    let head = format!(
        "POST {SESSION} HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    assert_eq!(redeem(&rig, &code).await.status(), 200);
    assert_eq!(cause(rig.client.session("none").await), "unknown_session");
}
