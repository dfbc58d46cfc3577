//! Writing a file as a whole or not at all: a new file beside the old one, then renamed over it.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use serde::Serialize;

use super::Answer;
use super::bare;
use super::diff::{Diff, diff};
use super::given::Given;
use super::hard_links::Twins;
use super::limits::WRITE_BYTES;
use super::open::{not_a_file, open_at, read_text};
use super::resolve::{Kind, Links, Made, Place};
use super::root::Root;
use super::rules::{Access, Sort};
use crate::names::quoted;
use crate::{Code, ToolError};

/// What a write did.
#[derive(Debug, Serialize)]
pub(crate) struct Stored {
    path: String,
    /// Whether the file is new or took the place of another.
    result: &'static str,
    bytes: usize,
    diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl Answer for Stored {
    fn text(&self) -> String {
        let Self {
            path,
            result,
            bytes,
            diff,
            note,
        } = self;
        let mut text = format!("{result} {} ({bytes} bytes)", quoted(path));
        // The model wrote a new file itself just now: no need to tell it what is in it.
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

/// What happens if there is something at the place already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Present {
    /// A file is replaced.
    Replace,
    /// It is an error.
    Refuse,
}

/// Writes a text to where a path leads, with the directories that are missing.
pub(crate) fn write(
    root: &Root,
    path: &str,
    content: &str,
    present: Present,
) -> Result<Stored, ToolError> {
    let given = root.given(path, Access::Write)?;
    check_size(content.len(), &given.shown)?;
    let links = if present == Present::Refuse {
        Links::Keep
    } else {
        Links::Follow
    };
    let (place, made) = place_for(root, &given, links)?;
    place.check(root, Access::Write)?;
    let old = match place.kind() {
        None => {
            given.check_new()?;
            Old::Nothing
        }
        Some(_) if present == Present::Refuse => {
            let says =
                "exists already: edit it, write over it with write_file, or take another name";
            return Err(place.error(Code::Exists, says));
        }
        Some(Kind::Directory) => {
            return Err(place.error(Code::IsDirectory, "is a directory: name a file in it"));
        }
        Some(Kind::Other | Kind::Link) => return Err(not_a_file(&place)),
        Some(Kind::File) => old_text(root, &place)?,
    };
    replace(&place, content, present)?;
    if let Some(made) = made {
        made.keep();
    }
    Ok(stored(&place, &old, content))
}

/// Writes a text over a file that was read from the same place.
pub(super) fn write_over(place: &Place, old: &str, content: &str) -> Result<Stored, ToolError> {
    check_size(content.len(), &place.shown)?;
    replace(place, content, Present::Replace)?;
    Ok(stored(place, &Old::Text(old.to_owned()), content))
}

/// Refuses what is too large to be written.
pub(super) fn check_size(bytes: usize, shown: &str) -> Result<(), ToolError> {
    if bytes as u64 > WRITE_BYTES {
        let message = format!(
            "{shown} would have {bytes} bytes, more than the {WRITE_BYTES} that are written at once"
        );
        return Err(ToolError::new(Code::TooLarge, message));
    }
    Ok(())
}

/// Where a path leads, once its directories are made. The rules are asked before anything is made.
fn place_for(root: &Root, given: &Given, links: Links) -> Result<(Place, Option<Made>), ToolError> {
    match root.place(given, links) {
        Err(error) if error.code == Code::FileNotFound => {
            given.check_new()?;
            root.check(&root.would_be(given)?, Access::Write, Sort::File)?;
            let Some(parent) = given.path.parent() else {
                return Err(error);
            };
            let made = root.make_directories(parent, &given.shown)?;
            Ok((root.place(given, links)?, Some(made)))
        }
        place => place.map(|place| (place, None)),
    }
}

/// What was at a place before.
enum Old {
    Nothing,
    Text(String),
    /// No text, or too much.
    Unknown,
}

/// What is in a file that is about to be replaced.
fn old_text(root: &Root, place: &Place) -> Result<Old, ToolError> {
    let (mut file, about) = open_at(root, place, &Twins::default())?;
    check_writable(place, &about)?;
    Ok(read_text(&mut file, WRITE_BYTES, place).map_or(Old::Unknown, Old::Text))
}

/// A rename would replace a file that nobody may write: refused, as writing into it would be.
pub(super) fn check_writable(place: &Place, about: &Metadata) -> Result<(), ToolError> {
    if about.permissions().readonly() {
        return Err(place.error(Code::Io, "is write-protected (no write bit in its mode)"));
    }
    Ok(())
}

fn stored(place: &Place, old: &Old, content: &str) -> Stored {
    let path = place.real.to_string_lossy().into_owned();
    let (result, Diff { text, note }) = match old {
        Old::Nothing => (CREATED, diff(&path, "", content)),
        Old::Text(old) => (REPLACED, diff(&path, old, content)),
        Old::Unknown => {
            let note = Some("no diff: what was there is no text, or too much");
            (
                REPLACED,
                Diff {
                    text: String::new(),
                    note,
                },
            )
        }
    };
    Stored {
        path,
        result,
        bytes: content.len(),
        diff: text,
        note,
    }
}

fn replace(place: &Place, content: &str, present: Present) -> Result<(), ToolError> {
    bare::check(&place.dir, &place.name, &place.shown)?;
    let told = |error: io::Error| place.told(&error);
    let mut new = NewFile::beside(place).map_err(told)?;
    new.fill(content.as_bytes(), place.about.as_ref())
        .map_err(told)?;
    new.rename(&place.name, present).map_err(told)
}

/// A file that is not yet what it shall be; it goes if it does not become that.
struct NewFile<'p> {
    dir: &'p Dir,
    name: OsString,
    file: File,
    is_done: bool,
}

impl<'p> NewFile<'p> {
    fn beside(place: &'p Place) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // What replaces a private file is never readable to others, not even for a moment.
        private(&mut options, place.about.is_some());
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".ostler-new-{}-{count}", std::process::id()));
            match place.dir.open_with(&name, &options) {
                Ok(file) => {
                    return Ok(Self {
                        dir: &place.dir,
                        name,
                        file,
                        is_done: false,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
        self.file.write_all(bytes)?;
        old.map_or(Ok(()), |old| take_over(&self.file, old))
    }

    fn rename(mut self, name: &OsStr, present: Present) -> io::Result<()> {
        match present {
            Present::Replace => self.dir.rename(&self.name, self.dir, name)?,
            Present::Refuse => rename_new(self.dir, &self.name, self.dir, name)?,
        }
        self.is_done = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // If even this fails there is nothing left to try, and the first error is the one to tell.
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

/// Gives a file the owner and the mode bits of another.
#[cfg(unix)]
fn take_over(file: &File, old: &Metadata) -> io::Result<()> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};

    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(old.uid()),
            rustix::fs::Gid::from_raw(old.gid()),
        );
        // Only root can give files away; to everyone else the file is theirs, as a file that they save always is.
        rustix::fs::fchown(file, Some(uid), Some(gid)).ok();
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(not(unix))]
fn take_over(_file: &File, _old: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Renames, unless there is something at the new name: one step where the system can do it.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn rename_new(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not every file system has it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_after_look(from, old, to, new),
        done => done.map_err(io::Error::from),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn rename_new(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    rename_after_look(from, old, to, new)
}

fn rename_after_look(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    match to.symlink_metadata(new) {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => from.rename(old, to, new),
        Err(error) => Err(error),
    }
}
