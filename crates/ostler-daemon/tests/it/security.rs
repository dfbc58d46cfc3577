//! The listener against everything but a client with the token: known failures of other local
//! servers, each with its test.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{ECHO, PATIENCE, Rig};

const LIST: &str = "GET /v1/sessions";

// P58
#[tokio::test]
async fn a_request_without_the_token_is_refused() {
    let rig = Rig::new().await;
    let host = format!("Host: localhost:{}", rig.port);
    let token = std::fs::read_to_string(rig.path("run/token")).unwrap();
    let token = token.trim();
    for headers in [
        vec![],
        vec!["Authorization: Bearer ".to_owned()],
        vec!["Authorization: Bearer wrong".to_owned()],
        vec![format!("Authorization: Basic {token}")],
        vec![format!("Authorization: Bearer {token}x")],
        vec![format!("Authorization: Bearer {}", &token[1..])],
        vec![format!("Authorization: Bearer {token}"); 2],
        vec![format!("Cookie: token={token}")],
        vec![format!("X-Token: {token}")],
    ] {
        let mut all: Vec<&str> = headers.iter().map(String::as_str).collect();
        all.push(&host);
        let response = rig.raw(LIST, &all, "").await;
        assert_eq!(response.status(), 401, "{headers:?}");
        assert!(response.header("www-authenticate").is_some());
        assert_eq!(response.body()["cause"], "unauthenticated");
    }
    // A credential in a URL ends up in logs and histories.
    for query in [
        format!("token={token}"),
        format!("a=b&access_token={token}"),
    ] {
        let response = rig.tcp(&format!("{LIST}?{query}"), &[], "").await;
        assert_eq!(response.status(), 401, "{query}");
    }
    assert_eq!(rig.tcp(LIST, &[], "").await.status(), 200, "with the token");
}

// P58: DNS rebinding.
#[tokio::test]
async fn a_foreign_host_is_refused() {
    let rig = Rig::new().await;
    let token = std::fs::read_to_string(rig.path("run/token")).unwrap();
    let auth = format!("Authorization: Bearer {}", token.trim());
    let port = rig.port;
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        "localhost".to_owned(),
        format!("localhost:{}", port.wrapping_add(1)),
        format!("0.0.0.0:{port}"),
    ] {
        let response = rig.raw(LIST, &[&auth, &format!("Host: {host}")], "").await;
        assert_eq!(response.status(), 403, "{host}");
    }
    assert_eq!(rig.raw(LIST, &[&auth], "").await.status(), 403, "no host");
    let both = [
        format!("Host: localhost:{port}"),
        "Host: evil.example".to_owned(),
    ];
    let twice = rig.raw(LIST, &[&auth, &both[0], &both[1]], "").await;
    assert!([400, 403].contains(&twice.status()), "{}", twice.0);
}

// P58: no web page can use the daemon, whatever it knows.
#[tokio::test]
async fn a_web_page_is_refused() {
    let rig = Rig::new().await;
    for origin in [
        "null",
        "https://evil.example",
        &format!("http://127.0.0.1:{}", rig.port),
    ] {
        let header = format!("Origin: {origin}");
        for start in [
            LIST,
            "POST /v1/sessions",
            "OPTIONS /v1/sessions",
            "GET /healthz",
        ] {
            let response = rig.tcp(start, &[&header], "").await;
            assert_eq!(response.status(), 403, "{start} {origin}");
            let cors = response.header("access-control-allow-origin");
            assert_eq!(cors, None, "{start} {origin}");
        }
    }
    let site = rig.tcp(LIST, &["Sec-Fetch-Site: cross-site"], "").await;
    assert_eq!(site.status(), 403);
    // What a page can send without asking: a form, or plain text.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let header = format!("Content-Type: {kind}");
        let body = format!("{{\"dir\":\"{}\"}}", rig.path("work").display());
        let response = rig.tcp("POST /v1/sessions", &[&header], &body).await;
        assert_eq!(response.status(), 415, "{kind}");
    }
}

