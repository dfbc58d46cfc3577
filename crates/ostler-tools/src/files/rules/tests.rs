//! Decisions of the rules about paths, by their text alone.

use ostler_core::permission::{Policy, PolicyAction, ToolKind, ToolUse, Trust};

use super::*;

fn rules(deny: &[&str], allow: &[&str], read_only: &[&str]) -> Rules {
    let globs = |list: &[&str]| list.iter().map(|glob| (*glob).to_owned()).collect();
    let file_rules = FileRules {
        deny: globs(deny),
        allow: globs(allow),
        read_only: globs(read_only),
        ..FileRules::default()
    };
    Rules::new(&file_rules, None).unwrap()
}

fn reads(rules: &Rules, path: &str) -> bool {
    rules
        .check(Path::new(path), Access::Read, TargetKind::File)
        .is_ok()
}

fn writes(rules: &Rules, path: &str) -> bool {
    rules
        .check(Path::new(path), Access::Write, TargetKind::File)
        .is_ok()
}

fn is_guarded(rules: &Rules, path: &str) -> bool {
    rules.guarded(Path::new(path)).is_some()
}

// S2-25
#[test]
fn secrets_are_denied_by_default() {
    let rules = rules(&[], &[], &[]);
    for path in [
        ".env",
        "a/b/.env",
        ".env.local",
        ".env.example.bak",
        ".ENV",
        ".Env.Production",
        ".env.",
        ".env ",
        ".env. . ",
        ".env::$DATA",
        ".e\u{200d}nv",
        "server.pem",
        "tls/server.KEY",
        "a.p12",
        "a.pfx",
        "a.jks",
        "id_rsa",
        "id_rsa.old",
        "x/id_ed25519",
        "id_ecdsa_sk",
        "credentials",
        "gcp/credentials.json",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".git/config",
        ".git /config",
        ".Git/config",
        "sub/.git/config.worktree",
        ".git/modules/a/b/config",
        ".ssh/known_hosts",
        ".s\u{17f}h/x",
        ".SSH./x",
        "home/.aws/credentials",
        ".gnupg/a/b",
        ".docker/config.json",
        ".kube/config",
        "vault.kdbx",
        "config/secrets.yml",
        "secrets.toml",
        ".env.example/.env",
    ] {
        assert!(!reads(&rules, path), "{path:?} can be read");
        assert!(!writes(&rules, path), "{path:?} can be written");
    }
}

#[test]
fn lookalikes_of_secrets_are_allowed() {
    let rules = rules(&[], &[], &[]);
    for path in [
        ".env.example",
        "a/.env.sample",
        ".env.template",
        "environment.ts",
        "env",
        "id_rsa.pub",
        "keys.rs",
        "src/credentials/mod.rs",
        "monkey",
        ".gitignore",
        "config/config.json",
        "secrets.rs",
        "a.key/x",
    ] {
        assert!(reads(&rules, path), "{path:?} cannot be read");
        assert!(writes(&rules, path), "{path:?} cannot be written");
    }
    assert!(
        rules
            .check(
                Path::new("src/credentials"),
                Access::Read,
                TargetKind::Directory
            )
            .is_ok()
    );
    assert!(
        rules
            .check(Path::new(".ssh"), Access::Read, TargetKind::Directory)
            .is_err()
    );
}

#[test]
fn workspace_rules_add_denials_and_exceptions() {
    let rules = rules(
        &["private", "docs/*.txt", "/top"],
        &[".env", "private/ok.md", "fixtures/**"],
        &["vendor/**"],
    );
    for path in [
        "private",
        "a/private/b/c",
        "docs/a.txt",
        "docs/a.txt/b",
        "top",
        "PRIVATE/x",
    ] {
        assert!(!reads(&rules, path), "{path:?} can be read");
    }
    for path in [
        ".env",
        "a/.env",
        "private/ok.md",
        "fixtures/a/.env",
        "docs/b/a.txt",
        "a/top",
        "fixtures/k.pem",
    ] {
        assert!(reads(&rules, path), "{path:?} cannot be read");
    }
    assert!(reads(&rules, "vendor/a") && !writes(&rules, "vendor/a") && !writes(&rules, "vendor"));
}

