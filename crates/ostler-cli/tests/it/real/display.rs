//! Human output of edits by real agents.

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{
    CLAUDE, CODEX, CODEX_EXEC, COPILOT, COPILOT_ACP, GEMINI, OPENCODE, Subject, Task, TestEnv,
};
use serde_json::{Value, json};

use crate::driver::{human_command, output, utf8};

/// Returns the human output of an agent that makes these calls in order.
fn shown(subject: &'static Subject, calls: impl Fn(&str) -> Vec<(&'static str, Value)>) -> String {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().canonicalize().unwrap();
    subject.prepare(&dir);
    std::fs::write(dir.join("old.txt"), "one\ntwo\n").unwrap();
    let mut script = Script::new();
    for (at, (tool, input)) in (1..).zip(calls(dir.to_str().unwrap())) {
        script = script.rule(Rule::on_call(at).answer(Answer::tool(tool, input)));
    }
    let test_env = TestEnv::new(subject, script.rule(Rule::any().text("Done.")));
    let ran = output(&mut human_command(
        &test_env,
        &Task::new("PROMPT").trusting(),
        &dir,
    ));
    let err = utf8(&ran.stderr).to_owned();
    assert_eq!(
        std::fs::read_to_string(dir.join("new.txt")).ok().as_deref(),
        Some("x\n"),
        "{}: {err}",
        subject.name
    );
    err
}

/// Returns the line of a tool's first call and its diff, without the duration.
fn diff_of(shown: &str, tool: &str) -> String {
    let mut lines = shown
        .lines()
        .skip_while(|line| !line.starts_with(&format!("✓ {tool} ")));
    let head = lines
        .next()
        .unwrap_or_else(|| panic!("no {tool} in {shown}"));
    let head = head.rsplit_once(' ').unwrap().0;
    let diff = lines.take_while(|line| line.starts_with("  "));
    std::iter::once(head)
        .chain(diff)
        .collect::<Vec<_>>()
        .join("\n")
}

const CREATED: &str = "new.txt +1 −0\n  +x";
const EDITED: &str = "old.txt +1 −1\n   one\n  -two\n  +2";

#[test]
fn claude_edits() {
    let shown = shown(&CLAUDE, |dir| {
        let old = format!("{dir}/old.txt");
        vec![
            (
                "Write",
                json!({"file_path": format!("{dir}/new.txt"), "content": "x\n"}),
            ),
            ("Read", json!({"file_path": old})),
            (
                "Edit",
                json!({"file_path": old, "old_string": "one\ntwo", "new_string": "one\n2"}),
            ),
        ]
    });
    assert_eq!(
        diff_of(&shown, "Write"),
        format!("✓ Write {CREATED}"),
        "{shown}"
    );
    assert_eq!(
        diff_of(&shown, "Edit"),
        format!("✓ Edit {EDITED}"),
        "{shown}"
    );
    assert!(shown.contains("✓ completed · 2 files +2 −1 · "), "{shown}");
}

#[test]
fn codex_edits() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: old.txt\n@@\n one\n-two\n+2\n*** End Patch\n";
    let edits = |subject| shown(subject, |_| vec![("apply_patch", patch.into())]);
    let shown = edits(&CODEX);
    let head = "✓ apply_patch new.txt and 1 more +2 −1";
    assert_eq!(
        diff_of(&shown, "apply_patch"),
        format!("{head}\n  {CREATED}\n  {EDITED}"),
        "{shown}"
    );
    assert!(shown.contains("✓ completed · 2 files +2 −1 · "), "{shown}");
    // Codex names the changed files. It does not always report what changed in an edited one.
    let shown = edits(&CODEX_EXEC);
    assert!(
        shown.contains(&format!("  {CREATED}\n  old.txt")),
        "{shown}"
    );
    assert!(shown.contains("✓ completed · 2 files"), "{shown}");
}

#[test]
fn files_that_other_agents_create() {
    let create = |path: &'static str, text: &'static str| {
        move |dir: &str| {
            let file = format!("{dir}/new.txt");
            json!({path: file, text: "x\n"})
        }
    };
    type Call = (&'static Subject, &'static str, Box<dyn Fn(&str) -> Value>);
    let table: [Call; 4] = [
        (&COPILOT, "create", Box::new(create("path", "file_text"))),
        (
            &COPILOT_ACP,
            "create",
            Box::new(create("path", "file_text")),
        ),
        (
            &GEMINI,
            "write_file",
            Box::new(create("file_path", "content")),
        ),
        (&OPENCODE, "write", Box::new(create("filePath", "content"))),
    ];
    for (subject, tool, input) in &table {
        let shown = shown(subject, |dir| vec![(*tool, input(dir))]);
        assert!(shown.contains("  +x\n"), "{}: {shown}", subject.name);
        assert!(
            shown.contains(" new.txt +1 −0 "),
            "{}: {shown}",
            subject.name
        );
        assert!(
            shown.contains("✓ completed · 1 file +1 −0"),
            "{}: {shown}",
            subject.name
        );
    }
}
