//! References in values: `${NAME}` is a variable of the caller's environment, so that a key need
//! not be in a file.

/// A piece of a value.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Splits a value into its pieces. `$${` is a literal `${`.
fn pieces(value: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.extend([Piece::Text(&rest[..at - 1]), Piece::Text("${")]);
            rest = &rest[at + 2..];
            continue;
        }
        let name = &rest[at + 2..];
        let end = name
            .find('}')
            .ok_or("${ has no }; write $${ for a literal ${")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if end == 0
            || !name[..end].chars().all(is_name)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(
                "expected a variable name between ${ and }; write $${ for a literal ${".into(),
            );
        }
        pieces.extend([Piece::Text(&rest[..at]), Piece::Variable(&name[..end])]);
        rest = &name[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// Checks that a value can be parsed.
pub(super) fn check(value: &str) -> Result<(), String> {
    pieces(value).map(drop)
}

/// Returns the value with its variables replaced.
///
/// # Errors
/// Returns an error that names the variable that is not set.
pub(super) fn resolve(
    value: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let known = |piece| match piece {
        Piece::Text(text) => Ok(text.to_owned()),
        Piece::Variable(name) => lookup(name)
            .ok_or_else(|| format!("the variable {name} is not set in your environment")),
    };
    pieces(value)?.into_iter().map(known).collect()
}

/// Returns the value for display: only the variables that it refers to.
pub(super) fn masked(value: &str) -> String {
    let pieces = pieces(value).unwrap_or_default();
    let shown: Vec<String> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(_) => "…".to_owned(),
            Piece::Variable(name) => format!("${{{name}}}"),
        })
        .collect();
    shown.concat().replace("……", "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_text_is_masked() {
        let lookup = |name: &str| (name == "KEY").then(|| "${secret}".to_owned());
        for (value, want, shown) in [
            ("", Ok(""), ""),
            ("plain", Ok("plain"), "…"),
            ("${KEY}", Ok("${secret}"), "${KEY}"),
            ("Bearer ${KEY}!", Ok("Bearer ${secret}!"), "…${KEY}…"),
            ("$${KEY} $5", Ok("${KEY} $5"), "…"),
            ("é${KEY}${KEY}", Ok("é${secret}${secret}"), "…${KEY}${KEY}"),
            (
                "${NONE}",
                Err("the variable NONE is not set in your environment"),
                "${NONE}",
            ),
            ("${KEY", Err("${ has no }; write $${ for a literal ${"), ""),
            (
                "${}",
                Err("expected a variable name between ${ and }; write $${ for a literal ${"),
                "",
            ),
            (
                "${1A}",
                Err("expected a variable name between ${ and }; write $${ for a literal ${"),
                "",
            ),
        ] {
            assert_eq!(
                resolve(value, &lookup).as_deref().map_err(String::as_str),
                want,
                "{value}"
            );
            assert_eq!(masked(value), shown, "{value}");
        }
    }
}
