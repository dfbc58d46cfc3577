//! Opening what is at a place for reading, if the rules allow it.

use std::fs::File;
use std::io::Read;

use cap_std::fs::Metadata;

use super::hard_links::Twins;
use super::limits::HEAD_BYTES;
use super::regular::open_regular;
use super::resolve::{Kind, Place};
use super::root::Root;
use super::rules::Access;
use crate::{Code, ToolError};

/// Opens what is at a place for reading, if it is a file and the rules allow it.
pub(super) fn open_at(
    root: &Root,
    place: &Place,
    twins: &Twins,
) -> Result<(File, Metadata), ToolError> {
    place.check(root, Access::Read)?;
    match place.kind() {
        None => return Err(place.missing()),
        Some(Kind::Directory) => {
            return Err(place.error(
                Code::IsDirectory,
                "is a directory: list it, or name a file in it",
            ));
        }
        Some(Kind::Other) => return Err(not_a_file(place)),
        Some(Kind::File | Kind::Link) => {}
    }
    let opened = open_regular(&place.dir, &place.name).map_err(|error| place.told(&error))?;
    let (file, about) = opened.ok_or_else(|| not_a_file(place))?;
    twins.check(root, &about, &place.shown)?;
    Ok((file, about))
}

/// Reads a file of at most `most` bytes as text.
pub(super) fn read_text(file: &mut File, most: u64, place: &Place) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| place.told(&error))?;
    if bytes.len() as u64 > most {
        return Err(place.error(
            Code::TooLarge,
            &format!("has more than {most} bytes, the limit of this tool"),
        ));
    }
    let head = bytes
        .len()
        .min(usize::try_from(HEAD_BYTES).unwrap_or(usize::MAX));
    if bytes[..head].contains(&0) {
        return Err(binary(place));
    }
    String::from_utf8(bytes).map_err(|_| binary(place))
}

/// The refusal of a file that is no text.
pub(super) fn binary(place: &Place) -> ToolError {
    place.error(
        Code::BinaryFile,
        "holds no UTF-8 text; these tools only handle text",
    )
}

pub(super) fn not_a_file(place: &Place) -> ToolError {
    place.error(
        Code::NotAFile,
        "is a device, a pipe or a socket, not a file",
    )
}
