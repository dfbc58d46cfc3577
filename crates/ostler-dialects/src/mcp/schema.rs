//! The schema of a tool's arguments, as clients of MCP take it.
//!
//! Seen with Claude Code 2.1.325: without a plain `"type": "object"` on top, or with properties or
//! required names of another form, the server loses all its tools; with `anyOf`, `oneOf` or `allOf`
//! on top that one tool is left out. Neither is told. What is below the top passes, references too.
//! OpenAI's API refuses the same: the top of a function's parameters must be a plain object.

use ostler_core::raw_json::RawJson;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// How deep alternatives within alternatives are followed, and references to references.
const DEPTH: usize = 16;

/// Brings a schema into a form that is taken: alternatives on top become one object with the properties of all.
pub(crate) fn adapt(parameters: &RawJson) -> RawJson {
    let Ok(Value::Object(root)) = serde_json::from_str(parameters.get()) else {
        return RawJson::of(&plain());
    };
    let Some(mut schema) = flat(&root, &root, DEPTH) else {
        return RawJson::of(&plain());
    };
    schema.remove("$schema");
    schema.insert("type".to_owned(), "object".into());
    RawJson::of(&schema)
}

fn plain() -> Value {
    json!({ "type": "object" })
}

/// The object that a schema describes, without reference or alternatives on top; none when it describes no object.
fn flat(schema: &Object, root: &Object, depth: usize) -> Option<Object> {
    let depth = depth.checked_sub(1)?;
    let mut schema = schema.clone();
    if let Some(target) = schema
        .remove("$ref")
        .as_ref()
        .and_then(|it| follow(it, root))
    {
        let target = flat(target, root, depth)?;
        merge(&mut schema, std::slice::from_ref(&target), true);
        for (key, value) in target {
            schema.entry(key).or_insert(value); // what stands beside a reference wins
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
            .is_some_and(|names| names.iter().all(Value::is_string)),
        _ => true,
    });
    for (key, every) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        let Some(Value::Array(parts)) = schema.remove(key) else {
            continue;
        };
        let parts: Vec<Object> = parts
            .iter()
            .filter_map(Value::as_object)
            .filter_map(|part| flat(part, root, depth))
            .collect();
        merge(&mut schema, &parts, every);
    }
    Some(schema)
}

/// What a reference within the same document points at.
fn follow<'a>(reference: &Value, root: &'a Object) -> Option<&'a Object> {
    let mut path = reference
        .as_str()?
        .strip_prefix("#/")?
        .split('/')
        .map(|key| key.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&path.next()?)?;
    path.try_fold(first, |at, key| at.get(&key))?.as_object()
}

/// Puts parts into a whole: all of them hold, or one of them does.
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
    let mut required = names(whole);
    for name in parts.iter().flat_map(names) {
        let wanted = every || parts.iter().all(|part| names(part).contains(&name));
        if wanted && !required.contains(&name) {
            required.push(name);
        }
    }
    if !every && parts.len() > 1 {
        let forms: Vec<String> = parts
            .iter()
            .map(|part| format!("{{{}}}", names(part).join(", ")))
            .collect();
        let own = whole
            .get("description")
            .and_then(Value::as_str)
            .map(|own| format!("{own}\n"))
            .unwrap_or_default();
        let told = format!(
            "{own}The arguments must at least have one of these forms: {}.",
            forms.join(" or ")
        );
        whole.insert("description".to_owned(), told.into());
    }
    if !properties.is_empty() {
        whole.insert("properties".to_owned(), properties.into());
    }
    if !required.is_empty() {
        whole.insert("required".to_owned(), required.into());
    }
}

fn names(schema: &Object) -> Vec<String> {
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Two schemas of one property become one.
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
