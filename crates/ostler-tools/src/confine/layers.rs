//! Layers of a confinement: those a process has entered, and those it must enter before exec.

use serde::{Deserialize, Serialize};

use super::Network;

/// Layers that a process has entered, as it reports them itself before exec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers(u8);

impl Layers {
    /// Landlock rules for files.
    pub const LANDLOCK: Self = Self(1);
    /// A mount namespace that is read-only outside the writable paths.
    pub const MOUNTS: Self = Self(1 << 1);
    /// An empty network namespace.
    pub const NETWORK: Self = Self(1 << 2);
    /// A pid namespace: everything in it is killed together with its first process.
    pub const PIDS: Self = Self(1 << 3);
    /// Seccomp filters.
    pub const SECCOMP: Self = Self(1 << 4);
    /// A user namespace, in which processes are counted from zero.
    pub const USERS: Self = Self(1 << 5);
    /// A `/proc` that shows only the processes of the pid namespace.
    pub const PROC: Self = Self(1 << 6);

    /// A private `/dev/shm`, in place of the one that all processes share.
    pub const SHARED_MEMORY: Self = Self(1 << 7);

    /// Returns these layers and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all layers of `other` are among these.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the layers as one byte.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the layers encoded in one byte.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns true if reading and writing of files is confined. The first versions of Landlock do
    /// not cover truncation; read-only mounts do.
    #[must_use]
    pub const fn confine_files(self, landlock: u8) -> bool {
        self.has(Self::LANDLOCK) && (landlock >= TRUNCATION || self.has(Self::MOUNTS))
    }
}

/// First version of Landlock that covers truncation.
const TRUNCATION: u8 = 3;

/// Layers that a process must have entered before exec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Required {
    /// None: it runs with whatever the machine provides.
    Nothing,
    /// The layers that confine files.
    #[default]
    Files,
    /// All of them.
    Everything,
}

impl Required {
    /// Returns true if a process that entered `layers` may run. `landlock` is the kernel's version
    /// of Landlock.
    #[must_use]
    pub const fn is_met(self, layers: Layers, landlock: u8, network: Network) -> bool {
        match self {
            Self::Nothing => true,
            Self::Files => layers.confine_files(landlock),
            Self::Everything => {
                let isolated = matches!(network, Network::All) || layers.has(Layers::NETWORK);
                layers.confine_files(landlock)
                    && layers.has(Layers::MOUNTS.with(Layers::PIDS).with(Layers::SECCOMP))
                    && isolated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Layers = Layers::LANDLOCK
        .with(Layers::MOUNTS)
        .with(Layers::NETWORK)
        .with(Layers::PIDS)
        .with(Layers::SECCOMP);

    #[test]
    fn process_runs_only_with_the_required_layers() {
        use Required::{Everything, Files, Nothing};
        let none = Layers::default();
        let table = [
            (Nothing, none, 0, true),
            (Files, none, 7, false),
            (Files, Layers::LANDLOCK, 7, true),
            (Files, Layers::LANDLOCK, 2, false),
            (Files, Layers::LANDLOCK.with(Layers::MOUNTS), 2, true),
            (Files, Layers::MOUNTS.with(Layers::SECCOMP), 7, false),
            (Everything, ALL, 7, true),
            (Everything, Layers::LANDLOCK.with(Layers::SECCOMP), 7, false),
            (Everything, ALL, 1, true),
        ];
        for (required, layers, landlock, met) in table {
            assert_eq!(
                required.is_met(layers, landlock, Network::None),
                met,
                "{required:?} {layers:?} {landlock}"
            );
        }
        let open = Layers::LANDLOCK
            .with(Layers::MOUNTS)
            .with(Layers::PIDS)
            .with(Layers::SECCOMP);
        assert!(
            !Everything.is_met(open, 7, Network::None) && Everything.is_met(open, 7, Network::All)
        );
    }

    #[test]
    fn layers_round_trip_through_a_byte() {
        assert_eq!(Layers::from_bits(ALL.bits()), ALL);
        assert!(ALL.has(Layers::PIDS) && !ALL.has(Layers::PROC));
    }
}
