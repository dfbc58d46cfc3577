//! The permission policy that holds in a directory: its layers, gathered.

use ostler::permission::{Policy, Preset, Trust};
use ostler::trust::{FileKind, REMEDY, Standing, WorkspaceFile};

use crate::args::{Permissions, PolicyArgs};
use crate::fault::Fault;
use crate::trust::Project;
use crate::user;

/// The policy that holds in a directory.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// None where nobody gave one.
    pub(crate) policy: Option<Policy>,
    /// What the user should know about it.
    pub(crate) remarks: Vec<String>,
    /// What was not taken of the workspace's file.
    pub(crate) left_out: Option<String>,
}

/// Gathers the layers: `--policy`, the user's own file, the workspace's, `--permissions`.
pub(crate) fn load(args: &PolicyArgs, project: &Project) -> Result<Loaded, Fault> {
    let mut layers = user::permissions(args)?;
    layers.extend(project.file(FileKind::Policy).map(parse).transpose()?);
    layers.extend(args.permissions.map(|word| Policy::preset(preset(word))));
    let policy = layers.into_iter().reduce(Policy::then);
    let remarks = policy.iter().flat_map(Policy::lint).collect();
    Ok(Loaded {
        policy,
        remarks,
        left_out: left_out(project)?,
    })
}

/// Says what is not taken of the workspace's rules, since the file is not trusted.
pub(crate) fn left_out(project: &Project) -> Result<Option<String>, Fault> {
    let Some(file) = project.file(FileKind::Policy) else {
        return Ok(None);
    };
    let dropped = parse(file)?.dropped();
    let why = if file.standing == Standing::Changed {
        "has changed since you trusted it"
    } else {
        "is not trusted"
    };
    Ok((dropped > 0).then(|| {
        format!(
            "{} {why}: its rules that allow something ({dropped}) are not taken. {REMEDY}",
            file.name
        )
    }))
}

fn parse(file: &WorkspaceFile) -> Result<Policy, Fault> {
    let trust = if file.is_trusted() {
        Trust::Full
    } else {
        Trust::Project
    };
    user::parse(
        &file.text,
        &file.root.join(&file.name).display().to_string(),
        trust,
    )
}

fn preset(word: Permissions) -> Preset {
    match word {
        Permissions::ReadOnly => Preset::ReadOnly,
        Permissions::Workspace => Preset::Workspace,
        Permissions::Ask => Preset::Ask,
        Permissions::All => Preset::All,
    }
}
