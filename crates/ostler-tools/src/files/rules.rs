//! File access rules: the defaults and the rules of the workspace, compiled.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FileRules;
use super::guarded;
use super::io_errors::display_path;
use super::limits::PATTERN_BYTES;
use crate::{Code, ToolError};

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
fn sealed() -> Result<Globs, String> {
    Globs::new(&[CREDENTIAL_FILES, NEVER_OPENED].concat(), &[])
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
    pub(super) fn new(file_rules: &FileRules, git: Option<&Path>) -> Result<Self, String> {
        let check_globs = |list: &[String]| -> Result<(), String> {
            list.iter().try_for_each(|glob| check_glob(glob))
        };
        check_globs(&file_rules.deny)?;
        check_globs(&file_rules.allow)?;
        check_globs(&file_rules.read_only)?;
        check_globs(&file_rules.workspace_allow)?;
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
        Ok(Self {
            secret_files: Globs::new(
                &[SECRET_SETTINGS, CREDENTIAL_FILES].concat(),
                &configs.collect::<Vec<_>>(),
            )?,
            secret_trees: Globs::new(SECRET_TREES, &file_rules.deny)?,
            harmless: Globs::new(HARMLESS, &file_rules.allow)?,
            read_only_trees: Globs::new(READ_ONLY_TREES, &read_only)?,
            guarded: Globs::new(&[], &guarded)?,
            groups,
            allowed: Globs::new(
                &[],
                &[&file_rules.allow[..], &file_rules.workspace_allow].concat(),
            )?,
            granted: Globs::new(&[], &file_rules.workspace_allow)?,
            sealed: sealed()?,
        })
    }

    /// Returns true if a path is an exception to the deny-list. Exceptions are exact: only the
    /// folded name counts.
    fn is_exempt(&self, folded: &str, lenient: &str) -> bool {
        let is_sealed = || {
            self.sealed.first_match(folded).is_some() || self.sealed.first_match(lenient).is_some()
        };
        self.harmless.first_match(folded).is_some()
            || (self.granted.first_match(folded).is_some() && !is_sealed())
    }

    /// Refuses accesses that the rules forbid. The path is the real one, relative to the workspace.
    pub(super) fn check(
        &self,
        path: &Path,
        access: Access,
        target_kind: TargetKind,
    ) -> Result<(), ToolError> {
        let names = FoldedPath::new(path);
        let message = if let Some(glob) = self.secret(&names, target_kind) {
            format!(
                "{} is denied (rule `{glob}`): work without it; the user can allow it in \
                 .ostler/sandbox.toml",
                display_path(&path.to_string_lossy())
            )
        } else if let (Access::Write, Some(glob)) = (access, self.read_only_rule(&names)) {
            format!(
                "{} is read-only (rule `{glob}`): leave it unchanged",
                display_path(&path.to_string_lossy())
            )
        } else {
            return Ok(());
        };
        Err(ToolError::new(Code::DeniedByPolicy, message))
    }

    /// Returns true if a path is denied to the model altogether.
    pub(super) fn is_secret(&self, path: &Path, target_kind: TargetKind) -> bool {
        self.secret(&FoldedPath::new(path), target_kind).is_some()
    }

    /// Returns true if everything in a directory is denied because of its own path. Directories
    /// above it are not considered.
    pub(super) fn is_secret_tree(&self, path: &Path) -> bool {
        let names = FoldedPath::new(path);
        let (Some(folded), Some(lenient)) = (names.folded.whole(), names.lenient.whole()) else {
            return false;
        };
        let matches_tree = self.secret_trees.first_match(folded).is_some()
            || self.secret_trees.first_match(lenient).is_some();
        matches_tree && !self.is_exempt(folded, lenient)
    }

    /// Returns true if a file is denied, given whether its directory is.
    pub(super) fn is_secret_file(&self, path: &Path, is_in_secret_tree: bool) -> bool {
        let names = FoldedPath::new(path);
        let (Some(folded), Some(lenient)) = (names.folded.whole(), names.lenient.whole()) else {
            return false;
        };
        let matches_any = |globs: &Globs| {
            globs.first_match(folded).is_some() || globs.first_match(lenient).is_some()
        };
        !self.is_exempt(folded, lenient)
            && (is_in_secret_tree
                || matches_any(&self.secret_files)
                || matches_any(&self.secret_trees))
    }

    fn secret(&self, names: &FoldedPath, target_kind: TargetKind) -> Option<&str> {
        let folded = names.folded.whole()?;
        // Only the name of the file itself counts, not that of a directory above it.
        if self.is_exempt(folded, names.lenient.whole()?) {
            return None;
        }
        let whole = |globs: &'_ Globs| {
            globs
                .first_match(folded)
                .or_else(|| globs.first_match(names.lenient.whole()?))
        };
        if target_kind == TargetKind::File
            && let Some(at) = whole(&self.secret_files)
        {
            return self.secret_files.sources.get(at).map(String::as_str);
        }
        let tree = names.pairs().find_map(|(folded, lenient)| {
            let at = self
                .secret_trees
                .first_match(folded)
                .or_else(|| self.secret_trees.first_match(lenient))?;
            (!self.is_exempt(folded, lenient)).then_some(at)
        })?;
        self.secret_trees.sources.get(tree).map(String::as_str)
    }

    fn read_only_rule(&self, names: &FoldedPath) -> Option<&str> {
        let at = self.read_only_trees.first_match_in(names)?;
        self.read_only_trees.sources.get(at).map(String::as_str)
    }

    /// Returns the reason why a person has to approve a write: other programs act on the file, and
    /// no rule allows it.
    pub(super) fn guarded(&self, path: &Path) -> Option<&str> {
        let names = FoldedPath::new(path);
        let glob = self
            .guarded
            .sources
            .get(self.guarded.first_match_in(&names)?)?;
        if self.allowed.first_match(names.folded.whole()?).is_some() {
            return None;
        }
        let group = self
            .groups
            .iter()
            .find(|group| group.globs.contains(glob))?;
        Some(&group.reason)
    }
}

