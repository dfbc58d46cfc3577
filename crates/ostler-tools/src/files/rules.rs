//! Which files a model may see and change: the defaults and the rules of the workspace, compiled.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FileRules;
use super::limits::PATTERN_BYTES;
use crate::{Code, ToolError};

/// Files that hold secrets, by their names. A directory of such a name is an ordinary one.
const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
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
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
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
const HARMLESS: &[&str] =
    &[".env.example", ".env.sample", ".env.template", "id_rsa*.pub", "id_dsa*.pub", "id_ecdsa*.pub", "id_ed25519*.pub"];

/// What no rule of a workspace makes writable: git's hooks and configuration, and the policy itself.
const KEPT_TREES: &[&str] = &[".git", ".ostler"];

/// What is only read unless the workspace allows it: other programs run what is written there.
const GUARDED_TREES: &[&str] = &[
    ".mcp.json",
    ".gitmodules",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".cargo",
    // Agents keep their settings, and what they run by themselves, in hidden directories of their own.
    "**/.*/settings*.json",
    "**/.*/config.toml",
    "**/.*/mcp.json",
    "**/.*/{hooks,commands,agents,skills,plugins,rules}",
];

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
    guarded_trees: Globs,
    /// What the workspace allows, without the defaults.
    allowed: Globs,
}

impl Rules {
    /// The defaults and the rules of a workspace, and the directory that git uses in it if that is not `.git`.
    pub(super) fn new(own: &FileRules, git: Option<&Path>) -> Result<Self, String> {
        let own_globs = |list: &[String]| -> Result<(), String> { list.iter().try_for_each(|glob| check_glob(glob)) };
        own_globs(&own.deny)?;
        own_globs(&own.allow)?;
        own_globs(&own.read_only)?;
        let git = git.map(|path| format!("/{}", globset::escape(&path.to_string_lossy())));
        let configs = git.iter().flat_map(|git| [format!("{git}/config*"), format!("{git}/modules/**/config*")]);
        let kept: Vec<String> = own.read_only.iter().chain(&git).cloned().collect();
        Ok(Self {
            secret_files: Globs::new(SECRET_FILES, &configs.collect::<Vec<_>>())?,
            secret_trees: Globs::new(SECRET_TREES, &own.deny)?,
            harmless: Globs::new(HARMLESS, &own.allow)?,
            kept_trees: Globs::new(KEPT_TREES, &kept)?,
            guarded_trees: Globs::new(GUARDED_TREES, &[])?,
            allowed: Globs::new(&[], &own.allow)?,
        })
    }

    /// Refuses what the rules forbid. The path is the real one, relative to the workspace.
    pub(super) fn check(&self, path: &Path, access: Access, sort: Sort) -> Result<(), ToolError> {
        let names = Names::new(path);
        let message = if let Some(glob) = self.secret(&names, sort) {
            format!(
                "`{}` is kept from you (rule `{glob}`): work without it; the user can allow it in .ostler/sandbox.toml",
                path.display()
            )
        } else if let (Access::Write, Some(glob)) = (access, self.kept(&names)) {
            format!("`{}` can be read but not changed (rule `{glob}`): leave it as it is", path.display())
        } else {
            return Ok(());
        };
        Err(ToolError::new(Code::DeniedByPolicy, message))
    }

    /// Whether a file is kept from a model altogether.
    pub(super) fn is_secret(&self, path: &Path, sort: Sort) -> bool {
        self.secret(&Names::new(path), sort).is_some()
    }

    fn secret(&self, names: &Names, sort: Sort) -> Option<&str> {
        let plain = names.plain.whole()?;
        // The exceptions are exact: only the plain name counts, and only that of the file itself.
        if self.harmless.hit(plain).is_some() {
            return None;
        }
        let whole = |globs: &'_ Globs| globs.hit(plain).or_else(|| globs.hit(names.bare.whole()?));
        if sort == Sort::File
            && let Some(at) = whole(&self.secret_files)
        {
            return self.secret_files.words.get(at).map(String::as_str);
        }
        let tree = names.pairs().find_map(|(plain, bare)| {
            let at = self.secret_trees.hit(plain).or_else(|| self.secret_trees.hit(bare))?;
            self.harmless.hit(plain).is_none().then_some(at)
        })?;
        self.secret_trees.words.get(tree).map(String::as_str)
    }

    fn kept(&self, names: &Names) -> Option<&str> {
        let first =
            |globs: &Globs| names.pairs().find_map(|(plain, bare)| globs.hit(plain).or_else(|| globs.hit(bare)));
        if let Some(at) = first(&self.kept_trees) {
            return self.kept_trees.words.get(at).map(String::as_str);
        }
        let at = first(&self.guarded_trees)?;
        if self.allowed.hit(names.plain.whole()?).is_some() {
            return None;
        }
        self.guarded_trees.words.get(at).map(String::as_str)
    }
}

