//! Presets: named policies for users who do not write their own.

use super::policy::{Policy, Trust};
use crate::names::named;

named! {
    /// A named policy, the strictest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Preset or UnknownPreset {
        /// Allows reading except of likely secrets, and denies everything else.
        ReadOnly = "read-only",
        /// Allows reading except of likely secrets, and asks for everything else.
        Ask = "ask",
        /// Allows reading except of likely secrets, and edits in the workspace except of hidden
        /// files; asks for everything else.
        Workspace = "workspace",
        /// Allows everything.
        All = "all",
    }
}

/// Files that look like secrets. The list of the file tools is longer; here a match only leads to a
/// prompt, or to a denial if the preset is read-only.
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

/// Files that only look like secrets.
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

/// Edits allowed in a workspace. Hidden files are often run by other programs: hooks, settings, CI.
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
    /// Returns the rules as text.
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
                    "do = \"deny\"\nmessage = \"This file looks like a secret, and this session is \
                     read-only.\"",
                ) + &rest(
                    "do = \"deny\"\nmessage = \"This session is read-only: look at files, and say \
                     what you would do.\"",
                )
            }
        }
    }
}

/// A name that is not that of a [`Preset`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset {0:?}: expected one of {names}", names = Preset::ALL.map(Preset::as_str).join(", "))]
pub struct UnknownPreset(String);

impl Policy {
    /// Returns the policy of a preset.
    pub fn preset(preset: Preset) -> Self {
        let source = format!("the preset {}", preset.as_str());
        let read = |text: &str| Self::parse(text, &source, Trust::Full);
        // The texts are tested. If one were invalid anyway, nothing would be allowed.
        read(&preset.text())
            .or_else(|_| read("[[rule]]\ntool = \"*\"\ndo = \"deny\"\n"))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_satisfy_their_own_examples() {
        for preset in Preset::ALL {
            let read = Policy::parse(&preset.text(), "preset", Trust::Full);
            assert!(
                read.as_ref().is_ok_and(|policy| policy.lint().is_empty()),
                "{preset:?}: {read:?}"
            );
            assert_eq!(preset.as_str().parse(), Ok(preset));
        }
        assert_eq!(
            "yolo".parse::<Preset>().unwrap_err().to_string(),
            "unknown preset \"yolo\": expected one of read-only, ask, workspace, all"
        );
    }
}
