//! References in values: `${NAME}` is a variable of the caller's environment, so that a key need
//! not be in a file.

/// A piece of a value.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// A reference that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("${{ has no }}; write $${{ for a literal ${{")]
    Unclosed,
    #[error("expected a variable name between ${{ and }}; write $${{ for a literal ${{")]
    NoName,
    #[error("the variable {0} is not set in your environment")]
    Unset(String),
}

/// Splits a value into its pieces. `$${` is a literal `${`.
fn pieces(value: &str) -> Result<Vec<Piece<'_>>, ReferenceError> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.extend([Piece::Text(&rest[..at - 1]), Piece::Text("${")]);
            rest = &rest[at + 2..];
            continue;
        }
        let name = &rest[at + 2..];
        let end = name.find('}').ok_or(ReferenceError::Unclosed)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if end == 0
            || !name[..end].chars().all(is_name)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(ReferenceError::NoName);
        }
        pieces.extend([Piece::Text(&rest[..at]), Piece::Variable(&name[..end])]);
        rest = &name[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// Checks that a value can be parsed.
pub(super) fn check(value: &str) -> Result<(), ReferenceError> {
    pieces(value).map(drop)
}

/// Returns the value with its variables replaced.
///
/// # Errors
/// Returns an error that names the variable that is not set.
pub(super) fn resolve(
    value: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ReferenceError> {
    let known = |piece| match piece {
        Piece::Text(text) => Ok(text.to_owned()),
        Piece::Variable(name) => lookup(name).ok_or_else(|| ReferenceError::Unset(name.to_owned())),
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
            let resolved = resolve(value, &lookup).map_err(|error| error.to_string());
            assert_eq!(resolved.as_deref().map_err(String::as_str), want, "{value}");
            assert_eq!(masked(value), shown, "{value}");
        }
    }
}
