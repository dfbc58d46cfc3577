//! pi's settings, as one flat table.

use ostler_core::dialect::{Arg, Setting};
use ostler_core::spec::{InvalidValue, Settings, keys};

use crate::settings::rows;

/// Maximum number of characters in a system prompt, which is passed in a file.
const MAX_PROMPT: usize = 1_000_000;

/// Reasoning levels.
const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh"];

/// The settings, in the order in which their arguments are passed. pi takes the argument after a
/// flag as the flag's value, even if it begins with a dash.
pub(super) const TABLE: &[Setting] = &rows! {
    keys::MODEL, Word => Value("--model"), "Model to use, as provider/model or a pattern.";
    "thinking", OneOf(LEVELS) => Value("--thinking"), "Reasoning effort: off, minimal, low, medium, high or xhigh.";
    keys::SYSTEM_PROMPT, Text(MAX_PROMPT) => File("--system-prompt"), "Replace the system prompt.";
    keys::APPEND_SYSTEM_PROMPT, Text(MAX_PROMPT) => File("--append-system-prompt"), "Append text to the system prompt.";
    keys::TOOLS, ListOrNone if one_tool => Custom(tools), "Enable only these tools, one per value: read, bash, edit, write, grep, find, ls or an extension's. An empty value disables all tools.";
    keys::RESUME, Text(500) => Custom(resume), "Id of the session to resume, or the beginning of one.";
    keys::FORK, Switch, "Resume a copy of the session and leave the original unchanged.";
    "no_session", Switch => Switch("--no-session"), "Do not save the session to disk. It cannot be resumed later.";
    "no_extensions", Switch => Switch("--no-extensions"), "Do not load user or project extensions.";
    "no_skills", Switch => Switch("--no-skills"), "Do not load skills.";
    "no_prompt_templates", Switch => Switch("--no-prompt-templates"), "Do not load prompt templates.";
    "no_context_files", Switch => Switch("--no-context-files"), "Do not load AGENTS.md or CLAUDE.md.";
};

/// Returns the arguments that select the tools.
fn tools(values: &[String], _: &Settings) -> Vec<Arg> {
    if values.iter().all(String::is_empty) {
        return vec!["--no-tools".into()];
    }
    vec!["--tools".into(), values.join(",").into()]
}

/// Returns the arguments that resume or fork a session.
fn resume(values: &[String], settings: &Settings) -> Vec<Arg> {
    let fork = settings.is_on(keys::FORK);
    let flag = if fork { "--fork" } else { "--session" };
    let pair = |id: &String| [flag.into(), id.into()];
    values.iter().flat_map(pair).collect()
}

/// Checks that a value names a single tool. pi splits the list at commas.
fn one_tool(value: &str) -> Result<(), InvalidValue> {
    InvalidValue::unless(
        !value.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control()),
        "expected one tool per value",
    )
}
