//! `ostler eval init`: writes a commented example.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use ostler_eval::init::EXAMPLE;

use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{eprint_line, print_line};

/// Writes the example into a directory, and prints what it wrote.
pub(crate) fn init(dir: &Path) -> Result<Code> {
    write(dir)?;
    for (path, _) in EXAMPLE {
        print_line(&dir.join(path).display().to_string());
    }
    let suite = dir.join("suite.yaml");
    eprint_line(&format!("Run it with: ostler eval run {}", suite.display()));
    Ok(exit::OK)
}

/// Writes the example. A file that exists is an error, and nothing is written then.
pub(crate) fn write(dir: &Path) -> Result<()> {
    if let Some((path, _)) = EXAMPLE.iter().find(|(path, _)| dir.join(path).exists()) {
        let path = dir.join(path);
        let fault = usage!("{} exists already", path.display());
        return Err(fault.hint("name another directory: ostler eval init DIR"));
    }
    for (path, text) in EXAMPLE {
        let path = dir.join(path);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&path))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| usage!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
