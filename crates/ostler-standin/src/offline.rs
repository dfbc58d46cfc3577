//! Configuration that makes an agent use the stand-in instead of its provider: variables and files,
//! as data.

use std::path::Path;

use serde_json::{Value, json};

/// Configuration of an agent. `{url}` stands for the stand-in's address, and `{home}` for a home
/// directory that only this agent uses.
#[derive(Debug)]
pub struct Offline {
    /// The agent's name in Ostler.
    pub agent: &'static str,
    /// Environment variables to set.
    env: &'static [(&'static str, &'static str)],
    /// Files to write into the home directory.
    files: &'static [(&'static str, &'static str)],
    /// Settings to pass to the agent.
    pub settings: &'static [(&'static str, &'static str)],
    /// Returns the tool call that runs a shell command.
    pub shell: fn(&str) -> (&'static str, Value),
}

/// API key. The stand-in accepts any.
pub const KEY: &str = "sk-a-key-of-the-stand-in";

/// Model name, for agents that require one.
pub const MODEL: &str = "stand-in";

const CLAUDE_ENV: &[(&str, &str)] = &[
    ("ANTHROPIC_BASE_URL", "{url}"),
    ("ANTHROPIC_API_KEY", KEY),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    // The default of ten retries with backoff makes an authentication error take minutes.
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
    // Otherwise root cannot bypass permissions.
    ("IS_SANDBOX", "1"),
];

const CODEX_ENV: &[(&str, &str)] = &[
    ("CODEX_HOME", "{home}/.codex"),
    ("OPENAI_API_KEY", KEY),
    // It looks for plugins and updates at hosts that do not resolve here, and exits only when its
    // resolver gives up, five seconds later. With a dead proxy it resolves nothing. The stand-in
    // does not use HTTPS.
    ("HTTPS_PROXY", "http://127.0.0.1:9"),
];

const ALL: &[Offline] = &[
    Offline {
        agent: "claude",
        env: CLAUDE_ENV,
        files: &[],
        settings: &[],
        shell: |command| {
            (
                "Bash",
                json!({"command": command, "description": "to see whether it works"}),
            )
        },
    },
    Offline {
        agent: "codex",
        env: CODEX_ENV,
        files: &[(".codex/config.toml", CODEX)],
        // Codex's own sandbox is not under test, and not every machine supports it. Codex retries a
        // command that the sandbox blocked only if it failed within a fraction of a second, which
        // is not reliable on a busy machine.
        settings: &[("permission_mode", "danger-full-access")],
        shell: |command| ("exec_command", json!({"cmd": command})),
    },
    Offline {
        agent: "copilot",
        env: &[
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_PROVIDER_BASE_URL", "{url}/v1"),
            ("COPILOT_PROVIDER_TYPE", "openai"),
            ("COPILOT_PROVIDER_API_KEY", KEY),
            ("COPILOT_MODEL", MODEL),
        ],
        files: &[],
        settings: &[],
        shell: |command| {
            (
                "bash",
                json!({"command": command, "description": "to see whether it works"}),
            )
        },
    },
    Offline {
        agent: "gemini",
        env: &[
            ("GEMINI_API_KEY", KEY),
            ("GOOGLE_GEMINI_BASE_URL", "{url}"),
            // Otherwise it asks a model which model to use.
            ("GEMINI_MODEL", "gemini-2.5-flash"),
            // In an untrusted directory it starts no MCP servers and has few modes.
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        ],
        files: &[(".gemini/settings.json", GEMINI)],
        settings: &[],
        shell: |command| {
            (
                "run_shell_command",
                json!({"command": command, "description": "to see whether it works"}),
            )
        },
    },
    Offline {
        agent: "openclaw",
        env: &[],
        files: &[(".openclaw/openclaw.json", OPENCLAW)],
        settings: &[],
        shell: |command| ("exec", json!({"command": command})),
    },
    Offline {
        agent: "opencode",
        env: &[
            ("OPENCODE_DISABLE_AUTOUPDATE", "true"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "true"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "true"),
        ],
        files: &[(".config/opencode/opencode.json", OPENCODE)],
        settings: &[],
        shell: |command| {
            (
                "bash",
                json!({"command": command, "description": "to see whether it works"}),
            )
        },
    },
    Offline {
        agent: "claude-agent-acp",
        env: CLAUDE_ENV,
        files: &[],
        settings: &[],
        shell: |command| {
            (
                "Bash",
                json!({"command": command, "description": "to see whether it works"}),
            )
        },
    },
    Offline {
        agent: "codex-acp",
        env: CODEX_ENV,
        files: &[(".codex/config.toml", CODEX_ACP)],
        settings: &[],
        // In an attended session it uses a read-only sandbox, and asks before a command leaves it.
        shell: |command| {
            let why = "to see whether it works";
            (
                "exec_command",
                json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": why}),
            )
        },
    },
    Offline {
        agent: "goose",
        env: &[
            ("GOOSE_PROVIDER", "openai"),
            ("GOOSE_MODEL", MODEL),
            ("OPENAI_HOST", "{url}"),
            ("OPENAI_API_KEY", KEY),
            ("GOOSE_DISABLE_KEYRING", "true"),
            // Otherwise it asks the model for a session title, and for a summary of each tool call.
            ("GOOSE_DISABLE_SESSION_NAMING", "true"),
            ("GOOSE_DISABLE_TOOL_CALL_SUMMARY", "true"),
            ("GOOSE_TELEMETRY_OFF", "true"),
            // Otherwise everything is allowed.
            ("GOOSE_MODE", "approve"),
        ],
        files: &[],
        settings: &[],
        shell: |command| ("shell", json!({"command": command})),
    },
    Offline {
        agent: "qwen",
        env: &[
            ("OPENAI_API_KEY", KEY),
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_MODEL", MODEL),
        ],
        files: &[(".qwen/settings.json", QWEN)],
        settings: &[],
        shell: |command| {
            (
                "run_shell_command",
                json!({"command": command, "is_background": false}),
            )
        },
    },
];

// The default of five retries with backoff makes an authentication error take seconds.
macro_rules! codex {
    ($model:literal) => {
        concat!(
            "model = \"",
            $model,
            "\"\n",
            r#"model_provider = "stand-in"

[model_providers.stand-in]
name = "stand-in"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"#
        )
    };
}

// A model that Codex knows: it would warn about any other.
const CODEX: &str = codex!("gpt-5.5");

// Models that Codex knows must search for MCP tools before they see them. An unknown model gets
// them directly.
const CODEX_ACP: &str = codex!("stand-in");

const GEMINI: &str = r#"{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false, "maxAttempts": 2, "sessionRetention": {"enabled": false}},
  "privacy": {"usageStatisticsEnabled": false}
}
"#;

