//! Files referenced by settings, in every form of the settings.

use std::os::unix::fs::symlink;

use super::*;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn found(root: &Path, user: &UserGitConfig) -> Vec<String> {
    let mut scan = ReferenceScan::new(root, user);
    scan.working_tree(root);
    scan.found()
        .into_keys()
        .map(|path| path.display().to_string())
        .collect()
}

#[test]
fn includes_hooks_and_programs_in_the_workspace_are_found() {
    for (config, expected) in [
        (
            "[core]\n\tbare = false\n[remote \"o\"]\n\turl = ./x\n",
            &[][..],
        ),
        (
            "[include]\n\tpath = ../shared.cfg\n",
            &["nested.cfg", "shared.cfg"],
        ),
        (
            "[includeIf \"onbranch:main\"]\n\tpath = ../not-yet.cfg\n",
            &["not-yet.cfg"],
        ),
        ("[core]\n\thooksPath = .githooks\n", &[".githooks"]),
        ("[core]\n\thooksPath = sub/../.githooks/\n", &[".githooks"]),
        ("[core]\n\thooksPath = .husky/_\n", &[".husky", ".husky/_"]),
        ("[core]\n\thooksPath = /etc/hooks\n", &[]),
        (
            "[core]\n\thooksPath = linked\n",
            &["linked", "middle", "middle/hooks", "real/hooks"],
        ),
        (
            "[core]\n\tfsmonitor = ./tool --flag\n[filter \"x\"]\n\tclean = sh 'tool' %f\n",
            &["tool"],
        ),
        ("[alias]\n\tx = !./tool && ./absent\n", &["tool"]),
        ("[core]\n\thooksPath = ~/w/hooks\n", &["w/hooks"]),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        put(&root, ".git/config", config);
        put(&root, "shared.cfg", "[include]\n\tpath = nested.cfg\n");
        put(&root, "tool", "#!/bin/sh\n");
        put(&root, "real/hooks/pre-commit", "");
        symlink("middle/hooks", root.join("linked")).unwrap();
        symlink("real", root.join("middle")).unwrap();
        let user = UserGitConfig {
            files: Vec::new(),
            home: Some(root.clone()),
        };
        assert_eq!(found(&root, &user), expected, "{config}");
    }
}

#[test]
fn hooks_beside_the_sources_are_found_by_their_names() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    put(&root, ".git/config", "[core]\n\thooksPath = .\n");
    let all = found(&root, &UserGitConfig::default());
    assert!(
        all.len() == HOOK_NAMES.len() && all.contains(&"pre-commit".to_owned()),
        "{all:?}"
    );
}

#[test]
fn user_settings_apply_too() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap().join("work");
    put(&root, ".git/config", "[core]\n");
    put(
        &root,
        "../home/.gitconfig",
        "[core]\n\thooksPath = .hooks\n[includeIf \"gitdir:~/\"]\n\tpath = ../work/local.cfg\n",
    );
    let home = root.join("../home");
    let user = UserGitConfig {
        files: vec![home.join(".gitconfig")],
        home: Some(home),
    };
    assert_eq!(found(&root, &user), [".hooks", "local.cfg"]);
    assert_eq!(found(&root, &UserGitConfig::default()), [""; 0]);
}

#[test]
fn modules_and_worktrees_are_scanned() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    put(&root, ".git/config", "[core]\n\thooksPath = hooks\n");
    put(&root, ".git/modules/a/b/HEAD", "");
    put(
        &root,
        ".git/modules/a/b/config",
        "[core]\n\tworktree = ../../../../a/b\n\thooksPath = mine\n",
    );
    put(
        &root,
        ".git/worktrees/w/gitdir",
        &format!("{}/trees/w/.git\n", root.display()),
    );
    assert_eq!(
        found(&root, &UserGitConfig::default()),
        ["a/b/mine", "hooks", "trees/w/hooks"]
    );
}

#[test]
fn git_file_is_followed_and_loops_end() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    put(&root, ".git", "gitdir: store/x\n");
    put(&root, "store/x/commondir", "..\n");
    put(
        &root,
        "store/config",
        "[include]\n\tpath = config\n\tpath = self\n[core]\n\thooksPath = h\n",
    );
    symlink("self", root.join("store/self")).unwrap();
    assert_eq!(
        found(&root, &UserGitConfig::default()),
        ["h", "store/config", "store/self"]
    );
}
