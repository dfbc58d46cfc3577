//! The one place that reads the environment of this process.
//!
//! | variable | what it does |
//! |---|---|
//! | `PATH` | where agents are looked for |
//! | `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM` | colours, as usual |
//! | `OSTLER_STATE_DIR`, `XDG_STATE_HOME`, `HOME` | where sessions are kept (`docs/sessions.md`), and which files are trusted |
//! | `TERM=dumb`, `CI` | no live status line |
//! | `OSTLER_CONFIG_DIR`, `XDG_CONFIG_HOME`, `HOME` | where your own settings are |
//! | `OSTLER_COMPLETE` | set by the script of `ostler completions`: the shell that asks for candidates |
//! | `OSTLER_AGENT`, `OSTLER_MODEL` | the agent and the model, where no flag names them: `docs/configuration.md` |
//!
//! Agents get a part of the environment: see `docs/environment.md`.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the door to the environment"
)]

use std::ffi::OsString;
use std::path::PathBuf;

use ostler::event::At;
use ostler::{BridgeProgram, GuardProgram, Host};

/// The first argument that makes this program the guard of an agent.
pub(crate) const GUARD_ROLE: &str = "__guard";

/// The first argument that makes this program the bridge from an agent to the caller's tools.
pub(crate) const BRIDGE_ROLE: &str = "__bridge";

/// The first argument that makes this program try to get out of the sandbox it was started in.
#[cfg(target_os = "linux")]
pub(crate) const ATTEMPT_ROLE: &str = "__attempt";

/// This program as the one that tries to get out.
#[cfg(target_os = "linux")]
pub(crate) fn attempter() -> std::io::Result<GuardProgram> {
    Ok(GuardProgram {
        program: std::env::current_exe()?,
        args: vec![ATTEMPT_ROLE.into()],
    })
}

/// The variable that makes this program answer a shell that completes a command line.
pub(crate) const COMPLETE_VARIABLE: &str = "OSTLER_COMPLETE";

/// The shell that asks for candidates.
pub(crate) fn completing() -> Option<String> {
    std::env::var(COMPLETE_VARIABLE)
        .ok()
        .filter(|shell| !shell.is_empty())
}

/// The position of the word that is being completed, and what stands between two candidates, as bash wants it.
pub(crate) fn completing_in_bash() -> (usize, String) {
    let index = std::env::var("_CLAP_COMPLETE_INDEX")
        .ok()
        .and_then(|index| index.parse().ok());
    (
        index.unwrap_or_default(),
        std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned()),
    )
}

/// The arguments of this process.
pub(crate) fn args() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// The surroundings in which agents are started: this environment, under the guard of this program.
pub(crate) fn host() -> Host {
    guarded(Host::new(std::env::vars_os()))
}

/// Under the guard of this program, with its helpers and its bridge.
fn guarded(mut host: Host) -> Host {
    if let Ok(own) = std::env::current_exe() {
        if let Some(dir) = own.parent() {
            host = host.with_helpers(dir.to_owned());
        }
        host = host.with_bridge(BridgeProgram {
            program: own,
            args: vec![BRIDGE_ROLE.into()],
        });
    }
    match guard_program() {
        Some(program) if cfg!(target_os = "linux") => host.with_guard(GuardProgram {
            program,
            args: vec![GUARD_ROLE.into()],
        }),
        _ => host,
    }
}

/// Surroundings with nothing of this environment but where programs are and how text looks, and with these variables.
pub(crate) fn host_of(variables: Vec<(String, String)>) -> Host {
    let kept = ["PATH", "LANG", "LC_ALL", "TMPDIR"].into_iter();
    let kept = kept.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let set = variables
        .into_iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    guarded(Host::new(kept.chain(set)))
}

/// The processes of a session that are still there. Empty where the system does not show the environment of processes.
pub(crate) fn left_of(session: &str) -> Vec<u32> {
    let mark = format!("{}={session}", ostler::SESSION_VARIABLE);
    let is_marked = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_marked)
        .collect()
}

/// This program's own file. `/proc/self/exe` still works when the file was replaced by an update meanwhile.
fn guard_program() -> Option<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        Some(link)
    } else {
        std::env::current_exe().ok()
    }
}

/// The directory this program was started in.
pub(crate) fn directory() -> std::io::Result<PathBuf> {
    std::env::current_dir()
}

/// Where the user's own settings are, if the environment tells.
pub(crate) fn config_dir() -> Option<PathBuf> {
    let own = std::env::var_os("OSTLER_CONFIG_DIR").filter(|dir| !dir.is_empty());
    own.map(PathBuf::from)
        .or_else(|| Some(absolute("XDG_CONFIG_HOME")?.join("ostler")))
        .or_else(|| Some(home()?.join(".config/ostler")))
}

/// The home directory.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// The directory that sessions are kept in; none when nothing says where.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let own = std::env::var_os("OSTLER_STATE_DIR").filter(|dir| !dir.is_empty());
    own.map(|dir| std::path::absolute(&dir).unwrap_or(dir.into()))
        .or_else(|| Some(absolute("XDG_STATE_HOME")?.join("ostler")))
        .or_else(|| Some(home()?.join(".local/state/ostler")))
}

/// A variable that names a directory. What is not absolute is passed over, as the XDG specification asks.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
}

/// The time now, for "3 min ago".
pub(crate) fn now() -> At {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    At(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether a continuous-integration job runs this program.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|v| !v.is_empty() && v != "false" && v != "0")
}

/// One variable, for `--env NAME`.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The signals that this process was started to ignore, one bit each, the first for signal 1. Where nothing tells, none.
#[cfg(unix)]
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Whether the terminal can move its cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
