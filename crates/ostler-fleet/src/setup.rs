//! Set-up of a fleet: the server's configuration and certificates, and the files of its members.
//!
//! A directory on the server's machine describes the fleet. Each member's files are in a directory
//! of their own, which is copied to the member's machine.

mod certificates;
mod server_config;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ostler_core::event::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::certificates::CertificateError;
use crate::key::{KeyError, MemberKey};
use crate::member::{Member, MemberError};
use crate::nats::{Connection, FleetError};
use crate::permission::API_PREFIX;
use crate::subject::{InvalidToken, Token};

/// Name of the administrator, who creates streams and buckets.
pub const ADMIN: &str = "admin";
/// Name of a member file and of the authority's certificate, in the directory of a member.
pub const MEMBER_FILE: &str = "fleet.toml";
/// The authority's certificate in the directory of a member.
pub const AUTHORITY: &str = "fleet-ca.pem";

const DESCRIPTION: &str = "fleet.json";
const SERVER_CONFIG: &str = "server.conf";
const SERVER_CERTIFICATE: &str = "server.pem";
const SERVER_KEY: &str = "server-key.pem";
const PID_FILE: &str = "server.pid";
const LOG_FILE: &str = "server.log";
const STORE: &str = "store";
const MEMBERS: &str = "members";

/// A fleet that is to be set up.
#[derive(Debug, Clone)]
pub struct NewFleet {
    /// Names and addresses of the server. Members use the first one.
    pub hosts: Vec<String>,
    /// Port of the server.
    pub port: u16,
    /// Address to listen on.
    pub listen: String,
    /// The owners.
    pub owners: Vec<Token>,
    /// The workers.
    pub workers: Vec<Token>,
    /// Number of copies on the servers of a cluster.
    pub replicas: usize,
}

/// Description of a fleet, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFile {
    /// Address of the server.
    pub url: String,
    /// Address and port that the server listens on.
    pub listen: String,
    /// Number of copies on the servers of a cluster.
    pub replicas: usize,
    /// Public key of the administrator.
    pub admin: String,
    /// Public keys of the owners.
    pub owners: BTreeMap<Token, String>,
    /// Public keys of the workers.
    pub workers: BTreeMap<Token, String>,
}

/// A fleet that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The directory describes a fleet already.
    #[error("{} describes a fleet already", .0.display())]
    Exists(PathBuf),
    /// The directory does not describe a fleet.
    #[error("{} does not describe a fleet", .0.display())]
    NoFleet(PathBuf),
    /// The description cannot be read.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The name is taken.
    #[error("the name {0} is taken; every member needs its own")]
    NameTaken(Token),
    /// There is no such worker.
    #[error("the fleet has no worker {0}")]
    NoWorker(Token),
    /// An address that is not one.
    #[error("{0:?} is not a host name or an address")]
    Host(String),
    /// A name that is not one.
    #[error(transparent)]
    Name(#[from] InvalidToken),
    /// There is no owner.
    #[error("a fleet needs an owner")]
    NoOwner,
    /// No certificates.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A member file cannot be used.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The server cannot be used.
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

impl SetupError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}

/// The directory that describes a fleet.
#[derive(Debug, Clone)]
pub struct FleetDir {
    dir: PathBuf,
    /// The fleet.
    pub fleet: FleetFile,
}

impl FleetDir {
    /// Sets up a fleet in a directory, which is created.
    ///
    /// # Errors
    /// If it describes a fleet already, a name or an address is not valid, or a file cannot be
    /// written.
    pub fn create(dir: &Path, new: &NewFleet, now: Timestamp) -> Result<Self, SetupError> {
        check_hosts(&new.hosts)?;
        let Some(host) = new.hosts.first() else {
            return Err(SetupError::Host(String::new()));
        };
        if new.owners.is_empty() {
            return Err(SetupError::NoOwner);
        }
        create_private_dir(dir)?;
        let dir = fs::canonicalize(dir).map_err(SetupError::io(dir))?;
        if dir.join(DESCRIPTION).exists() {
            return Err(SetupError::Exists(dir));
        }
        let admin = MemberKey::generate();
        let mut fleet = Self {
            fleet: FleetFile {
                url: url(host, new.port),
                listen: format!("{}:{}", new.listen, new.port),
                replicas: new.replicas,
                admin: admin.public(),
                owners: BTreeMap::new(),
                workers: BTreeMap::new(),
            },
            dir,
        };
        let certificates = certificates::generate(&new.hosts, now)?;
        fleet.write(AUTHORITY, certificates.authority.as_bytes(), 0o644)?;
        fleet.write(SERVER_CERTIFICATE, certificates.server.as_bytes(), 0o644)?;
        fleet.write(SERVER_KEY, certificates.server_key.as_bytes(), 0o600)?;
        let name = ADMIN.parse()?;
        let member = fleet.member(name, &admin, None)?;
        let path = fleet.admin_file();
        member.write(&path).map_err(SetupError::io(&path))?;
        for owner in &new.owners {
            let key = fleet.new_key(owner)?;
            fleet.fleet.owners.insert(owner.clone(), key.public());
            fleet.write_member(owner, &key)?;
        }
        for worker in &new.workers {
            let key = fleet.new_key(worker)?;
            fleet.fleet.workers.insert(worker.clone(), key.public());
            fleet.write_member(worker, &key)?;
        }
        fleet.save()?;
        Ok(fleet)
    }

