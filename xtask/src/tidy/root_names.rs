//! Root names: the public names at the root of the library are those of a list that is checked in,
//! and they stay few.

use std::collections::BTreeSet;

use super::Finding;
use super::tokens::{Token, tokens};
use super::tree::Tree;

const ROOT: &str = "crates/ostler/src/lib.rs";
const LIST: &str = "crates/ostler/root-names.txt";

/// More names than this belong into modules.
const MOST: usize = 42;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(source) = tree.get(ROOT) else {
        return Vec::new();
    };
    let names = public_names(&tokens(source));
    let listed: BTreeSet<&str> = tree.get(LIST).unwrap_or_default().lines().collect();
    let mut findings = Vec::new();
    for name in names.iter().filter(|name| !listed.contains(name.as_str())) {
        let message = format!("`{name}` is new at the root (put it into a module, or list it)");
        findings.push(Finding::new(LIST, 1, message));
    }
    for (line, name) in listed
        .iter()
        .enumerate()
        .filter(|(_, name)| !names.contains(**name))
    {
        let message = format!("`{name}` is not at the root (restore it, or delete the line)");
        findings.push(Finding::new(LIST, line + 1, message));
    }
    if names.len() > MOST {
        let message = format!(
            "{} public names, more than {MOST} (use modules)",
            names.len()
        );
        findings.push(Finding::new(ROOT, 1, message));
    }
    findings
}

/// Returns the names that the root declares or re-exports.
fn public_names(tokens: &[Token]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let is_public = |at: &usize| tokens[*at].word() == Some("pub") && !is_restricted(tokens, *at);
    for start in (0..tokens.len()).filter(is_public) {
        let item = &tokens[start + 1..];
        let end = item.iter().position(|token| token.is(';') || token.is('('));
        let item = &item[..end.unwrap_or(item.len())];
        match item.first().and_then(Token::word) {
            Some("use") => add_leaves(&item[1..], &mut names),
            _ => names.extend(item.get(1).and_then(Token::word).map(str::to_owned)),
        }
    }
    names
}

fn is_restricted(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|token| token.is('('))
}

/// Adds the names that a `use` declaration brings in: each word that no `::` follows. `self` stands
/// for the word before it, and `as` replaces one.
fn add_leaves(tree: &[Token], names: &mut BTreeSet<String>) {
    let mut parent = None;
    for (at, token) in tree.iter().enumerate() {
        let Some(word) = token.word() else { continue };
        let next = tree.get(at + 1);
        match word {
            _ if next.is_some_and(|next| next.is(':')) => parent = Some(word),
            "as" => {}
            "self" => names.extend(parent.map(str::to_owned)),
            _ if next.and_then(Token::word) == Some("as") => {}
            _ => {
                names.insert(word.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str, list: &str) -> Vec<String> {
        let tree = Tree::of(&[(ROOT, source), (LIST, list)]);
        check(&tree)
            .into_iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect()
    }

    #[test]
    fn names_are_compared_with_the_list() {
        let source = "pub mod a;\nmod b;\npub(crate) use c::Hidden;\npub use d::{E, f as g};\n\
                      pub use x::y::{self, Z};\npub struct S;\npub fn h() {}\n";
        assert_eq!(findings(source, "E\nS\nZ\na\ng\nh\ny\n"), [""; 0]);
        assert_eq!(
            findings(source, "E\nS\nZ\na\ng\nold\ny\n"),
            [
                "crates/ostler/root-names.txt:1: `h` is new at the root (put it into a module, or \
                 list it)",
                "crates/ostler/root-names.txt:6: `old` is not at the root (restore it, or delete \
                 the line)",
            ]
        );
    }

    #[test]
    fn the_number_is_limited() {
        let names: Vec<String> = (0..=MOST).map(|n| format!("n{n}")).collect();
        let source: String = names.iter().map(|n| format!("pub mod {n};\n")).collect();
        assert_eq!(findings(&source, &names.join("\n")).len(), 1);
    }
}
