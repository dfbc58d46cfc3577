//! Crate boundaries: the dependencies in every manifest, compared with the table of crates in
//! ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Finding;
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const TESTKIT: &str = "ostler-testkit";

/// A row of the table of crates.
struct CrateRow {
    name: String,
    planned: bool,
    may_use: MayUse,
    line: usize,
}

enum MayUse {
    All,
    These(BTreeSet<String>),
}

impl MayUse {
    fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => name != TESTKIT,
            Self::These(names) => names.contains(name),
        }
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rows = tree.get(PAGE).map(rows).unwrap_or_default();
    if rows.is_empty() {
        return vec![Finding::new(
            PAGE,
            1,
            "no table `| crate | contains | may depend on | …` (write it)",
        )];
    }
    let mut findings = Vec::new();
    let mut manifests = BTreeMap::new();
    for (folder, manifest) in tree.manifests() {
        let path = format!("{folder}/Cargo.toml");
        match manifest.parse::<Table>() {
            Ok(table) => {
                manifests.insert(
                    folder.rsplit('/').next().unwrap_or(folder),
                    (path, manifest, table),
                );
            }
            Err(error) => findings.push(Finding::new(
                &path,
                1,
                format!("invalid TOML: {}", error.message()),
            )),
        }
    }
    for row in &rows {
        findings.extend(check_row(
            row,
            &rows,
            manifests.contains_key(row.name.as_str()),
        ));
    }
    for (name, (path, text, table)) in &manifests {
        match rows.iter().find(|row| row.name == *name) {
            None => findings.push(Finding::new(
                path,
                1,
                format!("{name} is not in the table of {PAGE} (add a row)"),
            )),
            Some(row) => {
                let of = |forbidden: String, dependency: &str| {
                    Finding::new(path, line_of(text, dependency), forbidden)
                };
                findings.extend(
                    forbidden_dependencies(row, table)
                        .into_iter()
                        .map(|(dependency, forbidden)| of(forbidden, &dependency)),
                );
            }
        }
    }
    findings
}

fn check_row(row: &CrateRow, rows: &[CrateRow], exists: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |message: String| findings.push(Finding::new(PAGE, row.line, message));
    if exists && row.planned {
        report(format!("{} exists (drop \"(planned)\")", row.name));
    }
    if !exists && !row.planned {
        report(format!(
            "{} does not exist (mark it \"(planned)\", or drop the row)",
            row.name
        ));
    }
    if let MayUse::These(names) = &row.may_use {
        for name in names
            .iter()
            .filter(|name| !rows.iter().any(|row| row.name == **name))
        {
            report(format!(
                "{} may use {name}, which has no row (fix the name)",
                row.name
            ));
        }
    }
    findings
}

/// Returns the dependencies on our own crates that the table does not allow, with the reason.
fn forbidden_dependencies(row: &CrateRow, manifest: &Table) -> Vec<(String, String)> {
    let mut forbidden = Vec::new();
    for (dependency, is_dev) in our_dependencies(manifest) {
        if dependency == TESTKIT {
            if !is_dev {
                forbidden.push((
                    dependency,
                    format!("{TESTKIT} is a normal dependency (make it a dev-dependency)"),
                ));
            }
        } else if !row.may_use.allows(&dependency) {
            let message = format!(
                "{} uses {dependency}, a wall of {PAGE} (drop it, or change the design first)",
                row.name
            );
            forbidden.push((dependency, message));
        }
    }
    forbidden
}

/// Names of our crates that a manifest depends on, and whether only its tests do.
fn our_dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in targets.chain([manifest]) {
        for (kind, is_dev) in [
            ("dependencies", false),
            ("build-dependencies", false),
            ("dev-dependencies", true),
        ] {
            let Some(dependencies) = table.get(kind).and_then(Value::as_table) else {
                continue;
            };
            for (key, value) in dependencies {
                let name = value.get("package").and_then(Value::as_str).unwrap_or(key);
                if name == "ostler" || name.starts_with("ostler-") || name == "xtask" {
                    found.push((name.to_owned(), is_dev));
                }
            }
        }
    }
    found
}

