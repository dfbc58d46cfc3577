//! Attacks: symbolic and hard links that lead out of the workspace, or to denied files.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::rig::{CANARY, Rig, assert_same, every_call, tree_snapshot};

/// Calls of the tools that follow a link at the end of a path; delete and move act on the link
/// itself.
fn calls_through(path: &str) -> Vec<(&'static str, serde_json::Value)> {
    let itself = |tool: &str| matches!(tool, "delete_file" | "move_file" | "create_file");
    every_call(path)
        .into_iter()
        .filter(|(tool, _)| !itself(tool))
        .collect()
}

// S2-25
#[test]
fn a_link_to_a_file_outside_is_not_followed() {
    let rig = Rig::new();
    rig.link("../outside/secret.txt", "relative");
    rig.link(rig.outside.join("secret.txt"), "absolute");
    rig.link("relative", "chain1");
    rig.link("src/../chain1", "chain2");
    rig.link("../outside/new.txt", "dangling");
    rig.link(rig.outside.join("new.txt"), "dangling-absolute");
    rig.link("../../ws/../outside/secret.txt", "src/winding");
    for path in [
        "relative",
        "absolute",
        "chain1",
        "chain2",
        "dangling",
        "dangling-absolute",
        "src/winding",
    ] {
        for (tool, args) in calls_through(path) {
            rig.refused(tool, &args, &["path_outside_workspace"]);
        }
        rig.refused(
            "create_file",
            &json!({"path": path, "content": "x"}),
            &["exists"],
        );
    }
}

#[test]
fn a_link_to_a_directory_outside_is_not_entered() {
    let rig = Rig::new();
    rig.link("../outside", "relative");
    rig.link(&rig.outside, "absolute");
    rig.link("..", "parent");
    rig.link("/", "top");
    rig.link("relative", "chain");
    for path in [
        "relative/secret.txt",
        "relative/dir/secret.txt",
        "absolute/secret.txt",
        "absolute/new/new.txt",
        "parent/outside/secret.txt",
        "top/etc/passwd",
        "chain/secret.txt",
        "chain/new.txt",
    ] {
        for (tool, args) in every_call(path) {
            rig.refused(tool, &args, &["path_outside_workspace"]);
        }
    }
    for path in ["relative", "absolute", "parent", "top", "chain"] {
        for (tool, args) in calls_through(path) {
            rig.refused(tool, &args, &["path_outside_workspace"]);
        }
    }
}

#[test]
fn links_into_proc_and_dev_are_not_followed() {
    let rig = Rig::new();
    let targets = [
        "/proc/self/root",
        "/proc/self/cwd",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/1/root/etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "/dev/tty",
    ];
    for (at, target) in targets.iter().enumerate() {
        rig.link(target, &format!("link{at}"));
        for (tool, args) in calls_through(&format!("link{at}")) {
            rig.refused(tool, &args, &["path_outside_workspace"]);
        }
    }
    for (tool, args) in every_call("link0/etc/passwd") {
        rig.refused(tool, &args, &["path_outside_workspace"]);
    }
}

#[test]
fn link_loops_terminate() {
    let rig = Rig::new();
    rig.link("b", "a");
    rig.link("a", "b");
    rig.link("self", "self");
    rig.link("up/up", "up");
    rig.link(".", "here");
    for path in ["a", "self", "up", "a/x", "self/self"] {
        for (tool, args) in calls_through(path) {
            rig.refused(tool, &args, &["file_not_found", "not_a_directory"]);
        }
    }
    // A link to the workspace itself forms a loop that stays inside; a walk does not follow it.
    rig.put("many.txt", "needle\n");
    assert_eq!(
        rig.json("read_file", &json!({"path": "here/here/here/many.txt"}))["path"],
        "many.txt"
    );
    assert_eq!(
        rig.json("search_files", &json!({"pattern": "needle"}))["match_count"],
        1
    );
}

#[test]
fn link_that_leads_out_can_itself_be_moved_and_deleted() {
    let rig = Rig::new();
    rig.link("../outside/secret.txt", "link");
    rig.link("../outside", "dirlink");
    let before = tree_snapshot(&rig.outside);
    rig.json("move_file", &json!({"from": "link", "to": "src/link"}));
    rig.json("delete_file", &json!({"path": "src/link"}));
    rig.json("delete_file", &json!({"path": "dirlink"}));
    rig.link("../outside/secret.txt", "over");
    rig.json(
        "move_file",
        &json!({"from": "a.txt", "to": "over", "overwrite": true}),
    );
    assert_eq!(rig.get("over"), "one\ntwo\nthree\n");
    assert_same(
        &before,
        &tree_snapshot(&rig.outside),
        "links were moved and deleted",
    );
}

