//! Opening a regular file by its name in a directory, and nothing that only looks like one.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

/// Opens a regular file by its name in a directory; `None` if it is something else. It neither follows a link nor waits
/// for the other end of a pipe.
pub(super) fn open_regular(dir: &Dir, name: &OsStr) -> io::Result<Option<(File, Metadata)>> {
    // Opening a device can do things, so it is not even tried.
    if !dir.symlink_metadata(name)?.is_file() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(name, &options)?;
    let about = file.metadata()?;
    Ok(about.is_file().then(|| (file.into_std(), about)))
}
