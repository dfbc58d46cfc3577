//! Attacks: unusual names of files and directories.

use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;

use super::rig::{Rig, every_call};

#[test]
fn name_with_nul_is_refused() {
    let rig = Rig::new();
    for path in [
        "a.txt\0",
        "a\0.txt",
        "\0",
        "src/\0/x",
        "../outside/secret.txt\0.png",
    ] {
        for (tool, args) in every_call(path) {
            rig.refused(tool, &args, &["bad_arguments"]);
        }
    }
    for (tool, args) in every_call("") {
        rig.refused(tool, &args, &["bad_arguments"]);
    }
}

#[test]
fn a_new_name_has_no_control_characters() {
    let rig = Rig::new();
    for path in [
        "a\nb",
        "a\rb",
        "\x1b[2Jx",
        "tab\tbed",
        "dir\n/x",
        "a\u{7f}",
        "a\u{85}b",
        "back\\slash",
    ] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["bad_arguments"],
        );
        rig.refused(
            "create_file",
            &json!({"path": path, "content": "x"}),
            &["bad_arguments"],
        );
        rig.refused("make_directory", &json!({"path": path}), &["bad_arguments"]);
        let message = rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path}),
            &["bad_arguments"],
        );
        assert!(!message.chars().any(char::is_control), "{message:?}");
        rig.refused("read_file", &json!({"path": path}), &["file_not_found"]);
    }
}

#[test]
fn existing_odd_name_can_be_renamed() {
    let rig = Rig::new();
    rig.put("two\nlines", "x");
    let listed = rig.text("list_files", &json!({}));
    assert!(listed.contains("\"two\\nlines\"\n"), "{listed}");
    rig.json("read_file", &json!({"path": "two\nlines"}));
    rig.json("move_file", &json!({"from": "two\nlines", "to": "one"}));
}

/// Names that look like further lines of a result, or reverse its text.
const DECEIVING: [&str; 6] = [
    "x\nevil.rs:1:needle",
    "x\revil.rs",
    "x\u{2028}evil",
    "x\u{202e}sr.live",
    "x\u{85}evil",
    "\"x\"",
];

// A name is one line of one result, whatever it contains.
#[test]
fn a_name_never_looks_like_another_result() {
    let rig = Rig::new();
    for name in DECEIVING {
        let path = format!("odd/{name}");
        rig.put(&path, "needle\n");
    }
    let calls = [
        ("list_files", json!({"path": "odd"})),
        ("list_files", json!({"pattern": "odd/*"})),
        ("search_files", json!({"pattern": "needle"})),
        ("search_files", json!({"pattern": "needle", "context": 1})),
    ];
    for (tool, args) in calls {
        let text = rig.text(tool, &args);
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('[') && *line != "--")
            .count();
        assert!(lines == DECEIVING.len(), "{tool} {args}: {text}");
        assert!(
            !text.contains(['\r', '\u{2028}', '\u{202e}', '\u{85}']),
            "{tool} {args}: {text:?}"
        );
    }
    for name in DECEIVING {
        let path = format!("odd/{name}");
        for (tool, args) in [
            (
                "edit_file",
                json!({"path": path, "find": "needle", "replace": "other"}),
            ),
            ("write_file", json!({"path": path, "content": "third\n"})),
            ("move_file", json!({"from": path, "to": "free"})),
        ] {
            let text = rig.text(tool, &args);
            let shown: String = text.lines().filter(|line| line.contains("odd")).collect();
            assert!(
                !shown.contains(['\r', '\u{2028}', '\u{202e}', '\u{85}']),
                "{tool}: {text:?}"
            );
            assert!(
                !text.lines().any(|line| line.starts_with("evil")),
                "{tool}: {text}"
            );
        }
        rig.json("delete_file", &json!({"path": "free"}));
        rig.put(&path, "x");
        let text = rig.text("delete_file", &json!({"path": path}));
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let message = rig.refused("read_file", &json!({"path": path}), &["file_not_found"]);
        assert!(
            !message.contains(['\n', '\r', '\u{2028}', '\u{202e}']),
            "{message:?}"
        );
    }
}

