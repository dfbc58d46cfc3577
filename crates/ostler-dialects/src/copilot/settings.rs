//! Every setting of the Copilot CLI: one flat table.

use ostler_core::spec::{Kind, keys};

use crate::settings::Row;

/// The setting that chooses the language.
pub(super) const TRANSPORT: &str = "transport";

/// The Agent Client Protocol, in that setting.
pub(super) const ACP: &str = "acp";

/// How a setting becomes arguments. Values always go as `--flag=value`, so that none is taken for a flag.
pub(super) enum Pass {
    /// `--flag=value`.
    Value(&'static str),
    /// `--flag=value` for each value.
    Each(&'static str),
    /// The flag when the switch is on.
    Switch(&'static str),
    /// `--flag=@path`: JSON may hold secrets and goes into a private file.
    Json(&'static str),
    /// What may run without asking.
    Mode,
    /// What must not run: by the name of a tool, or by a rule.
    Deny,
    /// Not for the program.
    Ours,
}

impl Pass {
    const fn secret(&self) -> bool {
        matches!(self, Self::Json(_))
    }
}

/// What the agent may do without asking, and the flag for it. Copilot itself has no word for its default.
pub(super) const MODES: &[(&str, Option<&str>)] = &[
    ("default", None),
    ("allow-tools", Some("--allow-all-tools")),
    ("allow-all", Some("--allow-all")),
];

const MODE_NAMES: &[&str] = &["default", "allow-tools", "allow-all"];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $pass:expr, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $pass.secret(), pass: $pass, help: $help },)*]
    };
}

/// The table. Arguments come in its order.
pub(super) const TABLE: &[Row<Pass>] = rows! {
    TRANSPORT, Kind::OneOf(&["jsonl", ACP]), None, Pass::Ours, "How Ostler talks to the agent: jsonl (a process per turn) or acp. Without it: acp when the session waits for further messages, has a policy or tools of the caller's.";
    keys::MODEL, Kind::Word, None, Pass::Value("--model"), "The model; auto lets Copilot choose.";
    "effort", Kind::OneOf(EFFORTS), None, Pass::Value("--reasoning-effort"), "How hard the model thinks: none, minimal, low, medium, high, xhigh or max.";
    "agent", Kind::Word, None, Pass::Value("--agent"), "A custom agent.";
    keys::TOOLS, Kind::List, Some(one_rule), Pass::Each("--available-tools"), "The tools that exist, one per value. That there are none at all cannot be said.";
    keys::ALLOWED_TOOLS, Kind::List, Some(one_rule), Pass::Each("--allow-tool"), "Allowed without asking, one rule per value: shell(git:*), write, or the name of an MCP server.";
    keys::DISALLOWED_TOOLS, Kind::List, Some(one_rule), Pass::Deny, "Never allowed, one per value: a tool, which is then gone, or a rule such as shell(git push).";
    keys::PERMISSION_MODE, Kind::OneOf(MODE_NAMES), None, Pass::Mode, "What may run without asking: default (reading only), allow-tools (every tool), allow-all (also every path and address).";
    keys::ADD_DIR, Kind::List, None, Pass::Each("--add-dir"), "A further directory the tools may use; repeatable.";
    keys::MCP_CONFIG, Kind::List, None, Pass::Json("--additional-mcp-config="), "Further MCP servers: a file, or JSON; repeatable.";
    keys::SESSION_ID, Kind::Uuid, None, Pass::Value("--session-id"), "The id of a new session: a UUID. Without it, Ostler chooses one.";
    keys::RESUME, Kind::Text(500), None, Pass::Value("--resume"), "The id or name of the session to resume.";
    "no_custom_instructions", Kind::Switch, None, Pass::Switch("--no-custom-instructions"), "Do not read AGENTS.md and its like.";
    "no_builtin_mcps", Kind::Switch, None, Pass::Switch("--disable-builtin-mcps"), "Without Copilot's own MCP servers.";
    "max_ai_credits", Kind::Amount, None, Pass::Value("--max-ai-credits"), "At most so many AI credits.";
};

/// One tool or rule. A comma outside of parentheses would make two of it, and bring a permission along that nobody gave.
fn one_rule(value: &str) -> Result<(), String> {
    let mut inside = false;
    for c in value.chars() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            c if !inside && (c == ',' || c.is_whitespace() || c.is_control()) => {
                return Err("expected one tool or rule per value".into());
            }
            _ => {}
        }
    }
    if inside {
        Err("a parenthesis is not closed".into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MODE_NAMES, MODES, one_rule};

    #[test]
    fn a_value_is_one_rule() {
        for good in [
            "write",
            "shell(git:*)",
            "shell(git push, please)",
            "MyMCP(tool)",
        ] {
            assert_eq!(one_rule(good), Ok(()), "{good}");
        }
        for bad in ["write,shell", "write shell", "shell(git"] {
            assert!(one_rule(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_mode_is_offered() {
        assert_eq!(
            MODES.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            MODE_NAMES
        );
    }
}
