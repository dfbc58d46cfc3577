//! Atomic file writes: a new file is written beside the old one and renamed over it.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use serde::Serialize;

use super::Render;
use super::bare_repository;
use super::diff::{Diff, diff};
use super::hard_links::DeniedHardLinks;
use super::limits::WRITE_BYTES;
use super::open::{not_a_file, open_at, read_text};
use super::resolve::{FileKind, LinkMode, ResolvedPath};
use super::root::Root;
use super::rules::{Access, TargetKind};
use crate::names::quoted;
use crate::{Code, ToolError};

/// Result of a write.
#[derive(Debug, Serialize)]
pub(crate) struct WriteResult {
    path: String,
    /// Whether the file was created or replaced.
    result: &'static str,
    bytes: usize,
    diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl Render for WriteResult {
    fn text(&self) -> String {
        let Self {
            path,
            result,
            bytes,
            diff,
            note,
        } = self;
        let mut text = format!("{result} {} ({bytes} bytes)", quoted(path));
        // The model just wrote this new file, so its content is not repeated.
        if *result != CREATED {
            if diff.is_empty() && note.is_none() {
                text.push_str("\n(no change)");
            }
            if !diff.is_empty() {
                text.push_str(&format!("\n{}", diff.trim_end()));
            }
            if let Some(note) = note {
                text.push_str(&format!("\n[{note}]"));
            }
        }
        text
    }
}

const CREATED: &str = "created";
const REPLACED: &str = "replaced";

/// What to do if the path already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfExists {
    /// The file is replaced.
    Replace,
    /// The write fails.
    Refuse,
}

/// Writes a text to a path, creating missing directories.
pub(crate) fn write(
    root: &Root,
    path: &str,
    content: &str,
    if_exists: IfExists,
) -> Result<WriteResult, ToolError> {
    let given = root.parse_path(path, Access::Write)?;
    check_size(content.len(), &given.display)?;
    let links = if if_exists == IfExists::Refuse {
        LinkMode::NoFollow
    } else {
        LinkMode::Follow
    };
    let (resolved, created) = root.resolve_or_create(&given, links, TargetKind::File)?;
    resolved.check(root, Access::Write)?;
    let old = match resolved.kind() {
        None => {
            given.check_new()?;
            OldContent::Nothing
        }
        Some(_) if if_exists == IfExists::Refuse => {
            let message =
                "already exists: edit it, replace it with write_file, or choose another name";
            return Err(resolved.error(Code::Exists, message));
        }
        Some(FileKind::Directory) => {
            return Err(resolved.error(Code::IsDirectory, "is a directory: name a file in it"));
        }
        Some(FileKind::Other | FileKind::Link) => return Err(not_a_file(&resolved)),
        Some(FileKind::File) => old_text(root, &resolved)?,
    };
    replace(&resolved, content, if_exists)?;
    if let Some(created) = created {
        created.commit();
    }
    Ok(write_result(&resolved, &old, content))
}

/// Writes a text over a file that was read from the same path.
pub(super) fn write_over(
    resolved: &ResolvedPath,
    old: &str,
    content: &str,
) -> Result<WriteResult, ToolError> {
    check_size(content.len(), &resolved.display)?;
    replace(resolved, content, IfExists::Replace)?;
    Ok(write_result(
        resolved,
        &OldContent::Text(old.to_owned()),
        content,
    ))
}

/// Refuses a text that is too large to write.
pub(super) fn check_size(bytes: usize, display: &str) -> Result<(), ToolError> {
    if bytes as u64 > WRITE_BYTES {
        let message = format!(
            "{display} would have {bytes} bytes, more than the {WRITE_BYTES} that one write may have"
        );
        return Err(ToolError::new(Code::TooLarge, message));
    }
    Ok(())
}

/// Previous content of a path.
enum OldContent {
    Nothing,
    Text(String),
    /// Binary, or too large.
    Unknown,
}

