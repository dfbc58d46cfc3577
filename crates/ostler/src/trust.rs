//! Trust in a workspace: its own settings files, read once, and the caller's decision about each.
//!
//! Values from a workspace only narrow what a model may do, unless the caller has decided otherwise
//! about exactly this content. The library never decides: a file is [`Standing::Untrusted`] until
//! the caller says otherwise.
//!
//! ```
//! use ostler::Host;
//! use ostler::trust::WorkspaceTrust;
//!
//! // For a program whose user has read the files and agreed.
//! let trust = WorkspaceTrust::trusting(".".as_ref())?;
//! let host = Host::default().with_workspace(trust);
//! # Ok::<(), ostler::tools::ToolError>(())
//! ```

use std::path::{Path, PathBuf};

use ostler_core::dialect::About;
use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::names::named;
use ostler_core::spec::Spec;
use ostler_tools::confine::HostPaths;
use ostler_tools::policy::{Granted, Narrowed};
use ostler_tools::{
    Code, OffLimits, RefusedRequest, Request, SandboxPolicy, ToolError, Workspace, WorkspacePolicy,
};

/// How a user changes the decision; part of every notice about it.
pub const REMEDY: &str =
    "`ostler trust` shows the file and grants it; `--trust-project` does so for one run.";

/// Maximum number of requests in a notice.
const NAMED: usize = 12;

/// A settings file that a workspace can contain.
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
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Config, Self::Policy, Self::Sandbox, Self::Script];

    /// Returns the paths, relative to a workspace's root, where such a file is looked for.
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

named! {
    /// The caller's decision about one file. Its name is used in reports.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Standing {
        /// Not trusted: only its narrowing parts are used.
        #[default]
        Untrusted = "untrusted",
        /// Trusted with different content: treated as untrusted.
        Changed = "changed",
        /// Trusted with this content.
        Trusted = "trusted",
    }
}

/// A settings file of a workspace. The content that was hashed is the content that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// Kind of the file.
    pub kind: FileKind,
    /// Canonical path of the workspace.
    pub root: PathBuf,
    /// Path relative to `root`.
    pub name: String,
    /// Content of the file.
    pub text: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// The decision about it.
    pub standing: Standing,
}

impl WorkspaceFile {
    /// Reads a file of a workspace as untrusted. `root` is a canonical path.
    ///
    /// # Errors
    /// Returns an error if the file is not regular, is reached through a link, is too large, or is
    /// not UTF-8.
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

    /// Returns the full path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Whether this content is trusted.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.standing == Standing::Trusted
    }

    /// Returns the notice that requests of this file were not granted.
    #[must_use]
    pub fn left_out(&self, requests: &[impl ToString]) -> Notice {
        let why = match self.standing {
            Standing::Changed => "has changed since you trusted it",
            Standing::Untrusted | Standing::Trusted => "came with the workspace and is not trusted",
        };
        let message = format!(
            "{} {why}. Not granted: {}. {REMEDY}",
            self.name,
            listed(requests)
        );
        warning(NoticeCode::WorkspaceUntrusted, message)
    }
}

fn warning(code: NoticeCode, message: String) -> Notice {
    Notice::new(Level::Warning, code, message)
}

/// Returns the SHA-256 of the bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Joins clauses into one sentence.
fn listed(clauses: &[impl ToString]) -> String {
    let more = clauses.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    let named = clauses.iter().take(NAMED).map(ToString::to_string);
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Sandbox policy and workspace files of a session; see `Host::with_workspace`.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceTrust {
    /// The policy that the workspace's own is applied to: the user's, or the default.
    pub base: SandboxPolicy,
    /// Canonical path of the workspace whose files are given. Files of any other workspace are read
    /// as untrusted.
    pub root: Option<PathBuf>,
    /// The files of that workspace, as they were read for the decision.
    pub files: Vec<WorkspaceFile>,
    /// Directories that no workspace is granted: the caller's settings and state.
    pub private: Vec<PathBuf>,
}

/// The sandbox policy of a session, and what to report about the workspace's part in it.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// The policy.
    pub policy: SandboxPolicy,
    /// Requests that were not granted, because the file is not trusted.
    pub left_out: Vec<Request>,
    /// Requests that were granted.
    pub opened: Vec<Request>,
    /// Requests that no workspace is granted, and why.
    pub refused: Vec<RefusedRequest>,
    /// Notices about the above.
    pub notices: Vec<Notice>,
}

