//! Cases made from commits.

use std::path::PathBuf;

use ostler_eval::load::tree::Problem;
use ostler_eval::new_case::{ChangedFile, CommitFacts, NewCaseError, is_test_path, new_case};

use crate::load::{files, load_in};

fn facts() -> CommitFacts {
    let change = |path: &str, after: Option<&str>| ChangedFile {
        path: path.to_owned(),
        after: after.map(str::to_owned),
    };
    CommitFacts {
        repo: ".".to_owned(),
        commit: "abcdef0123456789".to_owned(),
        parent: "0123456789abcdef".to_owned(),
        message: "parser: accept \"quotes\" & ${vars}\n\n  Indented: yes\n# no heading\n\
                  Signed-off-by: A <a@b>\n"
            .to_owned(),
        changes: vec![
            change("src/lib.rs", Some("code\n#[cfg(test)]\nmod tests {}")),
            change("tests/it/parse.rs", Some("#[test]\n")),
            change("tests/gone.rs", None),
        ],
        root_files: vec!["Cargo.toml".to_owned()],
    }
}

#[test]
fn a_commit_becomes_a_valid_case() {
    let mut facts = facts();
    facts.message = facts.message.replace("${vars}", "vars");
    let case = new_case(&facts).unwrap();
    assert_eq!(case.name, "parser-accept-quotes-vars-abcdef01");
    let paths: Vec<String> = case
        .files
        .keys()
        .map(|it| it.display().to_string())
        .collect();
    assert_eq!(paths, ["case.yaml", "hidden/tests/it/parse.rs"]);
    for part in ["tests/gone.rs", "src/lib.rs holds tests"] {
        assert!(case.notes.iter().any(|note| note.contains(part)), "{part}");
    }
    let yaml = &case.files[&PathBuf::from("case.yaml")];
    // Neither the code nor the hidden tests are in the prompt.
    assert!(!yaml.contains("#[test]"));
    let dir = files(&[
        ("case.yaml", yaml),
        (".git/HEAD", "ref: x"),
        ("hidden/test.rs", ""),
    ]);
    let loaded: Result<_, Vec<Problem>> = load_in(dir.path(), "case.yaml");
    let loaded = loaded.unwrap().cases.remove(0);
    assert_eq!(
        loaded.prompt,
        "parser: accept \"quotes\" & vars\n\n  Indented: yes\n"
    );
    assert_eq!(loaded.evaluators[0].config["overlay"], "hidden");
    assert_eq!(loaded.evaluators[0].config["command"], "cargo test");
}

#[test]
fn a_message_is_never_a_variable() {
    let case = new_case(&facts()).unwrap();
    let yaml = &case.files[&PathBuf::from("case.yaml")];
    let dir = files(&[
        ("case.yaml", yaml),
        (".git/HEAD", "ref: x"),
        ("hidden/test.rs", ""),
    ]);
    let loaded = load_in(dir.path(), "case.yaml").unwrap().cases.remove(0);
    assert!(loaded.prompt.contains("${vars}"), "{}", loaded.prompt);
}

#[test]
fn what_cannot_be_a_case() {
    let with = |change: fn(&mut CommitFacts)| {
        let mut facts = facts();
        change(&mut facts);
        new_case(&facts).unwrap_err()
    };
    assert_eq!(with(|it| it.parent.clear()), NewCaseError::NoParent);
    assert_eq!(
        with(|it| it.message = "Signed-off-by: x".into()),
        NewCaseError::NoMessage
    );
    assert_eq!(
        with(|it| drop(it.changes.remove(0))),
        NewCaseError::OnlyTests
    );
    let bad = with(|it| it.changes[1].path = "../tests/x.rs".into());
    assert_eq!(bad, NewCaseError::BadPath("../tests/x.rs".into()));
}

#[test]
fn test_files_are_told_by_their_path() {
    for path in [
        "tests/a.rs",
        "src/foo/tests.rs",
        "pkg/a_test.go",
        "web/a.test.ts",
        "a/__tests__/b.js",
        "test_x.py",
        "app/spec/models/user_spec.rb",
        "src/FooTest.java",
        "conftest.py",
    ] {
        assert!(is_test_path(path), "{path}");
    }
    for path in [
        "src/lib.rs",
        "src/latest.rs",
        "contest.py",
        "docs/testing.md",
        "protest/x.rs",
    ] {
        assert!(!is_test_path(path), "{path}");
    }
}
