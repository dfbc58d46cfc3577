//! The list of attempts: what is tried, on what, and the expected result.

use super::scene::{Scene, TOKENS};

/// One attempt.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The layer that must stop it.
    pub(super) layer: &'static str,
    pub(super) expected: Expected,
    /// Name of the attempt, and its argument.
    pub(super) attempt: &'static str,
    pub(super) about: String,
    /// Settings of the section `[sandbox]` that it is about.
    pub(super) limits: &'static str,
}

/// Expected result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Works,
    Refused,
    /// Refused, or undone once the command has ended.
    Undone,
}

use Expected::{Refused, Undone, Works};

/// Name, description, layer, expected result, attempt, and its argument with the places that
/// [`Scene::fill`] fills in.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    Expected,
    &'static str,
    &'static str,
);

/// Attempts of an agent that is confined to its workspace.
const AGENT: &[Row] = &[
    (
        "agent_write_inside",
        "write a file in the workspace",
        "agent",
        Works,
        "write",
        "made",
    ),
    (
        "agent_write_outside",
        "write beside the workspace",
        "agent",
        Refused,
        "write",
        "{root}/outside/new",
    ),
    (
        "agent_hook",
        "leave a hook for git",
        "agent",
        Undone,
        "write",
        ".git/hooks/pre-commit",
    ),
    (
        "agent_policy",
        "widen its policy",
        "agent",
        Undone,
        "overwrite",
        ".ostler/sandbox.toml",
    ),
    (
        "agent_config",
        "configure Ostler",
        "agent",
        Undone,
        "write",
        "ostler.toml",
    ),
    (
        "agent_key",
        "read a key in ~/.ssh",
        "agent",
        Refused,
        "read",
        "{root}/home/.ssh/id_ed25519",
    ),
];