// Issue 14, break 1: a trusted workspace opens its `.env`, and never a key.
#[test]
fn workspace_never_opens_a_private_key() {
    let requested = [
        "**",
        ".env",
        "*.pem",
        "id_rsa",
        ".ssh/**",
        "conf/.SSH./x",
        "**/.git/config",
    ];
    let workspace_allow = requested.iter().map(|glob| (*glob).to_owned()).collect();
    let rules = Rules::new(
        &FileRules {
            workspace_allow,
            ..FileRules::default()
        },
        None,
    )
    .unwrap();
    for path in [".env", "a/.env.local", ".envrc", "secrets.yml"] {
        assert!(reads(&rules, path), "{path}");
    }
    for path in [
        "a.pem",
        "id_rsa",
        "ID_RSA.",
        ".ssh/config",
        "conf/.SSH./x",
        ".git/config",
        "a/credentials.json",
    ] {
        assert!(!reads(&rules, path), "{path}");
    }
    for glob in [
        "id_rsa",
        "*.pem",
        "**/id_rsa",
        "/keys/server.key",
        ".ssh/**",
        ".ssh/id",
        "./.netrc",
        "a/.Git/config",
    ] {
        assert!(is_sealed(glob), "{glob}");
    }
    for glob in [".env", "**", "docs/**", "src/*.rs"] {
        assert!(!is_sealed(glob), "{glob}");
    }
}

// S2-25
#[test]
fn no_rule_makes_git_or_the_policy_writable() {
    let rules = rules(
        &[],
        &["**", ".git/**", ".ostler/**", ".ostler/sandbox.toml"],
        &[],
    );
    for path in [
        ".git",
        ".git/hooks/pre-commit",
        "sub/.git",
        ".ostler/sandbox.toml",
        ".OSTLER/x",
        ".git./hooks/x",
    ] {
        assert!(!writes(&rules, path), "{path:?} can be written");
        assert!(reads(&rules, path), "{path:?} cannot be read");
    }
}

#[test]
fn files_other_programs_act_on_are_guarded_unless_allowed() {
    let guarded = rules(&[], &[], &[]);
    let opened = rules(&[], &[".agent/**", ".vscode/settings.json"], &[]);
    for path in [
        ".agent/settings.json",
        ".agent/settings.local.json",
        ".agent/hooks/a.sh",
        ".agent/skills",
        ".mcp.json",
        "a/.VSCODE/tasks.json",
        ".husky",
        ".cargo/config.toml",
        "opencode.json",
        ".zed/tasks.json",
        ".yarnrc.yml",
        "mise.toml",
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
        "sub/.GitHub/Workflows/x",
        ".exrc",
        "rust-toolchain.toml",
        "CLAUDE.md",
        "claude.md",
        "docs/AGENTS.md",
        "lefthook.yml",
        ".lefthook-local.toml",
        "Jenkinsfile",
        "CLAUDE.md.",
    ] {
        assert!(
            reads(&guarded, path) && is_guarded(&guarded, path),
            "{path}"
        );
    }
    assert!(
        !is_guarded(&opened, ".agent/settings.json")
            && !is_guarded(&opened, ".vscode/settings.json")
    );
    assert!(is_guarded(&opened, ".vscode/tasks.json") && is_guarded(&opened, ".mcp.json"));
    for path in [
        "src/main.rs",
        "Makefile",
        ".github/CODEOWNERS",
        "package.json",
        "docs/agents.rs",
        ".gitignore",
    ] {
        assert!(!is_guarded(&guarded, path), "{path}");
    }
}

#[test]
fn git_directory_of_another_name_is_read_only() {
    let rules = Rules::new(
        &FileRules {
            allow: vec!["**".to_owned()],
            ..FileRules::default()
        },
        Some(Path::new("r [x]")),
    );
    let rules = rules.unwrap();
    assert!(
        !writes(&rules, "r [x]/hooks/pre-commit")
            && !writes(&rules, "R [X]")
            && writes(&rules, "r x/hooks/a")
    );
    let rules = Rules::new(&FileRules::default(), Some(Path::new("x"))).unwrap();
    assert!(
        !reads(&rules, "x/config")
            && !reads(&rules, "x/modules/a/config")
            && reads(&rules, "x/HEAD")
    );
}

#[test]
fn workspace_inside_a_denied_directory_is_refused() {
    for path in [
        "/w/.git",
        "/w/.GIT/hooks",
        "/home/u/.ssh",
        "/w/.ostler/x",
        "/home/u/.config/gcloud/a",
    ] {
        assert!(check_root(Path::new(path)).is_err(), "{path}");
    }
    for path in ["/", "/w/a.git", "/home/u/.config", "/w/.github"] {
        assert!(check_root(Path::new(path)).is_ok(), "{path}");
    }
}

