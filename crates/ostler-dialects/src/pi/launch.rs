//! Launch and probe: arguments derived from the settings, and environment variables for the child.
//! The prompt goes to stdin.

use ostler_core::dialect::{
    Arg, Inherits, Launch, Login, LoginFile, LoginQuery, Probe, Runtime, Version,
};
use ostler_core::spec::{Spec, SpecError};

use super::settings::TABLE;
use crate::extra::{self, Values};
use crate::settings;

/// Environment variables passed from the caller to the child: pi's own, and the credentials of its
/// providers.
const INHERITS: Inherits = Inherits {
    always: &[
        "PI_*",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "AZURE_OPENAI_*",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GROQ_API_KEY",
        "CEREBRAS_API_KEY",
        "XAI_API_KEY",
        "FIREWORKS_API_KEY",
        "TOGETHER_API_KEY",
        "OPENROUTER_API_KEY",
        "AI_GATEWAY_API_KEY",
        "ZAI_API_KEY",
        "MISTRAL_API_KEY",
        "MINIMAX_API_KEY",
        "MOONSHOT_API_KEY",
        "OPENCODE_API_KEY",
        "KIMI_API_KEY",
        "CLOUDFLARE_API_KEY",
        "CLOUDFLARE_ACCOUNT_ID",
        "CLOUDFLARE_GATEWAY_ID",
        "XIAOMI_*",
    ],
    when: &[],
    // Set by an enclosing pi.
    never: &["PI_CODING_AGENT"],
};

/// Paths where pi stores sessions, settings and its login.
pub(crate) const STATE: &[&str] = &[
    "~/.pi/",
    "$PI_CODING_AGENT_DIR/",
    "$PI_CODING_AGENT_SESSION_DIR/",
];

/// Arguments that would break the conversation, put a key on the command line, or select a session
/// other than the one that Ostler expects.
const RESERVED: &[&str] = &[
    "--mode",
    "--print",
    "-p",
    "--api-key",
    "--continue",
    "-c",
    "--resume",
    "-r",
    "--session",
    "--fork",
    "--export",
    "--list-models",
    "--help",
    "-h",
    "--version",
    "-v",
    "--",
];

/// Validates the spec and returns the launch.
pub(super) fn launch(spec: &Spec) -> Result<Launch, SpecError> {
    let given = spec.to_settings();
    settings::check(TABLE, &given)?;
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    let mut args = Vec::from(["--mode", "rpc"].map(Arg::from));
    args.extend(settings::arguments(TABLE, &given)?);
    args.extend(spec.extra_args.iter().map(Arg::from));
    Ok(Launch {
        program: "pi",
        args,
        inherits: INHERITS,
        state: STATE,
        ..Launch::default()
    })
}

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
    login_files: &[LoginFile {
        variable: Some("PI_CODING_AGENT_DIR"),
        below_home: ".pi/agent",
        name: "auth.json",
    }],
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
    use ostler_core::dialect::ARG_CAP;

    use super::*;

    fn args(settings: &[(&str, &str)], extra: &[&str]) -> Result<String, String> {
        let extra = extra.iter().map(|arg| (*arg).to_owned()).collect();
        let mut spec = Spec::default().extra_args(extra);
        let settings = settings.iter().copied().collect();
        let launch = spec.apply(&settings).and_then(|()| launch(&spec));
        let launch = launch.map_err(|error| error.to_string())?;
        let shown = launch.args.into_iter().map(|arg| match arg {
            Arg::Plain(arg) => arg,
            Arg::InFile { prefix, text } => format!("{prefix}<{text}>"),
        });
        Ok(shown.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_key_becomes_its_argument() {
        for (settings, wanted) in [
            (&[][..], ""),
            (
                &[("model", "openai/gpt-5.5"), ("thinking", "high")],
                " --model openai/gpt-5.5 --thinking high",
            ),
            (
                &[("system_prompt", "Be brief.")],
                " --system-prompt <Be brief.>",
            ),
            (
                &[("append_system_prompt", "-x")],
                " --append-system-prompt <-x>",
            ),
            (&[("tools", "read"), ("tools", "ls")], " --tools read,ls"),
            (&[("tools", "")], " --no-tools"),
            (&[("resume", "0195")], " --session 0195"),
            (&[("resume", "0195"), ("fork", "true")], " --fork 0195"),
            (&[("resume", "0195"), ("fork", "false")], " --session 0195"),
            (
                &[("no_extensions", "true"), ("no_skills", "false")],
                " --no-extensions",
            ),
            (
                &[
                    ("no_prompt_templates", "true"),
                    ("no_context_files", "true"),
                ],
                " --no-prompt-templates --no-context-files",
            ),
        ] {
            assert_eq!(args(settings, &[]), Ok(format!("--mode rpc{wanted}")));
        }
    }

    #[test]
    fn invalid_values_are_rejected_before_the_start() {
        assert!(args(&[("tools", "read,bash")], &[]).is_err());
        assert!(args(&[("thinking", "much")], &[]).is_err());
        assert!(args(&[("model", &"x".repeat(ARG_CAP + 1))], &[]).is_err());
        for extra in ["--mode", "--api-key", "hello", "-p", "--session", "--"] {
            assert!(args(&[], &[extra]).is_err(), "{extra}");
        }
        assert_eq!(
            args(&[], &["--models", "a,b"]).as_deref(),
            Ok("--mode rpc --models a,b")
        );
    }

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
