//! Which files a model may see and change: the defaults and the rules of the workspace, compiled.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FileRules;
use super::guarded;
use super::limits::PATTERN_BYTES;
use super::system::shown;
use crate::{Code, ToolError};

/// Settings that often hold secrets, by their file names. A trusted workspace may open them.
const SECRET_SETTINGS: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
];

/// Private keys and credentials, by their file names. A directory of such a name is an ordinary one.
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

/// Directories that hold secrets: nothing in them is seen.
const SECRET_TREES: &[&str] = &[".ssh", ".aws", ".azure", ".gnupg", "**/.config/gcloud"];

/// What only looks like a secret.
const HARMLESS: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    "id_rsa*.pub",
    "id_dsa*.pub",
    "id_ecdsa*.pub",
    "id_ed25519*.pub",
];

/// What no workspace opens besides [`CREDENTIAL_FILES`], trusted or not: tokens of agents, and everything in [`SECRET_TREES`].
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

/// Compiles what no workspace opens.
fn sealed() -> Result<Globs, String> {
    Globs::new(&[CREDENTIAL_FILES, NEVER_OPENED].concat(), &[])
}

/// What no rule of a workspace makes writable: git's hooks and configuration, and Ostler's own policy and settings. Some file
/// systems also know them by a short name.
const KEPT_TREES: &[&str] = &[
    ".git",
    "git~[0-9]",
    ".ostler",
    "ostler.toml",
    "ostler~[0-9]*",
];

/// Directories that a workspace is never in.
const KEPT_ABOVE: &[&str] = &[".git", ".ostler"];

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It is seen.
    Read,
    /// It is made, changed, moved or removed.
    Write,
}

/// What is at a path, as far as the rules care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A file, a link, or nothing yet.
    File,
    /// A directory.
    Directory,
}

/// The rules of a workspace.
#[derive(Debug)]
pub(super) struct Rules {
    secret_files: Globs,
    secret_trees: Globs,
    harmless: Globs,
    kept_trees: Globs,
    guarded: Globs,
    groups: Vec<guarded::Group>,
    /// What the workspace allows, without the defaults.
    allowed: Globs,
    /// Exceptions from the deny-list that a workspace asked for and the user trusts.
    granted: Globs,
    /// What `granted` does not open.
    sealed: Globs,
}

impl Rules {
    /// The defaults and the rules of a workspace, and the directory that git uses in it if that is not `.git`.
    pub(super) fn new(own: &FileRules, git: Option<&Path>) -> Result<Self, String> {
        let own_globs = |list: &[String]| -> Result<(), String> {
            list.iter().try_for_each(|glob| check_glob(glob))
        };
        own_globs(&own.deny)?;
        own_globs(&own.allow)?;
        own_globs(&own.read_only)?;
        own_globs(&own.workspace_allow)?;
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
        let kept: Vec<String> = own.read_only.iter().chain(&git).cloned().collect();
        Ok(Self {
            secret_files: Globs::new(
                &[SECRET_SETTINGS, CREDENTIAL_FILES].concat(),
                &configs.collect::<Vec<_>>(),
            )?,
            secret_trees: Globs::new(SECRET_TREES, &own.deny)?,
            harmless: Globs::new(HARMLESS, &own.allow)?,
            kept_trees: Globs::new(KEPT_TREES, &kept)?,
            guarded: Globs::new(&[], &guarded)?,
            groups,
            allowed: Globs::new(&[], &[&own.allow[..], &own.workspace_allow].concat())?,
            granted: Globs::new(&[], &own.workspace_allow)?,
            sealed: sealed()?,
        })
    }

    /// Whether a path is an exception from the deny-list. The exceptions are exact: only the plain name counts.
    fn is_exempt(&self, plain: &str, bare: &str) -> bool {
        let is_sealed = || self.sealed.hit(plain).is_some() || self.sealed.hit(bare).is_some();
        self.harmless.hit(plain).is_some() || (self.granted.hit(plain).is_some() && !is_sealed())
    }

