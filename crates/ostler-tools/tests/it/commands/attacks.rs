//! Attacks through the arguments of git and other commands.

use super::Scene;

/// Asserts that a rule refuses every call; each line is a separate attack.
fn all_denied(attacks: &[&[&str]]) {
    let scene = Scene::new("");
    for args in attacks {
        let code = scene.refused("git", args);
        assert!(
            matches!(code, "denied_by_policy" | "path_outside_workspace"),
            "git {args:?}: {code}"
        );
    }
}

// S2-26
#[test]
fn allowed_commands_are_accepted() {
    let scene = Scene::new("");
    for args in [
        &["status"][..],
        &["log", "--oneline", "-20"],
        &["diff", "HEAD~3..main", "--", "src/lib.rs"],
        &["commit", "-m", "../.. and /etc are only words here"],
        &["commit", "-am", "/etc/passwd"],
        &["commit", "-m/etc"],
        &["show", "HEAD:src/lib.rs"],
        &["add", "src", "a b", "ünïcode"],
        &["push", "origin", "feature/x"],
        &["checkout", "-b", "release-fd"],
        &["diff", "/dev/null", "src/x"],
    ] {
        let approved = scene.check("git", args).unwrap();
        assert_eq!(approved.program, scene.at("bin/git"));
        assert_eq!(approved.args, args);
    }
}

#[test]
fn force_push_is_denied_in_every_spelling() {
    all_denied(&[
        &["push", "--force"],
        &["push", "-f"],
        &["push", "origin", "main", "-f"],
        &["push", "-uf", "origin"],
        &["push", "-fu", "origin"],
        &["push", "-qfu", "origin"],
        &["push", "--force-with-lease"],
        &["push", "--force-with-lease=main"],
        &["push", "--force-if-includes"],
        &["push", "--forc"],
        &["push", "--fo", "origin"],
        &["push", "origin", "+main"],
        &["push", "origin", "+HEAD:main"],
        &["push", "origin", "+refs/heads/*:refs/heads/*"],
        &["push", "--mirror"],
        &["push", "--mir"],
        &["--no-pager", "push", "--force"],
        &["push", "--", "--force"],
    ]);
}

#[test]
fn deleting_on_a_server_is_denied() {
    all_denied(&[
        &["push", "origin", ":main"],
        &["push", "--delete", "origin", "main"],
        &["push", "--del", "origin", "main"],
        &["push", "-d", "origin", "main"],
        &["push", "-qd", "origin", "main"],
        &["push", "--prune", "origin"],
    ]);
}

#[test]
fn discarding_work_is_denied_in_every_spelling() {
    all_denied(&[
        &["reset", "--hard"],
        &["reset", "--har"],
        &["reset", "-q", "--hard", "HEAD~1"],
        &["reset", "HEAD~1", "--hard"],
        &["reset", "--merge"],
        &["clean", "-f"],
        &["clean", "-fd"],
        &["clean", "-df"],
        &["clean", "-d", "-f"],
        &["clean", "-fdx"],
        &["clean", "-xdf"],
        &["clean", "-ffdx"],
        &["clean", "--force"],
        &["clean", "--for", "-d"],
        &["clean", "-d", "src", "-f"],
        &["clean", "-i"],
        &["checkout", "-f", "main"],
        &["checkout", "--force"],
        &["switch", "-f", "main"],
        &["switch", "--discard-changes", "main"],
        &["reflog", "expire", "--all"],
        &["stash", "clear"],
    ]);
}

