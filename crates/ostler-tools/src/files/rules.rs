//! File access rules: the defaults and the rules of the workspace, compiled.

use std::path::Path;

use ostler_core::matching::{Breadth, GlobError, GlobPattern, Globs, PathName, PathNames};

use super::FileRules;
use super::guarded;
use super::io_errors::display_path;
use super::limits::PATTERN_BYTES;
use crate::{RuleError, ToolError};

/// File names of settings that often contain secrets. A trusted workspace may open them.
const SECRET_SETTINGS: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
];

/// File names of private keys and credentials. A directory with such a name is an ordinary one.
const CREDENTIAL_FILES: &[&str] = &[
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.ppk",
    "*.kdbx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials",
    "credentials.json",
    "credentials.toml",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".vault-token",
    ".git-credentials",
    "**/.git/config*",
    "**/.git/modules/**/config*",
    "**/.docker/config.json",
    "**/.kube/config",
    "**/.config/gh/hosts.yml",
];

/// Directories of secrets: nothing in them is visible.
const SECRET_TREES: &[&str] = &[".ssh", ".aws", ".azure", ".gnupg", "**/.config/gcloud"];

/// Files that only look like secrets.
const HARMLESS: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    "id_rsa*.pub",
    "id_dsa*.pub",
    "id_ecdsa*.pub",
    "id_ed25519*.pub",
];

/// Files that no workspace opens, trusted or not, in addition to [`CREDENTIAL_FILES`]: tokens of
/// agents, and everything in [`SECRET_TREES`].
const NEVER_OPENED: &[&str] = &[
    ".credentials.json",
    "auth.json",
    "oauth_creds.json",
    ".ssh/**",
    ".aws/**",
    ".azure/**",
    ".gnupg/**",
    "**/.config/gcloud/**",
];

/// Compiles the globs of files that no workspace opens.
fn sealed() -> Result<Globs, RuleError> {
    globs(
        Breadth::AnyName,
        &[CREDENTIAL_FILES, NEVER_OPENED].concat(),
        &[],
    )
}

/// Paths that no rule of a workspace makes writable: git's hooks and configuration, and Ostler's
/// own policy and settings. Some file systems also know them by a short name.
const READ_ONLY_TREES: &[&str] = &[
    ".git",
    "git~[0-9]",
    ".ostler",
    "ostler.toml",
    "ostler~[0-9]*",
];

/// Directories that a workspace can never be in.
const FORBIDDEN_PARENTS: &[&str] = &[".git", ".ostler"];

/// Type of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading it, or learning that it exists.
    Read,
    /// Creating, changing, moving or removing it.
    Write,
}

/// Type of a path, as far as the rules care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    /// A file, a link, or a path that does not exist yet.
    File,
    /// A directory.
    Directory,
}

/// The compiled rules of a workspace.
#[derive(Debug)]
pub(super) struct Rules {
    secret_files: Globs,
    secret_trees: Globs,
    harmless: Globs,
    read_only_trees: Globs,
    guarded: Globs,
    groups: Vec<guarded::Group>,
    /// Exceptions of the user and the workspace, without the defaults.
    allowed: Globs,
    /// Exceptions to the deny-list that a workspace requested and the user trusts.
    granted: Globs,
    /// Paths that `granted` does not open.
    sealed: Globs,
}

