//! The table of an agent's settings: each key with what it may hold, checked in one place.

use ostler_core::dialect::Setting;
use ostler_core::spec::{Kind, Settings, SpecError};

/// One key of an agent. `P` says how the agent is told.
pub(crate) struct Row<P: 'static> {
    /// The key.
    pub(crate) key: &'static str,
    /// What its value must look like.
    pub(crate) kind: Kind,
    /// What it does.
    pub(crate) help: &'static str,
    /// What a value must keep to beyond its kind; none when the kind says it all.
    pub(crate) rule: Option<Rule>,
    /// Whether a value may hold secrets, and is not to be repeated in an error.
    pub(crate) secret: bool,
    /// How the agent is told.
    pub(crate) pass: P,
}

/// Checks one value and says what is wrong with it.
pub(crate) type Rule = fn(&str) -> Result<(), String>;

/// What the table tells the documentation and `--set`.
pub(crate) fn listed<P>(table: &[Row<P>]) -> Vec<Setting> {
    let words = |kind: Kind| {
        if let Kind::OneOf(words) = kind {
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

/// Refuses a transport that this build lacks.
///
/// # Errors
/// Returns an error in a build without the feature `acp`.
pub(crate) fn need_acp(key: &str) -> Result<(), SpecError> {
    let why = "this build does not speak ACP: enable the feature `acp` of the crate `ostler`";
    if cfg!(feature = "acp") {
        Ok(())
    } else {
        Err(SpecError::new(key, "acp", why))
    }
}

/// Checks every setting against the table.
///
/// # Errors
/// Names the first setting that is unknown or wrong.
pub(crate) fn check<P>(table: &[Row<P>], settings: &Settings) -> Result<(), SpecError> {
    for (key, values) in settings.iter() {
        let Some(row) = table.iter().find(|row| row.key == key) else {
            // A misspelt key may be one whose value is a secret.
            return Err(SpecError::secret(key, unknown(table, key)));
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

/// How alike two keys must be for one to be offered in place of the other.
const ALIKE: f64 = 0.75;

fn unknown<P>(table: &[Row<P>], key: &str) -> String {
    let plain = key.to_lowercase().replace('-', "_");
    let mut near: Vec<(f64, &str)> = table
        .iter()
        .map(|row| (strsim::jaro_winkler(&plain, row.key), row.key))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names = |keys: Vec<&str>| keys.join(", ");
    if near.is_empty() {
        format!(
            "unknown setting; there are: {}",
            names(table.iter().map(|row| row.key).collect())
        )
    } else {
        format!(
            "unknown setting; did you mean {}?",
            names(near.iter().take(3).map(|(_, key)| *key).collect())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Row<()>] = &[
        Row {
            key: "model",
            kind: Kind::Word,
            help: "",
            rule: None,
            secret: false,
            pass: (),
        },
        Row {
            key: "password",
            kind: Kind::Count,
            help: "",
            rule: None,
            secret: true,
            pass: (),
        },
        Row {
            key: "max_turns",
            kind: Kind::Count,
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
    fn unknown_keys_get_the_nearest_and_wrong_values_their_reason() {
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
            "zzz: unknown setting; there are: model, password, max_turns"
        );
        assert_eq!(why("max_turns", "13"), "max_turns = \"13\": not 13");
        assert_eq!(
            why("password", "hunter2"),
            "password: expected a whole number of at least 1"
        );
    }
}
