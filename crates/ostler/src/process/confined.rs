//! Confining a child between fork and exec, and the watch over the number of processes where the kernel does not limit it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use ostler_tools::confine::{Confinement, ConfinementHandle, Layers, Namespaces, PreparedConfinement, Required, prepare};

/// Has `command` confined between fork and exec. What is returned is to be held until everything has ended.
pub(super) fn confine(command: &mut Command, confinement: &Confinement) -> io::Result<ConfinementHandle> {
    let (ready, held) = prepare(confinement)?;
    enter_before_exec(command, ready);
    Ok(held)
}

/// The last thing that happens before exec: with a pid namespace, whatever came later would happen in another process.
pub(super) fn enter_before_exec(command: &mut Command, ready: PreparedConfinement) {
    #[expect(
        unsafe_code,
        reason = "there is no safe way to run code between fork and exec"
    )]
    // SAFETY: `enter` was made for this place: it only makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || ready.enter());
    }
}

/// Which layers a child would really enter here: one is forked, enters, reports, and is never executed. Namespaces that cannot be
/// entered as a whole are switched off in the confinement.
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
    // SAFETY: `enter` was made for this place: it only makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(enter);
    }
    match command.spawn() {
        Ok(mut child) => child.wait().map(|_| ())?, // cannot be: the closure never lets it come to exec
        Err(error) => drop(error),
    }
    held.read_report()
        .layers
        .ok_or_else(|| io::Error::other("the layers could not be entered"))
}

/// A limit on the number of processes that the kernel does not hold by itself.
#[derive(Debug)]
pub(super) struct Crowd {
    most: u64,
    tasks_before: u64,
    looks: u32,
}

impl Crowd {
    /// A watch, if the confinement has a limit and neither a cgroup nor a user namespace counts.
    pub(super) fn of(
        confinement: Option<&Confinement>,
        held: Option<&ConfinementHandle>,
        layers: Layers,
    ) -> Option<Self> {
        let most = confinement?.limits.processes?;
        if held.is_some_and(ConfinementHandle::counts_processes) || layers.has(Layers::USERS) {
            return None;
        }
        Some(Self {
            most,
            tasks_before: tasks(),
            looks: 0,
        })
    }

    /// Whether there are more than allowed. Counting looks at every process of the machine, so it is mostly done when the machine
    /// as a whole has many more than before.
    pub(super) fn is_too_large(&mut self, count: impl FnOnce() -> usize) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let suspicious = tasks() > self.tasks_before + self.most / 2;
        (suspicious || self.looks.is_multiple_of(20)) && count() as u64 > self.most
    }
}

/// How many threads the machine runs: the second half of the fourth word.
fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text
        .split_whitespace()
        .nth(3)
        .and_then(|word| word.split_once('/')?.1.parse().ok());
    tasks.unwrap_or(u64::MAX / 2)
}

/// Puts a child under a confinement from within `process-wrap`, after what its other wrappers do before exec.
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
