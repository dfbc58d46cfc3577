//! File length: at most 650 lines without tests, unless the file states a reason.

use super::Finding;
use super::modules::Modules;
use super::test_items::split_tests;
use super::tokens::tokens;
use super::tree::Tree;

const LONGEST: usize = 650;
const EXCUSE: &str = "// tidy: long because ";

pub(super) fn check(tree: &Tree, modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in modules.product().into_keys() {
        let text = tree.get(path).unwrap_or_default();
        let excused = text.lines().any(|line| {
            line.trim()
                .strip_prefix(EXCUSE)
                .is_some_and(|reason| reason.len() > 10)
        });
        let length = length(text);
        if length > LONGEST && !excused {
            let message = format!(
                "{length} lines without tests, more than {LONGEST} (split it, or add `{EXCUSE}<reason>`)"
            );
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

/// Returns the number of lines that are not under `#[cfg(test)]`.
fn length(text: &str) -> usize {
    let (_, tests) = split_tests(&tokens(text));
    let test_lines = tests
        .iter()
        .filter_map(|item| Some(item.last()?.line - item.first()?.line + 1))
        .sum();
    text.lines().count().saturating_sub(test_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        let tree = Tree::of(&[("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", text)]);
        check(&tree, &Modules::of(&tree))
    }

    #[test]
    fn long_code_is_found_unless_it_states_a_reason() {
        let long = "fn f() {}\n".repeat(LONGEST + 1);
        assert_eq!(findings(&long).len(), 1);
        assert_eq!(
            findings(&format!("{long}// tidy: long because it is one flat table")),
            []
        );
        assert_eq!(findings(&format!("{long}// tidy: long because ")).len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let text = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "fn f() {}\n".repeat(LONGEST + 1)
        );
        assert_eq!(findings(&text), []);
    }
}
