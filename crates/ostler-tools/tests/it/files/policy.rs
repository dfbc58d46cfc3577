//! Attacks: a policy file that is not what the user wrote.

use std::fs;

use ostler_tools::Workspace;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::rig::Rig;

fn code(rig: &Rig) -> &'static str {
    Workspace::load_policy(&rig.ws).map_or_else(|error| error.code.as_str(), |_| "loaded")
}

#[test]
fn default_policy_applies_without_a_file() {
    let rig = Rig::new();
    assert_eq!(code(&rig), "loaded");
    fs::create_dir(rig.ws.join(".ostler")).unwrap();
    assert_eq!(code(&rig), "loaded");
}

#[test]
fn policy_file_is_loaded() {
    let rig = Rig::new();
    rig.put(
        ".ostler/sandbox.toml",
        "[files]\ndeny = [\"private/**\"]\nallow = [\".env\"]\n",
    );
    let policy = Workspace::load_policy(&rig.ws).unwrap();
    assert_eq!(policy.files.deny, ["private/**"]);
    // Issue 14, break 1: it narrows, and opens nothing.
    assert!(policy.files.allow.is_empty() && policy.files.workspace_allow.is_empty());
}

// S2-25
#[test]
fn policy_file_cannot_be_a_link() {
    let rig = Rig::new();
    rig.put("mine.toml", "");
    fs::write(rig.outside.join("sandbox.toml"), "").unwrap();
    fs::create_dir(rig.ws.join(".ostler")).unwrap();
    for target in ["../../outside/sandbox.toml", "../mine.toml", "nowhere"] {
        rig.link(target, ".ostler/sandbox.toml");
        assert_eq!(code(&rig), "not_a_file", "{target}");
        fs::remove_file(rig.ws.join(".ostler/sandbox.toml")).unwrap();
    }
    fs::remove_dir(rig.ws.join(".ostler")).unwrap();
    for target in ["../outside", "src"] {
        rig.link(target, ".ostler");
        assert_eq!(code(&rig), "not_a_file", "{target}");
        fs::remove_file(rig.ws.join(".ostler")).unwrap();
    }
}

#[test]
fn invalid_or_oversized_policy_file_is_refused() {
    let rig = Rig::new();
    for (content, expected) in [
        ("[files]\ndeny = [\"a{\"]", "bad_arguments"),
        ("[files]\ndeny = [\"../x\"]", "bad_arguments"),
        ("[files]\nforbid = []", "bad_arguments"),
        ("nonsense", "bad_arguments"),
        (&"#".repeat(300 * 1024), "too_large"),
    ] {
        rig.put(".ostler/sandbox.toml", content);
        assert_eq!(code(&rig), expected);
    }
    fs::remove_file(rig.ws.join(".ostler/sandbox.toml")).unwrap();
    mknodat(
        CWD,
        rig.ws.join(".ostler/sandbox.toml"),
        FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(code(&rig), "not_a_file");
    fs::remove_file(rig.ws.join(".ostler/sandbox.toml")).unwrap();
    fs::create_dir(rig.ws.join(".ostler/sandbox.toml")).unwrap();
    assert_eq!(code(&rig), "not_a_file");
}

#[test]
fn workspace_must_be_an_existing_directory() {
    let rig = Rig::new();
    for path in [rig.ws.join("a.txt"), rig.ws.join("nothing")] {
        let error = Workspace::open(&path, &ostler_tools::FileRules::default()).unwrap_err();
        assert!(
            matches!(error.code.as_str(), "not_a_directory" | "file_not_found"),
            "{error}"
        );
    }
}
