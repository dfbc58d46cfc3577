//! Attacks: files that git would run for the user, written by file tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ostler_tools::{FileRules, UserGitConfig, Workspace};
use serde_json::json;

use super::rig::Rig;

const DENIED: &[&str] = &["denied_by_policy"];

/// Runs the user's git, with no settings but the repository's.
fn git(dir: &Path, args: &[&str]) -> bool {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(dir)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org");
    command
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org");
    command.output().unwrap().status.success()
}

/// Creates a program that leaves a marker file when it runs, and returns both paths.
fn program(rig: &Rig) -> (PathBuf, PathBuf) {
    let (program, mark) = (rig.all.join("program"), rig.all.join("it-ran"));
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    (program, mark)
}

/// Asserts that no writing tool can write a path.
#[track_caller]
fn assert_unwritable(rig: &Rig, path: &str) {
    fs::create_dir_all(rig.ws.join("empty")).unwrap();
    rig.refused("write_file", &json!({"path": path, "content": "x"}), DENIED);
    rig.refused(
        "create_file",
        &json!({"path": path, "content": "x"}),
        DENIED,
    );
    let codes = &["denied_by_policy", "exists", "not_a_directory"];
    rig.refused(
        "make_directory",
        &json!({"path": format!("{path}/x")}),
        codes,
    );
    rig.refused(
        "move_file",
        &json!({"from": "a.txt", "to": path, "overwrite": true}),
        DENIED,
    );
    if rig.ws.join(path).is_file() {
        rig.refused(
            "edit_file",
            &json!({"path": path, "find": "e", "replace": "x"}),
            DENIED,
        );
        rig.refused("delete_file", &json!({"path": path}), DENIED);
        rig.refused("move_file", &json!({"from": path, "to": "free"}), DENIED);
    }
}

// Break 2: `git init --bare src`, then the file tools write its settings and hooks.
#[test]
fn nothing_in_a_git_directory_is_writable_whatever_its_name() {
    let rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q", "--bare", "src"]));
    assert!(git(&rig.ws, &["init", "-q", "sub"]));
    assert!(git(&rig.ws, &["init", "-q", "--bare", "deep/er/store.git"]));
    let (program, mark) = program(&rig);
    for path in [
        "src/config",
        "src/hooks/post-checkout",
        "src/config.worktree",
        "src/commondir",
        "src/info/attributes",
        "src/new",
        "sub/.git/config",
        "sub/.git/hooks/pre-commit",
        "deep/er/store.git/config",
        "deep/er/store.git/hooks/pre-receive",
        "deep/er/store.git/objects/info/alternates",
    ] {
        assert_unwritable(&rig, path);
    }
    let config = format!(
        "[core]\n\tbare = true\n\tfsmonitor = {}\n",
        program.display()
    );
    rig.refused(
        "write_file",
        &json!({"path": "src/config", "content": config}),
        DENIED,
    );
    git(&rig.ws.join("src"), &["status"]);
    assert!(!mark.exists());
    // It can neither be renamed to a place where git uses it, nor moved away.
    for (from, to) in [
        ("src", "moved"),
        ("deep", "moved"),
        ("deep/er", "moved"),
        ("src/hooks", "moved"),
    ] {
        rig.refused("move_file", &json!({"from": from, "to": to}), DENIED);
    }
    rig.json(
        "write_file",
        &json!({"path": "sub/main.rs", "content": "x"}),
    );
    rig.json(
        "write_file",
        &json!({"path": "deep/er/notes", "content": "x"}),
    );
}

#[test]
fn a_git_directory_reached_by_a_link_is_not_writable() {
    let rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q", "--bare", "store"]));
    rig.link("store", "link");
    rig.link("store/hooks", "hooks");
    for path in ["link/config", "link/hooks/pre-commit", "hooks/pre-commit"] {
        rig.refused("write_file", &json!({"path": path, "content": "x"}), DENIED);
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path, "overwrite": true}),
            DENIED,
        );
    }
}