    /// Refuses what the rules forbid. The path is the real one, relative to the workspace.
    pub(super) fn check(&self, path: &Path, access: Access, sort: Sort) -> Result<(), ToolError> {
        let names = Names::new(path);
        let message = if let Some(glob) = self.secret(&names, sort) {
            format!(
                "{} is kept from you (rule `{glob}`): work without it; the user can allow it in .ostler/sandbox.toml",
                shown(&path.to_string_lossy())
            )
        } else if let (Access::Write, Some(glob)) = (access, self.kept(&names)) {
            format!(
                "{} can be read but not changed (rule `{glob}`): leave it as it is",
                shown(&path.to_string_lossy())
            )
        } else {
            return Ok(());
        };
        Err(ToolError::new(Code::DeniedByPolicy, message))
    }

    /// Whether a file is kept from a model altogether.
    pub(super) fn is_secret(&self, path: &Path, sort: Sort) -> bool {
        self.secret(&Names::new(path), sort).is_some()
    }

    /// Whether everything in a directory is kept because of its own path; those above it are not looked at.
    pub(super) fn is_secret_tree(&self, path: &Path) -> bool {
        let names = Names::new(path);
        let (Some(plain), Some(bare)) = (names.plain.whole(), names.bare.whole()) else {
            return false;
        };
        let is_hit =
            self.secret_trees.hit(plain).is_some() || self.secret_trees.hit(bare).is_some();
        is_hit && !self.is_exempt(plain, bare)
    }

    /// Whether a file is kept from a model, where it is known whether the directory it is in is.
    pub(super) fn is_secret_file(&self, path: &Path, is_in_secret_tree: bool) -> bool {
        let names = Names::new(path);
        let (Some(plain), Some(bare)) = (names.plain.whole(), names.bare.whole()) else {
            return false;
        };
        let hits = |globs: &Globs| globs.hit(plain).is_some() || globs.hit(bare).is_some();
        !self.is_exempt(plain, bare)
            && (is_in_secret_tree || hits(&self.secret_files) || hits(&self.secret_trees))
    }

    fn secret(&self, names: &Names, sort: Sort) -> Option<&str> {
        let plain = names.plain.whole()?;
        // Only the name of the file itself counts, not that of a directory it is in.
        if self.is_exempt(plain, names.bare.whole()?) {
            return None;
        }
        let whole = |globs: &'_ Globs| globs.hit(plain).or_else(|| globs.hit(names.bare.whole()?));
        if sort == Sort::File
            && let Some(at) = whole(&self.secret_files)
        {
            return self.secret_files.words.get(at).map(String::as_str);
        }
        let tree = names.pairs().find_map(|(plain, bare)| {
            let at = self
                .secret_trees
                .hit(plain)
                .or_else(|| self.secret_trees.hit(bare))?;
            (!self.is_exempt(plain, bare)).then_some(at)
        })?;
        self.secret_trees.words.get(tree).map(String::as_str)
    }

    fn kept(&self, names: &Names) -> Option<&str> {
        let at = self.kept_trees.first_of(names)?;
        self.kept_trees.words.get(at).map(String::as_str)
    }

    /// Why a person has to approve a write, if other programs act on the file and no rule allows it.
    pub(super) fn guarded(&self, path: &Path) -> Option<&str> {
        let names = Names::new(path);
        let glob = self.guarded.words.get(self.guarded.first_of(&names)?)?;
        if self.allowed.hit(names.plain.whole()?).is_some() {
            return None;
        }
        let group = self
            .groups
            .iter()
            .find(|group| group.globs.contains(glob))?;
        Some(&group.reason)
    }
}

/// Whether a glob names private keys or credentials, which no workspace opens.
pub(crate) fn is_sealed(glob: &str) -> bool {
    let names = Names::new(Path::new(
        glob.trim_start_matches(['/', '.'])
            .trim_start_matches("**/"),
    ));
    let whole = Names::new(Path::new(glob));
    sealed().is_ok_and(|sealed| {
        [
            names.plain.whole(),
            names.bare.whole(),
            whole.plain.whole(),
            whole.bare.whole(),
        ]
        .into_iter()
        .flatten()
        .any(|name| sealed.hit(name).is_some())
    })
}