/// Reads the content of a file that is about to be replaced.
fn old_text(root: &Root, resolved: &ResolvedPath) -> Result<OldContent, ToolError> {
    let (mut file, metadata) = open_at(root, resolved, &DeniedHardLinks::default())?;
    check_writable(resolved, &metadata)?;
    Ok(read_text(&mut file, WRITE_BYTES, resolved).map_or(OldContent::Unknown, OldContent::Text))
}

/// Refuses a file without write permission: a rename would replace it although writing into it
/// would fail.
pub(super) fn check_writable(
    resolved: &ResolvedPath,
    metadata: &Metadata,
) -> Result<(), ToolError> {
    if metadata.permissions().readonly() {
        return Err(resolved.error(Code::Io, "is write-protected (no write bit in its mode)"));
    }
    Ok(())
}

fn write_result(resolved: &ResolvedPath, old: &OldContent, content: &str) -> WriteResult {
    let path = resolved.real.to_string_lossy().into_owned();
    let (result, Diff { text, note }) = match old {
        OldContent::Nothing => (CREATED, diff(&path, "", content)),
        OldContent::Text(old) => (REPLACED, diff(&path, old, content)),
        OldContent::Unknown => {
            let note = Some("no diff: the previous content is binary or too large");
            (
                REPLACED,
                Diff {
                    text: String::new(),
                    note,
                },
            )
        }
    };
    WriteResult {
        path,
        result,
        bytes: content.len(),
        diff: text,
        note,
    }
}

fn replace(resolved: &ResolvedPath, content: &str, if_exists: IfExists) -> Result<(), ToolError> {
    bare_repository::check(&resolved.dir, &resolved.name, &resolved.display)?;
    let io_error = |error: io::Error| resolved.io_error(&error);
    let mut new = TemporaryFile::beside(resolved).map_err(io_error)?;
    new.fill(content.as_bytes(), resolved.metadata.as_ref())
        .map_err(io_error)?;
    new.rename(&resolved.name, if_exists).map_err(io_error)
}

/// A temporary file; removed on drop unless renamed into place.
struct TemporaryFile<'p> {
    dir: &'p Dir,
    name: OsString,
    file: File,
    is_renamed: bool,
}

impl<'p> TemporaryFile<'p> {
    fn beside(resolved: &'p ResolvedPath) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // The replacement of a private file is never readable by others, not even briefly.
        private(&mut options, resolved.metadata.is_some());
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".ostler-new-{}-{count}", std::process::id()));
            match resolved.dir.open_with(&name, &options) {
                Ok(file) => {
                    return Ok(Self {
                        dir: &resolved.dir,
                        name,
                        file,
                        is_renamed: false,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
        self.file.write_all(bytes)?;
        old.map_or(Ok(()), |old| copy_ownership(&self.file, old))
    }

    fn rename(mut self, name: &OsStr, if_exists: IfExists) -> io::Result<()> {
        match if_exists {
            IfExists::Replace => self.dir.rename(&self.name, self.dir, name)?,
            IfExists::Refuse => rename_new(self.dir, &self.name, self.dir, name)?,
        }
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // If this fails too there is nothing left to try, and the first error is the one to
            // report.
            self.dir.remove_file(&self.name).ok();
        }
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions, is_private: bool) {
    use cap_std::fs::OpenOptionsExt;

    options.mode(if is_private { 0o600 } else { 0o666 });
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions, _is_private: bool) {}

/// Gives a file the owner and mode bits of another.
#[cfg(unix)]
fn copy_ownership(file: &File, old: &Metadata) -> io::Result<()> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};

    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(old.uid()),
            rustix::fs::Gid::from_raw(old.gid()),
        );
        // Only root can give files away. For other users the file becomes theirs, as any file they
        // save does.
        rustix::fs::fchown(file, Some(uid), Some(gid)).ok();
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(not(unix))]
fn copy_ownership(_file: &File, _old: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Renames unless the new name exists, atomically where the system supports it.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn rename_new(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not every file system supports it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_if_absent(from, old, to, new),
        done => done.map_err(io::Error::from),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn rename_new(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    rename_if_absent(from, old, to, new)
}

fn rename_if_absent(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    match to.symlink_metadata(new) {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => from.rename(old, to, new),
        Err(error) => Err(error),
    }
}
