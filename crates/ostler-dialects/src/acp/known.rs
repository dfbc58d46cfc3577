//! The agents that are known to speak ACP: entries of data.

use ostler_core::dialect::transcript::ByMinute;
use ostler_core::dialect::{Inherits, Login, Probe, Runtime, Version};
use ostler_core::permission::ToolKind;

use super::Acp;
use super::quirks::{Counts, Failures, Names, PLAIN, Quirks, Wrote};
use super::skips::{self, Skips};

/// One agent.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in Ostler.
    pub(crate) name: &'static str,
    /// Its program.
    pub(crate) program: &'static str,
    /// The arguments that make it speak ACP.
    pub(crate) args: &'static [&'static str],
    /// Where the program itself is behind a script that only starts it.
    pub(crate) natives: &'static [&'static str],
    /// What it sees of the caller's environment.
    pub(crate) inherits: Inherits,
    /// Variables that are set unless the caller sets them.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The same, when somebody decides what it may do.
    pub(crate) ask_env: &'static [(&'static str, &'static str)],
    /// What it must not see of the caller's environment then: what would decide in their place.
    pub(crate) ask_never: &'static [&'static str],
    /// Permission modes that Ostler has words for and the protocol has not: what makes it so, an argument and variables.
    pub(crate) modes: &'static [Mode],
    /// 5. How it keeps its sessions, if one must not be gone on with in the minute in which it was made.
    pub(crate) by_minute: Option<ByMinute>,
    /// Where it keeps its state.
    pub(crate) state: &'static [&'static str],
    /// Models that it is known to take.
    pub(crate) models: &'static [&'static str],
    /// The argument that chooses the model, where the protocol does not.
    pub(crate) model_flag: Option<&'static str>,
    /// The argument for a file of MCP servers that the agent starts, where it takes none of them over the protocol.
    pub(crate) server_flag: Option<&'static str>,
    /// Why its model may not have the caller's tools, when the agent has not started the program that leads to them.
    pub(crate) unreached: &'static str,
    /// Why a session may be gone, besides that it never was.
    pub(crate) lost: &'static str,
    /// What its tools do, by their names.
    pub(crate) tools: &'static [(&'static str, ToolKind)],
    /// Whether it asks before its tools run.
    pub(crate) ask: bool,
    /// The mode of a session in which it asks, for an agent that may begin in one in which it does not.
    pub(crate) asks_in: Option<&'static str>,
    /// What would make it not ask.
    pub(crate) skips: Skips,
    /// Whether it makes copies of sessions.
    pub(crate) fork: bool,
    /// Whether it says what a turn cost.
    pub(crate) cost: bool,
    /// The oldest version that is supported.
    pub(crate) minimum: Version,
    /// The newest version that was tested.
    pub(crate) tested: Option<Version>,
    /// What it runs on.
    pub(crate) runtime: Option<Runtime>,
    /// How to install it.
    pub(crate) install_hint: &'static str,
    /// How to log in.
    pub(crate) login_hint: &'static str,
    /// How it differs.
    pub(crate) quirks: Quirks,
}

/// A permission mode that is chosen when the agent is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    /// The word for it.
    pub(crate) word: &'static str,
    /// Arguments to add.
    pub(crate) args: &'static [&'static str],
    /// Variables to set.
    pub(crate) env: &'static [(&'static str, &'static str)],
}

impl Entry {
    /// The permission mode of this word, if it is one of those that are chosen when the agent is started.
    pub(super) fn mode(&self, word: &str) -> Option<&'static Mode> {
        self.modes.iter().find(|mode| mode.word == word)
    }

    /// How to find out whether it is there.
    pub(super) fn probe(&self) -> Probe {
        Probe {
            program: self.program,
            natives: self.natives,
            runtime: self.runtime,
            version_args: &["--version"],
            read_version: Version::find,
            login_args: &[],
            read_login: |_, _| Login::Unknown,
            minimum: self.minimum,
            tested: self.tested,
            install_hint: self.install_hint,
            login_hint: self.login_hint,
            inherits: self.inherits,
        }
    }
}

