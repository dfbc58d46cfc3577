//! Access to the process environment; no other module reads it.
//!
//! | variable | purpose |
//! |---|---|
//! | `PATH` | where agents are searched |
//! | `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM` | colours, by the usual conventions |
//! | `XDG_CACHE_HOME`, `TMPDIR` | repositories and workspaces of evaluations: `docs/eval-runs.md` |
//! | `OSTLER_STATE_DIR`, `XDG_STATE_HOME`, `HOME` | session store: `docs/sessions.md` |
//! | `TERM=dumb`, `CI` | no live status line |
//! | `OSTLER_CONFIG_DIR`, `XDG_CONFIG_HOME`, `HOME` | where the user's settings are |
//! | `OSTLER_COMPLETE` | set by the completion script: the shell that requests candidates |
//! | `OSTLER_LOG`, `OSTLER_LOG_FILE` | the log: `docs/debugging.md` |
//! | `DISPLAY`, `WAYLAND_DISPLAY`, `BROWSER` | whether `ostler open` can open a browser |
//! | `OSTLER_AGENT`, `OSTLER_MODEL` | default agent and model: `docs/configuration.md` |
//!
//! Agents get a filtered environment: see `docs/environment.md`.

#![expect(
    clippy::disallowed_methods,
    reason = "this module is the only access to the environment"
)]

use std::ffi::OsString;
use std::path::PathBuf;

use ostler::Host;
use ostler::event::Timestamp;
use ostler::host::{BridgeProgram, GuardProgram};

/// First argument that runs this program as the guard of an agent.
pub(crate) const GUARD_ROLE: &str = "__guard";

/// First argument that runs this program as the bridge from an agent to the caller's tools.
pub(crate) const BRIDGE_ROLE: &str = "__bridge";

/// First argument that runs this program as an escape attempt from inside a sandbox.
#[cfg(target_os = "linux")]
pub(crate) const ATTEMPT_ROLE: &str = "__attempt";

/// Returns this program as the one that attempts to escape.
#[cfg(target_os = "linux")]
pub(crate) fn attempter() -> std::io::Result<GuardProgram> {
    Ok(GuardProgram {
        program: std::env::current_exe()?,
        args: vec![ATTEMPT_ROLE.into()],
    })
}

/// Environment variable that makes this program print completion candidates.
pub(crate) const COMPLETE_VARIABLE: &str = "OSTLER_COMPLETE";

/// Returns the shell that requests completion candidates.
pub(crate) fn completing() -> Option<String> {
    std::env::var(COMPLETE_VARIABLE)
        .ok()
        .filter(|shell| !shell.is_empty())
}

/// Returns the index of the word being completed and the separator between candidates, for bash.
pub(crate) fn completing_in_bash() -> (usize, String) {
    let index = std::env::var("_CLAP_COMPLETE_INDEX")
        .ok()
        .and_then(|index| index.parse().ok());
    (
        index.unwrap_or_default(),
        std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned()),
    )
}

/// Returns the arguments of this process.
pub(crate) fn args() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// Returns the host that starts agents: this environment, with this program as guard and bridge.
pub(crate) fn host() -> Host {
    with_programs(Host::new(std::env::vars_os()))
}

/// Adds this program as guard and bridge, and its directory for helper programs.
fn with_programs(mut host: Host) -> Host {
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
        Some(guard) => host.with_guard(guard),
        None => host,
    }
}

/// Starts the guard server, so that it is ready when an agent starts.
pub(crate) fn start_guard() {
    #[cfg(target_os = "linux")]
    if let Some(guard) = guard_program() {
        ostler::guard::start(&guard);
    }
}

/// Forks the guard server at the start of `main`. Returns the exit code in the processes that are
/// forked here.
pub(crate) fn fork_guard() -> Option<i32> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = guard_program() {
        return ostler::guard::fork_server(&guard);
    }
    None
}

/// Returns a host with these variables. Only `PATH`, locale and `TMPDIR` are inherited.
pub(crate) fn host_of(variables: Vec<(String, String)>) -> Host {
    let inherited = ["PATH", "LANG", "LC_ALL", "TMPDIR"].into_iter();
    let inherited =
        inherited.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let set = variables.into_iter();
    let set = set.map(|(name, value)| (name.into(), value.into()));
    with_programs(Host::new(inherited.chain(set)))
}

