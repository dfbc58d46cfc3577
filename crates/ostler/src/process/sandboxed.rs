//! An agent in a sandbox: the file system as it is but for secrets, and only its own places to write.

use std::path::{Path, PathBuf};

use ostler_core::dialect::Launch;
use ostler_core::event::{Level, Notice};
use ostler_core::spec::{Sandbox, Spec, keys};
use ostler_tools::confine::{self, Confinement, Home};

use super::{Prepared, SpawnError};
use crate::host::Host;

/// The code of the notice that says what the sandbox is.
const CODE: &str = "sandbox";

/// Has the agent confined when it is started.
pub(super) fn confine(prepared: &mut Prepared, host: &Host, spec: &Spec, launch: &Launch) -> Result<(), SpawnError> {
    let failed = |source| SpawnError::Other { program: prepared.program.clone(), source };
    let temp = super::private_directory(&host.temp_dir()).map_err(failed)?;
    let workspace = spec.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let workspace = std::path::absolute(&workspace).and_then(|dir| dir.canonicalize()).map_err(failed)?;
    let home = prepared.env.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from).filter(|home| home.is_absolute());
    let mut write = vec![temp.path().to_owned()];
    write.extend(launch.state.iter().filter_map(|place| state(place, prepared, home.as_deref())));
    if spec.sandbox == Sandbox::WorkspaceWrite {
        write.push(workspace.clone());
        write.extend(spec.settings.get(keys::ADD_DIR).unwrap_or_default().iter().map(|dir| workspace.join(dir)));
    }
    let around = Home {
        workspace: &workspace,
        temp: temp.path(),
        home: home.as_deref(),
        path: prepared.env.get(std::ffi::OsStr::new("PATH")).map_or_else(Default::default, |path| path.as_os_str()),
        tools: &[],
    };
    let mut confinement = Confinement::agent(write, &around);
    // What goes to the agent in files is private, and lies beside its temporary files.
    confinement.read.extend(prepared.files.iter().map(|file| file.path().to_owned()));
    let report = confine::report(&confinement);
    if ["files", "attributes"].iter().all(|name| report.gaps().any(|gap| gap.name == *name)) {
        let why = "this system has nothing that a sandbox could be made of (Linux 5.13 with Landlock, or namespaces)";
        return Err(SpawnError::Other { program: prepared.program.clone(), source: std::io::Error::other(why) });
    }
    prepared.remark = Some(notice(spec.sandbox, &confinement, &report));
    for name in ["TMPDIR", "TEMP", "TMP"] {
        prepared.env.insert(name.into(), temp.path().into());
    }
    prepared.confinement = Some(confinement);
    prepared.temp = Some(temp);
    Ok(())
}

/// A place of the agent's own, if it is there: below home for `~/`, where a variable says for `$NAME`. One that ends with a
/// slash is a directory, and is made if it is not.
fn state(place: &str, prepared: &Prepared, home: Option<&Path>) -> Option<PathBuf> {
    let path = match place.strip_prefix('$') {
        Some(rest) => {
            let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
            let value = prepared.env.get(std::ffi::OsStr::new(name)).filter(|value| !value.is_empty())?;
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
    let places: Vec<String> = confinement.write.iter().map(|path| path.display().to_string()).collect();
    let mut message = format!("The agent runs in the sandbox {}. It may write: {}.", sandbox.word(), places.join(", "));
    let gaps: Vec<String> = report.gaps().map(|gap| format!("{} ({})", gap.name, gap.by)).collect();
    if gaps.is_empty() {
        return Notice::new(Level::Info, CODE, message);
    }
    message.push_str(&format!(" Not enforced on this machine: {}.", gaps.join("; ")));
    Notice::new(Level::Warning, CODE, message)
}
