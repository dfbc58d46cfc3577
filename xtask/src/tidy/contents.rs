//! Crate contents: what a crate must never contain (the last column of the table of crates in
//! ARCHITECTURE.md), as far as tokens show it.

use std::collections::BTreeSet;

use super::Finding;
use super::agent_names::{MANIFESTS, agent_names, contains_name};
use super::modules::{Module, Modules};
use super::paths::{Path, paths};
use super::tokens::{Kind, Token};
use super::tree::Tree;

/// Crates that may print, exit and read the environment.
const AT_THE_EDGE: &[&str] = &["ostler-cli", "ostler-testkit", "xtask"];

/// Crates that must not name an agent.
const NAMELESS: &[&str] = &[
    "ostler-core",
    "ostler-model",
    "ostler-tools",
    "ostler-store",
    "ostler-acp",
    "ostler-daemon",
    "ostler-eval",
    "ostler-fleet",
    "ostler-page",
];

/// Crates without I/O: bytes and times come in as arguments.
const PURE: &[&str] = &[
    "ostler-core",
    "ostler-dialects",
    "ostler-model",
    "ostler-page",
];

/// Paths that a pure crate must not use.
const IMPURE: &[&[&str]] = &[
    &["tokio"],
    &["std", "fs"],
    &["std", "process"],
    &["std", "net"],
    &["std", "env"],
    &["SystemTime"],
    &["Instant", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
];

/// Paths that only [`AT_THE_EDGE`] may use.
const EDGE_ONLY: &[&[&str]] = &[
    &["process", "exit"],
    &["env", "var"],
    &["env", "var_os"],
    &["env", "vars"],
    &["env", "vars_os"],
];

const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Libraries that a crate must leave to another crate, with the reason.
const LEFT_TO_OTHERS: &[(&str, &[&str], &str)] = &[
    (
        "ostler",
        &["rusqlite", "sqlx", "axum"],
        "storage and HTTP serving belong to other crates",
    ),
    (
        "ostler-store",
        &["axum", "hyper"],
        "serving is ostler-daemon",
    ),
    (
        "ostler-daemon",
        &["rusqlite", "sqlx"],
        "the database is behind ostler-store",
    ),
    (
        "ostler-eval",
        &["axum", "hyper"],
        "serving is ostler-daemon",
    ),
    (
        "ostler-eval",
        &["async_nats"],
        "other machines are ostler-fleet",
    ),
    (
        "ostler-fleet",
        &["rusqlite", "sqlx"],
        "the database is behind ostler-store",
    ),
];

/// Modules that mark a folder of `ostler-dialects` as an agent's.
const AGENT_MODULES: &[&str] = &["launch", "conversation", "blame"];

pub(super) fn check(tree: &Tree, modules: &Modules) -> Vec<Finding> {
    let agents = agent_names(tree);
    let mut findings = Vec::new();
    if agents.is_empty() {
        let message = "no agent names found (fix xtask/src/tidy/agent_names.rs)";
        findings.push(Finding::new(MANIFESTS, 1, message));
    }
    for module in modules.product().into_values() {
        findings.extend(check_module(module, &agents));
    }
    findings.extend(imports_between_agents(modules));
    findings
}

fn check_module(module: &Module, agents: &[String]) -> Vec<Finding> {
    let name = crate_of(&module.file);
    let mut findings = Vec::new();
    let mut report =
        |line: usize, message: String| findings.push(Finding::new(&module.file, line, message));
    for path in paths(&module.tokens) {
        if let Some(word) = forbidden_path(name, &path) {
            report(path.line, word);
        }
    }
    for pair in module.tokens.windows(2) {
        if let (Some(word), true) = (pair[0].word(), pair[1].is('!'))
            && PRINTING.contains(&word)
            && !AT_THE_EDGE.contains(&name)
        {
            report(
                pair[0].line,
                format!("{word}! in {name} (only ostler-cli prints: return it, or emit a Notice)"),
            );
        }
    }
    if NAMELESS.contains(&name) {
        for token in &module.tokens {
            if let Some(agent) = agent_in(token, agents) {
                report(
                    token.line,
                    format!("the agent's name {agent} in {name} (it belongs to ostler-dialects)"),
                );
            }
        }
    }
    findings
}

fn crate_of(file: &str) -> &str {
    file.strip_prefix("crates/")
        .unwrap_or(file)
        .split('/')
        .next()
        .unwrap_or(file)
}

fn forbidden_path(name: &str, path: &Path) -> Option<String> {
    let among = |forbidden: &[&[&str]]| {
        forbidden
            .iter()
            .find(|parts| path.contains(parts))
            .map(|parts| parts.join("::"))
    };
    if PURE.contains(&name)
        && let Some(found) = among(IMPURE)
    {
        return Some(format!(
            "{found} in {name}, which is pure (take it as an argument, or do it in ostler)"
        ));
    }
    if !AT_THE_EDGE.contains(&name)
        && let Some(found) = among(EDGE_ONLY)
    {
        return Some(format!(
            "{found} in {name} (only ostler-cli does that: take the value as an argument)"
        ));
    }
    let (_, libraries, reason) = LEFT_TO_OTHERS.iter().find(|(left, ..)| *left == name)?;
    let found = libraries
        .iter()
        .find(|library| path.parts.first().is_some_and(|first| first == *library))?;
    Some(format!("{found} in {name} ({reason})"))
}

fn agent_in<'a>(token: &Token, agents: &'a [String]) -> Option<&'a str> {
    let (Kind::Word(text) | Kind::Text(text)) = &token.kind else {
        return None;
    };
    let mut names = agents.iter().map(String::as_str);
    names.find(|agent| contains_name(text, agent))
}