/// Refuses a workspace that is itself in a directory kept from a model, or from being changed.
pub(super) fn check_root(real: &Path) -> Result<(), String> {
    let inside = real
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)));
    let names = Names::new(&inside.collect::<std::path::PathBuf>());
    let own: Vec<String> = SECRET_TREES.iter().map(|tree| (*tree).to_owned()).collect();
    let globs = Globs::new(KEPT_ABOVE, &own)?;
    match globs.first_of(&names) {
        Some(at) => Err(globs.words.get(at).cloned().unwrap_or_default()),
        None => Ok(()),
    }
}

/// A path and the directories it is in, outermost first, in the two ways that rules look at them.
pub(super) struct Names {
    /// Folded to one case.
    plain: Prefixes,
    /// Also without what some file systems do not tell apart: dots and spaces at the end of a name, streams, and
    /// characters that are not seen.
    bare: Prefixes,
}

impl Names {
    pub(super) fn new(path: &Path) -> Self {
        let mut names = Self {
            plain: Prefixes::default(),
            bare: Prefixes::default(),
        };
        for part in path.components() {
            names.bare.push(&bare_name(part.as_os_str()));
            names.plain.push(&fold(&part.as_os_str().to_string_lossy()));
        }
        names
    }

    /// The path and each directory it is in, folded; and the same as the laxest file system takes it.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.plain.each().zip(self.bare.each())
    }
}

/// A path, and where each of its parts ends: all the directories it is in, without a copy of each.
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

    fn each(&self) -> impl Iterator<Item = &str> {
        self.ends.iter().filter_map(|end| self.text.get(..*end))
    }

    fn whole(&self) -> Option<&str> {
        (!self.ends.is_empty()).then_some(self.text.as_str())
    }
}

/// A name as the laxest file system takes it: folded, and without what some do not tell apart.
pub(super) fn bare_name(name: &OsStr) -> String {
    let name = fold(&name.to_string_lossy());
    let seen: String = name.chars().filter(|char| !is_unseen(*char)).collect();
    seen.split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' '])
        .to_owned()
}

/// One case for all: up and down again, so that letters with two lower forms (ſ, K) become one.
fn fold(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

/// Characters that HFS+ leaves out when it compares names.
fn is_unseen(char: char) -> bool {
    matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// A set of globs, and how each is written.
#[derive(Debug)]
struct Globs {
    set: GlobSet,
    words: Vec<String>,
}

impl Globs {
    fn new(defaults: &[&str], own: &[String]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        let mut words = Vec::new();
        for word in defaults
            .iter()
            .copied()
            .chain(own.iter().map(String::as_str))
        {
            for form in forms(word) {
                let glob = GlobBuilder::new(&form)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build();
                set.add(
                    glob.map_err(|error| {
                        format!("the glob `{word}` is not one: {}", error.kind())
                    })?,
                );
                words.push(word.to_owned());
            }
        }
        let set = set
            .build()
            .map_err(|error| format!("the globs are too much together: {error}"))?;
        Ok(Self { set, words })
    }

    /// The first glob that matches the path, or a directory that it is in.
    fn first_of(&self, names: &Names) -> Option<usize> {
        names
            .pairs()
            .find_map(|(plain, bare)| self.hit(plain).or_else(|| self.hit(bare)))
    }

    fn hit(&self, path: &str) -> Option<usize> {
        self.set.matches(path).into_iter().next()
    }
}

/// How a rule is matched: at any depth if it names no directory, and for what it names itself if it ends in `/**`.
fn forms(word: &str) -> Vec<String> {
    let folded = fold(word);
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
        return Err(format!("the glob `{glob}` names nothing"));
    }
    if glob.len() > PATTERN_BYTES {
        return Err(format!("a glob of more than {PATTERN_BYTES} bytes"));
    }
    if body.split('/').any(|part| part == "..") {
        return Err(format!(
            "the glob `{glob}` holds `..`: globs are relative to the workspace"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
