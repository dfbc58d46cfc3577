//! Text replacement: exact matches, all or nothing, and errors that lead to a correct call.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::rig::Rig;

#[test]
fn single_and_multiple_edits_are_applied() {
    let rig = Rig::new();
    let done = rig.json(
        "edit_file",
        &json!({"path": "a.txt", "find": "two", "replace": "2"}),
    );
    assert_eq!(
        done["diff"],
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    );
    let edits =
        json!([{"find": "2", "replace": "zwei"}, {"find": "zwei\nthree", "replace": "rest"}]);
    rig.json("edit_file", &json!({"path": "a.txt", "edits": edits}));
    assert_eq!(rig.get("a.txt"), "one\nrest\n");
    rig.put("b.txt", "x x x");
    rig.json(
        "edit_file",
        &json!({"path": "b.txt", "find": "x", "replace": "y", "all": true}),
    );
    assert_eq!(rig.get("b.txt"), "y y y");
    rig.json(
        "edit_file",
        &json!({"path": "b.txt", "edits": [{"find": "y", "replace": "", "all": true}]}),
    );
    assert_eq!(rig.get("b.txt"), "  ");
}

#[test]
fn multiple_edits_are_applied_all_or_none() {
    let rig = Rig::new();
    let edits = json!([{"find": "one", "replace": "1"}, {"find": "four", "replace": "4"}]);
    let message = rig.refused(
        "edit_file",
        &json!({"path": "a.txt", "edits": edits}),
        &["find_not_found"],
    );
    assert!(message.starts_with("edit 2 of 2: "), "{message}");
    let edits = json!([{"find": "one", "replace": "1"}, {"find": "e", "replace": "E"}]);
    rig.refused(
        "edit_file",
        &json!({"path": "a.txt", "edits": edits}),
        &["find_not_unique"],
    );
}

#[test]
fn missing_text_error_shows_the_closest_line() {
    let rig = Rig::new();
    rig.put("code.rs", "fn main() {\n    let total = 1;\n}\n");
    let message = rig.refused(
        "edit_file",
        &json!({"path": "code.rs", "find": "let total = 2;", "replace": "x"}),
        &["find_not_found"],
    );
    assert!(
        message.contains("the closest match is line 2: `    let total = 1;`"),
        "{message}"
    );
    rig.put("crlf.txt", "one\r\ntwo\r\n");
    let message = rig.refused(
        "edit_file",
        &json!({"path": "crlf.txt", "find": "one\ntwo", "replace": "x"}),
        &["find_not_found"],
    );
    assert!(message.contains("\\r\\n"), "{message}");
}

#[test]
fn ambiguous_text_error_lists_its_lines() {
    let rig = Rig::new();
    rig.put("b.txt", "x = 1\ny\nx = 1\n");
    let message = rig.refused(
        "edit_file",
        &json!({"path": "b.txt", "find": "x = 1", "replace": "x"}),
        &["find_not_unique"],
    );
    assert!(message.contains("2 times (lines 1, 3)"), "{message}");
    rig.put("c.txt", "aaa");
    rig.refused(
        "edit_file",
        &json!({"path": "c.txt", "find": "aa", "replace": "x"}),
        &["find_not_unique"],
    );
}

#[test]
fn conflicting_arguments_are_refused() {
    let rig = Rig::new();
    for args in [
        json!({"path": "a.txt"}),
        json!({"path": "a.txt", "find": "one"}),
        json!({"path": "a.txt", "replace": "one"}),
        json!({"path": "a.txt", "edits": []}),
        json!({"path": "a.txt", "find": "", "replace": "x"}),
        json!({"path": "a.txt", "find": "one", "replace": "one"}),
        json!({"path": "a.txt", "find": "one", "replace": "1", "edits": [{"find": "two", "replace": "2"}]}),
        json!({"path": "a.txt", "all": true, "edits": [{"find": "two", "replace": "2"}]}),
    ] {
        rig.refused("edit_file", &args, &["bad_arguments"]);
    }
}

#[test]
fn mode_and_rest_of_the_file_are_preserved() {
    let rig = Rig::new();
    rig.put("run.sh", "#!/bin/sh\r\necho 1\r\n\tend without newline");
    for mode in [0o755, 0o600, 0o640] {
        fs::set_permissions(rig.ws.join("run.sh"), fs::Permissions::from_mode(mode)).unwrap();
        rig.put("run.sh", "#!/bin/sh\r\necho 1\r\n\tend without newline");
        rig.json(
            "edit_file",
            &json!({"path": "run.sh", "find": "echo 1", "replace": "echo 2"}),
        );
        assert_eq!(
            fs::metadata(rig.ws.join("run.sh"))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            mode
        );
        assert_eq!(
            rig.get("run.sh"),
            "#!/bin/sh\r\necho 2\r\n\tend without newline"
        );
        rig.json("write_file", &json!({"path": "run.sh", "content": "x"}));
        assert_eq!(
            fs::metadata(rig.ws.join("run.sh"))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            mode
        );
    }
}
