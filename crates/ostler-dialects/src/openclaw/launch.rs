//! Launch: arguments from the settings, and environment variables of the child. The prompt goes to
//! stdin.

use ostler_core::dialect::{Arg, Inherits, Launch};
use ostler_core::spec::{Spec, SpecError};

use super::settings::{CONFIG, FALLBACK, ISOLATED, TABLE};
use crate::extra::{self, Values};
use crate::settings;

/// Environment variables passed from the caller to the child: OpenClaw's own, and the API keys of
/// its providers.
pub(super) const INHERITS: Inherits = Inherits {
    always: &[
        "OPENCLAW_*",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "MISTRAL_API_KEY",
        "GROQ_API_KEY",
        "XAI_API_KEY",
    ],
    when: &[],
    never: &[],
};

/// Where OpenClaw stores its configuration and state.
const STATE: &[&str] = &["~/.openclaw", "$OPENCLAW_STATE_DIR", "$OPENCLAW_HOME"];

/// Arguments that would break the conversation.
const RESERVED: &[&str] = &[
    "--json",
    "--cwd",
    "--message-file",
    "--message",
    "-m",
    "-h",
    "--help",
    "-V",
    "--version",
    "--",
];

/// Checks the spec and returns what to start.
pub(super) fn launch(spec: &Spec) -> Result<Launch, SpecError> {
    let given = spec.to_settings();
    settings::check(TABLE, &given)?;
    if let (Some(config), true) = (spec.value(CONFIG), spec.is_on(ISOLATED)) {
        return Err(SpecError::new(
            CONFIG,
            &config,
            "conflicts with isolated, which disables the configuration",
        ));
    }
    if let (Some(fallback), None) = (spec.value(FALLBACK), &spec.model) {
        return Err(SpecError::new(
            FALLBACK,
            &fallback,
            "needs model: OpenClaw accepts a fallback only for an explicit model",
        ));
    }
    let mut args = Vec::from(["agent", "exec", "--json"].map(Arg::from));
    if let Some(dir) = &spec.dir {
        let dir = dir
            .to_str()
            .ok_or_else(|| SpecError::new("dir", &dir.to_string_lossy(), "expected valid UTF-8"))?;
        args.push(format!("--cwd={dir}").into());
    }
    args.extend(settings::arguments(TABLE, &given)?);
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    args.extend(spec.extra_args.iter().map(Arg::from));
    args.push("--message-file=-".into());
    Ok(Launch {
        program: "openclaw",
        args,
        inherits: INHERITS,
        state: STATE,
        ..Launch::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(settings: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut spec = Spec::default().dir("/work");
        let settings = settings.iter().copied().collect();
        let launch = spec.apply(&settings).and_then(|()| launch(&spec));
        let launch = launch.map_err(|error| error.to_string())?;
        Ok(launch
            .args
            .into_iter()
            .map(|arg| {
                if let Arg::Plain(arg) = arg {
                    arg
                } else {
                    String::new()
                }
            })
            .collect())
    }

    // S2-14: `openclaw run --dir --output` does not exist; these arguments are the equivalent.
    #[test]
    fn settings_become_arguments_but_the_prompt_does_not() {
        let given = args(&[
            ("model", "mock/gpt"),
            ("timeout", "60"),
            ("fallback", "a/b"),
            ("isolated", "true"),
        ])
        .unwrap();
        assert_eq!(given[..4], ["agent", "exec", "--json", "--cwd=/work"]);
        assert_eq!(
            given[4..],
            [
                "--model=mock/gpt",
                "--fallback=a/b",
                "--timeout=60",
                "--isolated",
                "--message-file=-"
            ]
        );
        assert!(
            args(&[("config", "x.json"), ("isolated", "true")])
                .unwrap_err()
                .contains("isolated")
        );
        let spec = Spec::default().extra_args(vec!["--message=x".to_owned()]);
        assert!(launch(&spec).is_err());
    }
}
