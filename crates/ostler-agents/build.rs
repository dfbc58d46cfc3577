//! Lists the manifests, so that a new one is found without a line of code.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes variables to a build script, and reads its output"
)]

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=agents");
    let agents = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("agents");
    let mut folders = fs::read_dir(&agents)?.collect::<Result<Vec<_>, _>>()?;
    folders.sort_by_key(fs::DirEntry::file_name);
    let mut list = String::from("[");
    for folder in folders {
        let manifest = folder.path().join("manifest.toml");
        let name = folder.file_name();
        write!(
            list,
            "({:?}, include_str!({manifest:?})),",
            name.display().to_string()
        )?;
    }
    list.push(']');
    fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("manifests.rs"),
        list,
    )?;
    Ok(())
}
