//! How to find out whether the Copilot CLI is there and new enough.

use ostler_core::dialect::{Login, Probe, Version};

use super::launch::{INHERITS, NATIVES};

/// The probe.
pub(super) const PROBE: Probe = Probe {
    program: "copilot",
    natives: NATIVES,
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    // It has no command that says whether somebody is logged in without asking GitHub.
    login_args: &[],
    read_login: |_, _| Login::Unknown,
    // A cautious floor, not a measured one: only 1.0.102 was run.
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot CLI not found in PATH. Install it (npm install -g @github/copilot), then run `copilot login`.",
    login_hint: "Run `copilot login`, set COPILOT_GITHUB_TOKEN, or name a model of your own with COPILOT_PROVIDER_BASE_URL.",
    inherits: INHERITS,
};
