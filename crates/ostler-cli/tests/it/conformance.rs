//! `ostler doctor --conformance` with programs that are not what they should be.

use std::os::unix::fs::PermissionsExt;

use crate::rig::{Rig, finish};

fn doctor(program: Option<&str>, agent: &str) -> (Option<i32>, String) {
    let rig = Rig::new();
    let mut command = rig.ostler(&["doctor", "--conformance", agent]);
    if let Some(text) = program {
        let file = rig.file("claude", text);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        command.env("PATH", format!("{}:/usr/bin:/bin", rig.dir().display()));
    } else {
        command.env("PATH", rig.dir());
    }
    let done = finish(&mut command);
    (done.code, done.stdout + &done.stderr)
}

#[test]
fn an_agent_that_says_nothing_fails_every_check() {
    let script = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 2.1.999; fi\n";
    let (code, said) = doctor(Some(script), "claude");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("claude 2.1.999 (tested with this release: 2.1.325)"), "{said}");
    assert_eq!((said.matches('✗').count(), said.matches('✓').count()), (9, 0), "{said}");
    assert!(said.contains("9 of these are not as Ostler expects"), "{said}");
}

#[test]
fn an_agent_that_is_not_there_or_cannot_be_tried_is_named() {
    let (code, said) = doctor(None, "claude");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("claude is not installed") && said.contains("hint: claude CLI not found"), "{said}");
    let (code, said) = doctor(None, "mock");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("mock cannot be tried") && said.contains("claude, codex"), "{said}");
    let (code, said) = doctor(None, "nobody");
    assert_eq!(code, Some(2), "{said}");
}
