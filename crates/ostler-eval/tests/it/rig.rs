//! Test rig: a repository, a fake agent that first runs a shell script, and a runner.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ostler::event::Timestamp;
use ostler::{Agents, Host, Spec};
use ostler_eval::case::{Case, Contender, EvaluatorSpec, Source, Suite, TrialLimits};
use ostler_eval::embedder::{AgentRequest, Embedder, PrepareFuture, PreparedAgent};
use ostler_eval::git::Git;
use ostler_eval::plan::{Plan, TrialFilter};
use ostler_eval::registry::Evaluators;
use ostler_eval::run_trial::{
    Attempt, Phase, TrialHooks, TrialOptions, TrialRequest, TrialServices, run_trial,
};
use ostler_eval::runner::{Observer, RetryPolicy, RunEvent, RunOptions, Runner, create_run};
use ostler_store::{Store, Worker};
use ostler_testkit::fake;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A script of the fake agent that answers once.
pub(crate) const ANSWER: &str = "read\ninit\ntext all done\nresult all done\n";

/// What the fake agent reports for one answer, in US dollars.
pub(crate) const COST: f64 = 0.0009372;

/// A directory with a repository and a fake agent.
pub(crate) struct Rig {
    dir: PathBuf,
    /// Removed on drop; `None` if it belongs to another process.
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
        for name in ["repo", "bin", "home"] {
            fs::create_dir(rig.path(name)).unwrap();
        }
        let repo = rig.path("repo");
        fs::write(repo.join("file.txt"), "one\n").unwrap();
        fs::write(repo.join(".gitignore"), "target/\n").unwrap();
        rig.git(&["init", "-q", "-b", "main"]);
        rig.commit("base");
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=u", "-c", "user.email=u@localhost"])
            .args(args)
            .current_dir(self.path("repo"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn program(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Installs the agent: it runs `shell` in the workspace and then plays `script`.
    pub(crate) fn agent(&self, shell: &str, script: &str) -> FakeAgent {
        let script_file = fake::script(&self.dir, script);
        let name = script_file
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        self.agent_with(shell, &name, script)
    }

    /// Like [`Rig::agent`], with a fixed name of the script's file.
    pub(crate) fn agent_with(&self, shell: &str, name: &str, script: &str) -> FakeAgent {
        let script_file = self.path(name);
        if !script_file.exists() {
            fs::write(&script_file, script).unwrap();
        }
        let program = self.path("agent.sh");
        let fake = fake::program();
        let fake = fake.display();
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in --version|auth) exec {fake} \"$@\";; esac\n{shell}\n\
             exec {fake} \"$@\"\n"
        );
        // Another process may be running it.
        if fs::read_to_string(&program).ok().as_deref() != Some(&text) {
            let draft = self.path("agent.draft");
            self.program(&draft, &text);
            fs::rename(&draft, &program).unwrap();
        }
        FakeAgent {
            host: self.host(),
            program,
            env: BTreeMap::from([(
                fake::SCRIPT.to_owned(),
                script_file.to_str().unwrap().to_owned(),
            )]),
        }
    }

    pub(crate) fn host(&self) -> Host {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            self.path("bin").display()
        );
        let vars: [(OsString, OsString); 3] = [
            ("PATH".into(), path.into()),
            ("HOME".into(), self.path("home").into()),
            ("SOME_SECRET".into(), "hush".into()),
        ];
        Host::new(vars)
    }

    pub(crate) fn case(&self, evaluators: Vec<EvaluatorSpec>) -> Case {
        Case {
            name: "case".to_owned(),
            description: None,
            file: self.path("case.yaml"),
            source: Source::Repository {
                url: self.path("repo").to_str().unwrap().to_owned(),
                branch: None,
                commit: None,
            },
            prompt: "Do it.".to_owned(),
            agent: Some(contender("one")),
            expected: None,
            evaluators,
            pre_execution: Vec::new(),
            post_evaluation: Vec::new(),
            limits: TrialLimits {
                timeout: Some(Duration::from_secs(120)),
                ..TrialLimits::default()
            },
            mounts: None,
            workspace: Default::default(),
            exports: Vec::new(),
        }
    }

    pub(crate) fn services(&self, embedder: Arc<dyn Embedder>) -> TrialServices {
        let host = embedder.host();
        TrialServices {
            evaluators: Evaluators::builtin(&host),
            git: Git::new(&host, &self.path("cache")).unwrap(),
            embedder,
            work: self.path("work"),
            projections: Vec::new(),
            options: TrialOptions::default(),
        }
    }

