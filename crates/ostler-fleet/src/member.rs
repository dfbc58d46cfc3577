//! Member files: how this machine takes part in a fleet. `ostler fleet init` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::key::{KeyError, MemberKey, check_public};
use crate::nats::ConnectSettings;
use crate::subject::Token;

/// A member of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name, which the server's permissions depend on.
    pub name: Token,
    /// Addresses of the servers, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Seed of its key.
    pub key: String,
    /// Whether the server knows the key. Without it, the key only signs work.
    #[serde(default = "yes")]
    pub log_in: bool,
    /// Credentials file for a server that works with JWTs. It replaces the login with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// File with the certificate of the authority that signed the server's. TLS is required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<PathBuf>,
    /// Prefix of JetStream's API in the member's account, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Public keys of the owners that a worker works for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub trust: BTreeSet<String>,
    /// Number of copies on the servers of a cluster.
    #[serde(default = "one")]
    pub replicas: usize,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

/// A member file that cannot be used. The text of a key is never part of it.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Others can read it.
    #[error("{}: others can read the key in this file", .0.display())]
    Public(PathBuf),
    /// It is not a member file.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It has no address.
    #[error("{}: no `url` of a server", .0.display())]
    NoServer(PathBuf),
    /// A key in it cannot be used.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeyError,
    },
}

impl Member {
    /// Reads a member file. Only its owner may be able to read it.
    ///
    /// # Errors
    /// If it cannot be read or is not valid.
    pub fn read(path: &Path) -> Result<Self, MemberError> {
        let failed = |source| MemberError::Io {
            path: path.to_owned(),
            source,
        };
        let text = fs::read_to_string(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(MemberError::Public(path.to_owned()));
            }
        }
        // The message of the parser without the text, which contains the key.
        let syntax = |error: toml::de::Error| MemberError::Syntax {
            path: path.to_owned(),
            why: error.message().to_owned(),
        };
        let mut member: Self = toml::from_str(&text).map_err(syntax)?;
        let dir = path.parent().unwrap_or(Path::new("."));
        let files = [&mut member.authority, &mut member.credentials];
        for file in files.into_iter().flatten() {
            *file = dir.join(&*file);
        }
        let invalid = |source| MemberError::Key {
            path: path.to_owned(),
            source,
        };
        MemberKey::from_seed(&member.key).map_err(invalid)?;
        for key in &member.trust {
            check_public(key).map_err(invalid)?;
        }
        Ok(member)
    }

    /// Writes a member file that only this user can read. It must not exist.
    ///
    /// # Errors
    /// If it exists, or cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        use std::io::Write;
        let text = toml::to_string(self).map_err(io::Error::other)?;
        let mut options = fs::File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)?.write_all(text.as_bytes())
    }

    /// Returns its key.
    ///
    /// # Errors
    /// If the seed is not valid.
    pub fn member_key(&self) -> Result<MemberKey, KeyError> {
        MemberKey::from_seed(&self.key)
    }

    /// Returns how it connects. An address overrides that of the file.
    ///
    /// # Errors
    /// If there is no address, or the key is not valid.
    pub fn connect_settings(
        &self,
        url: Option<&str>,
        path: &Path,
    ) -> Result<ConnectSettings, MemberError> {
        let url = url.or(self.url.as_deref());
        let url = url.ok_or_else(|| MemberError::NoServer(path.to_owned()))?;
        let key = self.member_key().map_err(|source| MemberError::Key {
            path: path.to_owned(),
            source,
        })?;
        Ok(ConnectSettings {
            url: url.to_owned(),
            member: self.name.clone(),
            key: (self.log_in && self.credentials.is_none()).then_some(key),
            credentials: self.credentials.clone(),
            authority: self.authority.clone(),
            require_tls: self.authority.is_some() || is_tls(url),
            api: self.api.clone(),
        })
    }
}

/// Returns true if an address asks for TLS.
fn is_tls(url: &str) -> bool {
    url.split(',')
        .any(|server| server.trim().starts_with("tls://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let (own, owner) = (MemberKey::generate(), MemberKey::generate());
        Member {
            name: "w1".parse().unwrap(),
            url: Some("nats://localhost:4222".to_owned()),
            key: own.seed().unwrap(),
            log_in: true,
            credentials: None,
            authority: Some("ca.pem".into()),
            api: None,
            trust: BTreeSet::from([owner.public()]),
            replicas: 3,
        }
    }

    #[test]
    fn a_written_file_is_private_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w1.toml");
        let member = member();
        member.write(&path).unwrap();
        let read = Member::read(&path).unwrap();
        assert_eq!(read.authority, Some(dir.path().join("ca.pem")));
        assert_eq!(
            (read.key, read.trust),
            (member.key.clone(), member.trust.clone())
        );
        assert!(member.write(&path).is_err(), "it exists");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&path, open).unwrap();
        assert!(matches!(Member::read(&path), Err(MemberError::Public(_))));
    }

    #[test]
    fn tls_is_required_by_an_authority_or_the_address() {
        let plain = Member {
            authority: None,
            ..member()
        };
        let path = Path::new("w1.toml");
        for (member, url, expected) in [
            (&member(), None, true),
            (&plain, None, false),
            (&plain, Some("tls://a:4222"), true),
            (&plain, Some("nats://a:4222, tls://b:4222"), true),
        ] {
            let settings = member.connect_settings(url, path).unwrap();
            assert_eq!(settings.require_tls, expected, "{url:?}");
        }
        let other = Member {
            credentials: Some("w1.creds".into()),
            ..member()
        };
        let settings = other.connect_settings(None, path).unwrap();
        assert!(settings.key.is_none() && settings.credentials.is_some());
    }

    #[test]
    fn a_bad_file_does_not_show_its_key() {
        let dir = tempfile::tempdir().unwrap();
        for (number, bad) in ["key = \"SUSECRET\"", "name = \"a.b\"\nkey = \"SUSECRET\""]
            .into_iter()
            .enumerate()
        {
            let path = dir.path().join(number.to_string());
            fs::write(&path, bad).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(&path, private).unwrap();
            let error = Member::read(&path).unwrap_err().to_string();
            assert!(!error.contains("SECRET"), "{error}");
        }
    }
}
