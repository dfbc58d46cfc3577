//! A case in a file.

use std::path::{Path, PathBuf};

use super::LoadContext;
use super::agents::case_agent;
use super::prompts::text_or_file;
use super::repository::{Address, check_address};
use super::section::{Findings, Section};
use super::tree::{Node, ProblemCode};
use super::{commands, evaluators};
use crate::case::{Case, Expected, Source, TrialLimits, WorkspaceSettings};

const KEYS: &[&str] = &[
    "name",
    "description",
    "repo",
    "directory",
    "branch",
    "commit",
    "agent",
    "prompt",
    "prompt_file",
    "expected_source",
    "expected",
    "evaluators",
    "pre_execution",
    "post_evaluation",
    "timeout",
    "limits",
    "workspace_dir",
    "workspace_name",
];

/// Reads a case. `None` if it cannot be used; the reasons are in the findings.
pub(crate) fn case(
    node: &Node,
    path: &str,
    file: &Path,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<Case> {
    let before = findings.problems.len();
    let section = Section::of(node, path, findings)?;
    section.only(KEYS, findings);
    let (agent, config) = match section.section("agent", findings) {
        Some(agent) => case_agent(&agent, context, findings),
        None => (None, None),
    };
    let name = name(&section, file, findings);
    let source = source(&section, context, findings);
    let prompt = prompt(&section, config.as_ref(), context, findings);
    let (post_evaluation, exports) = commands::after(&section, findings);
    let case = Case {
        description: section
            .bounded("description", 1000, findings)
            .or_else(|| section.text("name", &mut Findings::of(file))),
        name,
        file: file.to_owned(),
        source: source.unwrap_or(Source::Empty),
        prompt: prompt.unwrap_or_default(),
        agent,
        expected: expected(&section, context, findings),
        evaluators: evaluators::evaluators(&section, context, findings),
        pre_execution: commands::before(&section, findings),
        post_evaluation,
        limits: limits(&section, findings),
        mounts: None,
        workspace: workspace(&section, context, findings),
        exports,
    };
    for file in case.evaluator_files() {
        let exists = match file.key {
            "overlay" => file.path.is_dir(),
            _ => file.path.exists(),
        };
        if !exists {
            let key = format!("evaluators[{}].config.{}", file.evaluator, file.key);
            let message = format!("does not exist: {}", file.path.display());
            let at = section.node.position_of(&key);
            findings.add(at, &key, ProblemCode::Unreadable, message);
        }
    }
    (findings.problems.len() == before).then_some(case)
}

/// Returns the case's name, reduced to the characters that names consist of. Without a name, it is
/// the file's.
fn name(section: &Section<'_>, file: &Path, findings: &mut Findings) -> String {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let given = section.bounded("name", 200, findings);
    let name = slug(given.as_deref().or(stem).unwrap_or("case"));
    if name.is_empty() {
        let message = "must contain a letter or a digit";
        section.fault("name", ProblemCode::OutOfBounds, message, findings);
    }
    name
}

/// Reduces a text to lower-case letters, digits, `-`, `_`, `.` and `/`.
#[must_use]
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.trim().chars() {
        if c.is_alphanumeric() || matches!(c, '_' | '.' | '/') {
            slug.extend(c.to_lowercase());
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let parts = slug.split('/').map(|part| part.trim_matches(['-', '.']));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

fn source(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<Source> {
    if section.exclusive("repo", "directory", findings) {
        return None;
    }
    if let Some(directory) = section.bounded("directory", 4096, findings) {
        for key in ["branch", "commit"] {
            if section.has(key) {
                let message = "a directory has none; use `repo` for a Git repository";
                section.fault(key, ProblemCode::Conflict, message, findings);
            }
        }
        return existing(section, "directory", &directory, context, findings)
            .map(Source::Directory);
    }
    let repo = section.bounded("repo", 4096, findings);
    let branch = revision(section, "branch", findings);
    let commit = revision(section, "commit", findings);
    let Some(repo) = repo else {
        for key in ["branch", "commit"] {
            if section.has(key) && !section.has("repo") {
                let message = "has no meaning without `repo`";
                section.fault(key, ProblemCode::Conflict, message, findings);
            }
        }
        return Some(Source::Empty);
    };
    let url = match check_address(&repo, context.options.allow_private_hosts) {
        Ok(Address::Remote) => repo,
        Ok(Address::Local) => {
            let plain = repo.strip_prefix("file://").unwrap_or(&repo);
            let path = existing(section, "repo", plain, context, findings)?;
            if !is_repository(&path) {
                let source = Source::Directory(path);
                let plain = branch.is_none() && commit.is_none();
                if !plain {
                    let message = "the directory is not a Git repository; remove branch and commit";
                    section.fault("repo", ProblemCode::Conflict, message, findings);
                }
                return Some(source);
            }
            path.display().to_string()
        }
        Err(error) => {
            section.fault(
                "repo",
                ProblemCode::OutOfBounds,
                error.to_string(),
                findings,
            );
            return None;
        }
    };
    Some(Source::Repository {
        url,
        branch,
        commit,
    })
}

/// Returns the path of an existing directory, relative to the file's.
fn existing(
    section: &Section<'_>,
    key: &str,
    path: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let path = context.dir.join(path);
    if path.is_dir() {
        return Some(path);
    }
    let message = format!("the directory does not exist: {}", path.display());
    section.fault(key, ProblemCode::Unreadable, message, findings);
    None
}

fn is_repository(path: &Path) -> bool {
    let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
    path.join(".git").exists() || is_bare
}

/// Reads a branch or a commit. Anything that Git would take for an option or a range is refused.
fn revision(section: &Section<'_>, key: &str, findings: &mut Findings) -> Option<String> {
    let revision = section.bounded(key, 250, findings)?;
    if !is_revision(&revision) {
        let message = format!("\"{revision}\" is not a name of a branch or a commit");
        section.fault(key, ProblemCode::OutOfBounds, message, findings);
        return None;
    }
    Some(revision)
}

fn is_revision(text: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "-_./+@#=".contains(c);
    !text.starts_with('-') && !text.contains("..") && text.chars().all(allowed)
}

fn prompt(
    section: &Section<'_>,
    config: Option<&Section<'_>>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let keys = ["prompt", "prompt_file"];
    let own = keys.iter().any(|key| section.has(key));
    let of_agent = config.is_some_and(|config| keys.iter().any(|key| config.has(key)));
    match config {
        _ if own && of_agent => {
            let message = "the prompt is also in `agent.config`; remove one of them";
            let key = if section.has("prompt") {
                "prompt"
            } else {
                "prompt_file"
            };
            section.fault(key, ProblemCode::Conflict, message, findings);
            None
        }
        Some(config) if of_agent => text_or_file(config, "prompt", context, findings),
        _ if own => text_or_file(section, "prompt", context, findings),
        _ => {
            let message = "is missing; add `prompt` or `prompt_file`";
            section.fault("prompt", ProblemCode::MissingKey, message, findings);
            None
        }
    }
}

fn expected(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<Expected> {
    let kind = section.text("expected_source", findings);
    let kinds = ["branch", "commit", "directory", "path", "patch"];
    let kind = match kind.as_deref() {
        None => "branch",
        Some(kind) if kinds.contains(&kind) => kind,
        Some(kind) => {
            let hint = ostler_core::near::suggestion(kind, &kinds);
            let message = format!("\"{kind}\" is not supported; {hint}");
            section.fault(
                "expected_source",
                ProblemCode::Unsupported,
                message,
                findings,
            );
            return None;
        }
    };
    if !section.has("expected") {
        if section.has("expected_source") {
            let message = "is missing: `expected_source` says of which kind it is";
            section.fault("expected", ProblemCode::MissingKey, message, findings);
        }
        return None;
    }
    let value = section.bounded("expected", 4096, findings)?;
    match kind {
        "directory" | "path" => {
            existing(section, "expected", &value, context, findings).map(Expected::Directory)
        }
        "patch" => {
            let path = context.dir.join(&value);
            if !path.is_file() {
                let message = format!("the file does not exist: {}", path.display());
                section.fault("expected", ProblemCode::Unreadable, message, findings);
                return None;
            }
            Some(Expected::Patch(path))
        }
        _ => revision(section, "expected", findings).map(Expected::Revision),
    }
}

/// Reads `timeout` and `limits`.
pub(crate) fn limits(section: &Section<'_>, findings: &mut Findings) -> TrialLimits {
    let Some(limits) = section.section("limits", findings) else {
        return TrialLimits {
            timeout: section.duration("timeout", findings),
            ..TrialLimits::default()
        };
    };
    let keys = ["timeout", "max_turns", "max_budget_usd", "max_tokens"];
    limits.only(&keys, findings);
    if section.has("timeout") && limits.has("timeout") {
        let message = "`timeout` is also in `limits`; remove one of them";
        section.fault("timeout", ProblemCode::Conflict, message, findings);
    }
    let timeout = limits.duration("timeout", findings);
    let max_turns = limits.whole("max_turns", 1, findings);
    TrialLimits {
        timeout: timeout.or_else(|| section.duration("timeout", findings)),
        max_turns: max_turns.map(|turns| u32::try_from(turns).unwrap_or(u32::MAX)),
        max_budget_usd: limits.number("max_budget_usd", 0.0, findings),
        max_tokens: limits.whole("max_tokens", 1, findings),
    }
}

fn workspace(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> WorkspaceSettings {
    let name = section
        .bounded("workspace_name", 100, findings)
        .filter(|name| {
            let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            let good = first && name.chars().all(allowed);
            if !good {
                let message = "must begin with a letter or digit; then also `.`, `_` and `-`";
                section.fault(
                    "workspace_name",
                    ProblemCode::OutOfBounds,
                    message,
                    findings,
                );
            }
            good
        });
    let dir = section.bounded("workspace_dir", 4096, findings);
    WorkspaceSettings {
        dir: dir.map(|dir| context.dir.join(dir)),
        name,
    }
}
