//! What the real agents reveal about their login, without a model call or a network.

use std::path::Path;

use ostler::agent::Probed;
use ostler::{Agents, Spec};
use ostler_testkit::real;

use crate::rig::host;

/// Probes an agent that was never used before, with these variables.
fn probed(agent: &str, vars: &[(&str, &str)]) -> Probed {
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap();
    let home_dir = home.path().to_str().unwrap();
    let all: Vec<(&str, &str)> = [("HOME", home_dir), ("PATH", path.as_str())]
        .into_iter()
        .chain(vars.iter().copied())
        .collect();
    let spec = Spec::default().program(real::pinned(agent).program());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let agent = Agents::builtin().get(agent).unwrap();
    let probed = runtime.block_on(agent.probe(&host(&all), &spec));
    assert!(
        !has_sessions(home.path()),
        "a probe leaves no session behind"
    );
    probed
}

fn has_sessions(home: &Path) -> bool {
    let dir = home.join(".copilot/session-state");
    dir.exists() && std::fs::read_dir(dir).unwrap().next().is_some()
}

// S4-3
#[test]
fn copilot_without_a_login_needs_one() {
    let found = probed("copilot", &[]);
    let pinned = real::pinned("copilot").version();
    assert!(
        matches!(&found, Probed::NotLoggedIn { version, .. } if version == pinned),
        "{found:?}"
    );
    let own = [
        ("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:9/v1"),
        ("COPILOT_MODEL", "gpt-5"),
    ];
    let found = probed("copilot", &own);
    assert!(
        matches!(found, Probed::Ready { .. }),
        "a provider of the user's own needs no login: {found:?}"
    );
}

// S4-3
#[test]
fn opencode_without_credentials_is_not_ready() {
    let found = probed("opencode", &[]);
    assert!(
        matches!(&found, Probed::LoginUnknown { hint, .. } if hint.contains("opencode auth login")),
        "{found:?}"
    );
    let found = probed("opencode", &[("OPENAI_API_KEY", "sk-of-the-test")]);
    let Probed::Ready { login, .. } = &found else {
        panic!("{found:?}")
    };
    assert_eq!(login.as_deref(), Some("1 environment variable"));
}

// S4-3
#[test]
fn pi_without_a_model_needs_a_login() {
    let found = probed("pi", &[]);
    let pinned = real::pinned("pi").version();
    assert!(
        matches!(&found, Probed::NotLoggedIn { version, hint, .. }
            if version == pinned && hint.contains("/login")),
        "{found:?}"
    );
    let found = probed("pi", &[("OPENAI_API_KEY", "sk-of-the-test")]);
    assert!(matches!(found, Probed::Ready { .. }), "{found:?}");
}
