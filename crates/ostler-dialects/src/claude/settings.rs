//! Settings of Claude Code, as one flat table.

use ostler_core::dialect::{Arg, Setting};
use ostler_core::spec::{InvalidValue, Settings, ValueKind, keys};

use crate::settings::{OutsideParentheses, is_json, rows};

/// Maximum length of a system prompt. Source S4 says 50,000 characters, but a megabyte of
/// instructions is accepted too, because it goes through a file.
const PROMPT: usize = 2_000_000;

const MODES: &[&str] = &[
    "acceptEdits",
    "auto",
    "bypassPermissions",
    "manual",
    "dontAsk",
    "plan",
    "default",
];
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// The table. Arguments are passed in this order, as `--flag=value`, so that none is mistaken for
/// a flag. The program joins repeated flags; a single flag with a list would be split at commas.
pub(super) const TABLE: &[Setting] = &rows! {
    keys::MODEL, Word => Value("--model="), "Model to use: an alias such as opus or sonnet, or a full name.";
    "fallback_model", Word => Value("--fallback-model="), "Fallback model if the first one is overloaded. Separate several with commas to try them in order.";
    "effort", OneOf(EFFORTS) => Value("--effort="), "Reasoning effort: low, medium, high, xhigh or max.";
    keys::SYSTEM_PROMPT, Text(PROMPT) => File("--system-prompt-file="), "Replace the system prompt. Has no effect on resumed sessions.";
    keys::APPEND_SYSTEM_PROMPT, Text(PROMPT) => File("--append-system-prompt-file="), "Append text to the system prompt. Has no effect on resumed sessions.";
    keys::TOOLS, ListOrNone if one_tool => Value("--tools="), "Enable only these built-in tools, one per value. An empty value disables all of them.";
    keys::ALLOWED_TOOLS, List if one_tool => Value("--allowed-tools="), "Allow a tool without a prompt, one rule per value, such as Edit or Bash(git log *).";
    keys::DISALLOWED_TOOLS, List if one_tool => Value("--disallowed-tools="), "Deny a tool, one rule per value.";
    keys::PERMISSION_MODE, OneOf(MODES) => Value("--permission-mode="), "Permission mode. bypassPermissions allows everything, regardless of allowed_tools.";
    "permission_prompt", OneOf(&["none", "host", "stdio"]) => Custom(prompts), "Handler of permission prompts: none (deny), host (Claude Code's default) or stdio (over the control channel).";
    keys::WORKSPACE_TOOLS, OneOf(&["file-tools"]), "Preset for workspace access. With file-tools, the agent can run only the program file-tools, which is confined to the workspace.";
    keys::ADD_DIR, List => Value("--add-dir="), "Allow tools to access another directory. Repeatable.";
    keys::MCP_CONFIG, List if json_or_path => Json("--mcp-config="), "MCP servers: a file or JSON. Repeatable.";
    keys::STRICT_MCP, Switch => Switch("--strict-mcp-config"), "Use only the MCP servers from mcp_config.";
    keys::JSON_SCHEMA, Object => Value("--json-schema="), "JSON schema for a structured answer.";
    keys::MAX_TURNS, Count => Value("--max-turns="), "Maximum number of steps per message.";
    keys::MAX_BUDGET_USD, Amount => Value("--max-budget-usd="), "Maximum cost in US dollars.";
    "agents", Object => Json("--agents="), "Custom sub-agents, as a JSON object.";
    "agent", Word if agent_name => Value("--agent="), "Agent for the session, either built-in or defined in agents.";
    keys::SESSION_ID, Uuid => Value("--session-id="), "Id for a new session, as a UUID.";
    keys::RESUME, Text(500) => Value("--resume="), "Id or title of the session to resume.";
    keys::FORK, Switch => Switch("--fork-session"), "Resume a copy of the session and leave the original unchanged.";
    "no_session_persistence", Switch => Switch("--no-session-persistence"), "Do not save the session to disk. It cannot be resumed later.";
    "settings", Text(PROMPT) if json_or_path => Json("--settings="), "Additional Claude Code settings: a file or JSON.";
    super::launch::SOURCES, Text(100) if sources => Value("--setting-sources="), "Comma-separated list of settings files to load: user, project, local.";
    "betas", List if plain_word => Value("--betas="), "Beta header for API requests. Repeatable.";
    "bare", Switch => Switch("--bare"), "Minimal mode: no hooks, plugins, memory or CLAUDE.md, and authentication only by API key.";
    "forward_subagent_text", Switch => Switch("--forward-subagent-text"), "Include text and thinking of sub-agents.";
    keys::INCLUDE_PARTIAL, Switch => SwitchOff("--include-partial-messages"), "Stream text as it is generated (default: true).";
};

/// Returns the argument for the handler of permission prompts.
fn prompts(values: &[String], _: &Settings) -> Vec<Arg> {
    let arg = |handler: &String| match handler.as_str() {
        "stdio" => "--permission-prompt-tool=stdio".into(),
        handler => format!("--permission-prompts={handler}").into(),
    };
    values.iter().map(arg).collect()
}

/// Checks that a value is a single tool or rule. The program splits a value at commas and spaces
/// outside parentheses, which do not nest. Anything it would split is rejected, so that an
/// untrusted name cannot add a permission.
fn one_tool(value: &str) -> Result<(), InvalidValue> {
    let outside = OutsideParentheses::of(value);
    let separates = |c: char| c.is_whitespace() || c.is_control();
    InvalidValue::unless(
        !outside.text.contains(','),
        "a comma separates tools; pass each tool as a separate value",
    )?;
    InvalidValue::unless(
        !outside.text.contains(separates),
        "a space separates tools; pass each tool as a separate value",
    )?;
    InvalidValue::unless(outside.is_closed, "unclosed parenthesis")?;
    InvalidValue::unless(
        !value.contains('(') || value.ends_with(')'),
        "expected a tool, or a tool with a pattern in parentheses, such as Bash(git log *)",
    )
}

fn agent_name(value: &str) -> Result<(), InvalidValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    InvalidValue::unless(
        value.len() <= 100 && value.chars().all(allowed),
        "expected at most 100 letters, digits, dashes and underscores",
    )
}

fn plain_word(value: &str) -> Result<(), InvalidValue> {
    InvalidValue::unless(
        !value.contains(|c: char| c == ',' || c.is_whitespace()),
        "expected one name per value",
    )
}

fn json_or_path(value: &str) -> Result<(), InvalidValue> {
    InvalidValue::unless(
        !is_json(value) || ValueKind::Object.check("", &[value.to_owned()]).is_ok(),
        "expected a file path or a JSON object",
    )
}

fn sources(value: &str) -> Result<(), InvalidValue> {
    let mut sources = value.split(',').map(str::trim);
    InvalidValue::unless(
        sources.all(|source| matches!(source, "user" | "project" | "local")),
        "expected a comma-separated list of user, project and local",
    )
}
