//! Tables of agent settings: each key with its allowed values, checked in one place.

use ostler_core::dialect::Setting;
use ostler_core::spec::{Settings, SpecError, ValueKind};

/// One setting of an agent. `P` describes how the agent receives it.
pub(crate) struct Row<P: 'static> {
    /// The key.
    pub(crate) key: &'static str,
    /// The kind of value.
    pub(crate) kind: ValueKind,
    /// Help text.
    pub(crate) help: &'static str,
    /// Additional check of a value, if its kind alone does not suffice.
    pub(crate) rule: Option<Rule>,
    /// Whether a value may hold secrets and must not be repeated in errors.
    pub(crate) secret: bool,
    /// How the agent receives the value.
    pub(crate) pass: P,
}

/// Checks one value and returns what is wrong with it.
pub(crate) type Rule = fn(&str) -> Result<(), String>;

/// Returns the table's rows for the documentation and `--set`.
pub(crate) fn list<P>(table: &[Row<P>]) -> Vec<Setting> {
    let words = |kind: ValueKind| {
        if let ValueKind::OneOf(words) = kind {
            words
        } else {
            &[]
        }
    };
    let setting = |row: &Row<P>| Setting {
        key: row.key,
        help: row.help,
        secret: row.secret,
        words: words(row.kind),
    };
    table.iter().map(setting).collect()
}

/// Rejects the ACP transport in a build without it.
///
/// # Errors
/// Returns an error if the crate was built without the feature `acp`.
pub(crate) fn require_acp(key: &str) -> Result<(), SpecError> {
    let why = "this build does not support ACP; enable the feature `acp` of the crate `ostler`";
    if cfg!(feature = "acp") {
        Ok(())
    } else {
        Err(SpecError::new(key, "acp", why))
    }
}

/// Checks every setting against the table.
///
/// # Errors
/// Returns an error for the first setting that is unknown or invalid.
pub(crate) fn check<P>(table: &[Row<P>], settings: &Settings) -> Result<(), SpecError> {
    for (key, values) in settings.iter() {
        let Some(row) = table.iter().find(|row| row.key == key) else {
            // The misspelled key may be one whose value is a secret.
            return Err(SpecError::secret(key, unknown_key(table, key)));
        };
        row.check(values).map_err(|error| {
            if row.secret {
                SpecError::secret(key, error.why)
            } else {
                error
            }
        })?;
    }
    Ok(())
}

impl<P> Row<P> {
    fn check(&self, values: &[String]) -> Result<(), SpecError> {
        self.kind.check(self.key, values)?;
        let Some(rule) = self.rule else { return Ok(()) };
        values
            .iter()
            .filter(|value| !value.is_empty())
            .try_for_each(|value| rule(value).map_err(|why| SpecError::new(self.key, value, why)))
    }
}

/// Minimum similarity of a key to be suggested for an unknown one.
const MIN_SIMILARITY: f64 = 0.75;

fn unknown_key<P>(table: &[Row<P>], key: &str) -> String {
    let normalized = key.to_lowercase().replace('-', "_");
    let mut similar: Vec<(f64, &str)> = table
        .iter()
        .map(|row| (strsim::jaro_winkler(&normalized, row.key), row.key))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names = |keys: Vec<&str>| keys.join(", ");
    if similar.is_empty() {
        format!(
            "unknown setting; known settings are: {}",
            names(table.iter().map(|row| row.key).collect())
        )
    } else {
        format!(
            "unknown setting; did you mean {}?",
            names(similar.iter().take(3).map(|(_, key)| *key).collect())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Row<()>] = &[
        Row {
            key: "model",
            kind: ValueKind::Word,
            help: "",
            rule: None,
            secret: false,
            pass: (),
        },
        Row {
            key: "password",
            kind: ValueKind::Count,
            help: "",
            rule: None,
            secret: true,
            pass: (),
        },
        Row {
            key: "max_turns",
            kind: ValueKind::Count,
            help: "",
            rule: Some(|v| {
                if v == "13" {
                    Err("not 13".into())
                } else {
                    Ok(())
                }
            }),
            secret: false,
            pass: (),
        },
    ];

    fn why(key: &str, value: &str) -> String {
        let mut settings = Settings::default();
        settings.set(key, value);
        check(TABLE, &settings).map_or_else(|e| e.to_string(), |()| "ok".into())
    }

    // S3-17
    #[test]
    fn unknown_keys_get_suggestions_and_invalid_values_a_reason() {
        assert_eq!(why("model", "opus"), "ok");
        assert_eq!(
            why("modle", "opus"),
            "modle: unknown setting; did you mean model?"
        );
        assert_eq!(
            why("Max-Turns", "3"),
            "Max-Turns: unknown setting; did you mean max_turns?"
        );
        assert_eq!(
            why("zzz", "3"),
            "zzz: unknown setting; known settings are: model, password, max_turns"
        );
        assert_eq!(why("max_turns", "13"), "max_turns = \"13\": not 13");
        assert_eq!(
            why("password", "hunter2"),
            "password: expected a whole number of at least 1"
        );
    }
}