/// Refuses a workspace that is itself in a directory kept from a model, or from being changed.
pub(super) fn check_root(real: &Path) -> Result<(), String> {
    let inside = real.components().filter(|part| matches!(part, std::path::Component::Normal(_)));
    let names = Names::new(&inside.collect::<std::path::PathBuf>());
    let own: Vec<String> = SECRET_TREES.iter().map(|tree| (*tree).to_owned()).collect();
    let globs = Globs::new(KEPT_TREES, &own)?;
    match names.pairs().find_map(|(plain, bare)| globs.hit(plain).or_else(|| globs.hit(bare))) {
        Some(at) => Err(globs.words.get(at).cloned().unwrap_or_default()),
        None => Ok(()),
    }
}

/// A path and the directories it is in, outermost first, in the two ways that rules look at them.
struct Names {
    /// Folded to one case.
    plain: Prefixes,
    /// Also without what some file systems do not tell apart: dots and spaces at the end of a name, streams, and
    /// characters that are not seen.
    bare: Prefixes,
}

impl Names {
    fn new(path: &Path) -> Self {
        let mut names = Self { plain: Prefixes::default(), bare: Prefixes::default() };
        for part in path.components() {
            names.bare.push(&bare_name(part.as_os_str()));
            names.plain.push(&fold(&part.as_os_str().to_string_lossy()));
        }
        names
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
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
    seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned()
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
        for word in defaults.iter().copied().chain(own.iter().map(String::as_str)) {
            for form in forms(word) {
                let glob = GlobBuilder::new(&form).literal_separator(true).backslash_escape(true).build();
                set.add(glob.map_err(|error| format!("the glob `{word}` is not one: {}", error.kind()))?);
                words.push(word.to_owned());
            }
        }
        let set = set.build().map_err(|error| format!("the globs are too much together: {error}"))?;
        Ok(Self { set, words })
    }

    fn hit(&self, path: &str) -> Option<usize> {
        self.set.matches(path).into_iter().next()
    }
}

