//! Names of agents, read from the registry in `ostler-dialects`.

use std::collections::BTreeSet;

use super::test_items::split_tests;
use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

const DIALECTS: &str = "crates/ostler-dialects/src/";

/// The agents that speak ACP: statics with a field `name`.
pub(super) const KNOWN: &str = "crates/ostler-dialects/src/acp/known.rs";

/// Returns the name of every agent that is a program of another vendor.
///
/// Agents that are part of Ostler have no probe. Their names are ordinary words (`loop`, `mock`)
/// and are left out.
pub(super) fn agent_names(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, text) in tree.rust().filter(|(path, _)| path.starts_with(DIALECTS)) {
        let (product, _) = split_tests(&tokens(text));
        if path == KNOWN {
            names.extend(static_names(&product));
        } else if implements_dialect(&product) && !is_built_in(&product) {
            names.extend(dialect_name(&product));
        }
    }
    names
}

/// Returns the `name` of each `static … = …{ name: "…", … };`, without the names of nested values.
fn static_names(all: &[Token]) -> Vec<String> {
    let (mut in_static, mut depth) = (false, 0_usize);
    let mut names = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match token.kind {
            Kind::Sign('{') => depth += 1,
            Kind::Sign('}') => depth = depth.saturating_sub(1),
            Kind::Sign(';') if depth == 0 => in_static = false,
            _ if token.word() == Some("static") && depth == 0 => in_static = true,
            _ => {}
        }
        if let [name, colon, value, ..] = &all[at..]
            && in_static
            && depth == 1
            && name.word() == Some("name")
            && colon.is(':')
        {
            names.extend(string(value));
        }
    }
    names
}

fn implements_dialect(all: &[Token]) -> bool {
    let is = |token: &Token, word: &str| token.word() == Some(word);
    all.windows(3)
        .any(|three| is(&three[0], "impl") && is(&three[1], "Dialect") && is(&three[2], "for"))
}

/// Returns true if the body of `fn probe` is `None`.
fn is_built_in(all: &[Token]) -> bool {
    body(all, "probe").is_some_and(|token| token.word() == Some("None"))
}

/// Returns what `fn name` returns: a string, or a constant of the same file.
fn dialect_name(all: &[Token]) -> Option<String> {
    let returned = body(all, "name")?;
    string(returned).or_else(|| {
        let constant = returned.word()?;
        let declared = all
            .windows(2)
            .position(|two| two[0].word() == Some("const") && two[1].word() == Some(constant))?;
        let value = all[declared..].iter().take_while(|token| !token.is(';'));
        value.filter_map(string).next()
    })
}

/// Returns the first token of a function's body.
fn body<'a>(all: &'a [Token], function: &str) -> Option<&'a Token> {
    let at = all
        .windows(2)
        .position(|two| two[0].word() == Some("fn") && two[1].word() == Some(function))?;
    all[at..].iter().skip_while(|token| !token.is('{')).nth(1)
}

fn string(token: &Token) -> Option<String> {
    match &token.kind {
        Kind::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn names_come_from_dialects_and_from_acp_entries() {
        let dialect = |name: &str, probe: &str| {
            format!(
                "const NAME: &str = \"two\"; impl Dialect for X {{
                 fn name(&self) -> &'static str {{ {name} }}
                 fn probe(&self) -> Option<Probe> {{ {probe} }} }}"
            )
        };
        let names = agent_names(&Tree::of(&[
            (
                "crates/ostler-dialects/src/one/mod.rs",
                &dialect("\"one\"", "Some(PROBE)"),
            ),
            (
                "crates/ostler-dialects/src/two/mod.rs",
                &dialect("NAME", "Some(PROBE)"),
            ),
            (
                "crates/ostler-dialects/src/own/mod.rs",
                &dialect("\"own\"", "None"),
            ),
            (
                "crates/ostler-dialects/src/acp/handshake.rs",
                "X { name: \"client\" }",
            ),
            (
                KNOWN,
                "static THREE: Acp = Acp(&Entry { name: \"three\", modes: &[Mode { name: \"ask\" }] });
                 const MODE: Mode = Mode { name: \"plan\" };
                 #[cfg(test)] mod tests { const X: Entry = Entry { name: \"invented\" }; }",
            ),
        ]));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["one", "three", "two"]);
    }

    #[test]
    fn every_agent_of_the_registry_is_found() {
        let names = agent_names(&Tree::read(workspace::root()).unwrap());
        for name in [
            "claude", "codex", "copilot", "gemini", "goose", "openclaw", "opencode", "qwen",
        ] {
            assert!(names.contains(name), "{name} is missing from {names:?}");
        }
        assert!(
            !names.contains("loop") && !names.contains("mock"),
            "{names:?}"
        );
    }
}
