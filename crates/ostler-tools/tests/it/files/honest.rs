//! Normal use of the tools: their results, and errors that help.

use std::fs;

use serde_json::{Value, json};

use super::rig::Rig;

fn paths(listed: &Value) -> Vec<String> {
    let entries = listed["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect()
}

// S2-18
#[test]
fn a_file_is_read_whole_or_in_part() {
    let rig = Rig::new();
    let read = rig.json("read_file", &json!({"path": "a.txt"}));
    let whole = json!({"path": "a.txt", "content": "one\ntwo\nthree\n", "first_line": 1, "lines": 3, "total_lines": 3, "size": 14});
    assert_eq!(read, whole);
    let part = rig.text(
        "read_file",
        &json!({"path": "a.txt", "offset": 2, "limit": 1, "line_numbers": true}),
    );
    assert_eq!(
        part,
        "     2\ttwo\n[lines 2 to 2; there is more: continue with offset 3]"
    );
    assert_eq!(
        rig.text("read_file", &json!({"path": "./src/../a.txt", "offset": 3})),
        "three\n"
    );
    rig.put("empty", "");
    assert_eq!(
        rig.text("read_file", &json!({"path": "empty"})),
        "(the file is empty)"
    );
    rig.put("end", "no newline");
    assert_eq!(
        rig.text("read_file", &json!({"path": "end", "limit": null})),
        "no newline"
    );
    let message = rig.refused(
        "read_file",
        &json!({"path": "a.txt", "offset": 5}),
        &["bad_arguments"],
    );
    assert!(message.contains("only 3 lines"), "{message}");
}

#[test]
fn many_lines_are_returned_in_parts() {
    let rig = Rig::new();
    rig.put("many.txt", "x\n".repeat(3_000));
    let read = rig.json("read_file", &json!({"path": "many.txt"}));
    assert_eq!(
        (&read["lines"], &read["total_lines"]),
        (&json!(2_000), &Value::Null)
    );
    assert!(read["note"].as_str().unwrap().contains("offset 2001"));
    let rest = rig.json("read_file", &json!({"path": "many.txt", "offset": 2_001}));
    assert_eq!(
        (&rest["lines"], &rest["total_lines"]),
        (&json!(1_000), &json!(3_000))
    );
}

#[test]
fn missing_file_error_lists_similar_names() {
    let rig = Rig::new();
    let message = rig.refused(
        "read_file",
        &json!({"path": "src/mian.rs"}),
        &["file_not_found"],
    );
    assert!(message.contains("similar names: `main.rs`"), "{message}");
    let message = rig.refused(
        "read_file",
        &json!({"path": "scr/main.rs"}),
        &["file_not_found"],
    );
    assert!(
        message.contains("`scr` does not exist; similar names: `src`"),
        "{message}"
    );
    rig.refused("read_file", &json!({"path": "src"}), &["is_directory"]);
    rig.refused("read_file", &json!({"path": "."}), &["is_directory"]);
    rig.refused(
        "read_file",
        &json!({"path": "a.txt/b"}),
        &["not_a_directory"],
    );
    rig.refused(
        "edit_file",
        &json!({"path": "b.txt", "find": "a", "replace": "b"}),
        &["file_not_found"],
    );
}

#[test]
fn a_file_is_written_and_created() {
    let rig = Rig::new();
    let made = rig.json(
        "write_file",
        &json!({"path": "new/deep/b.txt", "content": "x\n"}),
    );
    assert_eq!(
        (&made["result"], &made["bytes"]),
        (&json!("created"), &json!(2))
    );
    assert_eq!(
        made["diff"],
        "--- a/new/deep/b.txt\n+++ b/new/deep/b.txt\n@@ -0,0 +1 @@\n+x\n"
    );
    let text = rig.text(
        "write_file",
        &json!({"path": "new/deep/b.txt", "content": "y\n"}),
    );
    assert_eq!(
        text,
        "replaced new/deep/b.txt (2 bytes)\n--- a/new/deep/b.txt\n+++ b/new/deep/b.txt\n@@ -1 +1 @@\n-x\n+y"
    );
    assert!(
        rig.text(
            "write_file",
            &json!({"path": "new/deep/b.txt", "content": "y\n"})
        )
        .ends_with("(no change)")
    );
    rig.json("create_file", &json!({"path": "c/c.txt", "content": "c"}));
    rig.refused(
        "create_file",
        &json!({"path": "c/c.txt", "content": "d"}),
        &["exists"],
    );
    rig.refused(
        "create_file",
        &json!({"path": "src", "content": "d"}),
        &["exists"],
    );
    rig.refused(
        "write_file",
        &json!({"path": "src", "content": "d"}),
        &["is_directory"],
    );
    rig.refused(
        "write_file",
        &json!({"path": "a.txt/b", "content": "d"}),
        &["not_a_directory"],
    );
    rig.put("binary", "\0");
    let text = rig.text("write_file", &json!({"path": "binary", "content": "text"}));
    assert!(text.contains("no diff"), "{text}");
}

#[test]
fn files_and_empty_directories_are_deleted() {
    let rig = Rig::new();
    rig.refused("delete_file", &json!({"path": "src"}), &["is_directory"]);
    rig.json("delete_file", &json!({"path": "src/main.rs"}));
    assert_eq!(
        rig.json("delete_file", &json!({"path": "src"}))["deleted"],
        "directory"
    );
    rig.refused("delete_file", &json!({"path": "src"}), &["file_not_found"]);
    rig.refused("delete_file", &json!({"path": "."}), &["bad_arguments"]);
    assert!(!rig.ws.join("src").exists());
}

#[test]
fn listing_omits_ignored_files() {
    let rig = Rig::new();
    rig.put(".gitignore", "target/\n*.log\n!keep.log\n/top.txt\n");
    for path in [
        "target/x.rs",
        "a.log",
        "keep.log",
        "top.txt",
        "sub/top.txt",
        "sub/b.rs",
        "sub/x/c.rs",
        ".hidden",
    ] {
        rig.put(path, "");
    }
    rig.put("sub/.gitignore", "x/\n");
    rig.put(".git/HEAD", "");
    let listed = rig.json("list_files", &json!({}));
    assert_eq!(paths(&listed), ["a.txt", "keep.log", "src", "sub"]);
    assert!(
        listed["notes"]
            .to_string()
            .contains("3 omitted because git ignores them"),
        "{listed}"
    );
    let all = rig.json("list_files", &json!({"pattern": "**", "hidden": true}));
    let expected = [
        ".git",
        ".gitignore",
        ".hidden",
        "a.txt",
        "keep.log",
        "src",
        "src/main.rs",
        "sub",
        "sub/.gitignore",
        "sub/b.rs",
        "sub/top.txt",
    ];
    assert_eq!(paths(&all), expected);
    assert_eq!(
        paths(&rig.json("list_files", &json!({"pattern": "*.rs"}))),
        ["src/main.rs", "sub/b.rs"]
    );
    assert_eq!(
        paths(&rig.json("list_files", &json!({"pattern": "sub/*.rs"}))),
        ["sub/b.rs"]
    );
    assert_eq!(
        paths(&rig.json("list_files", &json!({"path": "sub", "pattern": "*.rs"}))),
        ["sub/b.rs"]
    );
    // A named directory is listed, ignored or not; files that the directories above ignore stay
    // omitted.
    assert_eq!(
        paths(&rig.json("list_files", &json!({"path": "target"}))),
        ["target/x.rs"]
    );
    rig.put("sub/b.log", "");
    assert!(
        !paths(&rig.json("list_files", &json!({"path": "sub"}))).contains(&"sub/b.log".to_owned())
    );
    rig.refused(
        "list_files",
        &json!({"path": "a.txt"}),
        &["not_a_directory"],
    );
    rig.refused(
        "list_files",
        &json!({"path": "nothing"}),
        &["file_not_found"],
    );
}

#[test]
fn listing_shows_kinds_and_is_bounded() {
    let rig = Rig::new();
    rig.link("a.txt", "link");
    assert_eq!(
        rig.text("list_files", &json!({})),
        "a.txt\nlink (link)\nsrc/\n"
    );
    let listed = rig.json("list_files", &json!({}));
    assert_eq!(
        listed["entries"][0],
        json!({"path": "a.txt", "kind": "file", "size": 14})
    );
    for at in 0..1_100 {
        fs::write(rig.ws.join(format!("src/{at:04}")), "").unwrap();
    }
    let listed = rig.json("list_files", &json!({"path": "src"}));
    assert_eq!(paths(&listed).len(), 1_000);
    assert!(listed["notes"].to_string().contains("only the first 1000"));
    fs::create_dir(rig.ws.join("empty")).unwrap();
    assert_eq!(
        rig.text("list_files", &json!({"path": "empty"})),
        "(no entries)\n"
    );
}

#[test]
fn a_search_finds_lines() {
    let rig = Rig::new();
    rig.put(".gitignore", "target/\n");
    rig.put("target/x.rs", "needle\n");
    rig.put(".github/ci.yml", "needle\n");
    rig.put("src/b.rs", "one\nNeedle here\nthree\r\nneedle(1)\n");
    let found = rig.text("search_files", &json!({"pattern": "n.edle"}));
    assert_eq!(found, ".github/ci.yml:1:needle\nsrc/b.rs:4:needle(1)\n");
    let found = rig.text(
        "search_files",
        &json!({"pattern": "needle(1)", "literal": true}),
    );
    assert_eq!(found, "src/b.rs:4:needle(1)\n");
    let found = rig.text(
        "search_files",
        &json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs", "context": 1}),
    );
    assert_eq!(
        found,
        "src/b.rs-1-one\nsrc/b.rs:2:Needle here\nsrc/b.rs-3-three\nsrc/b.rs:4:needle(1)\n"
    );
    let found = rig.text(
        "search_files",
        &json!({"pattern": "^three$", "path": "src/b.rs"}),
    );
    assert_eq!(found, "src/b.rs:3:three\n");
    let found = rig.json(
        "search_files",
        &json!({"pattern": "e", "max": 2, "path": "src"}),
    );
    assert_eq!(found["match_count"], 2);
    assert!(
        found["notes"].to_string().contains("only the first 2"),
        "{found}"
    );
    assert_eq!(
        rig.text("search_files", &json!({"pattern": "nowhere"})),
        "(no match in 5 files)\n"
    );
    let message = rig.refused(
        "search_files",
        &json!({"pattern": "x", "path": "scr"}),
        &["file_not_found"],
    );
    assert!(message.contains("`src`"), "{message}");
}

#[test]
fn files_and_directories_are_moved() {
    let rig = Rig::new();
    rig.json(
        "move_file",
        &json!({"from": "a.txt", "to": "deep/er/b.txt"}),
    );
    assert_eq!(rig.get("deep/er/b.txt"), "one\ntwo\nthree\n");
    rig.json("move_file", &json!({"from": "deep", "to": "shallow"}));
    rig.put("c.txt", "c");
    rig.refused(
        "move_file",
        &json!({"from": "c.txt", "to": "src/main.rs"}),
        &["exists"],
    );
    rig.refused(
        "move_file",
        &json!({"from": "c.txt", "to": "src"}),
        &["exists"],
    );
    rig.refused(
        "move_file",
        &json!({"from": "src", "to": "c.txt", "overwrite": true}),
        &["exists"],
    );
    rig.refused(
        "move_file",
        &json!({"from": "src", "to": "src/in/itself"}),
        &["bad_arguments"],
    );
    rig.refused(
        "move_file",
        &json!({"from": "nothing", "to": "x"}),
        &["file_not_found"],
    );
    rig.refused(
        "move_file",
        &json!({"from": ".", "to": "x"}),
        &["bad_arguments"],
    );
    rig.refused(
        "move_file",
        &json!({"from": "c.txt", "to": "."}),
        &["bad_arguments"],
    );
    assert_eq!(
        rig.json(
            "move_file",
            &json!({"from": "c.txt", "to": "src/main.rs", "overwrite": true})
        )["replaced"],
        true
    );
    assert_eq!(rig.get("src/main.rs"), "c");
}

#[test]
fn directories_are_created() {
    let rig = Rig::new();
    assert_eq!(
        rig.json("make_directory", &json!({"path": "x/y/z"})),
        json!({"path": "x/y/z", "created": 3})
    );
    assert_eq!(
        rig.json("make_directory", &json!({"path": "x/y"}))["created"],
        0
    );
    assert!(rig.ws.join("x/y/z").is_dir());
    rig.refused("make_directory", &json!({"path": "a.txt"}), &["exists"]);
    rig.refused("make_directory", &json!({"path": "a.txt/b"}), &["exists"]);
}
