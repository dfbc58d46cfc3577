//! Test rig: a server, a fake agent with gates, an owner, and workers in this process or in others.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ostler::event::Timestamp;
use ostler::{Agents, Host, Spec};
use ostler_core::log::Log;
use ostler_eval::case::{
    Case, Contender, EvaluatorSpec, Isolation, Source, Suite, TrialLimits, WorkspaceSettings,
};
use ostler_eval::embedder::{AgentRequest, Embedder, PrepareFuture, PreparedAgent};
use ostler_eval::git::Git;
use ostler_eval::place::{Here, Place};
use ostler_eval::plan::{Plan, TrialFilter};
use ostler_eval::registry::Evaluators;
use ostler_eval::run_trial::{TrialOptions, TrialServices};
use ostler_eval::runner::{Observer, RetryPolicy, RunEvent, RunOptions, Runner, create_run};
use ostler_fleet::item::{Offer, WorkKind};
use ostler_fleet::key::MemberKey;
use ostler_fleet::nats::{ConnectSettings, Connection};
use ostler_fleet::owner::{FleetPlace, OwnerOptions};
use ostler_fleet::policy::Policy;
use ostler_fleet::subject::Token;
use ostler_fleet::worker::{Drain, TrialHost, Worker, WorkerOptions};
use ostler_store::{Ledger, Store, TrialRow};
use ostler_testkit::fake;
use ostler_testkit::nats::NatsServer;
use serde_json::json;
use tokio::sync::watch;

/// What the fake agent reports for one answer, in US dollars.
pub(crate) const COST: f64 = 0.0009372;
/// How long a condition may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Returns true if there is a server to test with.
pub(crate) fn has_server(test: &str) -> bool {
    ostler_testkit::machine::can_run(test, &ostler_testkit::nats::need())
}

pub(crate) fn token(text: &str) -> Token {
    text.parse().unwrap()
}

/// A directory that processes share: repository, agent, gates, keys, state.
pub(crate) struct Rig {
    dir: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Rig {
    /// Uses the directory of a rig in another process.
    pub(crate) fn open(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            _own: None,
        }
    }

