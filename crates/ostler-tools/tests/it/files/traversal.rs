//! Attacks: paths that climb out of the workspace by their text, in every tool.

use serde_json::json;

use super::rig::{Rig, assert_same, assert_unseen, every_call, tree_snapshot};

fn assert_refused_everywhere(rig: &Rig, path: &str) {
    for (tool, args) in every_call(path) {
        rig.refused(tool, &args, &["path_outside_workspace"]);
    }
}

// S2-18
#[test]
fn parent_components_are_refused() {
    let rig = Rig::new();
    for path in [
        "..",
        "../outside/secret.txt",
        "./../outside/secret.txt",
        "src/../../outside/secret.txt",
        "src/./../.././outside/secret.txt",
        "nothing/../../outside/secret.txt",
        "../../../../../../../../etc/passwd",
        "src/../../ws-evil/secret.txt",
        ".//..//outside//secret.txt",
    ] {
        assert_refused_everywhere(&rig, path);
    }
}

#[test]
fn absolute_paths_outside_are_refused() {
    let rig = Rig::new();
    let (outside, ws) = (rig.outside.display(), rig.ws.display());
    for path in [
        "/etc/passwd".to_owned(),
        "/".to_owned(),
        "//etc/passwd".to_owned(),
        format!("{outside}/secret.txt"),
        format!("{ws}-evil/secret.txt"),
        format!("{ws}/../outside/secret.txt"),
        format!("{ws}/src/../../outside/secret.txt"),
        "/proc/self/root/etc/passwd".to_owned(),
        "/proc/self/cwd/Cargo.toml".to_owned(),
        "/dev/zero".to_owned(),
    ] {
        assert_refused_everywhere(&rig, &path);
    }
}

#[test]
fn backslashes_and_home_are_refused() {
    let rig = Rig::new();
    for path in [
        "..\\outside\\secret.txt",
        "src\\..\\..\\outside",
        "src/..\\../outside",
        "~",
        "~/.profile",
    ] {
        assert_refused_everywhere(&rig, path);
    }
}

/// Nothing is decoded: such a path is an ordinary name.
#[test]
fn encoded_dots_are_ordinary_names() {
    for path in [
        "%2e%2e/outside/secret.txt",
        "%2e%2e%2foutside%2fsecret.txt",
        "..%2foutside/secret.txt",
        "..%c0%afoutside/secret.txt",
        "....//outside/secret.txt",
        ".../outside/secret.txt",
        "．．/outside/secret.txt",
        "file:///etc/passwd",
    ] {
        for (tool, args) in every_call(path) {
            let rig = Rig::new();
            let before = tree_snapshot(&rig.outside);
            if let Ok(reply) = rig.call(tool, &args) {
                assert_unseen(&reply);
            }
            assert_same(
                &before,
                &tree_snapshot(&rig.outside),
                &format!("{tool} {args}"),
            );
        }
    }
}

/// Models write absolute paths; those inside the workspace by their text are accepted.
#[test]
fn absolute_path_inside_is_accepted() {
    let rig = Rig::new();
    let path = rig.ws.join("a.txt");
    assert_eq!(
        rig.json("read_file", &json!({"path": path}))["path"],
        "a.txt"
    );
    assert_eq!(
        rig.json("list_files", &json!({"path": rig.ws}))["path"],
        "."
    );
}
