//! Packages of the workspace and its dependencies, as `cargo metadata` lists them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::workspace;

/// The parts of the output of `cargo metadata` that are used.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
}

#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// `None` for a package of the workspace.
    pub(super) source: Option<String>,
    pub(super) rust_version: Option<String>,
    #[serde(default)]
    pub(super) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(super) features: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) req: String,
    pub(super) path: Option<String>,
}

impl Metadata {
    /// Reads the packages for all features and all platforms.
    pub(super) fn read() -> Result<Self> {
        let mut command = workspace::cargo();
        command.args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--locked",
        ]);
        let output = command.output().context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")
    }
}
