//! A JSON payload that is passed on as it came: tool inputs, structured answers, unknown messages.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value, kept as text on one line. It is checked once when it is made and never parsed again on the way through.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Keeps a value that a parser has already checked.
    #[must_use]
    pub fn keep(value: &RawValue) -> Self {
        Self::on_one_line(value.to_owned())
    }

    /// Events and orders are lines: a value that was written over several is put on one. Within the strings of JSON a line
    /// break is always escaped, so nothing is lost.
    fn on_one_line(value: Box<RawValue>) -> Self {
        if !value.get().contains(['\n', '\r']) {
            return Self(value);
        }
        RawValue::from_string(value.get().replace(['\n', '\r'], " ")).map_or(Self(value), Self)
    }

    /// Checks that `text` is one JSON value and keeps it.
    ///
    /// # Errors
    /// The parser's own words when it is not.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self::on_one_line)
    }

    /// A JSON string holding `text`.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::of(&text)
    }

    /// The JSON form of any value that can be written; `null` where it cannot.
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), Self::on_one_line)
    }

    /// JSON's `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// The JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::on_one_line)
    }
}

impl JsonSchema for RawJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "Any JSON value, as the agent wrote it." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_always_one_line() {
        let pretty = "{\n  \"a\": \"b\\nc\",\r\n  \"d\": [1,\n2]\n}";
        let same = |raw: &RawJson| {
            assert!(!raw.get().contains(['\n', '\r']), "{raw:?}");
            serde_json::from_str::<serde_json::Value>(raw.get()).unwrap()
        };
        let wanted: serde_json::Value = serde_json::from_str(pretty).unwrap();
        assert_eq!(same(&RawJson::parse(pretty).unwrap()), wanted);
        assert_eq!(
            same(&serde_json::from_str::<RawJson>(pretty).unwrap()),
            wanted
        );
        assert_eq!(
            same(&RawJson::keep(serde_json::from_str(pretty).unwrap())),
            wanted
        );
        let holder = std::collections::BTreeMap::from([(
            "x",
            serde_json::from_str::<Box<RawValue>>(pretty).unwrap(),
        )]);
        assert_eq!(same(&RawJson::of(&holder))["x"], wanted);
    }
}
