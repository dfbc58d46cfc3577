//! Objects: archives of workspaces and artifacts, checked against their hash and size.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::object_store::{Config, ObjectStore};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use ostler_core::event::Timestamp;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Connection, During, FleetError};
use crate::subject::{Token, WORKSPACES_BUCKET, artifacts_bucket};

/// Maximum size of an archive, in bytes.
pub const MAX_ARCHIVE_BYTES: u64 = 512 * 1024 * 1024;
/// How long an object stays on the server.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the server may be silent while an object is read.
const SILENCE: Duration = Duration::from_secs(20);
/// Time between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// How often an object is tried.
const TRIES: u32 = 120;
/// What a try counts during which the server fell silent: it has taken long.
const STALLED_COUNTS: u32 = 40;

/// An object that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The server does not have it, or does not answer.
    #[error("the object {name} cannot be read: {why}")]
    Unavailable {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The server sends no more of it: parts are missing, or the connection was lost.
    #[error("the object {name} cannot be read: the server sends no more of it")]
    Stalled {
        /// Its name.
        name: String,
    },
    /// Its bytes are not those that were announced.
    #[error("the object {name} is damaged: its size or SHA-256 is not the announced one")]
    Damaged {
        /// Its name.
        name: String,
    },
    /// It is too large.
    #[error("the object {name} has {bytes} bytes; at most {MAX_ARCHIVE_BYTES} are accepted")]
    TooLarge {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// It cannot be written to a file.
    #[error("{0}")]
    File(String),
}

/// An object as it was announced in a signed item or a result.
#[derive(Debug, Clone, Copy)]
pub struct Announced<'a> {
    /// Name in its bucket.
    pub name: &'a str,
    /// SHA-256 of its bytes.
    pub sha256: &'a str,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Connection {
    pub(super) async fn create_workspaces(&self, replicas: usize) -> Result<(), FleetError> {
        self.bucket(WORKSPACES_BUCKET, replicas).await.map(drop)
    }

    /// Creates the bucket of a worker's artifacts, unless it exists.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create_artifacts(
        &self,
        worker: &Token,
        replicas: usize,
    ) -> Result<(), FleetError> {
        self.bucket(&artifacts_bucket(worker), replicas)
            .await
            .map(drop)
    }

    async fn bucket(&self, name: &str, replicas: usize) -> Result<ObjectStore, FleetError> {
        let found = self.jetstream.get_stream(format!("OBJ_{name}")).await;
        let is_missing = found
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), GetStreamErrorKind::JetStream(_)));
        if is_missing {
            let config = Config {
                bucket: name.to_owned(),
                max_age: RETENTION,
                num_replicas: replicas,
                ..Config::default()
            };
            let created = self.jetstream.create_object_store(config).await;
            return created.during("creating a bucket");
        }
        let store = self.jetstream.get_object_store(name).await;
        store.during("finding a bucket")
    }

    /// Stores a file as an object, unless one with this name and content was stored after a time.
    /// An object expires a week after it was stored.
    ///
    /// # Errors
    /// If the file cannot be read, or the server does not store it.
    pub async fn put_object(
        &self,
        bucket: &str,
        announced: Announced<'_>,
        file: &Path,
        newer_than: Timestamp,
    ) -> Result<(), FleetError> {
        let store = self.jetstream.get_object_store(bucket).await;
        let store = store.during("finding a bucket")?;
        let mut file = tokio::fs::File::open(file)
            .await
            .during("storing an object")?;
        let existing = store.info(announced.name).await.ok();
        let is_stored = existing.is_some_and(|info| {
            let stored = info.modified.map(|at| at.unix_timestamp() * 1000);
            !info.deleted
                && info.digest == Some(object_digest(announced.sha256))
                && stored.is_some_and(|at| at > newer_than.0)
        });
        if is_stored {
            return Ok(());
        }
        store
            .put(announced.name, &mut file)
            .await
            .during("storing an object")?;
        Ok(())
    }

    /// Writes an object to a file, and checks it. An object that cannot be read is tried again for
    /// a minute or two: the server may be away, or a replica may lag behind.
    ///
    /// # Errors
    /// If it is missing, too large or damaged.
    pub async fn await_object(
        &self,
        bucket: &str,
        announced: Announced<'_>,
        target: &Path,
    ) -> Result<(), ObjectError> {
        let mut tries = 0;
        loop {
            let error = match self.get_object(bucket, announced, target).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            tries += match error {
                ObjectError::Unavailable { .. } => 1,
                ObjectError::Stalled { .. } => STALLED_COUNTS,
                _ => return Err(error),
            };
            if tries >= TRIES {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Writes an object to a file, and checks it.
    ///
    /// # Errors
    /// If it is missing, too large or damaged, or the server falls silent.
    pub async fn get_object(
        &self,
        bucket: &str,
        announced: Announced<'_>,
        target: &Path,
    ) -> Result<(), ObjectError> {
        let name = || announced.name.to_owned();
        if announced.bytes > MAX_ARCHIVE_BYTES {
            return Err(ObjectError::TooLarge {
                name: name(),
                bytes: announced.bytes,
            });
        }
        let unavailable = |why: &dyn std::fmt::Display| ObjectError::Unavailable {
            name: name(),
            why: why.to_string(),
        };
        let store = in_time(announced, self.jetstream.get_object_store(bucket)).await?;
        let store = store.map_err(|error| unavailable(&error))?;
        let object = in_time(announced, store.get(announced.name)).await?;
        let mut object = object.map_err(|error| unavailable(&error))?;
        let file =
            |error: std::io::Error| ObjectError::File(format!("{}: {error}", target.display()));
        let mut output = tokio::fs::File::create(target).await.map_err(file)?;
        let mut hash = Sha256::new();
        let mut length = 0_u64;
        let mut buffer = vec![0; 128 * 1024];
        loop {
            // The client library waits for missing parts without end.
            let read = match in_time(announced, object.read(&mut buffer)).await? {
                Ok(read) => read,
                // The client library checks the object's own digest.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(ObjectError::Damaged { name: name() });
                }
                Err(error) => return Err(unavailable(&error)),
            };
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            length += u64::try_from(read).unwrap_or(u64::MAX);
            if length > announced.bytes {
                return Err(ObjectError::Damaged { name: name() });
            }
            hash.update(bytes);
            output.write_all(bytes).await.map_err(file)?;
        }
        output.flush().await.map_err(file)?;
        let found: String = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match length == announced.bytes && found == announced.sha256 {
            true => Ok(()),
            false => Err(ObjectError::Damaged { name: name() }),
        }
    }
}

/// Waits for the server, but not without end.
async fn in_time<T>(
    object: Announced<'_>,
    answer: impl Future<Output = T>,
) -> Result<T, ObjectError> {
    let answer = tokio::time::timeout(SILENCE, answer).await;
    answer.map_err(|_| ObjectError::Stalled {
        name: object.name.to_owned(),
    })
}

/// Returns a hexadecimal SHA-256 as the object store writes it.
fn object_digest(sha256: &str) -> String {
    let digits = sha256.as_bytes().chunks(2);
    let bytes: Vec<u8> = digits
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    format!("SHA-256={}", URL_SAFE.encode(bytes))
}
