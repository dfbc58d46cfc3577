//! Attachments: what a case needs of this machine's files, as archives in the object store.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use ostler_core::event::Timestamp;
use ostler_eval::case::{Case, Expected, Source};
use ostler_eval::run_trial::{TrialRequest, TrialServices};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::archive::{self, Packed};
use crate::item::{Attachment, TrialWork};
use crate::nats::{Announced, Connection, FleetError};
use crate::subject::WORKSPACES_BUCKET;

/// A case that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttachError {
    /// A file cannot be read or is too large.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The repository cannot be read.
    #[error(transparent)]
    Git(#[from] ostler_eval::git::GitError),
    /// The server does not store an archive.
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

/// Age at which an archive that is needed again is stored again, in milliseconds. The server keeps
/// it for a week, and an item that names it is valid for a day.
const RENEWAL_MS: i64 = 24 * 3600 * 1000;

/// Values that are made once per key. Only those who need the same one wait for it.
struct PerKey<K, V>(std::sync::Mutex<HashMap<K, Cell<V>>>);

/// A value that is being made, or was.
type Cell<V> = Arc<Mutex<Option<V>>>;

impl<K: Eq + Hash, V> PerKey<K, V> {
    fn new() -> Self {
        Self(std::sync::Mutex::default())
    }

    fn cell(&self, key: K) -> Cell<V> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(key).or_default().clone()
    }
}

/// An attachment, and when it was sent.
#[derive(Clone)]
struct Sent {
    at: Timestamp,
    attachment: Attachment,
}

/// Sends each file and directory once per run, and again before the server forgets it.
pub(super) struct Attacher {
    connection: Connection,
    now: fn() -> Timestamp,
    sent: PerKey<PathBuf, Sent>,
    /// Checkouts of expected revisions, by URL and revision.
    expected: PerKey<(String, String), tempfile::TempDir>,
}

impl Attacher {
    pub(super) fn new(connection: Connection, now: fn() -> Timestamp) -> Self {
        Self {
            connection,
            now,
            sent: PerKey::new(),
            expected: PerKey::new(),
        }
    }

    /// Returns a trial as it is sent: its base is a fixed commit, and what lies on this machine is
    /// attached.
    pub(super) async fn prepare(
        &self,
        request: &TrialRequest,
        services: &TrialServices,
    ) -> Result<TrialWork, AttachError> {
        let mut case = Case::clone(&request.case);
        let mut paths = BTreeSet::new();
        self.fix_expected(&mut case, services).await?;
        if let Source::Repository {
            url,
            branch: _,
            commit,
        } = &mut case.source
        {
            let seed = services.git.seed(&request.case.source).await?;
            *commit = Some(seed.commit().to_owned());
            let local = Path::new(url.strip_prefix("file://").unwrap_or(url));
            if local.is_dir() {
                *url = seed.path().to_string_lossy().into_owned();
                paths.insert(seed.path().to_owned());
            }
        }
        collect(&case, &request.contender.settings, &mut paths);
        case.exports.clear(); // the owner writes them
        case.workspace.dir = None;
        let mut attachments = Vec::new();
        for path in outermost(&paths) {
            attachments.push(self.attach(path).await?);
        }
        Ok(TrialWork {
            run: request.run.clone(),
            case,
            contender: request.contender.clone(),
            repetition: request.repetition,
            cap_usd: request.cap_usd,
            isolation: services.options.isolation,
            share_login: services.options.share_login,
            attachments,
        })
    }

    /// Replaces an expected revision by its files.
    async fn fix_expected(
        &self,
        case: &mut Case,
        services: &TrialServices,
    ) -> Result<(), AttachError> {
        let (Some(Expected::Revision(revision)), Source::Repository { url, .. }) =
            (&case.expected, &case.source)
        else {
            return Ok(());
        };
        let cell = self.expected.cell((url.clone(), revision.clone()));
        let mut known = cell.lock().await;
        let dir = match &mut *known {
            Some(dir) => dir,
            known @ None => {
                let failed = |source| AttachError::File {
                    path: services.work.clone(),
                    source,
                };
                let dir = tempfile::tempdir().map_err(failed)?;
                let source = Source::Repository {
                    url: url.clone(),
                    branch: None,
                    commit: Some(revision.clone()),
                };
                let seed = services.git.seed(&source).await?;
                services
                    .git
                    .check_out(&seed, &dir.path().join("files"))
                    .await?;
                known.insert(dir)
            }
        };
        case.expected = Some(Expected::Directory(dir.path().join("files")));
        Ok(())
    }

    /// Sends a file or directory whose content never changes.
    pub(super) async fn attach(&self, path: &Path) -> Result<Attachment, AttachError> {
        let cell = self.sent.cell(path.to_owned());
        let mut sent = cell.lock().await;
        let now = (self.now)();
        let newer_than = Timestamp(now.0.saturating_sub(RENEWAL_MS));
        if let Some(known) = sent.as_ref().filter(|sent| sent.at > newer_than) {
            return Ok(known.attachment.clone());
        }
        let packed = archive::pack_workspace(path).await;
        let Packed {
            file,
            sha256,
            bytes,
        } = packed.map_err(|source| AttachError::File {
            path: path.to_owned(),
            source,
        })?;
        let announced = Announced {
            name: &sha256,
            sha256: &sha256,
            bytes,
        };
        self.connection
            .put_object(WORKSPACES_BUCKET, announced, file.path(), newer_than)
            .await?;
        let attachment = Attachment {
            path: path.to_owned(),
            sha256,
            bytes,
        };
        *sent = Some(Sent {
            at: now,
            attachment: attachment.clone(),
        });
        Ok(attachment)
    }
}