// A listed name can be passed back as shown; a real name with that spelling takes precedence.
#[test]
fn quoted_name_is_accepted_for_the_name() {
    let rig = Rig::new();
    rig.put("two\nlines", "real\n");
    rig.put("dir/turned\u{202e}around", "turned\n");
    assert_eq!(
        rig.json("read_file", &json!({"path": "\"two\\nlines\""}))["content"],
        "real\n"
    );
    assert_eq!(
        rig.json(
            "read_file",
            &json!({"path": "\"dir/turned\\u{202e}around\""})
        )["content"],
        "turned\n"
    );
    rig.put("\"two\\nlines\"", "literal\n");
    assert_eq!(
        rig.json("read_file", &json!({"path": "\"two\\nlines\""}))["content"],
        "literal\n"
    );
    for path in [
        "\"../outside/secret.txt\"",
        "\"..\\u{2f}outside/secret.txt\"",
        "\"a\\u{0}b\"",
    ] {
        rig.refused(
            "read_file",
            &json!({"path": path}),
            &["file_not_found", "path_outside_workspace", "bad_arguments"],
        );
    }
}

#[test]
fn new_name_has_no_direction_marks() {
    let rig = Rig::new();
    for path in ["a\u{202e}b", "a\u{2066}b", "a\u{2028}b", "a\u{200f}b"] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["bad_arguments"],
        );
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path}),
            &["bad_arguments"],
        );
    }
}

#[test]
fn a_name_that_begins_with_a_dash_is_a_name() {
    let rig = Rig::new();
    for path in [
        "-rf",
        "--help",
        "-",
        "--",
        "-n/--x",
        "$(touch x)",
        "`id`",
        ";ls",
        "*",
        "a b",
        "'",
        "\"",
        "|",
        "…",
    ] {
        rig.json("create_file", &json!({"path": path, "content": "x\n"}));
        assert_eq!(
            rig.json("read_file", &json!({"path": path}))["content"],
            "x\n"
        );
        rig.json("delete_file", &json!({"path": path}));
    }
}

#[test]
fn a_name_that_is_too_long_leaves_nothing_behind() {
    let rig = Rig::new();
    let long = "x".repeat(300);
    let far = format!("{}a.txt", "deep/".repeat(1_000));
    for path in [&long, &format!("new/{long}"), &format!("{long}/new"), &far] {
        for (tool, args) in every_call(path) {
            rig.refused(tool, &args, &["bad_arguments", "file_not_found"]);
        }
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["bad_arguments"],
        );
    }
}

#[test]
fn tree_beyond_the_path_limit_is_handled() {
    let rig = Rig::new();
    let mut dir = Dir::open_ambient_dir(&rig.ws, ambient_authority()).unwrap();
    for _ in 0..400 {
        dir.create_dir("a-name-of-20-letters").unwrap();
        dir = dir.open_dir("a-name-of-20-letters").unwrap();
        dir.write("file.txt", "needle\n").unwrap();
    }
    let found = rig.json("search_files", &json!({"pattern": "needle", "max": 1000}));
    assert!(
        found["match_count"].as_u64().unwrap() > 100,
        "{}",
        found["match_count"]
    );
    let listed = rig.json("list_files", &json!({"pattern": "**"}));
    assert!(
        listed["notes"].to_string().contains("could not be opened"),
        "{}",
        listed["notes"]
    );
    // A tree that cannot be checked completely cannot be moved.
    let args = json!({"from": "a-name-of-20-letters", "to": "moved"});
    assert_eq!(
        rig.call("move_file", &args).unwrap_err().code.as_str(),
        "denied_by_policy"
    );
    assert!(Path::new(&rig.ws.join("a-name-of-20-letters")).exists());
}
