//! Dumps this process's arguments, environment and open files to a file for the test to read.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::verb::Dump;

/// Facts that only the player knows.
pub(crate) struct Facts<'a> {
    pub(crate) args: &'a [String],
    pub(crate) stdin: &'a [u8],
}

/// Writes the file atomically, so that a test waiting for it never reads a partial one.
pub(crate) fn write(kind: Dump, path: &Path, facts: &Facts<'_>) -> std::io::Result<()> {
    let content = match kind {
        Dump::Env => environment(),
        Dump::Args => serde_json::to_vec(&facts.args.get(1..).unwrap_or_default())?,
        Dump::Cwd => std::env::current_dir()?.as_os_str().as_bytes().to_vec(),
        Dump::Stdin => facts.stdin.to_vec(),
        Dump::Fds => open_files()?.into_bytes(),
        Dump::Pid => std::process::id().to_string().into_bytes(),
    };
    write_whole(path, &content)
}

/// Writes a temporary file beside the path and renames it. The name is random: two fake agents may
/// write the same file and have the same pid in their namespaces.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::hash::{BuildHasher, RandomState};
    let beside = PathBuf::from(format!(
        "{}.{:016x}.part",
        path.display(),
        RandomState::new().hash_one(path)
    ));
    fs::write(&beside, content)?;
    fs::rename(&beside, path)
}

// Same format as `env -0`: NAME=VALUE, each terminated by NUL.
fn environment() -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in std::env::vars_os() {
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
        text.push(0);
    }
    text
}

// `<fd> <target>` per line.
fn open_files() -> std::io::Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // The descriptor that reads the directory is listed too; it points at the directory.
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let is_own = target.to_string_lossy().ends_with("/fd");
        if !is_own {
            let name = entry.file_name();
            let _infallible = writeln!(text, "{} {}", name.to_string_lossy(), target.display());
        }
    }
    Ok(text)
}
