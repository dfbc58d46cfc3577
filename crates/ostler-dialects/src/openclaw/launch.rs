//! Launch and probe: arguments from the settings, and environment variables of the child.
//! The prompt goes to stdin.

use ostler_core::dialect::{Arg, Inherits, Launch, Probe, Runtime, Version};
use ostler_core::spec::{Spec, SpecError};

use super::settings::{CONFIG, FALLBACK, ISOLATED, TABLE};
use crate::extra::{self, Values};
use crate::settings;

/// Environment variables passed from the caller to the child: OpenClaw's own, and the API keys of
/// its providers.
const INHERITS: Inherits = Inherits {
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
pub(crate) const STATE: &[&str] = &["~/.openclaw", "$OPENCLAW_STATE_DIR", "$OPENCLAW_HOME"];

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
    login_files: &[],
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
