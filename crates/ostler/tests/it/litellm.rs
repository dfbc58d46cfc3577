//! The API agent behind LiteLLM's proxy: a server that is neither ours nor OpenAI's, in front of
//! the scripted model. Only with `cargo xtask test --with-litellm`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::wait_until;
use ostler_testkit::scenario::{Driver, KEY, OPENAI_API, Observed, Task, TestEnv};
use serde_json::json;

use crate::driver::Library;

/// Maximum startup time of the proxy: it loads half of PyPI.
const STARTUP: Duration = Duration::from_secs(120);

/// The proxy in front of a place's model; stopped on drop.
struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Proxy {
    fn start(place: &TestEnv) -> Self {
        let program = std::env::var_os("OSTLER_TEST_LITELLM")
            .expect("run this with cargo xtask test --with-litellm");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap();
        let home = place.outside("proxy");
        fs::create_dir(&home).unwrap();
        let model = json!({"model": "openai/scripted-large", "api_base": format!("{}/v1", place.server.base_url()),
            "api_key": "sk-upstream", "max_retries": 0});
        let config = json!({
            "model_list": [{"model_name": "scripted-large", "litellm_params": model}],
            "litellm_settings": {"num_retries": 0, "telemetry": false},
            "router_settings": {"num_retries": 0, "disable_cooldowns": true},
            "general_settings": {"master_key": KEY},
        });
        fs::write(home.join("config.yaml"), config.to_string()).unwrap(); // JSON is YAML
        let path = std::env::var_os("PATH").unwrap_or_default();
        let log = fs::File::create(home.join("log")).unwrap();
        let child = Command::new(program)
            .args([
                "--config",
                "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                &free.port().to_string(),
            ])
            .current_dir(&home)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &home)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Self {
            child,
            address: free,
        };
        let _ = wait_until(STARTUP, || {
            proxy.is_up() || proxy.child.try_wait().unwrap().is_some()
        });
        assert!(
            proxy.is_up(),
            "{}",
            fs::read_to_string(home.join("log")).unwrap_or_default()
        );
        proxy
    }

    fn is_up(&self) -> bool {
        let Ok(mut socket) = TcpStream::connect(self.address) else {
            return false;
        };
        let mut answer = String::new();
        let _ = socket.write_all(b"GET /health/liveliness HTTP/1.0\r\nhost: x\r\n\r\n");
        let _ = socket.read_to_string(&mut answer);
        answer
            .lines()
            .next()
            .is_some_and(|status| status.contains(" 200 "))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a task through the proxy.
fn through(script: Script, task: &Task) -> (TestEnv, Observed) {
    let place = TestEnv::new(&OPENAI_API, script);
    let proxy = Proxy::start(&place);
    let place = place.with_host("OPENAI_BASE_URL", &format!("http://{}/v1", proxy.address));
    let seen = Library(&OPENAI_API).run(&place, task, &|_| ());
    seen.check();
    seen.check_understood();
    drop(proxy);
    place.wait_until_empty(STARTUP);
    (place, seen)
}

#[test]
fn text_and_thinking() {
    let answer = Answer::thinking("Hm, let me see.")
        .deltas(2)
        .and_text("Grüße 🐎, one two.")
        .deltas(4);
    let (place, seen) = through(
        Script::new().rule(Rule::any().answer(answer)),
        &Task::new("PROMPT"),
    );
    seen.assert_ended("completed", 0);
    seen.assert_tokens(1..=1);
    assert_eq!(seen.answer(), "Grüße 🐎, one two.");
    let thoughts = seen
        .all("text")
        .into_iter()
        .filter(|text| text["kind"] == "thinking");
    assert_eq!(
        thoughts
            .filter_map(|text| text["text"].as_str())
            .collect::<String>(),
        "Hm, let me see."
    );
    assert_eq!(
        place.only_call().header("authorization"),
        Some("Bearer sk-upstream")
    );
}

#[test]
fn a_loop_of_tools() {
    let both = Answer::tool(
        "write_file",
        json!({"path": "one.txt", "content": "eins\n"}),
    )
    .and_tool(
        "write_file",
        json!({"path": "two.txt", "content": "zwei\n"}),
    );
    let script = Script::new()
        .rule(Rule::on_call(1).answer(both))
        .rule(Rule::on_call(2).answer(Answer::tool("read_file", json!({"path": "one.txt"}))))
        .rule(Rule::on_call(3).text("{tool_result}"));
    let (place, seen) = through(script, &Task::new("PROMPT"));
    seen.assert_ended("completed", 0);
    seen.assert_tokens(1..=3);
    assert!(seen.answer().contains("eins"), "{}", seen.answer());
    assert_eq!(
        fs::read_to_string(place.work().join("two.txt")).unwrap(),
        "zwei\n"
    );
}

#[test]
fn errors_keep_their_cause() {
    let error = |status: u16, kind: &str, code: &str| {
        Rule::on_text(format!("status {status}"))
            .answer(Answer::error(status, kind, "the model's words").code(code))
    };
    let script = Script::new()
        .rule(error(401, "invalid_request_error", "invalid_api_key"))
        .rule(error(404, "invalid_request_error", "model_not_found"))
        .rule(error(429, "requests", "rate_limit_exceeded"))
        .rule(error(503, "overloaded_error", "overloaded"));
    let place = TestEnv::new(&OPENAI_API, script);
    let proxy = Proxy::start(&place);
    let place = place.with_host("OPENAI_BASE_URL", &format!("http://{}/v1", proxy.address));
    for (status, cause) in [
        (401, "auth"),
        (404, "bad_request"),
        (429, "rate_limit"),
        (503, "overloaded"),
    ] {
        let task = Task::new(format!("status {status}")).set("retries", "0");
        let seen = Library(&OPENAI_API).run(&place, &task, &|_| ());
        assert_eq!(
            seen.outcome()["cause"],
            cause,
            "{status}: {:#}",
            seen.outcome()
        );
    }
}

#[test]
fn cost_is_what_the_price_says() {
    let task = Task::new("PROMPT").set("price", "2.5/1.25/10");
    let (_, seen) = through(Script::always("Hello."), &task);
    seen.assert_tokens(1..=1);
    let cost = seen.one("ended")["usage"]["cost_usd"].as_f64().unwrap();
    let expected = (107.0 * 2.5 + 11.0 * 1.25 + 25.0 * 10.0) / 1e6;
    assert!((cost - expected).abs() < 1e-12, "{cost} is not {expected}");
}
