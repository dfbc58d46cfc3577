//! Probe of Codex: whether it is installed, new enough and logged in.

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
    // A cautious minimum, not a measured one: only 0.166.0 was run. Threads and turns of the
    // app-server are younger than the program; versions without them are driven by `codex exec`.
    minimum: Version(0, 100, 0),
    tested: Some(Version(0, 166, 0)),
    install_hint: "codex not found in PATH. Install it with `npm install -g @openai/codex`, \
                   then run `codex login`.",
    login_hint: "codex is not logged in. Run `codex login`, or `codex login --with-api-key` with \
        an API key on stdin. For your own provider in config.toml, set the variable that its \
        env_key names.",
    inherits: inherits::CODEX,
};

/// Reads the result of `codex login status`: exit code 0 with the method on stdout or stderr, or
/// exit code 1. A missing login is not an error, because the user's own providers need none.
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
