//! Glossary: `docs/glossary.md` defines each term once.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

const PAGE: &str = "docs/glossary.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Finding::new(PAGE, 1, "is missing (write it)")];
    };
    let terms = terms(page);
    if terms.is_empty() {
        return vec![Finding::new(
            PAGE,
            1,
            "no table of terms (begin the page with it)",
        )];
    }
    let mut findings = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (term, line) in terms {
        if let Some(first) = seen.insert(term.clone(), line) {
            let message = format!("{term:?} is already defined in line {first} (leave one)");
            findings.push(Finding::new(PAGE, line, message));
        }
    }
    findings
}

/// Returns the terms in the first column of the page's first table, each with its line.
fn terms(page: &str) -> Vec<(String, usize)> {
    let rows = page
        .lines()
        .zip(1..)
        .skip_while(|(line, _)| !line.starts_with('|'))
        .take_while(|(line, _)| line.starts_with('|'))
        .skip(2);
    rows.flat_map(|(row, line)| {
        let cell = row.trim_start_matches('|').split('|').next();
        let terms = cell.unwrap_or_default().split(',');
        terms.map(move |term| (term.trim().trim_matches('`').to_lowercase(), line))
    })
    .filter(|(term, _)| !term.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let page = format!("# Glossary\n\n| term | meaning |\n|---|---|\n{rows}");
        let found = check(&Tree::of(&[(PAGE, &page)])).into_iter();
        found
            .map(|f| format!("{}: {}", f.line, f.message))
            .collect()
    }

    #[test]
    fn a_term_defined_twice_is_found() {
        assert_eq!(
            findings("| turn | a |\n| Session, run | b |\n| `run` | c |\n"),
            ["7: \"run\" is already defined in line 6 (leave one)"]
        );
    }

    #[test]
    fn other_tables_may_repeat_a_term() {
        let rows = "| turn | a |\n\n| here | there |\n|---|---|\n| turn | Turn |\n";
        assert_eq!(findings(rows), [""; 0]);
    }

    #[test]
    fn a_page_without_terms_is_found() {
        assert_eq!(findings("").len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
