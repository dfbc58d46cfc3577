//! The permission policy that holds in a directory: its layers, gathered.

use std::io::Read;
use std::path::Path;

use ostler::permission::{Policy, Preset, Trust};

use crate::args::{Permissions, PolicyArgs};
use crate::environment;
use crate::fault::Fault;

/// Where a workspace keeps its policy.
const PROJECT_FILE: &str = ".ostler/policy.toml";

/// Nobody writes a policy that is longer.
const LONGEST: u64 = 1024 * 1024;

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
    let mut layers = Vec::new();
    let mut remarks = Vec::new();
    if let Some(file) = &args.policy {
        let none = || Fault::usage(format!("there is no file {}, given by --policy", file.display()));
        layers.push(read(file, Trust::Full)?.ok_or_else(none)?);
    }
    let own = environment::config_dir().map(|dir| dir.join("policy.toml"));
    layers.extend(own.as_deref().map(|file| read(file, Trust::Full)).transpose()?.flatten());
    // Where the workspace really is: a link does not make it a trusted one. If it is nowhere, the run is going to say so.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let is_trusted = args.trust_project || layers.iter().any(|layer| layer.trusts(&real.to_string_lossy()));
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
    let name = file.display();
    let cannot = |error: std::io::Error| Fault::usage(format!("{name} cannot be read: {error}"));
    // Looked at before it is opened: a pipe would keep us waiting.
    match std::fs::metadata(file) {
        Err(error) if [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(cannot(error)),
        Ok(meta) if !meta.is_file() => return Err(Fault::usage(format!("{name} is not a file"))),
        Ok(_) => {}
    }
    let mut text = String::new();
    std::fs::File::open(file).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text)).map_err(cannot)?;
    if text.len() as u64 > LONGEST {
        return Err(Fault::usage(format!("{name} is longer than a policy may be ({LONGEST} bytes)")));
    }
    let policy = Policy::parse(&text, &name.to_string(), trust).map_err(|error| {
        Fault::usage(error.to_string()).hint("docs/permissions.md describes the file; nothing runs until it is right.")
    })?;
    Ok(Some(policy))
}
