//! Approvals as they are shown: what is requested, in which session, and what an answer covers.

use std::path::{Path, PathBuf};

use ostler::Agents;
use ostler::render::change::{self, ChangeKind, FileChange};
use ostler::render::clip::sanitize;
use ostler_core::event::{Event, EventKind, Permission};
use ostler_core::permission::{Command, Policy, PolicyAction, ToolKind, ToolUse, Trust};
use ostler_page::diff::{FileDiff, TextBefore};
use ostler_store::{Approval, ApprovalState};
use serde_json::Value;

use crate::api::ApprovalView;
use crate::replaced::{Replaced, ReplacedFiles};

/// Maximum length of a summary, in characters.
const MAX_SUMMARY: usize = 200;

/// Maximum size of a rule, in bytes. A longer one would hide the request.
const MAX_RULE: usize = 4_000;

/// Returns the paths of the files that a request replaces as a whole.
pub(crate) fn replaced_paths(approval: &Approval) -> Vec<String> {
    let request = RequestedUse::of_approval(approval);
    let changes = request.map(|request| request.changes()).unwrap_or_default();
    let is_whole = |change: &FileChange| matches!(change.kind, ChangeKind::Write(_));
    let whole = changes.into_iter().filter(is_whole);
    whole.map(|change| change.path).collect()
}

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        Self::compared(approval, &ReplacedFiles::default())
    }
}

