//! Formats of setting values, and the error for a value that does not fit.

use std::borrow::Cow;

/// Format of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Non-empty text of at most this many characters.
    Text(usize),
    /// One word without spaces that does not start with a dash.
    Word,
    /// `true` or `false`.
    Switch,
    /// A whole number of at least 1.
    Count,
    /// A number greater than 0.
    Amount,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// Any number of non-empty texts.
    List,
    /// Any number of non-empty texts; a single empty one means "none".
    ListOrNone,
    /// A JSON object.
    Object,
    /// A UUID.
    Uuid,
}

/// Invalid setting. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {why}", display_value(.value, *.secret))]
pub struct SpecError {
    /// The setting.
    pub key: String,
    /// The given value; empty if it may be secret.
    pub value: String,
    /// What is allowed.
    pub why: String,
    /// Whether the value was omitted.
    secret: bool,
}

fn display_value(value: &str, secret: bool) -> String {
    if secret {
        String::new()
    } else {
        format!(" = {value:?}")
    }
}

impl SpecError {
    /// Creates an error for an invalid value. A long value is shortened at a character boundary.
    #[must_use]
    pub fn new(key: &str, value: &str, why: impl Into<String>) -> Self {
        let short = &value[..value.floor_char_boundary(80)];
        let value = if short.len() < value.len() {
            format!("{short}…")
        } else {
            value.to_owned()
        };
        Self {
            key: key.to_owned(),
            value,
            why: why.into(),
            secret: false,
        }
    }

    /// Creates an error for an invalid value that may be or contain a secret. The value is omitted.
    #[must_use]
    pub fn secret(key: &str, why: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: String::new(),
            why: why.into(),
            secret: true,
        }
    }
}

/// The reason why a setting does not accept a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(pub Cow<'static, str>);

impl InvalidValue {
    /// Returns this error unless the value is valid.
    ///
    /// # Errors
    /// Returns what was expected.
    pub fn unless(is_valid: bool, expected: &'static str) -> Result<(), Self> {
        is_valid.then_some(()).ok_or(Self(expected.into()))
    }

    /// Returns this error for another one that says what is wrong.
    #[must_use]
    pub fn from_error(error: &impl ToString) -> Self {
        Self(error.to_string().into())
    }
}

impl ValueKind {
    /// Validates the values of a key.
    ///
    /// # Errors
    /// Names the key, the value, and what is allowed.
    pub fn check(self, key: &str, values: &[String]) -> Result<(), SpecError> {
        let many = matches!(self, Self::List | Self::ListOrNone);
        if !many && values.len() != 1 {
            return Err(SpecError::new(
                key,
                &values.join(", "),
                "expected one value",
            ));
        }
        if self == Self::ListOrNone && values.len() == 1 && values[0].is_empty() {
            return Ok(());
        }
        values
            .iter()
            .try_for_each(|value| match self.violation(value) {
                Some(why) => Err(SpecError::new(key, value, why)),
                None => Ok(()),
            })
    }

    fn violation(self, value: &str) -> Option<String> {
        if value.contains('\0') {
            return Some("a NUL character cannot be passed to a program".into());
        }
        let (ok, expected) = match self {
            Self::Text(max) => (
                !value.is_empty() && value.chars().nth(max).is_none(),
                format!("expected text of 1 to {max} characters"),
            ),
            Self::Word => (
                !value.is_empty()
                    && !value.starts_with('-')
                    && !value.contains(|c: char| c.is_whitespace() || c.is_control()),
                "expected one word that does not start with a dash".into(),
            ),
            Self::Switch => (
                matches!(value, "true" | "false"),
                "expected true or false".into(),
            ),
            Self::Count => (
                value.parse::<u32>().is_ok_and(|n| n > 0),
                "expected a whole number of at least 1".into(),
            ),
            Self::Amount => (
                value.parse::<f64>().is_ok_and(|n| n.is_finite() && n > 0.0),
                "expected a number greater than 0".into(),
            ),
            Self::OneOf(words) => (
                words.contains(&value),
                format!("expected one of: {}", words.join(", ")),
            ),
            Self::List | Self::ListOrNone => (
                !value.trim().is_empty(),
                "expected a value that is not empty".into(),
            ),
            Self::Object => (is_object(value), "expected a JSON object".into()),
            Self::Uuid => (
                is_uuid(value),
                "expected a UUID such as 123e4567-e89b-42d3-a456-426614174000".into(),
            ),
        };
        (!ok).then_some(expected)
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Returns true if `text` is a UUID in the usual form of five groups.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-17: every kind rejects invalid values, and the error names the key, the value and what is
    // allowed.
    #[test]
    fn kinds_accept_and_reject() {
        let long = "x".repeat(11);
        let table: &[(ValueKind, &[&str], &[&str])] = &[
            (
                ValueKind::Text(10),
                &["a", "0123456789", "--x"],
                &["", &long, "a\0b"],
            ),
            (
                ValueKind::Word,
                &["opus", "claude-opus-5-5"],
                &["", "two words", "-x", "a\nb"],
            ),
            (ValueKind::Switch, &["true", "false"], &["", "yes", "TRUE"]),
            (ValueKind::Count, &["1", "20"], &["0", "-1", "1.5", "", "x"]),
            (
                ValueKind::Amount,
                &["0.5", "10", "1e-7"],
                &["0", "-1", "NaN", "inf", ""],
            ),
            (ValueKind::OneOf(&["low", "high"]), &["low"], &["Low", ""]),
            (ValueKind::List, &["Bash(git *)"], &["", " "]),
            (ValueKind::ListOrNone, &["Bash", ""], &[" "]),
            (
                ValueKind::Object,
                &["{}", " {\"a\":1}"],
                &["[]", "{", "\"x\"", ""],
            ),
            (
                ValueKind::Uuid,
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123", "123e4567e89b42d3a456426614174000", "--version"],
            ),
        ];
        for (kind, good, bad) in table {
            for v in *good {
                assert_eq!(
                    kind.check("k", &[(*v).to_string()]),
                    Ok(()),
                    "{kind:?} {v:?}"
                );
            }
            for v in *bad {
                let error = kind
                    .check("the_key", &[(*v).to_string()])
                    .expect_err(v)
                    .to_string();
                assert!(error.starts_with("the_key = "), "{error}");
            }
        }
    }

    #[test]
    fn two_values_are_rejected_where_one_is_expected() {
        assert!(
            ValueKind::Word
                .check("model", &["a".into(), "b".into()])
                .is_err()
        );
        assert!(
            ValueKind::List
                .check("tools", &["a".into(), "b".into()])
                .is_ok()
        );
    }

    #[test]
    fn a_secret_is_omitted_from_the_error() {
        let error = SpecError::secret("mcp_config", "expected a JSON object");
        assert_eq!(
            (error.to_string().as_str(), &*error.value),
            ("mcp_config: expected a JSON object", "")
        );
    }

    // P19
    #[test]
    fn a_long_value_is_shortened_at_a_character_boundary() {
        let value = format!("{}😀tail", "a".repeat(79));
        assert_eq!(
            SpecError::new("k", &value, "no").value,
            format!("{}…", "a".repeat(79))
        );
    }
}
