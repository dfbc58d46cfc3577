//! `docs/requirements.md`: every numbered requirement and pitfall has a row, and every test named there exists.
//!
//! A row is `| S0-1 | proof | … |`. The first cell holds the number (or several, with commas). The rest holds at
//! least one test in backticks, `crates/…/file.rs::test_name`, or the word `planned:` with the issue or milestone
//! that will do it, or `declined:` with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tokens::tokens;
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";

/// The families of numbers, and the last number of each.
const FAMILIES: &[(&str, usize)] = &[("S0-", 26), ("S1-", 30), ("S2-", 37), ("S3-", 44), ("S4-", 48), ("P", 70)];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // The page is written with the first tests; until then there is nothing to compare.
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    let known = numbers();
    for (at, line) in page.lines().enumerate() {
        let mut say = |what: String| findings.push(Finding::new(PAGE, at + 1, what));
        let Some((first, rest)) = line.strip_prefix('|').and_then(|row| row.split_once('|')) else {
            continue;
        };
        let row: Vec<&str> = first.split(',').map(str::trim).filter(|name| is_number(name)).collect();
        for number in &row {
            if !known.contains(*number) {
                say(format!("{number} is no requirement (mend the number)"));
            }
            if let Some(line) = seen.insert((*number).to_owned(), at + 1) {
                say(format!("{number} has a row already, line {line} (keep one)"));
            }
        }
        if !row.is_empty() {
            row_faults(tree, rest).into_iter().for_each(say);
        }
    }
    for number in known.iter().filter(|number| !seen.contains_key(*number)) {
        findings.push(Finding::new(PAGE, 1, format!("{number} has no row (name its test, or say `planned:`)")));
    }
    findings
}

fn numbers() -> BTreeSet<String> {
    FAMILIES.iter().flat_map(|(family, last)| (1..=*last).map(move |number| format!("{family}{number}"))).collect()
}

fn is_number(name: &str) -> bool {
    FAMILIES.iter().any(|(family, _)| name.strip_prefix(family).is_some_and(|rest| rest.parse::<usize>().is_ok()))
}

fn row_faults(tree: &Tree, rest: &str) -> Vec<String> {
    let named: Vec<(&str, &str)> =
        rest.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(".rs::")).collect();
    let promised = ["planned:", "declined:"]
        .iter()
        .any(|word| rest.split_once(word).is_some_and(|(_, what)| what.trim_start().starts_with(|c: char| c != '|')));
    if named.is_empty() && !promised {
        return vec![
            "no test (name one as `crates/…/file.rs::test_name`, or say `planned: …` or `declined: …`)".to_owned(),
        ];
    }
    let faults = named.into_iter().filter(|(file, test)| !exists(tree, file, test));
    faults.map(|(file, test)| format!("no test {file}.rs::{test} (mend the name)")).collect()
}

/// Whether a file of that path, or one that ends with it, holds the name of the test.
fn exists(tree: &Tree, file: &str, test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or(test);
    let (whole, ending) = (format!("{file}.rs"), format!("/{file}.rs"));
    tree.rust()
        .filter(|(path, _)| *path == whole || path.ends_with(&ending))
        .any(|(_, text)| text.contains(name) && tokens(text).iter().any(|token| token.word() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let used: Vec<&str> = rows.lines().filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
        let mut page = format!("{rows}\n");
        for number in numbers().iter().filter(|number| !used.contains(&number.as_str())) {
            page.push_str(&format!("| {number} | planned: M9 |\n"));
        }
        let tree = Tree::of(&[(PAGE, &page), ("crates/a/tests/it/stop.rs", "#[test] fn stops() {} // fn spoken() {}")]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn tests_promises_and_refusals_are_rows() {
        let rows = "| number | proof |\n|---|---|\n| P1 | `crates/a/tests/it/stop.rs::stops` |\n| P2 | `it/stop.rs::tests::stops` |\n| P3 | declined: the seed contradicts itself |";
        assert_eq!(findings(rows), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_found() {
        for (row, fault) in [
            ("| P1 | `crates/a/tests/it/stop.rs::walks` |", "no test crates/a/tests/it/stop.rs::walks"),
            ("| P1 | `crates/a/tests/it/stop.rs::spoken` |", "no test crates/a"),
            ("| P1 | soon |", "no test (name one"),
            ("| P1 | planned: |", "no test (name one"),
            ("| P71 | planned: M1 |", "P71 is no requirement"),
            ("| P1 | planned: M1 |\n| P1 | planned: M1 |", "P1 has a row already"),
        ] {
            let found = findings(row);
            assert!(found.len() == 1 && found[0].starts_with(fault), "{row}: {found:?}");
        }
    }

    #[test]
    fn a_number_without_a_row_is_found_once_the_page_exists() {
        assert_eq!(check(&Tree::of(&[])), []);
        assert_eq!(check(&Tree::of(&[(PAGE, "")])).len(), 255);
    }
}
