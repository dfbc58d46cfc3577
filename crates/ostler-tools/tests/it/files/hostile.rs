//! Attacks: patterns, arguments and trees designed to be expensive.

use serde_json::json;

use super::rig::Rig;

#[test]
fn catastrophic_expression_terminates() {
    let rig = Rig::new();
    rig.put("many.txt", format!("{}!\n", "a".repeat(50_000)));
    for pattern in [
        "(a+)+$",
        "(a|a)*b",
        "(a*)*c",
        "(.*)*x",
        "^(a?){50}a{50}$",
        "(x+x+)+y",
    ] {
        rig.json("search_files", &json!({"pattern": pattern}));
    }
}

#[test]
fn an_expression_that_is_too_large_is_refused() {
    let rig = Rig::new();
    for pattern in [
        "(a{1000}){1000}".to_owned(),
        "(((a{100}){100}){100}){100}".to_owned(),
        r"\pL{5000}".to_owned(),
        "(".repeat(5_000),
        format!("{}{}", "(".repeat(500), ")".repeat(500)),
        "a".repeat(10_000),
        "(unclosed".to_owned(),
        "a\nb".to_owned(),
        String::new(),
    ] {
        rig.refused(
            "search_files",
            &json!({"pattern": pattern}),
            &["bad_arguments"],
        );
    }
    let plain = json!({"pattern": "(unclosed", "literal": true});
    assert_eq!(rig.json("search_files", &plain)["match_count"], 0);
}

#[test]
fn hostile_glob_is_refused_or_terminates() {
    let rig = Rig::new();
    rig.put(&"a".repeat(250), "x");
    for pattern in [
        "*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "**/**/**/**/**/**/x",
        "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
        "?*?*?*?*?",
    ] {
        rig.json("list_files", &json!({"pattern": pattern}));
        rig.json("search_files", &json!({"pattern": "x", "glob": pattern}));
    }
    for pattern in [
        "{{{{",
        "[",
        "a{b",
        &"{a,".repeat(1_000),
        &"*".repeat(5_000),
        "",
    ] {
        rig.refused(
            "list_files",
            &json!({"pattern": pattern}),
            &["bad_arguments"],
        );
        rig.refused(
            "search_files",
            &json!({"pattern": "x", "glob": pattern}),
            &["bad_arguments"],
        );
    }
    // A glob selects among the entries below; it does not lead anywhere.
    for pattern in ["../*", "../**", "/etc/*", "../outside/**"] {
        let listed = rig.json("list_files", &json!({"pattern": pattern, "hidden": true}));
        assert_eq!(listed["entries"], json!([]), "{pattern}");
    }
}

#[test]
fn hostile_gitignores_do_no_harm() {
    let rig = Rig::new();
    rig.put(
        ".gitignore",
        format!("[\n{{\n!\n\\\n{}\n/src/\n", "*".repeat(100_000)),
    );
    rig.put("sub/.gitignore", b"\xff\xfe\0");
    rig.link("../outside/secret.txt", "src/.gitignore");
    rig.json("list_files", &json!({"pattern": "**"}));
    rig.json("search_files", &json!({"pattern": "main", "path": "src"}));
}

#[test]
fn invalid_arguments_are_refused() {
    let rig = Rig::new();
    let deep = "[".repeat(100_000);
    for (input, says) in [
        ("nope", "not JSON"),
        ("[]", "must be a JSON object, not a list"),
        ("{}", "`path` is missing"),
        ("", "`path` is missing"),
        (r#"{"path": 1}"#, "`path` must be string, not a number"),
        (r#"{"path": null}"#, "`path` must be string, not null"),
        (
            r#"{"path": "a", "limit": -1}"#,
            "`limit` must be a whole number, 0 or more, not a number",
        ),
        (
            r#"{"path": "a", "limit": "10"}"#,
            "`limit` must be a whole number, 0 or more, not a string",
        ),
        (
            r#"{"path": "a", "file": "b"}"#,
            "no argument `file`; the arguments are `path`, `offset`, `limit`, `line_numbers`",
        ),
        (
            r#"{"path": "a.txt", "offset": 0}"#,
            "`offset` must be 1 or more",
        ),
        (
            r#"{"path": "a.txt", "offset": 18446744073709551615}"#,
            "only 3 lines",
        ),
        (deep.as_str(), "not JSON"),
    ] {
        let error = rig.tools.call("read_file", input).unwrap_err();
        assert_eq!(error.code.as_str(), "bad_arguments", "{error}");
        assert!(error.message.contains(says), "{error}");
    }
    let edits =
        json!({"path": "a.txt", "edits": [{"find": "one", "replace": "1"}, {"find": "two"}]});
    let message = rig.refused("edit_file", &edits, &["bad_arguments"]);
    assert!(
        message.contains("`edits[1].replace` is missing"),
        "{message}"
    );
}

#[test]
fn a_path_that_is_too_long_is_refused_at_once() {
    let rig = Rig::new();
    for path in [
        "a/".repeat(2_000_000),
        "./".repeat(3_000),
        "x".repeat(5_000),
    ] {
        for tool in ["read_file", "list_files", "delete_file", "make_directory"] {
            rig.refused(tool, &json!({"path": path}), &["bad_arguments"]);
        }
    }
    assert!(
        rig.tools
            .is_denied(std::path::Path::new(&"a/".repeat(2_000_000)))
    );
}

#[test]
fn a_glob_that_is_too_deep_is_refused() {
    let rig = Rig::new();
    let pattern = format!("{}{}", "{a,".repeat(150), "}".repeat(150));
    rig.refused(
        "list_files",
        &json!({"pattern": pattern}),
        &["bad_arguments"],
    );
    rig.refused(
        "search_files",
        &json!({"pattern": "x", "glob": pattern}),
        &["bad_arguments"],
    );
}
