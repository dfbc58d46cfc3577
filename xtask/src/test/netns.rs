//! Network namespace with only a loopback interface, for the tests of real agents.

use std::process::Command;

use crate::programs::{self, IP, UNSHARE};
use crate::workspace;

/// Environment variable that is set inside the namespace.
const NAMESPACE_VARIABLE: &str = "OSTLER_TEST_NETNS";

/// Network isolation of a group of tests.
pub(super) enum Isolation {
    /// No isolation, with the reason if it was wanted but is not possible.
    Off(Option<String>),
    /// A namespace, created with these flags of `unshare`.
    On(&'static str),
}

impl Isolation {
    pub(super) fn none() -> Self {
        Self::Off(None)
    }

    /// Tries to create a namespace with only loopback on this machine.
    pub(super) fn loopback_only() -> Self {
        for program in [&UNSHARE, &IP] {
            if let Err(fix) = programs::ensure(program) {
                return Self::Off(Some(fix));
            }
        }
        let flags = if programs::is_root() { "-n" } else { "-rn" };
        let mut attempt = Command::new(UNSHARE.name);
        if programs::succeeds(attempt.args([flags, "--", IP.name, "link", "set", "lo", "up"])) {
            Self::On(flags)
        } else {
            Self::Off(Some(format!(
                "this machine refuses `unshare {flags} -- ip link set lo up`"
            )))
        }
    }

    /// Returns why the tests cannot be isolated although they should be.
    pub(super) fn why_not(&self) -> Option<&str> {
        match self {
            Self::Off(reason) => reason.as_deref(),
            Self::On(_) => None,
        }
    }

    /// Returns a cargo command that runs inside the namespace. Everything must be compiled already.
    pub(super) fn cargo(&self) -> Command {
        self.command(&workspace::cargo_program())
    }

    /// Returns a command that runs a program inside the namespace, started at the root.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = match self {
            Self::Off(_) => Command::new(program),
            Self::On(flags) => {
                let mut command = Command::new(UNSHARE.name);
                let script = r#"ip link set lo up && exec "$@""#;
                command.env(NAMESPACE_VARIABLE, "1");
                command.args([flags, "--", "sh", "-c", script, "sh", program]);
                command
            }
        };
        command.current_dir(workspace::root());
        workspace::keep_strict(&mut command);
        command
    }

    /// Returns the flags that keep cargo from using the network.
    pub(super) fn cargo_flags(&self) -> &'static [&'static str] {
        match self {
            Self::Off(_) => &[],
            Self::On(_) => &["--offline"],
        }
    }
}