// A token that an agent could read never approves or deletes; with the code it does.
#[tokio::test]
async fn the_token_alone_does_not_approve() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let json = "Content-Type: application/json";
    let approve = "POST /v1/approvals/0123";
    let delete = format!("DELETE /v1/sessions/{}", session.id);
    let body = r#"{"decision":"allow"}"#;
    for start in [approve, &delete] {
        let response = rig.tcp(start, &[json], body).await;
        assert_eq!(response.status(), 403, "{start}");
        assert_eq!(response.body()["cause"], "forbidden");
        let headers = [json, "Ostler-Approval-Code: aaaa-aaaa-aaaa"];
        let wrong = rig.tcp(start, &headers, body).await;
        assert_eq!(wrong.status(), 401, "{start}");
    }
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    assert_eq!(rig.tcp(approve, &[json, &code], body).await.status(), 404);
    assert_eq!(rig.tcp(&delete, &[&code], "").await.status(), 204);
}

#[tokio::test]
async fn files_are_private() {
    let rig = Rig::new().await;
    let mode = |name: &str| rig.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run"), 0o700);
    assert_eq!(mode("run/daemon.sock"), 0o600);
    assert_eq!(mode("run/token"), 0o600);
    let code = std::fs::read_to_string(rig.path("run/token")).unwrap();
    assert!(!code.contains(&rig.code), "the code is not stored");
}

#[tokio::test]
async fn large_malformed_and_unknown_requests_are_refused() {
    let rig = Rig::new().await;
    let json = "Content-Type: application/json";
    let create = "POST /v1/sessions";
    let large = format!("{{\"dir\":\"{}\"}}", "x".repeat(9 * 1024 * 1024));
    assert_eq!(rig.tcp(create, &[json], &large).await.status(), 413);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"dir\":1}",
        "{\"dir\":\"/\",\"bogus\":1}",
        "\u{1}",
    ] {
        let response = rig.tcp(create, &[json], body).await;
        assert_eq!(
            (response.status(), &response.body()["cause"]),
            (400, &"bad_request".into()),
            "{body}"
        );
    }
    let problem = rig.tcp("GET /nothing", &[], "").await;
    assert_eq!(problem.status(), 404);
    assert_eq!(
        problem.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(rig.tcp("PUT /v1/sessions", &[], "").await.status(), 405);
    // The head of a request is limited too.
    let long = format!("X-Long: {}", "x".repeat(500_000));
    let status = rig.tcp(LIST, &[&long], "").await.status();
    assert!([431, 400, 0].contains(&status), "{status}");
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        assert!([400, 0, 505].contains(&rig.bytes(bytes).await.status()));
    }
    assert_eq!(rig.tcp(LIST, &[], "").await.status(), 200, "still serving");
}

// P59 and path traversal: no id leads anywhere but to a session, and none breaks the daemon.
#[tokio::test]
async fn ids_and_queries_are_only_data() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let ids = [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "%ff",
        "'%20OR%201=1--",
        "a%2Fb",
        "*",
        "%25",
        "{id}",
        "%F0%9F%98%80",
        "-1",
        &"9".repeat(300),
        &format!("{}%20", session.id),
    ];
    for id in ids {
        for tail in [
            "",
            "/events",
            "/result",
            "/events?since=-1",
            "/result?wait=1h",
            "/x",
        ] {
            let path = format!("GET /v1/sessions/{id}{tail}");
            let response = rig.tcp(&path, &[], "").await;
            let (status, kind) = (response.status(), response.header("content-type"));
            assert!((400..500).contains(&status), "{path}: {status}");
            assert_eq!(kind, Some("application/problem+json"), "{path}");
        }
    }
    for query in ["q=%", "q=", "limit=1", "q=a&limit=-1", "q=a&x=y"] {
        let status = rig
            .tcp(&format!("GET /v1/search?{query}"), &[], "")
            .await
            .status();
        assert_eq!(status, 400, "{query}");
    }
    let odd = rig
        .tcp("GET /v1/search?q=%27%22%3B--%00%F0%9F%98%80", &[], "")
        .await;
    assert_eq!(odd.status(), 200);
}

