//! Sandboxed agents: they can read the file system except secrets, and write only where allowed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ostler_core::dialect::Launch;
use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::spec::{Sandbox, Spec};
use ostler_tools::command::protected_paths;
use ostler_tools::confine::{self, Confinement, HostPaths, Report, Required};

use super::{PreparedCommand, SpawnError};
use crate::agent_path;
use crate::host::Host;

/// The requested sandbox of an agent.
pub(crate) struct SandboxRequest<'a> {
    pub(crate) sandbox: Sandbox,
    /// The working directory.
    pub(crate) dir: &'a Path,
    /// Further directories of the workspace.
    pub(crate) added: &'a [PathBuf],
    /// Paths of the agent's own state, which stay writable.
    pub(crate) state: &'a [&'static str],
    /// Layers without which the agent must not run.
    pub(crate) required: Required,
}

impl<'a> SandboxRequest<'a> {
    pub(super) fn new(spec: &'a Spec, launch: &'a Launch) -> Self {
        let dir = spec.dir.as_deref().unwrap_or(Path::new("."));
        Self {
            sandbox: spec.sandbox,
            dir,
            added: &spec.add_dirs,
            state: launch.state,
            required: Required::Files,
        }
    }
}

/// Adds a confinement to a prepared agent.
pub(crate) fn confine(
    prepared: &mut PreparedCommand,
    host: &Host,
    request: &SandboxRequest<'_>,
) -> Result<(), SpawnError> {
    let failed = |source| SpawnError::Other {
        program: prepared.program.clone(),
        source,
    };
    let temp = super::PrivateDirectory::new(&host.temp_dir()).map_err(failed)?;
    let workspace = std::path::absolute(request.dir)
        .and_then(|dir| dir.canonicalize())
        .map_err(failed)?;
    let home = prepared
        .env
        .get(OsStr::new("HOME"))
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    let mut write = vec![temp.path().to_owned()];
    let own: Vec<PathBuf> = request
        .state
        .iter()
        .filter_map(|path| state_path(path, prepared))
        .collect();
    write.extend(own.iter().cloned());
    write.extend(host.writable().iter().filter(|dir| dir.is_dir()).cloned());
    let root = host.private_root();
    let mounts = root.map_or(&[][..], |root| &root.mounts);
    let sources = |writable: bool| {
        let chosen = mounts
            .iter()
            .filter(move |mount| mount.writable == writable);
        chosen.map(|mount| mount.source.clone())
    };
    write.extend(sources(true));
    let mut workspaces = Vec::new();
    if request.sandbox == Sandbox::WorkspaceWrite {
        let added = request.added.iter().map(|dir| workspace.join(dir));
        workspaces.extend(
            [workspace.clone()]
                .into_iter()
                .chain(added)
                .filter(|dir| dir.is_dir()),
        );
        write.extend(workspaces.iter().cloned());
    }
    let paths = HostPaths {
        workspace: &workspace,
        temp: temp.path(),
        home: home.as_deref(),
        path: prepared
            .env
            .get(OsStr::new("PATH"))
            .map_or_else(Default::default, |path| path.as_os_str()),
        tools: &[],
        secrets: &host.named_secrets(),
        exempt: &own,
    };
    let mut confinement = Confinement {
        required: request.required,
        root: root.cloned(),
        ..Confinement::agent(write, &paths)
    };
    // Its argument files are private and outside its own temporary directory.
    confinement
        .read
        .extend(prepared.files.iter().map(|file| file.path().to_owned()));
    confinement.read.extend(sources(false));
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
    prepared.notice = Some(notice(request.sandbox, &confinement, &report));
    for name in ["TMPDIR", "TEMP", "TMP"] {
        prepared.env.insert(name.into(), temp.path().into());
    }
    prepared.restore = workspaces;
    prepared.confinement = Some(confinement);
    prepared.temp = Some(temp);
    Ok(())
}

/// Resolves a path of the agent's state. A path that ends with a slash is a directory and is
/// created. Returns `None` if the path does not exist.
fn state_path(path: &str, prepared: &PreparedCommand) -> Option<PathBuf> {
    let value = |name: &str| prepared.env.get(OsStr::new(name)).map(OsString::as_os_str);
    let resolved = agent_path::resolve(path, value)?;
    if path.ends_with('/') {
        let _ = std::fs::create_dir_all(&resolved); // the agent itself reports a failure
    }
    resolved.canonicalize().ok()
}

fn notice(sandbox: Sandbox, confinement: &Confinement, report: &confine::Report) -> Notice {
    let writable: Vec<String> = confinement
        .write
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut message = format!(
        "The agent runs in the sandbox {}. It may write to: {}.",
        sandbox.as_str(),
        writable.join(", ")
    );
    let gaps: Vec<String> = report
        .gaps()
        .map(|gap| format!("{} ({})", gap.name, gap.by))
        .collect();
    if gaps.is_empty() {
        return Notice::new(Level::Info, NoticeCode::Sandbox, message);
    }
    message.push_str(&format!(
        " Not enforced on this machine: {}.",
        gaps.join("; ")
    ));
    Notice::new(Level::Warning, NoticeCode::Sandbox, message)
}
