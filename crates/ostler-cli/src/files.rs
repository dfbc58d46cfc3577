//! Reading small files that somebody wrote by hand.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::fault::Fault;

/// Nobody writes a longer one by hand.
const LONGEST: u64 = 1024 * 1024;

/// The text of a file, if it is there.
pub(crate) fn text(file: &Path) -> Result<Option<String>, Fault> {
    let name = file.display();
    let cannot = |error: std::io::Error| Fault::usage(format!("{name} cannot be read: {error}"));
    // Looked at before it is opened: a pipe would keep us waiting.
    match std::fs::metadata(file) {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(cannot(error)),
        Ok(meta) if !meta.is_file() => return Err(Fault::usage(format!("{name} is not a file"))),
        Ok(_) => {}
    }
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
        .map_err(cannot)?;
    if text.len() as u64 > LONGEST {
        return Err(Fault::usage(format!(
            "{name} is longer than such a file may be ({LONGEST} bytes)"
        )));
    }
    Ok(Some(text))
}