#[test]
fn worktrees_and_modules_of_a_repository_are_not_writable() {
    let rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q"]));
    assert!(git(&rig.ws, &["add", "."]) && git(&rig.ws, &["commit", "-q", "-m", "x"]));
    assert!(git(&rig.ws, &["worktree", "add", "-q", "tree"]));
    for path in [
        ".git/worktrees/tree/commondir",
        ".git/worktrees/tree/gitdir",
        ".git/worktrees/tree/config.worktree",
        ".git/modules/x/config",
        ".GIT/worktrees/tree/commondir",
        "git~1/hooks/pre-commit",
        "tree/.git",
    ] {
        rig.refused("write_file", &json!({"path": path, "content": "x"}), DENIED);
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path, "overwrite": true}),
            DENIED,
        );
    }
}

// Break 2: a file that the repository's settings include.
#[test]
fn files_included_by_git_are_not_writable() {
    let rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q"]));
    assert!(git(&rig.ws, &["config", "include.path", "../shared.cfg"]));
    assert!(git(
        &rig.ws,
        &["config", "includeIf.onbranch:**.path", "../conf/absent.cfg"]
    ));
    rig.put("shared.cfg", "[include]\n\tpath = more/nested.cfg\n");
    rig.put("more/nested.cfg", "[user]\n\tname = A\n");
    rig.put("stuff/absent.cfg", "[core]\n");
    rig.link("stuff", "elsewhere");
    let (program, mark) = program(&rig);
    for path in [
        "shared.cfg",
        "more/nested.cfg",
        "conf/absent.cfg",
        "SHARED.CFG",
    ] {
        let config = format!("[core]\n\tfsmonitor = {}\n", program.display());
        rig.refused(
            "write_file",
            &json!({"path": path, "content": config}),
            DENIED,
        );
        assert_unwritable(&rig, path);
    }
    for (from, to) in [("more", "other"), ("stuff", "conf"), ("elsewhere", "conf")] {
        rig.refused("move_file", &json!({"from": from, "to": to}), DENIED);
    }
    git(&rig.ws, &["status"]);
    assert!(!mark.exists());
    rig.json(
        "write_file",
        &json!({"path": "conf/other.cfg", "content": "x"}),
    );
}

// Break 2: hooks that the repository has among its files.
#[test]
fn hooks_and_programs_that_git_is_set_up_to_run_are_not_writable() {
    let rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q"]));
    rig.put(".githooks/pre-commit", "#!/bin/sh\ntrue\n");
    rig.put("tools/real/post-checkout", "#!/bin/sh\ntrue\n");
    rig.link("tools/real", "hooks-link");
    rig.put("scripts/monitor", "#!/bin/sh\ntrue\n");
    assert!(git(&rig.ws, &["config", "core.hooksPath", ".githooks"]));
    for path in [
        ".githooks/pre-commit",
        ".githooks/pre-push",
        ".GitHooks/pre-push",
        ".githooks/lib/x",
    ] {
        assert_unwritable(&rig, path);
    }
    rig.refused(
        "move_file",
        &json!({"from": ".githooks", "to": "other"}),
        DENIED,
    );
    // The current settings count, not those at the start of the session.
    assert!(git(&rig.ws, &["config", "core.hooksPath", "hooks-link"]));
    assert!(git(
        &rig.ws,
        &["config", "core.fsmonitor", "./scripts/monitor"]
    ));
    for path in [
        "tools/real/post-checkout",
        "hooks-link/pre-push",
        "scripts/monitor",
    ] {
        rig.refused("write_file", &json!({"path": path, "content": "x"}), DENIED);
    }
    rig.refused("delete_file", &json!({"path": "hooks-link"}), DENIED);
    rig.refused(
        "move_file",
        &json!({"from": "tools", "to": "other"}),
        DENIED,
    );
    rig.json(
        "write_file",
        &json!({"path": ".githooks-not/x", "content": "x"}),
    );
    rig.json(
        "write_file",
        &json!({"path": "scripts/other", "content": "x"}),
    );
}

