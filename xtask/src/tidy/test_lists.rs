//! Test lists: macros that define one test for each scenario function in their list.

use std::collections::BTreeSet;

use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

/// Macros that define a test for each function in their list.
const LISTS: &[&str] = &["tests_of_scenarios", "live_tests", "row_tests", "scenes"];

/// A macro invocation: in a file, or inside the definition of another macro.
struct Invocation {
    name: String,
    within: Option<String>,
    /// Whether the default test command runs the tests of the file.
    in_tests: bool,
    tokens: Vec<Token>,
}

/// Returns the functions that lists run, as `(module, function)`.
///
/// A list counts only if a test file invokes it, directly or through other macros.
pub(super) fn listed(tree: &Tree) -> BTreeSet<(String, String)> {
    let invocations: Vec<Invocation> = tree
        .rust()
        .flat_map(|(path, text)| invocations(path, text))
        .collect();
    let mut run: BTreeSet<&str> = BTreeSet::new();
    let is_run = |it: &Invocation, run: &BTreeSet<&str>| match &it.within {
        Some(outer) => run.contains(outer.as_str()),
        None => it.in_tests,
    };
    loop {
        let more: Vec<&str> = invocations
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
    let lists = invocations
        .iter()
        .filter(|it| LISTS.contains(&it.name.as_str()) && is_run(it, &run));
    lists.flat_map(names).collect()
}

/// Returns true if the default test command runs the tests of the file.
pub(super) fn runs_by_default(path: &str) -> bool {
    let on_request = [
        "/litellm.rs",
        "/schemathesis.rs",
        "/statsmodels.rs",
        "/harbor_models.rs",
    ];
    !path.contains("/heavy") && !on_request.iter().any(|name| path.ends_with(name))
}

fn invocations(path: &str, text: &str) -> Vec<Invocation> {
    let all = tokens(text);
    let in_tests = path.contains("/tests/") && runs_by_default(path);
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
        found.push(Invocation {
            name: name.to_owned(),
            within,
            in_tests,
            tokens,
        });
    }
    found
}

/// Returns the end of the group that opens at `from`, or `from` if none does.
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

fn names(list: &Invocation) -> Vec<(String, String)> {
    let tokens = &list.tokens;
    if list.name == "scenes" {
        // It holds only names: functions of the module that the macro is named after.
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
    fn a_list_counts_only_if_tests_invoke_it() {
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
