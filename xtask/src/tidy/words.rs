//! What a crate never contains, as far as words can tell: the last column of the walls.

use std::collections::BTreeSet;

use super::Finding;
use super::modules::{Module, Modules};
use super::paths::{Path, paths};
use super::tokens::{Kind, Token};

/// Names of agents, for the crates that must serve all of them alike.
const AGENTS: &[&str] = &["claude", "codex", "openclaw", "copilot", "gemini"];

/// Crates that print, exit and read the environment.
const AT_THE_EDGE: &[&str] = &["ostler-cli", "ostler-testkit", "xtask"];

/// Crates that know no agent by name.
const NAMELESS: &[&str] = &[
    "ostler-core",
    "ostler-tools",
    "ostler-store",
    "ostler-daemon",
    "ostler-eval",
];

/// Crates that are pure: bytes and times come in as arguments.
const PURE: &[&str] = &["ostler-core", "ostler-dialects"];

/// Paths that a pure crate never names.
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

/// Paths that belong to the edge.
const OF_THE_EDGE: &[&[&str]] = &[
    &["process", "exit"],
    &["env", "var"],
    &["env", "var_os"],
    &["env", "vars"],
    &["env", "vars_os"],
];

const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Crates with a library that they leave to another crate.
const LEFT_TO_OTHERS: &[(&str, &[&str], &str)] = &[
    (
        "ostler",
        &["rusqlite", "sqlx", "axum"],
        "storing and serving are other crates",
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
];

/// Parts of an agent's folder in `ostler-dialects`, by which such a folder is known.
const PARTS_OF_AN_AGENT: &[&str] = &["launch", "conversation", "blame"];

pub(super) fn check(modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in modules.product().into_values() {
        findings.extend(check_module(module));
    }
    findings.extend(agents_apart(modules));
    findings
}

fn check_module(module: &Module) -> Vec<Finding> {
    let name = crate_of(&module.file);
    let mut findings = Vec::new();
    let mut say = |line: usize, what: String| findings.push(Finding::new(&module.file, line, what));
    for path in paths(&module.tokens) {
        if let Some(word) = forbidden_path(name, &path) {
            say(path.line, word);
        }
    }
    for pair in module.tokens.windows(2) {
        if let (Some(word), true) = (pair[0].word(), pair[1].is('!'))
            && PRINTING.contains(&word)
            && !AT_THE_EDGE.contains(&name)
        {
            say(
                pair[0].line,
                format!("{word}! in {name} (only ostler-cli prints: return it, or emit a Notice)"),
            );
        }
    }
    if NAMELESS.contains(&name) {
        for token in &module.tokens {
            if let Some(agent) = agent_in(token) {
                say(
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
        && let Some(found) = among(OF_THE_EDGE)
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

fn agent_in(token: &Token) -> Option<&'static str> {
    let (Kind::Word(text) | Kind::Text(text)) = &token.kind else {
        return None;
    };
    let text = text.to_lowercase();
    AGENTS.iter().find(|agent| text.contains(**agent)).copied()
}

/// What several agents speak is for all of them.
const PROTOCOLS: &[&str] = &["acp"];

/// One agent's folder never imports another's.
fn agents_apart(modules: &Modules) -> Vec<Finding> {
    let dialects = modules
        .all
        .iter()
        .filter(|module| crate_of(&module.file) == "ostler-dialects");
    let inside: Vec<&Module> = dialects.filter(|module| !module.path.is_empty()).collect();
    let has_parts = |module: &&&Module| {
        module
            .path
            .get(1)
            .is_some_and(|part| PARTS_OF_AN_AGENT.contains(&part.as_str()))
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
                let what = format!(
                    "{} imports {other} (an agent never imports another: move what both need beside them)",
                    module.path[0]
                );
                findings.push(Finding::new(&module.file, path.line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let manifests = ["ostler-core", "ostler-dialects", "ostler", "ostler-cli"]
            .map(|name| format!("crates/{name}/Cargo.toml"));
        let mut all: Vec<(&str, &str)> = manifests.iter().map(|path| (path.as_str(), "")).collect();
        all.extend_from_slice(files);
        let tree = Tree::of(&all);
        check(&Modules::of(&tree))
            .into_iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.what))
            .collect()
    }

    #[test]
    fn a_pure_crate_does_not_touch_the_world() {
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
    fn core_knows_no_agent_by_name() {
        for text in ["struct ClaudeThing;", "const X: &str = \"codex exec\";"] {
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
