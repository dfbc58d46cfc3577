//! Agents of cases and suites: their names, models and settings.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::near::suggestion;
use serde_json::Value;

use super::LoadContext;
use super::section::{Findings, Section};
use super::tree::{Data, Node, ProblemCode};
use crate::case::Contender;

/// The agents that files may name. The caller supplies it, so that no agent is named here.
pub trait AgentCatalogue {
    /// Returns the agent that a name in a file stands for: its own name or an alias.
    fn find(&self, name: &str) -> Option<AgentInfo>;

    /// Returns the names that a file may use, for suggestions.
    fn names(&self) -> Vec<String>;
}

/// An agent of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its name in Ostler.
    pub name: String,
    /// Keys of its settings; `None` if they cannot be checked.
    pub settings: Option<BTreeSet<String>>,
    /// Settings whose value is a path. A relative one starts at the file's directory.
    pub path_settings: BTreeSet<String>,
    /// The setting that selects a named agent (`agent_name`), if it has one.
    pub agent_name_setting: Option<String>,
}

/// Maximum length of `agent_name`.
const MAX_AGENT_NAME: usize = 100;
/// Maximum length of `model`.
const MAX_MODEL: usize = 200;
/// Maximum length of `system_prompt`.
const MAX_SYSTEM_PROMPT: usize = 50_000;
/// Maximum length of `append_system_prompt`.
const MAX_APPENDED: usize = 10_000;

/// Reads the agent of a case: `{type, agent_name, model, config}`. Returns its section `config`
/// too, which may hold the prompt.
pub(crate) fn case_agent<'n>(
    section: &Section<'n>,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> (Option<Contender>, Option<Section<'n>>) {
    section.only(
        &["type", "agent", "agent_name", "model", "config"],
        findings,
    );
    section.exclusive("type", "agent", findings);
    let config = section.section("config", findings);
    let key = if section.has("agent") {
        "agent"
    } else {
        "type"
    };
    if !section.has(key) {
        let message = "the agent has no type; add `type`, such as the name in `ostler doctor`";
        section.fault("type", ProblemCode::MissingKey, message, findings);
        return (None, config);
    }
    let name = section.text(key, findings);
    let info = name.and_then(|name| find(section, key, &name, context, findings));
    let contender = info.map(|info| {
        let mut contender = Contender {
            label: info.name.clone(),
            agent: info.name.clone(),
            model: model(section, findings),
            settings: BTreeMap::new(),
            prompt: None,
            instructions: None,
        };
        agent_name(section, &info, &mut contender, findings);
        if let Some(config) = &config {
            let prompts = ["prompt", "prompt_file"];
            let settings = Settings {
                info: &info,
                elsewhere: &prompts,
                context,
            };
            settings.read(config, &mut contender, findings);
        }
        contender.label = label(&contender, None, None);
        contender
    });
    (contender, config)
}

