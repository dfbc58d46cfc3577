//! JSON schemas of tool arguments, in the form that MCP clients accept.
//!
//! Seen with Claude Code 2.1.325: unless the top level is a plain `"type": "object"` with
//! well-formed properties and required names, the server loses all its tools. With `anyOf`, `oneOf`
//! or `allOf` at the top level, that one tool is dropped. Neither is reported. Anything below the
//! top level is accepted, references included. OpenAI's API has the same rule: the top level of a
//! function's parameters must be a plain object.

use ostler_core::raw_json::RawJson;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// Maximum depth of nested alternatives and of references to references.
const DEPTH: usize = 16;

/// Rewrites a schema into an accepted form: alternatives at the top level become one object with
/// the properties of all.
pub fn adapt(parameters: &RawJson) -> RawJson {
    let root: Object = serde_json::from_str(parameters.get()).unwrap_or_default();
    let mut schema = flatten(&root, &root, DEPTH).unwrap_or_default();
    schema.remove("$schema");
    schema.insert("type".to_owned(), "object".into());
    RawJson::of(&schema)
}

/// Returns the object that a schema describes, without a reference or alternatives at the top
/// level, or `None` if the schema does not describe an object.
fn flatten(schema: &Object, root: &Object, depth: usize) -> Option<Object> {
    let depth = depth.checked_sub(1)?;
    let mut schema = schema.clone();
    if let Some(target) = schema
        .remove("$ref")
        .as_ref()
        .and_then(|it| resolve(it, root))
    {
        let target = flatten(target, root, depth)?;
        merge(&mut schema, std::slice::from_ref(&target), true);
        for (key, value) in target {
            schema.entry(key).or_insert(value); // keys beside a reference win
        }
    }
    let is_object = match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
        Some(one) => one == "object",
    };
    if !is_object {
        return None;
    }
    schema.retain(|key, value| match key.as_str() {
        "properties" => value.is_object(),
        "required" => value
            .as_array()
            .is_some_and(|required_names| required_names.iter().all(Value::is_string)),
        _ => true,
    });
    for (key, every) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        let Some(Value::Array(parts)) = schema.remove(key) else {
            continue;
        };
        let parts: Vec<Object> = parts
            .iter()
            .filter_map(Value::as_object)
            .filter_map(|part| flatten(part, root, depth))
            .collect();
        merge(&mut schema, &parts, every);
    }
    Some(schema)
}

/// Returns the target of a reference within the same document.
fn resolve<'a>(reference: &Value, root: &'a Object) -> Option<&'a Object> {
    let mut path = reference
        .as_str()?
        .strip_prefix("#/")?
        .split('/')
        .map(|key| key.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&path.next()?)?;
    path.try_fold(first, |at, key| at.get(&key))?.as_object()
}

/// Merges parts into a whole: all of them apply (`every`), or one of them does.
fn merge(whole: &mut Object, parts: &[Object], every: bool) {
    let mut properties = whole
        .get("properties")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for part in parts {
        for (name, schema) in part
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            match properties.get_mut(name) {
                None => drop(properties.insert(name.clone(), schema.clone())),
                Some(known) => combine(known, schema, if every { "allOf" } else { "anyOf" }),
            }
        }
    }
    let mut required = required_names(whole);
    for name in parts.iter().flat_map(required_names) {
        let wanted = every
            || parts
                .iter()
                .all(|part| required_names(part).contains(&name));
        if wanted && !required.contains(&name) {
            required.push(name);
        }
    }
    if !every && parts.len() > 1 {
        let forms: Vec<String> = parts
            .iter()
            .map(|part| format!("{{{}}}", required_names(part).join(", ")))
            .collect();
        let prefix = whole
            .get("description")
            .and_then(Value::as_str)
            .map(|text| format!("{text}\n"))
            .unwrap_or_default();
        let description = format!(
            "{prefix}The arguments must at least have one of these forms: {}.",
            forms.join(" or ")
        );
        whole.insert("description".to_owned(), description.into());
    }
    if !properties.is_empty() {
        whole.insert("properties".to_owned(), properties.into());
    }
    if !required.is_empty() {
        whole.insert("required".to_owned(), required.into());
    }
}

fn required_names(schema: &Object) -> Vec<String> {
    let required_names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    required_names
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Combines two schemas of one property.
fn combine(known: &mut Value, other: &Value, how: &str) {
    if known == other {
        return;
    }
    match known
        .as_object_mut()
        .filter(|it| it.len() == 1)
        .and_then(|it| it.get_mut(how))
    {
        Some(Value::Array(all)) if all.contains(other) => {}
        Some(Value::Array(all)) => all.push(other.clone()),
        _ => *known = json!({ how: [known.take(), other] }),
    }
}
