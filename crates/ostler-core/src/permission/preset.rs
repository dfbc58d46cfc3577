//! Presets: policies for those who do not want to write one.

use super::policy::{Policy, Trust};

/// A policy that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Look, and change nothing.
    ReadOnly,
    /// Change what is in the workspace and not hidden; ask for the rest.
    Workspace,
    /// Look, and ask for the rest.
    Ask,
    /// Everything.
    All,
}

/// Files that look like secrets. The list of the file tools is longer; here a question is the worst that comes of it.
const SECRETS: &str = r#"
kind = "read"
path = [
  "**/.env", "**/.env.*", "**/.envrc", "**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "**/*.kdbx",
  "**/id_*", "**/credentials", "**/credentials.*", "**/secrets.*", "**/.netrc", "**/.npmrc", "**/.pypirc", "**/.pgpass",
  "**/.git-credentials", "**/.ssh/**", "**/.aws/**", "**/.azure/**", "**/.gnupg/**", "**/.kube/**", "**/.docker/config.json",
  "**/.config/gh/**", "**/.config/gcloud/**",
]
examples = [".env", "a/.env.local", "/home/x/.ssh/id_rsa", "~/.ssh/config", "../k.PEM", "src/../.env", "/workspace/.aws"]
not = ["src/main.rs", "environment.md", ".env.example"]
"#;

/// What only looks like a secret, and what else may be read.
const HARMLESS: &str = r#"
[[rule]]
kind = "read"
path = ["**/.env.example", "**/.env.sample", "**/.env.template"]
do = "allow"
examples = [".env.example"]
"#;

const READ: &str = r#"
[[rule]]
kind = "read"
do = "allow"
examples = [{ path = "src/main.rs" }, { path = "/usr/include/stdio.h" }, {}]
"#;

/// Edits that are allowed in a workspace. What is hidden is often run by other programs: hooks, settings, what CI does.
const EDITS: &str = r#"
[[rule]]
kind = "edit"
path = ["**/.*", "**/.*/**"]
do = "ask"
examples = [".git/config", "a/.git/hooks/x", ".ostler/policy.toml", ".GIT/config", "a/../.env", "/home/x/.bashrc"]
not = ["src/a.rs", "a.b"]

[[rule]]
kind = "edit"
path = "**"
do = "allow"
examples = ["src/main.rs", "/workspace/a", "./a/../b", { path = ["a", "b"] }]
not = ["../a", "/etc/passwd", "a/../../b", "~/x", { path = ["a", "/b"] }, { path = [] }, 'a\..\..\b', "/workspace2/a"]
"#;

impl Preset {
    /// All of them, the strictest first.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::Ask, Self::Workspace, Self::All];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Ask => "ask",
            Self::All => "all",
        }
    }

    /// The preset of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// Its rules, as one would write them.
    fn text(self) -> String {
        let rest = |action: &str| format!("\n[[rule]]\ntool = \"*\"\n{action}\n");
        let secrets = |action: &str| format!("{HARMLESS}\n[[rule]]\n{SECRETS}{action}\n{READ}");
        let ask = "do = \"ask\"";
        match self {
            Self::All => rest("do = \"allow\""),
            Self::Ask => secrets(ask) + &rest(ask),
            Self::Workspace => secrets(ask) + EDITS + &rest(ask),
            Self::ReadOnly => {
                secrets(
                    "do = \"deny\"\nmessage = \"This file looks like a secret, and this session is read-only.\"",
                ) + &rest(
                    "do = \"deny\"\nmessage = \"This session is read-only: look at files, and say what you would do.\"",
                )
            }
        }
    }
}

impl Policy {
    /// The rules of a preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Self {
        let source = format!("the preset {}", preset.as_str());
        let read = |text: &str| Self::parse(text, &source, Trust::Full);
        // The texts are tested. If one were wrong all the same, nothing would be allowed.
        read(&preset.text())
            .or_else(|_| read("[[rule]]\ntool = \"*\"\ndo = \"deny\"\n"))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_hold_their_own_examples() {
        for preset in Preset::ALL {
            let read = Policy::parse(&preset.text(), "preset", Trust::Full);
            assert!(
                read.as_ref().is_ok_and(|policy| policy.lint().is_empty()),
                "{preset:?}: {read:?}"
            );
            assert_eq!(Preset::parse(preset.as_str()), Some(preset));
        }
        assert_eq!(Preset::parse("yolo"), None);
    }
}
