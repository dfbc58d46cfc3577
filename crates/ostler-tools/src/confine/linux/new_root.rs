//! Entry into a private root: its mounts, and the change of root.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::super::RootLayout;
use super::namespaces::c_path;

/// Maximum number of mounts, including the directories of the machine's root.
const MAX_MOUNTS: usize = 96;

/// Everything that is mounted in the stage, as the kernel takes it.
#[derive(Debug)]
pub(super) struct RootPlan {
    stage: CString,
    /// Source, and target in the stage.
    mounts: Vec<(CString, CString)>,
    dir: CString,
}

impl RootPlan {
    /// Plans the mounts, or returns `None` if there are too many or a path cannot be passed.
    pub(super) fn new(root: &RootLayout) -> Option<Self> {
        let machine = std::fs::read_dir("/").ok()?.flatten();
        let directories = machine
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .filter(|path| root.staged(path).is_dir());
        let pair =
            |source: &Path, target: &Path| Some((c_path(source)?, c_path(&root.staged(target))?));
        let mut mounts = Vec::new();
        for path in directories {
            mounts.push(pair(&path, &path)?);
        }
        for mount in &root.mounts {
            mounts.push(pair(&mount.source.canonicalize().ok()?, &mount.target)?);
        }
        (mounts.len() <= MAX_MOUNTS).then_some(Self {
            stage: c_path(&root.stage.canonicalize().ok()?)?,
            mounts,
            dir: c_path(&root.dir)?,
        })
    }

    /// Mounts everything in the stage and makes it the root. What is mounted has the rights that
    /// it has in the old root. Async-signal-safe.
    ///
    /// # Errors
    /// The system refused a step. The child must not exec then.
    pub(super) fn enter(&self) -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let recursive = flags | OpenTreeFlags::AT_RECURSIVE;
        let open = |path: &CString, flags| open_tree(rustix::fs::CWD, path.as_c_str(), flags);
        // All are opened before the first is attached, so that none contains another.
        let mut trees: [Option<OwnedFd>; MAX_MOUNTS] = [const { None }; MAX_MOUNTS];
        for (tree, (source, _)) in trees.iter_mut().zip(&self.mounts) {
            *tree = Some(open(source, recursive)?);
        }
        let stage = open(&self.stage, flags)?;
        attach(&stage, &self.stage)?;
        for (tree, (_, target)) in trees.iter().flatten().zip(&self.mounts) {
            attach(tree, target)?;
        }
        rustix::process::chdir(self.stage.as_c_str())?;
        rustix::process::pivot_root(c".", c".")?;
        // The old root lies over the new one now.
        unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")?;
        rustix::process::chdir(self.dir.as_c_str())?;
        Ok(())
    }
}

fn attach(tree: &OwnedFd, path: &CString) -> rustix::io::Result<()> {
    move_mount(
        tree.as_fd(),
        c"",
        rustix::fs::CWD,
        path.as_c_str(),
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}