    pub(crate) fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        let rig = Self {
            dir: own.path().to_owned(),
            _own: Some(own),
        };
        for name in ["repo", "home"] {
            fs::create_dir(rig.path(name)).unwrap();
        }
        fs::write(rig.path("repo/file.txt"), "one\n").unwrap();
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["add", "-A"],
            &["commit", "-q", "-m", "base"],
        ] {
            let status = Command::new("git")
                .args(["-c", "user.name=u", "-c", "user.email=u@localhost"])
                .args(args)
                .current_dir(rig.path("repo"))
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .status();
            assert!(status.unwrap().success());
        }
        let key = MemberKey::generate();
        fs::write(rig.path("owner.key"), key.seed().unwrap()).unwrap();
        let script = "read\ninit\ntext all done\nresult all done\n";
        fs::write(rig.path("agent.script"), script).unwrap();
        // The agent waits at a gate, as long as its worker lives, and keeps its own books.
        let (root, fake) = (rig.dir.display(), fake::program());
        let fake = fake.display();
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in --version|auth) exec {fake} \"$@\";; esac\n\
             echo \"$$\" >> {root}/agents\necho \"$PPID\" >> {root}/started\n\
             while [ -e {root}/hold-agent ]; do kill -0 $PPID || exit; sleep 0.05; done\n\
             echo changed >> file.txt\necho . >> {root}/spent\nexec {fake} \"$@\"\n"
        );
        fs::write(rig.path("agent.sh"), text).unwrap();
        let runnable = PermissionsExt::from_mode(0o755);
        fs::set_permissions(rig.path("agent.sh"), runnable).unwrap();
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Closes a gate: `agent`, before the agent's answer, or `evaluator`, after it.
    pub(crate) fn hold(&self, gate: &str) {
        fs::write(self.path(&format!("hold-{gate}")), "").unwrap();
    }

    pub(crate) fn release(&self, gate: &str) {
        fs::remove_file(self.path(&format!("hold-{gate}"))).unwrap();
    }

    /// Number of copies on the servers, for all processes of the rig.
    fn replicas(&self) -> usize {
        let text = fs::read_to_string(self.path("replicas")).ok();
        text.map_or(1, |text| text.parse().unwrap())
    }

    pub(crate) fn set_replicas(&self, replicas: usize) {
        fs::write(self.path("replicas"), replicas.to_string()).unwrap();
    }

    /// Number of lines of a file.
    pub(crate) fn lines(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().count()
    }

    pub(crate) fn key(&self) -> MemberKey {
        let seed = fs::read_to_string(self.path("owner.key")).unwrap();
        MemberKey::from_seed(&seed).unwrap()
    }

    fn agent(&self, log: Option<Arc<dyn Log>>) -> FakeAgent {
        let vars: [(OsString, OsString); 2] = [
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), self.path("home").into()),
        ];
        let host = Host::new(vars);
        FakeAgent {
            host: match log {
                Some(log) => host.with_log(log),
                None => host,
            },
            program: self.path("agent.sh"),
            script: self.path("agent.script"),
        }
    }

    pub(crate) fn services(
        &self,
        log: Option<Arc<dyn Log>>,
        options: TrialOptions,
    ) -> TrialServices {
        let agent = Arc::new(self.agent(log));
        let host = agent.host();
        TrialServices {
            evaluators: Evaluators::builtin(&host),
            git: Git::new(&host, &self.path("cache")).unwrap(),
            embedder: agent,
            work: self.path("work"),
            projections: Vec::new(),
            options,
        }
    }

    pub(crate) fn case(&self, name: &str, check: &str) -> Case {
        let gate = self.path("hold-evaluator");
        let line = format!(
            "while [ -e {} ]; do kill -0 $PPID || exit; sleep 0.05; done; {check}",
            gate.display()
        );
        let config = json!({"command": ["sh", "-c", line]});
        Case {
            name: name.to_owned(),
            description: None,
            file: self.path("case.yaml"),
            source: Source::Repository {
                url: self.path("repo").to_str().unwrap().to_owned(),
                branch: None,
                commit: None,
            },
            prompt: "Do it.".to_owned(),
            agent: Some(Contender {
                label: "one".to_owned(),
                agent: "claude".to_owned(),
                model: None,
                settings: BTreeMap::new(),
                prompt: None,
                instructions: None,
            }),
            expected: None,
            evaluators: vec![EvaluatorSpec {
                name: "check".to_owned(),
                kind: "command".to_owned(),
                config: config.as_object().unwrap().clone(),
                weight: 1.0,
                required: true,
            }],
            pre_execution: Vec::new(),
            post_evaluation: Vec::new(),
            limits: TrialLimits {
                timeout: Some(Duration::from_secs(300)),
                ..TrialLimits::default()
            },
            mounts: None,
            workspace: WorkspaceSettings::default(),
            exports: Vec::new(),
        }
    }

    /// One case that passes.
    pub(crate) fn plain_suite(&self, repetitions: u32) -> Suite {
        self.suite(
            vec![self.case("case", "grep -q changed file.txt")],
            repetitions,
        )
    }

    pub(crate) fn suite(&self, cases: Vec<Case>, repetitions: u32) -> Suite {
        Suite {
            name: "suite".to_owned(),
            cases,
            contenders: Vec::new(),
            repetitions,
            jobs: None,
            budget_usd: None,
            seed: 1,
            isolation: None,
        }
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.path("state")).unwrap())
    }

    /// Creates a run, unless it exists, and a runner for it in this process.
    pub(crate) fn runner(&self, run: &str, suite: &Suite, place: Arc<dyn Place>) -> Runner {
        let store = self.store();
        let plan = Plan::new(suite, &TrialFilter::new::<&str>(&[]).unwrap()).unwrap();
        let artifacts = self.path("artifacts").join(run);
        let ledger = Ledger::new(&store);
        if ledger.run(run).unwrap().is_none() {
            let terms = (suite.budget_usd, now());
            create_run(&store, run, &plan, artifacts.clone(), terms).unwrap();
        }
        let is_remote = place.is_remote();
        let options = TrialOptions {
            isolation: Some(Isolation::Directory),
            ..TrialOptions::default()
        };
        let log: Arc<dyn Log> = store.clone();
        Runner {
            services: self.services(Some(log), options),
            store,
            run: run.to_owned(),
            artifacts,
            cases: plan.match_cases(suite).unwrap(),
            contenders: plan.contenders,
            place,
            options: RunOptions {
                jobs: if is_remote { u32::MAX } else { 2 },
                fail_fast: false,
                retry: RetryPolicy {
                    max_retries: 2,
                    delay: Duration::ZERO,
                    max_delay: Duration::ZERO,
                    max_losses: 5,
                },
                heartbeat: Duration::from_millis(200),
                lease: PATIENCE,
                late_grace: PATIENCE,
                worker: ostler_store::Worker {
                    name: "fleet".to_owned(),
                    pid: (!is_remote).then(std::process::id),
                },
            },
            observer: Arc::new(Collected::default()),
        }
    }

    pub(crate) async fn connect(&self, url: &str, member: &str) -> Connection {
        let settings = ConnectSettings {
            url: url.to_owned(),
            member: token(member),
            key: None,
            credentials: None,
            authority: None,
            require_tls: false,
            api: None,
        };
        patiently(|| Connection::open(&settings)).await
    }

    pub(crate) async fn place(&self, url: &str, run: &str, lease: Duration) -> Arc<FleetPlace> {
        let connection = self.connect(url, "owner").await;
        self.place_on(connection, self.key(), run, lease).await
    }

    /// Opens the place of a run on a connection of the owner, who signs with this key.
    pub(crate) async fn place_on(
        &self,
        connection: Connection,
        key: MemberKey,
        run: &str,
        lease: Duration,
    ) -> Arc<FleetPlace> {
        let key = Arc::new(key);
        let place = patiently(|| {
            let options = OwnerOptions {
                name: token("owner"),
                key: key.clone(),
                run: token(run),
                lease,
                labels: BTreeSet::new(),
                replicas: self.replicas(),
            };
            FleetPlace::open(connection.clone(), options, self.store(), now)
        });
        Arc::new(place.await)
    }

    pub(crate) fn worker_options(&self, name: &str) -> WorkerOptions {
        WorkerOptions {
            name: token(name),
            capacity: 1,
            offer: Offer {
                kinds: BTreeSet::from([WorkKind::Trial, WorkKind::Session]),
                agents: BTreeMap::from([("claude".to_owned(), None)]),
                labels: BTreeSet::new(),
                isolation: BTreeSet::from([Isolation::Directory]),
            },
            logins: BTreeMap::from([("claude".to_owned(), "ready".to_owned())]),
            policy: Policy::default(),
            trusted: BTreeSet::from([self.key().public()]),
            state: self.path("workers").join(name),
            max_jobs: None,
            heartbeat: Duration::from_millis(200),
            replicas: self.replicas(),
            delivery_grace: PATIENCE,
        }
    }

    /// Starts a worker in this process.
    pub(crate) async fn worker(&self, url: &str, options: WorkerOptions) -> RunningWorker {
        let connection = self.connect(url, options.name.as_str()).await;
        self.worker_on(connection, options)
    }

    /// Starts a worker in this process, on a connection of it.
    pub(crate) fn worker_on(
        &self,
        connection: Connection,
        options: WorkerOptions,
    ) -> RunningWorker {
        let (drain, draining) = watch::channel(Drain::No);
        let host = Arc::new(RigHost(Rig::open(&self.dir)));
        let worker = Worker::new(connection, options, host, draining).unwrap();
        RunningWorker {
            drain,
            task: tokio::spawn(worker.run()),
        }
    }

    /// Starts a part of the fleet in another process: a test of this binary with that name.
    pub(crate) fn process(&self, role: &str, server: &NatsServer, argument: &str) -> Process {
        self.process_at(&format!("failures::{role}"), &server.url(), argument)
    }

    /// Starts a part of the fleet in another process: a test of this binary with that path.
    pub(crate) fn process_at(&self, role: &str, url: &str, argument: &str) -> Process {
        self.process_in(&[], role, url, argument)
    }

    /// Starts a part of the fleet with a command that runs another one.
    pub(crate) fn process_in(
        &self,
        enter: &[String],
        role: &str,
        url: &str,
        argument: &str,
    ) -> Process {
        let own = std::env::current_exe().unwrap();
        let mut command = match enter.split_first() {
            Some((program, args)) => {
                let mut command = Command::new(program);
                command.args(args).arg(own);
                command
            }
            None => Command::new(own),
        };
        // A process that outlives the test does not hold the test's own output.
        let log = self.path(&format!("{role}-{argument}.log").replace(':', "_"));
        let output = fs::File::create(&log).unwrap();
        let child = command
            .args(["--exact", role, "--nocapture"])
            .env(DIRECTORY, &self.dir)
            .env(SERVER, url)
            .env(ARGUMENT, argument)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn();
        Process(child.unwrap(), log)
    }
}

