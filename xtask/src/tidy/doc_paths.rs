//! Paths in the docs: relative links and repository paths in backticks must exist.

use super::Finding;
use super::tree::Tree;

/// Prefixes of repository paths.
const TOPS: &[&str] = &[
    "crates/",
    "docs/",
    "xtask/",
    "fixtures/",
    ".ci/",
    ".cargo/",
    ".config/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in tree.iter().filter(|(path, _)| is_page(path)) {
        let mut in_code = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                for missing in missing(tree, page, line) {
                    let message = format!("{missing} does not exist (fix the path, or remove it)");
                    findings.push(Finding::new(page, at + 1, message));
                }
            }
        }
    }
    findings
}

fn is_page(path: &str) -> bool {
    let readme = path == "README.md" || path.ends_with("/README.md") && path.starts_with("crates/");
    readme
        || matches!(path, "ARCHITECTURE.md" | "CONTRIBUTING.md")
        || path.starts_with("docs/") && path.ends_with(".md")
}

fn missing(tree: &Tree, page: &str, line: &str) -> Vec<String> {
    let linked = links(line).filter(|link| !tree.has(&resolve(page, link)));
    let named = line
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(named_path)
        .filter(|path| !tree.has(path));
    linked.chain(named).map(str::to_owned).collect()
}

/// Returns the relative targets of `[text](target)`, without the fragment after `#`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    targets
        .filter(|target| !target.contains(':') && !target.starts_with('#'))
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty())
}

/// Returns the repository path in a code span, without `::test_name` or `:line`.
///
/// A path with a placeholder does not count.
fn named_path(code: &str) -> Option<&str> {
    let is_path = TOPS.iter().any(|top| code.starts_with(top))
        && !code.contains(['<', '*', '{', '…', '$', ' ']);
    is_path.then(|| code.split(':').next().unwrap_or(code))
}

/// Resolves a link to a path from the root.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if link.starts_with('/') {
        parts.clear();
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let page = "[a](b.md#x) [c](../crates/a) [w](https://x.y) [h](#here)\n`crates/a/src/lib.rs:12` `docs/<agent>.md` `crates/a/src/lib.rs::tests::t`\n\
                    [gone](gone.md)\n`crates/gone/src`\n```\n`crates/sketch`\n```\n";
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("docs/b.md", ""),
            ("crates/a/src/lib.rs", ""),
        ]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|f| (f.line, f.message))
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].0 == 3 && found[0].1.starts_with("gone.md"),
            "{found:?}"
        );
        assert!(
            found[1].0 == 4 && found[1].1.starts_with("crates/gone/src"),
            "{found:?}"
        );
    }
}
