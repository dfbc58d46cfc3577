//! Launch: arguments from the settings, and environment variables of the child. The prompt goes to
//! stdin.

use ostler_core::dialect::{ARG_CAP, Arg, Inherits, Launch};
use ostler_core::spec::{Spec, SpecError, keys};

use super::settings::{CONFIG, FALLBACK, ISOLATED, Pass, TABLE};
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
    settings::check(TABLE, &spec.settings)?;
    if let (Some(config), true) = (spec.settings.last(CONFIG), spec.settings.is_on(ISOLATED)) {
        return Err(SpecError::new(
            CONFIG,
            config,
            "conflicts with isolated, which disables the configuration",
        ));
    }
    if let (Some(fallback), None) = (
        spec.settings.last(FALLBACK),
        spec.settings.last(keys::MODEL),
    ) {
        return Err(SpecError::new(
            FALLBACK,
            fallback,
            "needs model: OpenClaw accepts a fallback only for an explicit model",
        ));
    }
    let plain = |arg: &str| Arg::Plain(arg.to_owned());
    let mut args: Vec<Arg> = ["agent", "exec", "--json"].into_iter().map(plain).collect();
    if let Some(dir) = &spec.dir {
        let dir = dir
            .to_str()
            .ok_or_else(|| SpecError::new("dir", &dir.to_string_lossy(), "expected valid UTF-8"))?;
        args.push(Arg::Plain(format!("--cwd={dir}")));
    }
    for row in TABLE {
        for value in spec.settings.get(row.key).unwrap_or_default() {
            match row.pass {
                Pass::Each(_) if value.len() > ARG_CAP => {
                    return Err(SpecError::new(
                        row.key,
                        value,
                        "exceeds the command-line limit of 100 KiB",
                    ));
                }
                Pass::Each(flag) => args.push(Arg::Plain(format!("{flag}={value}"))),
                Pass::Switch(flag) if value == "true" => args.push(plain(flag)),
                Pass::Switch(_) | Pass::Ours => {}
            }
        }
    }
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    args.extend(spec.extra_args.iter().map(|arg| plain(arg)));
    args.push(plain("--message-file=-"));
    let (needs, env): (&[&str], _) = (&[], Vec::new());
    Ok(Launch {
        program: "openclaw",
        natives: &[],
        args,
        env,
        inherits: INHERITS,
        needs,
        state: STATE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(settings: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut spec = Spec {
            dir: Some("/work".into()),
            ..Spec::default()
        };
        settings
            .iter()
            .for_each(|(key, value)| spec.settings.push(key, *value));
        let launch = launch(&spec).map_err(|error| error.to_string())?;
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
        let spec = Spec {
            extra_args: vec!["--message=x".to_owned()],
            ..Spec::default()
        };
        assert!(launch(&spec).is_err());
    }
}
