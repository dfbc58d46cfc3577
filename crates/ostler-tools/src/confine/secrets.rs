//! Secrets: files that hold keys, tokens and passwords, which neither commands nor sandboxed agents may read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Home;
use super::reading::named;

/// Places below a home: one per line, with a comment per group.
const IN_HOME: &str = include_str!("secrets.txt");

/// Places directly below a directory of tools, wherever that is.
const BESIDE_TOOLS: &str = "\
    credentials credentials.toml .npmrc .pypirc .netrc gradle.properties settings.xml auth.json";

/// Places of the system. Only root could read most of them; but commands may run as root.
const OF_SYSTEM: &str = "\
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssh \
    /etc/ssl/private /etc/pki/tls/private /etc/kubernetes /etc/rancher /etc/docker /etc/wireguard \
    /etc/openvpn /etc/letsencrypt /etc/NetworkManager/system-connections /etc/krb5.keytab /run/secrets \
    /run/credentials /var/run/secrets /var/lib/docker /var/lib/containerd /var/lib/containers \
    /var/lib/kubelet /var/lib/rancher /var/lib/NetworkManager /var/lib/sss /var/lib/samba/private \
    /var/backups /var/spool/cron /var/spool/mail /var/mail";

/// Directories of settings, in which every file that is not for everybody is a secret.
const SETTINGS: [&str; 2] = ["/etc", "/usr/local/etc"];

/// Variables that name the file or directory of a secret, or several separated by colons.
const VARIABLES: &str = include_str!("secret_variables.txt");

/// Variables that move directories in which some files are secrets, and the files' places there.
const MOVED: &[(&str, &[&str])] = &[
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

/// Directories below a home that a variable moves.
const XDG: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// How many entries of a directory of settings are looked at, and how deep. What comes after that is hidden.
const MOST_ENTRIES: usize = 50_000;
const DEEPEST: usize = 12;

/// The places of secrets below a home.
pub fn secret_places() -> impl Iterator<Item = &'static str> {
    IN_HOME
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The places of secrets that variables name. Relative paths are left out: nobody knows what they are relative to.
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
    for (name, files) in MOVED {
        all.extend(
            dir(name)
                .into_iter()
                .flat_map(|dir| files.iter().map(move |file| dir.join(file))),
        );
    }
    for (name, usual) in XDG {
        let Some(dir) = dir(name) else { continue };
        let below = secret_places().filter_map(|place| Path::new(place).strip_prefix(usual).ok());
        all.extend(below.map(|place| dir.join(place)));
    }
    // `/` or a whole home would hide everything.
    all.retain(|path| path.is_absolute() && path.parent().is_some());
    all
}

/// What is not read even where all the rest may be: what exists of it.
#[must_use]
pub fn secrets(home: &Home<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = OF_SYSTEM.split(' ').map(PathBuf::from).collect();
    // Root could read those of others.
    let others = std::fs::read_dir("/home")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let homes = home
        .home
        .map(Path::to_owned)
        .into_iter()
        .chain([PathBuf::from("/root")])
        .chain(others);
    all.extend(homes.flat_map(|home| secret_places().map(move |secret| home.join(secret))));
    all.extend(
        named(home).flat_map(|dir| BESIDE_TOOLS.split(' ').map(move |secret| dir.join(secret))),
    );
    // A home, or what holds one, is no secret as a whole, whatever a variable says.
    let holds_home = |path: &Path| home.home.is_some_and(|home| home.starts_with(path));
    all.extend(
        home.secrets
            .iter()
            .filter(|path| !holds_home(path))
            .cloned(),
    );
    all.retain(|path| path.exists());
    all.extend(
        SETTINGS
            .iter()
            .flat_map(|dir| private_files(Path::new(dir))),
    );
    let exempt: Vec<PathBuf> = home
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

/// Returns true if a file or directory of this mode is not meant for everybody.
fn is_private(mode: u32, is_directory: bool) -> bool {
    let needed = if is_directory { 0o005 } else { 0o004 };
    mode & needed != needed
}

/// The files and directories below a directory of settings that are not for everybody, where links lead.
#[cfg(unix)]
fn private_files(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut left: Vec<(PathBuf, usize)> = vec![(dir.to_owned(), 0)];
    let mut entries = 0;
    while let Some((dir, depth)) = left.pop() {
        if entries > MOST_ENTRIES || depth > DEEPEST {
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
                left.push((path, depth + 1));
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
    fn the_list_has_what_agents_keep() {
        let listed =
            |place: &str| secret_places().any(|secret| Path::new(place).starts_with(secret));
        for place in [
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
            assert!(listed(place), "{place}");
        }
        let mut sorted: Vec<_> = secret_places().collect();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), secret_places().count(), "each place once");
        assert!(
            secret_places().all(|place| Path::new(place).is_relative() && !place.ends_with('/'))
        );
    }

    #[test]
    fn a_mode_says_who_may_read() {
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
    fn private_settings_are_found_where_links_lead() {
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
    fn variables_move_secrets() {
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
        for place in [
            "/x/conf/gh",
            "/x/conf/ostler",
            "/x/codex",
            "/x/k1",
            "/x/k2",
            "/x/cargo/credentials.toml",
        ] {
            assert!(found.contains(&PathBuf::from(place)), "{place}");
        }
        assert!(
            !found
                .iter()
                .any(|path| path.parent().is_none() || path.is_relative())
        );
    }

    // An agent needs its own login, and nobody else's.
    #[test]
    fn the_running_agents_own_state_is_exempt() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in [".claude/.credentials.json", ".codex/auth.json"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
        }
        let (home, own) = (at(""), [at(".claude")]);
        let place = Home {
            workspace: &home,
            temp: &home,
            home: Some(&home),
            path: std::ffi::OsStr::new(""),
            tools: &[],
            secrets: &[],
            exempt: &own,
        };
        let found = secrets(&place);
        assert!(found.contains(&at(".codex")) && !found.contains(&at(".claude/.credentials.json")));
        assert!(
            secrets(&Home {
                exempt: &[],
                ..place
            })
            .contains(&at(".claude/.credentials.json"))
        );
    }
}