/// How a rule is matched: at any depth if it names no directory, and for what it names itself if it ends in `/**`.
fn forms(word: &str) -> Vec<String> {
    let folded = fold(word);
    let anchored = folded.strip_prefix("./").or_else(|| folded.strip_prefix('/'));
    let body = anchored.unwrap_or(&folded).trim_end_matches('/');
    let at_any_depth = |body: &str| {
        if anchored.is_none() && !body.contains('/') { format!("**/{body}") } else { body.to_owned() }
    };
    let base = body.strip_suffix("/**").filter(|base| !base.is_empty() && *base != "**");
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
        return Err(format!("the glob `{glob}` holds `..`: globs are relative to the workspace"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(deny: &[&str], allow: &[&str], read_only: &[&str]) -> Rules {
        let own = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let own = FileRules { deny: own(deny), allow: own(allow), read_only: own(read_only) };
        Rules::new(&own, None).unwrap()
    }

    fn reads(rules: &Rules, path: &str) -> bool {
        rules.check(Path::new(path), Access::Read, Sort::File).is_ok()
    }

    fn writes(rules: &Rules, path: &str) -> bool {
        rules.check(Path::new(path), Access::Write, Sort::File).is_ok()
    }

    // S2-25
    #[test]
    fn secrets_are_denied_by_default() {
        let rules = rules(&[], &[], &[]);
        for path in [
            ".env",
            "a/b/.env",
            ".env.local",
            ".env.example.bak",
            ".ENV",
            ".Env.Production",
            ".env.",
            ".env ",
            ".env. . ",
            ".env::$DATA",
            ".e\u{200d}nv",
            "server.pem",
            "tls/server.KEY",
            "a.p12",
            "a.pfx",
            "a.jks",
            "id_rsa",
            "id_rsa.old",
            "x/id_ed25519",
            "id_ecdsa_sk",
            "credentials",
            "gcp/credentials.json",
            ".netrc",
            ".npmrc",
            ".pypirc",
            ".git-credentials",
            ".git/config",
            ".git /config",
            ".Git/config",
            "sub/.git/config.worktree",
            ".git/modules/a/b/config",
            ".ssh/known_hosts",
            ".s\u{17f}h/x",
            ".SSH./x",
            "home/.aws/credentials",
            ".gnupg/a/b",
            ".docker/config.json",
            ".kube/config",
            "vault.kdbx",
            "config/secrets.yml",
            "secrets.toml",
            ".env.example/.env",
        ] {
            assert!(!reads(&rules, path), "{path:?} can be read");
            assert!(!writes(&rules, path), "{path:?} can be written");
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_is_free() {
        let rules = rules(&[], &[], &[]);
        for path in [
            ".env.example",
            "a/.env.sample",
            ".env.template",
            "environment.ts",
            "env",
            "id_rsa.pub",
            "keys.rs",
            "src/credentials/mod.rs",
            "monkey",
            ".gitignore",
            "config/config.json",
            "secrets.rs",
            "a.key/x",
        ] {
            assert!(reads(&rules, path), "{path:?} cannot be read");
            assert!(writes(&rules, path), "{path:?} cannot be written");
        }
        assert!(rules.check(Path::new("src/credentials"), Access::Read, Sort::Directory).is_ok());
        assert!(rules.check(Path::new(".ssh"), Access::Read, Sort::Directory).is_err());
    }

    #[test]
    fn the_own_rules_add_and_make_exceptions() {
        let rules =
            rules(&["private", "docs/*.txt", "/top"], &[".env", "private/ok.md", "fixtures/**"], &["vendor/**"]);
        for path in ["private", "a/private/b/c", "docs/a.txt", "docs/a.txt/b", "top", "PRIVATE/x"] {
            assert!(!reads(&rules, path), "{path:?} can be read");
        }
        for path in [".env", "a/.env", "private/ok.md", "fixtures/a/.env", "docs/b/a.txt", "a/top", "fixtures/k.pem"] {
            assert!(reads(&rules, path), "{path:?} cannot be read");
        }
        assert!(reads(&rules, "vendor/a") && !writes(&rules, "vendor/a") && !writes(&rules, "vendor"));
    }

    // S2-25
    #[test]
    fn no_rule_makes_git_or_the_policy_writable() {
        let rules = rules(&[], &["**", ".git/**", ".ostler/**", ".ostler/sandbox.toml"], &[]);
        for path in [".git", ".git/hooks/pre-commit", "sub/.git", ".ostler/sandbox.toml", ".OSTLER/x", ".git./hooks/x"]
        {
            assert!(!writes(&rules, path), "{path:?} can be written");
            assert!(reads(&rules, path), "{path:?} cannot be read");
        }
    }

    #[test]
    fn what_other_programs_run_is_only_read_unless_allowed() {
        let guarded = rules(&[], &[], &[]);
        let opened = rules(&[], &[".agent/**", ".vscode/settings.json"], &[]);
        for path in [
            ".agent/settings.json",
            ".agent/settings.local.json",
            ".agent/hooks/a.sh",
            ".agent/skills",
            ".mcp.json",
            "a/.VSCODE/tasks.json",
            ".husky",
            ".cargo/config.toml",
        ] {
            assert!(reads(&guarded, path) && !writes(&guarded, path), "{path}");
        }
        assert!(writes(&opened, ".agent/settings.json") && writes(&opened, ".vscode/settings.json"));
        assert!(!writes(&opened, ".vscode/tasks.json") && !writes(&opened, ".mcp.json"));
    }

    #[test]
    fn a_git_directory_of_another_name_is_kept() {
        let rules =
            Rules::new(&FileRules { allow: vec!["**".to_owned()], ..FileRules::default() }, Some(Path::new("r [x]")));
        let rules = rules.unwrap();
        assert!(!writes(&rules, "r [x]/hooks/pre-commit") && !writes(&rules, "R [X]") && writes(&rules, "r x/hooks/a"));
        let rules = Rules::new(&FileRules::default(), Some(Path::new("x"))).unwrap();
        assert!(!reads(&rules, "x/config") && !reads(&rules, "x/modules/a/config") && reads(&rules, "x/HEAD"));
    }

    #[test]
    fn a_path_of_very_many_parts_takes_little() {
        let path = "a/".repeat(200_000);
        let names = Names::new(Path::new(&path));
        assert!(names.plain.text.capacity() < 1 << 20 && names.plain.ends.len() == 200_000);
    }

    #[test]
    fn a_workspace_in_a_kept_directory_is_none() {
        for path in ["/w/.git", "/w/.GIT/hooks", "/home/u/.ssh", "/w/.ostler/x", "/home/u/.config/gcloud/a"] {
            assert!(check_root(Path::new(path)).is_err(), "{path}");
        }
        for path in ["/", "/w/a.git", "/home/u/.config", "/w/.github"] {
            assert!(check_root(Path::new(path)).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_glob_that_is_none_is_named() {
        let check = |glob: &str| FileRules { deny: vec![glob.to_owned()], ..FileRules::default() }.check();
        assert_eq!(check("a{b").unwrap_err().split(':').next(), Some("the glob `a{b` is not one"));
        assert!(check("../x").is_err());
        assert!(check("").is_err());
        assert!(check("/").is_err());
        assert_eq!(check("**/x"), Ok(()));
    }
}
