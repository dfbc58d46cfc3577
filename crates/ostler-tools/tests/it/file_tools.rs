//! The program `file-tools`: its output and exit codes.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ostler_testkit::machine::{self, Need};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_file-tools");

fn run(ws: &Path, args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg(ws)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn succeeds(ws: &Path, args: &[&str], stdin: &str) -> Value {
    let output = run(ws, args, stdin);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{args:?}: {text}"
    );
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn fails(ws: &Path, args: &[&str], stdin: &str) -> (String, String) {
    let output = run(ws, args, stdin);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stderr.is_empty());
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |key: &str| error["error"][key].as_str().unwrap().to_owned();
    (word("code"), word("message"))
}

fn workspace() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("a.txt"), "one\ntwo\n").unwrap();
    temp
}

// S1-11
#[test]
fn every_verb_works() {
    let temp = workspace();
    let ws = temp.path();
    assert_eq!(
        succeeds(ws, &["read", "a.txt"], "")["content"],
        "one\ntwo\n"
    );
    assert_eq!(
        succeeds(ws, &["read", "a.txt", "--offset", "2", "--limit=1"], "")["content"],
        "two\n"
    );
    assert_eq!(
        succeeds(ws, &["write", "b.txt", "-"], "from stdin\n")["result"],
        "created"
    );
    assert_eq!(
        fs::read_to_string(ws.join("b.txt")).unwrap(),
        "from stdin\n"
    );
    assert_eq!(
        succeeds(ws, &["write", "b.txt", "--content", "x\n"], "")["result"],
        "replaced"
    );
    assert_eq!(
        succeeds(ws, &["create", "d/c.txt", "--content", "c\n"], "")["bytes"],
        2
    );
    succeeds(
        ws,
        &["patch", "a.txt", "--find", "two", "--replace", "2"],
        "",
    );
    succeeds(
        ws,
        &["patch", "a.txt", "--edits", "-"],
        r#"[{"find":"one","replace":"1"},{"find":"2","replace":"zwei"}]"#,
    );
    assert_eq!(fs::read_to_string(ws.join("a.txt")).unwrap(), "1\nzwei\n");
    assert_eq!(
        succeeds(ws, &["list", "--pattern", "*.txt"], "")["entries"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        succeeds(ws, &["search", "zwei"], "")["matches"],
        json!([{"path": "a.txt", "line": 2, "text": "zwei"}])
    );
    assert_eq!(succeeds(ws, &["move", "b.txt", "e.txt"], "")["to"], "e.txt");
    assert_eq!(succeeds(ws, &["delete", "e.txt"], "")["deleted"], "file");
    assert_eq!(succeeds(ws, &["mkdir", "x/y"], "")["created"], 2);
    succeeds(ws, &["write", "--content", "dash", "--", "-rf"], "");
    assert_eq!(succeeds(ws, &["read", "--", "-rf"], "")["content"], "dash");
}

#[test]
fn a_request_can_be_json() {
    let temp = workspace();
    let ws = temp.path();
    assert_eq!(
        succeeds(ws, &[r#"{"tool":"read","path":"a.txt","limit":1}"#], "")["content"],
        "one\n"
    );
    assert_eq!(
        succeeds(ws, &[r#"{"verb":"list_files"}"#], "")["entries"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    succeeds(
        ws,
        &["-"],
        r#"{"tool":"edit_file","path":"a.txt","edits":[{"find":"one","replace":"1"}]}"#,
    );
    assert_eq!(fs::read_to_string(ws.join("a.txt")).unwrap(), "1\ntwo\n");
}

#[test]
fn errors_are_json_and_exit_1() {
    let temp = workspace();
    let ws = temp.path();
    for (args, code) in [
        (&["read", "nothing"][..], "file_not_found"),
        (&["read", "../x"], "path_outside_workspace"),
        (&["read", ".env"], "denied_by_policy"),
        (&["read", "."], "is_directory"),
        (&["create", "a.txt", "--content", "x"], "exists"),
        (
            &["patch", "a.txt", "--find", "x", "--replace", "y"],
            "find_not_found",
        ),
        (
            &["patch", "a.txt", "--find", "o", "--replace", "y"],
            "find_not_unique",
        ),
        (&["fly"], "unknown_tool"),
        (&[r#"{"tool":"fly"}"#], "unknown_tool"),
        (&["read"], "bad_arguments"),
        (&[], "bad_arguments"),
        (&["{"], "bad_arguments"),
        (
            &[r#"{"tool":"read","path":"a.txt","nope":1}"#],
            "bad_arguments",
        ),
    ] {
        assert_eq!(fails(ws, args, "").0, code, "{args:?}");
    }
    let (code, message) = fails(Path::new("read"), &["a.txt"], "");
    assert_eq!(code, "unknown_tool", "{message}");
    let (code, message) = fails(Path::new("read"), &["list"], "");
    assert!(
        code == "file_not_found" && message.contains("the first argument is the workspace"),
        "{message}"
    );
}

#[test]
fn help_is_shown_in_every_position() {
    let temp = workspace();
    let help = |args: &[&str]| {
        let output = Command::new(PROGRAM).args(args).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let ws = temp.path().to_str().unwrap();
    let whole = help(&["--help"]);
    for word in [
        "read PATH",
        "search PATTERN [PATH]",
        "find_not_unique",
        "'{\"tool\":\"read\"",
        "exit 1",
    ] {
        assert!(whole.contains(word), "{word} is not in\n{whole}");
    }
    for args in [&["-h"][..], &["help"], &[ws, "--help"]] {
        assert_eq!(help(args), whole);
    }
    for args in [
        &["patch", "--help"][..],
        &[ws, "patch", "--help"],
        &["help", "patch"],
    ] {
        assert!(
            help(args).starts_with("Replace text in a file."),
            "{args:?}"
        );
    }
    assert_eq!(
        help(&["--version"]),
        format!("file-tools {}\n", env!("CARGO_PKG_VERSION"))
    );
    let longest = whole.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(160), "{longest:?}");
}

// S2-25
#[test]
fn workspace_policy_applies() {
    let temp = workspace();
    let ws = temp.path();
    fs::create_dir(ws.join(".ostler")).unwrap();
    fs::write(
        ws.join(".ostler/sandbox.toml"),
        "[files]\ndeny = [\"a.txt\"]\n",
    )
    .unwrap();
    assert_eq!(fails(ws, &["read", "a.txt"], "").0, "denied_by_policy");
    assert_eq!(
        fails(ws, &["write", ".ostler/sandbox.toml", "--content", ""], "").0,
        "denied_by_policy"
    );
    fs::write(
        ws.join(".ostler/sandbox.toml"),
        "[files]\ndeny = \"a.txt\"\n",
    )
    .unwrap();
    let (code, message) = fails(ws, &["list"], "");
    assert!(
        code == "bad_arguments" && message.contains(".ostler/sandbox.toml"),
        "{message}"
    );
}

// S2-25
#[test]
fn workspace_inside_a_denied_directory_is_refused() {
    let temp = workspace();
    for dir in [".git/hooks", ".ostler", ".ssh", "sub/.aws"] {
        let ws = temp.path().join(dir);
        fs::create_dir_all(&ws).unwrap();
        for args in [
            &["write", "x", "--content", "y"][..],
            &["read", "x"],
            &["list"],
        ] {
            assert_eq!(fails(&ws, args, "").0, "denied_by_policy", "{dir} {args:?}");
        }
        let mut here = Command::new(PROGRAM);
        let output = here
            .args([".", "write", "x", "--content", "y"])
            .current_dir(&ws)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{dir}");
        assert!(!ws.join("x").exists());
    }
    std::os::unix::fs::symlink(".git", temp.path().join("plain")).unwrap();
    assert_eq!(
        fails(&temp.path().join("plain"), &["list"], "").0,
        "denied_by_policy"
    );
}

#[test]
fn closed_stdout_is_not_an_error() {
    let temp = workspace();
    fs::write(
        temp.path().join("large.txt"),
        "0123456789abcde\n".repeat(1_900 * 8),
    )
    .unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .arg(temp.path())
        .args(["read", "large.txt", "--limit", "15000"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
}

/// A full disk: the old file stays, and nothing is left beside it.
#[test]
fn a_full_disk_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    // Probed separately, so that no fault of the program looks like a machine without mounts.
    let mount = "mount -t tmpfs -o size=64k none \"$1\"";
    let probe = Command::new("unshare")
        .args(["-m", "sh", "-c", mount, "sh"])
        .arg(temp.path())
        .output();
    let is_possible = probe.as_ref().is_ok_and(|probe| probe.status.success());
    let need = Need::of(is_possible, || {
        format!("a file system cannot be mounted ({probe:?})")
    });
    if !machine::can_run("a_full_disk_changes_nothing", &need) {
        return;
    }
    let script = "mount -t tmpfs -o size=64k none \"$1\" || exit\n\
                  echo old > \"$1/a.txt\"\n\
                  head -c 200000 /dev/zero | tr '\\0' x | \"$2\" \"$1\" write a.txt -\n\
                  head -c 200000 /dev/zero | tr '\\0' x | \"$2\" \"$1\" write new/dir/b.txt -\n\
                  ls -AR \"$1\"; cat \"$1/a.txt\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(temp.path())
        .arg(PROGRAM);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("{\"error\":{\"code\":\"io\""))
            .count(),
        2,
        "{text}"
    );
    assert_eq!(
        &lines[2..],
        [&format!("{}:", temp.path().display()), "a.txt", "old"],
        "{text}"
    );
}
