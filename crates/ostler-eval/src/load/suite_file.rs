//! A suite in a file: cases × agents × models × prompts × instructions × repetitions.

use std::path::Path;

use ostler_core::near::suggestion;

use super::agents::{SuiteAgent, label, suite_agent};
use super::case_file::limits;
use super::prompts::text_or_file;
use super::section::{Findings, Section, text};
use super::tree::{Data, Node, ProblemCode};
use super::{LoadContext, Loaded, collect};
use crate::case::{Case, Contender, Isolation, Suite, TrialLimits};

const KEYS: &[&str] = &[
    "suite",
    "name",
    "description",
    "cases",
    "agents",
    "models",
    "prompts",
    "instructions",
    "repetitions",
    "timeout",
    "limits",
    "budget_usd",
    "jobs",
    "seed",
    "isolation",
];

/// Maximum number of contenders, so that a suite does not multiply into a bill.
const MAX_CONTENDERS: usize = 200;

/// Reads a suite.
pub(crate) fn suite(
    node: &Node,
    file: &Path,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<Suite> {
    let section = Section::of(node, "", findings)?;
    section.only(KEYS, findings);
    section.exclusive("suite", "name", findings);
    let key = if section.has("suite") {
        "suite"
    } else {
        "name"
    };
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let name = section.bounded(key, 200, findings);
    let limits = limits(&section, findings);
    let mut cases = cases(&section, file, context, findings);
    for case in &mut cases {
        inherit(&mut case.limits, &limits);
    }
    let repetitions = section.whole("repetitions", 1, findings).unwrap_or(1);
    let jobs = section.whole("jobs", 1, findings);
    Some(Suite {
        name: name.unwrap_or_else(|| stem.unwrap_or("suite").to_owned()),
        cases,
        contenders: contenders(&section, context, findings),
        repetitions: u32::try_from(repetitions).unwrap_or(u32::MAX),
        jobs: jobs.map(|jobs| u32::try_from(jobs).unwrap_or(u32::MAX)),
        budget_usd: section.number("budget_usd", 0.0, findings),
        seed: section.whole("seed", 0, findings).unwrap_or(0),
        isolation: isolation(&section, findings),
    })
}

/// Fills in the limits that a case does not set.
fn inherit(own: &mut TrialLimits, suite: &TrialLimits) {
    own.timeout = own.timeout.or(suite.timeout);
    own.max_turns = own.max_turns.or(suite.max_turns);
    own.max_budget_usd = own.max_budget_usd.or(suite.max_budget_usd);
    own.max_tokens = own.max_tokens.or(suite.max_tokens);
}

fn isolation(section: &Section<'_>, findings: &mut Findings) -> Option<Isolation> {
    let name = section.text("isolation", findings)?;
    match name.as_str() {
        "directory" => Some(Isolation::Directory),
        "sandbox" => Some(Isolation::Sandbox),
        "private-root" => Some(Isolation::PrivateRoot),
        _ => {
            let hint = suggestion(&name, &["directory", "sandbox", "private-root"]);
            let message = format!("\"{name}\" is not a tier; {hint}");
            section.fault("isolation", ProblemCode::UnknownName, message, findings);
            None
        }
    }
}

/// Reads the cases: paths of files and directories, or cases written in place.
fn cases(
    section: &Section<'_>,
    file: &Path,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, node) in section.list("cases", findings).iter().enumerate() {
        let path = section.item("cases", index);
        let Data::Text(relative) = &node.data else {
            cases.extend(super::case_file::case(node, &path, file, context, findings));
            continue;
        };
        let target = context.dir.join(relative);
        if !target.exists() {
            let message = format!("does not exist: {}", target.display());
            findings.add(node.at, &path, ProblemCode::Unreadable, message);
            continue;
        }
        match collect(&target, context.options) {
            Ok(Loaded::Cases(found)) => cases.extend(found),
            Ok(Loaded::Suite(_)) => {
                let message = "is a suite; name its cases instead";
                findings.add(node.at, &path, ProblemCode::Unsupported, message);
            }
            Err(mut problems) => findings.problems.append(&mut problems.0),
        }
    }
    if cases.is_empty() && findings.problems.is_empty() {
        let message = "names no case; add files or directories";
        section.fault("cases", ProblemCode::MissingKey, message, findings);
    }
    cases
}

/// A named text that contenders are combined with.
struct Variant {
    name: Option<String>,
    text: Option<String>,
}

