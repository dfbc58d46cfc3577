//! Confinement of a child between fork and exec, and a process limit where the kernel enforces
//! none.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use ostler_tools::confine::{
    Confinement, ConfinementHandle, Layers, Namespaces, PreparedConfinement, Required, prepare,
};

/// Confines `command` between fork and exec. Hold the returned value until everything has ended.
pub(super) fn confine(
    command: &mut Command,
    confinement: &Confinement,
) -> io::Result<ConfinementHandle> {
    let (ready, held) = prepare(confinement)?;
    enter_before_exec(command, ready);
    Ok(held)
}

/// Enters the confinement right before exec. With a pid namespace, any later hook would run in
/// another process.
pub(super) fn enter_before_exec(command: &mut Command, ready: PreparedConfinement) {
    #[expect(
        unsafe_code,
        reason = "there is no safe way to run code between fork and exec"
    )]
    // SAFETY: `enter` is written for this: it only makes system calls and does not allocate.
    unsafe {
        command.pre_exec(move || ready.enter());
    }
}

/// Returns the sandbox layers that a child can enter on this machine.
///
/// Forks a child that enters them, reports, and never calls exec. If the namespaces cannot be
/// entered as a whole, they are disabled in the confinement.
pub(crate) fn probe(confinement: &mut Confinement) -> Layers {
    if let Ok(layers) = try_layers(confinement) {
        return layers;
    }
    confinement.namespaces = Namespaces::Skip;
    try_layers(confinement).unwrap_or_default()
}

fn try_layers(confinement: &Confinement) -> io::Result<Layers> {
    let confinement = Confinement {
        required: Required::Nothing,
        ..confinement.clone()
    };
    let (ready, held) = prepare(&confinement)?;
    let mut command = Command::new("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear();
    let enter = move || {
        ready
            .enter()
            .and_then(|()| Err(io::ErrorKind::Unsupported.into()))
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to run code between fork and exec"
    )]
    // SAFETY: `enter` is written for this: it only makes system calls and does not allocate.
    unsafe {
        command.pre_exec(enter);
    }
    match command.spawn() {
        Ok(mut child) => child.wait().map(|_| ())?, // unreachable: the closure always fails
        Err(error) => drop(error),
    }
    held.read_report()
        .layers
        .ok_or_else(|| io::Error::other("the sandbox layers could not be entered"))
}

/// A limit on the number of processes that the kernel does not enforce itself.
#[derive(Debug)]
pub(super) struct ProcessLimit {
    max: u64,
    tasks_at_start: u64,
    checks: u32,
}

impl ProcessLimit {
    /// Returns the limit to check, or `None` without one or if a cgroup or user namespace enforces
    /// it.
    pub(super) fn new(
        confinement: Option<&Confinement>,
        held: Option<&ConfinementHandle>,
        layers: Layers,
    ) -> Option<Self> {
        let max = confinement?.limits.processes?;
        if held.is_some_and(ConfinementHandle::counts_processes) || layers.has(Layers::USERS) {
            return None;
        }
        Some(Self {
            max,
            tasks_at_start: machine_tasks(),
            checks: 0,
        })
    }

    /// Returns true if the limit is exceeded. Counting scans every process of the machine, so it is
    /// mostly done when the machine as a whole has many more than at the start.
    pub(super) fn is_exceeded(&mut self, count: impl FnOnce() -> usize) -> bool {
        self.checks = self.checks.wrapping_add(1);
        let suspicious = machine_tasks() > self.tasks_at_start + self.max / 2;
        (suspicious || self.checks.is_multiple_of(20)) && count() as u64 > self.max
    }
}

/// Returns the number of threads on the machine, from the fourth field of `/proc/loadavg`.
fn machine_tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text
        .split_whitespace()
        .nth(3)
        .and_then(|field| field.split_once('/')?.1.parse().ok());
    tasks.unwrap_or(u64::MAX / 2)
}

/// A `process-wrap` wrapper that enters the confinement after the hooks of all other wrappers.
#[derive(Debug)]
pub(super) struct Confine(pub(super) Option<PreparedConfinement>);

impl process_wrap::tokio::CommandWrapper for Confine {
    fn pre_spawn(
        &mut self,
        command: &mut tokio::process::Command,
        _core: &process_wrap::tokio::CommandWrap,
    ) -> io::Result<()> {
        if let Some(ready) = self.0.take() {
            enter_before_exec(command.as_std_mut(), ready);
        }
        Ok(())
    }
}