/// Node 20 or newer.
pub(super) const NODE: Runtime = Runtime {
    program: "node",
    serves: |version| version >= Version(20, 0, 0),
    hint: "Install Node.js 20 or newer (https://nodejs.org), then try again.",
};

/// Node 24.16 or newer, 26.1 or newer.
const NEW_NODE: Runtime = Runtime {
    program: "node",
    serves: |version| (version >= Version(24, 16, 0) && version < Version(25, 0, 0)) || version >= Version(26, 1, 0),
    hint: "OpenClaw needs Node.js 24.16 or newer, or 26.1 or newer (https://nodejs.org); with an older one npm installs an empty package.",
};

const fn only(always: &'static [&'static str]) -> Inherits {
    Inherits { always, when: &[], never: &[] }
}

/// What all entries are made from, and what a configured command is.
pub(super) const ANY: Entry = Entry {
    name: "",
    program: "",
    args: &[],
    natives: &[],
    inherits: only(&[]),
    env: &[],
    ask_env: &[],
    ask_never: &[],
    modes: &[],
    by_minute: None,
    state: &[],
    models: &[],
    model_flag: None,
    server_flag: None,
    unreached: "",
    lost: "",
    tools: &[],
    ask: true,
    asks_in: None,
    skips: skips::COMMON,
    fork: true,
    cost: true,
    minimum: Version(0, 0, 0),
    tested: None,
    runtime: None,
    install_hint: "The program of the configured agent was not found; check its `acp` line in ostler.toml.",
    login_hint: "The agent says that nobody is logged in; log in with its own program, then try again.",
    quirks: PLAIN,
};

/// Gemini CLI. Measured: 0.61.0.
pub static GEMINI: Acp = Acp(&Entry {
    name: "gemini",
    program: "gemini",
    args: &["--acp"],
    inherits: Inherits {
        always: &[
            "GEMINI_*",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
        ],
        when: &[("GOOGLE_GENAI_USE_VERTEXAI", &["GOOGLE_*", "VERTEX_*"])],
        never: &["GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"],
    },
    // Else it starts itself a second time, and the first one only waits.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    by_minute: Some(ByMinute {
        roots: &["$GEMINI_CLI_HOME", "~/"],
        folder: ".gemini/tmp",
        file: |id, minute| Some(format!("chats/session-{}-{}.jsonl", minute.replace(':', "-"), id.get(..8)?)),
    }),
    state: &["~/.gemini/"],
    models: &["auto", "gemini-2.5-pro", "gemini-2.5-flash"],
    tools: &[
        ("run_shell_command", ToolKind::Execute),
        ("read_file", ToolKind::Read),
        ("read_many_files", ToolKind::Read),
        ("list_directory", ToolKind::Read),
        ("glob", ToolKind::Read),
        ("grep_search", ToolKind::Read),
        ("search_file_content", ToolKind::Read),
        ("write_file", ToolKind::Edit),
        ("replace", ToolKind::Edit),
        ("web_fetch", ToolKind::Network),
        ("google_web_search", ToolKind::Network),
        ("write_todos", ToolKind::Read),
    ],
    lost: " Or gemini has cleaned up: a session that was gone on with once is lost when gemini is next started, unless \
           general.sessionRetention.enabled is false in ~/.gemini/settings.json.",
    unreached: " It starts none in a directory that it does not trust: trust it in gemini itself, or set GEMINI_CLI_TRUST_WORKSPACE=true.",
    asks_in: Some("default"),
    skips: skips::GEMINI,
    fork: false,
    cost: false,
    minimum: Version(0, 61, 0),
    tested: Some(Version(0, 61, 0)),
    runtime: Some(NODE),
    install_hint: "gemini not found in PATH. Install it with `npm install -g @google/gemini-cli`.",
    login_hint: "Run `gemini` once and log in, or set GEMINI_API_KEY to an API key.",
    quirks: Quirks {
        counts: Counts::Quota,
        names: Names::CallId,
        title_is_command: true,
        describes_calls: true,
        replay_trails: true,
        mode_echo: Some("[MODE_UPDATE] "),
        thought_head: "****\n",
        reads_json: true,
        ..PLAIN
    },
    ..ANY
});

