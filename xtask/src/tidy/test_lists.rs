//! Scenario functions that a list runs: macros make one test of each name in their lists.

use std::collections::BTreeSet;

use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

/// Macros that make a test of each function that they are given.
const LISTS: &[&str] = &["tests_of_scenarios", "live_tests", "row_tests", "scenes"];

/// A use of a macro: inside the definition of another, or in a file.
struct Use {
    name: String,
    within: Option<String>,
    /// Whether the file's tests are run by the usual command.
    in_tests: bool,
    tokens: Vec<Token>,
}

/// Returns the functions that lists run, as `(module, function)`.
///
/// A list counts only if a file of tests uses it: directly, or through macros that such a file uses.
pub(super) fn listed(tree: &Tree) -> BTreeSet<(String, String)> {
    let uses: Vec<Use> = tree
        .rust()
        .flat_map(|(path, text)| uses(path, text))
        .collect();
    let mut run: BTreeSet<&str> = BTreeSet::new();
    let is_run = |it: &Use, run: &BTreeSet<&str>| match &it.within {
        Some(outer) => run.contains(outer.as_str()),
        None => it.in_tests,
    };
    loop {
        let more: Vec<&str> = uses
            .iter()
            .filter(|it| is_run(it, &run))
            .map(|it| it.name.as_str())
            .collect();
        let before = run.len();
        run.extend(more);
        if run.len() == before {
            break;
        }
    }
    let lists = uses
        .iter()
        .filter(|it| LISTS.contains(&it.name.as_str()) && is_run(it, &run));
    lists.flat_map(names).collect()
}

/// Returns true if the usual test command runs the tests of the file.
pub(super) fn is_usual(path: &str) -> bool {
    !path.contains("/heavy") && !path.ends_with("/litellm.rs")
}

fn uses(path: &str, text: &str) -> Vec<Use> {
    let all = tokens(text);
    let in_tests = path.contains("/tests/") && is_usual(path);
    let mut definitions: Vec<(usize, String)> = Vec::new();
    let mut found = Vec::new();
    for at in 0..all.len() {
        definitions.retain(|(end, _)| at < *end);
        let Some(name) = all[at]
            .word()
            .filter(|_| all.get(at + 1).is_some_and(|token| token.is('!')))
        else {
            continue;
        };
        if name == "macro_rules" {
            if let Some(defined) = all.get(at + 2).and_then(Token::word) {
                definitions.push((group_end(&all, at + 3), defined.to_owned()));
            }
            continue;
        }
        let tokens = all[at + 2..group_end(&all, at + 2)].to_vec();
        let within = definitions.last().map(|(_, name)| name.clone());
        found.push(Use {
            name: name.to_owned(),
            within,
            in_tests,
            tokens,
        });
    }
    found
}

/// Returns the end of the group that opens here, or this place if none does.
fn group_end(all: &[Token], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in all.iter().enumerate().skip(from) {
        match token.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign('}' | ')' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if at == from {
                from.min(all.len())
            } else {
                at + 1
            };
        }
    }
    all.len()
}

fn names(list: &Use) -> Vec<(String, String)> {
    let tokens = &list.tokens;
    if list.name == "scenes" {
        // Only names stand in it, each of a function of the module that the macro is named after.
        return tokens
            .iter()
            .filter_map(|token| Some((list.name.clone(), token.word()?.to_owned())))
            .collect();
    }
    let pairs = tokens.windows(4).filter_map(|four| match four {
        [a, b, c, d] if b.is(':') && c.is(':') => {
            Some((a.word()?.to_owned(), d.word()?.to_owned()))
        }
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_counts_when_tests_use_it() {
        let kit = "macro_rules! outer { ($d:expr) => { $crate::inner!($d); } }\n\
                   macro_rules! inner { ($d:expr) => { tests_of_scenarios! { $d; words::text api::keys::nowhere } } }\n\
                   macro_rules! unused { ($d:expr) => { tests_of_scenarios! { $d; words::forgotten } } }";
        let heavy = "tests_of_scenarios! { D; words::heavy }";
        let scenes = "scenes! { claude CLAUDE: plain_text; }";
        let of = |user: &str| {
            let files = [
                ("crates/kit/src/mod.rs", kit),
                ("crates/a/tests/it/real.rs", user),
                ("crates/a/tests/it/heavy/x.rs", heavy),
                ("crates/a/tests/it/adapter.rs", scenes),
            ];
            listed(&Tree::of(&files))
                .into_iter()
                .map(|(group, name)| format!("{group}::{name}"))
                .collect::<Vec<_>>()
        };
        let own = ["scenes::CLAUDE", "scenes::claude", "scenes::plain_text"];
        assert_eq!(of("// outer!(D);"), own);
        let used = of("ostler_testkit::outer!(D);");
        assert_eq!(
            used,
            [&["api::keys", "keys::nowhere"], &own[..], &["words::text"]].concat()
        );
    }
}
