//! Supply: a worker finds new classes of work, and waits for archives.

use std::process::{Command, Stdio};
use std::sync::Arc;

use async_nats::jetstream;
use async_nats::jetstream::object_store::ObjectStore;
use futures_util::StreamExt;
use ostler::Spec;
use ostler_eval::runner::RunEnd;
use ostler_fleet::item::WorkKind;
use ostler_fleet::subject::{WORK_STREAM, WORKSPACES_BUCKET};
use ostler_testkit::nats::NatsServer;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::attacks::needs;
use crate::rig::{PATIENCE, Rig, has_server, patiently, until};
use crate::sessions::{ECHO, check_stored, ended, git, start, turn};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_class_is_found_while_another_one_never_runs_dry() {
    if !has_server("a_new_class_is_found_while_another_one_never_runs_dry") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let connection = rig.connect(&server.url(), "mallory").await;
    connection.create_streams(1).await.unwrap();
    let mut busy = needs();
    busy.kind = WorkKind::Session;
    connection.create_class(&busy).await.unwrap();
    // Items that the worker takes and refuses, as fast as the server stores them.
    let class = busy.class();
    let flood = tokio::spawn(async move {
        for number in 0_u64.. {
            let id = number.to_string();
            let _ = connection.publish_item(&class, &id, b"{}".to_vec()).await;
        }
    });
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    until("the worker is busy", || {
        place.workers().iter().any(|beat| !beat.refused.is_empty())
    })
    .await;
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place));
    let (_stop, cancelled) = watch::channel(false);
    let end = tokio::time::timeout(PATIENCE, runner.run(cancelled)).await;
    flood.abort();
    assert_eq!(end.expect("its turn comes").unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_cannot_be_read_is_waited_for() {
    if !has_server("an_archive_that_cannot_be_read_is_waited_for") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    // The archive is gone when the worker takes the session, and comes back.
    let (bucket, name, archive) = sent_archive(&server).await;
    bucket.delete(&name).await.unwrap();
    let client = async_nats::connect(server.url()).await.unwrap();
    let requests = format!("$JS.API.*.GET.OBJ_{WORKSPACES_BUCKET}.>");
    let mut requests = client.subscribe(requests).await.unwrap();
    client.flush().await.unwrap();
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    for _ in 0..3 {
        let asked = tokio::time::timeout(PATIENCE, requests.next()).await;
        assert!(asked.is_ok(), "the worker asks again for what is missing");
    }
    bucket.put(&*name, &mut &archive[..]).await.unwrap();
    turn(&mut session).await;
    session.stop();
    ended(&mut session).await;
    check_stored(&store, session.id());
    assert_eq!(worker.finish().await, 1);
}

/// Waits until a session is queued. Returns the archive of its repository.
async fn sent_archive(server: &NatsServer) -> (ObjectStore, String, Vec<u8>) {
    let client = async_nats::connect(server.url()).await.unwrap();
    let streams = jetstream::new(client);
    let is_queued = || async {
        let work = streams.get_stream(WORK_STREAM).await.unwrap();
        match work.get_info().await.unwrap().state.messages {
            1 => Ok(()),
            messages => Err(format!("{messages} items are queued")),
        }
    };
    patiently(is_queued).await;
    let bucket = streams.get_object_store(WORKSPACES_BUCKET).await.unwrap();
    let object = bucket.list().await.unwrap().next().await.unwrap().unwrap();
    let mut archive = Vec::new();
    let mut reader = bucket.get(&object.name).await.unwrap();
    reader.read_to_end(&mut archive).await.unwrap();
    (bucket, object.name, archive)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_has_only_the_commits_that_are_needed() {
    if !has_server("an_archive_has_only_the_commits_that_are_needed") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let (repo, store) = (rig.path("repo"), rig.store());
    let base = git(&repo, &["rev-parse", "HEAD"]);
    git(&repo, &["checkout", "-q", "-b", "other"]);
    let user = ["-c", "user.name=u", "-c", "user.email=u@localhost"];
    let commit = ["commit", "-q", "--allow-empty", "-m", "not to be sent"];
    git(&repo, &[&user[..], &commit].concat());
    let other = git(&repo, &["rev-parse", "HEAD"]);
    git(&repo, &["checkout", "-q", "main"]);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    let (_, _, archive) = sent_archive(&server).await;
    let unpacked = rig.path("unpacked");
    tar::Archive::new(&archive[..]).unpack(&unpacked).unwrap();
    let has = |commit: &str| {
        let mut git = Command::new("git");
        git.args(["cat-file", "-e", commit.trim()])
            .current_dir(&unpacked);
        git.stderr(Stdio::null()).status().unwrap().success()
    };
    assert_eq!((has(&base), has(&other)), (true, false));
    session.stop();
    ended(&mut session).await;
}
