//! Probe: whether Claude Code is installed, recent enough and logged in.

use ostler_core::dialect::{Login, LoginQuery, Probe, Version};
use serde::Deserialize;

use crate::inherits;
use crate::lenient::Scalar;

pub(super) const PROBE: Probe = Probe {
    program: "claude",
    natives: &[],
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LoginQuery {
        args: &["auth", "status"],
        env: &[],
        input: "",
        read: read_login,
    }),
    // A conservative minimum, not a measured one: only 2.1.325 was tested. An older release that
    // lacks a flag reports it on stderr, and `blame.rs` turns that into a hint to update.
    minimum: Version(2, 1, 0),
    tested: Some(Version(2, 1, 325)),
    install_hint: "claude CLI not found in PATH. Install from https://claude.ai/code \
                   (npm install -g @anthropic-ai/claude-code), then run `claude auth login`.",
    login_hint: "claude has no valid authentication. Run `claude auth login`, or set \
        ANTHROPIC_API_KEY to an API key.",
    inherits: inherits::CLAUDE,
};

/// Parses the output of `claude auth status`: a JSON object on stdout, with exit code 1 if not
/// logged in. The output of a version without that command proves nothing.
fn read_login(_: Option<i32>, stdout: &str) -> Login {
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Status<'a> {
        logged_in: Scalar<'a>,
        auth_method: Scalar<'a>,
    }
    match serde_json::from_str::<Status<'_>>(stdout) {
        Ok(status) if status.logged_in.is_true() => Login::LoggedIn(status.auth_method.owned()),
        Ok(status) if status.logged_in.is_false() => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-1, S4-3, S1-3
    #[test]
    fn login_is_parsed_from_auth_status() {
        let read = |stdout| read_login(Some(1), stdout);
        assert_eq!(
            read(
                "{\n  \"loggedIn\": true,\n  \"authMethod\": \"api_key\",\n  \"apiProvider\": \
                 \"firstParty\"\n}\n"
            ),
            Login::LoggedIn(Some("api_key".into()))
        );
        assert_eq!(
            read("{\"loggedIn\": false, \"authMethod\": \"none\"}"),
            Login::LoggedOut
        );
        assert_eq!(read("error: unknown command 'auth'"), Login::Unknown);
        assert_eq!(read(""), Login::Unknown);
        assert!(
            PROBE.login_hint.contains("authentication") && PROBE.login_hint.contains("API key")
        );
        assert!(
            PROBE
                .install_hint
                .starts_with("claude CLI not found in PATH. Install from https://claude.ai/code")
        );
        assert_eq!(
            (PROBE.read_version)("2.1.325 (Claude Code)\n"),
            Some(Version(2, 1, 325))
        );
    }
}
