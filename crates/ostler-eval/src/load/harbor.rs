//! Harbor task directories as cases, without an image.
//!
//! A task runs in a private root on this machine. Whatever would need an image, a container or a
//! special machine is refused by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::near::suggestion;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::files::{FileError, MAX_FILE, read_below, read_named};
use super::parse::{Format, parse};
use super::section::{Findings, Section};
use super::tree::{Data, Position, ProblemCode, Problems, table_to_json};
use super::variables::expand;
use super::{LoadOptions, slug};
use crate::case::{Case, EvaluatorSpec, PrivateRoot, Source, TrialLimits, WorkspaceSettings};

mod dockerfile;

pub use dockerfile::{DockerfileFault, Image, is_plain_image, read_dockerfile};

/// Versions of `task.toml` that are understood.
const SCHEMAS: &[&str] = &["1.0", "1.1", "1.2", "1.3", "1.4"];

/// How long a verifier may run by default.
const VERIFIER_TIMEOUT_SEC: u64 = 600;

/// Reads a task directory.
///
/// # Errors
/// The directory is not a task, or needs something that this machine's root cannot provide.
pub fn load(dir: &Path, options: &LoadOptions<'_>) -> Result<Case, Problems> {
    let file = dir.join("task.toml");
    let mut findings = Findings::of(&file);
    let case = task(dir, &file, options, &mut findings);
    match case {
        Some(case) if findings.problems.is_empty() => Ok(case),
        _ => Err(Problems(findings.problems)),
    }
}

fn task(
    dir: &Path,
    file: &Path,
    options: &LoadOptions<'_>,
    findings: &mut Findings,
) -> Option<Case> {
    let start = Position { line: 1, column: 1 };
    let text = match read_named(file, MAX_FILE) {
        Ok(text) => text,
        Err(error) => {
            findings.add(start, "", ProblemCode::Unreadable, error.to_string());
            return None;
        }
    };
    let mut node = match parse(&text, Format::Toml) {
        Ok(node) => node,
        Err(error) => {
            findings.add(error.at, "", ProblemCode::Syntax, error.message);
            return None;
        }
    };
    expand(&mut node, options.variables, findings);
    let section = Section::of(&node, "", findings)?;
    let keys = [
        "schema_version",
        "version",
        "task",
        "metadata",
        "agent",
        "verifier",
        "environment",
        "solution",
        "artifacts",
        "steps",
        "multi_step_reward_strategy",
    ];
    section.only(&keys, findings);
    schema(&section, findings);
    for key in ["steps", "multi_step_reward_strategy"] {
        refuse(
            &section,
            key,
            "tasks with several steps are not supported",
            findings,
        );
    }
    let instruction = read_part(dir, "instruction.md", findings);
    if !dir.join("tests/test.sh").is_file() {
        let message = "tests/test.sh is missing: it is the verifier";
        findings.add(start, "", ProblemCode::Unreadable, message);
    }
    let (name, description) = names(&section, dir, findings);
    let timeout = agent(&section, findings);
    let mounts = environment(dir, &section, findings);
    let mut evaluator = verifier(&section, findings);
    evaluator
        .config
        .insert("files_sha256".to_owned(), digest(dir).into());
    Some(Case {
        name,
        description,
        file: dir.to_owned(),
        source: Source::Empty,
        prompt: instruction?,
        agent: None,
        expected: None,
        evaluators: vec![evaluator],
        pre_execution: Vec::new(),
        post_evaluation: Vec::new(),
        limits: TrialLimits {
            timeout,
            ..TrialLimits::default()
        },
        mounts: Some(mounts?),
        workspace: WorkspaceSettings::default(),
        exports: Vec::new(),
    })
}

