//! Settings that a workspace has for the agent itself (hooks, MCP servers, plugins): under a
//! policy they start nothing, because no rule would see it.

use ostler::permission::{Policy, Preset};
use ostler::spec::ProjectSettings;
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{CLAUDE, CODEX, OPENCODE, Subject, Task, TestEnv};
use serde_json::{Value, json};

use crate::driver::{agent, host, runtime, spec};
use crate::rig::finish;

/// A workspace whose settings for an agent start programs, each of which leaves a mark.
struct Planted {
    subject: &'static Subject,
    task: Task,
    files: fn(&TestEnv) -> Vec<(&'static str, String)>,
    marks: &'static [&'static str],
}

impl Planted {
    /// Runs one turn under a policy that allows everything, and returns the marks.
    fn marks_left(&self, project_settings: ProjectSettings) -> Vec<&'static str> {
        let script = Script::new()
            .rule(Rule::on_tool_result().text("Done."))
            .rule(Rule::any().answer(self.subject.shell("echo hello")));
        let place = TestEnv::new(self.subject, script);
        for (path, text) in (self.files)(&place) {
            let path = place.work().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let spec = spec(&place, &self.task)
            .policy(Policy::preset(Preset::All))
            .project_settings(project_settings);
        let start = async {
            let session = agent(self.subject).start(&host(&place), spec);
            finish(session.unwrap()).await
        };
        let seen = runtime().block_on(start);
        assert!(seen.outcome().is_success(), "{:?}", seen.outcome());
        let left = |mark: &&&str| place.outside(mark).exists();
        self.marks.iter().filter(left).copied().collect()
    }

    /// Checks that the programs start only if the project is trusted.
    fn assert_ignored(&self) {
        assert!(self.marks_left(ProjectSettings::Untrusted).is_empty());
        assert_eq!(self.marks_left(ProjectSettings::Trusted), self.marks);
    }
}

/// Returns a shell command that leaves a mark.
fn marking(place: &TestEnv, mark: &str) -> String {
    format!("touch '{}'", place.outside(mark).display())
}

/// Returns an MCP server that leaves a mark and exits.
fn server(place: &TestEnv) -> Value {
    json!({"command": "sh", "args": ["-c", marking(place, "server")]})
}

// Issue 17, item 2.
#[test]
fn claude_starts_no_hook_and_no_server_of_a_project() {
    let files = |place: &TestEnv| {
        let hook =
            |mark| json!([{"hooks": [{"type": "command", "command": marking(place, mark)}]}]);
        let settings = json!({
            "enableAllProjectMcpServers": true,
            "hooks": {"SessionStart": hook("session-hook"), "PreToolUse": hook("tool-hook")},
        });
        let servers = json!({"mcpServers": {"planted": server(place)}});
        vec![
            (".claude/settings.json", settings.to_string()),
            (".claude/settings.local.json", settings.to_string()),
            (".mcp.json", servers.to_string()),
        ]
    };
    Planted {
        subject: &CLAUDE,
        task: Task::new("PROMPT"),
        files,
        marks: &["session-hook", "tool-hook", "server"],
    }
    .assert_ignored();
}

// Codex trusts a project by itself as soon as its sandbox may write there.
#[test]
fn codex_starts_no_server_of_a_project() {
    let files = |place: &TestEnv| {
        let command = marking(place, "server");
        let config =
            format!("[mcp_servers.planted]\ncommand = \"sh\"\nargs = [\"-c\", \"{command}\"]\n");
        vec![(".codex/config.toml", config)]
    };
    Planted {
        subject: &CODEX,
        task: Task::new("PROMPT").set("permission_mode", "workspace-write"),
        files,
        marks: &["server"],
    }
    .assert_ignored();
}

#[test]
fn opencode_starts_no_server_of_a_project() {
    let files = |place: &TestEnv| {
        let command = json!(["sh", "-c", marking(place, "server")]);
        let config = json!({"mcp": {"planted": {"type": "local", "command": command}}});
        vec![("opencode.json", config.to_string())]
    };
    Planted {
        subject: &OPENCODE,
        task: Task::new("PROMPT"),
        files,
        marks: &["server"],
    }
    .assert_ignored();
}
