//! Pinned real agents: each with its version and the lock file that npm installs it from.

/// A real agent, pinned to a version.
#[derive(Debug)]
pub struct PinnedAgent {
    /// Its name in Ostler.
    pub name: &'static str,
    /// The version of the npm package.
    pub version: &'static str,
    /// The version that the program reports: usually the same.
    pub reported_version: &'static str,
    /// The `package.json` to install.
    pub(super) package: &'static str,
    /// The `package-lock.json`, with checksums.
    pub(super) lock: &'static str,
    /// Possible paths of its program below `node_modules`, one per platform.
    pub(super) programs: &'static [&'static str],
    /// Whether it is so big or slow that only `--all-agents` runs it.
    pub heavy: bool,
}

macro_rules! pinned {
    (@reported $version:literal) => { $version };
    (@reported $version:literal $reported:literal) => { $reported };
    ($(
        $(#[$doc:meta])*
        $id:ident = $name:literal $version:literal $(($reported:literal))? $heavy:literal
            [$($program:literal),* $(,)?];
    )*) => {
        $($(#[$doc])*
        pub const $id: PinnedAgent = PinnedAgent {
            name: $name,
            version: $version,
            reported_version: pinned!(@reported $version $($reported)?),
            package: include_str!(concat!("../../agents/", $name, "/package.json")),
            lock: include_str!(concat!("../../agents/", $name, "/package-lock.json")),
            programs: &[$($program),*],
            heavy: $heavy,
        };)*

        /// All pinned agents.
        pub const ALL: &[&PinnedAgent] = &[$(&$id),*];
    };
}

pinned! {
    /// Claude Code.
    CLAUDE = "claude" "2.1.325" false [
        "@anthropic-ai/claude-code-linux-x64/claude",
        "@anthropic-ai/claude-code-linux-x64-musl/claude",
        "@anthropic-ai/claude-code-linux-arm64/claude",
        "@anthropic-ai/claude-code-linux-arm64-musl/claude",
        "@anthropic-ai/claude-code-darwin-arm64/claude",
        "@anthropic-ai/claude-code-darwin-x64/claude",
    ];
    /// Codex.
    CODEX = "codex" "0.166.0" false [
        "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        "@openai/codex-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
        "@openai/codex-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
    ];
    /// GitHub Copilot CLI.
    COPILOT = "copilot" "1.0.102" false [
        "@github/copilot-linux-x64/copilot",
        "@github/copilot-linux-arm64/copilot",
        "@github/copilot-darwin-arm64/copilot",
        "@github/copilot-darwin-x64/copilot",
    ];
    /// Gemini CLI.
    GEMINI = "gemini" "0.61.0" false ["@google/gemini-cli/bundle/gemini.js"];
    /// opencode.
    OPENCODE = "opencode" "1.18.33" false ["opencode-linux-x64/bin/opencode"];
    /// OpenClaw.
    OPENCLAW = "openclaw" "2026.9.6" true ["openclaw/openclaw.mjs"];
    /// Qwen Code.
    QWEN = "qwen" "0.24.4" true ["@qwen-code/qwen-code/cli-entry.js"];
    /// goose, by the version of its npm package.
    GOOSE = "goose" "0.20.1" ("1.34.0") true ["@aaif/goose-binary-linux-x64/bin/goose"];
    /// Claude Code behind its ACP adapter for editors.
    CLAUDE_AGENT_ACP = "claude-agent-acp" "0.99.1" true [
        "@agentclientprotocol/claude-agent-acp/dist/index.js",
    ];
    /// Codex behind its ACP adapter for editors.
    CODEX_ACP = "codex-acp" "2.6.0" true ["@agentclientprotocol/codex-acp/dist/index.js"];
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_pinned_package_has_the_version_and_an_integrity_and_no_download_address() {
        for agent in ALL {
            let lock: serde_json::Value = serde_json::from_str(agent.lock).unwrap();
            let package: serde_json::Value = serde_json::from_str(agent.package).unwrap();
            let listed =
                ["dependencies", "optionalDependencies"].map(|kind| package[kind].as_object());
            let wanted: Vec<_> = listed.into_iter().flatten().flatten().collect();
            assert!(
                wanted
                    .iter()
                    .any(|(_, version)| version.as_str().unwrap().contains(agent.version)),
                "{}",
                agent.name
            );
            for (name, version) in wanted {
                let locked = &lock["packages"][format!("node_modules/{name}")];
                // npm omits packages that this platform cannot use.
                if locked.is_object() {
                    assert!(
                        version
                            .as_str()
                            .unwrap()
                            .ends_with(locked["version"].as_str().unwrap()),
                        "{name}"
                    );
                }
            }
            let packages = lock["packages"].as_object().unwrap();
            assert!(packages.len() > 1);
            // A bundled package is covered by the checksum of its parent.
            let own = |locked: &serde_json::Value| locked["inBundle"] != true;
            for (name, locked) in packages
                .iter()
                .filter(|(name, locked)| !name.is_empty() && own(locked))
            {
                assert!(
                    locked["integrity"]
                        .as_str()
                        .unwrap_or_default()
                        .starts_with("sha512-"),
                    "{name}"
                );
            }
            assert!(!agent.lock.contains("resolved"));
        }
    }
}
