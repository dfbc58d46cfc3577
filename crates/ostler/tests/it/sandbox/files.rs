//! Files: inside the workspace everything, outside nothing; protected files are as before.
#![cfg(target_os = "linux")]
use std::fs;

use super::rig::{Scene, has};

// S2-18: the ordinary thing works.
#[tokio::test]
async fn a_command_works_in_the_workspace() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\nset -e\npwd\necho hello > made\nmkdir sub\nmv made sub/made\ncat sub/made\necho note >&2\necho x > $TMPDIR/y\n");
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    assert_eq!(done.stdout(), format!("{}\nhello", scene.work().display()));
    assert!(done.text.starts_with("exit code 0\nstdout:\n") && done.text.ends_with("stderr:\nnote"), "{}", done.text);
    assert_eq!(fs::read_to_string(scene.work().join("sub/made")).unwrap(), "hello\n");
}

// S2-25
#[tokio::test]
async fn what_is_outside_cannot_be_read_or_written() {
    let scene = Scene::new();
    if !has(&scene.runner().report(), "files", "what_is_outside_cannot_be_read_or_written") {
        return;
    }
    let (home, outside) = (scene.at("home"), scene.at("outside"));
    let (home, outside) = (home.display(), outside.display());
    scene.attack(&format!(
        "#!/bin/sh\ncat {home}/.ssh/id_ed25519 ~/notes {outside}/file\nls {outside}\necho x > {outside}/new\necho x >> {outside}/file\n\
         rm -f {outside}/file\nmv {outside}/file .\nln {outside}/file here\nln -s {outside} link; cat link/file; echo x > link/y\n\
         cat /proc/self/root{outside}/file\ncat ../outside/file\ncp {outside}/file . \ntruncate -s 0 {outside}/file\nchmod 777 {outside}/file; \
         cat /etc/shadow; echo end\n"
    ));
    let done = scene.run().await;
    done.assert_no_secret();
    assert!(done.stdout().ends_with("end"), "{}", done.text);
    assert!(!done.text.contains("root:"), "{}", done.text);
}
