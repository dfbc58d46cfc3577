//! Modes, flags and variables that make an agent act without asking, and so bypass the policy.

/// Names of such modes, flags and variables. Modes and flags are compared without dashes,
/// underscores, spaces and case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AutoApprove {
    pub(crate) modes: &'static [&'static str],
    flags: &'static [&'static str],
    pub(crate) env: &'static [&'static str],
}

/// Names common among agents, assumed for any agent that is not known.
pub(super) const COMMON: AutoApprove = AutoApprove {
    modes: &[
        "yolo",
        "auto",
        "autoedit",
        "acceptedits",
        "autopilot",
        "bypasspermissions",
        "dontask",
        "allowall",
        "allowtools",
        "fullaccess",
        "agentfullaccess",
        "dangerfullaccess",
        "smartapprove",
    ],
    flags: &[
        "yolo",
        "dangerouslyskippermissions",
        "permissionmode",
        "approvalmode",
        "allowedtools",
    ],
    env: &[],
};

/// Gemini CLI and its forks.
pub(super) const GEMINI: AutoApprove = AutoApprove {
    flags: &[
        "yolo",
        "y",
        "approvalmode",
        "allowedtools",
        "policy",
        "adminpolicy",
    ],
    ..COMMON
};

/// GitHub Copilot CLI.
pub(super) const COPILOT: AutoApprove = AutoApprove {
    flags: &[
        "yolo",
        "allowall",
        "allowalltools",
        "allowallpaths",
        "allowallurls",
        "allowtool",
        "allowurl",
        "autopilot",
        "mode",
    ],
    env: &["COPILOT_ALLOW_ALL"],
    ..COMMON
};

/// Codex behind an adapter, which passes on any of its settings. In every mode but one it acts
/// without asking, within its sandbox, or asks a model.
pub(super) const CODEX: AutoApprove = AutoApprove {
    modes: &[
        "agent",
        "autoreview",
        "agentfullaccess",
        "fullaccess",
        "workspacewrite",
        "workspaceaccess",
        "permissionprofile:*",
    ],
    flags: &[
        "c",
        "config",
        "yolo",
        "fullauto",
        "dangerouslybypassapprovalsandsandbox",
    ],
    env: &["CODEX_CONFIG"],
};

fn normalize(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

impl AutoApprove {
    /// Returns true if a mode has such a name. A name that ends in `*` matches as a prefix.
    pub(super) fn includes_mode(&self, word: &str) -> bool {
        let last = normalize(word.rsplit_once('#').map_or(word, |(_, last)| last));
        let is = |known: &&str| {
            known
                .strip_suffix('*')
                .map_or(*known == last, |begin| last.starts_with(begin))
        };
        self.modes.iter().any(is)
    }

    /// Returns true if an argument is such a flag, alone or with a value, or one letter among
    /// several.
    pub(super) fn includes_flag(&self, arg: &str) -> bool {
        if !arg.starts_with('-') {
            return false;
        }
        let name = arg.split('=').next().unwrap_or_default();
        let letters = if arg.starts_with("--") {
            ""
        } else {
            name.trim_start_matches('-')
        };
        let among = |flag: &&str| flag.len() == 1 && letters.contains(*flag);
        self.flags.contains(&normalize(name).as_str()) || self.flags.iter().any(among)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_flags_match_in_any_spelling() {
        for mode in [
            "yolo",
            "YOLO",
            "auto_edit",
            "autoEdit",
            "Auto Edit",
            "https://x/session-modes#autopilot",
        ] {
            assert!(COMMON.includes_mode(mode), "{mode}");
        }
        for mode in [
            "default",
            "plan",
            "agent",
            "https://x/session-modes#agent",
            "ask",
        ] {
            assert!(!COMMON.includes_mode(mode), "{mode}");
        }
        for flag in [
            "-y",
            "-dy",
            "--yolo",
            "--yolo=true",
            "--approval-mode=yolo",
            "--approvalMode",
            "--allowed-tools",
        ] {
            assert!(GEMINI.includes_flag(flag), "{flag}");
        }
        for flag in ["--debug", "yolo", "-d", "--model=yolo", "--allow-all-tools"] {
            assert!(!GEMINI.includes_flag(flag), "{flag}");
        }
        assert!(
            COPILOT.includes_flag("--allow-all-tools")
                && COPILOT.includes_flag("--allow-tool=shell")
                && !COPILOT.includes_flag("--deny-tool")
        );
        for mode in [
            "agent",
            "Auto review",
            "workspace-write",
            "agent-full-access",
            "permission-profile:mine",
        ] {
            assert!(CODEX.includes_mode(mode), "{mode}");
        }
        assert!(!CODEX.includes_mode("read-only") && !CODEX.includes_mode("Read-only"));
        assert!(CODEX.includes_flag("-c") && CODEX.includes_flag("--config=approval_policy=never"));
    }
}
