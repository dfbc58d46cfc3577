//! The permission policy that holds in a directory: its layers, gathered.

use std::path::Path;

use ostler::permission::{Policy, Preset, Trust};

use crate::args::{Permissions, PolicyArgs};
use crate::fault::Fault;
use crate::{environment, files};

/// Where a workspace keeps its policy.
const PROJECT_FILE: &str = ".ostler/policy.toml";

/// The policy that holds in a directory.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// None where nobody gave one.
    pub(crate) policy: Option<Policy>,
    /// What the user should know about it.
    pub(crate) remarks: Vec<String>,
    /// Whether what the workspace brings along is trusted.
    pub(crate) is_trusted: bool,
}

/// Gathers the layers: `--policy`, the user's own file, the workspace's, `--permissions`.
pub(crate) fn load(args: &PolicyArgs, dir: &Path) -> Result<Loaded, Fault> {
    let mut layers = own(args)?;
    let mut remarks = Vec::new();
    // Where the workspace really is: a link does not make it a trusted one. If it is nowhere, the run is going to say so.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let is_trusted = is_trusted(args, &layers, &real);
    let trust = if is_trusted { Trust::Full } else { Trust::Project };
    if let Some(layer) = read(&real.join(PROJECT_FILE), trust)? {
        if layer.dropped() > 0 {
            remarks.push(format!(
                "{PROJECT_FILE} came with the workspace: its rules that allow something ({}) are not taken. Read it; \
                 --trust-project, or trusted_projects in your own policy, takes them.",
                layer.dropped()
            ));
        }
        layers.push(layer);
    }
    layers.extend(args.permissions.map(|word| Policy::preset(preset(word))));
    let policy = layers.into_iter().reduce(Policy::then);
    remarks.extend(policy.iter().flat_map(Policy::lint));
    Ok(Loaded { policy, remarks, is_trusted })
}

/// What the user gave: `--policy`, and the own file.
fn own(args: &PolicyArgs) -> Result<Vec<Policy>, Fault> {
    let mut layers = Vec::new();
    if let Some(file) = &args.policy {
        let none = || Fault::usage(format!("there is no file {}, given by --policy", file.display()));
        layers.push(read(file, Trust::Full)?.ok_or_else(none)?);
    }
    let own = environment::config_dir().map(|dir| dir.join("policy.toml"));
    layers.extend(own.as_deref().map(|file| read(file, Trust::Full)).transpose()?.flatten());
    Ok(layers)
}

fn is_trusted(args: &PolicyArgs, layers: &[Policy], real: &Path) -> bool {
    args.trust_project || layers.iter().any(|layer| layer.trusts(&real.to_string_lossy()))
}

/// Whether the user trusts what a directory brings along. Its path is the real one.
pub(crate) fn trusts(args: &PolicyArgs, real: &Path) -> Result<bool, Fault> {
    Ok(is_trusted(args, &own(args)?, real))
}

fn preset(word: Permissions) -> Preset {
    match word {
        Permissions::ReadOnly => Preset::ReadOnly,
        Permissions::Workspace => Preset::Workspace,
        Permissions::Ask => Preset::Ask,
        Permissions::All => Preset::All,
    }
}

/// Reads a policy's file, if it is there.
fn read(file: &Path, trust: Trust) -> Result<Option<Policy>, Fault> {
    let Some(text) = files::text(file)? else { return Ok(None) };
    let policy = Policy::parse(&text, &file.display().to_string(), trust).map_err(|error| {
        Fault::usage(error.to_string()).hint("docs/permissions.md describes the file; nothing runs until it is right.")
    })?;
    Ok(Some(policy))
}
