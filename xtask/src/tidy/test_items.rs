//! Separation of product code from items under `#[cfg(test)]`.

use super::tokens::{Kind, Token};

/// Splits the tokens into product code and the items under `#[cfg(test)]`.
pub(super) fn split_tests(all: &[Token]) -> (Vec<Token>, Vec<Vec<Token>>) {
    let (mut product, mut tests) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < all.len() {
        let end = if is_cfg_test(&all[at..]) {
            item_end(all, at)
        } else {
            at
        };
        if end > at {
            tests.push(all[at..end].to_vec());
            at = end;
        } else {
            product.push(all[at].clone());
            at += 1;
        }
    }
    (product, tests)
}

fn is_cfg_test(tokens: &[Token]) -> bool {
    let opens = tokens.len() > 5
        && tokens[0].is('#')
        && tokens[1].is('[')
        && tokens[2].word() == Some("cfg");
    if !opens {
        return false;
    }
    let inside: Vec<&Token> = tokens[3..]
        .iter()
        .take_while(|token| !token.is(']'))
        .collect();
    let has = |name: &str| inside.iter().any(|token| token.word() == Some(name));
    has("test") && !has("not") && !has("any")
}

/// Returns the end of the item that begins with an attribute.
///
/// An item ends after its braces or its semicolon; a field, a variant or an arm after its comma.
fn item_end(all: &[Token], from: usize) -> usize {
    const ITEMS: &[&str] = &[
        "fn", "impl", "mod", "struct", "enum", "trait", "type", "use", "const", "static",
    ];
    let mut depth = 0_usize;
    let mut is_item = false;
    for (at, token) in all.iter().enumerate().skip(from) {
        match token.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign(sign @ ('}' | ')' | ']')) => {
                depth = depth.saturating_sub(1);
                if depth == 0 && sign == '}' {
                    return at + 1;
                }
            }
            Kind::Sign(';') if depth == 0 => return at + 1,
            Kind::Sign(',') if depth == 0 && !is_item => return at + 1,
            Kind::Word(ref word) if depth == 0 => is_item |= ITEMS.contains(&word.as_str()),
            _ => {}
        }
    }
    all.len()
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn test_items_are_split_from_product_code() {
        let (product, tests) = split_tests(&tokens(
            "fn a() {} #[cfg(test)] mod tests { fn t() { x[0]; } } #[cfg(test)] impl X<Y, Z> { } fn b() {}",
        ));
        let words = |all: &[Token]| {
            all.iter()
                .filter_map(|t| t.word().map(str::to_owned))
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&product), ["fn", "a", "fn", "b"]);
        assert_eq!(
            words(&tests.concat()),
            [
                "cfg", "test", "mod", "tests", "fn", "t", "x", "0", "cfg", "test", "impl", "X",
                "Y", "Z"
            ]
        );
    }
}
