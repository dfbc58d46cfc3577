//! Every setting of Claude Code: one flat table.

use ostler_core::spec::{Kind, keys};

use crate::settings::Row;

/// How a setting becomes arguments. Values always go as `--flag=value`, so that none is taken for a flag.
pub(super) enum Pass {
    /// `--flag=value`.
    Value(&'static str),
    /// `--flag=value` for each value. The program joins repeated flags; one flag with a list would be cut at its commas.
    Each(&'static str),
    /// The flag when the switch is on.
    Switch(&'static str),
    /// The flag when the switch is on or not given.
    SwitchOff(&'static str),
    /// `--flag=path` of a private file that holds the value: it may be long, and it is nobody else's business.
    File(&'static str),
    /// `--flag=value` for each value that is a path; JSON may hold secrets and goes into a private file.
    Json(&'static str),
    /// Who answers when the agent asks for permission.
    Prompts,
    /// Stands for other settings; see `preset.rs`.
    Preset,
}

impl Pass {
    /// Whether a value may hold secrets: keys of MCP servers, whatever a prompt says.
    const fn secret(&self) -> bool {
        matches!(self, Self::File(_) | Self::Json(_))
    }
}

/// How long a system prompt may be. Document 004 says 50,000 characters, but a caller with a megabyte of instructions is
/// served too: it goes through a file.
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
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $pass.secret(), pass: $pass, help: $help },)*]
    };
}

/// The table. Arguments come in its order.
pub(super) const TABLE: &[Row<Pass>] = rows! {
    keys::MODEL, Kind::Word, None, Pass::Value("--model"), "The model: an alias such as opus or sonnet, or a full name.";
    "fallback_model", Kind::Word, None, Pass::Value("--fallback-model"), "The model to use when the first is overloaded; several, separated by commas, are tried in order.";
    "effort", Kind::OneOf(EFFORTS), None, Pass::Value("--effort"), "How hard the model works: low, medium, high, xhigh or max.";
    keys::SYSTEM_PROMPT, Kind::Text(PROMPT), None, Pass::File("--system-prompt-file="), "Replaces the system prompt. A resumed session keeps the one it began with.";
    keys::APPEND_SYSTEM_PROMPT, Kind::Text(PROMPT), None, Pass::File("--append-system-prompt-file="), "Is added to the system prompt. A resumed session keeps the one it began with.";
    keys::TOOLS, Kind::ListOrNone, Some(one_tool), Pass::Each("--tools"), "The built-in tools that exist, one per value; a single empty value: none at all.";
    keys::ALLOWED_TOOLS, Kind::List, Some(one_tool), Pass::Each("--allowed-tools"), "Tools allowed without asking, one rule per value: Edit, or Bash(git log *).";
    keys::DISALLOWED_TOOLS, Kind::List, Some(one_tool), Pass::Each("--disallowed-tools"), "Tools that are never allowed, one rule per value.";
    keys::PERMISSION_MODE, Kind::OneOf(MODES), None, Pass::Value("--permission-mode"), "What the agent may do without asking. bypassPermissions allows everything, whatever allowed_tools says.";
    "permission_prompt", Kind::OneOf(&["none", "host", "stdio"]), None, Pass::Prompts, "Who answers when the agent would ask: none (deny), host (Claude Code's default), stdio (ask over the control channel).";
    keys::WORKSPACE_TOOLS, Kind::OneOf(&["file-tools"]), None, Pass::Preset, "file-tools: the only tool is Bash, and the only command in it the program file-tools, which keeps to the workspace.";
    keys::ADD_DIR, Kind::List, None, Pass::Each("--add-dir"), "A further directory the tools may use; repeatable.";
    keys::MCP_CONFIG, Kind::List, Some(json_or_path), Pass::Json("--mcp-config="), "MCP servers: a file, or JSON; repeatable.";
    keys::STRICT_MCP, Kind::Switch, None, Pass::Switch("--strict-mcp-config"), "Only the MCP servers of mcp_config.";
    keys::JSON_SCHEMA, Kind::Object, None, Pass::Value("--json-schema"), "The JSON schema of a structured answer.";
    keys::MAX_TURNS, Kind::Count, None, Pass::Value("--max-turns"), "At most so many steps per message.";
    keys::MAX_BUDGET_USD, Kind::Amount, None, Pass::Value("--max-budget-usd"), "At most so much money, in US dollars.";
    "agents", Kind::Object, None, Pass::Json("--agents="), "Sub-agents, as a JSON object.";
    "agent", Kind::Word, Some(agent_name), Pass::Value("--agent"), "The agent of the session, one of Claude Code's own or of agents.";
    keys::SESSION_ID, Kind::Uuid, None, Pass::Value("--session-id"), "The id of a new session: a UUID.";
    keys::RESUME, Kind::Text(500), None, Pass::Value("--resume"), "The id or title of the session to resume.";
    keys::FORK, Kind::Switch, None, Pass::Switch("--fork-session"), "Go on with a copy of the resumed session.";
    "no_session_persistence", Kind::Switch, None, Pass::Switch("--no-session-persistence"), "Do not keep the session on disk; it cannot be resumed then.";
    "settings", Kind::Text(PROMPT), Some(json_or_path), Pass::Json("--settings="), "Further settings of Claude Code: a file, or JSON.";
    "setting_sources", Kind::Text(100), Some(sources), Pass::Value("--setting-sources"), "Which settings files are read: user, project, local, separated by commas.";
    "betas", Kind::List, Some(plain_word), Pass::Each("--betas"), "Beta headers for the model's service; repeatable.";
    "bare", Kind::Switch, None, Pass::Switch("--bare"), "Minimal mode: no hooks, plugins, memory or CLAUDE.md; only API keys for login.";
    "forward_subagent_text", Kind::Switch, None, Pass::Switch("--forward-subagent-text"), "Show what sub-agents say and think.";
    keys::INCLUDE_PARTIAL, Kind::Switch, None, Pass::SwitchOff("--include-partial-messages"), "Stream text as it is written; on unless false.";
};

/// One tool or rule. The program cuts a value at commas and spaces outside parentheses, which do not nest: whatever it
/// would take for two rules is refused here, so that a name from elsewhere cannot bring a permission along.
fn one_tool(value: &str) -> Result<(), String> {
    let (mut inside, mut opened) = (false, 0_u32);
    for c in value.chars() {
        match c {
            '(' => (inside, opened) = (true, opened + 1),
            ')' => inside = false,
            ',' if !inside => {
                return Err("a comma separates tools; give each tool as a value of its own".into());
            }
            c if !inside && (c.is_whitespace() || c.is_control()) => {
                return Err("a space separates tools; give each tool as a value of its own".into());
            }
            _ => {}
        }
    }
    match (inside, opened > 0 && !value.ends_with(')')) {
        (true, _) => Err("a parenthesis is not closed".into()),
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

/// Whether a value that can be a path or JSON is JSON.
pub(super) fn is_json(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

fn json_or_path(value: &str) -> Result<(), String> {
    if is_json(value) && Kind::Object.check("", &[value.to_owned()]).is_err() {
        return Err("expected the path of a file, or a JSON object; this is neither".into());
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
    Err("expected user, project, local, or several of them separated by commas".into())
}
