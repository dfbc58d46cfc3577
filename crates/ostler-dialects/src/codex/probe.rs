//! How to find out whether Codex is there, new enough, and logged in.

use ostler_core::dialect::{Login, LoginQuery, Probe, Version};

use super::launch::NATIVES;
use crate::inherits;

/// The probe.
pub(super) const PROBE: Probe = Probe {
    program: "codex",
    natives: NATIVES,
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LoginQuery {
        args: &["login", "status"],
        env: &[],
        input: "",
        read: read_login,
    }),
    // A cautious floor, not a measured one: only 0.166.0 was run. The app-server's threads and turns are younger than the
    // program; one that lacks them altogether is driven by `codex exec`.
    minimum: Version(0, 100, 0),
    tested: Some(Version(0, 166, 0)),
    install_hint: "codex CLI not found in PATH. Install it (npm install -g @openai/codex), then run `codex login`.",
    login_hint: "codex has no valid authentication. Run `codex login`, or `codex login --with-api-key` with an API key on \
                 stdin. For a provider of your own in config.toml, set the variable of its env_key.",
    inherits: inherits::CODEX,
};

/// Reads `codex login status`: exit code 0 and how on stdout or stderr, or exit code 1. A login is not everything: a
/// provider of the user's own needs none, which is why nobody is refused because of this.
fn read_login(code: Option<i32>, stdout: &str) -> Login {
    match code {
        Some(0) => Login::LoggedIn(
            stdout
                .lines()
                .next()
                .map(|line| line.trim().to_owned())
                .filter(|line| !line.is_empty()),
        ),
        Some(1) => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-1, S4-3
    #[test]
    fn the_login_is_read_from_the_exit_code() {
        assert_eq!(read_login(Some(1), ""), Login::LoggedOut);
        assert_eq!(
            read_login(Some(0), "Logged in using ChatGPT\n"),
            Login::LoggedIn(Some("Logged in using ChatGPT".into()))
        );
        assert_eq!(read_login(Some(0), ""), Login::LoggedIn(None));
        assert_eq!(
            read_login(Some(2), "error: unrecognized subcommand 'status'"),
            Login::Unknown
        );
        assert_eq!(
            (PROBE.read_version)("codex-cli 0.166.0\n"),
            Some(Version(0, 166, 0))
        );
    }
}
