//! Files that an agent reads and writes through Ostler: what it gets, and what it is denied however
//! it asks.

use std::fs;
use std::os::unix::fs::symlink;

use ostler::event::EventKind;
use serde_json::{Value, json};

use super::start;
use crate::rig::{Rig, finish_after, read_until};

const SECRET: &str = "canary-51c2";

/// Returns the result of each request, in order; `$DIR` in a request is the workspace.
async fn order(
    prepare: impl FnOnce(&Rig),
    change: impl FnOnce(&mut Rig),
    wants: &[Value],
) -> Vec<String> {
    let lines: String = wants.iter().map(|want| format!("print {want}\n")).collect();
    let mut rig = Rig::new(format!("read-user\ninit\n{lines}read-until-eof\nexit 0")).grace_ms(200);
    prepare(&rig);
    change(&mut rig);
    let mut session = start(&rig);
    let (mut read, mut done) = (Vec::new(), Vec::new());
    while done.len() < wants.len() {
        read.extend(
            read_until(
                &mut session,
                |kind| matches!(kind, EventKind::Notice(it) if it.code.as_str() == "file_done"),
            )
            .await,
        );
        let EventKind::Notice(notice) = &read.last().unwrap().kind else {
            unreachable!()
        };
        let (number, rest) = notice.message.split_once(' ').unwrap();
        assert_eq!(
            number.parse(),
            Ok(done.len() + 1),
            "they are done in their order"
        );
        done.push(rest.to_owned());
    }
    session.stop();
    finish_after(read, session).await;
    done
}

fn check(wants: &[(Value, &str)], done: &[String]) {
    for ((want, expected), got) in wants.iter().zip(done) {
        let (expected, part) = expected.split_once(' ').unwrap_or((expected, ""));
        let fits = got.split(' ').next() == Some(expected) && got.contains(part);
        assert!(
            fits && !got.contains(SECRET),
            "{want}: {expected:?} {part:?} expected, got {got:.300}"
        );
    }
}

fn read(path: &str) -> Value {
    json!({"want": "read", "path": path})
}

fn write(path: &str) -> Value {
    json!({"want": "write", "path": path, "text": "new"})
}

#[tokio::test]
async fn no_request_reaches_outside_the_workspace_or_protected_files() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    let secret = outside.path().join("secret").to_str().unwrap().to_owned();
    let fresh = outside.path().join("fresh").to_str().unwrap().to_owned();
    let wants = [
        (read(&secret), "refused leads out"),
        (read("../../../../etc/passwd"), "refused leads out"),
        (read("$DIR/../../etc/passwd"), "refused leads out"),
        (read("a/../../b"), "refused leads out"),
        (read("~/.ssh/id_rsa"), "refused leads out"),
        (read("link"), "refused leads out"),
        (read("out/secret"), "refused"),
        (read("climb"), "refused"),
        (read(".env"), "refused"),
        (read("sub/.env"), "refused"),
        (read("innocent"), "refused"),
        (read(".git/config"), "refused"),
        (read("pipe"), "refused pipe"),
        (read("sub"), "refused directory"),
        (read("huge"), "refused more than"),
        (read("binary"), "refused UTF-8"),
        (read("latin"), "refused UTF-8"),
        (
            json!({"want": "read", "path": "latin", "line": 1, "limit": 1}),
            "refused UTF-8",
        ),
        (read("nothing"), "missing nothing"),
        (read("no/such/place"), "missing"),
        (read(""), "refused empty"),
        (write(&fresh), "refused leads out"),
        (write("../fresh"), "refused leads out"),
        (write("link"), "refused leads out"),
        (write("out/fresh"), "refused"),
        (write(".env"), "refused"),
        (write(".git/hooks/pre-commit"), "refused"),
        (write(".ostler/sandbox.toml"), "refused"),
        (write("sub"), "refused directory"),
        (write("pipe"), "refused pipe"),
    ];
    let prepare = |rig: &Rig| {
        for dir in ["sub", ".git/hooks"] {
            fs::create_dir_all(rig.path(dir)).unwrap();
        }
        for (file, text) in [
            (".env", SECRET),
            ("sub/.env", SECRET),
            (".git/config", SECRET),
            ("latin", "caf\u{e9}"),
        ] {
            fs::write(rig.path(file), text).unwrap();
        }
        fs::write(rig.path("latin"), b"caf\xe9\n").unwrap();
        fs::write(rig.path("binary"), b"\x7fELF\0\0").unwrap();
        fs::write(rig.path("huge"), "x\n".repeat(6 * 1024 * 1024)).unwrap();
        symlink(outside.path().join("secret"), rig.path("link")).unwrap();
        symlink(outside.path(), rig.path("out")).unwrap();
        symlink("../../../../../../etc/passwd", rig.path("climb")).unwrap();
        symlink(".env", rig.path("innocent")).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            rig.path("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    };
    let orders: Vec<Value> = wants.iter().map(|(want, _)| want.clone()).collect();
    check(&wants, &order(prepare, |_| {}, &orders).await);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(secret).unwrap(), SECRET);
}

