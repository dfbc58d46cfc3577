//! Programs from the Rust registry that some steps need: each is built into the target directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// Installs a subcommand of cargo unless it is installed, and returns its folder.
pub(super) fn install(name: &str, version: &str) -> Result<PathBuf> {
    let home = workspace::target_directory()?.join(format!("{name}-{version}"));
    let folder = home.join("bin");
    if folder.join(name).is_file() {
        return Ok(folder);
    }
    let mut command = workspace::cargo();
    // Without optimisation: such a tool waits for the compiler and the tests.
    command.args(["install", name, "--locked", "--debug"]);
    command.args(["--version", version, "--root"]).arg(&home);
    let status = command.status().context("cannot start cargo install")?;
    ensure!(
        status.success(),
        "cargo install failed ({status}): check the network"
    );
    Ok(folder)
}

/// Returns the search path with a folder in front.
pub(super) fn path_with(folder: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter();
    std::env::join_paths(folders.chain(std::env::split_paths(&path))).context("unusable PATH")
}
