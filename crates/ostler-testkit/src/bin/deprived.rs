//! Runs a program as if the machine lacked some sandbox layers:
//! `deprived landlock,unshare,mount_setattr,seccomp -- program args…`.
//!
//! The named system calls fail as they do on a kernel without them, or under a container profile
//! that denies them. The program and all its descendants see the same restrictions.

#![expect(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test tool that execs another program"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        let Err(error) = linux::run();
        eprintln!("deprived: {error}");
    }
    ExitCode::from(125)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::io;
    use std::os::unix::process::CommandExt;

    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// Returns the system calls of a layer and the error they fail with.
    fn calls(layer: &str) -> Option<(Vec<libc::c_long>, libc::c_int)> {
        Some(match layer {
            "landlock" => (
                vec![
                    libc::SYS_landlock_create_ruleset,
                    libc::SYS_landlock_add_rule,
                    libc::SYS_landlock_restrict_self,
                ],
                libc::EOPNOTSUPP,
            ),
            "unshare" => (vec![libc::SYS_unshare], libc::EPERM),
            "mount_setattr" => (vec![libc::SYS_mount_setattr], libc::EPERM),
            "seccomp" => (vec![libc::SYS_seccomp], libc::EINVAL),
            _ => return None,
        })
    }

    pub(super) fn run() -> io::Result<Infallible> {
        let mut args = std::env::args_os().skip(1);
        let layers = args
            .next()
            .unwrap_or_default()
            .into_string()
            .unwrap_or_default();
        let usage = || io::Error::other("usage: deprived LAYERS -- PROGRAM [ARGS]");
        if args.next().is_none_or(|dashes| dashes != "--") {
            return Err(usage());
        }
        let program = args.next().ok_or_else(usage)?;
        // Once seccomp is denied, no further filter can be installed, so that layer comes last.
        let mut layers: Vec<&str> = layers.split(',').collect();
        layers.sort_by_key(|layer| *layer == "seccomp");
        for layer in layers {
            let (calls, errno) =
                calls(layer).ok_or_else(|| io::Error::other(format!("unknown layer {layer:?}")))?;
            let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
            if layer == "seccomp" {
                rules.insert(libc::SYS_prctl, vec![prctl_set_filter()?]);
            }
            deny(rules, errno)?;
        }
        Err(std::process::Command::new(program).args(args).exec())
    }

    /// Matches `prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER)`, the older call that installs a
    /// filter. Other uses of `prctl` stay allowed.
    fn prctl_set_filter() -> io::Result<SeccompRule> {
        let is_filter = [(0, 22), (1, 2)].map(|(argument, value)| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
        });
        let conditions: Result<Vec<_>, _> = is_filter.into_iter().collect();
        conditions
            .and_then(SeccompRule::new)
            .map_err(io::Error::other)
    }

    fn deny(rules: Rules, errno: libc::c_int) -> io::Result<()> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
        let answer = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)
            .map_err(io::Error::other)?;
        let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)
    }
}
