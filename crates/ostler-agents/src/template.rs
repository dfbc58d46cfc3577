//! Placeholders in JSON values: `{name}` inside any text.

use serde_json::Value;

/// Returns the value with each `{name}` in its texts replaced.
#[must_use]
pub fn fill(template: &Value, name: &str, with: &str) -> Value {
    match template {
        Value::String(text) => Value::String(text.replace(&format!("{{{name}}}"), with)),
        Value::Array(items) => items.iter().map(|item| fill(item, name, with)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), fill(value, name, with)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_filled_at_any_depth_and_keys_are_not() {
        let template = json!({"{it}": ["{it} and {it}", 1, {"inner": "{other}"}], "flag": true});
        assert_eq!(
            fill(&template, "it", "{\"a\"}"),
            json!({"{it}": ["{\"a\"} and {\"a\"}", 1, {"inner": "{other}"}], "flag": true})
        );
    }
}