/// Variables of another process.
pub(crate) const DIRECTORY: &str = "FLEET_TEST_RIG";
pub(crate) const SERVER: &str = "FLEET_TEST_SERVER";
pub(crate) const ARGUMENT: &str = "FLEET_TEST_ARGUMENT";

/// Another process and its log, which a test that fails prints. It is killed on drop.
pub(crate) struct Process(pub(crate) Child, PathBuf);

impl Process {
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill(); // SIGKILL; it may have ended
        let _ = self.0.wait();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.0.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    #[expect(
        clippy::print_stderr,
        reason = "the log belongs to the output of a test that fails"
    )]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.1).unwrap_or_default();
            eprintln!("{}:\n{log}", self.1.display());
        }
    }
}

/// A worker in this process.
pub(crate) struct RunningWorker {
    pub(crate) drain: watch::Sender<Drain>,
    pub(crate) task: tokio::task::JoinHandle<Result<u64, ostler_fleet::worker::WorkerError>>,
}

impl RunningWorker {
    /// Lets it finish. Returns the number of its attempts.
    pub(crate) async fn finish(self) -> u64 {
        self.drain.send_replace(Drain::Finish);
        self.task.await.unwrap().unwrap()
    }
}

/// The program around a worker.
pub(crate) struct RigHost(pub(crate) Rig);

