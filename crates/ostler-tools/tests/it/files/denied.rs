//! Attacks: files that the rules deny, by every path to them.

use std::fs;

use ostler_tools::FileRules;
use serde_json::json;

use super::rig::{CANARY, Rig, every_call};

// S2-25
#[test]
fn secrets_are_out_of_reach_of_every_tool() {
    let rig = Rig::new();
    for path in [
        ".env",
        ".env.local",
        ".ENV",
        ".Env.production",
        ".env.",
        ".env ",
        "config/.env",
        "server.pem",
        "tls/Server.KEY",
        "id_rsa",
        "id_ed25519.bak",
        "gcp/credentials.json",
        "credentials",
        ".netrc",
        ".npmrc",
        ".git-credentials",
        ".git/config",
        ".Git/config",
        ".git /config",
        "sub/.git/config",
        ".ssh/id",
        ".SSH/known_hosts",
        ".aws/config",
        ".docker/config.json",
        "secrets.yml",
        "./src/../.env",
    ] {
        rig.put(path, format!("{CANARY}\n"));
        for (tool, args) in every_call(path) {
            let codes = match tool {
                // As a directory argument it is a file, which its name shows anyway.
                "list_files" | "make_directory" => {
                    &["denied_by_policy", "not_a_directory", "exists"][..]
                }
                _ => &["denied_by_policy"][..],
            };
            rig.refused(tool, &args, codes);
        }
    }
    let found = rig.json("search_files", &json!({"pattern": "CANARY"}));
    assert_eq!(found["match_count"], 0);
    assert!(
        found["notes"].to_string().contains("denied by a rule"),
        "{found}"
    );
}

/// The existence of such a file is not revealed either.
#[test]
fn missing_secret_is_denied_too() {
    let rig = Rig::new();
    for path in [".env", "src/server.pem", ".ssh/id_rsa", ".git/config"] {
        rig.refused(
            "read_file",
            &json!({"path": path}),
            &["denied_by_policy", "file_not_found"],
        );
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "create_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path}),
            &["denied_by_policy"],
        );
    }
    rig.refused("read_file", &json!({"path": ".env"}), &["denied_by_policy"]);
    rig.refused(
        "write_file",
        &json!({"path": "new/dir/.env", "content": "x"}),
        &["denied_by_policy"],
    );
}

#[test]
fn example_files_of_secrets_are_allowed() {
    let rig = Rig::new();
    for path in [
        ".env.example",
        "x/.env.sample",
        ".env.template",
        "id_rsa.pub",
    ] {
        rig.json("write_file", &json!({"path": path, "content": "KEY=\n"}));
        assert_eq!(
            rig.json("read_file", &json!({"path": path}))["content"],
            "KEY=\n"
        );
    }
}

#[test]
fn listing_shows_only_the_name_of_a_secret() {
    let rig = Rig::new();
    rig.put(".env", format!("{CANARY}\n"));
    rig.put(".ssh/inner", "x");
    for args in [
        json!({"hidden": true}),
        json!({"hidden": true, "pattern": "**"}),
    ] {
        let listed = rig.text("list_files", &args);
        assert!(listed.contains(".env (denied)\n"), "{listed}");
        assert!(
            listed.contains(".ssh/ (denied)\n") && !listed.contains("inner"),
            "{listed}"
        );
    }
    rig.refused(
        "list_files",
        &json!({"path": ".ssh"}),
        &["denied_by_policy"],
    );
}