impl Rules {
    /// Compiles the defaults and the rules of a workspace. `git` is the directory that git uses in
    /// it, if that is not `.git`.
    pub(super) fn new(file_rules: &FileRules, git: Option<&Path>) -> Result<Self, RuleError> {
        let FileRules {
            deny,
            allow,
            read_only,
            workspace_allow,
        } = file_rules;
        [deny, allow, read_only, workspace_allow]
            .into_iter()
            .flatten()
            .try_for_each(|glob| check_glob(glob))?;
        let git = git.map(|path| format!("/{}", globset::escape(&path.to_string_lossy())));
        let configs = git.iter().flat_map(|git| {
            [
                format!("{git}/config*"),
                format!("{git}/modules/**/config*"),
            ]
        });
        let groups = guarded::groups()?;
        let guarded: Vec<String> = groups
            .iter()
            .flat_map(|group| &group.globs)
            .cloned()
            .collect();
        let read_only: Vec<String> = file_rules.read_only.iter().chain(&git).cloned().collect();
        let denied = |defaults: &[&str], extra: &[String]| globs(Breadth::AnyName, defaults, extra);
        // Exceptions hold only for the file they name.
        let exempt = |defaults: &[&str], extra: &[String]| globs(Breadth::AnyCase, defaults, extra);
        Ok(Self {
            secret_files: denied(
                &[SECRET_SETTINGS, CREDENTIAL_FILES].concat(),
                &configs.collect::<Vec<_>>(),
            )?,
            secret_trees: denied(SECRET_TREES, &file_rules.deny)?,
            harmless: exempt(HARMLESS, &file_rules.allow)?,
            read_only_trees: denied(READ_ONLY_TREES, &read_only)?,
            guarded: denied(&[], &guarded)?,
            groups,
            allowed: exempt(
                &[],
                &[&file_rules.allow[..], &file_rules.workspace_allow].concat(),
            )?,
            granted: exempt(&[], &file_rules.workspace_allow)?,
            sealed: sealed()?,
        })
    }

    /// Returns true if a path is an exception to the deny-list.
    fn is_exempt(&self, path: PathName<'_>) -> bool {
        self.harmless.is_match(path) || (self.granted.is_match(path) && !self.sealed.is_match(path))
    }

    /// Refuses accesses that the rules forbid. The path is the real one, relative to the workspace.
    pub(super) fn check(
        &self,
        path: &Path,
        access: Access,
        target_kind: TargetKind,
    ) -> Result<(), ToolError> {
        let names = names(path);
        let message = if let Some(glob) = self.secret(&names, target_kind) {
            format!(
                "{} is denied (rule `{glob}`): work without it; the user can allow it in \
                 .ostler/sandbox.toml",
                display_path(&path.to_string_lossy())
            )
        } else if let (Access::Write, Some(glob)) =
            (access, first_match_in(&self.read_only_trees, &names))
        {
            format!(
                "{} is read-only (rule `{glob}`): leave it unchanged",
                display_path(&path.to_string_lossy())
            )
        } else {
            return Ok(());
        };
        Err(ToolError::denied(message))
    }

    /// Returns true if a path is denied to the model altogether.
    pub(super) fn is_secret(&self, path: &Path, target_kind: TargetKind) -> bool {
        self.secret(&names(path), target_kind).is_some()
    }

    /// Returns true if everything in a directory is denied because of its own path. Directories
    /// above it are not considered.
    pub(super) fn is_secret_tree(&self, path: &Path) -> bool {
        let names = names(path);
        !names.is_empty()
            && self.secret_trees.is_match(names.whole())
            && !self.is_exempt(names.whole())
    }

    /// Returns true if a file is denied, given whether its directory is.
    pub(super) fn is_secret_file(&self, path: &Path, is_in_secret_tree: bool) -> bool {
        let names = names(path);
        let path = names.whole();
        !names.is_empty()
            && !self.is_exempt(path)
            && (is_in_secret_tree
                || self.secret_files.is_match(path)
                || self.secret_trees.is_match(path))
    }

    fn secret(&self, names: &PathNames, target_kind: TargetKind) -> Option<&str> {
        // Only the name of the file itself counts, not that of a directory above it.
        if names.is_empty() || self.is_exempt(names.whole()) {
            return None;
        }
        let file = (target_kind == TargetKind::File)
            .then(|| self.secret_files.first_match(names.whole()))
            .flatten();
        let tree = || {
            let denied = |path| Some((path, self.secret_trees.first_match(path)?));
            let mut denied = names.prefixes().filter_map(denied);
            denied
                .find(|(path, _)| !self.is_exempt(*path))
                .map(|(_, glob)| glob)
        };
        file.or_else(tree)
    }

