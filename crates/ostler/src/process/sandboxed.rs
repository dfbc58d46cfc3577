//! An agent in a sandbox: the file system as it is but for secrets, and only its own places to write.

use std::path::{Path, PathBuf};

use ostler_core::dialect::Launch;
use ostler_core::event::{Level, Notice};
use ostler_core::spec::{Sandbox, Spec, keys};
use ostler_tools::command::protected_paths;
use ostler_tools::confine::{self, Confinement, HostPaths, Report, Required};

use super::{PreparedCommand, SpawnError};
use crate::host::Host;

/// The code of the notice that says what the sandbox is.
const CODE: &str = "sandbox";

/// What a confined agent may write besides its temporary files.
pub(crate) struct Wanted<'a> {
    pub(crate) sandbox: Sandbox,
    /// Its working directory.
    pub(crate) dir: &'a Path,
    /// Directories that were added to it.
    pub(crate) added: &'a [String],
    /// Where it keeps its own state.
    pub(crate) state: &'a [&'static str],
    /// What must hold for it to run.
    pub(crate) required: Required,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(spec: &'a Spec, launch: &'a Launch) -> Self {
        let dir = spec.dir.as_deref().unwrap_or(Path::new("."));
        let added = spec.settings.get(keys::ADD_DIR).unwrap_or_default();
        Self {
            sandbox: spec.sandbox,
            dir,
            added,
            state: launch.state,
            required: Required::Files,
        }
    }
}

/// Has the agent confined when it is started.
pub(crate) fn confine(
    prepared: &mut PreparedCommand,
    host: &Host,
    wanted: &Wanted<'_>,
) -> Result<(), SpawnError> {
    let failed = |source| SpawnError::Other {
        program: prepared.program.clone(),
        source,
    };
    let temp = super::PrivateDirectory::new(&host.temp_dir()).map_err(failed)?;
    let workspace = std::path::absolute(wanted.dir)
        .and_then(|dir| dir.canonicalize())
        .map_err(failed)?;
    let home = prepared
        .env
        .get(std::ffi::OsStr::new("HOME"))
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    let mut write = vec![temp.path().to_owned()];
    let own: Vec<PathBuf> = wanted
        .state
        .iter()
        .filter_map(|place| state(place, prepared, home.as_deref()))
        .collect();
    write.extend(own.iter().cloned());
    let mut workspaces = Vec::new();
    if wanted.sandbox == Sandbox::WorkspaceWrite {
        let added = wanted.added.iter().map(|dir| workspace.join(dir));
        workspaces.extend(
            [workspace.clone()]
                .into_iter()
                .chain(added)
                .filter(|dir| dir.is_dir()),
        );
        write.extend(workspaces.iter().cloned());
    }
    let around = HostPaths {
        workspace: &workspace,
        temp: temp.path(),
        home: home.as_deref(),
        path: prepared
            .env
            .get(std::ffi::OsStr::new("PATH"))
            .map_or_else(Default::default, |path| path.as_os_str()),
        tools: &[],
        secrets: &host.named_secrets(),
        exempt: &own,
    };
    let mut confinement = Confinement {
        required: wanted.required,
        ..Confinement::agent(write, &around)
    };
    // What goes to the agent in files is private, and lies beside its temporary files.
    confinement
        .read
        .extend(prepared.files.iter().map(|file| file.path().to_owned()));
    confinement.protected = workspaces
        .iter()
        .flat_map(|root| protected_paths(root))
        .collect();
    let layers = super::probe_layers(&mut confinement);
    let report = Report::new(&confinement, layers, confine::machine());
    if !confinement
        .required
        .is_met(layers, confine::machine().landlock, confinement.network)
    {
        return Err(SpawnError::Unconfined {
            gaps: report.gaps_line(),
        });
    }
    prepared.remark = Some(notice(wanted.sandbox, &confinement, &report));
    for name in ["TMPDIR", "TEMP", "TMP"] {
        prepared.env.insert(name.into(), temp.path().into());
    }
    prepared.restore = workspaces;
    prepared.confinement = Some(confinement);
    prepared.temp = Some(temp);
    Ok(())
}

/// A place of the agent's own, if it is there: below home for `~/`, where a variable says for `$NAME`. One that ends with a
/// slash is a directory, and is made if it is not.
fn state(place: &str, prepared: &PreparedCommand, home: Option<&Path>) -> Option<PathBuf> {
    let path = match place.strip_prefix('$') {
        Some(rest) => {
            let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
            let value = prepared
                .env
                .get(std::ffi::OsStr::new(name))
                .filter(|value| !value.is_empty())?;
            Path::new(value).join(below)
        }
        None => home?.join(place.strip_prefix("~/")?),
    };
    if place.ends_with('/') {
        let _ = std::fs::create_dir_all(&path); // if it cannot be made, the agent says so better than we could
    }
    path.canonicalize().ok()
}

fn notice(sandbox: Sandbox, confinement: &Confinement, report: &confine::Report) -> Notice {
    let places: Vec<String> = confinement
        .write
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut message = format!(
        "The agent runs in the sandbox {}. It may write: {}.",
        sandbox.as_str(),
        places.join(", ")
    );
    let gaps: Vec<String> = report
        .gaps()
        .map(|gap| format!("{} ({})", gap.name, gap.by))
        .collect();
    if gaps.is_empty() {
        return Notice::new(Level::Info, CODE, message);
    }
    message.push_str(&format!(
        " Not enforced on this machine: {}.",
        gaps.join("; ")
    ));
    Notice::new(Level::Warning, CODE, message)
}
