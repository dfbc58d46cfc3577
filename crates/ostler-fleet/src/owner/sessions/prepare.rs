//! Preparation of a session: its source, its work and its signed item.

use std::path::{Path, PathBuf};

use ostler::Spec;
use ostler::event::Timestamp;
use ostler::spec::{AfterTurn, Attendance, keys};
use ostler_eval::case::Source;
use serde_json::Value;

use super::{FleetSessions, SessionOrder};
use crate::item::{Attachment, Item, MAX_ITEM_BYTES, Needs, PROTOCOL, Work, WorkKind};
use crate::key::KeyError;
use crate::owner::attach::AttachError;
use crate::seal::{self, Purpose};
use crate::session_work::{SessionLimits, SessionWork};
use crate::subject::Token;

/// How long an item is valid.
const VALIDITY_MS: i64 = 24 * 3600 * 1000;

/// A session that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    /// Its repository cannot be read or sent.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// It has no directory.
    #[error("the session has no directory")]
    NoDirectory,
    /// It cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It cannot be signed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its prompt and settings are too large.
    #[error("the session has {0} bytes without its files; at most {MAX_ITEM_BYTES} are sent")]
    TooLarge(usize),
}

/// A session that can be published.
pub(super) struct PreparedItem {
    pub(super) id: String,
    pub(super) not_after: Timestamp,
    pub(super) needs: Needs,
    pub(super) sealed: Vec<u8>,
}

/// What the agent works on, as it is sent.
struct SentSource {
    source: Source,
    subdir: PathBuf,
    has_base: bool,
    attachments: Vec<Attachment>,
}

impl FleetSessions {
    /// Returns the id of a session's item.
    pub(super) fn item_id(&self, attempt: &Token) -> String {
        format!("{}.{}.{attempt}", self.options.name, self.options.run)
    }

    /// Sends what the session needs of this machine, and signs its item.
    pub(super) async fn prepare(
        &self,
        order: SessionOrder,
        spec: &Spec,
        attempt: &Token,
    ) -> Result<PreparedItem, PrepareError> {
        let sent = self.source(&order, spec).await?;
        let mut settings = order.settings;
        // The limits of the owner's configuration that the agent itself enforces.
        let own = [
            (keys::MAX_TURNS, spec.max_turns.map(Value::from)),
            (keys::MAX_BUDGET_USD, spec.max_budget_usd.map(Value::from)),
        ];
        for (key, value) in own {
            if let Some(value) = value {
                settings.entry(key.to_owned()).or_insert(value);
            }
        }
        let work = SessionWork {
            session: attempt.to_string(),
            agent: order.agent.clone(),
            model: spec.model.clone(),
            settings,
            prompt: spec.prompt.clone(),
            labels: spec.labels.clone(),
            is_attended: spec.attendance == Attendance::Attended,
            ends_after_turn: spec.after_turn == AfterTurn::End,
            policy: spec.policy.as_ref().map(serde_json::to_value).transpose()?,
            sandbox: spec.sandbox.as_str().to_owned(),
            limits: SessionLimits::of(spec),
            source: sent.source,
            subdir: sent.subdir,
            has_base: sent.has_base,
            attachments: sent.attachments,
        };
        let item = Item {
            protocol: PROTOCOL,
            id: self.item_id(attempt),
            owner: self.options.name.clone(),
            run: self.options.run.clone(),
            attempt: attempt.clone(),
            fence: 1, // a session is never tried again
            not_after: Timestamp((self.now)().0.saturating_add(VALIDITY_MS)),
            needs: Needs {
                kind: WorkKind::Session,
                agent: order.agent,
                version: None,
                labels: order.labels,
                isolation: None,
            },
            work: Work::Session(Box::new(work)),
        };
        let payload = serde_json::to_vec(&item)?;
        let sealed = seal::seal(&self.options.key, Purpose::Item, &payload)?;
        match sealed.len() > MAX_ITEM_BYTES {
            true => Err(PrepareError::TooLarge(sealed.len())),
            false => Ok(PreparedItem {
                id: item.id,
                not_after: item.not_after,
                needs: item.needs,
                sealed,
            }),
        }
    }

    /// Fixes the commit that the agent begins with, and sends a local repository.
    async fn source(&self, order: &SessionOrder, spec: &Spec) -> Result<SentSource, PrepareError> {
        let seed = |source: Source| async move {
            let seed = self.options.git.seed(&source).await;
            seed.map_err(AttachError::Git)
        };
        if let Some(url) = &order.repository {
            let source = |commit| Source::Repository {
                url: url.clone(),
                branch: None,
                commit,
            };
            let commit = match &order.commit {
                Some(commit) => commit.clone(),
                None => seed(source(None)).await?.commit().to_owned(),
            };
            return Ok(SentSource {
                source: source(Some(commit)),
                subdir: PathBuf::new(),
                has_base: true,
                attachments: Vec::new(),
            });
        }
        let dir = spec.dir.as_deref().ok_or(PrepareError::NoDirectory)?;
        let root = repository_root(dir);
        let source = match root {
            Some(root) => Source::Repository {
                url: root.to_string_lossy().into_owned(),
                branch: None,
                commit: order.commit.clone(),
            },
            None => Source::Directory(dir.to_owned()),
        };
        let seed = seed(source).await?;
        Ok(SentSource {
            source: Source::Repository {
                url: seed.path().to_string_lossy().into_owned(),
                branch: None,
                commit: Some(seed.commit().to_owned()),
            },
            subdir: root
                .and_then(|root| dir.strip_prefix(root).ok())
                .map(Path::to_owned)
                .unwrap_or_default(),
            has_base: root.is_some(),
            attachments: vec![self.attacher.attach(seed.path()).await?],
        })
    }
}

/// Returns the directory with the repository that a directory belongs to.
fn repository_root(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| dir.join(".git").exists())
}
