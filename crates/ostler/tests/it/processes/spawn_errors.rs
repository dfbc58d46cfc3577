//! Spawn errors: each reason is distinct, is reported quickly, and says what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use ostler::Cause;
use ostler::outcome::SpawnFailure;

use crate::rig::{LONG, PATH, Rig, Seen, host, install};

/// Runs an agent that cannot start, and checks what all such runs have in common.
async fn fails(rig: &Rig, code: &str, cause: Cause) -> Seen {
    let began = Instant::now();
    let seen = rig.run().await;
    assert!(began.elapsed() < LONG, "{code} took {:?}", began.elapsed());
    let outcome = seen.outcome();
    assert_eq!(
        outcome
            .detail
            .as_ref()
            .and_then(|d| d.spawn.as_ref())
            .map(SpawnFailure::as_str),
        Some(code),
        "{outcome:?}"
    );
    assert_eq!((outcome.cause, seen.turn().outcome.cause), (cause, cause));
    // Not source S1's NetworkError: docs/glossary.md says why.
    let name = if cause == Cause::Unavailable {
        "EnvironmentError"
    } else {
        "InvalidRequestError"
    };
    assert_eq!(cause.seed_name(), Some(name));
    assert!(
        outcome.hint.as_ref().is_some_and(|hint| !hint.is_empty()),
        "no hint: {outcome:?}"
    );
    assert_eq!((seen.ended().exit_code, seen.ended().signal), (None, None));
    seen
}

fn with_program(program: PathBuf) -> Rig {
    let mut rig = Rig::new("");
    rig.spec.program = Some(program);
    rig
}

// P14, S1-25, S2-13, S3-32: the error names the program.
#[tokio::test]
async fn a_missing_program() {
    let seen = fails(
        &with_program("/nowhere/claude".into()),
        "missing",
        Cause::Unavailable,
    )
    .await;
    assert!(
        seen.outcome().message.contains("/nowhere/claude"),
        "{:?}",
        seen.outcome()
    );
}

// P14, S1-25
#[tokio::test]
async fn a_file_that_is_not_executable() {
    let mut rig = Rig::new("");
    let file = rig.path("claude");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    rig.spec.program = Some(file.clone());
    let seen = fails(&rig, "not_executable", Cause::Unavailable).await;
    assert!(
        seen.outcome()
            .hint
            .as_ref()
            .unwrap()
            .contains(&format!("chmod +x {}", file.display()))
    );
}

// P14: a missing interpreter (as with a wrong C library), and a file that is not a program; neither
// is handed to a shell.
#[tokio::test]
async fn a_file_that_is_no_program_for_this_machine() {
    for text in [
        "#!/nowhere/interpreter\n",
        "touch ran-by-a-shell\n",
        "MZ\u{1}\u{2}garbage",
        "",
    ] {
        let mut rig = Rig::new("");
        let file = rig.path("claude");
        install(&file, text);
        rig.spec.program = Some(file);
        fails(&rig, "bad_format", Cause::Unavailable).await;
        assert!(!rig.path("ran-by-a-shell").exists());
    }
}

// P14
#[tokio::test]
async fn a_directory_that_is_not_there() {
    let mut rig = Rig::new("");
    let (missing, file) = (rig.path("missing"), rig.path("file"));
    std::fs::write(&file, "").unwrap();
    for dir in [missing, file] {
        rig.spec.dir = Some(dir.clone());
        let seen = fails(&rig, "bad_directory", Cause::BadRequest).await;
        assert!(seen.outcome().message.contains(dir.to_str().unwrap()));
    }
}

// P14, P28: what the kernel calls E2BIG is neither an authentication failure nor a missing program.
#[tokio::test]
async fn an_environment_that_is_too_long() {
    let mut rig = Rig::new("");
    rig.spec.env.insert("HUGE".into(), "x".repeat(200 * 1024));
    fails(&rig, "too_long", Cause::BadRequest).await;
}

// P33: an empty PATH, directories without the program, and no PATH.
#[tokio::test]
async fn a_path_without_the_agent_names_the_places() {
    let mut rig = Rig::new("");
    rig.spec.program = None;
    for (path, hint) in [
        ("", "PATH is empty"),
        (
            "/nowhere/a:/nowhere/b",
            "Looked in: /nowhere/a, /nowhere/b.",
        ),
    ] {
        rig.host = host(&[("PATH", path)]);
        let seen = fails(&rig, "missing", Cause::Unavailable).await;
        let shown = seen.outcome().hint.clone().unwrap();
        assert!(
            shown.contains(hint) && shown.contains("npm install"),
            "{shown}"
        );
    }
    rig.host = host(&[]);
    fails(&rig, "missing", Cause::Unavailable).await;
}

// P14: failed starts do not affect a later one. The host is a new one, because a host's breaker
// counts failures.
#[tokio::test]
async fn a_good_start_after_bad_ones() {
    let mut rig = Rig::new("read\ninit\ntext hi\nresult hi\nread-until-eof");
    let good = rig.spec.program.replace("/nowhere/claude".into());
    for _ in 0..3 {
        fails(&rig, "missing", Cause::Unavailable).await;
    }
    rig.spec.program = good;
    rig.host = host(&[("PATH", PATH)]);
    assert_eq!(rig.run().await.outcome().cause, Cause::Completed);
}