// S2-25
#[test]
fn git_and_the_policy_are_read_only() {
    let rig = Rig::new();
    rig.put(".git/hooks/pre-commit.sample", "#!/bin/sh\n");
    rig.put(".git/HEAD", "ref: refs/heads/main\n");
    rig.put(".ostler/sandbox.toml", "");
    rig.put("sub/.git", "gitdir: ../x\n");
    fs::create_dir_all(rig.ws.join("empty")).unwrap();
    for path in [
        ".git/hooks/pre-commit",
        ".git/HEAD",
        ".git/info/attributes",
        ".GIT/hooks/pre-commit",
        ".git./hooks/pre-commit",
        ".ostler/sandbox.toml",
        ".ostler/other.toml",
        ".Ostler/sandbox.toml",
        "sub/.git",
        "src/.git",
        "src/.git/hooks/post-checkout",
        ".ostler",
    ] {
        rig.refused(
            "write_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "create_file",
            &json!({"path": path, "content": "x"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "edit_file",
            &json!({"path": path, "find": "e", "replace": "x"}),
            &["denied_by_policy"],
        );
        rig.refused("delete_file", &json!({"path": path}), &["denied_by_policy"]);
        rig.refused(
            "move_file",
            &json!({"from": path, "to": "free"}),
            &["denied_by_policy"],
        );
        rig.refused(
            "move_file",
            &json!({"from": "a.txt", "to": path, "overwrite": true}),
            &["denied_by_policy"],
        );
        rig.refused(
            "move_file",
            &json!({"from": "empty", "to": path}),
            &["denied_by_policy"],
        );
    }
    for path in [".git/hooks/new", "src/.git", ".ostler/new"] {
        rig.refused(
            "make_directory",
            &json!({"path": path}),
            &["denied_by_policy"],
        );
    }
    assert_eq!(
        rig.json("read_file", &json!({"path": ".git/HEAD"}))["total_lines"],
        1
    );
}

#[test]
fn directory_with_a_denied_file_cannot_be_moved() {
    let rig = Rig::with(&FileRules {
        deny: vec!["conf/private.txt".to_owned()],
        ..FileRules::default()
    });
    rig.put("app/deep/.env", format!("{CANARY}\n"));
    rig.put("conf/private.txt", format!("{CANARY}\n"));
    rig.put("sub/.git/HEAD", "x");
    rig.put("keys/.ssh/id", "x");
    for path in ["app", "app/deep", "conf", "sub", "keys"] {
        rig.refused(
            "move_file",
            &json!({"from": path, "to": "moved"}),
            &["denied_by_policy"],
        );
    }
    rig.put("fine/a/b.txt", "x");
    rig.json("move_file", &json!({"from": "fine", "to": "moved/here"}));
    assert_eq!(rig.get("moved/here/a/b.txt"), "x");
}

#[test]
fn workspace_rules_and_exceptions_apply() {
    let globs = |list: &[&str]| list.iter().map(|glob| (*glob).to_owned()).collect();
    let rules = FileRules {
        deny: globs(&["private/**"]),
        allow: globs(&[".env", ".ostler/**"]),
        read_only: globs(&["vendor"]),
        ..FileRules::default()
    };
    let rig = Rig::with(&rules);
    rig.put("private/a.txt", CANARY);
    rig.put(".env", "KEY=1\n");
    rig.put("vendor/a.txt", "x\n");
    rig.refused(
        "read_file",
        &json!({"path": "private/a.txt"}),
        &["denied_by_policy"],
    );
    rig.refused(
        "list_files",
        &json!({"path": "private"}),
        &["denied_by_policy"],
    );
    rig.refused(
        "write_file",
        &json!({"path": "vendor/a.txt", "content": ""}),
        &["denied_by_policy"],
    );
    rig.refused(
        "delete_file",
        &json!({"path": "vendor/a.txt"}),
        &["denied_by_policy"],
    );
    rig.refused(
        "write_file",
        &json!({"path": ".ostler/sandbox.toml", "content": ""}),
        &["denied_by_policy"],
    );
    rig.json("read_file", &json!({"path": "vendor/a.txt"}));
    rig.json(
        "edit_file",
        &json!({"path": ".env", "find": "1", "replace": "2"}),
    );
}

// S2-25
#[test]
fn repository_cannot_be_created_by_hand() {
    let rig = Rig::new();
    let denied = &["denied_by_policy"][..];
    for dir in ["", "sub/"] {
        fs::create_dir_all(rig.ws.join(format!("{dir}objects"))).unwrap();
        fs::create_dir_all(rig.ws.join(format!("{dir}refs"))).unwrap();
        for name in ["HEAD", "head", "HEAD."] {
            let path = format!("{dir}{name}");
            rig.refused("write_file", &json!({"path": path, "content": "x"}), denied);
            rig.refused(
                "create_file",
                &json!({"path": path, "content": "x"}),
                denied,
            );
            rig.refused("move_file", &json!({"from": "a.txt", "to": path}), denied);
        }
    }
    rig.put("one/HEAD", "ref: refs/heads/main\n");
    fs::create_dir_all(rig.ws.join("one/refs")).unwrap();
    fs::create_dir_all(rig.ws.join("empty")).unwrap();
    rig.refused("make_directory", &json!({"path": "one/objects"}), denied);
    rig.refused(
        "make_directory",
        &json!({"path": "one/objects/pack"}),
        denied,
    );
    rig.refused(
        "write_file",
        &json!({"path": "one/objects/a", "content": "x"}),
        denied,
    );
    rig.refused(
        "move_file",
        &json!({"from": "empty", "to": "one/objects"}),
        denied,
    );
    rig.refused(
        "write_file",
        &json!({"path": "one/commondir", "content": "../x"}),
        denied,
    );
    rig.json("write_file", &json!({"path": "free/HEAD", "content": "x"}));
    rig.json("make_directory", &json!({"path": "free/objects"}));
    rig.refused("make_directory", &json!({"path": "free/refs"}), denied);
}

// S2-25
#[test]
fn git_directory_of_another_name_is_read_only() {
    for is_link in [true, false] {
        let mut rig = Rig::new();
        rig.put("store/x/HEAD", "ref: refs/heads/main\n");
        rig.put("store/x/config", CANARY);
        if is_link {
            rig.link("store/x", ".git");
        } else {
            rig.put(".git", "gitdir: ./store/x\n");
        }
        rig.tools = ostler_tools::Workspace::open(&rig.ws, &FileRules::default()).unwrap();
        let denied = &["denied_by_policy"][..];
        rig.refused(
            "write_file",
            &json!({"path": "store/x/hooks/pre-commit", "content": "x"}),
            denied,
        );
        rig.refused(
            "write_file",
            &json!({"path": "store/x/HEAD", "content": "x"}),
            denied,
        );
        rig.refused("read_file", &json!({"path": "store/x/config"}), denied);
        rig.refused(
            "move_file",
            &json!({"from": "store", "to": "other"}),
            denied,
        );
        rig.json("read_file", &json!({"path": "store/x/HEAD"}));
        rig.json("write_file", &json!({"path": "store/y", "content": "x"}));
    }
}

#[test]
fn a_workspace_that_is_its_own_git_directory_is_refused() {
    let rig = Rig::new();
    for target in [".", "src/.."] {
        rig.link(target, ".git");
        let error = ostler_tools::Workspace::open(&rig.ws, &FileRules::default()).unwrap_err();
        assert_eq!(error.code.as_str(), "denied_by_policy", "{target}");
        fs::remove_file(rig.ws.join(".git")).unwrap();
    }
}

// S2-25
#[test]
fn guarded_files_need_approval_or_a_rule() {
    let rig = Rig::new();
    rig.put("tools/settings.json", "{}");
    let denied = &["denied_by_policy"][..];
    for path in [
        ".claude/settings.json",
        ".claude/hooks/a",
        ".mcp.json",
        ".vscode/tasks.json",
        ".cargo/config.toml",
        "opencode.json",
        ".zed/tasks.json",
        ".yarnrc.yml",
        "mise.toml",
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
        ".exrc",
        "rust-toolchain.toml",
        "CLAUDE.md",
        "sub/AGENTS.md",
    ] {
        let message = rig.refused("write_file", &json!({"path": path, "content": "x"}), denied);
        assert!(
            message.contains("approve") && message.contains("sandbox.toml"),
            "{message}"
        );
        let error = rig
            .call("write_file", &json!({"path": path, "content": "x"}))
            .unwrap_err();
        assert_eq!(error.needs_approval, [path]);
    }
    rig.refused(
        "move_file",
        &json!({"from": "tools", "to": ".claude"}),
        denied,
    );
    let rig = Rig::with(&FileRules {
        allow: vec![".claude/**".to_owned()],
        ..FileRules::default()
    });
    rig.json(
        "write_file",
        &json!({"path": ".claude/settings.json", "content": "x"}),
    );
}

#[test]
fn approval_covers_exactly_the_named_files() {
    let rig = Rig::new();
    let approved = |tool: &str, args: serde_json::Value, paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        rig.tools.call_approved(tool, &args.to_string(), &paths)
    };
    let write = |path: &str| json!({"path": path, "content": "x"});
    approved(
        "write_file",
        write(".github/workflows/ci.yml"),
        &[".github/workflows/ci.yml"],
    )
    .unwrap();
    for other in [
        "AGENTS.md",
        ".github/workflows/other.yml",
        ".vscode/tasks.json",
    ] {
        let error =
            approved("write_file", write(other), &[".github/workflows/ci.yml"]).unwrap_err();
        assert_eq!(error.needs_approval, [other]);
    }
    // No approval makes protected files writable.
    for protected in [".git/hooks/pre-commit", "ostler.toml", ".env"] {
        let error = approved("write_file", write(protected), &[protected]).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.needs_approval.len()),
            ("denied_by_policy", 0),
            "{protected}"
        );
    }
    rig.call("write_file", &write("next")).unwrap();
    rig.refused(
        "delete_file",
        &json!({"path": ".github/workflows/ci.yml"}),
        &["denied_by_policy"],
    );
}

