//! `cargo xtask tidy`: what the architecture promises and no compiler checks. All findings are listed at once.

mod allow;
mod cycles;
mod dead;
mod doc_paths;
mod length;
mod modules;
mod opening;
mod paths;
mod registries;
mod requirements;
mod test_functions;
mod test_items;
mod test_lists;
mod tokens;
mod tree;
mod walls;
mod words;

use std::process::ExitCode;

use anyhow::{Result, bail};

use self::modules::Modules;
use self::tree::Tree;
use crate::workspace;

pub(crate) const ABOUT: &str = "walls, modules, docs and words, compared with what is written";

/// One thing to mend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    /// What is wrong, and in brackets how to mend it.
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("tidy takes no arguments");
    }
    match check_repository()? {
        0 => Ok(ExitCode::SUCCESS),
        count => bail!("{count} to mend"),
    }
}

/// Checks the repository, prints every finding and returns their number.
pub(crate) fn check_repository() -> Result<usize> {
    let findings = check(&Tree::read(workspace::root())?);
    for Finding { path, line, what } in &findings {
        println!("{path}:{line}: {what}");
    }
    Ok(findings.len())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let modules = Modules::of(tree);
    let mut findings = Vec::new();
    findings.extend(walls::check(tree));
    findings.extend(cycles::check(&modules));
    findings.extend(dead::check(tree, &modules));
    findings.extend(opening::check(tree));
    findings.extend(allow::check(tree));
    findings.extend(length::check(tree, &modules));
    findings.extend(words::check(&modules));
    findings.extend(doc_paths::check(tree));
    findings.extend(registries::check(tree));
    findings.extend(requirements::check(tree));
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = check(&Tree::read(workspace::root()).unwrap());
        let lines: Vec<String> = findings
            .iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.what))
            .collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
