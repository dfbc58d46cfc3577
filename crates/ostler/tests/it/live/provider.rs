//! The verbs of source S1, by name.

use std::sync::Arc;

use ostler::provider::{
    CreateError, create_session, resume_session, send_message, validate_environment,
};
use ostler::spec::AfterTurn;
use ostler::{Cause, EventKind, Spec};
use ostler_testkit::fake;

use super::log::MemoryLog;
use crate::rig::{Rig, claude, finish_after, host, read_until};

// S1-1, S1-2, S1-5, S1-29: a missing agent is an environment error with a hint, and no session is
// attempted. An invalid spec is an error of the spec.
#[tokio::test]
async fn nothing_is_created_in_a_bad_environment() {
    let log = MemoryLog::default();
    let host = host(&[("PATH", "/nowhere/a")]).with_log(Arc::new(log.clone()));
    let spec = Spec::new("hi");
    let problem = validate_environment(&*claude(), &host, &spec)
        .await
        .unwrap_err();
    assert_eq!(
        (problem.cause, problem.cause.seed_name()),
        (Cause::Unavailable, Some("EnvironmentError"))
    );
    assert!(
        problem.message.contains("/nowhere/a") && problem.hint.is_some(),
        "{problem:?}"
    );
    let error = create_session(&*claude(), &host, spec.clone())
        .await
        .unwrap_err();
    assert_eq!(error, CreateError::Environment(problem));
    assert!(log.opened().is_empty(), "a session was attempted");
    let dir = tempfile::tempdir().unwrap();
    let _ = fake::install_as(dir.path(), "claude", "");
    let host = crate::rig::host(&[("PATH", dir.path().to_str().unwrap())]);
    assert!(validate_environment(&*claude(), &host, &spec).await.is_ok());
    let mut wrong = spec;
    wrong.prompt = String::new();
    assert!(matches!(
        create_session(&*claude(), &host, wrong).await,
        Err(CreateError::Spec(_))
    ));
}

// S1-28: create a session, send to it, and resume it later.
#[tokio::test]
async fn a_session_is_created_sent_to_and_resumed() {
    let mut rig = Rig::new(
        "dump-args $DIR/args\nloop 2\nread-user\ninit\ntext hi\nresult hi\nend\nread-until-eof",
    );
    rig.spec.after_turn = AfterTurn::Wait;
    let _ = fake::install_as(&rig.path(""), "claude", "");
    rig.host = host(&[("PATH", rig.path("").to_str().unwrap())]);
    let mut session = create_session(&*claude(), &rig.host, rig.spec.clone())
        .await
        .unwrap();
    let ended = |kind: &EventKind| matches!(kind, EventKind::TurnEnded(_));
    let mut read = read_until(&mut session, ended).await;
    send_message(&session, "again").unwrap();
    read.extend(read_until(&mut session, ended).await);
    session.stop();
    let native = session.status().native_session.unwrap();
    assert_eq!(finish_after(read, session).await.turns().len(), 2);
    let mut session = resume_session(&*claude(), &rig.host, (&native, rig.spec.clone()))
        .await
        .unwrap();
    let read = read_until(&mut session, ended).await;
    session.stop();
    finish_after(read, session).await;
    assert!(
        rig.text("args").contains(&format!("--resume={native}")),
        "{}",
        rig.text("args")
    );
}
