//! Probe: checks whether pi is installed and recent enough, whether the installed Node.js is
//! supported, and whether pi has credentials for a model.

use ostler_core::dialect::{Login, LoginQuery, Probe, Runtime, Version};

use super::launch::INHERITS;

pub(super) const PROBE: Probe = Probe {
    program: "pi",
    natives: &[],
    runtime: Some(Runtime {
        program: "node",
        serves: |node| node >= Version(20, 6, 0),
        hint: "pi needs Node.js 20.6 or newer.",
    }),
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LOGIN),
    // A conservative minimum, not a measured one: only 0.74.2 was tested.
    minimum: Version(0, 74, 0),
    tested: Some(Version(0, 74, 2)),
    install_hint: "pi not found in PATH. Install it (npm install -g @earendil-works/pi-coding-agent), \
                   then run `pi` and type /login.",
    login_hint: "Run `pi` and type /login, or set the API key of the model's provider.",
    inherits: INHERITS,
};

/// The login query. pi has no command for its login state, but lists the models that it has
/// credentials for.
const LOGIN: LoginQuery = LoginQuery {
    args: &["--list-models"],
    env: &[("PI_OFFLINE", "1")],
    input: "",
    read: read_login,
};

/// Parses the table of models, which begins with a header row, or the message printed instead.
fn read_login(code: Option<i32>, printed: &str) -> Login {
    match code {
        Some(0) if printed.starts_with("provider ") => Login::LoggedIn(None),
        Some(0) if printed.starts_with("No models available") => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-3
    #[test]
    fn login_is_parsed_from_the_list_of_models() {
        let table = "provider  model     context  max-out  thinking  images\n\
                     stand-in  stand-in  9M       4.1K     yes       no\n";
        let none = "No models available. Use /login to log into a provider.\n";
        for (code, printed, wanted) in [
            (Some(0), table, Login::LoggedIn(None)),
            (Some(0), none, Login::LoggedOut),
            (Some(0), "", Login::Unknown),
            (Some(1), none, Login::Unknown),
            (None, table, Login::Unknown),
            (Some(0), "3.14159", Login::Unknown),
        ] {
            assert_eq!(read_login(code, printed), wanted, "{code:?} {printed}");
        }
    }
}
