//! Lint attributes: no `#[allow(…)]` and no `#![allow(…)]` anywhere, tests included.
//!
//! The compiler warns about an `expect` that is no longer needed, but not about an `allow`.

use super::Finding;
use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        let all = tokens(text);
        for (at, token) in all.iter().enumerate() {
            let opens =
                token.word() == Some("allow") && all.get(at + 1).is_some_and(|next| next.is('('));
            if opens && in_attribute(&all[..at]) {
                let message = "an allow attribute (write `#[expect(…, reason = \"…\")]`)";
                findings.push(Finding::new(path, token.line, message));
            }
        }
    }
    findings
}

/// Returns true if the tokens end inside an open `#[` or `#![`.
fn in_attribute(before: &[Token]) -> bool {
    let mut closed = 0_usize;
    for (at, token) in before.iter().enumerate().rev() {
        match token.kind {
            Kind::Sign(']') => closed += 1,
            Kind::Sign('[') if closed > 0 => closed -= 1,
            Kind::Sign('[') => {
                let sign = |back: usize, sign: char| {
                    at.checked_sub(back).is_some_and(|i| before[i].is(sign))
                };
                return sign(1, '#') || sign(1, '!') && sign(2, '#');
            }
            Kind::Sign('{' | '}' | ';') => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&Tree::of(&[("crates/a/src/lib.rs", text)])).len()
    }

    #[test]
    fn allow_is_found_in_every_form() {
        for text in [
            "#[allow(dead_code)] fn f() {}",
            "#![allow(dead_code)]",
            "#[cfg_attr(unix, allow(dead_code))] fn f() {}",
            "#[cfg(test)] mod t { #[allow(x)] fn f() {} }",
        ] {
            assert_eq!(findings(text), 1, "{text}");
        }
    }

    #[test]
    fn a_function_named_allow_is_not_an_attribute() {
        assert_eq!(
            findings("fn f() { x[0].allow(1); [allow(2)] } // #[allow(x)]"),
            0
        );
    }
}
