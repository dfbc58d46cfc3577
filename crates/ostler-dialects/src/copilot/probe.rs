//! Probe: whether the Copilot CLI is installed, recent enough and logged in.

use ostler_core::dialect::{Login, LoginQuery, Probe, Version};
use serde::Deserialize;

use super::launch::{INHERITS, NATIVES};

pub(super) const PROBE: Probe = Probe {
    program: "copilot",
    natives: NATIVES,
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LOGIN),
    // A conservative minimum, not a measured one: only 1.0.102 was tested.
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot CLI not found in PATH. Install it (npm install -g @github/copilot), \
        then run `copilot login`.",
    login_hint: "Run `copilot login`, set COPILOT_GITHUB_TOKEN, or set COPILOT_PROVIDER_BASE_URL \
        to use a custom provider.",
    inherits: INHERITS,
};

/// Copilot has no command for its login state, but its ACP server does: `authenticate` succeeds
/// only with a login or a custom provider. It creates no session and calls no model.
const LOGIN: LoginQuery = LoginQuery {
    args: &["--acp"],
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    input: concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"copilot-login"}}"#,
        "\n",
    ),
    read: read_login,
};

/// ACP error code for a missing login.
const AUTH_REQUIRED: i64 = -32000;

/// Parses the response to `authenticate`. Any other output, or none, proves nothing.
fn read_login(_: Option<i32>, stdout: &str) -> Login {
    #[derive(Deserialize)]
    struct Response<'a> {
        id: i64,
        #[serde(borrow)]
        result: Option<&'a serde_json::value::RawValue>,
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
    }
    let responses = stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Response<'_>>(line).ok());
    match responses.into_iter().find(|response| response.id == 1) {
        Some(Response {
            result: Some(_),
            error: None,
            ..
        }) => Login::LoggedIn(None),
        Some(Response {
            error: Some(Failure {
                code: AUTH_REQUIRED,
            }),
            ..
        }) => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first line that Copilot 1.0.102 prints, shortened.
    const INITIALIZED: &str =
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"Copilot"}}}"#;

    // S4-3
    #[test]
    fn login_is_parsed_from_the_authenticate_response() {
        let read = |line: &str| read_login(Some(0), &format!("{INITIALIZED}\n{line}\n"));
        let required = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}"#;
        assert_eq!(read(required), Login::LoggedOut);
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Login::LoggedIn(None)
        );
        let unknown =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;
        for line in [unknown, "", "BYOK providers require an explicit model."] {
            assert_eq!(read(line), Login::Unknown, "{line}");
        }
        assert_eq!(read_login(None, ""), Login::Unknown);
    }

    #[test]
    fn login_query_is_two_json_lines() {
        let lines: Vec<serde_json::Value> = LOGIN
            .input
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            lines
                .iter()
                .map(|line| line["id"].as_i64().unwrap())
                .collect::<Vec<_>>(),
            [0, 1]
        );
    }
}