/// A link moved to where its target means something else is still confined.
#[test]
fn moved_link_does_not_lead_out() {
    let rig = Rig::new();
    fs::create_dir_all(rig.ws.join("deep/er")).unwrap();
    rig.link("../../outside/secret.txt", "deep/er/link");
    rig.refused(
        "read_file",
        &json!({"path": "deep/er/link"}),
        &["file_not_found"],
    );
    rig.json(
        "move_file",
        &json!({"from": "deep/er/link", "to": "deep/link"}),
    );
    rig.refused(
        "read_file",
        &json!({"path": "deep/link"}),
        &["path_outside_workspace"],
    );
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let rig = Rig::new();
    rig.link("../a.txt", "src/link");
    rig.link("src/link", "chain");
    rig.link("src", "dir");
    rig.link("new.txt", "dangling");
    assert_eq!(
        rig.json("read_file", &json!({"path": "chain"}))["path"],
        "a.txt"
    );
    rig.json(
        "edit_file",
        &json!({"path": "chain", "find": "two", "replace": "2"}),
    );
    assert_eq!(rig.get("a.txt"), "one\n2\nthree\n");
    rig.json("write_file", &json!({"path": "chain", "content": "new\n"}));
    assert!(
        fs::symlink_metadata(rig.ws.join("chain"))
            .unwrap()
            .is_symlink()
    );
    assert!(
        fs::symlink_metadata(rig.ws.join("src/link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(rig.get("a.txt"), "new\n");
    assert_eq!(
        rig.json("write_file", &json!({"path": "dir/x.txt", "content": "x"}))["path"],
        "src/x.txt"
    );
    rig.json(
        "write_file",
        &json!({"path": "dangling", "content": "made"}),
    );
    assert_eq!(rig.get("new.txt"), "made");
    assert!(
        fs::symlink_metadata(rig.ws.join("dangling"))
            .unwrap()
            .is_symlink()
    );
}

// S2-25
#[test]
fn link_to_a_denied_file_is_denied() {
    let rig = Rig::new();
    rig.put(".env", format!("KEY={CANARY}\n"));
    rig.put(".ssh/config", format!("{CANARY}\n"));
    rig.put(".git/hooks/x", "x\n");
    rig.put(".ostler/sandbox.toml", "");
    rig.link(".env", "notes.txt");
    rig.link("notes.txt", "more.txt");
    rig.link(".ssh", "dir");
    for path in ["notes.txt", "more.txt", "dir/config", "dir/new"] {
        let calls = if path.starts_with("dir/") {
            every_call(path)
        } else {
            calls_through(path)
        };
        for (tool, args) in calls {
            // Where a directory is expected, a file in its place is an equally good reason.
            rig.refused(
                tool,
                &args,
                &["denied_by_policy", "not_a_directory", "exists"],
            );
        }
    }
    for (tool, args) in calls_through("dir")
        .into_iter()
        .filter(|(tool, _)| *tool != "make_directory")
    {
        rig.refused(tool, &args, &["denied_by_policy", "is_directory"]);
    }
    rig.link(".git", "git");
    rig.link(".ostler", "own");
    rig.link("git/hooks", "hooks");
    for path in ["git/hooks/x", "hooks/x"] {
        rig.refused(
            "edit_file",
            &json!({"path": path, "find": "x", "replace": "y"}),
            &["denied_by_policy"],
        );
        rig.refused("delete_file", &json!({"path": path}), &["denied_by_policy"]);
        rig.refused(
            "move_file",
            &json!({"from": path, "to": "free"}),
            &["denied_by_policy"],
        );
    }
    for path in [
        "git/hooks/pre-commit",
        "hooks/pre-commit",
        "own/sandbox.toml",
        "git/new/dir/x",
    ] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path, "overwrite": true}),
            &["denied_by_policy"],
        );
        rig.refused(
            "make_directory",
            &json!({"path": format!("{path}/d")}),
            &["denied_by_policy", "exists"],
        );
    }
}

// S2-25
#[test]
fn hard_link_of_a_denied_file_is_denied() {
    let rig = Rig::new();
    rig.put(".env", format!("KEY={CANARY}\n"));
    fs::hard_link(rig.ws.join(".env"), rig.ws.join("notes.txt")).unwrap();
    rig.put("deep/.ssh/id", format!("{CANARY}\n"));
    fs::hard_link(rig.ws.join("deep/.ssh/id"), rig.ws.join("src/notes.md")).unwrap();
    for path in ["notes.txt", "src/notes.md"] {
        rig.refused("read_file", &json!({"path": path}), &["denied_by_policy"]);
        rig.refused(
            "search_files",
            &json!({"path": path, "pattern": "CANARY"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "edit_file",
            &json!({"path": path, "find": "CANARY", "replace": "x"}),
            &["denied_by_policy"],
        );
        // The previous content would be in the diff.
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
    }
    let found = rig.json("search_files", &json!({"pattern": "CANARY"}));
    assert_eq!(found["match_count"], 0);
}

#[test]
fn a_write_does_not_reach_through_a_hard_link() {
    let rig = Rig::new();
    fs::hard_link(rig.outside.join("secret.txt"), rig.ws.join("shared.txt")).unwrap();
    fs::hard_link(rig.ws.join("a.txt"), rig.ws.join("b.txt")).unwrap();
    let before = tree_snapshot(&rig.outside);
    rig.call("write_file", &json!({"path": "shared.txt", "content": "x"}))
        .unwrap();
    rig.json(
        "edit_file",
        &json!({"path": "a.txt", "find": "two", "replace": "2"}),
    );
    assert_same(
        &before,
        &tree_snapshot(&rig.outside),
        "a hard link was written",
    );
    assert_eq!(rig.get("b.txt"), "one\ntwo\nthree\n");
    assert_eq!(fs::metadata(rig.ws.join("b.txt")).unwrap().nlink(), 1);
    // A harmless hard link can be read.
    fs::hard_link(rig.ws.join("b.txt"), rig.ws.join("c.txt")).unwrap();
    rig.json("read_file", &json!({"path": "c.txt"}));
}
