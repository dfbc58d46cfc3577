//! Settings by key, and the fields of a spec that some of them set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Spec;
use super::value::{SpecError, ValueKind};

/// Keys of the settings that mean the same for every agent that has them.
pub mod keys {
    /// The model.
    pub const MODEL: &str = "model";
    /// Replacement for the agent's system prompt.
    pub const SYSTEM_PROMPT: &str = "system_prompt";
    /// Text appended to the agent's system prompt.
    pub const APPEND_SYSTEM_PROMPT: &str = "append_system_prompt";
    /// What the agent may do without asking.
    pub const PERMISSION_MODE: &str = "permission_mode";
    /// Tools that are available.
    pub const TOOLS: &str = "tools";
    /// Tools allowed without asking.
    pub const ALLOWED_TOOLS: &str = "allowed_tools";
    /// Tools that are never allowed.
    pub const DISALLOWED_TOOLS: &str = "disallowed_tools";
    /// MCP servers, as files or JSON.
    pub const MCP_CONFIG: &str = "mcp_config";
    /// Whether only the given MCP servers are used.
    pub const STRICT_MCP: &str = "strict_mcp";
    /// JSON schema of a structured answer.
    pub const JSON_SCHEMA: &str = "json_schema";
    /// Maximum number of steps.
    pub const MAX_TURNS: &str = "max_turns";
    /// Maximum cost in US dollars.
    pub const MAX_BUDGET_USD: &str = "max_budget_usd";
    /// Id of a new session.
    pub const SESSION_ID: &str = "session_id";
    /// Session to resume.
    pub const RESUME: &str = "resume";
    /// Whether a copy of the session is resumed.
    pub const FORK: &str = "fork";
    /// Additional directories the agent may use.
    pub const ADD_DIR: &str = "add_dir";
    /// Preset: the agent works on files through one of Ostler's programs, and has no other tools.
    pub const WORKSPACE_TOOLS: &str = "workspace_tools";
    /// Whether text is streamed while it is generated.
    pub const INCLUDE_PARTIAL: &str = "include_partial";
}

/// Settings by key, as a person or a file gives them. A key may have several values.
/// [`Spec::apply`] puts them into a spec.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Vec<String>>);

/// Shows only the keys, because a value may be secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Settings {
    /// Sets a key to one value, replacing any others.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), vec![value.into()]);
    }

    /// Adds a value to a key.
    pub fn push(&mut self, key: &str, value: impl Into<String>) {
        self.0.entry(key.to_owned()).or_default().push(value.into());
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Returns the values of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[String]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// Returns the only value of a key, or its last.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(<[String]>::last).map(String::as_str)
    }

    /// Returns true if a switch is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.last(key).is_some_and(|v| v == "true")
    }

    /// Returns every key with its values, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_slice()))
    }
}

/// Adds the values of a key that occurs several times.
impl<'a, V: Into<String>> FromIterator<(&'a str, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (&'a str, V)>>(pairs: I) -> Self {
        let mut settings = Self::default();
        for (key, value) in pairs {
            settings.push(key, value);
        }
        settings
    }
}

/// A field of a spec, as the values of a setting.
trait Field {
    /// Replaces the field. No values unset it.
    fn assign(&mut self, key: &str, values: &[String]) -> Result<(), SpecError>;

    /// Returns the values, none if the field is not set.
    fn values(&self) -> Vec<String>;
}

/// Keys whose values are long and may be confidential, so that no error repeats them.
const CONFIDENTIAL: [&str; 3] = [
    keys::SYSTEM_PROMPT,
    keys::APPEND_SYSTEM_PROMPT,
    keys::JSON_SCHEMA,
];

impl Field for Option<String> {
    fn assign(&mut self, key: &str, values: &[String]) -> Result<(), SpecError> {
        let why = "expected one value";
        *self = match values {
            [] => None,
            [value] => Some(value.clone()),
            _ if CONFIDENTIAL.contains(&key) => return Err(SpecError::secret(key, why)),
            _ => return Err(SpecError::new(key, &values.join(", "), why)),
        };
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.iter().cloned().collect()
    }
}

/// Implements [`Field`] for a field with one value that is not text.
macro_rules! parsed {
    ($type:ty, $kind:expr) => {
        impl Field for Option<$type> {
            fn assign(&mut self, key: &str, values: &[String]) -> Result<(), SpecError> {
                if !values.is_empty() {
                    $kind.check(key, values)?;
                }
                *self = values.first().and_then(|value| value.parse().ok());
                Ok(())
            }

            fn values(&self) -> Vec<String> {
                self.iter().map(ToString::to_string).collect()
            }
        }
    };
}

