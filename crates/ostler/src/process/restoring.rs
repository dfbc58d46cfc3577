//! A child whose protected files are put back once it has ended: git's hooks and settings, Ostler's own files.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use ostler_core::event::{Level, Notice};
use ostler_tools::command::{Restored, Snapshot};
use tokio::task::JoinHandle;

use super::{Control, Ended, ExitStatus, WorkspaceLock};

/// The code of notices about protected files.
const CODE: &str = "protected_files";

/// How long a command of another session is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The agent works with git as a person would: what git itself writes is fine.
const AS_GIT: &str = "git";

/// Remembers what is protected in each workspace, off the threads that others wait for.
pub(super) async fn take(workspaces: Vec<PathBuf>) -> io::Result<Vec<Snapshot>> {
    // Not while a command of another session may have changed them.
    let mut locks = Vec::new();
    for root in &workspaces {
        locks.push(WorkspaceLock::acquire(root, PATIENCE).await);
    }
    let work = move || {
        workspaces
            .iter()
            .map(|root| Snapshot::take(root, AS_GIT))
            .collect::<Result<Vec<_>, _>>()
    };
    let taken = tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?;
    drop(locks);
    taken.map_err(|error| io::Error::other(error.message))
}

/// A child and what is to be put back after it.
pub(super) struct Restoring {
    inner: Option<Box<dyn Control>>,
    stage: Stage,
    remarks: Vec<Notice>,
}

enum Stage {
    Running(Vec<Snapshot>),
    PuttingBack(ExitStatus, JoinHandle<Restored>),
    Over(ExitStatus),
}

impl Restoring {
    pub(super) fn new(inner: Box<dyn Control>, snapshots: Vec<Snapshot>) -> Self {
        Self {
            inner: Some(inner),
            stage: Stage::Running(snapshots),
            remarks: Vec::new(),
        }
    }

    fn with(&mut self, act: impl FnOnce(&mut dyn Control)) {
        if let Some(inner) = &mut self.inner {
            act(inner.as_mut());
        }
    }
}

impl Control for Restoring {
    fn terminate(&mut self) {
        self.with(|inner| inner.terminate());
    }

    fn kill(&mut self) {
        self.with(|inner| inner.kill());
    }

    fn remarks(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.remarks)
    }

    fn overran(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.overran())
    }

    fn freeze(&mut self) {
        self.with(|inner| inner.freeze());
    }

    fn thaw(&mut self) {
        self.with(|inner| inner.thaw());
    }

    fn abandon(&mut self) {
        self.with(|inner| inner.abandon());
    }

    fn end(&mut self) -> Ended {
        self.inner
            .as_mut()
            .map_or(Ended::Confirmed, |inner| inner.end())
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            loop {
                match &mut self.stage {
                    Stage::Running(snapshots) => {
                        let status = match &mut self.inner {
                            Some(inner) => inner.wait().await,
                            None => ExitStatus::default(),
                        };
                        let snapshots = std::mem::take(snapshots);
                        self.stage = Stage::PuttingBack(
                            status,
                            tokio::task::spawn_blocking(move || put_back(&snapshots)),
                        );
                    }
                    Stage::PuttingBack(status, work) => {
                        let status = *status;
                        let restored = work.await.unwrap_or_else(|error| Restored {
                            failed: vec![error.to_string()],
                            ..Restored::default()
                        });
                        self.remarks.extend(notice(&restored, status));
                        self.stage = Stage::Over(status);
                    }
                    Stage::Over(status) => return *status,
                }
            }
        })
    }
}

impl Drop for Restoring {
    /// Whoever drops the child without waiting for its end still has the files put back, as soon as it has ended.
    fn drop(&mut self) {
        let Stage::Running(snapshots) = &mut self.stage else {
            return;
        };
        let (snapshots, inner) = (std::mem::take(snapshots), self.inner.take());
        let work = move || {
            if let Some(mut inner) = inner {
                let _ = inner.end();
            }
            put_back(&snapshots);
        };
        let _ = std::thread::Builder::new()
            .name("ostler-restore".into())
            .spawn(work);
    }
}

fn put_back(snapshots: &[Snapshot]) -> Restored {
    let mut all = Restored::default();
    for restored in snapshots.iter().map(Snapshot::restore) {
        all.put_back.extend(restored.put_back);
        all.failed.extend(restored.failed);
    }
    all
}

fn notice(restored: &Restored, status: ExitStatus) -> Option<Notice> {
    if restored.put_back.is_empty() && restored.failed.is_empty() {
        return None;
    }
    let mut message = String::new();
    if !restored.put_back.is_empty() {
        message = format!(
            "The agent changed files that are protected in a sandbox; they are as before: {}.",
            restored.put_back.join(", ")
        );
    }
    if !restored.failed.is_empty() {
        message.push_str(&format!(" Not undone: {}.", restored.failed.join("; ")));
    }
    if status.left_over {
        message.push_str(" Something that the agent started may still run and change them again.");
    }
    Some(Notice::new(
        Level::Warning,
        CODE,
        message.trim_start().to_owned(),
    ))
}
