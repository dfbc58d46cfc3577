//! The list of attempts: what is tried, on what, and the expected result.

use super::scene::{Scene, TOKENS};

/// One attempt.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The layer that must stop it.
    pub(super) layer: &'static str,
    /// Name of the attempt, and its argument.
    pub(super) attempt: &'static str,
    pub(super) about: String,
    pub(super) expected: Expected,
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

type Row = (
    &'static str,
    &'static str,
    &'static str,
    (&'static str, String),
    Expected,
    &'static str,
);

/// Returns the attempts of an agent that is confined to its workspace.
pub(super) fn agent_plans(scene: &Scene) -> Vec<Plan> {
    let rows: Vec<Row> = vec![
        (
            "agent_write_inside",
            "write a file in the workspace",
            "agent",
            ("write", "made".to_owned()),
            Works,
            "",
        ),
        (
            "agent_write_outside",
            "write beside the workspace",
            "agent",
            ("write", scene.at("outside/new")),
            Refused,
            "",
        ),
        (
            "agent_hook",
            "leave a hook for git",
            "agent",
            ("write", ".git/hooks/pre-commit".to_owned()),
            Undone,
            "",
        ),
        (
            "agent_policy",
            "widen its policy",
            "agent",
            ("overwrite", ".ostler/sandbox.toml".to_owned()),
            Undone,
            "",
        ),
        (
            "agent_config",
            "configure Ostler",
            "agent",
            ("write", "ostler.toml".to_owned()),
            Undone,
            "",
        ),
        (
            "agent_key",
            "read a key in ~/.ssh",
            "agent",
            ("read", scene.at("home/.ssh/id_ed25519")),
            Refused,
            "",
        ),
    ];
    let tokens = TOKENS.iter().map(|(name, what, file)| {
        (
            *name,
            *what,
            "agent",
            ("read", scene.at(&format!("home/{file}"))),
            Refused,
            "",
        )
    });
    rows.into_iter().chain(tokens).map(plan).collect()
}

/// Returns the attempts of a command, in the order in which they are reported.
pub(super) fn plans(scene: &Scene) -> Vec<Plan> {
    let rows = files(scene)
        .into_iter()
        .chain(persistence())
        .chain(others(scene))
        .chain(machine());
    rows.map(plan).collect()
}

fn plan((name, what, layer, (attempt, about), expected, limits): Row) -> Plan {
    Plan {
        name,
        what,
        layer,
        attempt,
        about,
        expected,
        limits,
    }
}

#[expect(clippy::too_many_lines, reason = "one flat table")]
fn files(scene: &Scene) -> Vec<Row> {
    let at = |name: &str| scene.at(name);
    let temp = || scene.at("tmp-of-others");
    vec![
        (
            "write_inside",
            "write a file in the workspace",
            "files",
            ("write", "new".to_owned()),
            Works,
            "",
        ),
        (
            "run_system",
            "read the system's own files",
            "files",
            ("read", "/etc/passwd".to_owned()),
            Works,
            "",
        ),
        (
            "read_key",
            "read a key in ~/.ssh",
            "files",
            ("read", at("home/.ssh/id_ed25519")),
            Refused,
            "",
        ),
        (
            "read_home",
            "read another file in the home directory",
            "files",
            ("read", at("home/notes")),
            Refused,
            "",
        ),
        (
            "read_outside",
            "read a file beside the workspace",
            "files",
            ("read", at("outside/file")),
            Refused,
            "",
        ),
        (
            "read_shadow",
            "read the system's passwords",
            "files",
            ("read", "/etc/shadow".to_owned()),
            Refused,
            "",
        ),
        (
            "climb",
            "read it through ..",
            "files",
            ("read", "../outside/file".to_owned()),
            Refused,
            "",
        ),
        (
            "follow_link",
            "read it through a link",
            "files",
            ("read_through_link", at("outside/file")),
            Refused,
            "",
        ),
        (
            "hard_link",
            "link it into the workspace",
            "files",
            ("hard_link", at("outside/file")),
            Refused,
            "",
        ),
        (
            "proc_root",
            "read it through /proc/self/root",
            "files",
            ("read_through_proc", at("outside/file")),
            Refused,
            "",
        ),
        (
            "write_outside",
            "make a file beside the workspace",
            "files",
            ("write", at("outside/new")),
            Refused,
            "",
        ),
        (
            "overwrite",
            "change a file beside the workspace",
            "files",
            ("overwrite", at("outside/file")),
            Refused,
            "",
        ),
        (
            "remove",
            "remove a file beside the workspace",
            "files",
            ("remove", at("outside/file")),
            Refused,
            "",
        ),
        (
            "write_temp",
            "write to the shared temporary directory",
            "files",
            ("write", temp()),
            Refused,
            "",
        ),
        (
            "write_kernel",
            "change a setting of the kernel",
            "files",
            ("overwrite", "/proc/sys/vm/drop_caches".to_owned()),
            Refused,
            "",
        ),
        (
            "change_mode",
            "change the mode of a file outside",
            "attributes",
            ("change_mode", at("outside/file")),
            Refused,
            "",
        ),
    ]
}

/// Attempts to leave something behind that others run or obey.
fn persistence() -> Vec<Row> {
    vec![
        (
            "policy",
            "widen the policy of the next command",
            "protected files",
            ("overwrite", ".ostler/sandbox.toml".to_owned()),
            Undone,
            "",
        ),
        (
            "git_hook",
            "leave a hook for git to run",
            "protected files",
            ("write", ".git/hooks/pre-commit".to_owned()),
            Undone,
            "",
        ),
        (
            "nested_repository",
            "leave a repository that has git run a program",
            "protected files",
            ("plant_repository", "lib".to_owned()),
            Undone,
            "",
        ),
        (
            "configuration",
            "configure Ostler for the next session",
            "protected files",
            ("write", "ostler.toml".to_owned()),
            Undone,
            "",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "one flat table")]
fn others(scene: &Scene) -> Vec<Row> {
    let own = || scene.bystander();
    let none = String::new;
    vec![
        (
            "environment",
            "find a key in its environment",
            "environment",
            ("read_variable", "CANARY_API_KEY".to_owned()),
            Refused,
            "",
        ),
        (
            "other_environment",
            "read the environment of another process",
            "files",
            ("read_environment_of", own()),
            Refused,
            "",
        ),
        (
            "other_memory",
            "open the memory of another process",
            "files",
            ("read_memory_of", own()),
            Refused,
            "",
        ),
        (
            "signal",
            "signal another process",
            "signals",
            ("signal", own()),
            Refused,
            "",
        ),
        (
            "trace",
            "trace another process",
            "system_calls",
            ("trace", own()),
            Refused,
            "",
        ),
        (
            "priority",
            "lower another process's priority",
            "process_tree",
            ("set_priority", own()),
            Refused,
            "",
        ),
        (
            "scheduler",
            "change another process's scheduler",
            "process_tree",
            ("set_scheduler", own()),
            Refused,
            "",
        ),
        (
            "affinity",
            "bind another process to one CPU",
            "process_tree",
            ("set_affinity", own()),
            Refused,
            "",
        ),
        (
            "io_priority",
            "lower another process's I/O priority",
            "process_tree",
            ("set_io_priority", own()),
            Refused,
            "",
        ),
        (
            "tcp",
            "connect to a TCP service here",
            "network",
            ("connect_tcp", scene.tcp_port()),
            Refused,
            "",
        ),
        (
            "udp",
            "send a UDP packet",
            "network",
            ("send_udp", scene.udp_port()),
            Refused,
            "",
        ),
        (
            "local_socket",
            "connect to a service's local socket",
            "network",
            ("connect_local", scene.at("work/socket")),
            Refused,
            "",
        ),
        (
            "abstract_socket",
            "connect to an abstract socket",
            "network",
            ("connect_abstract", scene.abstract_name()),
            Refused,
            "",
        ),
        (
            "datagram_pair",
            "reach a local server through a pair of datagram sockets",
            "network",
            ("datagram_pair", scene.at("work/datagrams")),
            Refused,
            "",
        ),
        (
            "raw_pair",
            "reach it through a pair of raw sockets",
            "network",
            ("raw_pair", scene.at("work/datagrams")),
            Refused,
            "",
        ),
        (
            "raw_socket",
            "open a raw socket",
            "network",
            ("raw_socket", none()),
            Refused,
            "",
        ),
        (
            "packet_socket",
            "open a packet socket",
            "network",
            ("packet_socket", none()),
            Refused,
            "",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "one flat table")]
fn machine() -> Vec<Row> {
    let none = String::new;
    vec![
        (
            "set_user_id",
            "leave a program that runs as its owner",
            "system_calls",
            ("set_user_id", "program".to_owned()),
            Refused,
            "",
        ),
        (
            "unnamed_set_user_id",
            "leave one whose mode was set before it was renamed",
            "system_calls",
            ("unnamed_set_user_id", "planted".to_owned()),
            Refused,
            "",
        ),
        (
            "mount",
            "mount a file system",
            "system_calls",
            ("mount", none()),
            Refused,
            "",
        ),
        (
            "namespace",
            "create a namespace",
            "system_calls",
            ("new_namespace", none()),
            Refused,
            "",
        ),
        (
            "io_uring",
            "bypass the filter with io_uring",
            "system_calls",
            ("io_uring", none()),
            Refused,
            "",
        ),
        (
            "clock",
            "set the clock",
            "system_calls",
            ("set_clock", none()),
            Refused,
            "",
        ),
        (
            "kernel_log",
            "read the kernel's log",
            "system_calls",
            ("kernel_log", none()),
            Refused,
            "",
        ),
        (
            "other_user",
            "become another user",
            "privileges",
            ("other_user", none()),
            Refused,
            "",
        ),
        (
            "long_file",
            "write a file beyond its limit",
            "limits",
            ("long_file", "2000000".to_owned()),
            Refused,
            "file_size_mb = 1",
        ),
        (
            "open_files",
            "open files beyond their limit",
            "limits",
            ("open_files", "200".to_owned()),
            Refused,
            "open_files = 64",
        ),
        (
            "compute",
            "use CPU time beyond its limit",
            "limits",
            ("compute", none()),
            Refused,
            "cpu_seconds = 1",
        ),
        (
            "processes",
            "start processes beyond their limit",
            "processes",
            ("processes", "120".to_owned()),
            Refused,
            "processes = 40",
        ),
        (
            "memory",
            "use memory beyond its limit",
            "limits",
            ("memory", "96".to_owned()),
            Refused,
            "memory_mb = 64",
        ),
        (
            "stay",
            "leave a process behind",
            "process_tree",
            ("stay", none()),
            Undone,
            "",
        ),
        (
            "storm",
            "leave many busy processes that plant a hook",
            "process_tree",
            ("storm", ".git/hooks/pre-commit".to_owned()),
            Undone,
            "",
        ),
    ]
}
