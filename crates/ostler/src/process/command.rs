//! Prepared commands: finds the program, checks the directory, selects the environment, writes
//! files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use ostler_core::dialect::{Arg, Launch, Launching};
use ostler_core::event::Notice;
use ostler_core::spec::label_variable;
use ostler_tools::confine::Confinement;

use super::SpawnError;
use crate::host::{GuardProgram, Host, Lookup, SESSION_VARIABLE, executable};

/// A command that is ready to be spawned.
#[derive(Debug)]
pub(crate) struct PreparedCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) dir: Option<PathBuf>,
    /// The environment entry that identifies every process of the session.
    pub(crate) mark: String,
    pub(crate) guard: Option<GuardProgram>,
    /// Temporary files for arguments that are too long; removed on drop.
    pub(crate) files: Vec<tempfile::NamedTempFile>,
    /// A private directory for temporary files; removed on drop.
    pub(crate) temp: Option<super::PrivateDirectory>,
    /// The directory of the bridge socket. The session removes it, or the guard if the session was
    /// killed.
    pub(crate) bridge_dir: Option<PathBuf>,
    /// Workspaces whose protected files are restored once it has ended.
    pub(crate) restore: Vec<PathBuf>,
    /// The confinement to enter before it runs.
    pub(crate) confinement: Option<Confinement>,
    /// A notice about the confinement.
    pub(crate) notice: Option<Notice>,
}

impl PreparedCommand {
    /// Prepares an agent.
    pub(crate) fn agent(
        host: &Host,
        launching: &Launching<'_>,
        launch: &Launch,
        session: &str,
    ) -> Result<Self, SpawnError> {
        let spec = launching.spec;
        let wanted = spec
            .program
            .clone()
            .unwrap_or_else(|| PathBuf::from(launch.program));
        // A program that the caller named is not replaced by its native binary.
        let natives = if spec.program.is_some() {
            &[]
        } else {
            launch.natives
        };
        let program = find(host, &wanted, natives)?;
        // The lookup is relative to this process, the start to the working directory.
        let program = std::path::absolute(&program).unwrap_or(program);
        if let Some(dir) = &spec.dir {
            check_dir(dir)?;
        }
        let mut env = host.environment(&launch.inherits, &spec.env);
        for (name, value) in &launch.env {
            env.entry((*name).into()).or_insert_with(|| value.into());
        }
        env.extend(spec.env.iter().map(|(k, v)| (k.into(), v.into())));
        for helper in launch.needs {
            add_helper_to_path(host, helper, &mut env)?;
        }
        env.insert(SESSION_VARIABLE.into(), session.into());
        let labels = spec.labels.iter();
        env.extend(labels.map(|(name, value)| (label_variable(name).into(), value.into())));
        let mut files = Vec::new();
        let temp = host.temp_dir();
        let args = launch
            .args
            .iter()
            .map(|arg| argument(arg, &temp, &mut files))
            .collect::<Result<_, _>>();
        let args = args.map_err(|source| SpawnError::Other {
            program: program.clone(),
            source,
        })?;
        let mark = format!("{SESSION_VARIABLE}={session}");
        let guard = host.guard().cloned();
        let dir = spec.dir.clone();
        let socket = launching.bridge.and_then(|bridge| bridge.args.last());
        let bridge_dir = socket
            .and_then(|path| Path::new(path).parent())
            .map(Path::to_owned);
        let (temp, confinement, notice) = (None, None, None);
        let restore = Vec::new();
        let mut prepared = Self {
            program,
            args,
            env,
            dir,
            mark,
            guard,
            files,
            temp,
            bridge_dir,
            restore,
            confinement,
            notice,
        };
        if spec.sandbox.confines_agent() {
            super::sandboxed::confine(
                &mut prepared,
                host,
                &super::sandboxed::SandboxRequest::new(spec, launch),
            )?;
        }
        Ok(prepared)
    }

    /// Prepares a short query of an agent, such as the one for its version.
    pub(crate) fn query(
        host: &Host,
        program: &Path,
        args: &[&str],
        session: &str,
    ) -> Result<Self, SpawnError> {
        let program = find(host, program, &[])?;
        let mark = format!("{SESSION_VARIABLE}={session}");
        let env = BTreeMap::from([(SESSION_VARIABLE.into(), session.into())]);
        let args = args.iter().map(OsString::from).collect();
        let guard = host.guard().cloned();
        let (files, restore, dir, temp, bridge_dir) = (Vec::new(), Vec::new(), None, None, None);
        Ok(Self {
            program,
            args,
            env,
            dir,
            mark,
            guard,
            files,
            temp,
            bridge_dir,
            restore,
            confinement: None,
            notice: None,
        })
    }

