//! Validates an answer against the caller's schema. The server was asked to do so, but some do not
//! (pitfall P64).

use ostler_core::raw_json::RawJson;
use serde_json::Value;

/// Checks an answer and returns its value.
///
/// # Errors
/// Returns what is wrong, in a form that the model can act on.
pub(crate) fn check(schema: &RawJson, answer: &str) -> Result<RawJson, Mismatch> {
    let text = unfenced(answer);
    let value: Value = serde_json::from_str(text)?;
    let wrong = Validator::new(schema.get())?.violations(&value);
    if wrong.is_empty() {
        Ok(RawJson::parse(text)?)
    } else {
        Err(Mismatch::Violations(wrong))
    }
}

/// Checks that a schema is valid.
///
/// # Errors
/// Returns what is wrong with it.
pub fn check_schema(schema: &str) -> Result<(), SchemaError> {
    Validator::new(schema).map(|_| ())
}

/// A schema that is ready to check values.
#[cfg(feature = "schema")]
struct Validator(jsonschema::Validator);

#[cfg(feature = "schema")]
impl Validator {
    fn new(schema: &str) -> Result<Self, SchemaError> {
        let schema: Value = serde_json::from_str(schema)?;
        let validator = jsonschema::validator_for(&schema);
        let validator = validator.map_err(|error| SchemaError::Invalid(Box::new(error)))?;
        Ok(Self(validator))
    }

    /// Returns the first violations.
    fn violations(&self, value: &Value) -> Vec<String> {
        let wrong = self.0.iter_errors(value).take(5);
        wrong
            .map(|error| format!("{} (at {:?})", error, error.instance_path().to_string()))
            .collect()
    }
}

/// No schema can be checked by this build.
#[cfg(not(feature = "schema"))]
enum Validator {}

#[cfg(not(feature = "schema"))]
impl Validator {
    fn new(_: &str) -> Result<Self, SchemaError> {
        Err(SchemaError::NotSupported)
    }

    fn violations(&self, _: &Value) -> Vec<String> {
        match *self {}
    }
}

/// How an answer violates a schema.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Mismatch {
    /// The answer is not JSON.
    #[error("it is not JSON ({0})")]
    NotJson(#[from] serde_json::Error),
    /// The answer cannot be checked.
    #[error("the schema is wrong: {0}")]
    Schema(#[from] SchemaError),
    /// The first violations.
    #[error("{}", .0.join("; "))]
    Violations(Vec<String>),
}

impl Mismatch {
    /// Returns true if another answer could be right, and false if no answer can be checked.
    pub(crate) fn is_answers_fault(&self) -> bool {
        !matches!(self, Self::Schema(_))
    }
}

/// The error of a schema that is not valid, or that this build cannot check.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is not JSON.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    /// It is not a JSON schema.
    #[cfg(feature = "schema")]
    #[error("{0}")]
    Invalid(Box<jsonschema::ValidationError<'static>>),
    /// This build cannot check answers.
    #[cfg(not(feature = "schema"))]
    #[error(
        "this build cannot check an answer against a schema; enable the feature `schema` of the \
         crate `ostler`"
    )]
    NotSupported,
}

/// Removes the fence that some models put around JSON.
fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let inner = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"));
    inner
        .and_then(|inner| inner.strip_suffix("```"))
        .unwrap_or(text)
        .trim()
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use super::*;

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

    // P64
    #[test]
    fn answer_is_validated_locally() {
        let check = |answer: &str| check(&RawJson::parse(SCHEMA).unwrap(), answer);
        assert_eq!(check("{\"n\": 1}").unwrap().get(), "{\"n\": 1}");
        assert_eq!(check("```json\n{\"n\":1}\n```").unwrap().get(), "{\"n\":1}");
        for (answer, why) in [
            ("n is 1", "not JSON"),
            ("{}", "required"),
            ("{\"n\":\"1\"}", "integer"),
        ] {
            let error = check(answer).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(check_schema("{\"type\":12}").is_err());
        let unusable = super::check(&RawJson::parse("{\"type\":12}").unwrap(), "{}").unwrap_err();
        assert!(!unusable.is_answers_fault());
        assert!(check("{}").unwrap_err().is_answers_fault());
    }
}
