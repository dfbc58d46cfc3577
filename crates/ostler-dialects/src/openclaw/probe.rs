//! How to find out whether OpenClaw is there, new enough, and on a Node that it runs on.

use ostler_core::dialect::{Probe, Runtime, Version};

use super::launch::INHERITS;

/// The probe.
pub(super) const PROBE: Probe = Probe {
    program: "openclaw",
    natives: &[],
    runtime: Some(Runtime {
        program: "node",
        serves,
        hint: NODE,
    }),
    version_args: &["--version"],
    read_version: Version::find,
    // It has no command that says whether a key is there without calling the model.
    login: None,
    // A cautious floor, not a measured one: only 2026.9.6 was run.
    minimum: Version(2026, 9, 0),
    tested: Some(Version(2026, 9, 6)),
    install_hint: "Install Node.js 26.1 or newer (or 24.16), then OpenClaw: npm install -g openclaw. With an older Node, npm installs \
                   an empty placeholder, version 0.0.1, and says nothing.",
    login_hint: "Run `openclaw configure`, or set the key of the model's provider.",
    inherits: INHERITS,
};

const NODE: &str = "OpenClaw needs Node.js 24.16 or newer of that line, or 26.1 or newer. Install it, then install OpenClaw again: an \
                    older Node gets an empty placeholder, version 0.0.1, from npm.";

/// Node 24 from 24.16 on, and everything from 26.1 on; 25 and 26.0 never were.
fn serves(node: Version) -> bool {
    (Version(24, 16, 0)..Version(25, 0, 0)).contains(&node) || node >= Version(26, 1, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // P69
    #[test]
    fn a_node_that_is_too_old_is_told_from_one_that_will_do() {
        for (node, fits) in [
            ((22, 9, 0), false),
            ((24, 15, 9), false),
            ((24, 16, 0), true),
            ((25, 9, 0), false),
        ] {
            assert_eq!(serves(Version(node.0, node.1, node.2)), fits, "{node:?}");
        }
        assert!(
            !serves(Version(26, 0, 9)) && serves(Version(26, 1, 0)) && serves(Version(27, 0, 0))
        );
        assert!(Version(0, 0, 1) < PROBE.minimum && PROBE.install_hint.contains("0.0.1"));
    }
}
