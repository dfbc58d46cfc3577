//! Agent readiness: what a probe finds, what it recommends, and which agent is chosen.

use std::path::Path;

use ostler::agent::Probed;
use ostler::{Agents, Host, Spec};
use ostler_testkit::fake;

use crate::rig::{PATH, claude, finish, host, install};

/// Installs a script as `claude`, first on PATH; `$FAKE` in it is the fake agent's program.
fn with_claude(dir: &Path, script: &str) -> Host {
    install(
        &dir.join("claude"),
        &script.replace("$FAKE", fake::program().to_str().unwrap()),
    );
    host(&[("PATH", &format!("{}:{PATH}", dir.display()))])
}

async fn probe(script: &str) -> Probed {
    let dir = tempfile::tempdir().unwrap();
    claude()
        .probe(&with_claude(dir.path(), script), &Spec::default())
        .await
}

// S4-1, S4-4, S2-1
#[tokio::test]
async fn a_claude_that_is_logged_in_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let _ = fake::install_as(dir.path(), "claude", "");
    let host = host(&[("PATH", dir.path().to_str().unwrap())]);
    assert!(claude().is_found(&host, &Spec::default()));
    let found = claude().probe(&host, &Spec::default()).await;
    let Probed::Ready {
        version,
        path,
        login,
    } = found
    else {
        panic!("{found:?}")
    };
    assert_eq!(
        (version.as_deref(), login.as_deref()),
        (Some("2.1.325"), Some("api_key"))
    );
    assert_eq!(path, Some(dir.path().join("claude")));
    assert_eq!(
        Agents::builtin().choose(&host).await.unwrap().about().name,
        "claude"
    );
}

// S4-2, P33, S1-5
#[tokio::test]
async fn a_missing_claude_is_missing_and_something_else_is_chosen() {
    let host = host(&[("PATH", "/nowhere/a:/nowhere/b")]);
    assert!(!claude().is_found(&host, &Spec::default()));
    let found = claude().probe(&host, &Spec::default()).await;
    let Probed::Missing { hint, searched } = found else {
        panic!("{found:?}")
    };
    assert!(hint.contains("npm install"), "{hint}");
    assert_eq!(searched, [Path::new("/nowhere/a"), Path::new("/nowhere/b")]);
    assert_eq!(
        Agents::builtin().choose(&host).await.unwrap().about().name,
        "scripted"
    );
}

// S4-3
#[tokio::test]
async fn a_claude_without_a_login_says_how_to_log_in() {
    let found = probe("#!/bin/sh\nFAKE_AGENT_LOGGED_IN=0 exec $FAKE \"$@\"\n").await;
    let Probed::NotLoggedIn { hint, .. } = found else {
        panic!("{found:?}")
    };
    assert!(
        hint.contains("claude auth login") && hint.contains("API key"),
        "{hint}"
    );
}

// P69
#[tokio::test]
async fn an_old_claude_is_too_old() {
    let found =
        probe("#!/bin/sh\nFAKE_AGENT_VERSION='1.0.9 (Claude Code)' exec $FAKE \"$@\"\n").await;
    let Probed::TooOld { version, need, .. } = found else {
        panic!("{found:?}")
    };
    assert_eq!((version.as_str(), need.as_str()), ("1.0.9", "2.1.0"));
}

// P14: it is installed, but prints no version or does not run. A file without `#!` is not handed to
// a shell.
#[tokio::test]
async fn a_broken_claude_is_broken() {
    for script in [
        "#!/bin/sh\necho no number here\n",
        "#!/bin/sh\nexit 3\n",
        "#!/nowhere/node\n",
        "echo 9.9.9\n",
    ] {
        let found = probe(script).await;
        assert!(
            matches!(
                &found,
                Probed::Broken { why, hint, .. } if !why.is_empty() && !hint.is_empty()
            ),
            "{found:?}"
        );
    }
}

// S1-4: the probe names a missing helper program, and a session ends with source S1's name for that
// error. A helper in the host's helper directory is found.
#[tokio::test]
async fn a_missing_helper_is_named_and_one_beside_ostler_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let _ = fake::install_as(dir.path(), "claude", "");
    let host = host(&[("PATH", dir.path().to_str().unwrap())]);
    let mut spec = Spec::new("hello").dir(dir.path());
    spec.set("workspace_tools", ["file-tools"]).unwrap();
    let found = claude().probe(&host, &spec).await;
    let Probed::Missing { hint, searched } = found else {
        panic!("{found:?}")
    };
    assert!(
        hint.contains("file-tools") && searched == [dir.path()],
        "{hint} {searched:?}"
    );
    let seen = finish(claude().start(&host, spec.clone()).unwrap()).await;
    assert_eq!(seen.outcome().cause.seed_name(), Some("EnvironmentError"));
    assert!(
        seen.outcome().message.contains("file-tools"),
        "{}",
        seen.outcome().message
    );
    let helpers = tempfile::tempdir().unwrap();
    install(&helpers.path().join("file-tools"), "#!/bin/sh\n");
    let host = host.with_helpers(helpers.path().into());
    assert!(matches!(
        claude().probe(&host, &spec).await,
        Probed::Ready { .. }
    ));
}

// The preset would be void with a mode that grants every permission, or with the agent's own edit
// tool.
#[tokio::test]
async fn the_preset_refuses_what_would_void_it() {
    for (key, value) in [("permission_mode", "bypassPermissions"), ("tools", "Edit")] {
        let mut spec = Spec::new("hello");
        spec.set("workspace_tools", ["file-tools"]).unwrap();
        spec.set(key, [value]).unwrap();
        assert_eq!(claude().start(&host(&[]), spec).unwrap_err().key, key);
    }
}

// A program named by the caller is looked up where the caller said, and nowhere else. The hint is
// about `--program`.
#[tokio::test]
async fn a_named_program_that_is_missing_is_not_to_be_installed() {
    let spec = Spec::default().program("/nowhere/claude");
    let found = claude().probe(&host(&[("PATH", PATH)]), &spec).await;
    let Probed::Missing { hint, searched } = found else {
        panic!("{found:?}")
    };
    assert!(
        searched == [Path::new("/nowhere/claude")] && hint.contains("--program"),
        "{hint} {searched:?}"
    );
}

// An agent that needs a login is skipped; one whose login state is unknown is not.
#[tokio::test]
async fn an_agent_that_needs_a_login_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let host = with_claude(
        dir.path(),
        "#!/bin/sh\nFAKE_AGENT_LOGGED_IN=0 exec $FAKE \"$@\"\n",
    );
    install(&dir.path().join("goose"), "#!/bin/sh\necho 1.34.0\n");
    let chosen = Agents::builtin().choose(&host).await.unwrap();
    assert_eq!(chosen.about().name, "goose");
    let goose = Agents::builtin()
        .get("goose")
        .unwrap()
        .probe(&host, &Spec::default())
        .await;
    assert!(
        goose.is_usable() && matches!(goose, Probed::LoginUnknown { .. }),
        "{goose:?}"
    );
}
