//! Secrets: files with keys, tokens and passwords, which neither commands nor sandboxed agents may
//! read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::HostPaths;
use super::readable_paths::named;

/// Paths of secrets below a home: one per line, with a comment per group.
const IN_HOME: &str = include_str!("secrets.txt");

/// Names of secrets directly below a directory of tools.
const BESIDE_TOOLS: &str = "\
    credentials credentials.toml .npmrc .pypirc .netrc gradle.properties settings.xml auth.json";

/// Paths of secrets of the system. Only root can read most of them, but commands may run as root.
const SYSTEM: &str = "\
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssh \
    /etc/ssl/private /etc/pki/tls/private /etc/kubernetes /etc/rancher /etc/docker /etc/wireguard \
    /etc/openvpn /etc/letsencrypt /etc/NetworkManager/system-connections /etc/krb5.keytab /run/secrets \
    /run/credentials /var/run/secrets /var/lib/docker /var/lib/containerd /var/lib/containers \
    /var/lib/kubelet /var/lib/rancher /var/lib/NetworkManager /var/lib/sss /var/lib/samba/private \
    /var/backups /var/spool/cron /var/spool/mail /var/mail";

/// Directories of settings, in which every file that is not world-readable is a secret.
const SETTINGS: [&str; 2] = ["/etc", "/usr/local/etc"];

/// Variables that name the file or directory of a secret, or several separated by colons.
const VARIABLES: &str = include_str!("secret_variables.txt");

/// Variables that relocate directories with secrets, and the paths of the secrets in them.
const RELOCATED: &[(&str, &[&str])] = &[
    ("CARGO_HOME", &["credentials", "credentials.toml"]),
    ("COMPOSER_HOME", &["auth.json"]),
    ("GRADLE_USER_HOME", &["gradle.properties"]),
    ("HF_HOME", &["token", "stored_tokens"]),
    ("IVY_HOME", &[".credentials"]),
    ("PUB_CACHE", &["credentials.json"]),
    ("MIX_HOME", &["hex.config"]),
    ("ZDOTDIR", &[".zsh_history", ".zhistory"]),
    ("IPYTHONDIR", &["profile_default/history.sqlite"]),
];

/// Directories below a home that a variable relocates.
const XDG: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// Maximum number of entries examined in a directory of settings, and maximum depth. Anything
/// beyond is hidden.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 12;