    /// Opens the directory of a fleet.
    ///
    /// # Errors
    /// If it does not describe one.
    pub fn open(dir: &Path) -> Result<Self, SetupError> {
        let path = dir.join(DESCRIPTION);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SetupError::NoFleet(dir.to_owned()));
            }
            Err(error) => return Err(SetupError::io(&path)(error)),
        };
        let fleet = serde_json::from_str(&text).map_err(|error| SetupError::Syntax {
            path: path.clone(),
            why: error.to_string(),
        })?;
        let dir = fs::canonicalize(dir).map_err(SetupError::io(dir))?;
        Ok(Self { dir, fleet })
    }

    /// Adds a worker. Returns the directory with its files.
    ///
    /// # Errors
    /// If the name is taken, or a file cannot be written.
    pub fn add_worker(&mut self, worker: &Token) -> Result<PathBuf, SetupError> {
        let key = self.new_key(worker)?;
        self.fleet.workers.insert(worker.clone(), key.public());
        self.write_member(worker, &key)?;
        self.save()?;
        Ok(self.member_dir(worker))
    }

    /// Removes a worker and its files. Its key is refused once the server has reloaded its
    /// configuration.
    ///
    /// # Errors
    /// If there is no such worker, or a file cannot be written.
    pub fn remove_worker(&mut self, worker: &Token) -> Result<(), SetupError> {
        if self.fleet.workers.remove(worker).is_none() {
            return Err(SetupError::NoWorker(worker.clone()));
        }
        self.save()?;
        let dir = self.member_dir(worker);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SetupError::io(&dir)(error))
            }
            _ => Ok(()),
        }
    }

    /// Creates the streams and buckets that the running server does not have yet.
    ///
    /// # Errors
    /// If the server cannot be used.
    pub async fn prepare(&self) -> Result<(), SetupError> {
        let path = self.admin_file();
        let member = Member::read(&path)?;
        let settings = member.connect_settings(None, &path)?;
        let connection = Connection::open(&settings).await?;
        connection.create_streams(self.fleet.replicas).await?;
        for worker in self.fleet.workers.keys() {
            let replicas = self.fleet.replicas;
            connection.create_artifacts(worker, replicas).await?;
        }
        Ok(())
    }

    /// Returns the directory with the files of a member.
    #[must_use]
    pub fn member_dir(&self, member: &Token) -> PathBuf {
        self.dir.join(MEMBERS).join(member.as_str())
    }

    /// Returns the member file of a member.
    #[must_use]
    pub fn member_file(&self, member: &Token) -> PathBuf {
        self.member_dir(member).join(MEMBER_FILE)
    }

    /// Returns the administrator's member file, which stays on this machine.
    #[must_use]
    pub fn admin_file(&self) -> PathBuf {
        self.dir.join("admin.toml")
    }

    /// Returns the server's configuration.
    #[must_use]
    pub fn server_config(&self) -> PathBuf {
        self.dir.join(SERVER_CONFIG)
    }

    /// Returns the file with the id of the server's process.
    #[must_use]
    pub fn pid_file(&self) -> PathBuf {
        self.dir.join(PID_FILE)
    }

    /// Returns the server's log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.dir.join(LOG_FILE)
    }

    /// Generates a key for a member with a new name.
    fn new_key(&self, name: &Token) -> Result<MemberKey, SetupError> {
        let fleet = &self.fleet;
        let is_taken = name.as_str() == ADMIN
            || fleet.owners.contains_key(name)
            || fleet.workers.contains_key(name);
        match is_taken {
            true => Err(SetupError::NameTaken(name.clone())),
            false => Ok(MemberKey::generate()),
        }
    }

    fn member(
        &self,
        name: Token,
        key: &MemberKey,
        api: Option<&str>,
    ) -> Result<Member, SetupError> {
        let trust = match self.fleet.workers.contains_key(&name) {
            true => self.fleet.owners.values().cloned().collect(),
            false => BTreeSet::new(),
        };
        Ok(Member {
            name,
            url: Some(self.fleet.url.clone()),
            key: key.seed()?,
            log_in: true,
            credentials: None,
            authority: Some(AUTHORITY.into()),
            api: api.map(str::to_owned),
            trust,
            replicas: self.fleet.replicas,
        })
    }

    fn write_member(&self, name: &Token, key: &MemberKey) -> Result<(), SetupError> {
        let dir = self.member_dir(name);
        create_private_dir(&dir)?;
        let member = self.member(name.clone(), key, Some(API_PREFIX))?;
        let path = dir.join(MEMBER_FILE);
        // Of a worker that was removed while its file could not be.
        let _ = fs::remove_file(&path);
        member.write(&path).map_err(SetupError::io(&path))?;
        let authority = dir.join(AUTHORITY);
        fs::copy(self.dir.join(AUTHORITY), &authority).map_err(SetupError::io(&authority))?;
        Ok(())
    }

    /// Writes the description and the server's configuration.
    fn save(&self) -> Result<(), SetupError> {
        let config = server_config::text(&self.dir, &self.fleet);
        self.write(SERVER_CONFIG, config.as_bytes(), 0o644)?;
        let text = serde_json::to_vec_pretty(&self.fleet);
        let text = text.map_err(|error| SetupError::io(Path::new(DESCRIPTION))(error.into()))?;
        self.write(DESCRIPTION, &text, 0o644)
    }

    /// Writes a file as a whole, or not at all.
    fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), SetupError> {
        let path = self.dir.join(name);
        let write = || -> io::Result<()> {
            let mut draft = tempfile::NamedTempFile::new_in(&self.dir)?;
            draft.write_all(bytes)?;
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(draft.path(), permissions)?;
            draft.persist(&path)?;
            Ok(())
        };
        write().map_err(SetupError::io(&path))
    }
}