/// opencode asks about everything.
const ASK: &str = "{\"*\":\"ask\"}";

/// opencode. Measured: 1.18.33.
pub static OPENCODE: Acp = Acp(&Entry {
    name: "opencode",
    program: "opencode",
    args: &["acp"],
    natives: &[
        "../../opencode-linux-x64/bin/opencode",
        "../../opencode-linux-arm64/bin/opencode",
        "../../opencode-darwin-arm64/bin/opencode",
        "../../opencode-darwin-x64/bin/opencode",
        "../node_modules/opencode-linux-x64/bin/opencode",
        "../node_modules/opencode-linux-arm64/bin/opencode",
        "../node_modules/opencode-darwin-arm64/bin/opencode",
        "../node_modules/opencode-darwin-x64/bin/opencode",
    ],
    inherits: Inherits {
        always: &[
            "OPENCODE_*",
            "ANTHROPIC_*",
            "OPENAI_*",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "XAI_API_KEY",
            "DEEPSEEK_API_KEY",
        ],
        when: &[],
        never: &["OPENCODE_CLIENT", "OPENCODE_PID", "OPENCODE_TERMINAL"],
    },
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "true")],
    // Without it everything is allowed, and nobody is asked.
    ask_never: &["OPENCODE_CLIENT", "OPENCODE_PID", "OPENCODE_TERMINAL", "OPENCODE_PERMISSION"],
    ask_env: &[("OPENCODE_PERMISSION", ASK)],
    modes: &[
        Mode { word: "default", args: &[], env: &[] },
        Mode { word: "ask", args: &[], env: &[("OPENCODE_PERMISSION", ASK)] },
        Mode { word: "allow-all", args: &[], env: &[("OPENCODE_PERMISSION", "{\"*\":\"allow\"}")] },
    ],
    state: &["~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/", "~/.config/opencode/"],
    tools: &[
        ("bash", ToolKind::Execute),
        ("read", ToolKind::Read),
        ("glob", ToolKind::Read),
        ("grep", ToolKind::Read),
        ("list", ToolKind::Read),
        ("write", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("apply_patch", ToolKind::Edit),
        ("patch", ToolKind::Edit),
        ("webfetch", ToolKind::Network),
        ("websearch", ToolKind::Network),
        ("todowrite", ToolKind::Read),
        ("todoread", ToolKind::Read),
        ("task", ToolKind::Read),
        ("skill", ToolKind::Read),
    ],
    minimum: Version(1, 18, 0),
    tested: Some(Version(1, 18, 33)),
    install_hint: "opencode not found in PATH. Install it with `npm install -g opencode-ai`.",
    login_hint: "Run `opencode auth login`, or set the key of your provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, …).",
    quirks: Quirks { counts: Counts::LastRequest, inside: false, names: Names::Title, input_follows: true, ..PLAIN },
    ..ANY
});

/// Claude Code behind the adapter of its editor. Measured: 0.99.1.
pub static CLAUDE_AGENT_ACP: Acp = Acp(&Entry {
    name: "claude-agent-acp",
    program: "claude-agent-acp",
    inherits: Inherits {
        always: &["ANTHROPIC_*", "CLAUDE_*"],
        when: &[],
        never: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID"],
    },
    state: &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"],
    tools: &[
        ("Bash", ToolKind::Execute),
        ("Read", ToolKind::Read),
        ("Glob", ToolKind::Read),
        ("Grep", ToolKind::Read),
        ("Write", ToolKind::Edit),
        ("Edit", ToolKind::Edit),
        ("WebFetch", ToolKind::Network),
        ("WebSearch", ToolKind::Network),
    ],
    minimum: Version(0, 99, 0),
    runtime: Some(NODE),
    install_hint: "claude-agent-acp not found in PATH. Ostler drives Claude Code without it (--agent claude); else install the npm package of that name.",
    login_hint: "Run `claude auth login`, or set ANTHROPIC_API_KEY to an API key.",
    quirks: Quirks { counts: Counts::Turn, inside: false, ..PLAIN },
    ..ANY
});