// An agent writes back what it reads, so nothing may be truncated on the way, as it would be for a
// model.
#[tokio::test]
async fn text_is_returned_unchanged_or_by_line_range() {
    let text = format!("{}\r\n{}", "long ".repeat(2_000), "line\n".repeat(5_000));
    let at = |line: u64, limit: u64| json!({"want": "read", "path": "text", "line": line, "limit": limit});
    let wants = [
        read("text"),
        read("$DIR/text"),
        at(2, 3),
        at(5_001, 10),
        at(9_999, 1),
        json!({"want": "read", "path": "text", "line": 5000}),
        json!({"want": "write", "path": "new/deep/file", "text": "one"}),
        read("new/deep/file"),
        json!({"want": "write", "path": "$DIR/new/deep/file", "text": ""}),
        read("new/deep/file"),
        json!({"want": "read", "path": "huge", "line": 3, "limit": 2}),
        json!({"want": "read", "path": "huge", "line": 1}),
    ];
    let prepare = |rig: &Rig| {
        fs::write(rig.path("text"), &text).unwrap();
        fs::write(rig.path("huge"), "x\n".repeat(6 * 1024 * 1024)).unwrap();
    };
    let done = order(prepare, |_| {}, &wants).await;
    let whole = format!("ok {text}");
    assert!(
        done[0] == whole && done[1] == whole,
        "{} and {} of {}",
        done[0].len(),
        done[1].len(),
        whole.len()
    );
    let rest = [
        "ok line\nline\nline\n",
        "ok line\n",
        "ok ",
        "ok line\nline\n",
        "ok ",
        "ok one",
        "ok ",
        "ok ",
        "ok x\nx\n",
    ];
    assert_eq!(done[2..11], rest);
    assert!(
        done[11].starts_with("refused") && done[11].contains("ask for fewer"),
        "{}",
        done[11]
    );
}

#[tokio::test]
async fn added_directories_are_accessible_and_siblings_are_not() {
    let (added, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at =
        |dir: &tempfile::TempDir, name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (file, text) in [
        (at(&added, "notes"), "here"),
        (at(&added, ".env"), SECRET),
        (at(&other, "notes"), SECRET),
    ] {
        fs::write(file, text).unwrap();
    }
    symlink(other.path().join("notes"), added.path().join("link")).unwrap();
    let wants = [
        (read(&at(&added, "notes")), "ok here"),
        (write(&at(&added, "fresh")), "ok"),
        (read("notes"), "missing"),
        (read(&at(&added, ".env")), "refused"),
        (read(&at(&added, "link")), "refused"),
        (read(&at(&added, "nothing")), "missing"),
        (read(&at(&other, "notes")), "refused leads out"),
    ];
    let change = |rig: &mut Rig| {
        rig.spec.add_dirs.push(added.path().to_owned());
    };
    let orders: Vec<Value> = wants.iter().map(|(want, _)| want.clone()).collect();
    check(&wants, &order(|_| {}, change, &orders).await);
    assert_eq!(
        fs::read_to_string(added.path().join("fresh")).unwrap(),
        "new"
    );
}

// A deny rule of the caller also applies to what the session would do on the agent's behalf.
#[tokio::test]
async fn a_rule_that_denies_holds_for_files() {
    let policy = "[[rule]]\ndo = \"deny\"\npath = \"secret/**\"\nmessage = \"not yours\"\n";
    let policy =
        ostler::permission::Policy::parse(policy, "test", ostler::permission::Trust::Full).unwrap();
    let wants = [
        (read("secret/a"), "refused not yours"),
        (write("secret/a"), "refused not yours"),
        (read("b"), "ok b"),
    ];
    let prepare = |rig: &Rig| {
        fs::create_dir(rig.path("secret")).unwrap();
        fs::write(rig.path("secret/a"), SECRET).unwrap();
        fs::write(rig.path("b"), "b").unwrap();
    };
    let orders: Vec<Value> = wants.iter().map(|(want, _)| want.clone()).collect();
    check(
        &wants,
        &order(prepare, |rig| rig.spec.policy = Some(policy), &orders).await,
    );
}