/// The machine that requests are evaluated on.
pub struct Machine<'a> {
    /// Paths of the workspace, the home directory and the tools.
    pub home: HostPaths<'a>,
    /// Directories that no workspace is granted, besides the system's.
    pub private: &'a [PathBuf],
    /// Returns the value of an environment variable.
    pub value: &'a dyn Fn(&str) -> Option<String>,
}

impl WorkspaceTrust {
    /// Reads the files of a workspace and trusts their current content, for a caller that has
    /// already decided.
    ///
    /// # Errors
    /// The same as for [`WorkspaceFile::read`]; also returns an error if the directory does not
    /// exist.
    pub fn trusting(dir: &Path) -> Result<Self, ToolError> {
        let missing = |error: std::io::Error| {
            ToolError::new(Code::FileNotFound, format!("{}: {error}", dir.display()))
        };
        let root = dir.canonicalize().map_err(missing)?;
        let mut files = Vec::new();
        for kind in FileKind::ALL {
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

    /// Returns the workspace's file of a kind: as it was read for the decision, or otherwise its
    /// current content, untrusted.
    ///
    /// # Errors
    /// The same as for [`WorkspaceFile::read`].
    pub fn file(&self, root: &Path, kind: FileKind) -> Result<Option<WorkspaceFile>, ToolError> {
        if self.root.as_deref() == Some(root) {
            let mut files = self.files.iter();
            let file = files.find(|file| file.kind == kind && file.root == root);
            return Ok(file.cloned());
        }
        let mut names = kind.names().iter();
        let read = |name: &&str| WorkspaceFile::read(root, kind, name).transpose();
        names.find_map(read).transpose()
    }

    /// Decides the sandbox policy of a workspace.
    ///
    /// # Errors
    /// Returns an error if the workspace's file cannot be read or parsed. Nothing should run then.
    pub fn decide(&self, root: &Path, machine: &Machine<'_>) -> Result<Decided, ToolError> {
        let Some(file) = self.file(root, FileKind::Sandbox)? else {
            return Ok(Decided {
                policy: self.base.clone(),
                ..Decided::default()
            });
        };
        let asked = file.text.parse::<WorkspacePolicy>()?;
        if !file.is_trusted() {
            let Narrowed { policy, left_out } = self.base.narrowed_by(&asked);
            let notice = (!left_out.is_empty()).then(|| file.left_out(&left_out));
            let notices = notice.into_iter().collect();
            return Ok(Decided {
                policy,
                left_out,
                notices,
                ..Decided::default()
            });
        }
        let limits = OffLimits::here(&machine.home, &[&self.private, machine.private].concat());
        let judge = |request: &Request| limits.judge(request, &machine.home, machine.value);
        let Granted {
            policy,
            opened,
            refused,
        } = self.base.granting(&asked, &judge);
        let mut notices = Vec::new();
        if !opened.is_empty() {
            let message = format!("{} is trusted: {}.", file.name, listed(&opened));
            notices.push(warning(NoticeCode::SandboxPolicy, message));
        }
        if !refused.is_empty() {
            let message = format!(
                "{} requests what no workspace is granted: {}.",
                file.name,
                listed(&refused)
            );
            notices.push(warning(NoticeCode::NeverGranted, message));
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

/// Returns the agent's own settings in a working directory that it must not load: those that exist
/// in the directory or above it in the repository, if a policy applies and they are not trusted.
#[must_use]
pub fn ignored_agent_files(about: &About, spec: &Spec, dir: &Path) -> Vec<&'static str> {
    let files = about.project_files;
    let is_selected = files.setting.is_some_and(|key| spec.values(key).is_some());
    if !spec.ignores_project_settings() || is_selected {
        return Vec::new();
    }
    let roots = within_repository(dir);
    let exists = |path: &&str| {
        roots
            .iter()
            .any(|root| root.join(path).symlink_metadata().is_ok())
    };
    files.paths.iter().copied().filter(exists).collect()
}

/// Returns the directory and its ancestors up to the repository root, or only the directory outside
/// a repository.
#[must_use]
pub fn within_repository(dir: &Path) -> Vec<&Path> {
    let all: Vec<&Path> = dir.ancestors().collect();
    let depth = all
        .iter()
        .position(|dir| dir.join(".git").exists())
        .unwrap_or(0);
    all[..=depth].to_vec()
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

    // Issue 14, break 1: files of another directory than the one decided about are untrusted,
    // whatever their content.
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
        // The content that was read for the decision is used, whatever the file contains now.
        std::fs::write(
            roots[0].join(".ostler/sandbox.toml"),
            "[[command]]\nname = \"bash\"\n",
        )
        .unwrap();
        assert_eq!(decide(&roots[0]).opened, [Request::Network]);
    }
}