/// Returns the processes of a session that are still running. Empty on systems that do not expose
/// the environment of processes.
pub(crate) fn left_of(session: &str) -> Vec<u32> {
    let mark = format!("{}={session}", ostler::host::SESSION_VARIABLE);
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

/// Returns this program as the guard, on Linux. `/proc/self/exe` works even after an update
/// replaced the file.
fn guard_program() -> Option<GuardProgram> {
    let link = PathBuf::from("/proc/self/exe");
    let program = if link.exists() {
        link
    } else {
        std::env::current_exe().ok()?
    };
    cfg!(target_os = "linux").then(|| GuardProgram {
        program,
        args: vec![GUARD_ROLE.into()],
    })
}

/// Returns the current directory.
pub(crate) fn directory() -> std::io::Result<PathBuf> {
    std::env::current_dir()
}

/// Returns the user's configuration directory, if the environment defines one.
pub(crate) fn config_dir() -> Option<PathBuf> {
    user_dir("OSTLER_CONFIG_DIR", "XDG_CONFIG_HOME", ".config/ostler")
}

/// Returns a directory of the user: from Ostler's own variable, from the XDG specification's, or
/// below the home directory.
fn user_dir(own: &str, xdg: &str, in_home: &str) -> Option<PathBuf> {
    let own = std::env::var_os(own).filter(|dir| !dir.is_empty());
    own.map(PathBuf::from)
        .or_else(|| Some(absolute(xdg)?.join("ostler")))
        .or_else(|| Some(home()?.join(in_home)))
}

/// Returns the home directory.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// Returns the directory that sessions are stored in, if the environment defines one.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let dir = user_dir("OSTLER_STATE_DIR", "XDG_STATE_HOME", ".local/state/ostler")?;
    Some(std::path::absolute(&dir).unwrap_or(dir))
}

/// Returns the directory for files that can be created again, if the environment defines one.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(home()?.join(".cache")))
        .map(|dir| dir.join("ostler"))
}

/// Returns the directory for the workspaces of an evaluation. It is outside the home directory, so
/// that agents find no instructions above their workspace.
pub(crate) fn work_dir() -> PathBuf {
    #[cfg(unix)]
    let user = rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let user = 0;
    std::env::temp_dir().join(format!("ostler-eval-{user}"))
}

/// Returns the path of the daemon's socket. Each state directory has its own.
pub(crate) fn daemon_socket() -> Option<PathBuf> {
    let state = state_dir()?;
    let runtime = absolute("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir());
    let own = std::env::var_os("OSTLER_STATE_DIR").filter(|dir| !dir.is_empty());
    let dir = match (runtime, own) {
        (None, _) => state.join("run"),
        (Some(runtime), None) => runtime.join("ostler"),
        (Some(runtime), Some(_)) => runtime.join(format!("ostler-{:016x}", fnv(&state))),
    };
    Some(dir.join("daemon.sock"))
}

/// Returns a hash (FNV-1a) of a path that is the same in every version.
fn fnv(path: &std::path::Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the system's program that opens links in the user's browser. On Linux, there is none
/// without a display, unless the user names a browser.
pub(crate) fn url_opener() -> Option<PathBuf> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
        .into_iter()
        .any(is_set);
    let name = if cfg!(target_os = "macos") {
        "open"
    } else if has_display {
        "xdg-open"
    } else {
        return None;
    };
    let path = std::env::var_os("PATH")?;
    let mut candidates = std::env::split_paths(&path).map(|dir| dir.join(name));
    candidates.find(|candidate| candidate.is_absolute() && candidate.is_file())
}

/// Returns the path of this program.
pub(crate) fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

/// Returns a directory variable. Relative paths are ignored, as the XDG specification requires.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
}

/// Returns the current time, for "3 min ago".
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns true in a continuous-integration job.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|v| !v.is_empty() && v != "false" && v != "0")
}

/// Returns one variable, for `--env NAME`.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the signals that were ignored at startup, as a bit mask whose lowest bit is signal 1.
/// Zero if the system does not expose them.
#[cfg(unix)]
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Returns true if the terminal cannot move its cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
