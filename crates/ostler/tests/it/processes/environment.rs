//! Environment passed to an agent: the basics, its own variables, and nothing else.

use std::collections::BTreeMap;

use ostler::Cause;
use ostler::host::SESSION_VARIABLE;
use ostler_testkit::fake;

use crate::rig::{PATH, Rig, claude, host};

/// Returns the agent's environment.
async fn environment(rig: &Rig) -> BTreeMap<String, String> {
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    let text = rig.text("env");
    let pairs = text
        .split_terminator('\0')
        .map(|entry| entry.split_once('=').unwrap());
    let mut env: BTreeMap<_, _> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(
        env.remove(SESSION_VARIABLE).as_deref(),
        Some(&*seen.0[0].session)
    );
    assert!(env.remove(fake::SCRIPT).is_some());
    env
}

fn dumping() -> Rig {
    Rig::new("read\ndump-env $DIR/env\ninit\ntext hi\nresult hi\nread-until-eof")
}

// P31, S3-16, S4-16, S2-27
#[tokio::test]
async fn marks_of_an_enclosing_agent_and_secrets_do_not_reach_the_agent() {
    let mut rig = dumping();
    rig.host = host(&[
        ("PATH", PATH),
        ("HOME", "/home/user"),
        ("LC_ALL", "C.UTF-8"),
        ("HTTPS_PROXY", "http://proxy"),
        ("ANTHROPIC_API_KEY", "the-key"),
        ("CLAUDE_CONFIG_DIR", "/config"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("CLAUDE_CODE_SSE_PORT", "1234"),
        ("OSTLER_SESSION", "the-outer-session"),
        ("OSTLER_ANYTHING", "x"),
        ("GITHUB_TOKEN", "secret"),
        ("DATABASE_URL", "secret"),
        ("LD_PRELOAD", "/nowhere.so"),
        ("RUST_LOG", "trace"),
    ]);
    let env = environment(&rig).await;
    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    let quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";
    assert_eq!(
        names,
        [
            "ANTHROPIC_API_KEY",
            quiet,
            "CLAUDE_CONFIG_DIR",
            "HOME",
            "HTTPS_PROXY",
            "LC_ALL",
            "PATH"
        ]
    );
    assert_eq!(env["ANTHROPIC_API_KEY"], "the-key");
}

// S3-16: nothing is inherited from the process that runs the library. The agent has only the
// variables that Ostler and the spec set.
#[tokio::test]
async fn an_empty_host_gives_an_empty_environment() {
    let mut rig = dumping();
    rig.host = host(&[]);
    let env = environment(&rig).await;
    assert_eq!(
        env.keys().collect::<Vec<_>>(),
        ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
    );
}

// S4-16: variables added by the spec are passed on, and take precedence.
#[tokio::test]
async fn what_the_spec_adds_wins() {
    let mut rig = dumping();
    rig.host = host(&[("PATH", PATH), ("ANTHROPIC_API_KEY", "of-the-host")]);
    let added = [
        ("ANTHROPIC_API_KEY", "of-the-spec"),
        ("GITHUB_TOKEN", "on purpose"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "0"),
        ("WITH_EVERYTHING", "a=b\nü \"q\" $HOME"),
        ("EMPTY", ""),
    ];
    rig.spec.env.extend(
        added
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let mut env = environment(&rig).await;
    env.remove("PATH");
    assert_eq!(
        env,
        added
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    );
}

// S3-17, S2-29: a reserved or invalid name, or a value with NUL, is refused before anything is
// started. The error does not show the value, which may be a secret.
#[tokio::test]
async fn names_that_cannot_be_set_are_refused() {
    for (name, value, why) in [
        ("OSTLER_SESSION", "topsecret", "OSTLER_"),
        ("OSTLER_OTHER", "topsecret", "OSTLER_"),
        ("", "topsecret", "expected a name"),
        ("A=B", "topsecret", "expected a name"),
        ("A", "topsecret\0", "NUL"),
    ] {
        let mut rig = dumping();
        rig.spec.env.insert(name.into(), value.into());
        let error = claude().start(&rig.host, rig.spec.clone()).unwrap_err();
        assert_eq!((error.key.as_str(), error.value.as_str()), ("env", name));
        assert!(error.why.contains(why), "{error}");
        assert!(!error.to_string().contains("topsecret"), "{error}");
        assert!(!rig.path("env").exists());
    }
}
