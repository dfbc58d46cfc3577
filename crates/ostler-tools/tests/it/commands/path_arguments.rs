//! Names and arguments that lead out of the workspace, to secrets, or to programs placed by a
//! model.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use super::{Scene, program};

// S2-25: a path that leads out is refused in whatever shape it comes.
#[test]
fn paths_that_lead_out_are_refused() {
    let scene = Scene::new("[[command]]\nname = \"cat\"");
    let outside = scene
        .at("outside/file")
        .into_os_string()
        .into_string()
        .unwrap();
    for arg in [
        "/etc/passwd",
        "..",
        "../outside/file",
        "src/../../outside",
        "./../outside",
        "src//..//..//outside",
        "--file=../outside/file",
        "--file=/etc/passwd",
        "-f/etc/passwd",
        "-f../outside/file",
        "-xf../outside/file",
        "-f=../outside",
        "HEAD:../../outside",
        "@../outside/file",
        "@/etc/passwd",
        "a=b,../outside",
        "if=/dev/sda",
        "~",
        "~/.ssh/id_rsa",
        "--dir=~/.ssh",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/dev/sda",
        "file:///etc/passwd",
        "x:/etc/passwd",
        outside.as_str(),
    ] {
        assert_eq!(
            scene.refused("cat", &[arg]),
            "path_outside_workspace",
            "{arg}"
        );
    }
    let inside = scene
        .at("work/src/x")
        .into_os_string()
        .into_string()
        .unwrap();
    for arg in [
        "src/x",
        "./src",
        "src/..",
        "a..b",
        "...",
        "..x",
        "x=y",
        "https://example.org/x",
        "/dev/null",
        "-",
        "--",
        &inside,
    ] {
        assert!(scene.check("cat", &[arg]).is_ok(), "{arg}");
    }
}

// S2-25: after links are followed.
#[test]
fn links_that_lead_out_are_refused() {
    let scene = Scene::new("[[command]]\nname = \"cat\"");
    symlink(scene.at("outside"), scene.at("work/link")).unwrap();
    symlink("../../outside/file", scene.at("work/src/deep")).unwrap();
    symlink("link", scene.at("work/twice")).unwrap();
    symlink("src", scene.at("work/inside")).unwrap();
    for arg in [
        "link",
        "link/file",
        "link/new",
        "src/deep",
        "twice/file",
        "--file=link/file",
        "-flink/file",
        "x:link/file",
    ] {
        assert_eq!(
            scene.refused("cat", &[arg]),
            "path_outside_workspace",
            "{arg}"
        );
    }
    scene.check("cat", &["inside/x"]).unwrap();
}

#[test]
fn denied_files_cannot_be_named() {
    let scene = Scene::new("[[command]]\nname = \"cat\"");
    for arg in [
        ".env",
        "./.env",
        "src/../.env",
        "--file=.env",
        "-f.env",
        "HEAD:.env",
        ".ENV",
        ".env.local",
        "key.pem",
        ".git/config",
    ] {
        assert_eq!(scene.refused("cat", &[arg]), "denied_by_policy", "{arg}");
    }
    scene.check("cat", &[".env.example"]).unwrap();
    assert_eq!(
        scene.refused("git", &["show", "HEAD:.env"]),
        "denied_by_policy"
    );
    assert_eq!(
        scene.refused("git", &["add", "-f", ".env"]),
        "denied_by_policy"
    );
}

#[test]
fn names_that_are_not_commands_are_refused() {
    let scene = Scene::new("");
    for name in [
        "sh",
        "bash",
        "rm",
        "curl",
        "/bin/sh",
        "./x",
        "../bin/git",
        "bin/git",
        "git status",
        "Git",
        "git\n",
        "-git",
        "",
        "git\0",
        "$(git)",
        "git;sh",
        ".",
    ] {
        let error = scene.check(name, &[]).unwrap_err();
        let expected = if name.is_empty() || name.contains('\0') {
            "bad_arguments"
        } else {
            "denied_by_policy"
        };
        assert_eq!(error.code.as_str(), expected, "{name:?}: {}", error.message);
        if expected == "denied_by_policy" {
            assert!(
                error.message.contains("camp, fest, git, just"),
                "{}",
                error.message
            );
            assert!(
                error.message.contains(".ostler/sandbox.toml"),
                "{}",
                error.message
            );
        }
    }
    assert!(
        scene
            .check("git status", &[])
            .unwrap_err()
            .message
            .contains("args")
    );
}

#[test]
fn invalid_and_oversized_arguments_are_refused() {
    let scene = Scene::new("");
    assert_eq!(scene.refused("git", &["status", "a\0b"]), "bad_arguments");
    assert_eq!(scene.refused("git", &vec!["x"; 100_000]), "too_large");
    assert_eq!(
        scene.refused("git", &["add", &"x".repeat(600_000)]),
        "too_large"
    );
}