/// Protocols that several agents speak: any agent may import them.
const PROTOCOLS: &[&str] = &["acp"];

/// Finds agents' folders that import another agent's.
fn imports_between_agents(modules: &Modules) -> Vec<Finding> {
    let dialects = modules
        .all
        .iter()
        .filter(|module| crate_of(&module.file) == "ostler-dialects");
    let inside: Vec<&Module> = dialects.filter(|module| !module.path.is_empty()).collect();
    let has_parts = |module: &&&Module| {
        module
            .path
            .get(1)
            .is_some_and(|part| AGENT_MODULES.contains(&part.as_str()))
    };
    let agents: BTreeSet<&str> = inside
        .iter()
        .filter(has_parts)
        .map(|module| module.path[0].as_str())
        .collect();
    let mut findings = Vec::new();
    for module in inside
        .iter()
        .filter(|module| agents.contains(module.path[0].as_str()))
    {
        for path in paths(&module.tokens) {
            if let Some(other) = path.below_root(&module.path).filter(|top| {
                agents.contains(top) && !PROTOCOLS.contains(top) && *top != module.path[0]
            }) {
                let message = format!(
                    "{} imports {other} (an agent must not import another: move the shared part up)",
                    module.path[0]
                );
                findings.push(Finding::new(&module.file, path.line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let crates = PURE.iter().copied().chain(["ostler", "ostler-cli"]);
        let manifests: Vec<String> = crates
            .map(|name| format!("crates/{name}/Cargo.toml"))
            .collect();
        let mut all: Vec<(&str, &str)> = manifests.iter().map(|path| (path.as_str(), "")).collect();
        all.push((
            "crates/ostler-agents/agents/goose/manifest.toml",
            "[install]",
        ));
        all.extend_from_slice(files);
        let tree = Tree::of(&all);
        check(&tree, &Modules::of(&tree))
            .into_iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect()
    }

    #[test]
    fn a_pure_crate_does_no_io() {
        for text in [
            "use tokio::io;",
            "use std::{fmt, fs};",
            "fn f() { std::process::id(); }",
            "use std::net;",
            "use std::env;",
            "use std::time::SystemTime;",
            "fn f() { Instant::now(); }",
            "fn f() { jiff::Timestamp::now(); }",
        ] {
            for name in PURE {
                let found = findings(&[(&format!("crates/{name}/src/lib.rs"), text)]);
                assert_eq!(found.len(), 1, "{name}: {text}: {found:?}");
            }
        }
        let innocent = "// std::fs and tokio\nuse std::time::Duration; fn f() -> &'static str { \"std::fs\" }\n#[cfg(test)] mod tests { use std::fs; }";
        assert_eq!(
            findings(&[("crates/ostler-core/src/lib.rs", innocent)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn core_must_not_name_an_agent() {
        for text in ["struct GooseThing;", "const X: &str = \"goose acp\";"] {
            assert_eq!(
                findings(&[("crates/ostler-core/src/lib.rs", text)]).len(),
                1,
                "{text}"
            );
            assert_eq!(
                findings(&[("crates/ostler-dialects/src/lib.rs", text)]).len(),
                0,
                "{text}"
            );
        }
    }

    #[test]
    fn a_tree_without_manifests_is_found() {
        let found = check(&Tree::of(&[]), &Modules::of(&Tree::of(&[])));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn only_the_edge_prints_exits_and_reads_the_environment() {
        for text in [
            "fn f() { println!(); }",
            "fn f() { eprintln!(); }",
            "fn f() { std::process::exit(1) }",
            "fn f() { std::env::var(\"X\"); }",
        ] {
            assert_eq!(
                findings(&[("crates/ostler/src/lib.rs", text)]).len(),
                1,
                "{text}"
            );
            assert_eq!(
                findings(&[("crates/ostler-cli/src/main.rs", text)]).len(),
                0,
                "{text}"
            );
        }
        assert_eq!(
            findings(&[("crates/ostler/src/lib.rs", "use axum::Router;")]).len(),
            1
        );
    }

    #[test]
    fn one_agent_never_imports_another() {
        let files = |text| {
            [
                (
                    "crates/ostler-dialects/src/lib.rs",
                    "mod list; mod one; mod two; mod shared;",
                ),
                (
                    "crates/ostler-dialects/src/list.rs",
                    "use crate::{one, two};",
                ),
                (
                    "crates/ostler-dialects/src/one.rs",
                    "mod launch; use crate::shared;",
                ),
                ("crates/ostler-dialects/src/one/launch.rs", text),
                ("crates/ostler-dialects/src/two.rs", "mod launch;"),
                ("crates/ostler-dialects/src/two/launch.rs", ""),
                ("crates/ostler-dialects/src/shared.rs", ""),
            ]
        };
        assert_eq!(findings(&files("use crate::shared;")), Vec::<String>::new());
        for text in ["use crate::two::launch;", "use super::super::two;"] {
            assert_eq!(findings(&files(text)).len(), 1, "{text}");
        }
    }
}