const OPENCLAW: &str = r#"{
  "agents": {"defaults": {"model": {"primary": "stand-in/stand-in"}}},
  "models": {"providers": {"stand-in": {
    "baseUrl": "{url}/v1",
    "apiKey": "sk-a-key-of-the-stand-in",
    "api": "openai-completions",
    "models": [{
      "id": "stand-in",
      "name": "stand-in",
      "contextWindow": 9000000,
      "maxTokens": 4096,
      "input": ["text"],
      "reasoning": false,
      "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 1}
    }]
  }}}
}
"#;

const OPENCODE: &str = r#"{
  "model": "stand-in/stand-in",
  "small_model": "stand-in/stand-in-small",
  "enabled_providers": ["stand-in"],
  "permission": {"bash": "ask", "edit": "ask"},
  "experimental": {"continue_loop_on_deny": true},
  "agent": {"title": {"disable": true}},
  "share": "disabled",
  "provider": {
    "stand-in": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "stand-in",
      "options": {"baseURL": "{url}/v1", "apiKey": "sk-a-key-of-the-stand-in"},
      "models": {
        "stand-in": {"name": "stand-in", "reasoning": true, "tool_call": true, "limit": {"context": 9000000, "output": 4096}},
        "stand-in-small": {"name": "stand-in-small", "limit": {"context": 9000000, "output": 4096}}
      }
    }
  }
}
"#;

// By default Qwen asks a model which calls need approval, what to remember, and what the user may
// say next. It also hides MCP tools behind a search, and retries a rate-limited model ten times,
// minutes apart.
const QWEN: &str = r#"{
  "security": {"auth": {"selectedType": "openai"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "tools": {"approvalMode": "default", "toolSearch": {"enabled": false}},
  "model": {"generationConfig": {"contextWindowSize": 9000000, "maxRetries": 0}},
  "memory": {"enableManagedAutoMemory": false, "enableManagedAutoDream": false},
  "ui": {"enableFollowupSuggestions": false},
  "$version": 3
}
"#;

impl Offline {
    /// Returns the configuration of an agent, or `None` if there is none.
    #[must_use]
    pub fn of(agent: &str) -> Option<&'static Self> {
        ALL.iter().find(|offline| offline.agent == agent)
    }

    /// Returns the agents that have a configuration.
    pub fn agents() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|offline| offline.agent)
    }

    /// Returns the environment variables for a home directory and the stand-in's address.
    #[must_use]
    pub fn env(&self, home: &Path, url: &str) -> Vec<(String, String)> {
        let pairs = self
            .env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), filled(value, home, url)));
        std::iter::once(("HOME".to_owned(), home.display().to_string()))
            .chain(pairs)
            .collect()
    }

    /// Writes the files into a home directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_files(&self, home: &Path, url: &str) -> std::io::Result<()> {
        for (path, text) in self.files {
            let path = home.join(path);
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            std::fs::write(path, filled(text, home, url))?;
        }
        Ok(())
    }
}

fn filled(text: &str, home: &Path, url: &str) -> String {
    text.replace("{url}", url)
        .replace("{home}", &home.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_pointed_at_the_stand_in_and_nowhere_else() {
        for agent in Offline::agents() {
            let home = std::path::PathBuf::from("/the/home");
            let offline = Offline::of(agent).unwrap();
            let files = offline
                .files
                .iter()
                .map(|(_, text)| filled(text, &home, "http://127.0.0.1:9"));
            let all: Vec<String> = offline
                .env(&home, "http://127.0.0.1:9")
                .into_iter()
                .map(|(_, value)| value)
                .chain(files)
                .collect();
            assert!(
                all.iter().any(|text| text.contains("http://127.0.0.1:9")),
                "{agent}: {all:?}"
            );
            assert!(
                !all.iter()
                    .any(|text| text.contains("{url}") || text.contains("{home}")),
                "{agent}: {all:?}"
            );
            assert!(
                !all.iter().any(|text| text.contains("https://")),
                "{agent}: {all:?}"
            );
            assert_eq!(
                (offline.shell)("echo hello")
                    .1
                    .to_string()
                    .matches("hello")
                    .count(),
                1,
                "{agent}"
            );
        }
        assert!(Offline::of("unknown").is_none());
    }
}
