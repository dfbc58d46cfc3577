//! Restoration of protected files after a child has ended: git's hooks and settings, Ostler's own
//! files.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_tools::command::{Restored, Snapshot};
use tokio::task::JoinHandle;

use super::{Control, ExitStatus, Teardown, WorkspaceLock};

/// How long to wait for a command of another session.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The agent uses git as a person would, so git's own writes are allowed.
const AS_GIT: &str = "git";

/// Takes a snapshot of the protected files of each workspace, on a blocking thread.
pub(super) async fn take(workspaces: Vec<PathBuf>) -> io::Result<Vec<Snapshot>> {
    // Wait for commands of other sessions, which may have changed them.
    let mut locks = Vec::new();
    for root in &workspaces {
        locks.push(WorkspaceLock::acquire(root, LOCK_TIMEOUT).await);
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

/// Controls a child and restores protected files after it.
pub(super) struct Restoring {
    inner: Option<Box<dyn Control>>,
    stage: Stage,
    notices: Vec<Notice>,
}

enum Stage {
    Running(Vec<Snapshot>),
    Restoring(ExitStatus, JoinHandle<Restored>),
    Done(ExitStatus),
}

impl Restoring {
    pub(super) fn new(inner: Box<dyn Control>, snapshots: Vec<Snapshot>) -> Self {
        Self {
            inner: Some(inner),
            stage: Stage::Running(snapshots),
            notices: Vec::new(),
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

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn exceeded_processes(&self) -> bool {
        self.inner
            .as_ref()
            .is_some_and(|inner| inner.exceeded_processes())
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

    fn end(&mut self) -> Teardown {
        self.inner
            .as_mut()
            .map_or(Teardown::Confirmed, |inner| inner.end())
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&self.stage, &mut self.inner) {
            (Stage::Running(_), Some(inner)) => inner.poll_exit(cx),
            _ => Poll::Ready(()),
        }
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
                        self.stage = Stage::Restoring(
                            status,
                            tokio::task::spawn_blocking(move || restore(&snapshots)),
                        );
                    }
                    Stage::Restoring(status, work) => {
                        let status = *status;
                        let restored = work.await.unwrap_or_else(|error| Restored {
                            failed: vec![error.to_string()],
                            ..Restored::default()
                        });
                        self.notices.extend(notice(&restored, status));
                        self.stage = Stage::Done(status);
                    }
                    Stage::Done(status) => return *status,
                }
            }
        })
    }
}

impl Drop for Restoring {
    /// Restores the files on a separate thread if the child is dropped before it has ended.
    fn drop(&mut self) {
        let Stage::Running(snapshots) = &mut self.stage else {
            return;
        };
        let (snapshots, inner) = (std::mem::take(snapshots), self.inner.take());
        let work = move || {
            if let Some(mut inner) = inner {
                let _ = inner.end();
            }
            restore(&snapshots);
        };
        let _ = std::thread::Builder::new()
            .name("ostler-restore".into())
            .spawn(work);
    }
}

fn restore(snapshots: &[Snapshot]) -> Restored {
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
            "The agent changed protected files; they were restored: {}.",
            restored.put_back.join(", ")
        );
    }
    if !restored.failed.is_empty() {
        message.push_str(&format!(
            " Could not restore: {}.",
            restored.failed.join("; ")
        ));
    }
    if status.left_over {
        message.push_str(" Processes of the agent may still be running and change them again.");
    }
    Some(Notice::new(
        Level::Warning,
        NoticeCode::ProtectedFiles,
        message.trim_start().to_owned(),
    ))
}