#[test]
fn settings_of_a_repository_inside_and_above_count() {
    let rig = Rig::new();
    assert!(git(&rig.all, &["init", "-q"]));
    assert!(git(
        &rig.all,
        &["config", "core.hooksPath", "ws/hooks-of-above"]
    ));
    assert!(git(&rig.ws, &["init", "-q", "sub"]));
    assert!(git(
        &rig.ws.join("sub"),
        &["config", "core.hooksPath", "hooks"]
    ));
    for path in ["hooks-of-above/pre-commit", "sub/hooks/pre-commit"] {
        assert_unwritable(&rig, path);
    }
    rig.json("write_file", &json!({"path": "hooks/x", "content": "x"}));
}

#[test]
fn hooks_path_of_the_user_is_protected() {
    let mut rig = Rig::new();
    assert!(git(&rig.ws, &["init", "-q"]));
    let file = rig.all.join("gitconfig");
    fs::write(&file, "[core]\n\thooksPath = .hooks\n").unwrap();
    let user = UserGitConfig {
        files: vec![file],
        home: None,
    };
    rig.tools = Workspace::open(&rig.ws, &FileRules::default())
        .unwrap()
        .with_user_git_config(user);
    assert_unwritable(&rig, ".hooks/pre-commit");
}

#[test]
fn a_git_file_planted_in_a_subdirectory_is_refused() {
    let rig = Rig::new();
    rig.put("store/config", "[core]\n");
    for path in [
        "src/.git",
        "src/.GIT",
        "src/.git.",
        "src/.git ",
        "src/.g\u{200c}it",
        "src/.git::$DATA",
        "src/git~1",
    ] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "gitdir: ../store\n"}),
            DENIED,
        );
        rig.refused("move_file", &json!({"from": "a.txt", "to": path}), DENIED);
    }
    rig.json("make_directory", &json!({"path": "store/objects"}));
    rig.json("make_directory", &json!({"path": "store/refs"}));
    rig.refused(
        "write_file",
        &json!({"path": "store/HEAD", "content": "ref: refs/heads/main\n"}),
        DENIED,
    );
    rig.refused(
        "write_file",
        &json!({"path": "store/HEAD/x", "content": "x"}),
        DENIED,
    );
}

// Break 4: files that configure Ostler itself.
#[test]
fn ostlers_own_files_are_never_writable() {
    let globs = |list: &[&str]| list.iter().map(|glob| (*glob).to_owned()).collect();
    let rig = Rig::with(&FileRules {
        allow: globs(&["**", "ostler.toml", ".ostler/**"]),
        ..FileRules::default()
    });
    rig.put("ostler.toml", "# e\n");
    rig.put("sub/ostler.toml", "# e\n");
    rig.put(".ostler/policy.toml", "# e\n");
    fs::hard_link(rig.ws.join("ostler.toml"), rig.ws.join("twin")).unwrap();
    rig.link("ostler.toml", "link");
    rig.put("other/sandbox.toml", "x");
    rig.put("other2/ostler.txt", "x");
    for path in [
        "ostler.toml",
        "sub/ostler.toml",
        "new/ostler.toml",
        "OSTLER.TOML",
        "Ostler.toml",
        "o\u{17f}tler.toml",
        "ostler.toml.",
        "ostler.toml ",
        "ost\u{200d}ler.toml",
        ".ostler/policy.toml",
        ".ostler/new",
        ".OSTLER/policy.toml",
        "sub/.ostler/policy.toml",
        "OSTLER~1.TOM",
    ] {
        assert_unwritable(&rig, path);
    }
    rig.refused(
        "write_file",
        &json!({"path": "link", "content": "x"}),
        DENIED,
    );
    for (from, to) in [
        ("sub", "sub2"),
        ("other", ".ostler"),
        ("other2/ostler.txt", "other2/ostler.toml"),
    ] {
        rig.refused("move_file", &json!({"from": from, "to": to}), DENIED);
    }
    // Another name of the file becomes a separate file once it is written.
    rig.json("write_file", &json!({"path": "twin", "content": "x"}));
    assert_eq!(rig.get("ostler.toml"), "# e\n");
}
