//! Loading of the permission policy for a directory, from all of its layers.

use ostler::permission::{Policy, Preset, Trust};
use ostler::trust::{FileKind, REMEDY, WorkspaceFile};

use crate::args::{Permissions, PolicyArgs};
use crate::fault::Result;
use crate::trust::{Project, why_ignored};
use crate::user;

/// The effective policy of a directory.
#[derive(Debug)]
pub(crate) struct LoadedPolicy {
    /// `None` if there is no policy.
    pub(crate) policy: Option<Policy>,
    /// Warnings about the policy.
    pub(crate) remarks: Vec<String>,
    /// Warning about rules of the project's file that were ignored.
    pub(crate) left_out: Option<String>,
}

/// Loads the layers: `--policy`, the user's file, the project's file, `--permissions`.
pub(crate) fn load(args: &PolicyArgs, project: &Project) -> Result<LoadedPolicy> {
    let mut layers = user::permissions(args)?;
    layers.extend(project.file(FileKind::Policy).map(parse).transpose()?);
    layers.extend(args.permissions.map(|name| Policy::preset(preset(name))));
    let policy = layers.into_iter().reduce(Policy::then);
    let remarks = policy.iter().flat_map(Policy::lint).collect();
    Ok(LoadedPolicy {
        policy,
        remarks,
        left_out: left_out(project)?,
    })
}

/// Returns a warning about rules that are ignored because the project's file is not trusted.
pub(crate) fn left_out(project: &Project) -> Result<Option<String>> {
    let Some(file) = project.file(FileKind::Policy) else {
        return Ok(None);
    };
    let dropped = parse(file)?.dropped();
    let (name, why) = (&file.name, why_ignored(file));
    let warning = || format!("{name} {why}: its allow rules ({dropped}) are ignored. {REMEDY}");
    Ok((dropped > 0).then(warning))
}

fn parse(file: &WorkspaceFile) -> Result<Policy> {
    let trust = if file.is_trusted() {
        Trust::Full
    } else {
        Trust::Project
    };
    user::parse(&file.text, &file.path().display().to_string(), trust)
}

fn preset(name: Permissions) -> Preset {
    match name {
        Permissions::ReadOnly => Preset::ReadOnly,
        Permissions::Workspace => Preset::Workspace,
        Permissions::Ask => Preset::Ask,
        Permissions::All => Preset::All,
    }
}
