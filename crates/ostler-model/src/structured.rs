//! Validates an answer against the caller's schema. The server was asked to do so, but some do not
//! (pitfall P64).

use jsonschema::Validator;
use ostler_core::raw_json::RawJson;
use serde_json::Value;

/// Checks an answer and returns its value.
///
/// # Errors
/// Returns what is wrong, in a form that the model can act on.
pub(crate) fn check(schema: &RawJson, answer: &str) -> Result<RawJson, Mismatch> {
    let text = unfenced(answer);
    let value: Value = serde_json::from_str(text)?;
    let wrong: Vec<String> = validator(schema.get())?
        .iter_errors(&value)
        .take(5)
        .map(|error| format!("{} (at {:?})", error, error.instance_path().to_string()))
        .collect();
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
    validator(schema).map(|_| ())
}

fn validator(schema: &str) -> Result<Validator, SchemaError> {
    let schema: Value = serde_json::from_str(schema)?;
    jsonschema::validator_for(&schema).map_err(|error| SchemaError::Invalid(Box::new(error)))
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

/// The error of a schema that is not valid.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is not JSON.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    /// It is not a JSON schema.
    #[error("{0}")]
    Invalid(Box<jsonschema::ValidationError<'static>>),
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

#[cfg(test)]
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
    }
}
