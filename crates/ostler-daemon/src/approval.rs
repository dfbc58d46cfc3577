//! Approvals as they are shown: what is requested, in which session, and what an answer covers.

use ostler::Agents;
use ostler::render::change;
use ostler::render::clip::sanitize;
use ostler_core::event::{Event, EventKind, Permission};
use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_page::diff::FileDiff;
use ostler_store::{Approval, ApprovalState};
use serde_json::Value;

use crate::api::ApprovalView;

/// Maximum length of a summary, in characters.
const MAX_SUMMARY: usize = 200;

/// Maximum size of a rule, in bytes. A longer one would hide the request.
const MAX_RULE: usize = 4_000;

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        let event: Value = serde_json::from_str(&approval.event).unwrap_or(Value::Null);
        let permission = match Event::from_json(&approval.event) {
            Ok(Event {
                kind: EventKind::Permission(permission),
                ..
            }) => Some(permission),
            _ => None,
        };
        let request = permission.map(|permission| RequestedUse::of(&approval.agent, permission));
        let is_pending = approval.state == ApprovalState::Pending;
        Self {
            tool: request.as_ref().map(|it| it.permission.tool.clone()),
            kind: request.as_ref().map(|it| it.wants.kind),
            summary: request.as_ref().map(RequestedUse::summary),
            rule: request
                .as_ref()
                .and_then(|it| it.permission.message.clone()),
            diff: request.as_ref().map(RequestedUse::diff).unwrap_or_default(),
            always: request
                .as_ref()
                .filter(|_| is_pending)
                .map(RequestedUse::grant),
            always_rule: request
                .as_ref()
                .filter(|_| is_pending)
                .and_then(RequestedUse::rule),
            event,
            id: approval.id,
            session: approval.session,
            agent: approval.agent,
            dir: approval.dir,
            name: approval.name,
            state: approval.state.as_str().to_owned(),
            asked_at: approval.asked_at.to_string(),
            expires_at: approval.expires_at.to_string(),
            options: vec!["allow".to_owned(), "deny".to_owned()],
            decided_at: approval.decided_at.map(|at| at.to_string()),
            decided_by: approval.decided_by,
            message: approval.message,
        }
    }
}

/// A permission request, and what its tool would do.
struct RequestedUse {
    permission: Permission,
    wants: ToolUse,
}

impl RequestedUse {
    fn of(agent: &str, permission: Permission) -> Self {
        let kind = permission.kind.unwrap_or(ToolKind::Other);
        let agent = Agents::builtin().get(agent);
        let wants = match (agent, &permission.input) {
            (Some(agent), Some(input)) => agent.dialect().tool_use(&permission.tool, input),
            _ => ToolUse::new(&permission.tool, kind),
        };
        Self { permission, wants }
    }

    /// Describes the request on one line: its command, its paths, or its arguments.
    fn summary(&self) -> String {
        let text = match (&self.wants.command, &self.wants.paths[..]) {
            (Some(Command::Shell(line)), _) => line.clone(),
            (Some(Command::Words(words)), _) => shell_line(words),
            (None, []) => {
                let input = self.permission.input.as_ref();
                input
                    .map(|input| input.get().to_owned())
                    .unwrap_or_default()
            }
            (None, paths) => paths.join(", "),
        };
        let line = sanitize(&text);
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MAX_SUMMARY) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Describes what "always" would allow. It covers the same command or the same files, and ends
    /// with the session.
    fn grant(&self) -> String {
        let tool = sanitize(&self.permission.tool);
        let subject = match (&self.wants.command, &self.wants.paths[..]) {
            (Some(_), _) => format!("the command `{}`", self.summary()),
            (None, []) => "exactly these arguments".to_owned(),
            (None, _) => format!("{}, with any content", self.summary()),
        };
        format!("{tool}: {subject}, for the rest of this session")
    }

