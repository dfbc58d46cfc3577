//! Trust in a workspace: its own settings files, read once, and the caller's decision about each.
//!
//! Whatever comes from a workspace only narrows what a model may do, unless the caller has decided otherwise about exactly
//! this content. The library never decides: a file is [`Standing::Untrusted`] until the caller says something else.

use std::path::{Path, PathBuf};

use ostler_core::event::{Level, Notice};
use ostler_tools::confine::HostPaths;
use ostler_tools::policy::{Granted, Narrowed};
use ostler_tools::{
    Code, OffLimits, Request, SandboxPolicy, ToolError, Workspace, WorkspacePolicy,
};

/// The code of notices about requests of a workspace that nobody trusts.
pub const UNTRUSTED: &str = "workspace_untrusted";

/// The code of notices about what a sandbox policy allows beyond the defaults.
pub const OPENED: &str = "sandbox_policy";

/// The code of notices about requests that no workspace is granted.
pub const NEVER: &str = "never_granted";

/// How a person changes the decision; part of every notice about it.
pub const REMEDY: &str =
    "`ostler trust` shows the file and grants it; `--trust-project` does so for one run.";

/// How many requests a notice names at most.
const NAMED: usize = 12;

/// A settings file that a workspace can bring along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Defaults for agents: `ostler.toml`.
    Config,
    /// Permission rules: `.ostler/policy.toml`.
    Policy,
    /// The sandbox policy: `.ostler/sandbox.toml`.
    Sandbox,
    /// Replies that the agent `scripted` plays: `.ostler/script.toml`.
    Script,
}

impl FileKind {
    /// The paths below a workspace's root at which such a file is looked for.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Config => &["ostler.toml", ".ostler/ostler.toml"],
            Self::Policy => &[".ostler/policy.toml"],
            Self::Sandbox => &[ostler_tools::policy::POLICY_FILE],
            Self::Script => &[".ostler/script.toml"],
        }
    }
}

/// The caller's decision about one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has trusted it: only its narrowing parts are used.
    #[default]
    Untrusted,
    /// It was trusted with another content: the same as untrusted.
    Changed,
    /// This content is trusted.
    Trusted,
}

impl Standing {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Changed => "changed",
            Self::Trusted => "trusted",
        }
    }
}

/// One of a workspace's own files. The content that was hashed is the content that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// What it is for.
    pub kind: FileKind,
    /// The real path of the directory that it belongs to.
    pub root: PathBuf,
    /// Its path below `root`.
    pub name: String,
    /// Its content.
    pub text: String,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The decision about it.
    pub standing: Standing,
}

impl WorkspaceFile {
    /// Reads a file of a workspace, as untrusted. `root` is a real path.
    ///
    /// # Errors
    /// It is not a regular file, is reached through a link, is too large, or is not UTF-8.
    pub fn read(root: &Path, kind: FileKind, name: &str) -> Result<Option<Self>, ToolError> {
        let Some(text) = Workspace::own_file(root, name)? else {
            return Ok(None);
        };
        let sha256 = sha256(text.as_bytes());
        let (root, name) = (root.to_owned(), name.to_owned());
        Ok(Some(Self {
            kind,
            root,
            name,
            text,
            sha256,
            standing: Standing::Untrusted,
        }))
    }

    /// Whether this content is trusted.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.standing == Standing::Trusted
    }

    /// Says that requests of this file were left out.
    #[must_use]
    pub fn left_out(&self, requests: &[String]) -> Notice {
        let why = match self.standing {
            Standing::Changed => "has changed since you trusted it",
            Standing::Untrusted | Standing::Trusted => "came with the workspace and is not trusted",
        };
        let message = format!(
            "{} {why}. Not granted: {}. {REMEDY}",
            self.name,
            listed(requests)
        );
        Notice::new(Level::Warning, UNTRUSTED, message)
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Some clauses in one sentence.
fn listed(clauses: &[String]) -> String {
    let named = clauses
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    match clauses.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

/// What a session gets from the caller and from the workspace's own files; see `Host::with_workspace`.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceTrust {
    /// The sandbox policy below that of the workspace: the user's own, or the default.
    pub base: SandboxPolicy,
    /// The real path of the workspace whose files are given. Files of any other are read, and untrusted.
    pub root: Option<PathBuf>,
    /// The files of that workspace that exist, as they were read for the decision.
    pub files: Vec<WorkspaceFile>,
    /// Directories that no workspace is granted: the caller's settings and state.
    pub private: Vec<PathBuf>,
}

/// The sandbox policy of a session, and what to report about the workspace's part in it.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// The policy.
    pub policy: SandboxPolicy,
    /// Requests that were left out, since the file is not trusted.
    pub left_out: Vec<Request>,
    /// Requests that were granted.
    pub opened: Vec<Request>,
    /// Requests that no workspace is granted, and why.
    pub refused: Vec<(Request, String)>,
    /// The same for people.
    pub notices: Vec<Notice>,
}

/// The machine that requests are judged on.
pub struct Machine<'a> {
    /// Where the workspace, the home and the tools are.
    pub home: HostPaths<'a>,
    /// Places that no workspace is granted, besides the system's.
    pub private: &'a [PathBuf],
    /// The value of an environment variable.
    pub value: &'a dyn Fn(&str) -> Option<String>,
}

