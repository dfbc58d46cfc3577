//! Raw JSON: payloads that are passed through unparsed, such as tool inputs, structured answers and
//! unknown messages.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value as text on one line. It is validated once and never parsed again on its path
/// through Ostler.
#[must_use]
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Copies a value that a parser has already validated.
    pub fn from_raw(value: &RawValue) -> Self {
        Self::on_one_line(value.to_owned())
    }

    /// Events are lines, so a value that spans several lines is joined into one. Inside JSON
    /// strings a line break is always escaped, so nothing is lost.
    fn on_one_line(value: Box<RawValue>) -> Self {
        if !value.get().contains(['\n', '\r']) {
            return Self(value);
        }
        RawValue::from_string(value.get().replace(['\n', '\r'], " ")).map_or(Self(value), Self)
    }

    /// Validates that `text` is one JSON value.
    ///
    /// # Errors
    /// Returns the parser's error if it is not.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self::on_one_line)
    }

    /// Creates a JSON string.
    pub fn string(text: &str) -> Self {
        Self::of(&text)
    }

    /// Serializes a value; returns `null` if that fails.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), Self::on_one_line)
    }

    /// Returns JSON's `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Returns an empty object.
    pub fn empty_object() -> Self {
        Self::of(&serde_json::Map::new())
    }

    /// Returns the JSON text.
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
    fn values_are_equal_if_they_are_written_alike() {
        let parse = |text| RawJson::parse(text).unwrap();
        assert_eq!(parse("[1]"), parse("[1]"));
        assert_ne!(parse("[1]"), parse("[2]"));
        assert_ne!(parse("[1]"), parse("[ 1]"));
        assert_eq!(format!("{:?}", parse("[1]")), "[1]");
    }

    #[test]
    fn a_value_is_always_on_one_line() {
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
            same(&RawJson::from_raw(serde_json::from_str(pretty).unwrap())),
            wanted
        );
        let holder = std::collections::BTreeMap::from([(
            "x",
            serde_json::from_str::<Box<RawValue>>(pretty).unwrap(),
        )]);
        assert_eq!(same(&RawJson::of(&holder))["x"], wanted);
    }
}