impl TrialHost for RigHost {
    fn services(&self, log: Arc<dyn Log>, options: TrialOptions) -> Result<TrialServices, String> {
        Ok(self.0.services(Some(log), options))
    }

    fn now(&self) -> Timestamp {
        now()
    }
}

struct FakeAgent {
    host: Host,
    program: PathBuf,
    script: PathBuf,
}

impl Embedder for FakeAgent {
    fn prepare<'a>(&'a self, request: &'a AgentRequest) -> PrepareFuture<'a> {
        Box::pin(async {
            let mut spec = Spec::new(&request.prompt).program(&self.program);
            let script = self.script.to_str().unwrap().to_owned();
            spec.env.insert(fake::SCRIPT.to_owned(), script);
            Ok(PreparedAgent {
                agent: Agents::builtin().get(&request.contender.agent).unwrap(),
                host: self.host.clone(),
                spec,
            })
        })
    }

    fn host(&self) -> Host {
        self.host.clone()
    }

    fn now(&self) -> Timestamp {
        now()
    }
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(i64::try_from(since.unwrap().as_millis()).unwrap())
}

/// Collects the events of a run.
#[derive(Default)]
pub(crate) struct Collected(Mutex<Vec<RunEvent>>);

impl Collected {
    /// Returns the messages about trials that wait.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let waiting = events.iter().filter_map(|event| match event {
            RunEvent::Waiting(why) => Some(why.clone()),
            _ => None,
        });
        waiting.collect()
    }
}

impl Observer for Collected {
    fn on(&self, event: RunEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// Tries something until it succeeds: a busy server answers late.
pub(crate) async fn patiently<T, E, F>(mut attempt: impl FnMut() -> F) -> T
where
    E: std::fmt::Display,
    F: Future<Output = Result<T, E>>,
{
    let begin = std::time::Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Place on this machine.
pub(crate) fn here() -> Arc<dyn Place> {
    Arc::new(Here)
}

/// Checks the books of a run: each trial accepted once, each session's events without a gap and
/// each once, and the ledger's sum equal to the agent's own books.
pub(crate) fn check_books(rig: &Rig, run: &str) -> Vec<TrialRow> {
    let store = rig.store();
    let ledger = Ledger::new(&store);
    let trials = ledger.trials(run).unwrap();
    let mut answers = 0_u32;
    for trial in &trials {
        let accepted = trial.attempts.iter();
        let accepted = accepted.filter(|it| it.state == ostler_store::AttemptState::Accepted);
        assert_eq!(accepted.count(), 1, "{trial:?}");
        for attempt in &trial.attempts {
            let Some(session) = &attempt.session else {
                continue;
            };
            let events = store.read(session, 0, usize::MAX).unwrap();
            let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
            let expected: Vec<u64> = (1..=u64::try_from(events.len()).unwrap()).collect();
            assert_eq!(numbers, expected, "{attempt:?}");
            if attempt.state == ostler_store::AttemptState::Accepted {
                check_events(trial, &events);
            }
            if let Some(cost) = attempt.usage.as_ref().and_then(|usage| usage.cost_usd) {
                assert!((cost - COST).abs() < 1e-9, "{attempt:?}");
                answers += 1;
            }
        }
    }
    assert_eq!(
        usize::try_from(answers).unwrap(),
        rig.lines("spent"),
        "{trials:?}"
    );
    let cost = ledger.run(run).unwrap().unwrap().cost_usd.unwrap();
    assert!((cost - f64::from(answers) * COST).abs() < 1e-9);
    trials
}

/// Compares the stored events of a trial with those that its worker wrote to the artifacts.
pub(crate) fn check_events(trial: &TrialRow, stored: &[ostler::Event]) {
    let result = trial.result.as_deref().unwrap();
    let result: ostler_eval::trial::TrialResult = serde_json::from_str(result).unwrap();
    let written = fs::read_to_string(result.artifacts.join("events.jsonl")).unwrap();
    let stored: String = stored.iter().map(|it| it.to_json() + "\n").collect();
    assert_eq!(stored, written);
}
