//! Files: full access inside the workspace, none outside; protected files are unchanged.
#![cfg(target_os = "linux")]
use std::fs;

use super::rig::{Scene, has};

// S2-18: ordinary work succeeds.
#[tokio::test]
async fn a_command_works_in_the_workspace() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\nset -e\npwd\necho hello > made\nmkdir sub\nmv made sub/made\ncat sub/made\necho note >&2\necho x > $TMPDIR/y\n");
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    assert_eq!(done.stdout(), format!("{}\nhello", scene.work().display()));
    assert!(
        done.text.starts_with("exit code 0\nstdout:\n") && done.text.ends_with("stderr:\nnote"),
        "{}",
        done.text
    );
    assert_eq!(
        fs::read_to_string(scene.work().join("sub/made")).unwrap(),
        "hello\n"
    );
}

// S2-25
#[tokio::test]
async fn what_is_outside_cannot_be_read_or_written() {
    let scene = Scene::new();
    if !has(
        &scene.runner().report(),
        "files",
        "what_is_outside_cannot_be_read_or_written",
    ) {
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

// Landlock does not cover owner, mode and times; a command run by root could change them anywhere.
#[tokio::test]
async fn attributes_of_files_outside_cannot_be_changed() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new();
    if !has(
        &scene.runner().report(),
        "attributes",
        "attributes_of_files_outside_cannot_be_changed",
    ) {
        return;
    }
    let outside = scene.at("outside");
    let about = |name: &str| {
        let meta = fs::metadata(outside.join(name)).unwrap();
        (meta.mode(), meta.uid(), meta.mtime())
    };
    let before = [about("."), about("file")];
    let at = outside.display();
    scene.attack(&format!(
        "#!/bin/sh\nchmod 777 {at}/file {at}\nchown 12345 {at}/file\ntouch -d 2001-01-01 {at}/file\ntouch inside && chmod 700 inside && echo \"inside $?\""
    ));
    let done = scene.run().await;
    assert_eq!([about("."), about("file")], before);
    assert!(done.stdout().ends_with("inside 0"), "{}", done.text);
}

fn repository(scene: &Scene) {
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command
            .args(args)
            .current_dir(scene.work())
            .env("HOME", scene.at("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.status().unwrap().success(), "{args:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.name", "A"]);
    git(&["config", "user.email", "a@example.org"]);
    fs::write(scene.work().join("file"), "one\n").unwrap();
    git(&["add", "file"]);
    git(&["commit", "-q", "-m", "first"]);
}

// S2-18: git does its ordinary work.
#[tokio::test]
async fn git_works_in_the_workspace() {
    let scene = Scene::new();
    repository(&scene);
    fs::write(scene.work().join("file"), "two\n").unwrap();
    for (args, word) in [
        (&["status", "--short"][..], "M file"),
        (&["diff"], "+two"),
        (&["commit", "-am", "second: /etc/hosts"], "second"),
        (&["log", "--oneline"], "first"),
        (&["checkout", "-q", "-b", "topic"], ""),
        (&["stash", "list"], ""),
        (&["branch"], "topic"),
        (&["show", "HEAD:file"], "two"),
        (&["rm", "-q", "file"], ""),
        (&["reset", "-q", "--soft", "HEAD~1"], ""),
        (&["clean", "-n"], ""),
    ] {
        let done = scene.call("git", args).await.unwrap();
        assert!(
            done.code() == Some(0) && done.stdout().contains(word),
            "{args:?}: {}",
            done.text
        );
        assert_eq!(done.json["put_back"], serde_json::json!([]), "{args:?}");
    }
    scene.assert_outside_unchanged();
}

/// Git runs neither a repository's hooks nor the programs that its settings name.
#[tokio::test]
async fn a_repository_does_not_have_programs_run() {
    let scene = Scene::new();
    repository(&scene);
    let hooks = scene.work().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-commit",
        "reference-transaction",
        "pre-push",
    ] {
        super::rig::program(&hooks.join(hook), "#!/bin/sh\ntouch pwned\n");
    }
    let evil = "#!/bin/sh\ntouch pwned\n";
    super::rig::program(&scene.work().join("evil"), evil);
    let path = scene.work().join("evil");
    let config = format!(
        "[core]\n\tfsmonitor = {0}\n\tpager = {0}\n\teditor = {0}\n\tsshCommand = {0}\n\taskPass = {0}\n[alias]\n\tpwn = !{0}\n\
         [remote \"ext\"]\n\turl = ext::{0}\n[remote \"ssh\"]\n\turl = ssh://example.org/x\n[credential]\n\thelper = {0}\n[pager]\n\tlog = {0}\n",
        path.display()
    );
    let file = scene.work().join(".git/config");
    fs::write(
        &file,
        format!("{}{config}", fs::read_to_string(&file).unwrap()),
    )
    .unwrap();
    fs::write(scene.work().join("file"), "two\n").unwrap();
    for args in [
        &["status"][..],
        &["log"],
        &["diff"],
        &["add", "-u"],
        &["commit", "-m", "second"],
        &["commit", "--amend"],
        &["checkout", "-q", "-b", "topic"],
        &["fetch", "ext"],
        &["fetch", "ssh"],
        &["push", "ext", "main"],
        &["pull", "ext", "main"],
    ] {
        let _ = scene.call("git", args).await;
        assert!(
            !scene.work().join("pwned").exists(),
            "{args:?} ran a program"
        );
    }
    assert!(scene.call("git", &["pwn"]).await.is_err());
    scene.assert_outside_unchanged();
}

// A command cannot widen the policy of the next one, nor leave a program for git to run later.
#[tokio::test]
async fn protected_files_are_as_before() {
    let scene = Scene::new();
    repository(&scene);
    fs::create_dir(scene.work().join(".ostler")).unwrap();
    fs::write(scene.work().join(".ostler/sandbox.toml"), "# mine\n").unwrap();
    let config = fs::read_to_string(scene.work().join(".git/config")).unwrap();
    scene.attack(
        "#!/bin/sh\nprintf '[sandbox]\\nnetwork = \"all\"\\n' > .ostler/sandbox.toml\nmkdir -p .git/hooks\n\
         printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\ngit config core.fsmonitor ./attack\n\
         mkdir -p evil; echo ../evil > .git/commondir\necho done\n",
    );
    let done = scene.run().await;
    assert_eq!(done.stdout(), "done");
    assert!(
        done.text.contains("protected") && done.text.contains(".ostler/sandbox.toml"),
        "{}",
        done.text
    );
    assert_eq!(
        fs::read_to_string(scene.work().join(".ostler/sandbox.toml")).unwrap(),
        "# mine\n"
    );
    assert_eq!(
        fs::read_to_string(scene.work().join(".git/config")).unwrap(),
        config
    );
    assert!(
        !scene.work().join(".git/hooks/pre-commit").exists()
            && !scene.work().join(".git/commondir").exists()
    );
}

// Git commands that would write hooks, settings for them or the policy are denied.
#[tokio::test]
async fn git_cannot_write_hooks_or_the_policy() {
    let scene = Scene::new();
    repository(&scene);
    for args in [
        &["diff", "--output=.git/hooks/pre-commit"][..],
        &["diff", "--output", ".ostler/sandbox.toml"],
        &["log", "--outp=.ostler/x", "-1"],
        &["config", "core.hooksPath", "."],
        &["init", "--template=."],
    ] {
        assert!(
            scene
                .call("git", args)
                .await
                .is_err_and(|error| error.code.is_denial()),
            "{args:?}"
        );
    }
    assert!(!scene.work().join(".ostler").exists());
}

// The branch settings that git writes stay, and so does a repository that the command `git`
// creates. One that another command creates is removed, even if it runs git.
#[tokio::test]
async fn only_git_can_create_a_repository() {
    let scene = Scene::new();
    let done = scene.call("git", &["init", "-q"]).await.unwrap();
    assert_eq!(
        (done.code(), &done.json["put_back"]),
        (Some(0), &serde_json::json!([])),
        "{}",
        done.text
    );
    assert!(scene.work().join(".git/config").exists());
    fs::remove_dir_all(scene.work().join(".git")).unwrap();
    repository(&scene);
    for args in [
        &["branch", "topic"][..],
        &["branch", "--set-upstream-to=main", "topic"],
        &["branch", "-m", "topic", "other"],
    ] {
        let done = scene.call("git", args).await.unwrap();
        assert_eq!(
            (done.code(), &done.json["put_back"]),
            (Some(0), &serde_json::json!([])),
            "{args:?}: {}",
            done.text
        );
    }
    let config = fs::read_to_string(scene.work().join(".git/config")).unwrap();
    assert!(
        config.contains("[branch \"other\"]") && config.contains("refs/heads/main"),
        "{config}"
    );
    fs::remove_dir_all(scene.work().join(".git")).unwrap();
    scene.attack("#!/bin/sh\ngit init -q . && test -d .git && chmod 0 .git && echo made\n");
    let done = scene.run().await;
    assert_eq!(
        (done.stdout(), &done.json["put_back"]),
        ("made", &serde_json::json!([".git"])),
        "{}",
        done.text
    );
    assert!(!scene.work().join(".git").exists());
}

// A link that one command creates is not followed for the next.
#[tokio::test]
async fn a_link_does_not_widen_what_the_next_command_may_do() {
    let scene = Scene::new().sandbox("write = [\"sub\", \"later\"]\nread = [\"sub\"]");
    fs::create_dir(scene.work().join("sub")).unwrap();
    let runner = scene.runner();
    if !has(
        &runner.report(),
        "files",
        "a_link_does_not_widen_what_the_next_command_may_do",
    ) {
        return;
    }
    let outside = scene.at("outside");
    let outside = outside.display();
    scene.attack(&format!(
        "#!/bin/sh\nrmdir sub 2>/dev/null; ln -sfn {outside} sub; ln -sfn {outside} later\ncat sub/file later/file\necho x > sub/new\necho end\n"
    ));
    for _ in 0..2 {
        let output = runner.execute(r#"{"command":"./attack"}"#).await.unwrap();
        assert!(
            !output.text().contains(super::rig::SECRET) && output.stdout.ends_with("end"),
            "{}",
            output.text()
        );
        scene.assert_outside_unchanged();
    }
}

// Two sessions in one workspace: a change that the first made to a protected file never becomes the
// second's baseline.
#[tokio::test]
async fn two_sessions_do_not_put_back_each_others_changes() {
    let scene = Scene::new();
    repository(&scene);
    let before = fs::read_to_string(scene.work().join(".git/config")).unwrap();
    scene.attack("#!/bin/sh\nif mkdir started 2> /dev/null; then git config core.fsmonitor ./evil; sleep 0.5; else sleep 1; fi\n");
    let second = async {
        while !scene.work().join("started").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        scene.run().await
    };
    let (first, second) = tokio::join!(scene.run(), second);
    assert_eq!((first.code(), second.code()), (Some(0), Some(0)));
    assert_eq!(
        fs::read_to_string(scene.work().join(".git/config")).unwrap(),
        before
    );
    assert_eq!(
        second.json["put_back"],
        serde_json::json!([]),
        "{}",
        second.text
    );
}

// Whatever a command does to its temporary files, they are removed with it.
#[tokio::test]
async fn temporary_files_go_with_their_command() {
    let scene = Scene::new();
    let temps = scene.at("temps");
    fs::create_dir(&temps).unwrap();
    let scene = scene.var("TMPDIR", temps.to_str().unwrap());
    scene.attack(
        "#!/bin/sh\nmkdir -p $TMPDIR/a/b $TMPDIR/c && touch $TMPDIR/a/b/x && chmod 000 $TMPDIR/a/b $TMPDIR/a $TMPDIR\n",
    );
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    assert_eq!(fs::read_dir(&temps).unwrap().count(), 0);
}
