//! Probe: whether OpenClaw is installed, recent enough and running on a supported Node.js.

use ostler_core::dialect::{Probe, Runtime, Version};

use super::launch::INHERITS;

pub(super) const PROBE: Probe = Probe {
    program: "openclaw",
    natives: &[],
    runtime: Some(Runtime {
        program: "node",
        serves: is_supported,
        hint: NODE,
    }),
    version_args: &["--version"],
    read_version: Version::find,
    // No command checks for an API key without calling the model.
    login: None,
    // A conservative minimum, not a measured one: only 2026.9.6 was tested.
    minimum: Version(2026, 9, 0),
    tested: Some(Version(2026, 9, 6)),
    install_hint: "Install Node.js 26.1 or newer (or 24.16), then OpenClaw: npm install -g openclaw. \
                   With an older Node, npm silently installs an empty placeholder, version 0.0.1.",
    login_hint: "Run `openclaw configure`, or set the API key of the model's provider.",
    inherits: INHERITS,
};

const NODE: &str = "OpenClaw needs Node.js 24.16 or a later 24.x, or 26.1 or later. Install it, then \
                    reinstall OpenClaw: with an older Node, npm installs an empty placeholder, \
                    version 0.0.1.";

/// Returns true for Node.js 24 from 24.16 on, and for 26.1 and later. 25 and 26.0 were never
/// supported.
fn is_supported(node: Version) -> bool {
    (Version(24, 16, 0)..Version(25, 0, 0)).contains(&node) || node >= Version(26, 1, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // P69
    #[test]
    fn unsupported_node_versions_are_detected() {
        for (node, fits) in [
            ((22, 9, 0), false),
            ((24, 15, 9), false),
            ((24, 16, 0), true),
            ((25, 9, 0), false),
        ] {
            assert_eq!(
                is_supported(Version(node.0, node.1, node.2)),
                fits,
                "{node:?}"
            );
        }
        assert!(
            !is_supported(Version(26, 0, 9))
                && is_supported(Version(26, 1, 0))
                && is_supported(Version(27, 0, 0))
        );
        assert!(Version(0, 0, 1) < PROBE.minimum && PROBE.install_hint.contains("0.0.1"));
    }
}
