//! Functions of a Rust file, as the requirements name them: whether the test harness runs them,
//! and their comments.

use super::tokens::{Kind, Token, tokens};

/// A function with its attributes and comments.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    /// The words of each attribute.
    attributes: Vec<Vec<String>>,
    /// The comments above and inside it.
    pub(super) comments: String,
}

impl Function {
    /// Returns true if the test harness runs it.
    pub(super) fn is_test(&self) -> bool {
        let has = |path: &[&str]| {
            self.attributes
                .iter()
                .any(|words| words.iter().zip(path).all(|(a, b)| a == b))
        };
        (has(&["test"]) || has(&["tokio", "test"])) && !has(&["ignore"])
    }
}

/// Returns every function of a file that has a body.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let all = tokens(text);
    let lines: Vec<&str> = text.lines().collect();
    let named = |at: usize| {
        (all[at].word() == Some("fn"))
            .then(|| all.get(at + 1)?.word())
            .flatten()
    };
    let found = (0..all.len()).filter_map(|at| {
        let name = named(at)?.to_owned();
        let (first, attributes) = opening(&all, at);
        let last = body_end(&all, at)?;
        Some(Function {
            name,
            attributes,
            comments: comments(&lines, all[first].line, all[last].line),
        })
    });
    found.collect()
}

/// Returns the index of the first token of the `fn` item, and its attributes.
fn opening(all: &[Token], at: usize) -> (usize, Vec<Vec<String>>) {
    const BEFORE: &[&str] = &[
        "pub", "crate", "super", "in", "async", "const", "unsafe", "extern",
    ];
    let (mut first, mut attributes) = (at, Vec::new());
    while let Some(before) = first.checked_sub(1) {
        let token = &all[before];
        if token.is('(') || token.is(')') || token.word().is_some_and(|word| BEFORE.contains(&word))
        {
            first = before;
        } else if let Some(open) = token
            .is(']')
            .then(|| matching(all, before))
            .flatten()
            .filter(|open| *open > 0)
            && all[open - 1].is('#')
        {
            attributes.push(
                all[open..before]
                    .iter()
                    .filter_map(|token| token.word().map(str::to_owned))
                    .collect(),
            );
            first = open - 1;
        } else {
            break;
        }
    }
    (first, attributes)
}

/// Returns the index of the matching opening bracket.
fn matching(all: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (0..=close).rev().find(|at| {
        match all[*at].kind {
            Kind::Sign(']' | ')' | '}') => depth += 1,
            Kind::Sign('[' | '(' | '{') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Returns the index of the body's closing brace, or `None` for a function without a body.
fn body_end(all: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in all.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign(sign @ ('}' | ')' | ']')) => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && sign == '}' {
                    return Some(at);
                }
            }
            Kind::Sign(';') if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn comments(lines: &[&str], first: usize, last: usize) -> String {
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let above = lines[..first - 1].iter().rev().take_while(is_comment);
    let inside = lines[first - 1..last]
        .iter()
        .filter_map(|line| line.find("//").map(|at| &line[at..]));
    above.copied().chain(inside).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_distinguished_from_other_functions() {
        let text = "// P1: why\n#[tokio::test(flavor = \"x\")]\nasync fn a() {\n    let x = [1]; // P2\n}\n// P3\n#[test]\n#[ignore]\nfn b() {}\n\
                    // fn c() {}\n/// P4\npub(crate) fn d(x: &[u8; 3]) -> [u8; 1] { x }\ntrait T { fn e(); }\n#[test] fn f() {}";
        let found = functions(text);
        let names: Vec<(&str, bool)> = found
            .iter()
            .map(|it| (it.name.as_str(), it.is_test()))
            .collect();
        assert_eq!(
            names,
            [("a", true), ("b", false), ("d", false), ("f", true)]
        );
        assert!(
            found[0].comments.contains("P1: why") && found[0].comments.contains("P2"),
            "{found:?}"
        );
        assert!(
            !found[0].comments.contains("P3")
                && found[2].comments.contains("P4")
                && found[3].comments.is_empty()
        );
    }
}
