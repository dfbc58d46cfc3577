//! Attacks: the target of a path is swapped continuously while the tools use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::rig::{CANARY, Rig, assert_same, assert_unseen, tree_snapshot};

const ROUNDS: usize = 400;

/// Runs `tools` while two names are swapped continuously.
fn while_swapped(one: &Path, other: &Path, tools: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        // The thread also ends when an assertion about a tool fails.
        let over = StopOnDrop(&is_over);
        tools();
        drop(over);
    });
}

struct StopOnDrop<'f>(&'f AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asserts that no write left a temporary file behind.
fn assert_nothing_left(rig: &Rig) {
    let is_left = |path: &PathBuf| path.to_string_lossy().contains(".ostler-new");
    let left: Vec<_> = tree_snapshot(&rig.all)
        .into_keys()
        .filter(is_left)
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Runs calls on a directory `d` of the workspace that alternates with a link to the directory
/// outside.
fn swapped_directory(calls: &[(&str, Value)]) -> (usize, usize) {
    let rig = Rig::new();
    let (mut done, mut refused) = (0, 0);
    fs::write(rig.outside.join("victim.txt"), CANARY).unwrap();
    rig.put("d/secret.txt", "inside\n");
    rig.put("d/dir/secret.txt", "inside\n");
    rig.link("../outside", "link");
    let before = tree_snapshot(&rig.outside);
    while_swapped(&rig.ws.join("d"), &rig.ws.join("link"), || {
        for _ in 0..ROUNDS {
            for (tool, args) in calls {
                match rig.call(tool, args) {
                    Ok(reply) => {
                        assert_unseen(&reply);
                        // Names that only exist outside must not be seen either.
                        assert!(
                            !reply
                                .json
                                .contains("victim.txt\",\"kind\":\"file\",\"size\":11"),
                            "{}",
                            reply.json
                        );
                        done += 1;
                    }
                    Err(error) => {
                        assert!(!error.message.contains(CANARY), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    });
    assert_same(
        &before,
        &tree_snapshot(&rig.outside),
        "a directory was swapped",
    );
    assert_nothing_left(&rig);
    (done, refused)
}

// S2-25
#[test]
fn swapped_directory_is_not_read_through() {
    let (done, refused) = swapped_directory(&[
        ("read_file", json!({"path": "d/secret.txt"})),
        ("read_file", json!({"path": "d/dir/secret.txt"})),
        ("list_files", json!({"path": "d"})),
        ("list_files", json!({"pattern": "**"})),
        ("search_files", json!({"pattern": "CANARY"})),
        ("search_files", json!({"path": "d", "pattern": "."})),
    ]);
    assert!(
        done > 0 && refused > 0,
        "the swap had no effect: {done} done, {refused} refused"
    );
}

#[test]
fn swapped_directory_is_not_written_through() {
    let (done, refused) = swapped_directory(&[
        (
            "write_file",
            json!({"path": "d/secret.txt", "content": "inside again\n"}),
        ),
        (
            "create_file",
            json!({"path": "d/new/new.txt", "content": "inside\n"}),
        ),
        (
            "edit_file",
            json!({"path": "d/secret.txt", "find": "inside", "replace": "in"}),
        ),
        (
            "edit_file",
            json!({"path": "d/secret.txt", "find": "in", "replace": "inside"}),
        ),
        ("make_directory", json!({"path": "d/made/here"})),
    ]);
    assert!(
        done > 0 && refused > 0,
        "the swap had no effect: {done} done, {refused} refused"
    );
}

#[test]
fn swapped_directory_is_not_moved_or_deleted_through() {
    let (done, refused) = swapped_directory(&[
        (
            "write_file",
            json!({"path": "d/victim.txt", "content": "inside\n"}),
        ),
        (
            "move_file",
            json!({"from": "d/victim.txt", "to": "taken.txt", "overwrite": true}),
        ),
        (
            "move_file",
            json!({"from": "taken.txt", "to": "d/victim.txt", "overwrite": true}),
        ),
        ("delete_file", json!({"path": "d/victim.txt"})),
        ("delete_file", json!({"path": "d/dir/secret.txt"})),
        ("move_file", json!({"from": "d/dir", "to": "dir"})),
        ("move_file", json!({"from": "dir", "to": "d/dir"})),
    ]);
    assert!(
        done > 0 && refused > 0,
        "the swap had no effect: {done} done, {refused} refused"
    );
}

#[test]
fn directory_swapped_with_a_link_to_secrets_reveals_nothing() {
    let rig = Rig::new();
    rig.put(".ssh/inner.txt", format!("{CANARY}\n"));
    rig.put("d/secret.txt", "inside\n");
    rig.link(".ssh", "link");
    let calls = [
        ("read_file", json!({"path": "d/inner.txt"})),
        ("list_files", json!({"path": "d"})),
        ("list_files", json!({"pattern": "**", "hidden": true})),
        ("search_files", json!({"pattern": "CANARY"})),
    ];
    while_swapped(&rig.ws.join("d"), &rig.ws.join("link"), || {
        for (tool, args) in std::iter::repeat_n(&calls, ROUNDS).flatten() {
            if let Ok(reply) = rig.call(tool, args) {
                assert_unseen(&reply);
                assert!(!reply.json.contains("inner"), "{}", reply.json);
            }
        }
    });
}

/// Reads and writes a file `f` that alternates with a link: to a file outside, or to a denied one.
fn swapped_file(target: &str) {
    let rig = Rig::new();
    rig.put(".env", format!("{CANARY}\n"));
    rig.put("f", "inside\n");
    rig.link(target, "link");
    let before = (tree_snapshot(&rig.outside), rig.get(".env"));
    let reading = [
        ("read_file", json!({"path": "f"})),
        ("search_files", json!({"path": "f", "pattern": "CANARY"})),
        ("search_files", json!({"pattern": "CANARY"})),
    ];
    let writing = [
        (
            "edit_file",
            json!({"path": "f", "find": "inside", "replace": "in"}),
        ),
        ("write_file", json!({"path": "f", "content": "inside\n"})),
    ];
    let (mut done, mut refused) = (0, 0);
    let mut try_all = |calls: &[(&str, Value)]| {
        for (tool, args) in calls {
            match rig.call(tool, args) {
                Ok(reply) => {
                    assert_unseen(&reply);
                    done += 1;
                }
                Err(error) => {
                    assert!(!error.message.contains(CANARY), "{error}");
                    refused += 1;
                }
            }
        }
    };
    while_swapped(&rig.ws.join("f"), &rig.ws.join("link"), || {
        for _ in 0..ROUNDS {
            try_all(&reading);
        }
        for _ in 0..ROUNDS {
            try_all(&writing);
            // A write that hit the link put a file in its place: then there is nothing left to
            // swap.
            if ["f", "link"]
                .iter()
                .all(|name| fs::read_link(rig.ws.join(name)).is_err())
            {
                rig.link(target, "again");
                fs::rename(rig.ws.join("again"), rig.ws.join("link")).unwrap();
            }
        }
    });
    assert_same(
        &before.0,
        &tree_snapshot(&rig.outside),
        "a file was swapped",
    );
    assert_eq!(rig.get(".env"), before.1);
    assert!(
        done > 0 && refused > 0,
        "the swap had no effect: {done} done, {refused} refused"
    );
}

#[test]
fn file_swapped_with_a_link_out_stays_inside() {
    swapped_file("../outside/secret.txt");
}

#[test]
fn file_swapped_with_a_link_to_a_secret_reveals_nothing() {
    swapped_file(".env");
}

#[test]
fn concurrently_created_file_is_not_replaced() {
    let rig = Rig::new();
    let is_over = AtomicBool::new(false);
    let path = rig.ws.join("new.txt");
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // The first writer wins: the file of the tool is never seen half-written, and never
                // lost.
                match fs::File::create_new(&path) {
                    Ok(_) => fs::remove_file(&path).unwrap(),
                    Err(_) => assert_eq!(fs::read_to_string(&path).unwrap(), "of the tool\n"),
                }
                if fs::read_to_string(&path).is_ok() {
                    fs::remove_file(&path).unwrap();
                }
            }
        });
        let _over = StopOnDrop(&is_over);
        for _ in 0..ROUNDS * 20 {
            match rig.call(
                "create_file",
                &json!({"path": "new.txt", "content": "of the tool\n"}),
            ) {
                Ok(_) => done += 1,
                Err(error) => {
                    assert_eq!(error.code.as_str(), "exists", "{error}");
                    refused += 1;
                }
            }
        }
    });
    assert!(
        done > 0 && refused > 0,
        "the other writer had no effect: {done} done, {refused} refused"
    );
    assert_nothing_left(&rig);
}