/// Returns true if a glob names private keys or credentials, which no workspace opens.
pub(crate) fn is_sealed(glob: &str) -> bool {
    let names = FoldedPath::new(Path::new(
        glob.trim_start_matches(['/', '.'])
            .trim_start_matches("**/"),
    ));
    let whole = FoldedPath::new(Path::new(glob));
    sealed().is_ok_and(|sealed| {
        [
            names.folded.whole(),
            names.lenient.whole(),
            whole.folded.whole(),
            whole.lenient.whole(),
        ]
        .into_iter()
        .flatten()
        .any(|name| sealed.first_match(name).is_some())
    })
}

/// Refuses a workspace that is itself in a denied or read-only directory.
pub(super) fn check_root(real: &Path) -> Result<(), String> {
    let inside = real
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)));
    let names = FoldedPath::new(&inside.collect::<std::path::PathBuf>());
    let secret_trees: Vec<String> = SECRET_TREES.iter().map(|tree| (*tree).to_owned()).collect();
    let globs = Globs::new(FORBIDDEN_PARENTS, &secret_trees)?;
    match globs.first_match_in(&names) {
        Some(at) => Err(globs.sources.get(at).cloned().unwrap_or_default()),
        None => Ok(()),
    }
}

/// A path and the directories above it, outermost first, in the two forms that rules are matched
/// against.
pub(super) struct FoldedPath {
    /// Folded to one case.
    folded: Prefixes,
    /// Also without the differences that some file systems ignore: trailing dots and spaces,
    /// streams, and invisible characters.
    lenient: Prefixes,
}

impl FoldedPath {
    pub(super) fn new(path: &Path) -> Self {
        let mut names = Self {
            folded: Prefixes::default(),
            lenient: Prefixes::default(),
        };
        for part in path.components() {
            names.lenient.push(&lenient_name(part.as_os_str()));
            names
                .folded
                .push(&fold(&part.as_os_str().to_string_lossy()));
        }
        names
    }

    /// Returns the path and each directory above it in both forms.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.folded.prefixes().zip(self.lenient.prefixes())
    }
}

/// A path and the end of each of its components: all its ancestors, without a copy of each.
#[derive(Default)]
struct Prefixes {
    text: String,
    ends: Vec<usize>,
}

impl Prefixes {
    fn push(&mut self, part: &str) {
        if !self.ends.is_empty() {
            self.text.push('/');
        }
        self.text.push_str(part);
        self.ends.push(self.text.len());
    }

    fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.ends.iter().filter_map(|end| self.text.get(..*end))
    }

    fn whole(&self) -> Option<&str> {
        (!self.ends.is_empty()).then_some(self.text.as_str())
    }
}

/// Returns a name as the most lenient file system compares it: folded, and without ignored
/// characters.
pub(super) fn lenient_name(name: &OsStr) -> String {
    let name = fold(&name.to_string_lossy());
    let visible: String = name.chars().filter(|char| !is_ignored(*char)).collect();
    visible
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' '])
        .to_owned()
}

/// Folds to one case, upper and then lower, so that letters with two lower forms (ſ, K) become one.
fn fold(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

/// Returns true for characters that HFS+ ignores when it compares names.
fn is_ignored(char: char) -> bool {
    matches!(
        char,
        '\u{200c}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{206a}'..='\u{206f}'
            | '\u{feff}'
    )
}

/// A set of globs and their source texts.
#[derive(Debug)]
struct Globs {
    set: GlobSet,
    sources: Vec<String>,
}

impl Globs {
    fn new(defaults: &[&str], extra: &[String]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        let mut sources = Vec::new();
        for source in defaults
            .iter()
            .copied()
            .chain(extra.iter().map(String::as_str))
        {
            for form in forms(source) {
                let glob = GlobBuilder::new(&form)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build();
                set.add(
                    glob.map_err(|error| format!("invalid glob `{source}`: {}", error.kind()))?,
                );
                sources.push(source.to_owned());
            }
        }
        let set = set
            .build()
            .map_err(|error| format!("the globs are too large together: {error}"))?;
        Ok(Self { set, sources })
    }

    /// Returns the first glob that matches the path or a directory above it.
    fn first_match_in(&self, names: &FoldedPath) -> Option<usize> {
        names.pairs().find_map(|(folded, lenient)| {
            self.first_match(folded)
                .or_else(|| self.first_match(lenient))
        })
    }

    fn first_match(&self, path: &str) -> Option<usize> {
        self.set.matches(path).into_iter().next()
    }
}

/// Returns the globs of a rule: at any depth if it names no directory, and also its base if it ends
/// in `/**`.
fn forms(source: &str) -> Vec<String> {
    let folded = fold(source);
    let anchored = folded
        .strip_prefix("./")
        .or_else(|| folded.strip_prefix('/'));
    let body = anchored.unwrap_or(&folded).trim_end_matches('/');
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

fn check_glob(glob: &str) -> Result<(), String> {
    let body = glob.trim_matches('/');
    if body.is_empty() || body == "." {
        return Err(format!("the glob `{glob}` matches nothing"));
    }
    if glob.len() > PATTERN_BYTES {
        return Err(format!("a glob has more than {PATTERN_BYTES} bytes"));
    }
    if body.split('/').any(|part| part == "..") {
        return Err(format!(
            "the glob `{glob}` contains `..`: globs are relative to the workspace"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
