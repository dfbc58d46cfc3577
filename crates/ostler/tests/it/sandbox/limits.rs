//! Resource limits of a command: wall time, CPU time, processes, open files, file size, output.

use std::fs;

use super::rig::{Scene, installed};

// S2-31
#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let scene = Scene::new().sandbox("timeout_seconds = 1");
    scene.attack("#!/bin/sh\necho begun\nsleep 300 &\nsetsid sleep 301 &\nsleep 302\n");
    let error = scene.call("./attack", &[]).await.unwrap_err();
    assert_eq!(error.code.as_str(), "timed_out");
    assert!(
        error.message.contains("after 1 seconds") && error.message.contains("begun"),
        "{}",
        error.message
    );
    assert_eq!(scene.left(), [0; 0]);
}

#[tokio::test]
async fn a_model_can_ask_for_less_time_but_not_for_more() {
    let scene = Scene::new().sandbox("timeout_seconds = 2");
    scene.attack("#!/bin/sh\nsleep 300\n");
    for (asked, expected) in [
        (1, "after 1 seconds"),
        (100_000, "after 2 seconds"),
        (0, "after 1 seconds"),
    ] {
        let input = format!(r#"{{"command":"./attack","timeout_seconds":{asked}}}"#);
        let error = scene.runner().call(&input).await.unwrap_err();
        assert!(
            error.message.contains(expected),
            "{asked}: {}",
            error.message
        );
    }
}

#[tokio::test]
async fn endless_computing_is_ended() {
    let scene = Scene::new().sandbox("cpu_seconds = 1\ntimeout_seconds = 60");
    scene.attack("#!/bin/sh\nwhile :; do :; done\n");
    let done = scene.run().await;
    assert_eq!(done.json["killed_for"], "cpu_time", "{}", done.text);
}

// Disk fill: no file exceeds the allowed size.
#[tokio::test]
async fn a_file_does_not_get_longer_than_allowed() {
    let scene = Scene::new().sandbox("file_size_mb = 1");
    scene.attack(
        "#!/bin/sh\nhead -c 9000000 /dev/zero > big; echo \"code $?\"\ntruncate -s 9000000 sparse; echo \"code $?\"\n",
    );
    let done = scene.run().await;
    assert!(!done.stdout().contains("code 0"), "{}", done.text);
    assert!(fs::metadata(scene.work().join("big")).unwrap().len() <= 1024 * 1024);
    assert!(fs::metadata(scene.work().join("sparse")).map_or(0, |meta| meta.len()) <= 1024 * 1024);
    scene.attack("#!/bin/sh\nexec head -c 9000000 /dev/zero > big\n");
    assert_eq!(scene.run().await.json["killed_for"], "file_size");
}

#[tokio::test]
async fn open_files_are_counted_and_the_limit_cannot_be_raised() {
    let scene = Scene::new().sandbox("open_files = 40");
    if !installed(
        "bash",
        "open_files_are_counted_and_the_limit_cannot_be_raised",
    ) {
        return;
    }
    scene.attack("#!/bin/bash\nulimit -n 4096 && echo RAISED\nfor i in $(seq 100); do exec {fd}</dev/null || exit 1; echo $i; done 2>/dev/null | tail -1\n");
    let done = scene.run().await;
    let opened: u32 = done
        .stdout()
        .lines()
        .last()
        .unwrap_or_default()
        .parse()
        .unwrap_or(0);
    assert!(
        opened < 40 && !done.stdout().contains("RAISED"),
        "{}",
        done.text
    );
}

// Fork bomb, of a bounded size should it get through: it requests many processes, and never more
// than the limit exist.
#[tokio::test]
async fn a_fork_bomb_stays_small() {
    let scene = Scene::new().sandbox("processes = 30\ntimeout_seconds = 20");
    // Each process that can be started stays a while and starts two more.
    let bomb = "sub f { my $deep = shift; for (1, 2) { my $pid = fork; if (!defined $pid) { print \"no\\n\" }\n\
                elsif ($pid == 0) { print \"yes\\n\"; f($deep - 1) if $deep; sleep 1; exit } } }\n$| = 1; f(7); sleep 2;\n";
    if installed("perl", "a_fork_bomb_stays_small") {
        let scene = scene.attack(&format!("#!/usr/bin/perl\n{bomb}"));
        let done = scene.run().await;
        let count = |word: &str| done.stdout().lines().filter(|line| *line == word).count();
        let killed = done.json["killed_for"] == "processes";
        assert!(
            killed || (count("yes") <= 30 && count("no") > 0),
            "{}",
            done.text
        );
    }
    // And the well-known short one.
    scene
        .attack("#!/bin/sh\nf() { [ $1 -gt 0 ] && { f $(($1-1)) | f $(($1-1)) & }; wait; }\nf 9\n");
    let _ = scene.call("./attack", &[]).await;
    assert_eq!(scene.left(), [0; 0]);
    scene.assert_outside_unchanged();
}

// Whatever a command prints, a model gets a head and a tail, and memory use stays flat.
#[tokio::test]
async fn a_flood_of_output_is_cut_in_the_middle() {
    let scene = Scene::new();
    scene.attack(
        "#!/bin/sh\necho FIRST\nyes | head -c 300000000\nyes 1>&2 | head -c 1000 &\necho LAST\n",
    );
    let before = peak();
    let done = scene.run().await;
    assert!(
        done.stdout().starts_with("FIRST\n") && done.stdout().ends_with("LAST"),
        "{}",
        done.text.len()
    );
    assert!(done.stdout().contains("bytes left out") && done.json["truncated"] == true);
    assert!(done.text.len() < 64 * 1024, "{}", done.text.len());
    assert!(
        peak() < before + 32 * 1024,
        "memory grew from {before} to {} KiB",
        peak()
    );
}

/// Returns the peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_failing_command_is_an_answer() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\necho out\necho err >&2\nexit 3\n");
    let done = scene.run().await;
    assert_eq!(done.text, "exit code 3\nstdout:\nout\nstderr:\nerr");
    scene.attack("#!/bin/sh\nkill -9 $$\n");
    assert_eq!(scene.run().await.text, "ended by signal 9\n(no output)");
    scene.attack("#!/bin/sh\ncat; echo \"read $?\"; test -t 0 || echo no terminal\n");
    assert_eq!(scene.run().await.stdout(), "read 0\nno terminal");
}