#[test]
fn invalid_glob_is_named_in_the_error() {
    let check = |glob: &str| {
        FileRules {
            deny: vec![glob.to_owned()],
            ..FileRules::default()
        }
        .check()
    };
    assert_eq!(
        check("a{b").unwrap_err().message.split(':').next(),
        Some("invalid glob `a{b`")
    );
    assert!(check("../x").is_err());
    assert!(check("").is_err());
    assert!(check("/").is_err());
    assert_eq!(check("**/x"), Ok(()));
}

/// Returns whether a permission rule denies reading a path, given a glob for the whole workspace.
fn is_denied_by_permission(glob: &str, path: &str) -> bool {
    let text = format!("[[rule]]\npath = {glob:?}\ndo = \"deny\"");
    let policy = Policy::parse(&text, "policy.toml", Trust::Full).unwrap();
    let wants = ToolUse {
        paths: vec![path.to_owned()],
        ..ToolUse::new("Read", ToolKind::Read)
    };
    matches!(
        policy.decide(&wants, "/workspace").action,
        PolicyAction::Deny(_)
    )
}

// Issue 17, item 7: one matcher, two syntaxes. A glob without a slash matches at any depth in a
// sandbox rule, and after `**/` in a permission rule.
#[test]
fn both_policies_recognize_the_same_names() {
    for (glob, path, expected) in [
        ("secret", "secret", true),
        ("secret", "a/b/secret", true),
        ("secret", "SECRET", true),
        ("secret", "secrets", false),
        ("secret", "a/secret.txt", false),
        // Names by which some file system knows the same file.
        ("secret", "secret.", true),
        ("secret", "secret. . ", true),
        ("secret", "secret::$DATA", true),
        ("secret", "sec\u{200d}ret", true),
        ("secret", "\u{17f}ecret", true),
        ("key", "\u{212a}ey", true),
        ("*σ", "aσ", true),
        ("*σ", "aς", true),
        ("*Σ", "aς", true),
        ("straße", "STRASSE", true),
        ("straße", "STRAẞE", true),
        ("strasse", "straße", true),
        // Stars and classes.
        ("*.key", "a/b.KEY", true),
        ("*.key", "a.keys", false),
        ("a?c", "abc", true),
        ("a?c", "a/c", false),
        ("a[0-9]", "A7", true),
        ("a[A-z]", "a_", true),
        ("a[!b]", "aB", false),
        ("{a,b}c", "BC", true),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
    ] {
        let denying = rules(&[glob], &[], &[]);
        assert_eq!(!reads(&denying, path), expected, "sandbox: {glob} {path:?}");
        let anywhere = format!("**/{glob}");
        assert_eq!(
            is_denied_by_permission(&anywhere, path),
            expected,
            "permissions: {glob} {path:?}"
        );
    }
    for (glob, path, expected) in [
        ("docs/*.txt", "docs/a.txt", true),
        ("docs/*.txt", "DOCS/a.TXT.", true),
        ("docs/*.txt", "docs/b/a.txt", false),
        ("docs/*.txt", "x/docs/a.txt", false),
        ("docs/**", "docs/a/b", true),
        ("docs/**/x", "docs/x", true),
    ] {
        let denying = rules(&[glob], &[], &[]);
        assert_eq!(!reads(&denying, path), expected, "sandbox: {glob} {path:?}");
        assert_eq!(
            is_denied_by_permission(glob, path),
            expected,
            "permissions: {glob} {path:?}"
        );
    }
}

#[test]
fn an_exception_holds_for_one_name_only() {
    let rules = rules(&["*.txt"], &["a.txt", "ß.txt", "[ab]c.txt"], &[]);
    for path in ["a.txt", "A.TXT", "x/a.txt", "ß.txt", "ẞ.txt", "BC.txt"] {
        assert!(reads(&rules, path), "{path:?} cannot be read");
    }
    for path in [
        "a.txt.",
        "a.txt::$DATA",
        "a\u{200d}.txt",
        "ss.txt",
        "cc.txt",
    ] {
        assert!(!reads(&rules, path), "{path:?} can be read");
    }
}
