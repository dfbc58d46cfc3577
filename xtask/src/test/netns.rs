//! A network namespace with nothing but loopback, for the tests of real agents.

use std::process::Command;

use crate::programs::{self, IP, UNSHARE};
use crate::workspace;

/// The variable that tells a test that there is no network but loopback.
const MARK: &str = "OSTLER_TEST_NETNS";

/// How the tests of a group are cut off from the network.
pub(super) enum Isolation {
    /// Not wanted, or wanted and not possible for a reason.
    Off(Option<String>),
    /// With these arguments of `unshare`.
    On(&'static str),
}

impl Isolation {
    pub(super) fn none() -> Self {
        Self::Off(None)
    }

    /// Tries whether this machine lets us make a namespace with only loopback.
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
                "unshare {flags} with ip link set lo up is refused here"
            )))
        }
    }

    /// Why the tests run with the network, where they should not.
    pub(super) fn why_not(&self) -> Option<&str> {
        match self {
            Self::Off(reason) => reason.as_deref(),
            Self::On(_) => None,
        }
    }

    /// A cargo command inside the namespace; what it runs must be compiled already.
    pub(super) fn cargo(&self) -> Command {
        let Self::On(flags) = self else {
            return workspace::cargo();
        };
        let mut command = Command::new(UNSHARE.name);
        command.current_dir(workspace::root()).env(MARK, "1");
        workspace::keep_strict(&mut command);
        command.args([
            flags,
            "--",
            "sh",
            "-c",
            r#"ip link set lo up && exec "$@""#,
            "sh",
        ]);
        command.arg(workspace::cargo_program());
        command
    }

    /// The flag that keeps cargo from trying the network.
    pub(super) fn cargo_flags(&self) -> &'static [&'static str] {
        match self {
            Self::Off(_) => &[],
            Self::On(_) => &["--offline"],
        }
    }
}
