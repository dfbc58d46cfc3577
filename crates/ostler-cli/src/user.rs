//! The user's own policies: `policy.toml` and `sandbox.toml` in the configuration directory.

use std::path::{Path, PathBuf};

use ostler::permission::{Policy, Trust};

use crate::args::PolicyArgs;
use crate::fault::Fault;
use crate::{environment, files};

/// Permission rules of the user: `--policy`, and the file in the configuration directory.
pub(crate) fn permissions(args: &PolicyArgs) -> Result<Vec<Policy>, Fault> {
    let mut layers = Vec::new();
    if let Some(file) = &args.policy {
        let none = || {
            Fault::usage(format!(
                "there is no file {}, given by --policy",
                file.display()
            ))
        };
        layers.push(read(file)?.ok_or_else(none)?);
    }
    let own = file("policy.toml");
    layers.extend(own.as_deref().map(read).transpose()?.flatten());
    Ok(layers)
}

/// The sandbox policy of the user, or the default one.
pub(crate) fn sandbox() -> Result<ostler::SandboxPolicy, Fault> {
    let Some(file) = file("sandbox.toml") else {
        return Ok(ostler::SandboxPolicy::default());
    };
    let Some(text) = files::text(&file)? else {
        return Ok(ostler::SandboxPolicy::default());
    };
    ostler::SandboxPolicy::parse_as(&text, &file.display().to_string()).map_err(|error| {
        Fault::usage(error.message)
            .hint("docs/sandbox.md describes the file; nothing runs until it is right.")
    })
}

fn file(name: &str) -> Option<PathBuf> {
    environment::config_dir().map(|dir| dir.join(name))
}

fn read(file: &Path) -> Result<Option<Policy>, Fault> {
    let Some(text) = files::text(file)? else {
        return Ok(None);
    };
    parse(&text, &file.display().to_string(), Trust::Full).map(Some)
}

/// Parses permission rules.
pub(crate) fn parse(text: &str, source: &str, trust: Trust) -> Result<Policy, Fault> {
    Policy::parse(text, source, trust).map_err(|error| {
        Fault::usage(error.to_string())
            .hint("docs/permissions.md describes the file; nothing runs until it is right.")
    })
}
