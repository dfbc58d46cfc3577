//! Attachments of an item on the worker: archives in a cache, and the paths of the case in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use ostler_core::event::Timestamp;
use ostler_eval::case::{Case, Contender, Expected, Source};
use serde_json::Value;

use super::Worker;
use crate::archive::{self, Contents};
use crate::item::{Attachment, TrialWork};
use crate::nats::{Announced, ObjectError};
use crate::policy::local_path;
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
    /// The work names a file that it did not bring.
    #[error("{} is not attached to the work, or leads out of what is attached", .0.display())]
    Outside(PathBuf),
    /// An attached repository is not a plain one.
    #[error("the attached repository {} must be bare and must not refer to another one", .0.display())]
    Repository(PathBuf),
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
    /// Returns the place of a path of the owner. It never lies outside of what is attached.
    fn place(&self, path: &Path) -> Result<PathBuf, LayoutError> {
        if let Some(place) = self.places.get(path) {
            return Ok(place.clone());
        }
        let inside = self.places.iter().find_map(|(attached, place)| {
            let below = path.strip_prefix(attached).ok()?;
            Some((place, below))
        });
        match inside {
            // An archive has no links that lead out of it.
            Some((place, below)) if is_plain(below) => Ok(place.join(below)),
            Some(_) => Err(LayoutError::Outside(path.to_owned())),
            None => Ok(below_root(&self.root, path)),
        }
    }

    /// Rewrites the path of a source.
    fn apply_source(&self, source: &mut Source) -> Result<(), LayoutError> {
        match source {
            Source::Directory(path) => *path = self.place(path)?,
            Source::Repository { url, .. } => {
                let Some(path) = local_path(url) else {
                    return Ok(());
                };
                let place = match self.places.get(path) {
                    Some(place) => checked_repository(place)?,
                    None => path,
                };
                *url = place.to_string_lossy().into_owned();
            }
            Source::Empty => {}
        }
        Ok(())
    }

    /// Rewrites the paths of a case.
    fn apply(&self, case: &mut Case, contender: &mut Contender) -> Result<(), LayoutError> {
        case.file = below_root(&self.root, &case.file);
        self.apply_source(&mut case.source)?;
        match &mut case.expected {
            Some(Expected::Directory(path) | Expected::Patch(path)) => *path = self.place(path)?,
            Some(Expected::Revision(_)) | None => {}
        }
        if let Some(root) = &mut case.mounts {
            root.task_dir = self.place(&root.task_dir)?;
            for (source, _) in &mut root.copies {
                *source = self.place(source)?;
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
        case.evaluator_paths()
            .try_for_each(|path| self.check_beside(&path))
    }

    /// Checks a file beside the case that an evaluator uses.
    fn check_beside(&self, path: &Path) -> Result<(), LayoutError> {
        let outside = || LayoutError::Outside(path.to_owned());
        match path.canonicalize() {
            Ok(real) => {
                let mut allowed = self.places.values().chain([&self.root]);
                let is_inside = allowed.any(|dir| {
                    let dir = dir.canonicalize();
                    dir.is_ok_and(|dir| real.starts_with(dir))
                });
                is_inside.then_some(()).ok_or_else(outside)
            }
            // The evaluator names a file that is missing.
            Err(_) if path.strip_prefix(&self.root).is_ok_and(is_plain) => Ok(()),
            Err(_) => Err(outside()),
        }
    }
}

/// Returns true if a relative path leads nowhere but down.
fn is_plain(below: &Path) -> bool {
    below
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Returns an attached repository if Git reads nothing else through it: neither another repository
/// that it names, nor one in a directory above.
fn checked_repository(place: &Path) -> Result<&Path, LayoutError> {
    let has = |name: &str| place.join(name).symlink_metadata().is_ok();
    let leads_elsewhere = [".git", "commondir", "objects/info/alternates"];
    let head = fs::read_to_string(place.join("HEAD")).unwrap_or_default();
    let is_bare = ["objects", "refs"].iter().all(|name| has(name));
    match head.starts_with("ref: refs/") && is_bare && !leads_elsewhere.iter().any(|it| has(it)) {
        true => Ok(place),
        false => Err(LayoutError::Repository(place.to_owned())),
    }
}

/// Returns an absolute path of the owner below a directory.
fn below_root(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
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
        layout.apply(&mut work.case, &mut work.contender)?;
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
        layout.apply_source(&mut source)?;
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
            .await_object(WORKSPACES_BUCKET, announced, &file)
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
    use std::os::unix::fs::symlink;

    use ostler_eval::case::{EvaluatorSpec, TrialLimits, WorkspaceSettings};
    use serde_json::json;

    use super::*;

    /// A layout with a directory, a single file and a repository, beside a directory of the worker.
    fn layout(dir: &Path) -> Layout {
        let write = |path: &str, text: &str| {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cache/a/sub/file", "");
        write("cache/b/file", "");
        write("cache/r/HEAD", "ref: refs/heads/main\n");
        write("secret/file", "");
        for name in ["cache/r/objects", "cache/r/refs", "root/suite"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let places = [("/suite/a", "a"), ("/suite/b", "b/file"), ("/seed", "r")];
        let places = places.map(|(path, place)| (path.into(), dir.join("cache").join(place)));
        let layout = Layout {
            root: dir.join("root"),
            places: places.into(),
        };
        for (path, place) in &layout.places {
            symlink(place, below_root(&layout.root, path)).unwrap();
        }
        layout
    }

    #[test]
    fn a_path_of_the_owner_stays_within_what_is_attached() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let place = |path: &str| layout.place(Path::new(path)).ok();
        let below = |path: &str| Some(dir.path().join(path));
        assert_eq!(place("/suite/a"), below("cache/a"));
        assert_eq!(place("/suite/a/sub/file"), below("cache/a/sub/file"));
        assert_eq!(place("/suite/b"), below("cache/b/file"));
        assert_eq!(place("/etc/passwd"), below("root/etc/passwd"));
        assert_eq!(place("/../../etc/passwd"), below("root/etc/passwd"));
        assert_eq!(place("/suite/a/../../secret/file"), None);
        assert_eq!(place("/suite/a/sub/.."), None);
    }

    #[test]
    fn a_repository_is_the_attached_one_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let found = |url: &str| {
            let mut source = Source::Repository {
                url: url.to_owned(),
                branch: None,
                commit: None,
            };
            layout
                .apply_source(&mut source)
                .ok()
                .map(|()| match source {
                    Source::Repository { url, .. } => url,
                    _ => panic!("a repository"),
                })
        };
        let seed = dir.path().join("cache/r").to_str().unwrap().to_owned();
        for url in ["/seed", "file:///seed"] {
            assert_eq!(found(url).as_ref(), Some(&seed));
        }
        // What the policy allows is opened by its path: Git would decode the URL.
        let own = found("file:///srv/%2e%2e/x");
        assert_eq!(own.as_deref(), Some("/srv/%2e%2e/x"));
        let remote = "https://host/x.git";
        assert_eq!(found(remote).as_deref(), Some(remote));
        // A repository through which Git would read another one.
        for name in [".git", "commondir", "objects/info/alternates"] {
            let path = Path::new(&seed).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            assert_eq!(found("/seed"), None, "{name}");
            fs::remove_file(path).unwrap();
        }
        // Git would look for one in the directories above.
        fs::write(Path::new(&seed).join("HEAD"), "none").unwrap();
        assert_eq!(found("/seed"), None);
    }

    #[test]
    fn evaluators_use_only_what_is_attached() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let check = |overlay: &str| {
            let config = json!({"command": ["true"], "copies": {"x": overlay}});
            let mut case = Case {
                evaluators: vec![EvaluatorSpec {
                    name: "check".to_owned(),
                    kind: "command".to_owned(),
                    config: config.as_object().unwrap().clone(),
                    weight: 1.0,
                    required: true,
                }],
                ..case("/suite/case.yaml")
            };
            layout.apply(&mut case, &mut contender()).is_ok()
        };
        assert!(check("a") && check("a/sub") && check("b") && check("missing"));
        let secret = dir.path().join("secret/file");
        assert!(!check(secret.to_str().unwrap()));
        assert!(!check("../../secret/file"));
        assert!(!check("a/../../secret/file"));
        assert!(!check("../../secret/missing"));
    }

    fn contender() -> Contender {
        Contender {
            label: "one".to_owned(),
            agent: "one".to_owned(),
            model: None,
            settings: BTreeMap::new(),
            prompt: None,
            instructions: None,
        }
    }

    fn case(file: &str) -> Case {
        Case {
            name: "case".to_owned(),
            description: None,
            file: file.into(),
            source: Source::Empty,
            prompt: String::new(),
            agent: None,
            expected: None,
            evaluators: Vec::new(),
            pre_execution: Vec::new(),
            post_evaluation: Vec::new(),
            limits: TrialLimits::default(),
            mounts: None,
            workspace: WorkspaceSettings::default(),
            exports: Vec::new(),
        }
    }

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
