//! Validates an answer against the caller's schema. The server was asked to do so, but some do not
//! (pitfall P64).

use ostler_core::raw_json::RawJson;
use serde_json::Value;

/// Checks an answer and returns its value.
///
/// # Errors
/// Returns what is wrong, in a form that the model can act on.
pub(super) fn check(schema: &str, answer: &str) -> Result<RawJson, String> {
    let text = unfenced(answer);
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON ({error})"))?;
    let schema: Value = serde_json::from_str(schema)
        .map_err(|error| format!("the schema is not JSON ({error})"))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| format!("the schema is wrong: {error}"))?;
    let wrong: Vec<String> = validator
        .iter_errors(&value)
        .take(5)
        .map(|error| format!("{} (at {:?})", error, error.instance_path().to_string()))
        .collect();
    if wrong.is_empty() {
        RawJson::parse(text).map_err(|error| error.to_string())
    } else {
        Err(wrong.join("; "))
    }
}

/// Checks that a schema is valid.
///
/// # Errors
/// Returns what is wrong with it.
pub(super) fn check_schema(schema: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    jsonschema::validator_for(&schema)
        .map(|_| ())
        .map_err(|error| error.to_string())
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
        assert_eq!(check(SCHEMA, "{\"n\": 1}").unwrap().get(), "{\"n\": 1}");
        assert_eq!(
            check(SCHEMA, "```json\n{\"n\":1}\n```").unwrap().get(),
            "{\"n\":1}"
        );
        for (answer, why) in [
            ("n is 1", "not JSON"),
            ("{}", "required"),
            ("{\"n\":\"1\"}", "integer"),
        ] {
            let error = check(SCHEMA, answer).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(check_schema("{\"type\":12}").is_err());
    }
}
