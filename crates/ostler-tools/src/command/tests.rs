//! Loading of rules, and checks of calls.

use super::*;

fn rule(text: &str) -> CommandRule {
    toml::from_str(text).unwrap()
}

// S2-26: a rule is checked against its own examples, and the error names both.
#[test]
fn examples_are_checked_and_named() {
    let ok = "name = \"cargo\"\nallow = [\"test\"]\nexamples = { allow = [\"cargo test -q\"], deny = [\"cargo run\"] }";
    rule(ok).check().unwrap();
    let wrong =
        rule("name = \"cargo\"\nallow = [\"test\"]\nexamples = { allow = [\"cargo run\"] }")
            .check()
            .unwrap_err();
    assert!(
        wrong.message.contains("cargo run") && wrong.message.contains("denies"),
        "{wrong}"
    );
    let wrong = rule("name = \"cargo\"\nexamples = { deny = [\"cargo run\"] }")
        .check()
        .unwrap_err();
    assert!(
        wrong.message.contains("cargo run") && wrong.message.contains("allows"),
        "{wrong}"
    );
    for (text, word) in [
        ("name = \"\"", "no name"),
        ("name = \"a/b\"", "slash"),
        ("name = \"../a\"", "slash"),
        ("name = \"-a\"", "slash"),
        ("name = \"a\"\nblock = [[]]", "no words"),
        ("name = \"a\"\nexamples = { allow = [\"b\"] }", "begin"),
        ("name = \"a\"\nexamples = { allow = [\"a 'b\"] }", "quote"),
    ] {
        let error = rule(text).check().unwrap_err();
        assert!(error.message.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_rule_of_the_same_name_replaces_the_default() {
    let commands = Commands::new(&[
        rule("name = \"git\"\nallow = [\"status\"]"),
        rule("name = \"cargo\""),
    ])
    .unwrap();
    assert_eq!(
        commands.names().collect::<Vec<_>>(),
        ["camp", "cargo", "fest", "git", "just"]
    );
    assert_eq!(commands.added(), ["git", "cargo"]);
    let context = CommandContext {
        root: Path::new("/"),
        path: OsStr::new("/usr/bin:/bin"),
        is_denied: &|_| false,
    };
    assert_eq!(
        commands
            .check("git", &["log".into()], &context)
            .unwrap_err()
            .code,
        Code::DeniedByPolicy
    );
}

#[test]
fn description_lists_allowed_commands() {
    let text = describe(&Commands::new(&[]).unwrap(), &|_| true);
    assert!(
        text.contains("- git: status, diff")
            && text.contains("not: push --force")
            && text.contains("- just"),
        "{text}"
    );
    assert!((RUN_COMMAND.schema)().contains("\"command\""));
}

fn words(line: &str) -> (String, Vec<String>) {
    let mut words = shlex::split(line).unwrap();
    let args = words.split_off(1);
    (words.remove(0), args)
}

/// Returns whether the rules allow a call, regardless of whether the program is installed.
fn allows(commands: &Commands, line: &str) -> bool {
    let root = tempfile::tempdir().unwrap();
    let is_denied = |path: &Path| path.starts_with(".env");
    let context = CommandContext {
        root: root.path(),
        path: OsStr::new("/usr/bin:/bin"),
        is_denied: &is_denied,
    };
    let (command, args) = words(line);
    match commands.check(&command, &args, &context) {
        Ok(_) => true,
        Err(error) => error.code == Code::FileNotFound,
    }
}

fn preset(preset: CommandPreset, files: &[&str]) -> Commands {
    Commands::new(&[])
        .unwrap()
        .with_preset(preset, files.iter().copied())
        .unwrap()
}

// Issue 14, "Commands a model may run".
#[test]
fn build_preset_allows_project_tools_and_read_only_tools() {
    let build = preset(CommandPreset::Build, &["Cargo.toml"]);
    for line in [
        "cargo test",
        "cargo build --manifest-path x/Cargo.toml",
        "cargo run -- /etc/hosts",
        "rustfmt src/lib.rs",
        "ls -la",
        "cat src/lib.rs",
        "grep -rn '/api/v1' src",
        "find . -name '*.rs'",
        "git status",
        "just test",
    ] {
        assert!(allows(&build, line), "{line}");
    }
    for line in [
        "sh -c ls",
        "bash x.sh",
        "python3 x.py",
        "npm test",
        "rm -rf x",
        "curl https://example.org",
        "env ls",
        "xargs ls",
        "find . -exec ls {} ;",
        "find . -delete",
        "sort -o x y",
        "cat .env",
        "cat ./.env",
        "cargo test .env",
        "git push --force",
        "git -c alias.x=y x",
        "../x",
        "/bin/ls",
        "./x",
    ] {
        assert!(!allows(&build, line), "{line}");
    }
    let strict = preset(CommandPreset::Strict, &["Cargo.toml"]);
    for line in ["cargo test", "ls", "cat x", "sh -c ls"] {
        assert!(!allows(&strict, line), "{line}");
    }
    let any = preset(CommandPreset::Any, &[]);
    for line in [
        "sh -c 'ls | wc'",
        "bash x.sh",
        "python3 -c 'print(1)'",
        "cargo test",
        "find . -exec ls {} ;",
        "./x",
    ] {
        assert!(allows(&any, line), "{line}");
    }
    for line in ["git push --force", "../x", "/bin/ls", "cat .env", "-x", ""] {
        assert!(!allows(&any, &format!("{line} ''")), "{line}");
    }
}

// A rule of the policy takes precedence over a preset.
#[test]
fn a_policys_rule_narrows_a_preset() {
    let rules = [
        rule("name = \"cargo\"\nallow = [\"test\"]"),
        rule("name = \"cat\"\nblock_args = [\"-A\"]"),
    ];
    for preset in [CommandPreset::Build, CommandPreset::Any] {
        let commands = Commands::new(&rules)
            .unwrap()
            .with_preset(preset, ["Cargo.toml"])
            .unwrap();
        assert!(allows(&commands, "cargo test") && !allows(&commands, "cargo run"));
        assert!(allows(&commands, "cat x") && !allows(&commands, "cat -A x"));
    }
}

#[test]
fn listed_command_is_allowed_with_further_arguments() {
    let rules = [rule(
        "name = \"make\"\nblock_args = [\"-B\"]\nallow = [\"all\"]",
    )];
    let list = [
        "cargo test",
        "make check",
        "sh -c 'a && b'",
        "git push --force",
        "scripts/x -q",
    ]
    .map(|line| {
        let (first, more) = words(line);
        [first].into_iter().chain(more).collect::<Vec<_>>()
    });
    let commands = Commands::new(&rules).unwrap().allowing(list);
    for line in [
        "cargo test",
        "cargo test -p x",
        "make check",
        "make check -j4",
        "make all",
        "sh -c 'a && b'",
        "git push --force origin",
        "scripts/x -q more",
    ] {
        assert!(allows(&commands, line), "{line}");
    }
    for line in [
        "cargo",
        "cargo build",
        "cargo -q test",
        "make check -B",
        "make install",
        "sh -c 'a && c'",
        "sh",
        "git push -f",
        "scripts/x",
        "scripts/y -q",
        "cargo test --manifest-path ../x",
        "cargo test .env",
    ] {
        assert!(!allows(&commands, line), "{line}");
    }
}

#[test]
fn refusal_lists_allowed_commands_and_how_to_allow_more() {
    let commands = preset(CommandPreset::Build, &["Cargo.toml"])
        .allowing([vec!["make".to_owned(), "all".to_owned()]]);
    let context = CommandContext {
        root: Path::new("/"),
        path: OsStr::new("/usr/bin:/bin"),
        is_denied: &|_| false,
    };
    let error = commands
        .check("npm test", &[], &context)
        .unwrap_err()
        .message;
    for part in [
        "cargo",
        "git",
        "grep",
        "\"make all\"",
        "--allow-command",
        "one word",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let text = describe(&commands, &|name| name != "rustfmt");
    assert!(
        text.contains("build and test tools: cargo,") && !text.contains("rustfmt"),
        "{text}"
    );
    assert!(
        text.contains("read-only tools: ") && text.contains("\"make all\""),
        "{text}"
    );
}