fn rows(page: &str) -> Vec<CrateRow> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (at, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if !line.starts_with('|') {
            inside = false;
        } else if cells.first() == Some(&"crate") {
            inside = true;
        } else if let (true, [name, _, may_use, ..]) = (inside, cells.as_slice())
            && !name.starts_with("--")
        {
            rows.push(CrateRow {
                name: name
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .trim_matches('`')
                    .to_owned(),
                planned: name.contains("(planned)"),
                may_use: may_use_of(may_use),
                line: at + 1,
            });
        }
    }
    rows
}

/// Parses `–`, `all`, or short names such as `core, dialects, ostler`.
fn may_use_of(cell: &str) -> MayUse {
    if cell == "all" {
        return MayUse::All;
    }
    let names = cell
        .split(',')
        .map(|name| name.trim().trim_matches('`'))
        .filter(|name| !matches!(*name, "" | "–" | "-" | "—"));
    let long = |name: &str| {
        if name.starts_with("ostler") {
            name.to_owned()
        } else {
            format!("ostler-{name}")
        }
    };
    MayUse::These(names.map(long).collect())
}

fn line_of(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        line.trim_start()
            .strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    manifest.lines().position(names).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | contains | may depend on | never contains |\n|---|---|---|---|\n| `ostler-core` | nouns | – | tokio |\n| `ostler-tools` (planned) | tools | core | |\n| `ostler` | library | core, tools | |\n| `ostler-cli` | program | all | |\n";

    fn findings(manifests: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![
            ("ARCHITECTURE.md", TABLE),
            ("crates/ostler-core/Cargo.toml", ""),
            ("crates/ostler/Cargo.toml", ""),
            ("crates/ostler-cli/Cargo.toml", ""),
        ];
        files.retain(|(path, _)| !manifests.iter().any(|(given, _)| given == path));
        files.extend_from_slice(manifests);
        check(&Tree::of(&files))
            .into_iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect()
    }

    #[test]
    fn allowed_dependencies_pass() {
        let allowed = "[dependencies]\nostler-core.workspace = true\n[dev-dependencies]\nostler-testkit.workspace = true";
        assert_eq!(
            findings(&[("crates/ostler/Cargo.toml", allowed)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_forbidden_dependency_is_found_with_its_line() {
        let manifest = "[target.'cfg(unix)'.dependencies]\nostler = { path = \"../ostler\" }";
        let found = findings(&[("crates/ostler-core/Cargo.toml", manifest)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/ostler-core/Cargo.toml:2: ostler-core uses ostler,"),
            "{found:?}"
        );
    }

    #[test]
    fn the_testkit_is_never_a_normal_dependency() {
        let manifest = "[dependencies]\nostler-testkit.workspace = true";
        let found = findings(&[("crates/ostler-cli/Cargo.toml", manifest)]);
        assert!(found[0].contains("make it a dev-dependency"), "{found:?}");
    }

    #[test]
    fn crates_and_rows_must_match() {
        let found = findings(&[
            ("crates/ostler-extra/Cargo.toml", ""),
            ("crates/ostler-tools/Cargo.toml", ""),
        ]);
        assert!(
            found
                .iter()
                .any(|f| f.contains("ostler-extra is not in the table")),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .any(|f| f.contains("ostler-tools exists (drop")),
            "{found:?}"
        );
        let lone = Tree::of(&[("ARCHITECTURE.md", TABLE)]);
        assert!(
            check(&lone)
                .iter()
                .any(|f| f.message.contains("ostler-core does not exist"))
        );
        assert!(
            check(&Tree::of(&[]))
                .iter()
                .any(|f| f.message.contains("no table"))
        );
    }
}