/// Returns the paths of secrets relative to a home.
pub fn secret_paths() -> impl Iterator<Item = &'static str> {
    IN_HOME
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the paths of secrets that variables name. Relative paths are skipped: their base is
/// unknown.
#[must_use]
pub fn named_secrets(var: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let dir = |name: &str| {
        var(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let mut all: Vec<PathBuf> = VARIABLES
        .lines()
        .filter_map(var)
        .flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>())
        .collect();
    for (name, files) in RELOCATED {
        all.extend(
            dir(name)
                .into_iter()
                .flat_map(|dir| files.iter().map(move |file| dir.join(file))),
        );
    }
    for (name, usual) in XDG {
        let Some(dir) = dir(name) else { continue };
        let below = secret_paths().filter_map(|path| Path::new(path).strip_prefix(usual).ok());
        all.extend(below.map(|path| dir.join(path)));
    }
    // `/` or a whole home would hide everything.
    all.retain(|path| path.is_absolute() && path.parent().is_some());
    all
}

/// Returns the existing paths that are never readable, even where everything else is.
#[must_use]
pub fn secrets(host: &HostPaths<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSTEM.split(' ').map(PathBuf::from).collect();
    // Root could read the secrets of other users.
    let others = std::fs::read_dir("/home")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let homes = host
        .home
        .map(Path::to_owned)
        .into_iter()
        .chain([PathBuf::from("/root")])
        .chain(others);
    all.extend(homes.flat_map(|home| secret_paths().map(move |secret| home.join(secret))));
    all.extend(
        named(host).flat_map(|dir| BESIDE_TOOLS.split(' ').map(move |secret| dir.join(secret))),
    );
    // A home, or a directory that contains one, is never a secret as a whole, whatever a variable
    // says.
    let contains_home = |path: &Path| host.home.is_some_and(|home| home.starts_with(path));
    all.extend(
        host.secrets
            .iter()
            .filter(|path| !contains_home(path))
            .cloned(),
    );
    all.retain(|path| path.exists());
    all.extend(
        SETTINGS
            .iter()
            .flat_map(|dir| private_files(Path::new(dir))),
    );
    let exempt: Vec<PathBuf> = host
        .exempt
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let is_exempt = |path: &PathBuf| {
        path.canonicalize()
            .is_ok_and(|real| exempt.iter().any(|own| real.starts_with(own)))
    };
    all.retain(|path| !is_exempt(path));
    all.sort();
    all.dedup();
    all
}

/// Returns true if a file or directory with this mode is not world-readable.
fn is_private(mode: u32, is_directory: bool) -> bool {
    let needed = if is_directory { 0o005 } else { 0o004 };
    mode & needed != needed
}

/// Returns the real paths of files and directories below a directory of settings that are not
/// world-readable.
#[cfg(unix)]
fn private_files(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending: Vec<(PathBuf, usize)> = vec![(dir.to_owned(), 0)];
    let mut entries = 0;
    while let Some((dir, depth)) = pending.pop() {
        if entries > MAX_ENTRIES || depth > MAX_DEPTH {
            found.push(dir);
            continue;
        }
        for path in std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
        {
            entries += 1;
            let Ok(meta) = path.metadata() else { continue };
            if !meta.is_dir() && !meta.is_file() {
                continue;
            }
            if is_private(meta.permissions().mode(), meta.is_dir()) {
                found.extend(path.canonicalize());
            } else if meta.is_dir() && path.canonicalize().is_ok_and(|real| seen.insert(real)) {
                pending.push((path, depth + 1));
            }
        }
    }
    found
}

#[cfg(not(unix))]
fn private_files(_dir: &Path) -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // Issue 14, break 9.
    #[test]
    fn list_contains_credentials_of_agents() {
        let listed = |path: &str| secret_paths().any(|secret| Path::new(path).starts_with(secret));
        for path in [
            ".claude/.credentials.json",
            ".claude.json",
            ".codex/auth.json",
            ".copilot/x",
            ".config/github-copilot/hosts.json",
            ".gemini/oauth_creds.json",
            ".local/share/opencode/auth.json",
            ".config/goose/secrets.yaml",
            ".qwen/oauth_creds.json",
            ".openclaw/openclaw.json",
            ".config/ostler/policy.toml",
            ".local/state/ostler/x",
        ] {
            assert!(listed(path), "{path}");
        }
        let mut sorted: Vec<_> = secret_paths().collect();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), secret_paths().count(), "each place once");
        assert!(secret_paths().all(|path| Path::new(path).is_relative() && !path.ends_with('/')));
    }

    #[test]
    fn mode_decides_whether_a_file_is_private() {
        for (mode, is_directory, private) in [
            (0o644, false, false),
            (0o600, false, true),
            (0o640, false, true),
            (0o755, true, false),
            (0o700, true, true),
            (0o750, true, true),
            (0o711, true, true),
            (0o754, true, true),
            (0o100_604, false, false),
        ] {
            assert_eq!(is_private(mode, is_directory), private, "{mode:o}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn private_settings_are_found_through_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["etc/open", "etc/closed", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for (name, mode) in [
            ("etc/a", 0o644),
            ("etc/open/b", 0o640),
            ("etc/closed/c", 0o644),
            ("elsewhere/d", 0o600),
        ] {
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(at("etc/closed"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink(at("elsewhere/d"), at("etc/link")).unwrap();
        symlink(at("etc"), at("etc/open/around")).unwrap();
        let mut found = private_files(&at("etc"));
        found.sort();
        found.dedup();
        assert_eq!(
            found,
            [at("elsewhere/d"), at("etc/closed"), at("etc/open/b")]
        );
    }

    #[test]
    fn variables_relocate_secrets() {
        let vars = [
            ("XDG_CONFIG_HOME", "/x/conf"),
            ("CODEX_HOME", "/x/codex"),
            ("KUBECONFIG", "/x/k1:/x/k2"),
            ("CARGO_HOME", "/x/cargo"),
            ("NETRC", "relative"),
            ("GNUPGHOME", "/"),
        ];
        let var = |name: &str| {
            vars.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        let found = named_secrets(&var);
        for path in [
            "/x/conf/gh",
            "/x/conf/ostler",
            "/x/codex",
            "/x/k1",
            "/x/k2",
            "/x/cargo/credentials.toml",
        ] {
            assert!(found.contains(&PathBuf::from(path)), "{path}");
        }
        assert!(
            !found
                .iter()
                .any(|path| path.parent().is_none() || path.is_relative())
        );
    }

    // An agent needs its own login and no other.
    #[test]
    fn the_running_agents_own_state_is_exempt() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in [".claude/.credentials.json", ".codex/auth.json"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
        }
        let (home, own) = (at(""), [at(".claude")]);
        let path = HostPaths {
            workspace: &home,
            temp: &home,
            home: Some(&home),
            path: std::ffi::OsStr::new(""),
            tools: &[],
            secrets: &[],
            exempt: &own,
        };
        let found = secrets(&path);
        assert!(found.contains(&at(".codex")) && !found.contains(&at(".claude/.credentials.json")));
        assert!(
            secrets(&HostPaths {
                exempt: &[],
                ..path
            })
            .contains(&at(".claude/.credentials.json"))
        );
    }
}