    pub(crate) fn request(&self, case: Case) -> TrialRequest {
        TrialRequest {
            run: "run".to_owned(),
            contender: case.agent.clone().unwrap(),
            case: Arc::new(case),
            repetition: 1,
            attempt: 1,
            artifacts: self.path("artifacts"),
            cap_usd: None,
        }
    }

    /// Runs one trial.
    pub(crate) async fn trial(&self, agent: FakeAgent, case: Case) -> Attempt {
        let services = self.services(Arc::new(agent));
        self.trial_with(&services, case).await
    }

    pub(crate) async fn trial_with(&self, services: &TrialServices, case: Case) -> Attempt {
        let (_stop, cancelled) = watch::channel(false);
        let hooks = TrialHooks {
            on_phase: &|_: Phase| {},
            on_usage: &|_, _| {},
            cancelled,
        };
        run_trial(&self.request(case), services, hooks).await
    }

    pub(crate) fn diff(&self) -> String {
        let bytes = fs::read(self.path("artifacts/diff.patch")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.path("state")).unwrap())
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

    /// Creates a run named `run`, unless it exists, and a runner for it.
    pub(crate) fn runner(
        &self,
        embedder: Arc<dyn Embedder>,
        suite: &Suite,
        observer: Arc<dyn Observer>,
    ) -> Runner {
        let store = self.store();
        let plan = Plan::new(suite, &TrialFilter::new::<&str>(&[]).unwrap()).unwrap();
        let artifacts = self.path("artifacts");
        let ledger = ostler_store::Ledger::new(&store);
        if ledger.run("run").unwrap().is_none() {
            let terms = (suite.budget_usd, embedder.now());
            create_run(&store, "run", &plan, artifacts.clone(), terms).unwrap();
        }
        Runner {
            store,
            services: self.services(embedder),
            run: "run".to_owned(),
            artifacts,
            cases: plan.match_cases(suite).unwrap(),
            contenders: plan.contenders,
            place: Arc::new(ostler_eval::place::Here),
            options: options(),
            observer,
        }
    }
}

pub(crate) fn options() -> RunOptions {
    RunOptions {
        jobs: 2,
        fail_fast: false,
        retry: RetryPolicy {
            max_retries: 2,
            delay: Duration::ZERO,
            max_delay: Duration::ZERO,
            max_losses: 5,
        },
        heartbeat: Duration::from_millis(100),
        lease: Duration::from_secs(60),
        late_grace: Duration::ZERO,
        worker: Worker {
            name: "test".to_owned(),
            pid: Some(std::process::id()),
        },
    }
}

pub(crate) fn contender(label: &str) -> Contender {
    Contender {
        label: label.to_owned(),
        agent: "claude".to_owned(),
        model: None,
        settings: BTreeMap::new(),
        prompt: None,
        instructions: None,
    }
}

pub(crate) fn evaluator(kind: &str, config: Value) -> EvaluatorSpec {
    let Value::Object(config) = config else {
        panic!("a configuration is an object: {config}");
    };
    EvaluatorSpec {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        config,
        weight: 1.0,
        required: true,
    }
}

/// An evaluator that passes if the shell line succeeds in a copy of the workspace.
pub(crate) fn shell(line: &str) -> EvaluatorSpec {
    evaluator("command", json!({"command": ["sh", "-c", line]}))
}

/// The embedder of tests: a fake agent.
#[derive(Clone)]
pub(crate) struct FakeAgent {
    pub(crate) host: Host,
    pub(crate) program: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
}

impl Embedder for FakeAgent {
    fn prepare<'a>(&'a self, request: &'a AgentRequest) -> PrepareFuture<'a> {
        Box::pin(async {
            let mut spec = Spec::new(&request.prompt).program(&self.program);
            spec.env = self.env.clone();
            for (key, value) in &request.contender.settings {
                spec.set(key, [value.as_str().unwrap()]).unwrap();
            }
            if request.contender.agent != "claude" {
                spec.program = None;
                spec.env.clear();
            }
            spec.model.clone_from(&request.contender.model);
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
pub(crate) struct Collected(pub(crate) Mutex<Vec<RunEvent>>);

impl Observer for Collected {
    fn on(&self, event: RunEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Collected {
    pub(crate) fn count(&self, is: impl Fn(&RunEvent) -> bool) -> usize {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|event| is(event))
            .count()
    }
}
