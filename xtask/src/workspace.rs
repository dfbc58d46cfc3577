//! The workspace: the root of the repository, the target directory, and cargo started at the root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Returns the root of the repository: the folder above this crate.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Returns a command for the cargo that runs this program, started at the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(cargo_program());
    command.current_dir(root());
    keep_strict(&mut command);
    command
}

/// Variables that make a test update its expectations, pass regardless, be retried, or check less.
const LENIENT: [&str; 14] = [
    "UPDATE_GOLDEN",
    "OSTLER_RECORD",
    "OSTLER_FUZZ_SECONDS",
    "OSTLER_FUZZ_SEED",
    "OSTLER_FUZZ_CASE",
    "OSTLER_FUZZ_REPORT",
    "INSTA_UPDATE",
    "INSTA_FORCE_PASS",
    "INSTA_FORCE_UPDATE",
    "INSTA_FORCE_UPDATE_SNAPSHOTS",
    "NEXTEST_NO_TESTS",
    "NEXTEST_RETRIES",
    "NEXTEST_PROFILE",
    "PROPTEST_CASES",
];

/// Clears these variables, so that the caller's environment does not change what tests check.
pub(crate) fn keep_strict(command: &mut Command) {
    for name in LENIENT {
        command.env_remove(name);
    }
}

/// Returns the path of the cargo that runs this program.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Returns the target directory that cargo uses.
pub(crate) fn target_directory() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo metadata")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .context("cannot parse the output of cargo metadata")?;
    Ok(metadata.target_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Issue 15, point 11: `UPDATE_GOLDEN` of the caller would make every golden test pass.
    #[test]
    fn variables_that_make_tests_lenient_are_cleared() {
        let command = cargo();
        let cleared: Vec<_> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name)
            .collect();
        for name in [
            "UPDATE_GOLDEN",
            "OSTLER_RECORD",
            "INSTA_UPDATE",
            "INSTA_FORCE_PASS",
            "NEXTEST_RETRIES",
        ] {
            assert!(
                cleared.iter().any(|cleared| *cleared == name),
                "{name} is inherited"
            );
        }
    }
}
