//! The user's policies: `policy.toml` and `sandbox.toml` in the configuration directory.

use std::path::{Path, PathBuf};

use ostler::permission::{Policy, Trust};

use crate::args::PolicyArgs;
use crate::fault::{Fault, Result};
use crate::{environment, files};

/// Loads the user's permission rules: `--policy`, and the file in the configuration directory.
pub(crate) fn permissions(args: &PolicyArgs) -> Result<Vec<Policy>> {
    let mut layers = Vec::new();
    if let Some(file) = &args.policy {
        let none = || usage!("--policy {}: file not found", file.display());
        layers.push(read(file)?.ok_or_else(none)?);
    }
    let own = file("policy.toml");
    layers.extend(own.as_deref().map(read).transpose()?.flatten());
    Ok(layers)
}

/// Loads the user's sandbox policy, or returns the default.
pub(crate) fn sandbox() -> Result<ostler::sandbox::SandboxPolicy> {
    let Some(file) = file("sandbox.toml") else {
        return Ok(ostler::sandbox::SandboxPolicy::default());
    };
    let Some(text) = files::text(&file)? else {
        return Ok(ostler::sandbox::SandboxPolicy::default());
    };
    ostler::sandbox::SandboxPolicy::parse_as(&text, &file.display().to_string()).map_err(|error| {
        Fault::usage(error.message)
            .hint("see docs/sandbox.md for the file format; nothing runs until the file is valid")
    })
}

fn file(name: &str) -> Option<PathBuf> {
    environment::config_dir().map(|dir| dir.join(name))
}

fn read(file: &Path) -> Result<Option<Policy>> {
    let Some(text) = files::text(file)? else {
        return Ok(None);
    };
    parse(&text, &file.display().to_string(), Trust::Full).map(Some)
}

/// Parses permission rules.
pub(crate) fn parse(text: &str, source: &str, trust: Trust) -> Result<Policy> {
    Policy::parse(text, source, trust).map_err(|error| {
        usage!("{error}").hint(
            "see docs/permissions.md for the file format; nothing runs until the file is valid",
        )
    })
}
