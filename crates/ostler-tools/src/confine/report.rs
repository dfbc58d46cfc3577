//! Report of what is enforced on this machine, and by what.

use serde::Serialize;

use super::{Confinement, Layers, Network, Rlimits};

/// A protection, and what enforces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Name of the protection: `files`, `attributes`, `network`, `signals`, `process_tree`,
    /// `system_calls`, `privileges`, `processes`, `limits`.
    pub name: &'static str,
    /// Mechanism that enforces it or, if none does, the reason.
    pub by: String,
    /// Whether it is enforced completely.
    pub enforced: bool,
}

/// All protections of a confinement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Protections, in the order of importance.
    pub layers: Vec<Layer>,
}

/// Properties of a machine that affect a confinement, besides the layers a process entered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// Kernel's version of Landlock; 0 for none.
    pub landlock: u8,
    /// Whether commands run as root.
    pub root: bool,
    /// Whether a cgroup counts processes.
    pub cgroup: bool,
}

impl Report {
    /// Returns the protections that are missing or incomplete.
    pub fn gaps(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| !layer.enforced)
    }

    /// Returns the gaps on one line, each with its reason.
    #[must_use]
    pub fn gaps_line(&self) -> String {
        self.gaps()
            .map(|gap| format!("{} ({})", gap.name, gap.by))
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Describes the protections of a process that has entered `layers`.
    #[must_use]
    pub fn new(confinement: &Confinement, layers: Layers, machine: Machine) -> Self {
        let mut all = vec![
            files(layers, machine),
            attributes(layers),
            network(confinement.network, layers, machine),
            signals(layers, machine),
            process_tree(layers),
            system_calls(layers),
            layer("privileges", true, "no_new_privs, no capabilities"),
        ];
        if confinement.limits.processes.is_some() {
            all.push(layer("processes", true, processes(layers, machine)));
        }
        if confinement.limits != Rlimits::default() {
            all.push(layer("limits", true, "rlimit"));
        }
        Self { layers: all }
    }
}

fn layer(name: &'static str, enforced: bool, by: impl Into<String>) -> Layer {
    Layer {
        name,
        by: by.into(),
        enforced,
    }
}

fn files(layers: Layers, Machine { landlock, .. }: Machine) -> Layer {
    let entered = layers.has(Layers::LANDLOCK);
    match (entered, layers.confine_files(landlock)) {
        (_, true) => layer("files", true, format!("Landlock {landlock}")),
        (true, false) => layer(
            "files",
            false,
            format!("Landlock {landlock}: files outside can be truncated (until Linux 6.2)"),
        ),
        (false, _) if landlock == 0 => layer(
            "files",
            false,
            missing("no Landlock: it needs Linux 5.13, and must not be disabled or filtered"),
        ),
        (false, _) => layer("files", false, "Landlock refused the rules"),
    }
}

fn attributes(layers: Layers) -> Layer {
    match layers.has(Layers::MOUNTS) {
        true => layer("attributes", true, "read-only mounts"),
        false => layer(
            "attributes",
            false,
            "no mount namespace: owner, mode and times of files outside can change (a container's \
             profile may forbid it)",
        ),
    }
}

fn network(network: Network, layers: Layers, Machine { landlock, .. }: Machine) -> Layer {
    let filters = layers.has(Layers::SECCOMP);
    if network == Network::All {
        let by = if filters {
            "open; local sockets closed by seccomp"
        } else {
            "open, local sockets too: no seccomp"
        };
        return layer("network", filters, by);
    }
    let parts = [
        (filters, "seccomp".to_owned()),
        (
            layers.has(Layers::NETWORK),
            "empty network namespace".to_owned(),
        ),
        (
            layers.has(Layers::LANDLOCK) && landlock >= 4,
            format!("Landlock {landlock} (TCP)"),
        ),
    ];
    let by: Vec<String> = parts
        .into_iter()
        .filter(|(is_entered, _)| *is_entered)
        .map(|(_, by)| by)
        .collect();
    match (filters, by.is_empty()) {
        (true, _) => layer("network", true, by.join(", ")),
        (false, true) => layer("network", false, "nothing"),
        // A server's local socket is a file, which neither of these protects.
        (false, false) => layer(
            "network",
            false,
            format!("{}; local sockets open: no seccomp", by.join(", ")),
        ),
    }
}

fn signals(layers: Layers, Machine { landlock, .. }: Machine) -> Layer {
    match (
        layers.has(Layers::PIDS),
        layers.has(Layers::LANDLOCK) && landlock >= 6,
    ) {
        (true, _) => layer("signals", true, "pid namespace"),
        (false, true) => layer("signals", true, format!("Landlock {landlock}")),
        (false, false) => layer(
            "signals",
            false,
            "neither a pid namespace nor Landlock 6 (Linux 6.12)",
        ),
    }
}

fn process_tree(layers: Layers) -> Layer {
    match (layers.has(Layers::PIDS), layers.has(Layers::PROC)) {
        (true, true) => layer("process_tree", true, "pid namespace with its own /proc"),
        (true, false) => layer(
            "process_tree",
            true,
            "pid namespace; other processes can be seen in /proc",
        ),
        (false, _) => layer(
            "process_tree",
            false,
            "no pid namespace: leftover processes are searched for and killed",
        ),
    }
}

fn system_calls(layers: Layers) -> Layer {
    match layers.has(Layers::SECCOMP) {
        true => layer("system_calls", true, "seccomp"),
        false => layer(
            "system_calls",
            false,
            missing("the kernel or this machine's architecture has no seccomp filter"),
        ),
    }
}

/// Returns the reason why a layer is missing: the machine, or this build.
fn missing(on_this_machine: &'static str) -> &'static str {
    if cfg!(feature = "sandbox") {
        on_this_machine
    } else {
        "this build has none: enable the feature `sandbox`"
    }
}

/// Returns the mechanism that limits the number of processes.
fn processes(layers: Layers, machine: Machine) -> &'static str {
    match (machine.root, machine.cgroup, layers.has(Layers::USERS)) {
        (true, true, _) => "pids cgroup",
        (true, false, _) => "a watchdog that kills all when there are too many",
        (false, _, true) => "rlimit in a user namespace",
        (false, _, false) => "rlimit for the user, and a watchdog",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(layers: Layers, landlock: u8) -> Vec<&'static str> {
        let confinement = Confinement::default();
        let report = Report::new(
            &confinement,
            layers,
            Machine {
                landlock,
                root: true,
                cgroup: false,
            },
        );
        report.gaps().map(|gap| gap.name).collect()
    }

    // A layer that a process did not enter is a gap, whatever the machine's settings promise.
    #[test]
    fn gaps_follow_the_entered_layers() {
        let all = Layers::LANDLOCK
            .with(Layers::MOUNTS)
            .with(Layers::NETWORK)
            .with(Layers::PIDS)
            .with(Layers::SECCOMP);
        assert_eq!(report(all, 7), [""; 0]);
        let docker = Layers::LANDLOCK.with(Layers::SECCOMP);
        assert_eq!(report(docker, 7), ["attributes", "process_tree"]);
        assert_eq!(
            report(docker, 2),
            ["files", "attributes", "signals", "process_tree"]
        );
        let nothing = [
            "files",
            "attributes",
            "network",
            "signals",
            "process_tree",
            "system_calls",
        ];
        assert_eq!(report(Layers::default(), 7), nothing);
    }
}