// Other sub-commands must not do what `reset --hard` may not do.
#[test]
fn discarding_work_by_other_commands_is_denied() {
    all_denied(&[
        &["checkout", "--", "file"],
        &["checkout", "."],
        &["checkout", "HEAD", "file"],
        &["checkout", "HEAD", "--", "file"],
        &["checkout", "file"],
        &["checkout", "main"],
        &["checkout", "-p"],
        &["checkout", "--ours", "file"],
        &["checkout", "--pathspec-from-file", "-b"],
        &["checkout", "--", "-b"],
        &["checkout", "-B", "main"],
        &["checkout", "-qB", "main", "HEAD~3"],
        &["checkout", "-b", "x", "-m"],
        &["restore", "."],
        &["restore", "file"],
        &["restore", "--worktree", "file"],
        &["restore", "--staged", "--worktree", "file"],
        &["restore", "-SW", "file"],
        &["restore", "-W", "-S", "file"],
        &["restore", "--source=HEAD~1", "file"],
        &["restore", "-sS", "file"],
        &["restore", "--", "--staged"],
        &["restore", "--pathspec-from-file", "--staged"],
        &["restore", "--st", "file"],
        &["switch", "-C", "main"],
        &["switch", "--force-create", "main"],
        &["switch", "--merge", "main"],
        &["switch", "-m", "main"],
        &["branch", "-D", "topic"],
        &["branch", "-d", "--force", "topic"],
        &["branch", "-df", "topic"],
        &["branch", "--delete", "-f", "topic"],
        &["branch", "-M", "topic"],
        &["branch", "-C", "topic", "main"],
        &["branch", "-f", "main", "HEAD~3"],
        &["rm", "-r", "--cached", "."],
        &["rm", "--cached", "*"],
        &["rm", "-rf", "src"],
        &["rm", "--force", "file"],
        &["mv", "-f", "a", "b"],
        &["stash", "drop"],
        &["tag", "-d", "v1"],
        &["tag", "--delete", "v1"],
        &["tag", "-f", "v1"],
        &["reset", "--keep", "HEAD~1"],
        &["fetch", "origin", "+main:main"],
        &["fetch", "--force", "origin", "main:main"],
        &["fetch", "-u", "origin", "main:main"],
        &["pull", "-f", "origin", "main"],
        &["update-ref", "-d", "refs/heads/main"],
        &["worktree", "remove", "--force", "x"],
        &["read-tree", "--reset", "-u", "HEAD"],
    ]);
}

#[test]
fn commands_that_preserve_work_are_allowed() {
    let scene = Scene::new("");
    for args in [
        &["checkout", "-b", "topic"][..],
        &["checkout", "-q", "-b", "topic", "main"],
        &["checkout", "-qb", "topic"],
        &["checkout", "--detach", "HEAD~1"],
        &["switch", "main"],
        &["switch", "-c", "topic"],
        &["restore", "--staged", "file"],
        &["restore", "-S", "."],
        &["branch", "-d", "merged"],
        &["branch", "-m", "old", "new"],
        &["rm", "-r", "src"],
        &["tag", "v1"],
        &["stash", "pop"],
        &["reset", "--soft", "HEAD~1"],
    ] {
        scene.check("git", args).unwrap();
    }
}

#[test]
fn refusal_names_an_alternative() {
    let scene = Scene::new("");
    for (args, word) in [
        (&["checkout", "main"][..], "git switch"),
        (&["checkout", "--", "file"], "edit_file"),
        (&["restore", "file"], "--staged"),
        (&["branch", "-D", "x"], "-d"),
        (&["reset", "--hard"], "git stash"),
    ] {
        let error = scene.check("git", args).unwrap_err();
        assert!(error.message.contains(word), "{args:?}: {error}");
    }
}

// Repositories in the workspace whose settings the user's next git command would follow.
#[test]
fn nested_repositories_are_denied() {
    all_denied(&[
        &["init", "--bare", "src"],
        &["init", "--bar", "src"],
        &["init", "-q", "--bare"],
        &["init", "--shared=all"],
        &["worktree", "add", "x"],
        &["submodule", "add", "./x"],
        &["apply", "--directory=.git/hooks", "x.patch"],
        &["apply", "--directory", "src/hooks", "x.patch"],
        &["apply", "--dir=src/hooks", "x.patch"],
    ]);
}

// Configuration passed as an argument is code passed as an argument.
#[test]
fn settings_on_the_command_line_are_denied() {
    all_denied(&[
        &["-c", "core.pager=sh -c x", "log"],
        &["-ccore.pager=x", "log"],
        &["-c", "core.fsmonitor=./x", "status"],
        &["-c", "core.sshCommand=./x", "fetch"],
        &["-c", "alias.x=!sh", "x"],
        &["-c", "protocol.ext.allow=always", "fetch", "ext::sh"],
        &["--config-env=core.pager=X", "log"],
        &["--exec-path=/tmp", "status"],
        &["--exec-path", "status"],
        &["config", "core.pager", "x"],
        &["config", "--global", "alias.x", "!sh"],
        &["-p", "log"],
        &["--paginate", "log"],
        &["--namespace=x", "status"],
        &["--bare", "status"],
        &["--help"],
        &["-h"],
    ]);
}