// A client that never finishes its request keeps no one else waiting, and is dropped in the end.
#[tokio::test(start_paused = true)]
async fn a_slow_client_is_dropped() {
    let rig = Rig::new().await;
    let mut slow = tokio::net::TcpStream::connect(("127.0.0.1", rig.port))
        .await
        .unwrap();
    slow.write_all(b"GET /v1/sessions HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    let other = rig.tcp(LIST, &[], "");
    assert_eq!(other.await.status(), 200);
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(3600), slow.read_to_end(&mut rest)).await;
    let _ = read.expect("the connection is closed");
    let mut slow = tokio::net::TcpStream::connect(("127.0.0.1", rig.port))
        .await
        .unwrap();
    let token = std::fs::read_to_string(rig.path("run/token")).unwrap();
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        rig.port,
        token.trim()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut text = vec![0; 4096];
    let length = tokio::time::timeout(PATIENCE * 60, slow.read(&mut text)).await;
    let length = length.expect("a response").unwrap();
    assert!(text[..length].starts_with(b"HTTP/1.1 408"));
}

// With the token file alone, an agent could otherwise start another one without restrictions.
#[tokio::test]
async fn the_token_alone_does_not_widen_permissions() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let json = "Content-Type: application/json";
    let body = |more: &str| {
        let request = serde_json::to_value(rig.request("echo")).unwrap();
        let mut request = request.as_object().unwrap().clone();
        request.extend(serde_json::from_str::<serde_json::Map<_, _>>(more).unwrap());
        serde_json::Value::from(request).to_string()
    };
    for more in [
        r#"{"permissions":"all"}"#,
        r#"{"settings":{"permission_mode":"bypassPermissions"}}"#,
        r#"{"resume":"00000000-0000-4000-8000-000000000000"}"#,
    ] {
        let refused = rig.tcp("POST /v1/sessions", &[json], &body(more)).await;
        assert_eq!(refused.status(), 403, "{more}");
    }
    let ask = body(r#"{"permissions":"ask"}"#);
    let plain = rig.tcp("POST /v1/sessions", &[json], &ask).await;
    assert_eq!(plain.status(), 201);
    // The code is given out on the socket, and never over TCP.
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    let path = "GET /v1/approval-code";
    for headers in [vec![], vec![code.as_str()]] {
        assert_eq!(rig.tcp(path, &headers, "").await.status(), 403);
    }
    assert_eq!(rig.client.approval_code().await.unwrap().code, rig.code);
}

// A change is made to its end although the client has gone.
#[tokio::test]
async fn a_client_that_disconnects_leaves_nothing_half_done() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let token = std::fs::read_to_string(rig.path("run/token")).unwrap();
    let body = serde_json::to_string(&rig.request("echo")).unwrap();
    for delay in 0..20_u64 {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", rig.port))
            .await
            .unwrap();
        let head = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            rig.port,
            token.trim(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(delay)).await;
        drop(stream);
    }
    // All that were accepted run, and the agent can be started again.
    let last = rig.create("echo").await;
    rig.events_until(&last.id, |event| event["type"] == "turn_ended")
        .await;
    for session in rig.client.sessions("limit=500").await.unwrap().sessions {
        rig.events_until(&session.id, |event| event["type"] == "turn_ended")
            .await;
    }
}

// Connections over TCP never use up what a user needs to reach the daemon.
#[tokio::test]
async fn many_connections_lock_no_one_out() {
    let rig = Rig::new().await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", rig.port)).await;
        idle.push(stream.unwrap());
    }
    // Those beyond the limit are closed at once, the others after a while.
    let mut last = idle.pop().unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, last.read_to_end(&mut rest)).await;
    let _ = closed.expect("the connection is closed");
    assert!(rig.client.is_running().await);
    drop(idle);
    let again = async {
        while rig.tcp(LIST, &[], "").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("a response");
}