/// Creates a directory that only this user can use.
fn create_private_dir(dir: &Path) -> Result<(), SetupError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(SetupError::io(dir))
}

fn check_hosts(hosts: &[String]) -> Result<(), SetupError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    let bad = |host: &&String| host.is_empty() || !host.bytes().all(is_plain);
    match hosts.iter().find(bad) {
        Some(bad) => Err(SetupError::Host(bad.clone())),
        None => Ok(()),
    }
}

fn url(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("tls://[{host}]:{port}"),
        false => format!("tls://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(names: &[&str]) -> Vec<Token> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn new_fleet() -> NewFleet {
        NewFleet {
            hosts: vec!["build-1".to_owned(), "10.0.0.1".to_owned()],
            port: 4222,
            listen: "0.0.0.0".to_owned(),
            owners: names(&["owner"]),
            workers: names(&["w1"]),
            replicas: 1,
        }
    }

    #[test]
    fn a_set_up_fleet_has_private_keys_and_opens_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("fleet");
        let mut fleet = FleetDir::create(&dir, &new_fleet(), Timestamp(1)).unwrap();
        let again = FleetDir::create(&dir, &new_fleet(), Timestamp(1));
        assert!(matches!(again, Err(SetupError::Exists(_))));
        let secrets = ["server-key.pem", "admin.toml", "members/w1/fleet.toml"];
        for name in secrets {
            let mode = fs::metadata(dir.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
        let config = fs::read_to_string(fleet.server_config()).unwrap();
        let owner = Member::read(&fleet.member_file(&names(&["owner"])[0])).unwrap();
        let worker = Member::read(&fleet.member_file(&names(&["w1"])[0])).unwrap();
        for member in [&owner, &worker] {
            assert!(!config.contains(&member.key), "a seed in the server's file");
            assert!(config.contains(&member.member_key().unwrap().public()));
            assert_eq!(member.url.as_deref(), Some("tls://build-1:4222"));
            assert!(member.authority.as_ref().unwrap().is_file());
        }
        assert_eq!(
            worker.trust,
            BTreeSet::from([owner.member_key().unwrap().public()])
        );

        let second = names(&["w2"])[0].clone();
        assert!(fleet.add_worker(&second).unwrap().is_dir());
        let taken = fleet.add_worker(&second);
        assert!(matches!(taken, Err(SetupError::NameTaken(_))));
        let mut opened = FleetDir::open(&dir).unwrap();
        assert_eq!(opened.fleet, fleet.fleet);
        opened.remove_worker(&second).unwrap();
        assert!(!opened.member_dir(&second).exists());
        let unchanged = fs::read_to_string(opened.server_config()).unwrap();
        assert_eq!(unchanged, config);
        let gone = opened.remove_worker(&second);
        assert!(matches!(gone, Err(SetupError::NoWorker(_))));
    }

    #[test]
    fn names_and_hosts_are_checked() {
        let parent = tempfile::tempdir().unwrap();
        let create = |change: &dyn Fn(&mut NewFleet)| {
            let mut new = new_fleet();
            change(&mut new);
            let dir = tempfile::tempdir_in(parent.path()).unwrap();
            FleetDir::create(dir.path(), &new, Timestamp(1)).map(|it| it.fleet.url)
        };
        let taken = [names(&["owner"]), names(&["admin"]), names(&["w1", "w1"])];
        for workers in taken {
            let refused = create(&|new| new.workers.clone_from(&workers));
            assert!(matches!(refused, Err(SetupError::NameTaken(_))));
        }
        for host in ["", "a b", "a\"b", "a/b"] {
            let refused = create(&|new| new.hosts = vec![host.to_owned()]);
            assert!(matches!(refused, Err(SetupError::Host(_))), "{host:?}");
        }
        let url = create(&|new| new.hosts = vec!["::1".to_owned()]).unwrap();
        assert_eq!(url, "tls://[::1]:4222");
    }
}