#[test]
fn access_to_other_repositories_is_denied() {
    all_denied(&[
        &["-C", "..", "status"],
        &["-C..", "status"],
        &["-C", "/", "status"],
        &["--git-dir=/srv/x.git", "log"],
        &["--git-dir", "/srv/x.git", "log"],
        &["--work-tree=/", "status"],
        &["--work-tree", "/", "add", "etc/passwd"],
        &["clone", "https://example.org/x"],
        &["worktree", "add", "x"],
        &["submodule", "foreach", "sh"],
        &["submodule", "add", "https://example.org/x"],
        &["init", "../elsewhere"],
        &["init", "--separate-git-dir=x"],
    ]);
}

#[test]
fn options_that_run_programs_are_denied() {
    all_denied(&[
        &["rebase", "--exec", "sh x", "HEAD~1"],
        &["rebase", "--exec=sh x", "HEAD~1"],
        &["rebase", "--ex", "sh x", "HEAD~1"],
        &["rebase", "-x", "sh", "HEAD~1"],
        &["rebase", "-qx", "sh", "HEAD~1"],
        &["rebase", "-i", "HEAD~1"],
        &["bisect", "run", "sh", "-c", "x"],
        &["bisect", "start", "run"],
        &["grep", "-Osh", "x"],
        &["grep", "-nO", "x"],
        &["grep", "--open-files-in-pager=sh", "x"],
        &["grep", "--open", "x"],
        &["fetch", "--upload-pack=./x", "origin"],
        &["fetch", "--upload-pack", "./x", "origin"],
        &["fetch", "--upl=./x", "origin"],
        &["pull", "--upload-pack=./x"],
        &["push", "--receive-pack=./x"],
        &["push", "--rec=./x"],
        &["push", "--exec=./x"],
        &["difftool", "-x", "sh"],
        &["mergetool"],
        &["filter-branch", "--tree-filter", "sh"],
        &["hook", "run", "pre-commit"],
        &["send-email", "x"],
        &["instaweb"],
        &["daemon"],
        &["diff", "--ext-diff"],
        &["log", "-p", "--ext-diff"],
        &["show", "--textconv"],
        &["archive", "--remote=x", "--exec=sh"],
        &["init", "--template=./x"],
        &["pwn"],
        &["!sh"],
    ]);
}

#[test]
fn program_and_path_transports_are_denied() {
    all_denied(&[
        &["fetch", "ext::sh -c touch% x"],
        &["pull", "ext::sh", "main"],
        &["push", "ext::sh", "main"],
        &["fetch", "fd::7"],
        &["fetch", "file:///etc"],
        &["fetch", "/srv/repo"],
        &["fetch", "../repo"],
        &["pull", "host:/srv/repo"],
        &["remote", "add", "x", "ext::sh"],
        &["remote", "add", "x", "https://example.org"],
        &["remote", "set-url", "origin", "https://example.org"],
        &["remote", "set-url", "--push", "origin", "x"],
        &["ls-remote", "ext::sh"],
    ]);
}

#[test]
fn options_that_write_files_are_denied() {
    all_denied(&[
        &["diff", "--output=.git/hooks/pre-commit"],
        &["diff", "--output", ".git/hooks/pre-commit"],
        &["log", "--outpu=x"],
        &["format-patch", "-o", "..", "HEAD~1"],
        &["archive", "-o", "x.tar", "HEAD"],
        &["bundle", "create", "../x", "HEAD"],
        &["apply", "--unsafe-paths", "x.patch"],
        &["apply", "--directory=../x", "x.patch"],
        &["checkout-index", "--prefix=/tmp/"],
    ]);
}

// `just` runs the workspace's own recipes; it must not take them, or a shell, from elsewhere.
#[test]
fn just_options_that_lead_elsewhere_are_denied() {
    let scene = Scene::new("");
    scene.check("just", &["test", "--release"]).unwrap();
    for args in [
        &["-f", "../justfile"][..],
        &["-f../justfile"],
        &["-nf", "x"],
        &["--justfile", "x"],
        &["--justfile=/etc/x"],
        &["--justf=x"],
        &["-d", "src"],
        &["--working-directory=src"],
        &["--shell", "sh", "test"],
        &["--shell-arg=-c"],
        &["--shell-command"],
        &["-c", "ls"],
        &["--command", "ls"],
        &["--dotenv-path=x"],
        &["--dotenv-filename", "x"],
        &["-g"],
        &["--global-justfile"],
        &["--edit"],
        &["-e"],
        &["--choose"],
        &["--chooser=sh"],
        &["--tempdir=/x"],
    ] {
        let code = scene.refused("just", args);
        assert!(
            matches!(code, "denied_by_policy" | "path_outside_workspace"),
            "just {args:?}: {code}"
        );
    }
}
