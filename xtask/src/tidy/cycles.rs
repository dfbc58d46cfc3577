//! Module order: the top-level modules of a crate do not depend on each other in a cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Finding;
use super::modules::{Module, Modules};
use super::paths::paths;

/// Dependencies between modules, each with the file and line of its first use.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<String, (&'a str, usize)>>;

pub(super) fn check(modules: &Modules) -> Vec<Finding> {
    let mut targets: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    for module in modules.all.iter().filter(|module| !module.is_test) {
        targets.entry(&module.root).or_default().push(module);
    }
    targets
        .values()
        .flat_map(|members| check_target(members))
        .collect()
}

fn check_target(members: &[&Module]) -> Vec<Finding> {
    let edges = edges(members);
    let mut reported: BTreeSet<String> = BTreeSet::new();
    let mut findings = Vec::new();
    for start in edges.keys() {
        let Some(cycle) = cycle_through(start, &edges) else {
            continue;
        };
        if cycle.iter().any(|name| reported.contains(name)) {
            continue;
        }
        reported.extend(cycle.iter().cloned());
        findings.push(describe(&cycle, &edges));
    }
    findings
}

fn edges<'a>(members: &[&'a Module]) -> Edges<'a> {
    let tops: BTreeSet<&str> = members
        .iter()
        .filter_map(|m| m.path.first())
        .map(String::as_str)
        .collect();
    let exports = exports(members, &tops);
    let mut edges = Edges::new();
    for module in members {
        let Some(own) = module.path.first() else {
            continue;
        };
        for path in paths(&module.tokens) {
            let Some(first) = path.below_root(&module.path) else {
                continue;
            };
            let target = if tops.contains(first) {
                Some(first)
            } else {
                exports.get(first).map(String::as_str)
            };
            if let Some(target) = target.filter(|target| target != own) {
                let place = (module.file.as_str(), path.line);
                edges
                    .entry(own.as_str())
                    .or_default()
                    .entry(target.to_owned())
                    .or_insert(place);
            }
        }
    }
    edges
}

/// Returns the names that the root re-exports, with the module each comes from.
fn exports(members: &[&Module], tops: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for root in members.iter().filter(|module| module.path.is_empty()) {
        for path in paths(&root.tokens) {
            let parts: Vec<&str> = path.parts.iter().map(String::as_str).collect();
            let parts = match parts.as_slice() {
                ["crate" | "self", rest @ ..] => rest,
                all => all,
            };
            if let ([module, _, ..], Some(name)) = (parts, path.name())
                && tops.contains(module)
            {
                exports.insert(name.to_owned(), (*module).to_owned());
            }
        }
    }
    exports
}

/// Returns the shortest path from a module back to itself.
fn cycle_through(start: &str, edges: &Edges<'_>) -> Option<Vec<String>> {
    let mut queue = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(path) = queue.pop_front() {
        let last = path.last().map(String::as_str).unwrap_or_default();
        for next in edges.get(last).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                return Some(path);
            }
            if seen.insert(next.clone()) {
                queue.push_back(path.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}

fn describe(cycle: &[String], edges: &Edges<'_>) -> Finding {
    let mut places = Vec::new();
    for (at, from) in cycle.iter().enumerate() {
        let to = &cycle[(at + 1) % cycle.len()];
        if let Some((file, line)) = edges.get(from.as_str()).and_then(|targets| targets.get(to)) {
            places.push((*file, *line, format!("{from} uses {to} ({file}:{line})")));
        }
    }
    let (file, line) = places
        .first()
        .map_or(("", 0), |(file, line, _)| (*file, *line));
    let chain: Vec<&str> = places.iter().map(|(_, _, text)| text.as_str()).collect();
    Finding::new(
        file,
        line,
        format!(
            "modules in a cycle: {} (move the shared part into a module below both)",
            chain.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
        let mut all = vec![("crates/a/Cargo.toml", "")];
        all.extend_from_slice(files);
        check(&Modules::of(&Tree::of(&all)))
    }

    #[test]
    fn a_linear_order_passes_and_tests_may_use_any_module() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod low; mod high; pub use high::High;",
            ),
            (
                "crates/a/src/low.rs",
                "// crate::high\n#[cfg(test)] mod tests { use crate::high; }",
            ),
            ("crates/a/src/high.rs", "use crate::low::Low;"),
        ];
        assert_eq!(findings(&files), []);
    }

    #[test]
    fn a_cycle_is_found_through_groups_re_exports_and_super() {
        for back in [
            "use crate::{high::High};",
            "use crate::High;",
            "use super::high;",
            "fn f() { crate::high::f() }",
        ] {
            let found = findings(&[
                (
                    "crates/a/src/lib.rs",
                    "mod low; mod high; pub use high::High;",
                ),
                ("crates/a/src/low.rs", "mod deep;"),
                (
                    "crates/a/src/low/deep.rs",
                    &back.replace("super::", "super::super::"),
                ),
                ("crates/a/src/high.rs", "use crate::low::Low;"),
            ]);
            assert_eq!(found.len(), 1, "{back}: {found:?}");
            assert!(
                found[0]
                    .message
                    .contains("low uses high (crates/a/src/low/deep.rs:1)"),
                "{found:?}"
            );
        }
    }
}
