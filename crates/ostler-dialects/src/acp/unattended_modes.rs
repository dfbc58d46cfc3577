//! What would make an agent do things without asking, and so past the rules: data, and how it is recognised.

/// Modes, arguments and variables. They are compared without regard to dashes, underscores, blanks and case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skips {
    pub(crate) modes: &'static [&'static str],
    pub(crate) flags: &'static [&'static str],
    pub(crate) env: &'static [&'static str],
}

/// What is common among agents, and taken for granted of one that is not known.
pub(super) const COMMON: Skips = Skips {
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

/// Gemini CLI, and what was made from it.
pub(super) const GEMINI: Skips = Skips {
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
pub(super) const COPILOT: Skips = Skips {
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

/// Codex behind an adapter: any of its settings can be given. In all modes but one it works without asking, as far as its
/// sandbox goes, or asks a model.
pub(super) const CODEX: Skips = Skips {
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

fn plain(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

impl Skips {
    /// Whether a mode goes by such a name; one that ends in a star stands for all that begin so.
    pub(super) fn mode(&self, word: &str) -> bool {
        let last = plain(word.rsplit_once('#').map_or(word, |(_, last)| last));
        let is = |known: &&str| {
            known
                .strip_suffix('*')
                .map_or(*known == last, |begin| last.starts_with(begin))
        };
        self.modes.iter().any(is)
    }

    /// Whether an argument is such a flag, alone or with a value, or one letter among several.
    pub(super) fn flag(&self, arg: &str) -> bool {
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
        self.flags.contains(&plain(name).as_str()) || self.flags.iter().any(among)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_it_is_written_it_is_known() {
        for mode in [
            "yolo",
            "YOLO",
            "auto_edit",
            "autoEdit",
            "Auto Edit",
            "https://x/session-modes#autopilot",
        ] {
            assert!(COMMON.mode(mode), "{mode}");
        }
        for mode in [
            "default",
            "plan",
            "agent",
            "https://x/session-modes#agent",
            "ask",
        ] {
            assert!(!COMMON.mode(mode), "{mode}");
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
            assert!(GEMINI.flag(flag), "{flag}");
        }
        for flag in ["--debug", "yolo", "-d", "--model=yolo", "--allow-all-tools"] {
            assert!(!GEMINI.flag(flag), "{flag}");
        }
        assert!(
            COPILOT.flag("--allow-all-tools")
                && COPILOT.flag("--allow-tool=shell")
                && !COPILOT.flag("--deny-tool")
        );
        for mode in [
            "agent",
            "Auto review",
            "workspace-write",
            "agent-full-access",
            "permission-profile:mine",
        ] {
            assert!(CODEX.mode(mode), "{mode}");
        }
        assert!(!CODEX.mode("read-only") && !CODEX.mode("Read-only"));
        assert!(CODEX.flag("-c") && CODEX.flag("--config=approval_policy=never"));
    }
}