/// Attempts of a command, in the order in which they are reported.
const COMMAND: &[Row] = &[
    (
        "write_inside",
        "write a file in the workspace",
        "files",
        Works,
        "write",
        "new",
    ),
    (
        "run_system",
        "read the system's own files",
        "files",
        Works,
        "read",
        "/etc/passwd",
    ),
    (
        "read_key",
        "read a key in ~/.ssh",
        "files",
        Refused,
        "read",
        "{root}/home/.ssh/id_ed25519",
    ),
    (
        "read_home",
        "read another file in the home directory",
        "files",
        Refused,
        "read",
        "{root}/home/notes",
    ),
    (
        "read_outside",
        "read a file beside the workspace",
        "files",
        Refused,
        "read",
        "{root}/outside/file",
    ),
    (
        "read_shadow",
        "read the system's passwords",
        "files",
        Refused,
        "read",
        "/etc/shadow",
    ),
    (
        "climb",
        "read it through ..",
        "files",
        Refused,
        "read",
        "../outside/file",
    ),
    (
        "follow_link",
        "read it through a link",
        "files",
        Refused,
        "read_through_link",
        "{root}/outside/file",
    ),
    (
        "hard_link",
        "link it into the workspace",
        "files",
        Refused,
        "hard_link",
        "{root}/outside/file",
    ),
    (
        "proc_root",
        "read it through /proc/self/root",
        "files",
        Refused,
        "read_through_proc",
        "{root}/outside/file",
    ),
    (
        "write_outside",
        "make a file beside the workspace",
        "files",
        Refused,
        "write",
        "{root}/outside/new",
    ),
    (
        "overwrite",
        "change a file beside the workspace",
        "files",
        Refused,
        "overwrite",
        "{root}/outside/file",
    ),
    (
        "remove",
        "remove a file beside the workspace",
        "files",
        Refused,
        "remove",
        "{root}/outside/file",
    ),
    (
        "write_temp",
        "write to the shared temporary directory",
        "files",
        Refused,
        "write",
        "{root}/tmp-of-others",
    ),
    (
        "write_kernel",
        "change a setting of the kernel",
        "files",
        Refused,
        "overwrite",
        "/proc/sys/vm/drop_caches",
    ),
    (
        "change_mode",
        "change the mode of a file outside",
        "attributes",
        Refused,
        "change_mode",
        "{root}/outside/file",
    ),
    // Attempts to leave something behind that others run or obey.
    (
        "policy",
        "widen the policy of the next command",
        "protected files",
        Undone,
        "overwrite",
        ".ostler/sandbox.toml",
    ),
    (
        "git_hook",
        "leave a hook for git to run",
        "protected files",
        Undone,
        "write",
        ".git/hooks/pre-commit",
    ),
    (
        "nested_repository",
        "leave a repository that has git run a program",
        "protected files",
        Undone,
        "plant_repository",
        "lib",
    ),
    (
        "configuration",
        "configure Ostler for the next session",
        "protected files",
        Undone,
        "write",
        "ostler.toml",
    ),
    // Attempts on other processes and services.
    (
        "environment",
        "find a key in its environment",
        "environment",
        Refused,
        "read_variable",
        "CANARY_API_KEY",
    ),
    (
        "other_environment",
        "read the environment of another process",
        "files",
        Refused,
        "read_environment_of",
        "{process}",
    ),
    (
        "other_memory",
        "open the memory of another process",
        "files",
        Refused,
        "read_memory_of",
        "{process}",
    ),
    (
        "signal",
        "signal another process",
        "signals",
        Refused,
        "signal",
        "{process}",
    ),
    (
        "trace",
        "trace another process",
        "system_calls",
        Refused,
        "trace",
        "{process}",
    ),
    (
        "priority",
        "lower another process's priority",
        "process_tree",
        Refused,
        "set_priority",
        "{process}",
    ),
    (
        "scheduler",
        "change another process's scheduler",
        "process_tree",
        Refused,
        "set_scheduler",
        "{process}",
    ),
    (
        "affinity",
        "bind another process to one CPU",
        "process_tree",
        Refused,
        "set_affinity",
        "{process}",
    ),
    (
        "io_priority",
        "lower another process's I/O priority",
        "process_tree",
        Refused,
        "set_io_priority",
        "{process}",
    ),
    (
        "tcp",
        "connect to a TCP service here",
        "network",
        Refused,
        "connect_tcp",
        "{tcp}",
    ),
    (
        "udp",
        "send a UDP packet",
        "network",
        Refused,
        "send_udp",
        "{udp}",
    ),
    (
        "local_socket",
        "connect to a service's local socket",
        "network",
        Refused,
        "connect_local",
        "{root}/work/socket",
    ),
    (
        "abstract_socket",
        "connect to an abstract socket",
        "network",
        Refused,
        "connect_abstract",
        "{abstract}",
    ),
    (
        "datagram_pair",
        "reach a local server through a pair of datagram sockets",
        "network",
        Refused,
        "datagram_pair",
        "{root}/work/datagrams",
    ),
    (
        "raw_pair",
        "reach it through a pair of raw sockets",
        "network",
        Refused,
        "raw_pair",
        "{root}/work/datagrams",
    ),
    (
        "raw_socket",
        "open a raw socket",
        "network",
        Refused,
        "raw_socket",
        "",
    ),
    (
        "packet_socket",
        "open a packet socket",
        "network",
        Refused,
        "packet_socket",
        "",
    ),
    // Attempts on the machine and its resources.
    (
        "set_user_id",
        "leave a program that runs as its owner",
        "system_calls",
        Refused,
        "set_user_id",
        "program",
    ),
    (
        "unnamed_set_user_id",
        "leave one whose mode was set before it was renamed",
        "system_calls",
        Refused,
        "unnamed_set_user_id",
        "planted",
    ),
    (
        "mount",
        "mount a file system",
        "system_calls",
        Refused,
        "mount",
        "",
    ),
    (
        "namespace",
        "create a namespace",
        "system_calls",
        Refused,
        "new_namespace",
        "",
    ),
    (
        "io_uring",
        "bypass the filter with io_uring",
        "system_calls",
        Refused,
        "io_uring",
        "",
    ),
    (
        "clock",
        "set the clock",
        "system_calls",
        Refused,
        "set_clock",
        "",
    ),
    (
        "kernel_log",
        "read the kernel's log",
        "system_calls",
        Refused,
        "kernel_log",
        "",
    ),
    (
        "other_user",
        "become another user",
        "privileges",
        Refused,
        "other_user",
        "",
    ),
    (
        "long_file",
        "write a file beyond its limit",
        "limits",
        Refused,
        "long_file",
        "2000000",
    ),
    (
        "open_files",
        "open files beyond their limit",
        "limits",
        Refused,
        "open_files",
        "200",
    ),
    (
        "compute",
        "use CPU time beyond its limit",
        "limits",
        Refused,
        "compute",
        "",
    ),
    (
        "processes",
        "start processes beyond their limit",
        "processes",
        Refused,
        "processes",
        "120",
    ),
    (
        "memory",
        "use memory beyond its limit",
        "limits",
        Refused,
        "memory",
        "96",
    ),
    (
        "stay",
        "leave a process behind",
        "process_tree",
        Undone,
        "stay",
        "",
    ),
    (
        "storm",
        "leave many busy processes that plant a hook",
        "process_tree",
        Undone,
        "storm",
        ".git/hooks/pre-commit",
    ),
];

/// Settings of attempts that are about a limit.
const LIMITS: &[(&str, &str)] = &[
    ("long_file", "file_size_mb = 1"),
    ("open_files", "open_files = 64"),
    ("compute", "cpu_seconds = 1"),
    ("processes", "processes = 40"),
    ("memory", "memory_mb = 64"),
];

/// Returns the attempts of an agent, and those to read the tokens of agents.
pub(super) fn agent_plans(scene: &Scene) -> Vec<Plan> {
    let tokens = TOKENS.iter().map(|(name, what, file)| Plan {
        about: scene.at(&format!("home/{file}")),
        ..plan(scene, &(name, what, "agent", Refused, "read", ""))
    });
    let rows = AGENT.iter().map(|row| plan(scene, row));
    rows.chain(tokens).collect()
}

/// Returns the attempts of a command.
pub(super) fn plans(scene: &Scene) -> Vec<Plan> {
    COMMAND.iter().map(|row| plan(scene, row)).collect()
}

fn plan(scene: &Scene, row: &Row) -> Plan {
    let (name, what, layer, expected, attempt, about) = *row;
    let limits = LIMITS.iter().find(|(limited, _)| *limited == name);
    Plan {
        name,
        what,
        layer,
        expected,
        attempt,
        about: scene.fill(about),
        limits: limits.map_or("", |(_, limits)| limits),
    }
}
