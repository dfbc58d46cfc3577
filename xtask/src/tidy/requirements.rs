//! Requirements: every numbered requirement and pitfall has a row in `docs/requirements.md`, and
//! the tests that the row names prove it.
//!
//! A row is `| S0-1 | proof | … |`. The first cell holds the number (or several, with commas). The
//! rest holds at least one test in backticks, `crates/…/file.rs::test_name`, which the usual test
//! command runs and whose comment holds the number; or `planned:` with the milestone that will do
//! it ([`PLANNED`]), or `declined:` with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::test_functions::{Function, functions};
use super::test_lists::{listed, runs_by_default};
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";

/// The families of numbers, and the last number of each.
const FAMILIES: &[(&str, usize)] = &[
    ("S0-", 26),
    ("S1-", 30),
    ("S2-", 37),
    ("S3-", 44),
    ("S4-", 48),
    ("P", 70),
];

/// The milestones that are still to come, and the numbers that wait for each. No other number may
/// be `planned`.
const PLANNED: &[(&str, &[&str])] = &[("Windows", &["P13"])];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // The page is written with the first tests; until then there is nothing to compare.
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    let known = numbers();
    let tests = Tests::of(tree);
    for (at, line) in page.lines().enumerate() {
        let mut report = |message: String| findings.push(Finding::new(PAGE, at + 1, message));
        let Some((first, rest)) = line.strip_prefix('|').and_then(|row| row.split_once('|')) else {
            continue;
        };
        let row: Vec<&str> = first
            .split(',')
            .map(str::trim)
            .filter(|name| is_number(name))
            .collect();
        for number in &row {
            if !known.contains(*number) {
                report(format!("{number} is not a requirement (fix the number)"));
            }
            if let Some(line) = seen.insert((*number).to_owned(), at + 1) {
                report(format!(
                    "{number} already has a row in line {line} (leave one)"
                ));
            }
        }
        if !row.is_empty() {
            row_faults(&tests, &row, rest).into_iter().for_each(report);
        }
    }
    for number in known.iter().filter(|number| !seen.contains_key(*number)) {
        findings.push(Finding::new(
            PAGE,
            1,
            format!("{number} has no row (name its test)"),
        ));
    }
    findings
}

fn numbers() -> BTreeSet<String> {
    FAMILIES
        .iter()
        .flat_map(|(family, last)| (1..=*last).map(move |number| format!("{family}{number}")))
        .collect()
}

fn is_number(name: &str) -> bool {
    FAMILIES.iter().any(|(family, _)| {
        name.strip_prefix(family)
            .is_some_and(|rest| rest.parse::<usize>().is_ok())
    })
}

fn row_faults(tests: &Tests<'_>, row: &[&str], rest: &str) -> Vec<String> {
    let named: Vec<(&str, &str)> = rest
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::"))
        .collect();
    let mut faults: Vec<String> = row
        .iter()
        .filter_map(|number| plan_fault(number, rest))
        .collect();
    let declined = rest
        .split_once("declined:")
        .is_some_and(|(_, why)| why.trim_start().starts_with(|c| c != '|'));
    if named.is_empty() && !declined && !rest.contains("planned:") {
        faults.push(
            "no test (name one as `crates/…/file.rs::test_name`, or write `declined: …`)"
                .to_owned(),
        );
    }
    if !named.is_empty()
        && !named
            .iter()
            .any(|(file, _)| runs_by_default(&format!("/{file}.rs")))
    {
        faults.push(
            "only tests that run on demand (name one that `cargo xtask test` runs)".to_owned(),
        );
    }
    faults.extend(
        named
            .into_iter()
            .flat_map(|(file, test)| tests.faults(row, file, test)),
    );
    faults
}

/// Returns what is wrong with a row's plan: planned but not in the list, or the reverse.
fn plan_fault(number: &str, rest: &str) -> Option<String> {
    let milestone = PLANNED
        .iter()
        .find(|(_, numbers)| numbers.contains(&number))
        .map(|(milestone, _)| *milestone);
    match (milestone, rest.contains("planned")) {
        (None, true) => Some(format!(
            "{number} is not in the list PLANNED (write its test)"
        )),
        (Some(_), false) => Some(format!(
            "{number} is done (remove it from PLANNED in xtask/src/tidy/requirements.rs)"
        )),
        (Some(milestone), true) if !rest.contains(milestone) => Some(format!(
            "{number} is planned for another milestone (write {milestone:?})"
        )),
        _ => None,
    }
}

/// The functions of the repository by file, and the scenario functions that test lists run.
struct Tests<'a> {
    files: BTreeMap<&'a str, Vec<Function>>,
    listed: BTreeSet<(String, String)>,
}

impl<'a> Tests<'a> {
    fn of(tree: &'a Tree) -> Self {
        Self {
            files: tree
                .rust()
                .map(|(path, text)| (path, functions(text)))
                .collect(),
            listed: listed(tree),
        }
    }