parsed!(u32, ValueKind::Count);
parsed!(f64, ValueKind::Amount);
parsed!(bool, ValueKind::Switch);

impl Field for bool {
    fn assign(&mut self, key: &str, values: &[String]) -> Result<(), SpecError> {
        if !values.is_empty() {
            ValueKind::Switch.check(key, values)?;
        }
        *self = values.first().is_some_and(|value| value == "true");
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.then(|| "true".to_owned()).into_iter().collect()
    }
}

impl Field for Vec<String> {
    fn assign(&mut self, _: &str, values: &[String]) -> Result<(), SpecError> {
        *self = values.to_vec();
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.clone()
    }
}

impl Field for Vec<PathBuf> {
    fn assign(&mut self, _: &str, values: &[String]) -> Result<(), SpecError> {
        *self = values.iter().map(PathBuf::from).collect();
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        let shown = self.iter().map(|path| path.display().to_string());
        shown.collect()
    }
}

/// A single empty value means none, which is not the same as a list that is not set.
impl Field for Option<Vec<String>> {
    fn assign(&mut self, _: &str, values: &[String]) -> Result<(), SpecError> {
        *self = match values {
            [] => None,
            [none] if none.is_empty() => Some(Vec::new()),
            values => Some(values.to_vec()),
        };
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        match self {
            None => Vec::new(),
            Some(none) if none.is_empty() => vec![String::new()],
            Some(values) => values.clone(),
        }
    }
}

