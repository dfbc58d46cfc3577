//! Contenders: Ostler's programs, the floor, the prototype and other SDKs, built or installed here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::report::Report;
use crate::workspace;

pub(super) const OSTLER: &str = "Ostler";
pub(super) const GUARD: &str = "with guard";
pub(super) const STORE: &str = "with store";
pub(super) const FLOOR: &str = "floor";
pub(super) const PROTOTYPE: &str = "prototype";

/// Other SDKs: package and column.
pub(super) const PEERS: [&str; 4] = ["claude-codes", "cc-sdk", "Node SDK", "Python SDK"];

/// All columns of the table.
pub(super) const ALL: [&str; 9] = [
    OSTLER, GUARD, STORE, FLOOR, PROTOTYPE, PEERS[0], PEERS[1], PEERS[2], PEERS[3],
];

/// Everything that a measurement needs.
pub(super) struct Bench {
    /// Folder with the agents.
    pub(super) dir: PathBuf,
    sessions: PathBuf,
    /// A small program with the library, without its features.
    cold: PathBuf,
    ostler: PathBuf,
    pub(super) contenders: Vec<Contender>,
}

/// A program that takes part, started as `PROGRAM BEFORE… ROW DIR RUNS AFTER…`.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) measurements: &'static [&'static str],
    program: PathBuf,
    before: Vec<String>,
    after: Vec<String>,
}

/// Measurements that an SDK without a program takes part in.
const SDK: &[&str] = &["cold", "warm", "mixed", "latency"];

/// Builds and installs everything. A contender that cannot be installed is left out.
pub(super) fn prepare(dir: PathBuf, profile: Option<&str>, report: &mut Report) -> Result<Bench> {
    let profile = profile.unwrap_or("release");
    let [sessions, ostler] = build(profile, &PROGRAMS, ["sessions", "ostler"])?;
    let [cold] = build(profile, &SMALL_PROGRAM, ["cold"])?;
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("store") {
            std::fs::remove_dir_all(entry.path())?; // of an earlier run
        }
    }
    let own = |name, option: &str, measurements| Contender {
        name,
        measurements,
        program: sessions.clone(),
        before: Vec::new(),
        after: vec![option.to_owned()],
    };
    let mut contenders = vec![
        own(
            OSTLER,
            "plain",
            &[
                "cold",
                "cold-full",
                "run",
                "crowded-cold",
                "crowded-run",
                "warm",
                "mixed",
                "program",
                "decode",
                "latency",
                "idle",
                "many",
            ],
        ),
        own(
            GUARD,
            "guard",
            &["cold", "cold-full", "crowded-cold", "idle", "many"],
        ),
        own(
            STORE,
            "store",
            &["cold-full", "run", "crowded-run", "warm", "latency"],
        ),
        own(
            FLOOR,
            "floor",
            &["cold", "run", "crowded-run", "warm", "mixed", "latency"],
        ),
    ];
    let peers = [install_rust(&dir), install_node(&dir), install_python(&dir)];
    let packages = ["cargo packages", "Node SDK", "Python SDK"];
    for (installed, package) in peers.into_iter().zip(packages) {
        match installed {
            Ok(more) => contenders.extend(more),
            Err(error) => {
                eprintln!("left out: {package}: {error:#}");
                report.left_out.push(format!("{package}: {error:#}"));
            }
        }
    }
    report.versions = versions(&dir);
    Ok(Bench {
        dir,
        sessions,
        cold,
        ostler,
        contenders,
    })
}

impl Bench {
    /// Returns the command of one measurement.
    pub(super) fn command(&self, contender: &Contender, measurement: &str, runs: usize) -> Command {
        let row = measurement.trim_start_matches("crowded-");
        match (row, contender.name) {
            ("run", FLOOR) => self.script("short"),
            ("run", name) => self.run(if name == STORE { Some("store") } else { None }, "short"),
            ("program", _) => self.run(None, "mixed"),
            _ => {
                let is_own = contender.program == self.sessions;
                let program = match row {
                    "cold" if is_own => &self.cold,
                    _ => &contender.program,
                };
                let row = row.trim_end_matches("-full");
                let mut command = Command::new(program);
                command.args(&contender.before).arg(row).arg(&self.dir);
                command.arg(runs.to_string()).args(&contender.after);
                command.stdin(Stdio::null());
                command
            }
        }
    }

    /// Returns a command of Ostler's side: `sessions ROW DIR RUNS OPTION…`.
    pub(super) fn sessions(&self, row: &str, runs: usize, options: &[&str]) -> Command {
        let mut command = Command::new(&self.sessions);
        command.arg(row).arg(&self.dir).arg(runs.to_string());
        command.args(options).stdin(Stdio::null());
        command
    }

    /// Returns `ostler run` with an agent, with the store of that name or without one.
    pub(super) fn run(&self, store: Option<&str>, agent: &str) -> Command {
        let mut command = self.ostler();
        command.args(["run", "--agent", "claude", "--output", "events"]);
        command.arg("--program").arg(self.dir.join(agent));
        command.args(store.is_none().then_some("--no-store"));
        command.arg("hello").current_dir(&self.dir);
        command.env("OSTLER_STATE_DIR", self.dir.join(store.unwrap_or("store")));
        command.stdout(Stdio::null());
        command
    }

