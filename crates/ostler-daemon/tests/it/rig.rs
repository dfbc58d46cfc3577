//! A daemon in this process, and what a test needs around it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler::event::Timestamp;
use ostler::permission::{Policy, Preset};
use ostler::{Agents, Host, Spec};
use ostler_daemon::api::{CreateSession, SessionView};
use ostler_daemon::client::{Client, ClientError, EventStream, StreamEvent};
use ostler_daemon::problem::{Problem, ProblemKind};
use ostler_daemon::{
    AgentsFuture, Daemon, Embedder, ManagerOptions, NotifyCommand, Options, PrepareFuture,
    Prepared, Recovered, Webhook,
};
use ostler_store::Store;
use ostler_testkit::fake;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::rejoin::Elsewhere;
use crate::shutdown::Gated;

/// Long enough for a loaded machine; nothing waits that long unless the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Configuration of the tests: the model names a program in the test's directory.
pub(crate) struct TestEmbedder {
    dir: PathBuf,
    /// The policy of sessions that are prepared from now on.
    pub(crate) preset: Mutex<Option<Preset>>,
    /// Number of times that all agents were probed.
    pub(crate) probes: AtomicUsize,
    /// Answers that reached sessions elsewhere.
    pub(crate) answers: Arc<Mutex<Vec<String>>>,
}

impl Embedder for TestEmbedder {
    fn prepare<'a>(&'a self, request: &'a CreateSession) -> PrepareFuture<'a> {
        Box::pin(async move {
            let name = request.agent.as_deref().unwrap_or("claude");
            let agent = Agents::builtin().get(name).ok_or_else(|| {
                Problem::new(ProblemKind::UnknownAgent, format!("no agent {name:?}"))
            })?;
            // The daemon belongs to a fleet if there is such a file.
            let agent = match request.fleet.is_some() && self.dir.join("fleet").exists() {
                true => Arc::new(Elsewhere {
                    agent,
                    answers: self.answers.clone(),
                }),
                false => agent,
            };
            let agent: Arc<dyn ostler::Agent> = match request.labels.get("gate") {
                Some(gate) => Arc::new(Gated {
                    agent,
                    gate: gate.into(),
                }),
                None => agent,
            };
            let mut spec = Spec::default();
            spec.policy = self.preset.lock().unwrap().map(Policy::preset);
            if let Some(program) = &request.model {
                spec.program = Some(self.dir.join(program));
            }
            for (key, value) in &request.settings {
                spec.set(key, [value.as_str().unwrap_or_default()])?;
            }
            if let Some(dir) = request.labels.get("config_dir") {
                spec.env.insert("CLAUDE_CONFIG_DIR".to_owned(), dir.clone());
            }
            if let Some(tokens) = request.limits.get("max_tokens") {
                spec.limits = spec.limits.budget_tokens(tokens.as_u64());
            }
            if request.limits.contains_key("none") {
                spec.limits = spec.limits.wall(None).idle(None).startup(None);
            }
            let env = std::env::vars_os();
            Ok(Prepared {
                name: name.to_owned(),
                agent,
                host: Host::new(env),
                spec,
            })
        })
    }

    fn agents(&self) -> AgentsFuture<'_> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Vec::new() })
    }

    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }
}

/// A running daemon.
pub(crate) struct Rig {
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) client: Client,
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Arc<TestEmbedder>,
    pub(crate) recovered: Recovered,
    pub(crate) port: u16,
    pub(crate) code: String,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