/// Defines which keys set which fields.
macro_rules! fields {
    ($($key:path => $field:ident,)*) => {
        /// Keys that are fields of a spec.
        const FIELDS: &[&str] = &[$($key),*];

        impl Spec {
            fn field(&self, key: &str) -> Option<&dyn Field> {
                match key {
                    $($key => Some(&self.$field),)*
                    _ => None,
                }
            }

            fn field_mut(&mut self, key: &str) -> Option<&mut dyn Field> {
                match key {
                    $($key => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

fields! {
    keys::MODEL => model,
    keys::SYSTEM_PROMPT => system_prompt,
    keys::APPEND_SYSTEM_PROMPT => append_system_prompt,
    keys::PERMISSION_MODE => permission_mode,
    keys::TOOLS => tools,
    keys::ALLOWED_TOOLS => allowed_tools,
    keys::DISALLOWED_TOOLS => disallowed_tools,
    keys::JSON_SCHEMA => json_schema,
    keys::MAX_TURNS => max_turns,
    keys::MAX_BUDGET_USD => max_budget_usd,
    keys::SESSION_ID => session_id,
    keys::RESUME => resume,
    keys::FORK => fork,
    keys::ADD_DIR => add_dirs,
    keys::INCLUDE_PARTIAL => include_partial,
}

impl Spec {
    /// Sets a setting by its key, replacing its values. No values unset it.
    ///
    /// Keys of the fields set the fields. Any other key is for one agent, which rejects those that
    /// it does not know.
    ///
    /// # Errors
    /// If the values do not fit the field.
    pub fn set<V: Into<String>>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Result<(), SpecError> {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        if let Some(field) = self.field_mut(key) {
            return field.assign(key, &values);
        }
        if values.is_empty() {
            self.settings.0.remove(key);
        } else {
            self.settings.0.insert(key.to_owned(), values);
        }
        Ok(())
    }

    /// Adds a value to a setting.
    ///
    /// # Errors
    /// If the setting takes only one value, or not this one.
    pub fn push(&mut self, key: &str, value: impl Into<String>) -> Result<(), SpecError> {
        let mut values = self.values(key).unwrap_or_default();
        values.push(value.into());
        self.set(key, values)
    }

    /// Unsets a setting by its key.
    pub fn unset(&mut self, key: &str) {
        match self.field_mut(key) {
            // Every field can be empty.
            Some(field) => drop(field.assign(key, &[])),
            None => self.settings.remove(key),
        }
    }

    /// Sets every setting, as [`Spec::set`] does.
    ///
    /// # Errors
    /// If the values of a key do not fit its field.
    pub fn apply(&mut self, settings: &Settings) -> Result<(), SpecError> {
        settings
            .iter()
            .try_for_each(|(key, values)| self.set(key, values))
    }

    /// Returns the values of a setting, or `None` if it is not set.
    #[must_use]
    pub fn values(&self, key: &str) -> Option<Vec<String>> {
        match self.field(key) {
            Some(field) => Some(field.values()).filter(|values| !values.is_empty()),
            None => self.settings.get(key).map(<[String]>::to_vec),
        }
    }

    /// Returns the only value of a setting, or its last.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<String> {
        self.values(key)?.pop()
    }

    /// Returns true if a switch is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value == "true")
    }

    /// Returns every setting by its key, including those that are fields.
    #[must_use]
    pub fn to_settings(&self) -> Settings {
        let mut settings = self.settings.clone();
        for key in FIELDS {
            if let Some(values) = self.values(key) {
                settings.0.insert((*key).to_owned(), values);
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-17: a key sets its field, an error names the key, and reading by key returns the same.
    #[test]
    fn keys_set_the_fields_that_they_name() {
        let table: &[(&str, &[&str])] = &[
            (keys::MODEL, &["opus"]),
            (keys::TOOLS, &["Bash", "Edit"]),
            (keys::TOOLS, &[""]),
            (keys::ALLOWED_TOOLS, &["Bash(git *)"]),
            (keys::MAX_TURNS, &["3"]),
            (keys::MAX_BUDGET_USD, &["0.5"]),
            (keys::FORK, &["true"]),
            (keys::INCLUDE_PARTIAL, &["false"]),
            (keys::ADD_DIR, &["/a", "/b"]),
            ("effort", &["low"]),
        ];
        for (key, values) in table {
            let mut spec = Spec::default();
            assert_eq!(spec.values(key), None);
            spec.set(key, values.iter().copied()).unwrap();
            assert_eq!(spec.values(key).unwrap(), *values, "{key}");
            assert_eq!(spec.to_settings().get(key).unwrap(), *values, "{key}");
            assert_eq!(spec.to_settings().iter().count(), 1, "{key}");
            spec.unset(key);
            assert_eq!(spec.to_settings(), Settings::default(), "{key}");
        }
        let mut spec = Spec::default();
        spec.apply(&[("tools", ""), ("max_turns", "7")].into_iter().collect())
            .unwrap();
        assert_eq!((spec.tools, spec.max_turns), (Some(Vec::new()), Some(7)));
    }

    #[test]
    fn a_value_is_added_to_those_of_its_key() {
        let mut spec = Spec::default();
        for key in [keys::ADD_DIR, "effort"] {
            spec.push(key, "/a").unwrap();
            spec.push(key, "/b").unwrap();
            assert_eq!(spec.values(key).unwrap(), ["/a", "/b"], "{key}");
            assert_eq!(spec.value(key).as_deref(), Some("/b"), "{key}");
        }
        spec.push(keys::MODEL, "m").unwrap();
        assert!(spec.push(keys::MODEL, "n").is_err(), "it has one value");
        assert_eq!(spec.value(keys::MODEL).as_deref(), Some("m"));
        assert_eq!(spec.value(keys::TOOLS), None);
    }

    #[test]
    fn a_switch_is_on_if_its_last_value_is_true() {
        for (values, expected) in [
            (&[][..], false),
            (&["true"], true),
            (&["false"], false),
            (&["yes"], false),
            (&["false", "true"], true),
            (&["true", "false"], false),
        ] {
            let settings: Settings = values.iter().map(|value| ("x", *value)).collect();
            assert_eq!(settings.is_on("x"), expected, "{values:?}");
            let mut spec = Spec::default();
            spec.apply(&settings).unwrap();
            assert_eq!(spec.is_on("x"), expected, "{values:?}");
        }
    }

    #[test]
    fn every_field_is_found_by_its_key() {
        let spec = Spec::default();
        for key in FIELDS {
            assert!(spec.field(key).is_some(), "{key}");
        }
        assert!(spec.field("effort").is_none());
    }

    #[test]
    fn values_that_do_not_fit_a_field_are_rejected() {
        let table: &[(&str, &[&str], &str)] = &[
            (
                keys::MODEL,
                &["a", "b"],
                "model = \"a, b\": expected one value",
            ),
            (
                keys::SYSTEM_PROMPT,
                &["a", "b"],
                "system_prompt: expected one value",
            ),
            (
                keys::MAX_TURNS,
                &["0"],
                "max_turns = \"0\": expected a whole number of at least 1",
            ),
            (
                keys::MAX_BUDGET_USD,
                &["x"],
                "max_budget_usd = \"x\": expected a number greater than 0",
            ),
            (
                keys::FORK,
                &["yes"],
                "fork = \"yes\": expected true or false",
            ),
        ];
        for (key, values, message) in table {
            let mut spec = Spec::default();
            let error = spec.set(key, values.iter().copied()).unwrap_err();
            assert_eq!(error.to_string(), *message);
            assert_eq!(spec.values(key), None, "{key}");
        }
    }
}
