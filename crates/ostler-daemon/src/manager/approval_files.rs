//! Views of approvals, with the files that a request replaces as they were when it was made.

use std::sync::Arc;
use std::time::Duration;

use ostler_store::{Approval, ApprovalState};

use super::Manager;
use crate::api::ApprovalView;
use crate::approval::replaced_paths;
use crate::replaced::ReplacedFiles;

/// Time limit for reading the files of a request. A file system may not answer.
const READ_TIME: Duration = Duration::from_secs(2);

impl Manager {
    /// Returns the view of an approval.
    pub(crate) async fn approval_view(&self, approval: Approval) -> ApprovalView {
        let files = self.replaced_files(&approval).await;
        ApprovalView::compared(approval, &files)
    }

    /// Reads the files that a new permission request replaces, before they change.
    pub(super) fn read_replaced(self: &Arc<Self>, session: &str, request: &str) {
        let (manager, session, request) = (self.clone(), session.to_owned(), request.to_owned());
        tokio::spawn(async move {
            let find = manager.with_store(move |store| store.pending_approval(&session, &request));
            if let Ok(Some(approval)) = find.await {
                manager.replaced_files(&approval).await;
            }
        });
    }

    /// Returns the files of a pending request, read at the first call. The files of a session in a
    /// fleet are on another machine.
    async fn replaced_files(&self, approval: &Approval) -> Arc<ReplacedFiles> {
        if approval.state != ApprovalState::Pending {
            return Arc::default();
        }
        let paths = replaced_paths(approval);
        if paths.is_empty() || !matches!(self.in_fleet(&approval.session).await, Ok(None)) {
            return Arc::default();
        }
        if let Some(files) = self.cached.replaced.get(&approval.id) {
            return files;
        }
        let (dir, at) = (approval.dir.clone(), self.embedder.now());
        let read = tokio::task::spawn_blocking(move || ReplacedFiles::read(&dir, &paths, at));
        match tokio::time::timeout(READ_TIME, read).await {
            Ok(Ok(files)) => self.cached.replaced.add(&approval.id, files),
            Ok(Err(_)) | Err(_) => Arc::default(),
        }
    }
}