/// Collects the paths of a case that exist on this machine.
fn collect(
    case: &Case,
    settings: &std::collections::BTreeMap<String, Value>,
    paths: &mut BTreeSet<PathBuf>,
) {
    let dir = case.file.parent().unwrap_or(Path::new("."));
    let mut add = |path: &Path| {
        if path.is_absolute() && path.exists() {
            paths.insert(path.to_owned());
        }
    };
    if case.file.is_file() {
        add(&case.file);
    }
    if let Source::Directory(path) = &case.source {
        add(path);
    }
    match &case.expected {
        Some(Expected::Directory(path) | Expected::Patch(path)) => add(path),
        Some(Expected::Revision(_)) | None => {}
    }
    if let Some(root) = &case.mounts {
        add(&root.task_dir);
        root.copies.iter().for_each(|(source, _)| add(source));
    }
    for text in settings.values().filter_map(Value::as_str) {
        add(Path::new(text));
    }
    // Evaluators name files beside the case. A text that only looks like one is attached in vain.
    for evaluator in &case.evaluators {
        evaluator.config.values().for_each(|value| {
            texts(value, &mut |text| {
                let path = dir.join(text);
                if !text.is_empty() && !dir.starts_with(&path) && Path::new(text).is_relative() {
                    add(&path);
                }
            });
        });
    }
}

/// Calls a function for every text in a value.
fn texts(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, each)),
        Value::Object(values) => values.values().for_each(|value| texts(value, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the paths that do not lie in another one.
fn outermost(paths: &BTreeSet<PathBuf>) -> Vec<&Path> {
    let is_inside = |path: &PathBuf| {
        paths
            .iter()
            .any(|other| other != path && path.starts_with(other))
    };
    paths
        .iter()
        .filter(|path| !is_inside(path))
        .map(PathBuf::as_path)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::SystemTime;

    use ostler_testkit::nats::NatsServer;

    use super::*;
    use crate::nats::ConnectSettings;

    /// How far the clock of the test is ahead, in milliseconds.
    static AHEAD: AtomicI64 = AtomicI64::new(0);

    fn now() -> Timestamp {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        Timestamp(i64::try_from(now).unwrap() + AHEAD.load(Ordering::SeqCst))
    }

    async fn connect(server: &NatsServer) -> Connection {
        let settings = ConnectSettings {
            url: server.url(),
            member: "owner".parse().unwrap(),
            key: None,
            credentials: None,
            authority: None,
            require_tls: false,
            api: None,
        };
        let connection = Connection::open(&settings).await.unwrap();
        connection.create_streams(1).await.unwrap();
        connection
    }

    #[tokio::test]
    async fn an_archive_is_sent_once_and_again_before_it_expires() {
        let test = "an_archive_is_sent_once_and_again_before_it_expires";
        if !ostler_testkit::machine::can_run(test, &ostler_testkit::nats::need()) {
            return;
        }
        let (server, dir) = (NatsServer::start(), tempfile::tempdir().unwrap());
        std::fs::write(dir.path().join("file"), "text").unwrap();
        let connection = connect(&server).await;
        let client = async_nats::connect(server.url()).await.unwrap();
        let streams = async_nats::jetstream::new(client);
        let bucket = streams.get_object_store(WORKSPACES_BUCKET).await.unwrap();
        let attacher = || Attacher::new(connection.clone(), now);
        let first = attacher();
        let sent = first.attach(dir.path()).await.unwrap();
        let stored = async || bucket.info(&sent.sha256).await.unwrap().nuid;
        let original = stored().await;
        // Neither this process nor the next one sends it again.
        for attacher in [&first, &attacher()] {
            assert_eq!(attacher.attach(dir.path()).await.unwrap(), sent);
            assert_eq!(stored().await, original);
        }
        // A day later, either of them does.
        for attacher in [&first, &attacher()] {
            let before = stored().await;
            AHEAD.fetch_add(2 * RENEWAL_MS, Ordering::SeqCst);
            assert_eq!(attacher.attach(dir.path()).await.unwrap(), sent);
            assert_ne!(stored().await, before);
        }
    }

    #[tokio::test]
    async fn only_those_who_need_the_same_value_wait_for_it() {
        let values: PerKey<&str, u32> = PerKey::new();
        let slow = values.cell("slow");
        let held = slow.lock().await;
        *values.cell("fast").try_lock().unwrap() = Some(1);
        assert_eq!(*values.cell("fast").try_lock().unwrap(), Some(1));
        assert!(values.cell("slow").try_lock().is_err());
        drop(held);
    }
}
