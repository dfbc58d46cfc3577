//! Private root: this machine's directories, read-only, with private directories at fixed paths.
//!
//! The root is assembled in an empty directory, its *stage*. The parent creates the mount points,
//! because a child cannot between fork and exec; the child mounts, and makes the stage its root.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A root for one process and its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootLayout {
    /// An empty directory in which the root is assembled.
    pub stage: PathBuf,
    /// Directories mounted over those of the machine, in this order.
    pub mounts: Vec<RootMount>,
    /// The working directory inside.
    pub dir: PathBuf,
}

/// A directory at a fixed path of a private root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootMount {
    /// The directory on this machine.
    pub source: PathBuf,
    /// Its path inside, absolute.
    pub target: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
}

/// A private root that cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum RootLayoutError {
    /// A target lies in a directory of the machine, and does not exist there.
    #[error(
        "{} cannot be a private directory: this machine's {} is read-only and does not contain it",
        target.display(), top.display()
    )]
    NoMountPoint {
        /// The path inside.
        target: PathBuf,
        /// The machine's directory around it.
        top: PathBuf,
    },
    /// A target is not an absolute path below `/`, or contains `..`.
    #[error("{} cannot be a private directory: expected an absolute path below /", .0.display())]
    BadTarget(PathBuf),
    /// A mount point cannot be created.
    #[error("cannot create the mount point {}: {source}", path.display())]
    Io {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl RootLayout {
    /// Creates a mount point for every directory of the machine's root and for every mount. Links
    /// in the machine's root, such as `/bin`, are copied; its files are left out.
    ///
    /// # Errors
    /// A mount has no place, or a directory cannot be created.
    pub fn create_mount_points(&self) -> Result<(), RootLayoutError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| RootLayoutError::Io { path, source }
        };
        let machine = Path::new("/");
        for entry in fs::read_dir(machine).map_err(io(machine))?.flatten() {
            let point = self.stage.join(entry.file_name());
            if point.symlink_metadata().is_ok() {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::create_dir(&point).map_err(io(&point))?,
                Ok(kind) if kind.is_symlink() => link(&entry.path(), &point).map_err(io(&point))?,
                _ => {}
            }
        }
        for (index, mount) in self.mounts.iter().enumerate() {
            let target = &mount.target;
            let top = top(target).ok_or_else(|| RootLayoutError::BadTarget(target.clone()))?;
            let around = self.mounts[..index]
                .iter()
                .rev()
                .find(|earlier| target.starts_with(&earlier.target));
            let point = match around {
                Some(around) => match target.strip_prefix(&around.target) {
                    Ok(below) => around.source.join(below),
                    Err(_) => return Err(RootLayoutError::BadTarget(target.clone())),
                },
                None if top.symlink_metadata().is_err() => self.staged(target),
                None if target.is_dir() => continue,
                None => {
                    return Err(RootLayoutError::NoMountPoint {
                        target: target.clone(),
                        top,
                    });
                }
            };
            fs::create_dir_all(&point).map_err(io(&point))?;
        }
        Ok(())
    }

    /// Returns the path in the stage of a path inside.
    #[must_use]
    pub fn staged(&self, path: &Path) -> PathBuf {
        self.stage.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Returns the first component of an absolute path without `..`, as a path.
fn top(target: &Path) -> Option<PathBuf> {
    let mut parts = target.components();
    if parts.next() != Some(Component::RootDir) {
        return None;
    }
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let first = parts.next().filter(is_name)?;
    parts
        .all(|part| is_name(&part))
        .then(|| Path::new("/").join(first))
}

#[cfg(unix)]
fn link(original: &Path, copy: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(original)?, copy)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(dir: &Path, targets: &[&str]) -> RootLayout {
        let stage = dir.join("stage");
        fs::create_dir_all(&stage).unwrap();
        let mounts = targets.iter().enumerate().map(|(index, target)| {
            let source = dir.join(format!("source-{index}"));
            fs::create_dir_all(&source).unwrap();
            RootMount {
                source,
                target: PathBuf::from(target),
                writable: true,
            }
        });
        RootLayout {
            mounts: mounts.collect(),
            stage,
            dir: PathBuf::from("/"),
        }
    }

    #[test]
    fn mount_points_are_created_in_the_stage_or_in_the_mount_around_them() {
        let dir = tempfile::tempdir().unwrap();
        let root = root(
            dir.path(),
            &[
                "/private-app",
                "/private-logs/x",
                "/private-app/in/side",
                "/usr",
            ],
        );
        root.create_mount_points().unwrap();
        assert!(root.stage.join("private-app").is_dir());
        assert!(root.stage.join("private-logs/x").is_dir());
        assert!(dir.path().join("source-0/in/side").is_dir());
        assert!(root.stage.join("usr").is_dir());
        root.create_mount_points().unwrap(); // again
    }

    #[test]
    fn places_that_cannot_be_mounted_are_named() {
        for (target, is_known) in [
            ("/usr/does-not-exist-here", false),
            ("relative", true),
            ("/", true),
            ("/a/../b", true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let error = root(dir.path(), &[target])
                .create_mount_points()
                .unwrap_err();
            match error {
                RootLayoutError::BadTarget(_) => assert!(is_known, "{target}"),
                RootLayoutError::NoMountPoint { top, .. } => {
                    assert!(!is_known && top == Path::new("/usr"), "{target}");
                }
                RootLayoutError::Io { .. } => panic!("{target}: {error}"),
            }
        }
    }
}
