//! Copy of an agent's login for a private home directory. It cannot be renewed.
//!
//! Providers replace the token that renews a login each time it is used. An agent that renewed a
//! copy would therefore end the user's own login. Without that token, a copy expires by itself, and
//! so does one that the agent gives away.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ostler_core::dialect::{Dialect, LoginFile};
use serde_json::Value;

use super::Host;

/// Maximum size of a file with a login.
const MAX_BYTES: u64 = 1024 * 1024;

/// Names of members that renew a login.
const RENEWALS: &[&str] = &["refresh_token", "refreshToken", "refresh"];

/// The files of a copied login, removed on drop.
#[derive(Debug, Default)]
pub struct LoginCopy {
    files: Vec<PathBuf>,
}

impl LoginCopy {
    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl Drop for LoginCopy {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file); // the agent may have removed it
        }
    }
}

impl Host {
    /// Copies the login of an agent into a private home directory, without what renews it. This
    /// host is the user's own. An agent that stores its login elsewhere, such as in a keychain, has
    /// no copy.
    ///
    /// # Errors
    /// If a login exists and cannot be read or copied.
    pub fn copy_login(&self, home: &Path, dialect: &dyn Dialect) -> io::Result<LoginCopy> {
        let mut copy = LoginCopy::default();
        let files = dialect.about().probe;
        let files = files.map_or(&[][..], |probe| probe.login_files);
        for file in files {
            let Some(source) = self.login_file(file) else {
                continue;
            };
            let Some(text) = read_login(&source)? else {
                continue;
            };
            let target = home.join(file.below_home).join(file.name);
            write_private(&target, &text)?;
            copy.files.push(target);
        }
        Ok(copy)
    }

    /// Returns the user's own file.
    fn login_file(&self, file: &LoginFile) -> Option<PathBuf> {
        let named = file.variable.and_then(|name| self.var(name));
        let dir = match named.filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => Path::new(self.var("HOME")?).join(file.below_home),
        };
        Some(dir.join(file.name))
    }
}

/// Reads a login, without what renews it. Returns `None` if there is none, or if it is not JSON.
fn read_login(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).ok().map(|mut login: Value| {
        remove_renewals(&mut login);
        login.to_string()
    }))
}

/// Empties every member that renews a login. Agents expect it to exist.
fn remove_renewals(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if RENEWALS.contains(&name.as_str()) => text.clear(),
                    value => remove_renewals(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(remove_renewals),
        _ => {}
    }
}

/// Writes a file that only this user can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(name: &str) -> &'static dyn Dialect {
        let mut all = ostler_dialects::all().iter();
        *all.find(|dialect| dialect.about().name == name).unwrap()
    }

    fn host(vars: &[(&str, &Path)]) -> Host {
        Host::new(
            vars.iter()
                .map(|(name, path)| ((*name).into(), (*path).into())),
        )
    }

    #[test]
    fn a_login_is_copied_without_what_renews_it_and_removed() {
        use std::os::unix::fs::PermissionsExt;
        let (user, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(user.path().join(".codex")).unwrap();
        let login = r#"{"OPENAI_API_KEY":null,"tokens":{"id_token":"i","access_token":"a","refresh_token":"r"},"last_refresh":"2026-11-01T00:00:00Z"}"#;
        fs::write(user.path().join(".codex/auth.json"), login).unwrap();
        fs::write(user.path().join(".codex/config.toml"), "model = \"m\"").unwrap();
        let copy = host(&[("HOME", user.path())]).copy_login(home.path(), dialect("codex"));
        let copy = copy.unwrap();
        let file = home.path().join(".codex/auth.json");
        assert_eq!(copy.files(), std::slice::from_ref(&file));
        let read: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(
            read,
            serde_json::json!({"OPENAI_API_KEY": null, "last_refresh": "2026-11-01T00:00:00Z",
                "tokens": {"id_token": "i", "access_token": "a", "refresh_token": ""}})
        );
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            !home.path().join(".codex/config.toml").exists(),
            "settings stay"
        );
        drop(copy);
        assert!(!file.exists());
        assert_eq!(
            fs::read_to_string(user.path().join(".codex/auth.json")).unwrap(),
            login
        );
    }

    #[test]
    fn a_variable_names_the_users_directory() {
        let (user, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = tempfile::tempdir().unwrap();
        fs::write(
            other.path().join(".credentials.json"),
            "{\"a\":[{\"refreshToken\":\"r\"}]}",
        )
        .unwrap();
        let host = host(&[("HOME", user.path()), ("CLAUDE_CONFIG_DIR", other.path())]);
        let copy = host.copy_login(home.path(), dialect("claude")).unwrap();
        let text = fs::read_to_string(home.path().join(".claude/.credentials.json")).unwrap();
        assert_eq!(
            (copy.files().len(), text.as_str()),
            (1, r#"{"a":[{"refreshToken":""}]}"#)
        );
    }

    #[test]
    fn nothing_is_copied_without_a_login() {
        let (user, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(user.path().join(".codex")).unwrap();
        fs::write(user.path().join(".codex/auth.json"), "not JSON").unwrap();
        let host = host(&[("HOME", user.path())]);
        for agent in ["codex", "claude", "copilot"] {
            let copy = host.copy_login(home.path(), dialect(agent)).unwrap();
            assert!(copy.files().is_empty(), "{agent}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