impl WorkspaceTrust {
    /// Reads the files of a workspace and trusts them as they are now: for a caller that has made up its mind.
    ///
    /// # Errors
    /// As [`WorkspaceFile::read`], or the directory does not exist.
    pub fn trusting(dir: &Path) -> Result<Self, ToolError> {
        let missing = |error: std::io::Error| {
            ToolError::new(Code::FileNotFound, format!("{}: {error}", dir.display()))
        };
        let root = dir.canonicalize().map_err(missing)?;
        let mut files = Vec::new();
        for kind in [
            FileKind::Config,
            FileKind::Policy,
            FileKind::Sandbox,
            FileKind::Script,
        ] {
            for name in kind.names() {
                let file = WorkspaceFile::read(&root, kind, name)?;
                files.extend(file.map(|file| WorkspaceFile {
                    standing: Standing::Trusted,
                    ..file
                }));
            }
        }
        Ok(Self {
            root: Some(root),
            files,
            ..Self::default()
        })
    }

    /// The workspace's file of a kind: as it was read for the decision, or as it is, untrusted.
    ///
    /// # Errors
    /// As [`WorkspaceFile::read`].
    pub fn file(&self, root: &Path, kind: FileKind) -> Result<Option<WorkspaceFile>, ToolError> {
        if self.root.as_deref() == Some(root) {
            return Ok(self
                .files
                .iter()
                .find(|file| file.kind == kind && file.root == root)
                .cloned());
        }
        let mut found = kind
            .names()
            .iter()
            .map(|name| WorkspaceFile::read(root, kind, name));
        found.find_map(Result::transpose).transpose()
    }

    /// Decides on the sandbox policy of a workspace.
    ///
    /// # Errors
    /// The workspace's file cannot be read or parsed: then nothing should run.
    pub fn decide(&self, root: &Path, machine: &Machine<'_>) -> Result<Decided, ToolError> {
        let Some(file) = self.file(root, FileKind::Sandbox)? else {
            return Ok(Decided {
                policy: self.base.clone(),
                ..Decided::default()
            });
        };
        let asked = WorkspacePolicy::parse(&file.text)?;
        if !file.is_trusted() {
            let Narrowed { policy, left_out } = self.base.narrowed_by(&asked);
            let named: Vec<String> = left_out.iter().map(Request::to_string).collect();
            let notices = (!named.is_empty())
                .then(|| file.left_out(&named))
                .into_iter()
                .collect();
            return Ok(Decided {
                policy,
                left_out,
                notices,
                ..Decided::default()
            });
        }
        let private: Vec<PathBuf> = self
            .private
            .iter()
            .chain(machine.private)
            .cloned()
            .collect();
        let limits = OffLimits::here(&machine.home, &private);
        let judge = |request: &Request| limits.judge(request, &machine.home, machine.value);
        let Granted {
            policy,
            opened,
            refused,
        } = self.base.granting(&asked, &judge);
        let mut notices = Vec::new();
        if !opened.is_empty() {
            let named: Vec<String> = opened.iter().map(Request::to_string).collect();
            let message = format!("{} is trusted: {}.", file.name, listed(&named));
            notices.push(Notice::new(Level::Warning, OPENED, message));
        }
        if !refused.is_empty() {
            let named: Vec<String> = refused
                .iter()
                .map(|(request, why)| format!("{request} ({why})"))
                .collect();
            let message = format!(
                "{} asks for what no workspace is granted: {}.",
                file.name,
                listed(&named)
            );
            notices.push(Notice::new(Level::Warning, NEVER, message));
        }
        Ok(Decided {
            policy,
            opened,
            refused,
            notices,
            ..Decided::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha256() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    // Issue 14, break 1: files of another directory than the one decided about are untrusted, whatever they hold.
    #[test]
    fn a_decision_is_about_one_directory_and_one_content() {
        let dir = tempfile::tempdir().unwrap();
        let roots = ["a", "b"].map(|name| dir.path().canonicalize().unwrap().join(name));
        for root in &roots {
            std::fs::create_dir_all(root.join(".ostler")).unwrap();
            std::fs::write(
                root.join(".ostler/sandbox.toml"),
                "[sandbox]\nnetwork = \"all\"\n",
            )
            .unwrap();
        }
        let read = |root: &Path| {
            WorkspaceFile::read(root, FileKind::Sandbox, ".ostler/sandbox.toml")
                .unwrap()
                .unwrap()
        };
        let file = WorkspaceFile {
            standing: Standing::Trusted,
            ..read(&roots[0])
        };
        let trust = WorkspaceTrust {
            root: Some(roots[0].clone()),
            files: vec![file],
            ..WorkspaceTrust::default()
        };
        let decide = |root: &Path| {
            let path = std::ffi::OsStr::new("");
            let home = HostPaths {
                workspace: root,
                temp: root,
                home: None,
                path,
                tools: &[],
                secrets: &[],
                exempt: &[],
            };
            trust
                .decide(
                    root,
                    &Machine {
                        home,
                        private: &[],
                        value: &|_| None,
                    },
                )
                .unwrap()
        };
        assert_eq!(
            (decide(&roots[0]).opened, decide(&roots[1]).opened),
            (vec![Request::Network], vec![])
        );
        assert_eq!(decide(&roots[1]).left_out, [Request::Network]);
        // What was read for the decision is what is used, whatever the file holds now.
        std::fs::write(
            roots[0].join(".ostler/sandbox.toml"),
            "[[command]]\nname = \"bash\"\n",
        )
        .unwrap();
        assert_eq!(decide(&roots[0]).opened, [Request::Network]);
    }
}