    /// Prepares a command of the caller, with the caller's environment.
    pub(crate) fn user_command(
        host: &Host,
        argv: &[String],
        dir: &Path,
    ) -> Result<Self, SpawnError> {
        let (program, args) = match argv {
            [program, args @ ..] => (program.as_str(), args),
            [] => ("", &[][..]),
        };
        // A relative path is relative to the directory in which the command runs.
        let wanted = if program.contains('/') {
            dir.join(program)
        } else {
            PathBuf::from(program)
        };
        let program = find(host, &wanted, &[])?;
        // The lookup is relative to this process, the start to the working directory.
        let program = std::path::absolute(&program).unwrap_or(program);
        check_dir(dir)?;
        let session = uuid::Uuid::new_v4().to_string();
        let mut env = host.user_command_environment();
        env.insert(SESSION_VARIABLE.into(), session.clone().into());
        let args = args.iter().map(OsString::from).collect();
        let (files, restore, dir, temp, bridge_dir) =
            (Vec::new(), Vec::new(), Some(dir.to_owned()), None, None);
        let (mark, guard) = (
            format!("{SESSION_VARIABLE}={session}"),
            host.guard().cloned(),
        );
        Ok(Self {
            program,
            args,
            env,
            dir,
            mark,
            guard,
            files,
            temp,
            bridge_dir,
            restore,
            confinement: None,
            notice: None,
        })
    }
}

/// Extends PATH if necessary, so that the agent can call a helper program by name.
fn add_helper_to_path(
    host: &Host,
    helper: &str,
    env: &mut BTreeMap<OsString, OsString>,
) -> Result<(), SpawnError> {
    let found = match host.find_helper(helper) {
        Lookup::Found(path) if executable(&path) => path,
        Lookup::Found(path) => return Err(SpawnError::NotExecutable(path)),
        Lookup::NotFound(searched) => {
            return Err(SpawnError::Missing {
                program: helper.to_owned(),
                searched,
            });
        }
    };
    let path = env.entry("PATH".into()).or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(path).collect();
    if let Some(dir) = found
        .parent()
        .filter(|dir| !dirs.iter().any(|known| known == dir))
    {
        dirs.push(dir.to_owned());
        *path = std::env::join_paths(dirs).unwrap_or_else(|_| path.clone());
    }
    Ok(())
}

fn find(host: &Host, program: &Path, natives: &[&str]) -> Result<PathBuf, SpawnError> {
    match host.find_native(program, natives) {
        Lookup::Found(path) if !executable(&path) => Err(SpawnError::NotExecutable(path)),
        Lookup::Found(path) if !is_program(&path) => Err(SpawnError::BadFormat(path)),
        Lookup::Found(path) => Ok(path),
        Lookup::NotFound(_) if program.components().count() > 1 => {
            Err(SpawnError::NoSuchFile(program.to_owned()))
        }
        Lookup::NotFound(searched) => Err(SpawnError::Missing {
            program: program.display().to_string(),
            searched,
        }),
    }
}

/// Returns true if the file starts like a program. Anything else the C library would pass to a
/// shell, which would interpret it line by line.
#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::io::Read;
    /// `#!` scripts, ELF, and Mach-O (64-bit, 32-bit, universal).
    const MAGIC: [&[u8]; 5] = [
        b"#!",
        b"\x7fELF",
        b"\xcf\xfa\xed\xfe",
        b"\xce\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ];
    let mut head = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut head)) {
        Ok(_) => MAGIC.iter().any(|magic| head.starts_with(magic)),
        Err(_) => true, // it may be executable without being readable
    }
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    !crate::host::is_shell_script(path, cfg!(windows))
}

fn check_dir(dir: &Path) -> Result<(), SpawnError> {
    let bad = |why: String| {
        Err(SpawnError::BadDirectory {
            path: dir.to_owned(),
            why,
        })
    };
    match dir.metadata() {
        Ok(meta) if meta.is_dir() && executable(dir) => Ok(()),
        Ok(meta) if meta.is_dir() => bad("permission denied".into()),
        Ok(_) => bad("it is not a directory".into()),
        Err(error) => bad(error.to_string()),
    }
}

fn argument(
    arg: &Arg,
    temp: &Path,
    files: &mut Vec<tempfile::NamedTempFile>,
) -> std::io::Result<OsString> {
    match arg {
        Arg::Plain(text) => Ok(text.into()),
        Arg::InFile { prefix, text } => {
            // `tempfile` creates files that only this user can read.
            let mut file = tempfile::Builder::new()
                .prefix("ostler-")
                .suffix(".txt")
                .tempfile_in(temp)?;
            file.write_all(text.as_bytes())?;
            let mut argument = OsString::from(prefix);
            argument.push(file.path());
            files.push(file);
            Ok(argument)
        }
    }
}
