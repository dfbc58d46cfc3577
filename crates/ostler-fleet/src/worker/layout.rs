//! Attachments of an item on the worker: archives in a cache, and the paths of the case in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ostler_core::event::Timestamp;
use ostler_eval::case::{Case, Contender, Expected, Source};
use serde_json::Value;

use super::Worker;
use crate::archive::{self, Contents};
use crate::item::{Attachment, TrialWork};
use crate::nats::{Announced, ObjectError};
use crate::subject::WORKSPACES_BUCKET;

/// How long an unused attachment stays in the cache.
const CACHE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Attachments that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LayoutError {
    /// An archive cannot be fetched.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl LayoutError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// The owner's paths on this machine.
struct Layout {
    /// Directory in which the owner's paths exist, as links into the cache.
    root: PathBuf,
    /// Places of attachments in the cache, by the owner's path.
    places: BTreeMap<PathBuf, PathBuf>,
}

impl Layout {
    fn place(&self, path: &Path) -> PathBuf {
        if let Some(place) = self.places.get(path) {
            return place.clone();
        }
        let inside = self.places.iter().find_map(|(attached, place)| {
            let below = path.strip_prefix(attached).ok()?;
            Some(place.join(below))
        });
        inside.unwrap_or_else(|| below_root(&self.root, path))
    }

    /// Rewrites the path of a source.
    fn apply_source(&self, source: &mut Source) {
        match source {
            Source::Directory(path) => *path = self.place(path),
            Source::Repository { url, .. } => {
                if let Some(place) = self.places.get(Path::new(url.as_str())) {
                    *url = place.to_string_lossy().into_owned();
                }
            }
            Source::Empty => {}
        }
    }

    /// Rewrites the paths of a case.
    fn apply(&self, case: &mut Case, contender: &mut Contender) {
        case.file = below_root(&self.root, &case.file);
        self.apply_source(&mut case.source);
        match &mut case.expected {
            Some(Expected::Directory(path) | Expected::Patch(path)) => *path = self.place(path),
            Some(Expected::Revision(_)) | None => {}
        }
        if let Some(root) = &mut case.mounts {
            root.task_dir = self.place(&root.task_dir);
            for (source, _) in &mut root.copies {
                *source = self.place(source);
            }
        }
        case.workspace.dir = None;
        for value in contender.settings.values_mut() {
            if let Value::String(text) = value
                && let Some(place) = self.places.get(Path::new(text.as_str()))
            {
                *text = place.to_string_lossy().into_owned();
            }
        }
    }
}

/// Returns an absolute path of the owner below a directory.
fn below_root(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name),
        _ => None,
    });
    root.join(parts.collect::<PathBuf>())
}

/// Marks an entry of the cache as used.
fn touch(dir: &Path, now: Timestamp) {
    let now = fs::FileTimes::new().set_modified(system_time(now));
    let _ = fs::File::open(dir).and_then(|dir| dir.set_times(now)); // it is fetched again
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

/// Removes entries of the cache that were not used for long, and drafts of a killed process.
pub(super) fn clean_cache(state: &Path, now: Timestamp) {
    let now = system_time(now);
    let entries = fs::read_dir(state.join("cache")).into_iter().flatten();
    for entry in entries.flatten() {
        let used = entry.metadata().and_then(|metadata| metadata.modified());
        let age = used.ok().and_then(|used| now.duration_since(used).ok());
        let is_draft = entry.file_name().to_string_lossy().starts_with('.');
        if is_draft || age.is_some_and(|age| age > CACHE_RETENTION) {
            let _ = fs::remove_dir_all(entry.path()); // tried again at the next start
        }
    }
}

impl Worker {
    /// Fetches the attachments of a trial, and rewrites its paths. Links to the cache are created
    /// in `root`.
    pub(super) async fn lay_out(
        &self,
        work: &mut TrialWork,
        root: &Path,
    ) -> Result<(), LayoutError> {
        let layout = self.place_attachments(&work.attachments, root).await?;
        layout.apply(&mut work.case, &mut work.contender);
        let parent = work.case.file.parent().unwrap_or(root);
        fs::create_dir_all(parent).map_err(LayoutError::io(parent))
    }

    /// Fetches the attachments of a session. Returns its source on this machine.
    pub(super) async fn lay_out_source(
        &self,
        source: &Source,
        attachments: &[Attachment],
        root: &Path,
    ) -> Result<Source, LayoutError> {
        let layout = self.place_attachments(attachments, root).await?;
        let mut source = source.clone();
        layout.apply_source(&mut source);
        Ok(source)
    }

    async fn place_attachments(
        &self,
        attachments: &[Attachment],
        root: &Path,
    ) -> Result<Layout, LayoutError> {
        let mut layout = Layout {
            root: root.to_owned(),
            places: BTreeMap::new(),
        };
        fs::create_dir_all(root).map_err(LayoutError::io(root))?;
        for attachment in attachments {
            let dir = self.cached(attachment).await?;
            let single = archive::unpacked_file(&dir);
            let is_file = single.is_file() && fs::read_dir(&dir).is_ok_and(|all| all.count() == 1);
            let place = if is_file { single } else { dir };
            let link = below_root(root, &attachment.path);
            let parent = link.parent().unwrap_or(root);
            fs::create_dir_all(parent).map_err(LayoutError::io(parent))?;
            if !link.exists() {
                std::os::unix::fs::symlink(&place, &link).map_err(LayoutError::io(&link))?;
            }
            layout.places.insert(attachment.path.clone(), place);
        }
        Ok(layout)
    }

    /// Returns the directory of an unpacked attachment.
    async fn cached(&self, attachment: &Attachment) -> Result<PathBuf, LayoutError> {
        let cache = self.options.state.join("cache");
        let is_hash = attachment
            .sha256
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit());
        let announced = Announced {
            name: &attachment.sha256,
            sha256: &attachment.sha256,
            bytes: attachment.bytes,
        };
        if !is_hash {
            let name = attachment.sha256.clone();
            return Err(ObjectError::Damaged { name }.into());
        }
        let target = cache.join(&attachment.sha256);
        if target.is_dir() {
            touch(&target, self.host.now());
            return Ok(target);
        }
        fs::create_dir_all(&cache).map_err(LayoutError::io(&cache))?;
        let draft = tempfile::tempdir_in(&cache).map_err(LayoutError::io(&cache))?;
        let file = draft.path().join("archive");
        self.connection
            .get_object(WORKSPACES_BUCKET, announced, &file)
            .await?;
        let dir = draft.path().join("files");
        archive::unpack_aside(&file, &dir, Contents::Workspace)
            .await
            .map_err(LayoutError::io(&dir))?;
        match fs::rename(&dir, &target) {
            Ok(()) => Ok(target),
            Err(_) if target.is_dir() => Ok(target), // another attempt was faster
            Err(error) => Err(LayoutError::io(&target)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_attachments_and_drafts_leave_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp(1_800_000_000_000);
        for (name, age_days) in [("used", 6), ("unused", 8), (".tmpdraft", 0)] {
            let entry = dir.path().join("cache").join(name);
            fs::create_dir_all(entry.join("files")).unwrap();
            touch(&entry, Timestamp(now.0 - age_days * 24 * 3600 * 1000));
        }
        clean_cache(dir.path(), now);
        let left = fs::read_dir(dir.path().join("cache")).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["used"]);
    }
}
