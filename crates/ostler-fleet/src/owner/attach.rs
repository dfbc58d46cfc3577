//! Attachments: what a case needs of this machine's files, as archives in the object store.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Sends each file and directory once per run.
pub(super) struct Attacher {
    connection: Connection,
    sent: Mutex<HashMap<PathBuf, Attachment>>,
    /// Checkouts of expected revisions, by URL and revision.
    expected: Mutex<HashMap<(String, String), Arc<tempfile::TempDir>>>,
}

impl Attacher {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            sent: Mutex::default(),
            expected: Mutex::default(),
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
        let key = (url.clone(), revision.clone());
        let mut known = self.expected.lock().await;
        let dir = match known.get(&key) {
            Some(dir) => dir.clone(),
            None => {
                let failed = |source| AttachError::File {
                    path: services.work.clone(),
                    source,
                };
                let dir = Arc::new(tempfile::tempdir().map_err(failed)?);
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
                known.insert(key, dir.clone());
                dir
            }
        };
        case.expected = Some(Expected::Directory(dir.path().join("files")));
        Ok(())
    }

    /// Sends a file or directory whose content never changes.
    pub(super) async fn attach(&self, path: &Path) -> Result<Attachment, AttachError> {
        let mut sent = self.sent.lock().await;
        if let Some(known) = sent.get(path) {
            return Ok(known.clone());
        }
        let Packed {
            file,
            sha256,
            bytes,
        } = archive::pack_aside(path)
            .await
            .map_err(|source| AttachError::File {
                path: path.to_owned(),
                source,
            })?;
        let announced = Announced {
            name: &sha256,
            sha256: &sha256,
            bytes,
        };
        self.connection
            .put_object(WORKSPACES_BUCKET, announced, file.path())
            .await?;
        let attachment = Attachment {
            path: path.to_owned(),
            sha256,
            bytes,
        };
        sent.insert(path.to_owned(), attachment.clone());
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