/// Reads an entry of a suite's `agents`: a name, or a table.
pub(crate) fn suite_agent(
    node: &Node,
    path: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<SuiteAgent> {
    if let Data::Text(name) = &node.data {
        let name = name.as_str();
        let Some(info) = context.options.agents.find(name) else {
            findings.add(
                node.at,
                path,
                ProblemCode::UnknownName,
                unknown(name, context),
            );
            return None;
        };
        return Some(SuiteAgent {
            contender: bare(&info),
            label: None,
        });
    }
    let section = Section::of(node, path, findings)?;
    let keys = [
        "agent",
        "type",
        "label",
        "model",
        "agent_name",
        "settings",
        "config",
        "prompt",
        "prompt_file",
        "instructions",
        "instructions_file",
    ];
    section.only(&keys, findings);
    section.exclusive("type", "agent", findings);
    section.exclusive("settings", "config", findings);
    let key = if section.has("type") { "type" } else { "agent" };
    if !section.has(key) {
        let message = "names no agent; add `agent`";
        section.fault("agent", ProblemCode::MissingKey, message, findings);
        return None;
    }
    let name = section.text(key, findings)?;
    let info = find(&section, key, &name, context, findings)?;
    let mut contender = Contender {
        model: model(&section, findings),
        prompt: super::prompts::text_or_file(&section, "prompt", context, findings),
        instructions: super::prompts::text_or_file(&section, "instructions", context, findings),
        ..bare(&info)
    };
    agent_name(&section, &info, &mut contender, findings);
    let key = if section.has("config") {
        "config"
    } else {
        "settings"
    };
    if let Some(config) = section.section(key, findings) {
        let settings = Settings {
            info: &info,
            elsewhere: &[],
            context,
        };
        settings.read(&config, &mut contender, findings);
    }
    let label = section.bounded("label", 100, findings);
    Some(SuiteAgent { contender, label })
}

/// An agent of a suite, before it is combined with models, prompts and instructions.
pub(crate) struct SuiteAgent {
    pub(crate) contender: Contender,
    pub(crate) label: Option<String>,
}

/// Returns the default label: agent, model, prompt and instructions, as far as they differ.
pub(crate) fn label(
    contender: &Contender,
    prompt: Option<&str>,
    instructions: Option<&str>,
) -> String {
    let mut label = contender.agent.clone();
    for (sign, part) in [
        ('/', contender.model.as_deref()),
        ('+', prompt),
        ('+', instructions),
    ] {
        if let Some(part) = part {
            label.push(sign);
            label.push_str(part);
        }
    }
    label
}

fn bare(info: &AgentInfo) -> Contender {
    Contender {
        label: info.name.clone(),
        agent: info.name.clone(),
        model: None,
        settings: BTreeMap::new(),
        prompt: None,
        instructions: None,
    }
}

fn unknown(name: &str, context: &LoadContext<'_>) -> String {
    let names = context.options.agents.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("\"{name}\" is not an agent; {}", suggestion(name, &names))
}

/// Returns the agent of a name, or notes that there is none.
fn find(
    section: &Section<'_>,
    key: &str,
    name: &str,
    context: &LoadContext<'_>,
    findings: &mut Findings,
) -> Option<AgentInfo> {
    let info = context.options.agents.find(name);
    if info.is_none() {
        let message = unknown(name, context);
        section.fault(key, ProblemCode::UnknownName, message, findings);
    }
    info
}

fn model(section: &Section<'_>, findings: &mut Findings) -> Option<String> {
    let model = section.bounded("model", MAX_MODEL, findings)?;
    let bad = |c: char| c.is_control() || c.is_whitespace();
    if model.starts_with('-') || model.contains(bad) {
        let message = "must be a model's name: no spaces, and no `-` at the start";
        section.fault("model", ProblemCode::OutOfBounds, message, findings);
        return None;
    }
    Some(model)
}

fn agent_name(
    section: &Section<'_>,
    info: &AgentInfo,
    contender: &mut Contender,
    findings: &mut Findings,
) {
    let Some(name) = section.bounded("agent_name", MAX_AGENT_NAME, findings) else {
        return;
    };
    let allowed = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if !name.chars().all(allowed) || name.starts_with('-') {
        let message = "may contain letters, digits, `_` and `-` only";
        section.fault("agent_name", ProblemCode::OutOfBounds, message, findings);
    } else if let Some(setting) = &info.agent_name_setting {
        contender
            .settings
            .insert(setting.clone(), Value::String(name));
    } else {
        let message = format!("{} has no named agents; remove the key", info.name);
        section.fault("agent_name", ProblemCode::Unsupported, message, findings);
    }
}

/// How the settings of an agent are read.
struct Settings<'a> {
    info: &'a AgentInfo,
    /// Keys that are read elsewhere.
    elsewhere: &'a [&'a str],
    context: &'a LoadContext<'a>,
}

impl Settings<'_> {
    fn read(&self, config: &Section<'_>, contender: &mut Contender, findings: &mut Findings) {
        let known: Option<Vec<&str>> = self.info.settings.as_ref().map(|settings| {
            let keys = settings.iter().map(String::as_str);
            keys.chain(self.elsewhere.iter().copied()).collect()
        });
        for entry in config.entries() {
            let key = entry.key.as_str();
            if self.elsewhere.contains(&key) || entry.value.data == Data::Null {
                continue;
            }
            if let Some(known) = known.as_ref().filter(|known| !known.contains(&key)) {
                let hint = suggestion(key, known);
                let message = format!("{} has no such setting; {hint}", self.info.name);
                findings.add(entry.at, &config.key(key), ProblemCode::UnknownKey, message);
                continue;
            }
            let max = match key {
                "system_prompt" => Some(MAX_SYSTEM_PROMPT),
                "append_system_prompt" => Some(MAX_APPENDED),
                _ => None,
            };
            if max.is_some_and(|max| config.bounded(key, max, findings).is_none()) {
                continue;
            }
            contender
                .settings
                .insert(entry.key.clone(), self.value(key, &entry.value));
        }
    }

    /// Returns the value; a path starts at the file's directory.
    fn value(&self, key: &str, node: &Node) -> Value {
        match &node.data {
            Data::Text(path) if self.info.path_settings.contains(key) => {
                Value::String(self.context.dir.join(path).display().to_string())
            }
            _ => node.to_json(),
        }
    }
}
