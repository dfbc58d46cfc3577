//! Reading of small, hand-written files, and private directories.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::fault::Result;

/// Maximum file size.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads a text file; `None` if it does not exist.
pub(crate) fn text(file: &Path) -> Result<Option<String>> {
    let name = file.display();
    let cannot = |error: std::io::Error| usage!("cannot read {name}: {error}");
    // Checked before opening: opening a pipe would block.
    match std::fs::metadata(file) {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(cannot(error)),
        Ok(meta) if !meta.is_file() => return Err(usage!("{name} is not a file")),
        Ok(_) => {}
    }
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(cannot)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(usage!(
            "{name} is too large: at most {MAX_BYTES} bytes are allowed"
        ));
    }
    Ok(Some(text))
}

/// Creates a directory that only its owner can enter, unless it exists.
pub(crate) fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}