// An argument that takes long to check is refused. Text beyond what a system opens still shows
// where a path leads.
#[test]
fn arguments_with_too_many_or_too_long_paths_are_checked() {
    let scene = Scene::new("");
    assert_eq!(
        scene.refused("git", &["add", &"a:".repeat(100)]),
        "denied_by_policy"
    );
    assert!(scene.check("git", &["add", &"a:".repeat(50)]).is_ok());
    assert!(scene.check("git", &["add", &"a/".repeat(5000)]).is_ok());
    assert_eq!(
        scene.refused("git", &["add", &format!("{}../x", "./".repeat(5000))]),
        "path_outside_workspace"
    );
}

// A name that begins with a dash is an option to the program that gets it, and the rules treat it
// as one.
#[test]
fn names_that_look_like_options_are_treated_as_options() {
    let scene = Scene::new("");
    assert_eq!(
        scene.refused("git", &["add", "--", "-v/../../x"]),
        "path_outside_workspace"
    );
    assert_eq!(
        scene.refused("git", &["clean", "--", "-f"]),
        "denied_by_policy"
    );
}

// PATH tricks: a program in the workspace may be the model's own.
#[test]
fn programs_in_the_workspace_are_not_found_by_name() {
    let scene = Scene::new("");
    for name in ["work/git", "work/bin/git", "work/just"] {
        fs::create_dir_all(scene.at(name).parent().unwrap()).unwrap();
        program(&scene.at(name));
    }
    symlink(scene.at("work/bin"), scene.at("linked-bin")).unwrap();
    symlink(scene.at("work/git"), scene.at("outside/git")).unwrap();
    let path = |dirs: &[&str]| -> OsString {
        std::env::join_paths(dirs.iter().map(|dir| scene.at(dir))).unwrap()
    };
    for dirs in [
        &["work"][..],
        &["work/bin"],
        &["linked-bin"],
        &["outside"],
        &["bin/../work"],
    ] {
        let error = scene
            .check_with_path(&path(dirs), "git", &["status"])
            .unwrap_err();
        assert_eq!(
            error.code.as_str(),
            "denied_by_policy",
            "{dirs:?}: {}",
            error.message
        );
    }
    // It does not hide the real one either.
    let found = scene
        .check_with_path(
            &path(&["work/bin", "linked-bin", "bin"]),
            "git",
            &["status"],
        )
        .unwrap();
    assert_eq!(found.program, scene.at("bin/git"));
    let relative = scene
        .check_with_path(&OsString::from(".:bin::"), "git", &["status"])
        .unwrap_err();
    assert_eq!(relative.code.as_str(), "file_not_found");
}

#[test]
fn workspace_script_is_called_with_dot_slash() {
    let scene = Scene::new("[[command]]\nname = \"./check\"");
    assert_eq!(scene.refused("./check", &[]), "file_not_found");
    fs::write(scene.at("work/check"), "#!/bin/sh\n").unwrap();
    assert_eq!(
        scene.refused("./check", &[]),
        "file_not_found",
        "not executable"
    );
    program(&scene.at("work/check"));
    assert_eq!(
        scene.check("./check", &[]).unwrap().program,
        scene.at("work/check")
    );
    assert_eq!(scene.refused("check", &[]), "denied_by_policy");
    fs::remove_file(scene.at("work/check")).unwrap();
    symlink(scene.at("bin/cat"), scene.at("work/check")).unwrap();
    assert_eq!(scene.refused("./check", &[]), "path_outside_workspace");
}

// The settings that prevent a repository from running programs reach git under every rule.
#[test]
fn git_gets_its_settings_under_every_rule() {
    for policy in ["", "[[command]]\nname = \"git\""] {
        let approved = Scene::new(policy).check("git", &["status"]).unwrap();
        let pairs: Vec<(&str, &str)> = approved
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        for pair in [
            ("GIT_CONFIG_KEY_0", "core.hooksPath"),
            ("GIT_CONFIG_VALUE_0", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ] {
            assert!(pairs.contains(&pair), "{pair:?}");
        }
        assert!(
            pairs.contains(&("GIT_CONFIG_COUNT", "17")),
            "each setting is counted"
        );
    }
}

// The example on the page is a valid policy.
#[test]
fn documented_policy_is_valid() {
    let page = include_str!("../../../../../docs/sandbox.md");
    let policy = page
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let policy: ostler_tools::SandboxPolicy = policy.parse().unwrap();
    assert_eq!(policy.commands.len(), 2);
}
