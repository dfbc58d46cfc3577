//! Decisions by text: product code branches on types and codes, not on the text of a message.
//!
//! Only a `blame` module may: it reads what other programs wrote, and is tested with fixtures.

use super::Finding;
use super::modules::{Module, Modules};
use super::tokens::{Kind, Token};

/// Fields that hold a code of Ostler, or text for a person.
const FIELDS: &[&str] = &[
    "code", "native", "reason", "spawn", "message", "why", "hint",
];

/// Methods that compare a text with their argument.
const COMPARING: &[&str] = &[
    "contains",
    "ends_with",
    "eq",
    "eq_ignore_ascii_case",
    "find",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// Crates that are not part of the product.
const OUTSIDE: &[&str] = &["crates/ostler-standin/", "crates/ostler-testkit/", "xtask/"];

pub(super) fn check(modules: &Modules) -> Vec<Finding> {
    let product = modules.product().into_values();
    product
        .filter(|module| !OUTSIDE.iter().any(|folder| module.file.starts_with(folder)))
        .filter(|module| !module.path.iter().any(|part| part == "blame"))
        .flat_map(check_module)
        .collect()
}

fn check_module(module: &Module) -> Vec<Finding> {
    let tokens = &module.tokens;
    let is_field = |at: &usize| {
        tokens[*at]
            .word()
            .is_some_and(|word| FIELDS.contains(&word))
            && *at > 0
            && tokens[at - 1].is('.')
    };
    (0..tokens.len())
        .filter(is_field)
        .filter(|at| is_compared(tokens, *at))
        .map(|at| {
            let name = tokens[at].word().unwrap_or_default();
            let message = format!(
                "decides by the text of `{name}` (compare an enum's variant; only a `blame` \
                 module may read texts)"
            );
            Finding::new(&module.file, tokens[at].line, message)
        })
        .collect()
}

/// Returns true if the field at this position is compared with a string literal.
fn is_compared(tokens: &[Token], field: usize) -> bool {
    let sign = |at: usize, sign: char| tokens.get(at).is_some_and(|token| token.is(sign));
    let text = |at: usize| matches!(tokens.get(at), Some(token) if is_text(token));
    let mut at = field + 1;
    // A chain of methods, such as `.as_deref().unwrap_or_default()`.
    while sign(at, '.') && sign(at + 2, '(') {
        let compares = tokens[at + 1]
            .word()
            .is_some_and(|word| COMPARING.contains(&word));
        if compares && text(at + 3) {
            return true;
        }
        at = closing(tokens, at + 2) + 1;
    }
    if (sign(at, '=') || sign(at, '!')) && sign(at + 1, '=') {
        let is_wrapping = |token: &&Token| {
            token.is('&') || token.is('*') || token.is('(') || token.word() == Some("Some")
        };
        let value = tokens[at + 2..].iter().find(|token| !is_wrapping(token));
        return value.is_some_and(is_text);
    }
    match asked_by(tokens, field) {
        Some("match") => {
            let block = tokens[at..].iter().position(|token| token.is('{'));
            let block = block.map(|length| at + length);
            block.is_some_and(|open| has_text_pattern(&tokens[open..=closing(tokens, open)]))
        }
        Some("matches") if sign(at, ',') => text(at + 1),
        _ => false,
    }
}

fn is_text(token: &Token) -> bool {
    matches!(token.kind, Kind::Text(_))
}

/// Returns the position of the bracket that closes the one at this position.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if ['(', '[', '{'].iter().any(|sign| token.is(*sign)) {
            depth += 1;
        } else if [')', ']', '}'].iter().any(|sign| token.is(*sign)) {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len() - 1
}

/// Returns the `match` or `matches` whose subject contains the field.
fn asked_by(tokens: &[Token], field: usize) -> Option<&str> {
    let before = tokens[..field].iter().rev();
    before
        .map_while(|token| match token.word() {
            Some(word) => Some(word),
            None => ['.', '&', '*', '(', '!', ',']
                .iter()
                .any(|it| token.is(*it))
                .then_some(""),
        })
        .find(|word| matches!(*word, "match" | "matches"))
}

/// Returns true if the pattern of an arm contains a string literal. The block has its brackets.
fn has_text_pattern(block: &[Token]) -> bool {
    let mut at = 1;
    while at < block.len() {
        let arrow = |pair: &[Token]| pair[0].is('=') && pair[1].is('>');
        let Some(length) = block[at..].windows(2).position(arrow) else {
            return false;
        };
        let is_pattern = |token: &&Token| token.word() != Some("if");
        if block[at..at + length]
            .iter()
            .take_while(is_pattern)
            .any(is_text)
        {
            return true;
        }
        at = end_of_body(block, at + length + 2);
    }
    false
}

/// Returns the position after the body of an arm.
fn end_of_body(block: &[Token], begin: usize) -> usize {
    let mut at = begin;
    while at < block.len() && !block[at].is(',') {
        let is_block = at == begin && block[at].is('{');
        if ['(', '[', '{'].iter().any(|sign| block[at].is(*sign)) {
            at = closing(block, at);
        }
        at += 1;
        if is_block {
            return at;
        }
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn findings(file: &str, text: &str) -> usize {
        let root = "mod blame; mod other;";
        let tree = Tree::of(&[
            ("crates/ostler/Cargo.toml", ""),
            ("crates/ostler/src/lib.rs", root),
            (file, text),
        ]);
        check(&Modules::of(&tree)).len()
    }

    #[test]
    fn only_a_blame_module_compares_texts() {
        for condition in [
            r#"notice.code.as_str() == "x""#,
            r#"*notice.code != *"x""#,
            r#"detail.native.as_deref() == Some("x")"#,
            r#"outcome.message.to_lowercase().contains("x")"#,
            r#"refused.why.starts_with("x")"#,
            r#"matches!(notice.code.as_str(), "x" | "y")"#,
            r#"match notice.code.as_str() { "x" => true, _ => false }"#,
            r#"match (cause, detail.native.as_deref()) { (_, Some("x")) => true, _ => false }"#,
        ] {
            let text = format!("fn f() -> bool {{ {condition} }}");
            assert_eq!(findings("crates/ostler/src/other.rs", &text), 1, "{text}");
            assert_eq!(findings("crates/ostler/src/blame.rs", &text), 0, "{text}");
            let test = format!("#[cfg(test)] mod tests {{ {text} }}");
            assert_eq!(findings("crates/ostler/src/other.rs", &test), 0, "{test}");
        }
    }

    #[test]
    fn variants_and_other_texts_are_no_finding() {
        for condition in [
            "notice.code == NoticeCode::Steered",
            r#"name == "x""#,
            r#"{ detail.native = Some("x".to_owned()); true }"#,
            r#"match notice.code { NoticeCode::Steered => say("x"), _ => false }"#,
            r#"format!("{}", notice.message) == "x""#,
        ] {
            let text = format!("fn f() -> bool {{ {condition} }}");
            assert_eq!(findings("crates/ostler/src/other.rs", &text), 0, "{text}");
        }
    }
}