    /// Returns `ostler` in an environment without the user's settings.
    pub(super) fn ostler(&self) -> Command {
        let mut command = Command::new(&self.ostler);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", &self.dir).stdin(Stdio::null());
        command
    }

    /// Returns an agent on its own.
    pub(super) fn script(&self, agent: &str) -> Command {
        let mut command = Command::new(self.dir.join(agent));
        let prompt = File::open(self.dir.join("prompt.jsonl"));
        command.stdin(prompt.map_or_else(|_| Stdio::null(), Stdio::from));
        command.stdout(Stdio::null());
        command
    }
}

/// Arguments of cargo for Ostler's side of the benchmark, and for the program `ostler`.
pub(super) const PROGRAMS: [&str; 6] = [
    "--package",
    "ostler-cli",
    "--bench",
    "sessions",
    "--bin",
    "ostler",
];

/// Arguments of cargo for a small program with the library.
const SMALL_PROGRAM: [&str; 5] = [
    "--package",
    "ostler",
    "--no-default-features",
    "--bench",
    "cold",
];

/// Builds programs of Ostler, and returns the paths of those with these names.
pub(super) fn build<const N: usize>(
    profile: &str,
    arguments: &[&str],
    names: [&str; N],
) -> Result<[PathBuf; N]> {
    let output = workspace::cargo()
        .args(["build", "--profile", profile])
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let built: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let find = |name: &str| {
        let mut named = built.iter().filter(|line| line["target"]["name"] == name);
        let path = named.find_map(|line| line["executable"].as_str());
        path.map(PathBuf::from)
            .with_context(|| format!("{name} does not build"))
    };
    let found: Vec<PathBuf> = names.into_iter().map(find).collect::<Result<_>>()?;
    found
        .try_into()
        .map_err(|_| anyhow!("a program is missing"))
}

/// Installs the Rust peers, and the prototype beside them.
fn install_rust(dir: &Path) -> Result<Vec<Contender>> {
    let target = dir.join("peers");
    let mut command = workspace::cargo();
    command.args(["build", "--quiet", "--release", "--locked"]);
    command.args(["--manifest-path", "xtask/bench/peers/Cargo.toml"]);
    succeed(command.arg("--target-dir").arg(&target))?;
    let peer = |name, program: &str, measurements| Contender {
        name,
        measurements,
        program: target.join("release").join(program),
        before: Vec::new(),
        after: Vec::new(),
    };
    let decodes: &[&str] = &["cold", "warm", "mixed", "latency", "decode", "idle"];
    Ok(vec![
        peer(PROTOTYPE, "prototype", decodes),
        peer(PEERS[0], "claude-codes", decodes),
        peer(PEERS[1], "cc-sdk", SDK),
    ])
}

fn install_node(dir: &Path) -> Result<Vec<Contender>> {
    let node = dir.join("node");
    let sdk = node.join(NODE_SDK).join("sdk.mjs");
    if !sdk.exists() {
        std::fs::create_dir_all(&node)?;
        std::fs::write(node.join("package.json"), "{}")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.arg("@anthropic-ai/claude-agent-sdk");
        succeed(npm.current_dir(node))?;
    }
    Ok(vec![Contender {
        name: PEERS[2],
        measurements: SDK,
        program: "node".into(),
        before: vec![source("peer.mjs")],
        after: vec![sdk.display().to_string()],
    }])
}

const NODE_SDK: &str = "node_modules/@anthropic-ai/claude-agent-sdk";

fn install_python(dir: &Path) -> Result<Vec<Contender>> {
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    if !venv.join("installed").exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let install = ["-m", "pip", "install", "--quiet", "claude-agent-sdk"];
        succeed(Command::new(&python).args(install))?;
        std::fs::write(venv.join("installed"), "")?;
    }
    Ok(vec![Contender {
        name: PEERS[3],
        measurements: SDK,
        program: python,
        before: vec![source("peer.py")],
        after: Vec::new(),
    }])
}

fn source(name: &str) -> String {
    let path = workspace::root().join("xtask/bench").join(name);
    path.display().to_string()
}

/// Returns the versions of the installed SDKs, as far as they are known.
fn versions(dir: &Path) -> Vec<String> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let lock = read(workspace::root().join("xtask/bench/peers/Cargo.lock"));
    let cargo = |name: &str| {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(format!("{name} {}", rest.split('"').next()?))
    };
    let node = read(dir.join("node").join(NODE_SDK).join("package.json"));
    let node = serde_json::from_str::<serde_json::Value>(&node).ok();
    let node = node.and_then(|it| Some(format!("Node SDK {}", it["version"].as_str()?)));
    let python = Command::new(dir.join("venv/bin/python"))
        .args(["-c", "import claude_agent_sdk as it; print(it.__version__)"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success());
    let python = python.map(|output| {
        let version = String::from_utf8_lossy(&output.stdout);
        format!("Python SDK {}", version.trim())
    });
    let known = [cargo("claude-codes"), cargo("cc-sdk"), node, python];
    known.into_iter().flatten().collect()
}

/// Runs a command without its stdout, and fails if it does.
pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdout(Stdio::null()).status();
    if !status.with_context(|| program.clone())?.success() {
        bail!("{program} failed");
    }
    Ok(())
}
