//! `cargo xtask tidy`: checks the rules of the architecture that no compiler checks.
//!
//! One module per rule. All findings are listed at once.

mod agent_names;
mod allow;
mod contents;
mod cycles;
mod dead_files;
mod dependencies;
mod doc_paths;
mod file_length;
mod glossary;
mod line_width;
mod module_docs;
mod modules;
mod paths;
mod registries;
mod requirements;
mod root_names;
mod size;
mod test_functions;
mod test_items;
mod test_lists;
mod text_decisions;
mod tokens;
mod tree;
mod wording;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use self::modules::Modules;
use self::tree::Tree;
use crate::workspace;

pub(crate) const ABOUT: &str = "check crate boundaries, module order, docs and wording";

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    /// What is wrong, followed by the fix in parentheses.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("tidy takes no arguments");
    }
    match check_repository()? {
        0 => Ok(ExitCode::SUCCESS),
        count => bail!("{count} findings"),
    }
}

pub(crate) const SIZE_ABOUT: &str = "count the tokens of product code and tests, without comments";

/// Prints the size of the product crates, next to that of another checkout if one is given.
pub(crate) fn run_size(arguments: &[String]) -> Result<ExitCode> {
    let before = match arguments {
        [] => None,
        [checkout] => Some(size::measure(&Tree::read(Path::new(checkout))?)),
        _ => bail!("size takes at most one argument: another checkout to compare with"),
    };
    let now = size::measure(&Tree::read(workspace::root())?);
    print!("{}", size::table(&now, before.as_ref()));
    Ok(ExitCode::SUCCESS)
}

/// Checks the repository, prints every finding and returns their number.
pub(crate) fn check_repository() -> Result<usize> {
    let findings = check(&Tree::read(workspace::root())?);
    for Finding {
        path,
        line,
        message,
    } in &findings
    {
        println!("{path}:{line}: {message}");
    }
    Ok(findings.len())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let modules = Modules::of(tree);
    let mut findings = Vec::new();
    findings.extend(dependencies::check(tree));
    findings.extend(cycles::check(&modules));
    findings.extend(dead_files::check(tree, &modules));
    findings.extend(module_docs::check(tree));
    findings.extend(allow::check(tree));
    findings.extend(file_length::check(tree, &modules));
    findings.extend(line_width::check(tree));
    findings.extend(contents::check(tree, &modules));
    findings.extend(doc_paths::check(tree));
    findings.extend(glossary::check(tree));
    findings.extend(wording::check(tree));
    findings.extend(registries::check(tree));
    findings.extend(root_names::check(tree));
    findings.extend(text_decisions::check(&modules));
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
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
