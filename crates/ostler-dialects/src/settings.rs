//! Tables of agent settings: each key with its allowed values and its arguments, checked in one
//! place.

use ostler_core::dialect::{ARG_CAP, Arg, Pass, Setting};
use ostler_core::near::suggestion;
use ostler_core::spec::{Settings, SpecError, keys};

/// Settings, one per row: `key, kind [if rule] [=> pass], help;`.
macro_rules! rows {
    (@pass) => { ostler_core::dialect::Pass::Kept };
    (@pass $pass:ident $(($flag:expr))?) => { ostler_core::dialect::Pass::$pass $(($flag))? };
    ($(
        $key:expr, $kind:ident $(($limit:expr))? $(if $rule:path)?
            $(=> $pass:ident $(($flag:expr))?)?, $help:literal;
    )*) => {
        [$(ostler_core::dialect::Setting {
            key: $key,
            kind: ostler_core::spec::ValueKind::$kind $(($limit))?,
            rules: &[$($rule)?],
            pass: crate::settings::rows!(@pass $($pass $(($flag))?)?),
            help: $help,
        },)*]
    };
}
pub(crate) use rows;

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
pub(crate) fn check(table: &[Setting], settings: &Settings) -> Result<(), SpecError> {
    for (key, values) in settings.iter() {
        let Some(setting) = table.iter().find(|setting| setting.key == key) else {
            return Err(SpecError::secret(key, unknown_key(table, key)));
        };
        check_values(setting, values).map_err(|error| {
            if setting.is_secret() {
                SpecError::secret(key, error.why)
            } else {
                error
            }
        })?;
    }
    if settings.is_on(keys::FORK) && settings.last(keys::RESUME).is_none() {
        return Err(SpecError::new(keys::FORK, "true", "needs resume"));
    }
    Ok(())
}

fn check_values(setting: &Setting, values: &[String]) -> Result<(), SpecError> {
    setting.kind.check(setting.key, values)?;
    for value in values.iter().filter(|value| !value.is_empty()) {
        for rule in setting.rules {
            rule(value).map_err(|why| SpecError::new(setting.key, value, why.0))?;
        }
    }
    Ok(())
}

/// Returns the arguments for the settings, in the order of the table.
///
/// # Errors
/// Returns an error for a value that is too long for an argument.
pub(crate) fn arguments(table: &[Setting], settings: &Settings) -> Result<Vec<Arg>, SpecError> {
    let mut args = Vec::new();
    for setting in table {
        let values = settings.get(setting.key).unwrap_or_default();
        let in_file = |value: &str| match setting.pass {
            Pass::File(_) => true,
            Pass::Json(_) => is_json(value),
            _ => false,
        };
        for value in values.iter().filter(|value| !in_file(value)) {
            check_length(setting, value)?;
        }
        let is_on = |default: bool| values.last().map_or(default, |value| value == "true");
        match setting.pass {
            Pass::Switch(flag) if is_on(false) => args.push(flag.into()),
            Pass::SwitchOff(flag) if is_on(true) => args.push(flag.into()),
            Pass::Custom(convert) if !values.is_empty() => args.extend(convert(values, settings)),
            Pass::Value(prefix) | Pass::File(prefix) | Pass::Json(prefix) => {
                let (flag, prefix) = match prefix.contains('=') {
                    true => (None, prefix),
                    false => (Some(prefix), ""),
                };
                for value in values {
                    args.extend(flag.map(Arg::from));
                    args.push(match in_file(value) {
                        true => Arg::InFile {
                            prefix,
                            text: value.clone(),
                        },
                        false => format!("{prefix}{value}").into(),
                    });
                }
            }
            _ => {}
        }
    }
    Ok(args)
}

/// Rejects a value that is too long for an argument.
///
/// # Errors
/// Returns an error if the value is longer than [`ARG_CAP`].
fn check_length(setting: &Setting, value: &str) -> Result<(), SpecError> {
    let why = "exceeds the command-line limit of 100 KiB";
    match value.len() > ARG_CAP {
        true if setting.is_secret() => Err(SpecError::secret(setting.key, why)),
        true => Err(SpecError::new(setting.key, value, why)),
        false => Ok(()),
    }
}

/// Returns true if the value is JSON rather than a path.
pub(crate) fn is_json(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

/// The part of a rule outside parentheses, which do not nest.
pub(crate) struct OutsideParentheses {
    /// The characters.
    pub(crate) text: String,
    /// Whether the last parenthesis is closed.
    pub(crate) is_closed: bool,
}

impl OutsideParentheses {
    /// Reads a rule such as `Bash(git log *)`.
    pub(crate) fn of(rule: &str) -> Self {
        let (mut text, mut is_closed) = (String::new(), true);
        for c in rule.chars() {
            match c {
                '(' | ')' => is_closed = c == ')',
                c if is_closed => text.push(c),
                _ => {}
            }
        }
        Self { text, is_closed }
    }
}

fn unknown_key(table: &[Setting], key: &str) -> String {
    let known: Vec<&str> = table.iter().map(|setting| setting.key).collect();
    format!("unknown setting; {}", suggestion(key, &known))
}

#[cfg(test)]
mod tests {
    use ostler_core::spec::InvalidValue;

    use super::*;

    fn not_13(value: &str) -> Result<(), InvalidValue> {
        InvalidValue::unless(value != "13", "not 13")
    }

    const TABLE: &[Setting] = &rows! {
        "model", Word, "";
        "password", Count => Secret, "";
        "max_turns", Count if not_13, "";
    };

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
            "zzz: unknown setting; known: model, password, max_turns"
        );
        assert_eq!(why("max_turns", "13"), "max_turns = \"13\": not 13");
        assert_eq!(
            why("password", "hunter2"),
            "password: expected a whole number of at least 1"
        );
    }
}