/// Returns a hash of the files that decide on a result, so that a changed task is another case.
fn digest(dir: &Path) -> String {
    let mut hash = Sha256::new();
    for part in ["tests", "environment"] {
        let root = dir.join(part);
        for file in crate::tree::files(&root).unwrap_or_default() {
            let content = fs::read(root.join(&file)).unwrap_or_default();
            let name = format!("{part}/{}:{}:", file.display(), content.len());
            hash.update(name.as_bytes());
            hash.update(&content);
        }
    }
    let hash = hash.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn schema(section: &Section<'_>, findings: &mut Findings) {
    let key = if section.has("schema_version") {
        "schema_version"
    } else {
        "version"
    };
    let Some(version) = section.text(key, findings) else {
        return;
    };
    if !SCHEMAS.contains(&version.as_str()) {
        let message = format!("schema {version} is not supported; 1.0 to 1.4 are");
        section.fault(key, ProblemCode::Unsupported, message, findings);
    }
}

/// Notes that a key is not supported, if it is set to something.
fn refuse(section: &Section<'_>, key: &str, why: &str, findings: &mut Findings) {
    let Some(node) = section.get(key) else { return };
    let is_empty = match &node.data {
        Data::List(items) => items.is_empty(),
        Data::Table(entries) => entries.is_empty(),
        Data::Text(text) => text.is_empty(),
        Data::Bool(value) => !value,
        Data::Number(number) => number.as_f64() == Some(0.0),
        Data::Null => true,
    };
    if !is_empty {
        section.fault(key, ProblemCode::Unsupported, why, findings);
    }
}

fn read_part(dir: &Path, name: &str, findings: &mut Findings) -> Option<String> {
    match read_below(dir, name, MAX_FILE) {
        Ok(text) if !text.trim().is_empty() => Some(text),
        other => {
            let reason = match other {
                Ok(_) => "it is empty".to_owned(),
                Err(error) => error.to_string(),
            };
            let message = format!("{name} cannot be used: {reason}");
            let start = Position { line: 1, column: 1 };
            findings.add(start, "", ProblemCode::Unreadable, message);
            None
        }
    }
}

fn names(section: &Section<'_>, dir: &Path, findings: &mut Findings) -> (String, Option<String>) {
    let directory = dir
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("task");
    let Some(task) = section.section("task", findings) else {
        return (slug(directory), None);
    };
    let keys = ["name", "version", "description", "authors", "keywords"];
    task.only(&keys, findings);
    let name = task.bounded("name", 200, findings);
    let name = slug(name.as_deref().unwrap_or(directory));
    (name, task.text("description", findings))
}

fn agent(section: &Section<'_>, findings: &mut Findings) -> Option<Duration> {
    let agent = section.section("agent", findings)?;
    let keys = ["timeout_sec", "user", "network_mode", "allowed_hosts"];
    agent.only(&keys, findings);
    network(&agent, findings);
    user(&agent, findings);
    seconds(&agent, "timeout_sec", findings)
}

fn seconds(section: &Section<'_>, key: &str, findings: &mut Findings) -> Option<Duration> {
    let seconds = section.number(key, 0.001, findings)?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn user(section: &Section<'_>, findings: &mut Findings) {
    let user = section.get("user").map(|user| user.to_json());
    let is_root = |user: &Value| user.as_str() == Some("root") || user.as_u64() == Some(0);
    if user.is_some_and(|user| !is_root(&user)) {
        let message = "the private root has one user, who appears as root; remove the key";
        section.fault("user", ProblemCode::Unsupported, message, findings);
    }
}

fn network(section: &Section<'_>, findings: &mut Findings) {
    let mode = section.text("network_mode", findings);
    if let Some(mode) = mode.filter(|mode| mode != "public") {
        let modes = ["public", "no-network", "allowlist"];
        let message = if modes.contains(&mode.as_str()) {
            format!("\"{mode}\" cannot be enforced here; only \"public\" is supported")
        } else {
            format!("\"{mode}\" is not a mode; {}", suggestion(&mode, &modes))
        };
        section.fault("network_mode", ProblemCode::Unsupported, message, findings);
    }
    if section.has("allow_internet") && section.bool("allow_internet", findings) == Some(false) {
        let message = "a task without network cannot be enforced here";
        section.fault(
            "allow_internet",
            ProblemCode::Unsupported,
            message,
            findings,
        );
    }
    let why = "network access cannot be limited to hosts here";
    refuse(section, "allowed_hosts", why, findings);
}

/// Reads `[environment]` and `environment/Dockerfile`.
fn environment(dir: &Path, section: &Section<'_>, findings: &mut Findings) -> Option<PrivateRoot> {
    let mut docker_image = None;
    let (mut env, mut workdir) = (Default::default(), None);
    if let Some(table) = section.section("environment", findings) {
        limits_of_machine(&table, findings);
        network(&table, findings);
        docker_image = table.text("docker_image", findings);
        env = table.text_map("env", findings);
        workdir = table.text("workdir", findings);
    }
    for name in [
        "docker-compose.yaml",
        "docker-compose.yml",
        "compose.yaml",
        "compose.yml",
    ] {
        if dir.join("environment").join(name).exists() {
            let message = format!("environment/{name}: containers are not supported");
            let start = Position { line: 1, column: 1 };
            findings.add(start, "environment", ProblemCode::Unsupported, message);
        }
    }
    let image = image(dir, docker_image.as_deref(), section, findings)?;
    let mut root = image.into_root(dir);
    root.env.extend(env);
    if let Some(workdir) = workdir {
        root.workdir = PathBuf::from(workdir);
    }
    if !root.workdir.is_absolute() {
        let message = "the working directory must be absolute";
        section.fault("environment", ProblemCode::OutOfBounds, message, findings);
    }
    Some(root)
}

fn limits_of_machine(table: &Section<'_>, findings: &mut Findings) {
    let keys = [
        "build_timeout_sec",
        "docker_image",
        "os",
        "cpus",
        "memory_mb",
        "memory",
        "storage_mb",
        "storage",
        "gpus",
        "gpu_types",
        "tpu",
        "env",
        "workdir",
        "healthcheck",
        "mcp_servers",
        "skills_dir",
        "network_mode",
        "allow_internet",
        "allowed_hosts",
    ];
    table.only(&keys, findings);
    let os = table.text("os", findings);
    if let Some(os) = os.filter(|os| os != "linux") {
        let message = format!("\"{os}\" is not supported; only \"linux\" is");
        table.fault("os", ProblemCode::Unsupported, message, findings);
    }
    refuse(table, "gpus", "needs a GPU: not supported", findings);
    refuse(table, "gpu_types", "needs a GPU: not supported", findings);
    refuse(table, "tpu", "needs a TPU: not supported", findings);
    refuse(
        table,
        "healthcheck",
        "needs a running service: not supported",
        findings,
    );
    refuse(
        table,
        "mcp_servers",
        "MCP servers of a task are not supported",
        findings,
    );
    refuse(
        table,
        "skills_dir",
        "skills of a task are not supported",
        findings,
    );
}

fn image(
    dir: &Path,
    docker_image: Option<&str>,
    section: &Section<'_>,
    findings: &mut Findings,
) -> Option<Image> {
    match read_below(dir, "environment/Dockerfile", MAX_FILE) {
        Ok(text) => match read_dockerfile(&text, &dir.join("environment")) {
            Ok(image) => Some(image),
            Err(faults) => {
                let file = dir.join("environment/Dockerfile");
                let mut inner = Findings::of(&file);
                for fault in faults {
                    let at = Position {
                        line: fault.line,
                        column: 1,
                    };
                    inner.add(at, &fault.name, ProblemCode::Unsupported, fault.message);
                }
                findings.problems.append(&mut inner.problems);
                None
            }
        },
        Err(FileError::Missing(_)) => match docker_image {
            Some(name) if !is_plain_image(name) => {
                let message = format!("the image {name} is not a plain distribution or language");
                section.fault("environment", ProblemCode::Unsupported, message, findings);
                None
            }
            _ => Some(Image::default()),
        },
        Err(error) => {
            let message = format!("environment/Dockerfile: {error}");
            section.fault("environment", ProblemCode::Unreadable, message, findings);
            None
        }
    }
}

/// Returns the evaluator that runs `tests/test.sh`. Its configuration: `timeout_sec`, `env`,
/// `solution_env` and `artifacts`; the loader adds `files_sha256`.
fn verifier(section: &Section<'_>, findings: &mut Findings) -> EvaluatorSpec {
    let mut config = Map::new();
    config.insert("timeout_sec".to_owned(), VERIFIER_TIMEOUT_SEC.into());
    if let Some(table) = section.section("verifier", findings) {
        let keys = [
            "timeout_sec",
            "env",
            "user",
            "environment_mode",
            "environment",
            "collect",
        ];
        table.only(&keys, findings);
        user(&table, findings);
        let why = "an environment of the verifier needs an image: not supported";
        refuse(&table, "environment", why, findings);
        refuse(
            &table,
            "collect",
            "collecting files is not supported",
            findings,
        );
        let mode = table.text("environment_mode", findings);
        if let Some(mode) = mode.filter(|mode| mode != "shared" && mode != "separate") {
            let hint = suggestion(&mode, &["shared", "separate"]);
            let message = format!("\"{mode}\" is not a mode; {hint}");
            table.fault(
                "environment_mode",
                ProblemCode::UnknownName,
                message,
                findings,
            );
        }
        if let Some(timeout) = table.number("timeout_sec", 0.001, findings) {
            config.insert("timeout_sec".to_owned(), timeout.into());
        }
        if let Some(env) = table.section("env", findings) {
            config.insert(
                "env".to_owned(),
                Value::Object(table_to_json(env.entries())),
            );
        }
    }
    if let Some(table) = section.section("solution", findings) {
        table.only(&["env"], findings);
        if let Some(env) = table.section("env", findings) {
            let env = Value::Object(table_to_json(env.entries()));
            config.insert("solution_env".to_owned(), env);
        }
    }
    if let Some(artifacts) = section.get("artifacts") {
        config.insert("artifacts".to_owned(), artifacts.to_json());
    }
    EvaluatorSpec {
        name: "harbor".to_owned(),
        kind: "harbor".to_owned(),
        config,
        weight: 1.0,
        required: true,
    }
}