/// A script that answers every message, until its input ends.
pub(crate) const ECHO: &str = "loop 1000\nread-user\ninit\ntext hi\nresult hi\nend";

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(ManagerOptions::default()).await
    }

    pub(crate) async fn with(options: ManagerOptions) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::in_dir(dir, options).await
    }

    /// Starts a daemon that listens on its socket only. The port is 0.
    pub(crate) async fn without_listener() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::start(dir, ManagerOptions::default(), Vec::new(), None).await
    }

    /// Starts a daemon in a directory that another may have used.
    pub(crate) async fn in_dir(dir: Arc<tempfile::TempDir>, manager: ManagerOptions) -> Self {
        Self::with_webhooks(dir, manager, Vec::new()).await
    }

    /// Starts a daemon with webhooks.
    pub(crate) async fn with_webhooks(
        dir: Arc<tempfile::TempDir>,
        manager: ManagerOptions,
        webhooks: Vec<Webhook>,
    ) -> Self {
        let listen = "127.0.0.1:0".parse().unwrap();
        Self::start(dir, manager, webhooks, Some(listen)).await
    }

    async fn start(
        dir: Arc<tempfile::TempDir>,
        manager: ManagerOptions,
        webhooks: Vec<Webhook>,
        listen: Option<std::net::SocketAddr>,
    ) -> Self {
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let store = Arc::new(Store::open(&dir.path().join("state")).unwrap());
        let embedder = Arc::new(TestEmbedder {
            dir: dir.path().to_owned(),
            preset: Mutex::new(None),
            probes: AtomicUsize::new(0),
            answers: Arc::default(),
        });
        let options = Options {
            state_dir: dir.path().join("state"),
            socket: dir.path().join("run/daemon.sock"),
            listen,
            store: store.clone(),
            embedder: embedder.clone(),
            breakers: ostler::agent::Breakers::stored_in(dir.path().join("breakers")),
            notify: dir.path().join("notify").exists().then(|| NotifyCommand {
                program: dir.path().join("notify"),
                args: vec!["an argument".to_owned()],
            }),
            webhooks,
            manager,
        };
        let socket = options.socket.clone();
        let daemon = Daemon::start(options).await.unwrap();
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        Self {
            client: Client::new(socket),
            recovered: daemon.recovered,
            port: daemon.address.map_or(0, |address| address.port()),
            code: daemon
                .approval_code
                .as_ref()
                .map_or_else(String::new, |code| code.reveal().to_owned()),
            task: tokio::spawn(async move {
                let stop = move || {
                    let stopped = stopped.clone();
                    async move { stopped.notified().await }
                };
                daemon.serve(stop).await;
            }),
            dir,
            store,
            embedder,
            stop,
        }
    }

    /// Asks the daemon to stop.
    pub(crate) fn signal(&self) {
        self.stop.notify_one();
    }

    /// Returns true if the daemon has not ended.
    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Stops the daemon and waits for its end. Returns its directory.
    pub(crate) async fn stop(self) -> Arc<tempfile::TempDir> {
        self.signal();
        self.ended().await
    }

    /// Waits for the end of a daemon that was asked to stop.
    pub(crate) async fn ended(self) -> Arc<tempfile::TempDir> {
        let stopped = tokio::time::timeout(PATIENCE, self.task).await;
        stopped.expect("the daemon ends").unwrap();
        self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Installs a fake agent that plays a script. `$DIR` stands for the test's directory.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let dir = self.dir.path();
        let script = script.replace("$DIR", &dir.display().to_string());
        let _ = fake::install_as(dir, name, &script);
    }

    /// Installs a shell script that runs some lines, and then plays the script of a fake agent.
    pub(crate) fn shell_agent(&self, name: &str, lines: &str, script: &str) {
        let path = self.path(name);
        let (fake, dir) = (fake::program(), self.dir.path().display());
        let text = format!(
            "#!/bin/bash\nDIR={dir}\nFAKE={}\nSOCKET={}\n{lines}\nexec -a \"$0\" \"$FAKE\" \"$@\"\n",
            fake.display(),
            self.client.socket().display(),
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = script.replace("$DIR", &dir.to_string());
        std::fs::write(self.path(&format!("{name}.script")), script).unwrap();
    }

    /// A request for a session of a fake agent.
    pub(crate) fn request(&self, agent: &str) -> CreateSession {
        CreateSession {
            dir: self.path("work"),
            model: Some(agent.to_owned()),
            prompt: Some("go".to_owned()),
            ..CreateSession::default()
        }
    }

    pub(crate) async fn create(&self, agent: &str) -> SessionView {
        self.client.create(&self.request(agent)).await.unwrap()
    }

    /// Creates a session of an agent without a process or limits, and waits until it is idle.
    pub(crate) async fn scripted(&self) -> SessionView {
        let script = self.path("script.toml");
        std::fs::write(&script, "[[reply]]\nrepeat = true\ntext = \"hi\"\n").unwrap();
        let request = CreateSession {
            agent: Some("scripted".to_owned()),
            model: None,
            prompt: None,
            settings: [("script".to_owned(), script.to_str().unwrap().into())].into(),
            limits: [("none".to_owned(), true.into())].into(),
            ..self.request("")
        };
        let session = self.client.create(&request).await.unwrap();
        self.events_until(&session.id, |event| event["to"] == "idle")
            .await;
        session
    }

    /// Reads the events of a session until one satisfies the condition.
    pub(crate) async fn events_until(
        &self,
        id: &str,
        is_last: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let mut stream = self.client.events(id, 0).await.unwrap();
        read_until(&mut stream, is_last).await
    }

    /// Reads the events of a session to its end.
    pub(crate) async fn all_events(&self, id: &str) -> Vec<Value> {
        self.events_until(id, |_| false).await
    }

    /// Waits until a session has ended.
    pub(crate) async fn wait_for_end(&self, id: &str) -> SessionView {
        self.all_events(id).await;
        self.client.session(id).await.unwrap()
    }

    /// Waits until a file exists, and returns its text.
    pub(crate) async fn file(&self, name: &str) -> String {
        let path = self.path(name);
        let found = async {
            while !path.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("no file {name}"));
        std::fs::read_to_string(&path).unwrap()
    }

    /// Sends a raw request over TCP with the token, and these further headers.
    pub(crate) async fn tcp(&self, start: &str, headers: &[&str], body: &str) -> Response {
        let token = std::fs::read_to_string(self.path("run/token")).unwrap();
        let auth = format!("Authorization: Bearer {}", token.trim());
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let mut all = vec![host.as_str(), auth.as_str()];
        all.extend(headers);
        self.raw(start, &all, body).await
    }

    /// Sends a raw request over TCP.
    pub(crate) async fn raw(&self, start: &str, headers: &[&str], body: &str) -> Response {
        let length = format!("Content-Length: {}", body.len());
        let mut all = headers.to_vec();
        all.extend([length.as_str(), "Connection: close"]);
        let text = format!("{start} HTTP/1.1\r\n{}\r\n\r\n{body}", all.join("\r\n"));
        self.bytes(text.as_bytes()).await
    }

    /// Sends bytes over TCP and reads the response to its end.
    pub(crate) async fn bytes(&self, bytes: &[u8]) -> Response {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port))
            .await
            .unwrap();
        let _ = stream.write_all(bytes).await; // the daemon may answer before it has read all
        let mut response = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut response)).await;
        let _ = read.expect("a response");
        Response(String::from_utf8_lossy(&response).into_owned())
    }
}