    /// Returns the reason why a person has to approve a write: other programs act on the file, and
    /// no rule allows it.
    pub(super) fn guarded(&self, path: &Path) -> Option<&str> {
        let names = names(path);
        let glob = first_match_in(&self.guarded, &names)?;
        if self.allowed.is_match(names.whole()) {
            return None;
        }
        let is_listed = |group: &&guarded::Group| group.globs.iter().any(|one| one == glob);
        Some(&self.groups.iter().find(is_listed)?.reason)
    }
}

/// Returns true if a glob names private keys or credentials, which no workspace opens.
pub(crate) fn is_sealed(glob: &str) -> bool {
    let bare = glob
        .trim_start_matches(['/', '.'])
        .trim_start_matches("**/");
    sealed().is_ok_and(|sealed| {
        [bare, glob].iter().any(|glob| {
            let names = names(Path::new(glob));
            !names.is_empty() && sealed.is_match(names.whole())
        })
    })
}

/// Refuses a workspace that is itself in a denied or read-only directory.
pub(super) fn check_root(real: &Path) -> Result<(), ToolError> {
    let inside = real
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)));
    let names = names(&inside.collect::<std::path::PathBuf>());
    let forbidden = [FORBIDDEN_PARENTS, SECRET_TREES].concat();
    match first_match_in(&globs(Breadth::AnyName, &forbidden, &[])?, &names) {
        Some(glob) => Err(ToolError::denied(format!(
            "the workspace cannot be in `{glob}`, which is off limits: use the given one"
        ))),
        None => Ok(()),
    }
}

/// Returns the names of a path and of the directories above it.
pub(super) fn names(path: &Path) -> PathNames {
    let components: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    PathNames::new(components.iter().map(|component| &**component))
}

/// Returns the first glob that matches the path or a directory above it.
fn first_match_in<'a>(globs: &'a Globs, names: &PathNames) -> Option<&'a str> {
    names.prefixes().find_map(|path| globs.first_match(path))
}

/// Compiles the globs of rules.
fn globs(breadth: Breadth, defaults: &[&str], extra: &[String]) -> Result<Globs, RuleError> {
    let extra = extra.iter().map(String::as_str);
    let patterns = defaults.iter().copied().chain(extra).flat_map(|source| {
        let pattern = move |glob| GlobPattern { source, glob };
        forms(source).into_iter().map(pattern)
    });
    Globs::new(breadth, patterns).map_err(|error| {
        RuleError::new(match error {
            GlobError::Invalid {
                source_text,
                reason,
            } => format!("invalid glob `{source_text}`: {reason}"),
            GlobError::TooLarge(reason) => format!("the globs are too large together: {reason}"),
        })
    })
}

/// Returns the globs of a rule: at any depth if it names no directory, and also its base if it ends
/// in `/**`.
fn forms(source: &str) -> Vec<String> {
    let anchored = source
        .strip_prefix("./")
        .or_else(|| source.strip_prefix('/'));
    let body = anchored.unwrap_or(source).trim_end_matches('/');
    let at_any_depth = |body: &str| {
        if anchored.is_none() && !body.contains('/') {
            format!("**/{body}")
        } else {
            body.to_owned()
        }
    };
    let base = body
        .strip_suffix("/**")
        .filter(|base| !base.is_empty() && *base != "**");
    match base {
        // `.ssh/**` means the same as `.ssh`: at any depth.
        Some(base) => vec![at_any_depth(base), format!("{}/**", at_any_depth(base))],
        None => vec![at_any_depth(body)],
    }
}

fn check_glob(glob: &str) -> Result<(), RuleError> {
    let body = glob.trim_matches('/');
    let why = if body.is_empty() || body == "." {
        format!("the glob `{glob}` matches nothing")
    } else if glob.len() > PATTERN_BYTES {
        format!("a glob has more than {PATTERN_BYTES} bytes")
    } else if body.split('/').any(|part| part == "..") {
        format!("the glob `{glob}` contains `..`: globs are relative to the workspace")
    } else {
        return Ok(());
    };
    Err(RuleError::new(why))
}

#[cfg(test)]
mod tests;
