//! Opening of regular files only.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

/// Opens a regular file by its name in a directory, or returns `None` if it is something else.
/// Neither follows a link nor blocks on a pipe.
pub(super) fn open_regular(dir: &Dir, name: &OsStr) -> io::Result<Option<(File, Metadata)>> {
    // Opening a device can have side effects, so it is not even attempted.
    if !dir.symlink_metadata(name)?.is_file() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(name, &options)?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then(|| (file.into_std(), metadata)))
}
