//! Attacks: special files, and files that are far too large.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use ostler_testkit::machine::{self, Need};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::json;

use super::rig::{Rig, every_call};

/// Asserts that every tool refuses the path without blocking or touching it.
fn refused_by_all(rig: &Rig, path: &str) {
    for (tool, args) in every_call(path) {
        rig.refused(tool, &args, &["not_a_file", "not_a_directory", "exists"]);
    }
    for (tool, args) in every_call(&format!("{path}/below")) {
        rig.refused(tool, &args, &["not_a_directory", "exists", "not_a_file"]);
    }
    assert_eq!(
        rig.json("search_files", &json!({"pattern": "x"}))["match_count"],
        0
    );
}

#[test]
fn pipe_does_not_block() {
    let rig = Rig::new();
    mknodat(
        CWD,
        rig.ws.join("pipe"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    refused_by_all(&rig, "pipe");
}

#[test]
fn a_socket_is_not_opened() {
    let rig = Rig::new();
    let _listener = std::os::unix::net::UnixListener::bind(rig.ws.join("socket")).unwrap();
    assert!(
        fs::symlink_metadata(rig.ws.join("socket"))
            .unwrap()
            .file_type()
            .is_socket()
    );
    refused_by_all(&rig, "socket");
}

#[test]
fn a_device_is_not_opened() {
    let rig = Rig::new();
    let zero = makedev(1, 5);
    if let Err(error) = mknodat(
        CWD,
        rig.ws.join("zero"),
        FileType::CharacterDevice,
        Mode::RUSR | Mode::WUSR,
        zero,
    ) {
        let need = Need::Missing(format!("creating a device needs root ({error})"));
        assert!(!machine::can_run("a_device_is_not_opened", &need));
        return;
    }
    mknodat(
        CWD,
        rig.ws.join("disk"),
        FileType::BlockDevice,
        Mode::RUSR,
        makedev(7, 0),
    )
    .unwrap();
    refused_by_all(&rig, "zero");
    refused_by_all(&rig, "disk");
}

#[test]
fn pipe_named_gitignore_does_not_block() {
    let rig = Rig::new();
    mknodat(
        CWD,
        rig.ws.join(".gitignore"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(
        rig.json("list_files", &json!({}))["entries"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    rig.json("search_files", &json!({"pattern": "x"}));
}

#[test]
fn a_large_file_is_read_in_parts_only() {
    let rig = Rig::new();
    rig.put("large.txt", "0123456789abcde\n".repeat(20_000));
    let message = rig.refused("read_file", &json!({"path": "large.txt"}), &["too_large"]);
    assert!(message.contains("`offset` and `limit`"), "{message}");
    let part = rig.json(
        "read_file",
        &json!({"path": "large.txt", "offset": 19_999, "limit": 10}),
    );
    assert_eq!(
        (&part["lines"], &part["total_lines"]),
        (&json!(2), &json!(20_000))
    );
    // Even if everything is requested, the result is bounded.
    let part = rig.json(
        "read_file",
        &json!({"path": "large.txt", "offset": 1, "limit": 1_000_000}),
    );
    assert!(part["content"].as_str().unwrap().len() <= 256 * 1024);
    assert!(
        part["note"]
            .as_str()
            .unwrap()
            .contains("continue with offset")
    );
}

#[test]
fn a_sparse_file_of_a_terabyte_costs_nothing() {
    let rig = Rig::new();
    rig.put("sparse", "");
    fs::File::options()
        .write(true)
        .open(rig.ws.join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    rig.refused("read_file", &json!({"path": "sparse"}), &["binary_file"]);
    rig.refused(
        "read_file",
        &json!({"path": "sparse", "offset": 5, "limit": 5}),
        &["binary_file"],
    );
    rig.refused(
        "edit_file",
        &json!({"path": "sparse", "find": "a", "replace": "b"}),
        &["too_large"],
    );
    assert_eq!(
        rig.json("search_files", &json!({"pattern": "x", "path": "sparse"}))["match_count"],
        0
    );

    // With text at its beginning it is not recognized as binary.
    rig.put("texty", "line of text\n".repeat(1_000));
    fs::File::options()
        .write(true)
        .open(rig.ws.join("texty"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    rig.refused("read_file", &json!({"path": "texty"}), &["too_large"]);
    rig.json("read_file", &json!({"path": "texty", "limit": 3}));
    rig.refused(
        "read_file",
        &json!({"path": "texty", "offset": 5_000}),
        &["too_large"],
    );
    rig.refused(
        "edit_file",
        &json!({"path": "texty", "find": "line", "replace": "b", "all": true}),
        &["too_large"],
    );
    let found = rig.json("search_files", &json!({"pattern": "line"}));
    assert!(found["notes"].to_string().contains("too large"), "{found}");
    let written = rig.json("write_file", &json!({"path": "texty", "content": "short"}));
    assert_eq!(
        (&written["result"], &written["diff"]),
        (&json!("replaced"), &json!(""))
    );
}

#[test]
fn endless_line_is_truncated() {
    let rig = Rig::new();
    rig.put("wide.txt", format!("{}\nnext\n", "ä".repeat(100_000)));
    let content = rig.json("read_file", &json!({"path": "wide.txt"}))["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        content.len() < 10_000 && content.contains("[cut: 196") && content.ends_with("\nnext\n"),
        "{content}"
    );
    let found = rig.json("search_files", &json!({"pattern": "ä+"}));
    assert!(
        found["matches"][0]["text"]
            .as_str()
            .unwrap()
            .chars()
            .count()
            < 500
    );
}

#[test]
fn binary_files_are_not_read() {
    let rig = Rig::new();
    rig.put("nul", "text\0text");
    rig.put("latin1", b"caf\xe9\n");
    rig.put("late", [&b"text\n".repeat(4_000)[..], b"\xff\xfe"].concat());
    for path in ["nul", "latin1"] {
        rig.refused("read_file", &json!({"path": path}), &["binary_file"]);
        rig.refused(
            "edit_file",
            &json!({"path": path, "find": "t", "replace": "b"}),
            &["binary_file"],
        );
    }
    rig.refused(
        "edit_file",
        &json!({"path": "late", "find": "t", "replace": "b", "all": true}),
        &["binary_file"],
    );
    rig.refused(
        "read_file",
        &json!({"path": "late", "offset": 3_999}),
        &["binary_file"],
    );
    assert_eq!(
        rig.json("search_files", &json!({"pattern": "text", "path": "nul"}))["match_count"],
        0
    );
}

#[test]
fn oversized_writes_are_refused() {
    let rig = Rig::new();
    let much = "x".repeat(10 * 1024 * 1024 + 1);
    for path in ["a.txt", "new.txt", "new/new.txt"] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": much}),
            &["too_large"],
        );
    }
    rig.put("many.txt", "a".repeat(1_000_000));
    let edit =
        json!({"path": "many.txt", "find": "a", "replace": "b".repeat(100_000), "all": true});
    rig.refused("edit_file", &edit, &["too_large"]);
}

#[test]
fn write_protected_file_is_unchanged() {
    let rig = Rig::new();
    fs::set_permissions(rig.ws.join("a.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    rig.refused(
        "write_file",
        &json!({"path": "a.txt", "content": "x"}),
        &["io"],
    );
    rig.refused(
        "edit_file",
        &json!({"path": "a.txt", "find": "two", "replace": "2"}),
        &["io"],
    );
}