/// Combines agents, models, prompts and instructions.
fn contenders(
    section: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Vec<Contender> {
    let agents: Vec<SuiteAgent> = section
        .list("agents", findings)
        .iter()
        .enumerate()
        .filter_map(|(index, node)| {
            suite_agent(node, &section.item("agents", index), context, findings)
        })
        .collect();
    let models = section.texts("models", findings);
    let prompts = variants(section, "prompts", context, findings);
    let instructions = variants(section, "instructions", context, findings);
    for (key, many) in [
        ("models", !models.is_empty()),
        ("prompts", prompts.len() > 1),
        ("instructions", instructions.len() > 1),
    ] {
        if many && agents.is_empty() && !section.has("agents") {
            let message = "has no meaning without `agents`";
            section.fault(key, ProblemCode::MissingKey, message, findings);
        }
    }
    let mut contenders = Vec::new();
    for agent in &agents {
        for model in models_of(agent, &models) {
            for prompt in &prompts {
                for text in &instructions {
                    contenders.push(combined(agent, model.as_deref(), prompt, text));
                }
            }
        }
    }
    check_labels(section, &contenders, findings);
    contenders
}

/// The models of an agent: its own, otherwise those of the suite.
fn models_of(agent: &SuiteAgent, models: &[String]) -> Vec<Option<String>> {
    match &agent.contender.model {
        Some(model) => vec![Some(model.clone())],
        None if models.is_empty() => vec![None],
        None => models.iter().cloned().map(Some).collect(),
    }
}

fn combined(
    agent: &SuiteAgent,
    model: Option<&str>,
    prompt: &Variant,
    instructions: &Variant,
) -> Contender {
    let mut contender = agent.contender.clone();
    let crossed = contender.model.is_none() && model.is_some();
    contender.model = model.map(str::to_owned);
    if let Some(text) = &prompt.text {
        contender.prompt = Some(text.clone());
    }
    if let Some(text) = &instructions.text {
        contender.instructions = Some(text.clone());
    }
    let names = [prompt.name.as_deref(), instructions.name.as_deref()];
    contender.label = match &agent.label {
        Some(base) => {
            let model = model.filter(|_| crossed).map(|model| format!("/{model}"));
            let names = names.into_iter().flatten().map(|name| format!("+{name}"));
            let parts: String = model.into_iter().chain(names).collect();
            format!("{base}{parts}")
        }
        None => label(&contender, names[0], names[1]),
    };
    contender
}

/// Reads `prompts` or `instructions`: `{name, text | file}`. Without any, one empty variant.
fn variants(
    section: &Section<'_>,
    key: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (index, node) in section.list(key, findings).iter().enumerate() {
        let path = section.item(key, index);
        let Some(variant) = Section::of(node, &path, findings) else {
            continue;
        };
        variant.only(&["name", "text", "text_file", "file", "own"], findings);
        variant.exclusive("file", "text_file", findings);
        let name = variant.bounded("name", 100, findings);
        if name.is_none() && !variant.has("name") {
            let message = "is missing: it is part of the contender's label";
            variant.fault("name", ProblemCode::MissingKey, message, findings);
        }
        let text = if variant.has("file") {
            file_text(&variant, context, findings)
        } else {
            text_or_file(&variant, "text", context, findings)
        };
        let keeps_own = variant.bool("own", findings) == Some(true);
        if text.is_none() && !keeps_own && !variant.has("file") && !variant.has("text") {
            let message = "add `text` or `file`, or `own: true` for the case's own";
            variant.fault("text", ProblemCode::MissingKey, message, findings);
        }
        variants.push(Variant { name, text });
    }
    if variants.is_empty() {
        variants.push(Variant {
            name: None,
            text: None,
        });
    }
    variants
}

fn file_text(
    variant: &Section<'_>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let path = text(variant.get("file")?, &variant.key("file"), findings)?;
    match super::files::read_below(context.dir, &path, super::files::MAX_FILE) {
        Ok(text) => Some(text),
        Err(error) => {
            let code = super::prompts::file_code(&error);
            variant.fault("file", code, error.to_string(), findings);
            None
        }
    }
}

fn check_labels(section: &Section<'_>, contenders: &[Contender], findings: &mut Findings) {
    if contenders.len() > MAX_CONTENDERS {
        let count = contenders.len();
        let message = format!("make {count} contenders; at most {MAX_CONTENDERS} are allowed");
        section.fault("agents", ProblemCode::OutOfBounds, message, findings);
        return;
    }
    for (index, contender) in contenders.iter().enumerate() {
        let same = |other: &Contender| other.label == contender.label;
        if contenders[..index].iter().any(same) {
            let message = format!(
                "two contenders have the label \"{}\"; add `label` to tell them apart",
                contender.label
            );
            section.fault("agents", ProblemCode::Conflict, message, findings);
        }
    }
}
