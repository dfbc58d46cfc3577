//! Settings of Claude Code, as one flat table.

use ostler_core::spec::{ValueKind, keys};

use crate::settings::Row;

/// How a setting becomes arguments. Values are always passed as `--flag=value`, so that none is
/// mistaken for a flag.
pub(super) enum Pass {
    /// `--flag=value`.
    Value(&'static str),
    /// `--flag=value` for each value. The program joins repeated flags; a single flag with a list
    /// would be split at commas.
    Each(&'static str),
    /// The flag, if the switch is on.
    Switch(&'static str),
    /// The flag, unless the switch is off.
    SwitchOff(&'static str),
    /// `--flag=path` of a private file with the value, which may be long and confidential.
    File(&'static str),
    /// `--flag=value` for each value that is a path. JSON may contain secrets and goes into a
    /// private file.
    Json(&'static str),
    /// The handler of permission prompts.
    Prompts,
    /// A preset for other settings; see `preset.rs`.
    Preset,
}

impl Pass {
    /// Returns true if a value may contain secrets, such as the keys of MCP servers.
    const fn secret(&self) -> bool {
        matches!(self, Self::File(_) | Self::Json(_))
    }
}

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

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $pass:expr, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $pass.secret(), pass: $pass,
            help: $help },)*]
    };
}

/// The table. Arguments are passed in this order.
pub(super) const TABLE: &[Row<Pass>] = rows! {
    keys::MODEL, ValueKind::Word, None, Pass::Value("--model"), "Model to use: an alias such as opus or sonnet, or a full name.";
    "fallback_model", ValueKind::Word, None, Pass::Value("--fallback-model"), "Fallback model if the first one is overloaded. Separate several with commas to try them in order.";
    "effort", ValueKind::OneOf(EFFORTS), None, Pass::Value("--effort"), "Reasoning effort: low, medium, high, xhigh or max.";
    keys::SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, Pass::File("--system-prompt-file="), "Replace the system prompt. Has no effect on resumed sessions.";
    keys::APPEND_SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, Pass::File("--append-system-prompt-file="), "Append text to the system prompt. Has no effect on resumed sessions.";
    keys::TOOLS, ValueKind::ListOrNone, Some(one_tool), Pass::Each("--tools"), "Enable only these built-in tools, one per value. An empty value disables all of them.";
    keys::ALLOWED_TOOLS, ValueKind::List, Some(one_tool), Pass::Each("--allowed-tools"), "Allow a tool without a prompt, one rule per value, such as Edit or Bash(git log *).";
    keys::DISALLOWED_TOOLS, ValueKind::List, Some(one_tool), Pass::Each("--disallowed-tools"), "Deny a tool, one rule per value.";
    keys::PERMISSION_MODE, ValueKind::OneOf(MODES), None, Pass::Value("--permission-mode"), "Permission mode. bypassPermissions allows everything, regardless of allowed_tools.";
    "permission_prompt", ValueKind::OneOf(&["none", "host", "stdio"]), None, Pass::Prompts, "Handler of permission prompts: none (deny), host (Claude Code's default) or stdio (over the control channel).";
    keys::WORKSPACE_TOOLS, ValueKind::OneOf(&["file-tools"]), None, Pass::Preset, "Preset for workspace access. With file-tools, the agent can run only the program file-tools, which is confined to the workspace.";
    keys::ADD_DIR, ValueKind::List, None, Pass::Each("--add-dir"), "Allow tools to access another directory. Repeatable.";
    keys::MCP_CONFIG, ValueKind::List, Some(json_or_path), Pass::Json("--mcp-config="), "MCP servers: a file or JSON. Repeatable.";
    keys::STRICT_MCP, ValueKind::Switch, None, Pass::Switch("--strict-mcp-config"), "Use only the MCP servers from mcp_config.";
    keys::JSON_SCHEMA, ValueKind::Object, None, Pass::Value("--json-schema"), "JSON schema for a structured answer.";
    keys::MAX_TURNS, ValueKind::Count, None, Pass::Value("--max-turns"), "Maximum number of steps per message.";
    keys::MAX_BUDGET_USD, ValueKind::Amount, None, Pass::Value("--max-budget-usd"), "Maximum cost in US dollars.";
    "agents", ValueKind::Object, None, Pass::Json("--agents="), "Custom sub-agents, as a JSON object.";
    "agent", ValueKind::Word, Some(agent_name), Pass::Value("--agent"), "Agent for the session, either built-in or defined in agents.";
    keys::SESSION_ID, ValueKind::Uuid, None, Pass::Value("--session-id"), "Id for a new session, as a UUID.";
    keys::RESUME, ValueKind::Text(500), None, Pass::Value("--resume"), "Id or title of the session to resume.";
    keys::FORK, ValueKind::Switch, None, Pass::Switch("--fork-session"), "Resume a copy of the session and leave the original unchanged.";
    "no_session_persistence", ValueKind::Switch, None, Pass::Switch("--no-session-persistence"), "Do not save the session to disk. It cannot be resumed later.";
    "settings", ValueKind::Text(PROMPT), Some(json_or_path), Pass::Json("--settings="), "Additional Claude Code settings: a file or JSON.";
    "setting_sources", ValueKind::Text(100), Some(sources), Pass::Value("--setting-sources"), "Comma-separated list of settings files to load: user, project, local.";
    "betas", ValueKind::List, Some(plain_word), Pass::Each("--betas"), "Beta header for API requests. Repeatable.";
    "bare", ValueKind::Switch, None, Pass::Switch("--bare"), "Minimal mode: no hooks, plugins, memory or CLAUDE.md, and authentication only by API key.";
    "forward_subagent_text", ValueKind::Switch, None, Pass::Switch("--forward-subagent-text"), "Include text and thinking of sub-agents.";
    keys::INCLUDE_PARTIAL, ValueKind::Switch, None, Pass::SwitchOff("--include-partial-messages"), "Stream text as it is generated (default: true).";
};

/// Checks that a value is a single tool or rule. The program splits a value at commas and spaces
/// outside parentheses, which do not nest. Anything it would split is rejected, so that an
/// untrusted name cannot add a permission.
fn one_tool(value: &str) -> Result<(), String> {
    let (mut inside, mut opened) = (false, 0_u32);
    for c in value.chars() {
        match c {
            '(' => (inside, opened) = (true, opened + 1),
            ')' => inside = false,
            ',' if !inside => {
                return Err("a comma separates tools; pass each tool as a separate value".into());
            }
            c if !inside && (c.is_whitespace() || c.is_control()) => {
                return Err("a space separates tools; pass each tool as a separate value".into());
            }
            _ => {}
        }
    }
    match (inside, opened > 0 && !value.ends_with(')')) {
        (true, _) => Err("unclosed parenthesis".into()),
        (_, true) => Err(
            "expected a tool, or a tool with a pattern in parentheses, such as Bash(git log *)"
                .into(),
        ),
        _ => Ok(()),
    }
}

fn agent_name(value: &str) -> Result<(), String> {
    let ok = value.len() <= 100
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if ok {
        Ok(())
    } else {
        Err("expected at most 100 letters, digits, dashes and underscores".into())
    }
}

fn plain_word(value: &str) -> Result<(), String> {
    if value.contains(|c: char| c == ',' || c.is_whitespace()) {
        return Err("expected one name per value".into());
    }
    Ok(())
}

/// Returns true if a value that can be a path or JSON is JSON.
pub(super) fn is_json(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

fn json_or_path(value: &str) -> Result<(), String> {
    if is_json(value) && ValueKind::Object.check("", &[value.to_owned()]).is_err() {
        return Err("expected a file path or a JSON object".into());
    }
    Ok(())
}

fn sources(value: &str) -> Result<(), String> {
    if value
        .split(',')
        .all(|source| matches!(source.trim(), "user" | "project" | "local"))
    {
        return Ok(());
    }
    Err("expected a comma-separated list of user, project and local".into())
}