impl ApprovalView {
    /// Returns the view of an approval. Its diff compares with these files.
    pub(crate) fn compared(approval: Approval, files: &ReplacedFiles) -> Self {
        let event: Value = serde_json::from_str(&approval.event).unwrap_or(Value::Null);
        let request = RequestedUse::of_approval(&approval);
        let is_pending = approval.state == ApprovalState::Pending;
        Self {
            tool: request.as_ref().map(|it| it.permission.tool.clone()),
            kind: request.as_ref().map(|it| it.wants.kind),
            summary: request.as_ref().map(RequestedUse::summary),
            rule: request
                .as_ref()
                .and_then(|it| it.permission.message.clone()),
            diff: request
                .as_ref()
                .map(|it| it.diff(files))
                .unwrap_or_default(),
            files_read_at: (!files.is_empty()).then(|| files.at.to_string()),
            always: request
                .as_ref()
                .filter(|_| is_pending)
                .map(RequestedUse::grant),
            always_rule: request
                .as_ref()
                .filter(|_| is_pending)
                .and_then(|it| it.rule(&approval.dir)),
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
    /// Returns the request of an approval, if its event can be read.
    fn of_approval(approval: &Approval) -> Option<Self> {
        match Event::from_json(&approval.event) {
            Ok(Event {
                kind: EventKind::Permission(permission),
                ..
            }) => Some(Self::of(&approval.agent, permission)),
            _ => None,
        }
    }

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

    /// Describes what "always" would allow, in plain words. It covers the same command or the same
    /// files, and ends with the session.
    fn grant(&self) -> String {
        let tool = sanitize(&self.permission.tool);
        let summary = self.summary();
        let action = match (&self.wants.command, &self.wants.paths[..]) {
            (Some(_), _) if summary.ends_with('…') => {
                format!("run exactly this command with {tool}")
            }
            (Some(_), _) => format!("run `{summary}` with {tool}, exactly as it is here"),
            (None, []) => format!("use {tool} with exactly these arguments"),
            (None, _) => match self.wants.kind {
                ToolKind::Edit => format!("change `{summary}` with {tool}, to any content"),
                ToolKind::Read => format!("read `{summary}` with {tool}"),
                _ => format!("use {tool} on `{summary}`, with any other arguments"),
            },
        };
        format!("Until this session ends, the agent may {action}, without asking again.")
    }

    /// Returns what "always" would allow as a rule of a policy file, if a rule can say the same.
    /// A rule about a command allows further words, one about several files allows each of them,
    /// and none is about arguments.
    fn rule(&self, dir: &Path) -> Option<String> {
        let wants = &self.wants;
        let [path] = &wants.paths[..] else {
            return None;
        };
        if wants.command.is_some() || wants.tool.contains('*') {
            return None;
        }
        // The rule may be used in any workspace.
        let path: PathBuf = dir.join(path).components().collect();
        let quoted = |text: &str| serde_json::to_string(text).ok(); // a TOML string too
        let rule = format!(
            "[[rule]]\ntool = {}\nkind = \"{}\"\npath = {}\ndo = \"allow\"",
            quoted(&wants.tool)?,
            wants.kind.as_str(),
            quoted(&literal_pattern(path.to_str()?))?
        );
        let policy = Policy::parse(&rule, "always", Trust::Full).ok()?;
        let is_allowed = policy.decide(wants, dir.to_str()?).action == PolicyAction::Allow;
        (is_allowed && rule.len() <= MAX_RULE).then_some(rule)
    }

    /// Returns the requested changes of files.
    fn changes(&self) -> Vec<FileChange> {
        let input = self.permission.input.as_ref();
        input
            .map(|input| change::of_input(&self.wants, input))
            .unwrap_or_default()
    }

    /// Returns the diffs of the requested changes, compared with these files where a whole file is
    /// replaced.
    fn diff(&self, files: &ReplacedFiles) -> Vec<FileDiff> {
        let changes = self.changes();
        // A file that changes twice has no single text before.
        let is_only = |path: &str| changes.iter().filter(|it| it.path == path).count() == 1;
        let mut diffs = FileDiff::of_changes(&changes, str::to_owned);
        for change in changes.iter().filter(|change| is_only(&change.path)) {
            let ChangeKind::Write(new) = &change.kind else {
                continue;
            };
            let (old, before) = match files.get(&change.path) {
                Some(Replaced::Nothing) => ("", TextBefore::Missing),
                Some(Replaced::Text(text)) => (&**text, TextBefore::File),
                None => continue,
            };
            if let Some(diff) = diffs.iter_mut().find(|diff| diff.path == change.path) {
                *diff = FileDiff::between_texts(&change.path, old, new, before);
            }
        }
        diffs
    }
}

/// Returns the pattern that matches only this path.
fn literal_pattern(path: &str) -> String {
    let special = |c: char| "\\*?[]{}".contains(c).then_some('\\');
    path.chars()
        .flat_map(|c| special(c).into_iter().chain([c]))
        .collect()
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
        approval(agent, permission, state).into()
    }

    fn approval(agent: &str, permission: &str, state: ApprovalState) -> Approval {
        let event = format!(
            r#"{{"seq":1,"at":"2026-11-18T00:00:00.000Z","session":"s","turn":1,
            "type":"permission","id":"q","decision":"asked","by":"default",{permission}}}"#
        );
        Approval {
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
        }
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
            Some(
                "Until this session ends, the agent may run `rm -r x` with Bash, exactly as it is \
                 here, without asking again."
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
            Some(
                "Until this session ends, the agent may change `/w/a` with Edit, to any content, \
                 without asking again."
            )
        );
        assert_eq!(
            edit.always_rule.as_deref(),
            Some("[[rule]]\ntool = \"Edit\"\nkind = \"edit\"\npath = \"/w/a\"\ndo = \"allow\"")
        );
        let diff = &edit.diff[0];
        assert_eq!((diff.added, diff.removed), (1, 2));
        assert_eq!(diff.hunks[0].lines[2].text, "z");