// The approval is about the file that would really change.
#[test]
fn links_and_moves_do_not_bypass_approval() {
    let rig = Rig::new();
    rig.put(".vscode/tasks.json", "{}");
    rig.put("plain/workflows/ci.yml", "x");
    rig.put("plain.md", "x");
    rig.link(".vscode", "link");
    rig.link(".vscode/tasks.json", "tasks");
    rig.link("CLAUDE.md", "dangling");
    let needs =
        |tool: &str, args: serde_json::Value| rig.call(tool, &args).unwrap_err().needs_approval;
    assert_eq!(
        needs(
            "write_file",
            json!({"path": "link/tasks.json", "content": "x"})
        ),
        [".vscode/tasks.json"]
    );
    assert_eq!(
        needs("write_file", json!({"path": "tasks", "content": "x"})),
        [".vscode/tasks.json"]
    );
    assert_eq!(
        needs("write_file", json!({"path": "dangling", "content": "x"})),
        ["CLAUDE.md"]
    );
    assert_eq!(
        needs(
            "edit_file",
            json!({"path": "tasks", "find": "{", "replace": "x"})
        ),
        [".vscode/tasks.json"]
    );
    assert_eq!(
        needs("delete_file", json!({"path": "link/tasks.json"})),
        [".vscode/tasks.json"]
    );
    assert_eq!(
        needs("move_file", json!({"from": "plain.md", "to": "AGENTS.md"})),
        ["AGENTS.md"]
    );
    assert_eq!(
        needs("move_file", json!({"from": "plain.md", "to": "agents.MD"})),
        ["agents.MD"]
    );
    assert_eq!(
        needs(
            "move_file",
            json!({"from": ".vscode/tasks.json", "to": ".zed/tasks.json"})
        ),
        [".vscode/tasks.json", ".zed/tasks.json"]
    );
    assert_eq!(
        needs("move_file", json!({"from": "plain", "to": ".github"})),
        [".github/workflows"]
    );
    assert_eq!(
        needs("make_directory", json!({"path": ".github/workflows"})),
        [".github/workflows"]
    );
    std::fs::hard_link(rig.ws.join(".vscode/tasks.json"), rig.ws.join("twin")).unwrap();
    rig.json("write_file", &json!({"path": "twin", "content": "x"}));
    assert_eq!(rig.get(".vscode/tasks.json"), "{}");
}

// A guarded name may itself be a link: its target needs the same approval.
#[test]
fn the_target_of_a_guarded_link_needs_approval() {
    let rig = Rig::new();
    rig.put("docs/ai.md", "x");
    rig.put("tools/vs/tasks.json", "{}");
    rig.put(".github/x", "");
    rig.put("ci/build.yml", "x");
    rig.link("docs/ai.md", "CLAUDE.md");
    rig.link("tools/vs", ".vscode");
    rig.link("../ci", ".github/workflows");
    rig.link("docs/later.md", "AGENTS.md");
    for path in [
        "docs/ai.md",
        "tools/vs/tasks.json",
        "tools/vs/new.json",
        "ci/build.yml",
        "docs/later.md",
    ] {
        let error = rig
            .call("write_file", &json!({"path": path, "content": "evil"}))
            .unwrap_err();
        assert_eq!(error.needs_approval, [path], "{}", error.message);
    }
    rig.call(
        "write_file",
        &json!({"path": "docs/other.md", "content": "x"}),
    )
    .unwrap();
}