/// Codex behind the adapter of its editor. Measured: 2.6.0.
pub static CODEX_ACP: Acp = Acp(&Entry {
    name: "codex-acp",
    program: "codex-acp",
    inherits: only(&["CODEX_*", "OPENAI_*"]),
    state: &["$CODEX_HOME/", "~/.codex/"],
    skips: skips::CODEX,
    cost: false,
    minimum: Version(2, 6, 0),
    install_hint: "codex-acp not found in PATH. Ostler drives Codex without it (--agent codex); else install the npm package of that name.",
    login_hint: "Run `codex login`, or set OPENAI_API_KEY to an API key.",
    quirks: Quirks { counts: Counts::Turn, ..PLAIN },
    ..ANY
});

/// Where Copilot's program itself is below what npm installs: the script on PATH does not pass signals on.
pub(crate) const COPILOT_NATIVES: &[&str] = &[
    "../copilot-linux-x64/copilot",
    "../copilot-linux-arm64/copilot",
    "../copilot-darwin-arm64/copilot",
    "../copilot-darwin-x64/copilot",
    "node_modules/@github/copilot-linux-x64/copilot",
    "node_modules/@github/copilot-linux-arm64/copilot",
    "node_modules/@github/copilot-darwin-arm64/copilot",
    "node_modules/@github/copilot-darwin-x64/copilot",
];

/// GitHub Copilot CLI over ACP. Measured: 1.0.102.
pub static COPILOT: Acp = Acp(&Entry {
    name: "copilot",
    program: "copilot",
    args: &["--acp"],
    natives: COPILOT_NATIVES,
    inherits: Inherits {
        always: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"],
        when: &[],
        // It would allow everything, and nobody would be asked.
        never: &["COPILOT_ALLOW_ALL"],
    },
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    // The same words as in its other language.
    modes: &[
        Mode { word: "default", args: &[], env: &[] },
        Mode { word: "allow-tools", args: &["--allow-all-tools"], env: &[] },
        Mode { word: "allow-all", args: &["--allow-all"], env: &[] },
    ],
    state: &["$COPILOT_HOME/", "~/.copilot/"],
    model_flag: Some("--model="),
    // Over the protocol it takes servers of the network only, and says nothing about the others.
    server_flag: Some("--additional-mcp-config=@"),
    asks_in: Some("agent"),
    skips: skips::COPILOT,
    fork: false,
    cost: false,
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot not found in PATH. Install it with `npm install -g @github/copilot`.",
    login_hint: "Run `copilot login`, or set GH_TOKEN to a token with access to Copilot.",
    quirks: Quirks {
        failures: Failures::Text(Wrote {
            head: "Error: ",
            tail: "",
            certain: "Error: Authentication failed with provider",
        }),
        counts: Counts::Session,
        ..PLAIN
    },
    ..ANY
});

/// OpenClaw over ACP, for which its gateway must run. Measured: 2026.9.6.
pub static OPENCLAW: Acp = Acp(&Entry {
    name: "openclaw",
    program: "openclaw",
    args: &["acp"],
    inherits: only(&["OPENCLAW_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"]),
    // It has never been seen to ask.
    ask: false,
    state: &["$OPENCLAW_STATE_DIR/", "~/.openclaw/"],
    fork: false,
    cost: false,
    minimum: Version(2026, 9, 0),
    runtime: Some(NEW_NODE),
    install_hint: "openclaw not found in PATH. Install it with `npm install -g openclaw` (Node.js 24.16 or newer).",
    login_hint: "Check the keys in OpenClaw's configuration (`openclaw configure`).",
    quirks: Quirks {
        failures: Failures::Silence,
        resumes_own: true,
        works_in: Some("the workspace of its gateway (agents.defaults.workspace in OpenClaw's configuration)"),
        ..PLAIN
    },
    ..ANY
});