        let other = r#""tool":"mcp__a__b","kind":"mcp","input":{"n":1}"#;
        let other = view("unknown", other, pending);
        assert_eq!(other.summary.as_deref(), Some(r#"{"n":1}"#));
        assert_eq!(
            other.always.as_deref(),
            Some(
                "Until this session ends, the agent may use mcp__a__b with exactly these \
                 arguments, without asking again."
            )
        );
        let decided = r#""tool":"Bash","kind":"execute","input":{"command":"ls"}"#;
        let decided = view("claude", decided, ApprovalState::Denied);
        assert_eq!((decided.always, decided.always_rule), (None, None));
    }

    // What is shown as a rule of a policy is one, and allows what "always" allows: nothing more.
    #[test]
    fn a_rule_allows_what_always_allows_and_nothing_else() {
        let use_of = |tool: &str, input: &str| {
            let permission = format!(r#""tool":"{tool}","kind":"edit","input":{input}"#);
            let approval = approval("claude", &permission, ApprovalState::Pending);
            RequestedUse::of_approval(&approval).unwrap()
        };
        let dir = Path::new("/w");
        let edit = |path: &str| {
            let input =
                serde_json::json!({"file_path": path, "old_string": "x", "new_string": "y"});
            use_of("Edit", &input.to_string())
        };
        for path in [
            "/w/a",
            "a",
            "./b/../a b",
            "b/[x]*{y}?",
            "/etc/ü \"'#",
            "-x",
            "a\tb",
        ] {
            let wants = edit(path);
            let Some(rule) = wants.rule(dir) else {
                assert!(
                    path.contains(['\t']) || path.contains(".."),
                    "no rule: {path}"
                );
                continue;
            };
            let policy = Policy::parse(&rule, "test", Trust::Full).unwrap();
            let allows = |wants: &ToolUse, dir: &str| {
                policy.decide(wants, dir).action == PolicyAction::Allow
            };
            assert!(allows(&wants.wants, "/w"), "{rule}");
            for other in [
                edit(&format!("{path}b")),
                edit(&format!("{path}/b")),
                edit("b/x"),
                edit("c"),
                use_of(
                    "Write",
                    &format!(r#"{{"file_path":{},"content":""}}"#, json(path)),
                ),
                use_of("Read", &format!(r#"{{"file_path":{}}}"#, json(path))),
            ] {
                assert!(!allows(&other.wants, "/w"), "{rule}: {:?}", other.wants);
            }
            let is_relative = !path.starts_with('/');
            assert_eq!(!allows(&wants.wants, "/elsewhere"), is_relative, "{rule}");
        }
        // A rule about a command would allow a longer one.
        for (tool, input) in [
            ("Bash", r#"{"command":"cargo test"}"#),
            ("Bash", r#"{"command":"ls | wc"}"#),
            ("mcp__a__b", r#"{"n":1}"#),
            ("Ed*", r#"{"file_path":"/w/a"}"#),
        ] {
            assert_eq!(use_of(tool, input).rule(dir), None, "{tool} {input}");
        }
        let several = RequestedUse {
            wants: ToolUse {
                paths: vec!["/w/a".into(), "/w/b".into()],
                ..edit("/w/a").wants
            },
            ..edit("/w/a")
        };
        assert_eq!(several.rule(dir), None, "it would allow each of them");
    }

    fn json(text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    #[test]
    fn a_replaced_file_is_compared_with_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "one\ntwo\n").unwrap();
        let write = |path: &str| Approval {
            dir: dir.path().to_owned(),
            ..approval(
                "claude",
                &format!(
                    r#""tool":"Write","kind":"edit","input":
                    {{"file_path":"{path}","content":"one\n2\n"}}"#
                ),
                ApprovalState::Pending,
            )
        };
        let compared = |path: &str| {
            let approval = write(path);
            let paths = replaced_paths(&approval);
            assert_eq!(paths, [path]);
            let files = ReplacedFiles::read(&approval.dir, &paths, Timestamp(5));
            ApprovalView::compared(approval, &files)
        };
        let known = compared("a");
        let diff = &known.diff[0];
        assert_eq!((diff.added, diff.removed, diff.partial), (1, 1, false));
        assert_eq!(diff.before, Some(TextBefore::File));
        assert_eq!(known.files_read_at, Some(Timestamp(5).to_string()));
        let new = compared("b");
        assert_eq!(new.diff[0].before, Some(TextBefore::Missing));
        assert_eq!((new.diff[0].added, new.diff[0].partial), (2, false));
        let outside = compared("../c");
        assert!(outside.diff[0].partial && outside.diff[0].before.is_none());
        assert_eq!(outside.files_read_at, None);
    }

    #[test]
    fn words_of_a_command_stay_apart() {
        let words = ["echo", "a b", "", "it's"].map(str::to_owned);
        assert_eq!(shlex::split(&shell_line(&words)).unwrap(), words);
        assert_eq!(shell_line(&["ls".into(), "-l".into()]), "ls -l");
    }
}
