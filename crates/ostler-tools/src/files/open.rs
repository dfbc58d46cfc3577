//! Opening a resolved path for reading, subject to the rules.

use std::fs::File;
use std::io::Read;

use cap_std::fs::Metadata;

use super::hard_links::DeniedHardLinks;
use super::limits::HEAD_BYTES;
use super::regular_file::open_regular;
use super::resolve::{FileKind, ResolvedPath};
use super::root::Root;
use super::rules::Access;
use crate::{Code, ToolError};

/// Opens a resolved path for reading, if it is a file and the rules allow it.
pub(super) fn open_at(
    root: &Root,
    resolved: &ResolvedPath,
    hard_links: &DeniedHardLinks,
) -> Result<(File, Metadata), ToolError> {
    resolved.check(root, Access::Read)?;
    match resolved.kind() {
        None => return Err(resolved.missing()),
        Some(FileKind::Directory) => {
            return Err(resolved.error(
                Code::IsDirectory,
                "is a directory: list it, or name a file in it",
            ));
        }
        Some(FileKind::Other) => return Err(not_a_file(resolved)),
        Some(FileKind::File | FileKind::Link) => {}
    }
    let opened =
        open_regular(&resolved.dir, &resolved.name).map_err(|error| resolved.io_error(&error))?;
    let (file, metadata) = opened.ok_or_else(|| not_a_file(resolved))?;
    hard_links.check(root, &metadata, &resolved.display)?;
    Ok((file, metadata))
}

/// Reads a file of at most `max_bytes` bytes as text.
pub(super) fn read_text(
    file: &mut File,
    max_bytes: u64,
    resolved: &ResolvedPath,
) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| resolved.io_error(&error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(resolved.error(
            Code::TooLarge,
            &format!("has more than {max_bytes} bytes, the limit of this tool"),
        ));
    }
    let head = bytes
        .len()
        .min(usize::try_from(HEAD_BYTES).unwrap_or(usize::MAX));
    if bytes[..head].contains(&0) {
        return Err(binary(resolved));
    }
    String::from_utf8(bytes).map_err(|_| binary(resolved))
}

/// Returns the error for a file that is not text.
pub(super) fn binary(resolved: &ResolvedPath) -> ToolError {
    resolved.error(
        Code::BinaryFile,
        "is not UTF-8 text; these tools only handle text",
    )
}

pub(super) fn not_a_file(resolved: &ResolvedPath) -> ToolError {
    resolved.error(
        Code::NotAFile,
        "is a device, a pipe or a socket, not a file",
    )
}
