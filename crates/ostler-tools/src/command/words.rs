//! Splitting of example commands into words.

use crate::RuleError;

/// Splits a line into words at spaces, except within single or double quotes.
pub(super) fn split(line: &str) -> Result<Vec<String>, RuleError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(RuleError::new("a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_at_unquoted_spaces() {
        assert_eq!(
            split("git  commit -m 'a b' \"\" x\"y z\"").unwrap(),
            ["git", "commit", "-m", "a b", "", "xy z"]
        );
        assert!(split("git 'x").is_err());
        assert_eq!(split(" ").unwrap(), [""; 0]);
    }
}