    fn faults(&self, row: &[&str], file: &str, test: &str) -> Vec<String> {
        let name = test.rsplit("::").next().unwrap_or(test);
        let shown = format!("{file}.rs::{test}");
        let Some(all) = self.files.get(format!("{file}.rs").as_str()) else {
            return vec![format!("no file for {shown} (give its path from the root)")];
        };
        let Some(function) = all.iter().find(|function| function.name == name) else {
            return vec![format!("no test {shown} (fix the name)")];
        };
        let module = file.rsplit('/').next().unwrap_or(file);
        let mut faults = Vec::new();
        if !function.is_test() && !self.listed.contains(&(module.to_owned(), name.to_owned())) {
            faults.push(format!(
                "{shown} is not a test that runs (name one, or put the scenario into its list)"
            ));
        }
        let numbers = mentioned(&function.comments);
        let missing: Vec<&str> = row
            .iter()
            .copied()
            .filter(|number| !numbers.contains(*number))
            .collect();
        if !missing.is_empty() {
            faults.push(format!(
                "{shown} does not mention {} (write it into its comment)",
                missing.join(", ")
            ));
        }
        faults
    }
}

/// Returns the numbers in a comment; `S1-15…S1-19` stands for five of them.
fn mentioned(comment: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in comment.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '…')) {
        let (first, last) = word.split_once('…').unwrap_or((word, word));
        for (family, _) in FAMILIES {
            let number = |text: &str| {
                text.strip_prefix(family)
                    .and_then(|rest| rest.parse::<usize>().ok())
            };
            if let (Some(first), Some(last)) = (number(first), number(last)) {
                found.extend((first..=last).map(|number| format!("{family}{number}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "// P1, P4…P6: it stops\n#[test]\nfn stops() {}\n// fn spoken() {}\n// P1\n#[test]\n#[ignore]\nfn skipped() {}\n\
                         // P1\nfn helper() {}";

    fn findings(rows: &str) -> Vec<String> {
        let used: Vec<&str> = rows
            .lines()
            .filter_map(|row| row.split('|').nth(1))
            .map(str::trim)
            .collect();
        let mut page = format!("{rows}\n");
        for number in numbers()
            .iter()
            .filter(|number| !used.contains(&number.as_str()))
        {
            let plan = PLANNED
                .iter()
                .find(|(_, numbers)| numbers.contains(&number.as_str()));
            let proof = plan.map_or("declined: elsewhere".to_owned(), |(milestone, _)| {
                format!("planned: {milestone}")
            });
            page.push_str(&format!("| {number} | {proof} |\n"));
        }
        let list = "tests_of_scenarios! { D; words::text }";
        let tree = Tree::of(&[
            (PAGE, &page),
            ("crates/a/tests/it/stop.rs", TESTS),
            (
                "crates/a/tests/it/heavy/slow.rs",
                "// P1\n#[test]\nfn on_demand() {}",
            ),
            ("crates/a/tests/it/real.rs", list),
            (
                "crates/kit/src/words.rs",
                "/// P1.\npub fn text() {}\n/// P1.\npub fn forgotten() {}",
            ),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn tests_scenarios_plans_and_declined_numbers_are_valid_rows() {
        let rows = "| number | proof |\n|---|---|\n| P1 | `crates/a/tests/it/stop.rs::stops`, `crates/kit/src/words.rs::text` |\n\
                    | P5 | `crates/a/tests/it/stop.rs::tests::stops` |\n| P3 | declined: the seed contradicts itself |\n\
                    | P13 | planned: Windows |";
        assert_eq!(findings(rows), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_found() {
        for (row, fault) in [
            (
                "| P1 | `crates/a/tests/it/stop.rs::walks` |",
                "no test crates/a/tests/it/stop.rs::walks",
            ),
            (
                "| P1 | `crates/a/tests/it/stop.rs::spoken` |",
                "no test crates/a",
            ),
            (
                "| P1 | `it/stop.rs::stops` |",
                "no file for it/stop.rs::stops",
            ),
            (
                "| P1 | `crates/a/tests/it/stop.rs::skipped` |",
                "crates/a/tests/it/stop.rs::skipped is not a test that runs",
            ),
            (
                "| P1 | `crates/a/tests/it/stop.rs::helper` |",
                "crates/a/tests/it/stop.rs::helper is not a test that runs",
            ),
            (
                "| P1 | `crates/kit/src/words.rs::forgotten` |",
                "crates/kit/src/words.rs::forgotten is not a test that runs",
            ),
            (
                "| P2 | `crates/a/tests/it/stop.rs::stops` |",
                "crates/a/tests/it/stop.rs::stops does not mention P2",
            ),
            (
                "| P1 | `crates/a/tests/it/heavy/slow.rs::on_demand` |",
                "only tests that run on demand",
            ),
            ("| P1 | soon |", "no test (name one"),
            ("| P1 | declined: |", "no test (name one"),
            ("| P1 | planned: Windows |", "P1 is not in the list PLANNED"),
            (
                "| P13 | planned: later |",
                "P13 is planned for another milestone",
            ),
            ("| P13 | declined: no |", "P13 is done"),
            ("| P71 | declined: no |", "P71 is not a requirement"),
            (
                "| P1 | declined: no |\n| P1 | declined: no |",
                "P1 already has a row",
            ),
        ] {
            let found = findings(row);
            assert!(
                found.len() == 1 && found[0].starts_with(fault),
                "{row}: {found:?}"
            );
        }
    }

    #[test]
    fn a_number_without_a_row_is_found_once_the_page_exists() {
        assert_eq!(check(&Tree::of(&[])), []);
        assert_eq!(check(&Tree::of(&[(PAGE, "")])).len(), 255);
    }
}
