//! Evaluators of a case: `{name, config}`, `{file}` or a name alone.

use ostler_core::near::suggestion;
use serde_json::{Map, Value};

use super::files::{MAX_FILE, MAX_PATH, read_below};
use super::parse::{Format, parse};
use super::prompts::{file_code, text_or_file};
use super::section::{Findings, Section};
use super::tree::{Data, Node, ProblemCode, table_to_json};
use super::variables::expand;
use super::{LoadContext, LoadOptions};
use crate::case::EvaluatorSpec;

/// The kinds of evaluators.
pub const KINDS: &[&str] = &[
    "git-diff",
    "expected-diff",
    "command",
    "files",
    "trajectory",
    "judge",
    "script",
    "harbor",
];

/// Reads the evaluators of a case.
pub(crate) fn evaluators(
    case: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Vec<EvaluatorSpec> {
    let mut specs: Vec<EvaluatorSpec> = Vec::new();
    for (index, node) in case.list("evaluators", findings).iter().enumerate() {
        let path = case.item("evaluators", index);
        let Some(spec) = evaluator(node, &path, context, findings) else {
            continue;
        };
        specs.push(unique(spec, &specs));
    }
    if !case.has("evaluators") {
        let message = "is missing: without an evaluator, a trial has no verdict";
        case.fault("evaluators", ProblemCode::MissingKey, message, findings);
    } else if specs.is_empty() && findings.problems.is_empty() {
        let message = "is empty: without an evaluator, a trial has no verdict";
        case.fault("evaluators", ProblemCode::OutOfBounds, message, findings);
    }
    specs
}

/// Appends a number to a name that is already used.
fn unique(mut spec: EvaluatorSpec, before: &[EvaluatorSpec]) -> EvaluatorSpec {
    let base = spec.name.clone();
    let mut number = 2;
    while before.iter().any(|other| other.name == spec.name) {
        spec.name = format!("{base}-{number}");
        number += 1;
    }
    spec
}

fn evaluator(
    node: &Node,
    path: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<EvaluatorSpec> {
    if let Data::Text(name) = &node.data {
        let Some(kind) = kind_of(name) else {
            findings.add(node.at, path, ProblemCode::UnknownName, unknown(name));
            return None;
        };
        let spec = plain(name, kind);
        check(&spec, node, path, context.options, findings);
        return Some(spec);
    }
    let section = Section::of(node, path, findings)?;
    if section.has("file") {
        section.only(&["file"], findings);
        return from_file(&section, context, findings);
    }
    inline(&section, context, findings)
}

/// Reads an evaluator from a file of its own.
fn from_file(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<EvaluatorSpec> {
    let path = section.bounded("file", MAX_PATH, findings)?;
    let text = match read_below(context.dir, &path, MAX_FILE) {
        Ok(text) => text,
        Err(error) => {
            section.fault("file", file_code(&error), error.to_string(), findings);
            return None;
        }
    };
    let file = context.dir.join(&path);
    let extension = file.extension().and_then(|it| it.to_str());
    let Some(format) = extension.and_then(Format::of_extension) else {
        let message = "must end with .yaml, .yml, .toml or .json";
        section.fault("file", ProblemCode::Unsupported, message, findings);
        return None;
    };
    let mut inner = Findings::of(&file);
    let spec = match parse(&text, format) {
        Ok(mut node) => {
            expand(&mut node, context.options.variables, &mut inner);
            let dir = file.parent().unwrap_or(context.dir);
            let context = LoadContext {
                dir,
                options: context.options,
            };
            Section::of(&node, "", &mut inner)
                .and_then(|section| inline(&section, &context, &mut inner))
        }
        Err(error) => {
            inner.add(error.at, "", ProblemCode::Syntax, error.message);
            None
        }
    };
    findings.problems.append(&mut inner.problems);
    spec
}

fn inline(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<EvaluatorSpec> {
    let keys = [
        "name",
        "kind",
        "description",
        "config",
        "weight",
        "required",
    ];
    section.only(&keys, findings);
    if !section.has("name") && !section.has("kind") {
        let message = format!("is missing; one of {}", KINDS.join(", "));
        section.fault("name", ProblemCode::MissingKey, message, findings);
        return None;
    }
    let key = if section.has("kind") { "kind" } else { "name" };
    let named = section.bounded(key, 200, findings)?;
    let Some(kind) = kind_of(&named) else {
        section.fault(key, ProblemCode::UnknownName, unknown(&named), findings);
        return None;
    };
    let name = if section.has("name") {
        section.bounded("name", 200, findings)?
    } else {
        named
    };
    let mut spec = plain(&name, kind);
    if let Some(config) = section.section("config", findings) {
        spec.config = config_of(&config, kind, context, findings);
    }
    spec.weight = section.number("weight", 0.0, findings).unwrap_or(1.0);
    spec.required = section.bool("required", findings).unwrap_or(true);
    check(
        &spec,
        section.node,
        &section.path,
        context.options,
        findings,
    );
    Some(spec)
}

/// Returns the configuration. For a judge, its agent is resolved and its prompt file is read.
fn config_of(
    config: &Section<'_>,
    kind: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Map<String, Value> {
    let mut map = table_to_json(config.entries());
    map.retain(|_, value| !value.is_null());
    if kind != "judge" {
        return map;
    }
    let prompt = text_or_file(config, "prompt", context, findings);
    map.shift_remove("prompt_file");
    if let Some(prompt) = prompt {
        map.insert("prompt".to_owned(), Value::String(prompt));
    }
    let key = if config.has("type") { "type" } else { "agent" };
    if let Some(name) = config.text(key, findings) {
        map.shift_remove("type");
        match context.options.agents.find(&name) {
            Some(info) => {
                map.insert("agent".to_owned(), Value::String(info.name));
                let settings = map.get_mut("settings").and_then(Value::as_object_mut);
                for (key, value) in settings.into_iter().flatten() {
                    if let (Value::String(path), true) = (&*value, info.path_settings.contains(key))
                    {
                        *value = Value::String(context.dir.join(path).display().to_string());
                    }
                }
            }
            None => {
                let names = context.options.agents.names();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let hint = suggestion(&name, &names);
                let message = format!("\"{name}\" is not an agent; {hint}");
                config.fault(key, ProblemCode::UnknownName, message, findings);
            }
        }
    }
    map
}

/// Returns the kind of a name: itself, the part before `:`, or a judge's longer name.
fn kind_of(name: &str) -> Option<&'static str> {
    let base = name.split_once(':').map_or(name, |(base, _)| base);
    if base == "agentic-judge" || base.starts_with("agentic-judge-") {
        return Some("judge");
    }
    KINDS.iter().copied().find(|kind| *kind == base)
}

fn unknown(name: &str) -> String {
    format!(
        "\"{name}\" is not an evaluator; {}",
        suggestion(name, KINDS)
    )
}

fn plain(name: &str, kind: &str) -> EvaluatorSpec {
    EvaluatorSpec {
        name: name.to_owned(),
        kind: kind.to_owned(),
        config: Map::new(),
        weight: 1.0,
        required: true,
    }
}

/// Notes what the evaluator itself finds wrong with its configuration.
fn check(
    spec: &EvaluatorSpec,
    node: &Node,
    path: &str,
    options: &LoadOptions<'_>,
    findings: &mut Findings,
) {
    let Some(check) = options.check_evaluator else {
        return;
    };
    for problem in check(spec) {
        let at = node.position_of(&problem.key);
        let key = super::section::join(path, &problem.key);
        findings.add(at, &key, ProblemCode::OutOfBounds, problem.message);
    }
}