/// The text of a response.
pub(crate) struct Response(pub(crate) String);

impl Response {
    pub(crate) fn status(&self) -> u16 {
        let status = self.0.split_ascii_whitespace().nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn body(&self) -> Value {
        let (_, body) = self.0.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (head, _) = self.0.split_once("\r\n\r\n").unwrap_or((&self.0, ""));
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

pub(crate) async fn next(stream: &mut EventStream) -> Option<StreamEvent> {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    next.expect("an event").unwrap()
}

/// Reads a stream until an event satisfies the condition, or to its end.
pub(crate) async fn read_until(
    stream: &mut EventStream,
    is_last: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(frame) = next(stream).await {
        if frame.event != "message" {
            continue;
        }
        let event: Value = serde_json::from_str(&frame.data).unwrap();
        assert_eq!(frame.id.unwrap(), event["seq"].to_string());
        let is_done = is_last(&event);
        events.push(event);
        if is_done {
            break;
        }
    }
    events
}

/// Checks that the events are numbered from 1 without a gap.
pub(crate) fn assert_complete(events: &[Value]) {
    for (at, event) in (1_u64..).zip(events) {
        assert_eq!(event["seq"], at, "{event}");
    }
}

pub(crate) fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// Returns the cause of a refused request.
pub(crate) fn cause<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Problem(problem)) => problem.cause,
        other => panic!("not a problem: {other:?}"),
    }
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect()
}

pub(crate) fn is_gone(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_err() || stat.unwrap().contains(") Z ")
}

/// A request for a session that can be resumed: the agent has a transcript of it.
pub(crate) fn resumable(rig: &Rig) -> CreateSession {
    let work = rig.path("work").canonicalize().unwrap();
    let folder = work.to_str().unwrap().replace(['/', '.', '_'], "-");
    let folder = rig.path("config/projects").join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("00000000-0000-4000-8000-00000000fa4e.jsonl"),
        "{}\n",
    )
    .unwrap();
    CreateSession {
        labels: labels(&[("config_dir", &rig.path("config").display().to_string())]),
        ..rig.request("echo")
    }
}

/// Opens a session that another process runs, with one event.
pub(crate) async fn foreign(rig: &Rig, id: &str, pid: u32) {
    use ostler_core::log::{Log, NewSession};
    let session = NewSession {
        session: id.to_owned(),
        agent: "claude".to_owned(),
        dir: rig.path("work"),
        at: ostler::event::Timestamp(1),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid,
    };
    rig.store.open(&session).unwrap();
    store_event(rig, id, 1).await;
}

/// Stores an event without the daemon.
pub(crate) async fn store_event(rig: &Rig, id: &str, seq: u64) {
    use ostler_core::log::Log;
    let text = serde_json::json!({"type": "turn_started", "origin": "caller", "prompt": "go",
        "seq": seq, "at": "2026-11-18T00:00:00.000Z", "session": id, "turn": seq});
    let entry = ostler_core::log::LogEntry {
        event: ostler::event::Event::from_json(&text.to_string()).unwrap(),
        raw_offset: 0,
    };
    let entries = std::sync::Arc::new(vec![entry]);
    rig.store.append(entries).await.unwrap();
}
