//! Tool arguments: JSON schemas, and errors that name the faulty argument.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::ToolError;

/// Returns the JSON schema of a tool's arguments, in the plain form that every model server
/// accepts.
pub(crate) fn schema_of<T: JsonSchema>() -> String {
    plain_schema::<T>().to_string()
}

/// Parses a tool's arguments. Empty input counts as no arguments.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(
    tool: &str,
    input: &str,
) -> Result<T, ToolError> {
    let input = if input.trim().is_empty() { "{}" } else { input };
    serde_json::from_str(input).map_err(|error| {
        let bad = |message: String| ToolError::bad_arguments(message);
        match serde_json::from_str(input) {
            Ok(Value::Object(given)) => {
                let fault = fault("", &given, &plain_schema::<T>());
                bad(format!(
                    "{tool}: {}",
                    fault.unwrap_or_else(|| error.to_string())
                ))
            }
            Ok(other) => bad(format!(
                "{tool}: the arguments must be a JSON object, not {}",
                type_name(&other)
            )),
            Err(error) => bad(format!("{tool}: the arguments are not JSON: {error}")),
        }
    })
}

fn plain_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    strip_noise(&mut schema);
    schema
}

/// Removes parts that mean nothing to a model: titles, number formats, and `null` for optional
/// arguments.
fn strip_noise(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    for noise in ["title", "format", "$schema", "default"] {
        object.remove(noise);
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            // These keys are names of arguments, and `title` may be one.
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(strip_noise);
            }
            (_, value) => strip_noise(value),
        }
    }
}

/// Returns what is wrong with an object according to its schema, or `None` if nothing is found.
fn fault(prefix: &str, given: &Map<String, Value>, schema: &Value) -> Option<String> {
    let properties = schema.get("properties")?.as_object()?;
    let names = || {
        properties
            .keys()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(unknown) = given.keys().find(|name| !properties.contains_key(*name)) {
        return Some(format!(
            "there is no argument `{prefix}{unknown}`; the arguments are {}",
            names()
        ));
    }
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    for name in required.clone() {
        if !given.contains_key(name) {
            let description = properties
                .get(name)?
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return Some(format!(
                "the argument `{prefix}{name}` is missing: {description}"
            ));
        }
    }
    let is_required = |name: &str| required.clone().any(|required| required == name);
    given.iter().find_map(|(name, value)| {
        if value.is_null() && !is_required(name) {
            return None;
        }
        value_fault(&format!("{prefix}{name}"), value, properties.get(name)?)
    })
}

fn value_fault(name: &str, value: &Value, schema: &Value) -> Option<String> {
    let expected = schema.get("type")?.as_str()?;
    let is_valid = match expected {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !is_valid {
        let expected = match expected {
            "integer" => "a whole number, 0 or more",
            "boolean" => "true or false",
            "array" => "a list",
            "object" => "an object",
            other => other,
        };
        return Some(format!(
            "`{name}` must be {expected}, not {}",
            type_name(value)
        ));
    }
    match value {
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items
                .iter()
                .enumerate()
                .find_map(|(at, item)| value_fault(&format!("{name}[{at}]"), item, schema))
        }
        Value::Object(object) => fault(&format!("{name}."), object, schema),
        _ => None,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