    /// Returns what "always" would allow as a rule of a policy file. Its comments name what such a
    /// rule cannot say.
    fn rule(&self) -> Option<String> {
        let quoted = |text: &str| serde_json::to_string(text).ok(); // a TOML string too
        let condition = match (&self.wants.command, &self.wants.paths[..]) {
            (Some(Command::Shell(line)), _) => {
                format!("command = {}  # exactly this line\n", quoted(line)?)
            }
            (Some(Command::Words(words)), _) => {
                let line = quoted(&shell_line(words))?;
                format!("command = {line}  # exactly these words\n")
            }
            (None, []) => "# with exactly these arguments\n".to_owned(),
            (None, paths) => format!("path = {}\n", serde_json::to_string(paths).ok()?),
        };
        let tool = quoted(&self.permission.tool)?;
        let rule =
            format!("[[rule]]  # until the session ends\ntool = {tool}\n{condition}do = \"allow\"");
        (rule.len() <= MAX_RULE).then_some(rule)
    }

    /// Returns the requested changes of files.
    fn diff(&self) -> Vec<FileDiff> {
        let changes = self.permission.input.as_ref();
        let changes = changes.map(|input| change::of_input(&self.wants, input));
        FileDiff::of_changes(changes.iter().flatten(), str::to_owned)
    }
}

/// Joins the words of a command so that a shell would split them again.
fn shell_line(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), std::borrow::Cow::into_owned)
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use ostler_core::event::Timestamp;

    use super::*;

    fn view(agent: &str, permission: &str, state: ApprovalState) -> ApprovalView {
        let event = format!(
            r#"{{"seq":1,"at":"2026-11-18T00:00:00.000Z","session":"s","turn":1,
            "type":"permission","id":"q","decision":"asked","by":"default",{permission}}}"#
        );
        ApprovalView::from(Approval {
            id: "1".into(),
            session: "s".into(),
            agent: agent.into(),
            dir: "/w".into(),
            name: "n".into(),
            event,
            request: "q".into(),
            asked_at: Timestamp(0),
            expires_at: Timestamp(1),
            state,
            decided_at: None,
            decided_by: None,
            message: None,
        })
    }

    #[test]
    fn a_request_says_what_it_is_about_and_what_always_covers() {
        let pending = ApprovalState::Pending;
        let command = r#""tool":"Bash","kind":"execute","input":{"command":"rm  -r\n x"},
            "message":"ask-rm""#;
        let command = view("claude", command, pending);
        assert_eq!(command.summary.as_deref(), Some("rm -r x"));
        assert_eq!(command.rule.as_deref(), Some("ask-rm"));
        assert_eq!(
            command.always.as_deref(),
            Some("Bash: the command `rm -r x`, for the rest of this session")
        );
        assert_eq!(
            command.always_rule.as_deref(),
            Some(
                "[[rule]]  # until the session ends\ntool = \"Bash\"\n\
                 command = \"rm  -r\\n x\"  # exactly this line\ndo = \"allow\""
            )
        );
        assert_eq!(command.kind, Some(ToolKind::Execute));
        assert!(command.diff.is_empty());

        let edit = r#""tool":"Edit","kind":"edit","input":
            {"file_path":"/w/a","old_string":"x\ny","new_string":"z"}"#;
        let edit = view("claude", edit, pending);
        assert_eq!(edit.summary.as_deref(), Some("/w/a"));
        assert_eq!(
            edit.always.as_deref(),
            Some("Edit: /w/a, with any content, for the rest of this session")
        );
        assert_eq!(
            edit.always_rule.as_deref(),
            Some(
                "[[rule]]  # until the session ends\ntool = \"Edit\"\n\
                 path = [\"/w/a\"]\ndo = \"allow\""
            )
        );
        let diff = &edit.diff[0];
        assert_eq!((diff.added, diff.removed), (1, 2));
        assert_eq!(diff.hunks[0].lines[2].text, "z");

        let other = r#""tool":"mcp__a__b","kind":"mcp","input":{"n":1}"#;
        let other = view("unknown", other, pending);
        assert_eq!(other.summary.as_deref(), Some(r#"{"n":1}"#));
        assert_eq!(
            other.always.as_deref(),
            Some("mcp__a__b: exactly these arguments, for the rest of this session")
        );
        let decided = r#""tool":"Bash","kind":"execute","input":{"command":"ls"}"#;
        let decided = view("claude", decided, ApprovalState::Denied);
        assert_eq!((decided.always, decided.always_rule), (None, None));
    }

    #[test]
    fn words_of_a_command_stay_apart() {
        let words = ["echo", "a b", "", "it's"].map(str::to_owned);
        assert_eq!(shlex::split(&shell_line(&words)).unwrap(), words);
        assert_eq!(shell_line(&["ls".into(), "-l".into()]), "ls -l");
    }
}
