//! Test environment of a scenario: a home, a working directory and a model server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use super::{PATIENCE, Subject};
use crate::harness::{self, StandIn};
use crate::model::{ModelServer, Request, Script};
use crate::processes::{alive, wait_until};

/// A home, a working directory and a scripted model, all removed on drop.
#[derive(Debug)]
pub struct TestEnv {
    /// The model server.
    pub server: ModelServer,
    /// The agent under test.
    pub subject: &'static Subject,
    root: PathBuf,
    host: Vec<(String, String)>,
    /// Program started instead of the agent.
    stand_in: Option<StandIn>,
    _dir: tempfile::TempDir,
}

impl TestEnv {
    /// Creates an environment in which the model follows `script`.
    #[must_use]
    pub fn new(subject: &'static Subject, script: Script) -> Self {
        let dir = tempfile::tempdir().expect("create the test's directory");
        let root = dir
            .path()
            .canonicalize()
            .expect("resolve the test's directory");
        for name in ["home", "work"] {
            fs::create_dir(root.join(name)).expect("create a directory");
        }
        subject.prepare(&root.join("work"));
        let script = subject
            .quirks
            .side_requests
            .iter()
            .fold(script, |script, part| script.side_calls(part));
        let server = ModelServer::start(script);
        let host = subject.host(&root.join("home"), &server.base_url());
        let address = server.base_url().trim_start_matches("http://").to_owned();
        let stand_in = harness::stand_in(subject.pinned(), &root, &address);
        Self {
            server,
            subject,
            root,
            host,
            stand_in,
            _dir: dir,
        }
    }

    /// Returns the agent's program; `None` for an agent that is part of Ostler.
    #[must_use]
    pub fn program(&self) -> Option<PathBuf> {
        let stand_in = self.stand_in.as_ref().map(|it| it.program.clone());
        stand_in.or_else(|| self.subject.program())
    }

    /// Returns true if a recording is replayed: the model is never called, and no tool runs.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.stand_in.as_ref().is_some_and(|it| it.replay.is_some())
    }

    /// Returns true if a recording is replayed, so that checks of the model, of tools or of the
    /// agent itself must be skipped. The row of the conformance suite says so
    /// ([`super::conformance::ReplayCoverage`]).
    #[must_use]
    pub fn skips_live_checks(&self) -> bool {
        let replay = self.stand_in.as_ref().and_then(|it| it.replay.as_ref());
        replay
            .inspect(|skipped_checks| skipped_checks.store(true, Ordering::Relaxed))
            .is_some()
    }

    /// Sets a variable in the environment in which Ostler runs.
    #[must_use]
    pub fn with_host(mut self, name: &str, value: &str) -> Self {
        self.host.retain(|(known, _)| known != name);
        self.host.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a variable from the environment in which Ostler runs.
    #[must_use]
    pub fn without_host(mut self, name: &str) -> Self {
        self.host.retain(|(known, _)| known != name);
        self
    }

    /// Returns the environment in which Ostler runs.
    #[must_use]
    pub fn host(&self) -> &[(String, String)] {
        &self.host
    }

    /// Replaces the model's script, for one that names files of this environment.
    #[must_use]
    pub fn with_script(self, script: Script) -> Self {
        let side_requests = &self.subject.quirks.side_requests;
        self.server.set_script(
            side_requests
                .iter()
                .fold(script, |script, part| script.side_calls(part)),
        );
        self
    }

    /// Returns the agent's working directory.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Returns the path of a test file outside the agent's working directory.
    #[must_use]
    pub fn outside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the only model call.
    ///
    /// # Panics
    /// If there was none, or more than one.
    #[must_use]
    pub fn only_call(&self) -> Request {
        let mut calls = self.server.requests();
        assert_eq!(calls.len(), 1, "expected one model call");
        calls.remove(0)
    }

    /// Waits until the model was called `count` times.
    ///
    /// # Panics
    /// If that does not happen.
    pub fn wait_for_calls(&self, count: usize) {
        if self.skips_live_checks() {
            return;
        }
        assert!(
            self.server.wait_for_requests(count, PATIENCE),
            "the agent never made call {count}"
        );
    }

    /// Waits until a tool of the agent has created a file, and returns its content.
    ///
    /// # Panics
    /// If that does not happen.
    #[must_use]
    pub fn wait_for_file(&self, name: &str) -> String {
        let path = self.work().join(name);
        let mut text = String::new();
        if self.skips_live_checks() {
            return text;
        }
        let is_found = wait_until(PATIENCE, || {
            text = fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n')
        });
        assert!(is_found, "the agent never wrote {name}");
        text
    }

    /// Waits for the agent's process and returns its pid.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn agent(&self) -> u32 {
        let replay = self
            .stand_in
            .as_ref()
            .filter(|it| it.replay.is_some())
            .map(|it| it.program.clone());
        let program = replay.or_else(|| self.subject.program());
        let program = program.expect("an agent with its own process");
        let program = program.canonicalize().expect("resolve the agent's program");
        // A script is the first non-flag argument of its interpreter.
        let script = |pid: &u32| -> Option<PathBuf> {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let mut args = line.split(|byte| *byte == 0).skip(1);
            let script = args.find(|arg| !arg.starts_with(b"-"))?;
            Path::new(std::str::from_utf8(script).ok()?)
                .canonicalize()
                .ok()
        };
        // A script may also replace its command line with its name.
        let is_titled = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                line.split(|byte| *byte == 0).next() == Some(self.subject.name.as_bytes())
            })
        };
        let runs_it = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
                || script(pid).is_some_and(|script| script == program)
                || is_titled(pid)
        };
        let mut found = None;
        let is_found = wait_until(PATIENCE, || {
            found = self
                .processes()
                .into_iter()
                .map(|(pid, _)| pid)
                .filter(runs_it)
                .min();
            found.is_some()
        });
        assert!(is_found, "the agent was never started");
        found.unwrap_or_default()
    }

    /// Returns every process of this environment: its variables, its directory or its command line
    /// contains the path.
    #[must_use]
    pub fn processes(&self) -> Vec<(u32, String)> {
        let own_pid = std::process::id();
        let entries = fs::read_dir("/proc").expect("read /proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != own_pid && self.owns_process(*pid) && alive(*pid))
            .map(|pid| (pid, command(pid)))
            .collect()
    }

    /// Waits until no process of this environment is left.
    ///
    /// # Panics
    /// If one remains.
    pub fn wait_until_empty(&self, limit: Duration) {
        assert!(
            wait_until(limit, || self.processes().is_empty()),
            "left after {limit:?}: {:?}",
            self.processes()
        );
    }

    fn owns_process(&self, pid: u32) -> bool {
        let needle = self.root.as_os_str().as_encoded_bytes();
        let holds = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        let at = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
        fs::read_link(at("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.root))
            || ["environ", "cmdline"]
                .iter()
                .any(|name| fs::read(at(name)).is_ok_and(|bytes| holds(&bytes)))
    }
}

/// Sends a signal to a process.
///
/// # Panics
/// If the process does not exist.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process number");
    kill_process(pid, signal).expect("signal a process");
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}
