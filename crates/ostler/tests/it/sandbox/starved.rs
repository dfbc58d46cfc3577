//! A machine saturated by the attack: every process is ended, and changes to protected files are
//! undone.

use std::fs;

use super::rig::{Scene, installed};

/// Many processes detached from the command, each of which computes endlessly and plants a hook
/// again and again.
const STORM: &str = "#!/usr/bin/perl\nuse POSIX;\nmkdir '.git/hooks';\nfor (1..200) { my $pid = fork; next if $pid;\n\
    POSIX::setsid(); $0 = 'NAP'; close STDOUT; close STDERR; $SIG{TERM} = 'IGNORE';\n\
    while (1) { if (open(my $hook, '>', '.git/hooks/pre-commit')) { print $hook 'x' } for (1..20000) {} } }\n\
    sleep 300 if -e 'wait';\n";

fn storm() -> Scene {
    let scene = Scene::new().sandbox("timeout_seconds = 2");
    fs::create_dir(scene.work().join(".git")).unwrap();
    scene.attack(&STORM.replace("NAP", &scene.nap()));
    scene
}

fn assert_all_is_gone(scene: &Scene) {
    assert!(
        ostler_testkit::processes::with_argument(&scene.nap()).is_empty(),
        "a process is left"
    );
    assert_eq!(scene.left(), [0; 0]);
    assert!(
        !scene.work().join(".git/hooks").exists(),
        "the hook is left"
    );
}

// The command itself ends at once; the processes it started do not.
#[tokio::test]
async fn busy_survivors_end_with_their_command() {
    let scene = storm();
    if !installed("perl", "busy_survivors_end_with_their_command") {
        return;
    }
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    assert_all_is_gone(&scene);
}

// The command exceeds its time limit, and everything is killed.
#[tokio::test]
async fn busy_survivors_end_with_the_time() {
    let scene = storm();
    if !installed("perl", "busy_survivors_end_with_the_time") {
        return;
    }
    fs::write(scene.work().join("wait"), "").unwrap();
    let error = scene.call("./attack", &[]).await.unwrap_err();
    assert_eq!(error.code.as_str(), "timed_out", "{}", error.message);
    assert_all_is_gone(&scene);
}
