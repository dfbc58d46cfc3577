//! Policy tests: what agents do, and what attackers do.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const WORKSPACE: &str = "/w/project";

fn policy(text: &str) -> Policy {
    Policy::parse(text, "policy.toml", Trust::Full).unwrap()
}

fn shell(line: &str) -> ToolUse {
    ToolUse {
        command: Some(Command::Shell(line.to_owned())),
        ..ToolUse::new("Shell", ToolKind::Execute)
    }
}

fn words(words: &[&str]) -> ToolUse {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    ToolUse {
        command: Some(Command::Words(words)),
        ..ToolUse::new("Shell", ToolKind::Execute)
    }
}

fn edit(paths: &[&str]) -> ToolUse {
    ToolUse {
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        ..ToolUse::new("Edit", ToolKind::Edit)
    }
}

fn decision(policy: &Policy, wants: &ToolUse) -> &'static str {
    policy.decide(wants, WORKSPACE).action.as_str()
}

#[test]
fn an_allowed_command_is_one_plain_command() {
    let allow =
        policy("[[rule]]\ncommand = [\"git status\", \"cargo *\", \"./bin/*\"]\ndo = \"allow\"");
    let fine = [
        "git status",
        "  git   status -sb",
        "git 'status'",
        "git status \"a b\" --porcelain=v2",
        "cargo test -p x 'a * b'",
        "cargo build HEAD~1",
        "./bin/x --y",
    ];
    for line in fine {
        assert_eq!(decision(&allow, &shell(line)), "allow", "{line}");
    }
    let attacks = [
        "",
        " ",
        "git",
        "cargo",
        "git statusx",
        "gitstatus",
        "git push",
        "git -c core.pager=x status",
        "git status; rm -rf /",
        "git status;rm",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "git status\nrm x",
        "git status\rrm x",
        "git status $(rm x)",
        "git status `rm x`",
        "git status \"$(rm x)\"",
        "git status \"`rm x`\"",
        "git status ${x}",
        "git status $X",
        "git status > ~/.bashrc",
        "git status >> x",
        "git status < x",
        "git status <(rm x)",
        "git status 2>&1",
        "git status \\; x",
        "git status \\\n x",
        "git status 'a",
        "git status \"a",
        "git status 'a'\\''b'",
        "git status $'a'",
        "git status #x",
        "git status *",
        "git status {a,b}",
        "git status !x",
        "git\u{a0}status",
        "git status\u{0}",
        "git status \u{1b}[2K",
        "PATH=/tmp git status",
        "LD_PRELOAD=./x git status",
        "X=1 cargo test",
        "/tmp/git status",
        "./git status",
        "sudo git status",
        "env git status",
        "(git status)",
        "{ git status; }",
        "! git status",
        "time git status",
        "git status 'a;b'",
        "./bin/../../x",
        "./bin/a/b",
    ];
    for line in attacks {
        assert_eq!(decision(&allow, &shell(line)), "undecided", "{line:?}");
    }
    let any = policy("[[rule]]\ncommand = \"*\"\ndo = \"allow\"");
    assert_eq!(decision(&any, &shell("ls -la")), "allow");
    for line in ["ls; rm x", "A=b ls", "'' ls", "ls | wc"] {
        assert_eq!(decision(&any, &shell(line)), "undecided", "{line:?}");
    }
}

#[test]
fn a_star_in_a_path_matches_one_component() {
    let allow =
        policy("[[rule]]\ncommand = [\"tools/*/run\", \"./a*/b\", \"x *\"]\ndo = \"allow\"");
    for (line, allows) in [
        ("tools/a/run", true),
        ("tools/a.b/run y", true),
        ("./ax/b", true),
        ("x ../y", true),
        ("tools/../run", false),
        ("tools/./run", false),
        ("tools//run", false),
        ("tools/a/../run", false),
    ] {
        assert_eq!(decision(&allow, &shell(line)) == "allow", allows, "{line}");
    }
}

// A hostile command must not stall the program: in quadratic time none of these would finish.
#[test]
fn a_command_that_is_too_long_could_be_any() {
    let rule = |action: &str| {
        policy(&format!(
            "[[rule]]\ncommand = [\"rm -rf\", \"x -y -z\"]\ndo = \"{action}\""
        ))
    };
    let (allow, deny) = (rule("allow"), rule("deny"));
    let megabyte = |piece: &str| piece.repeat(1_000_000 / piece.len());
    for line in [
        format!("rm -rf {}", megabyte("a ")),
        megabyte("sudo rm "),
        megabyte("rm -a "),
        megabyte(";"),
        megabyte("'"),
        megabyte("sh -c \"`"),
        format!("sudo {}", "rm ".repeat(16_000)),
        format!("sh -c '{}'", "rm;".repeat(16_000)),
    ] {
        let start = &line[..9];
        assert_eq!(decision(&allow, &shell(&line)), "undecided", "{start}");
        assert_eq!(decision(&deny, &shell(&line)), "deny", "{start}");
    }
    let short = format!("rm -rf {}", "a ".repeat(10_000));
    assert_eq!(
        (
            decision(&allow, &shell(&short)),
            decision(&deny, &shell(&short))
        ),
        ("undecided", "deny"),
        "many words"
    );
    let many = ["rm", "-rf"]
        .into_iter()
        .chain(std::iter::repeat_n("rm", 500_000))
        .collect::<Vec<_>>();
    let long = megabyte("a");
    for list in [&many[..], &["rm", "-rf", &long]] {
        assert_eq!(
            (
                decision(&allow, &words(list)),
                decision(&deny, &words(list))
            ),
            ("undecided", "deny")
        );
    }
    // Commands just below the limit are analyzed as usual.
    for (line, denies) in [
        (format!("sudo {}", "rm -a ".repeat(400)), false),
        (format!("sudo {} -rf", "rm -a ".repeat(400)), true),
        (format!("sudo {}", "x -y ".repeat(400)), false),
        // Behind a wrapper, any of thousands of words could be the program.
        (format!("sudo {}", "x -y ".repeat(4_900)), true),
        (format!("echo {}; rm -rf x", "a".repeat(40_000)), true),
        (format!("echo {}", "a".repeat(40_000)), false),
    ] {
        assert_eq!(
            decision(&deny, &shell(&line)) == "deny",
            denies,
            "{} {}",
            &line[..9],
            line.len()
        );
    }
}

#[test]
fn words_are_compared_literally() {
    let allow = policy("[[rule]]\ncommand = \"git status\"\ndo = \"allow\"");
    assert_eq!(
        decision(&allow, &words(&["git", "status", "a;b", "$x"])),
        "allow"
    );
    for other in [
        &[][..],
        &["git"],
        &["git status"],
        &["sh", "-c", "git status"],
        &["/tmp/git", "status"],
    ] {
        assert_eq!(decision(&allow, &words(other)), "undecided", "{other:?}");
    }
    let deny = policy("[[rule]]\ncommand = \"git push\"\ndo = \"deny\"");
    for bad in [
        &["git", "push"][..],
        &["/usr/bin/git", "-C", "x", "push"],
        &["bash", "-lc", "cd x && git push"],
    ] {
        assert_eq!(decision(&deny, &words(bad)), "deny", "{bad:?}");
    }
    assert_eq!(decision(&deny, &words(&["echo", "git push"])), "undecided");
}

#[test]
fn a_denied_command_is_found_wherever_it_could_be() {
    for action in ["deny", "ask"] {
        let rule = policy(&format!(
            "[[rule]]\ncommand = [\"rm -rf\", \"git push\"]\ndo = \"{action}\""
        ));
        for line in HIDDEN {
            assert_eq!(decision(&rule, &shell(line)), action, "{line:?}");
        }
        for line in INNOCENT {
            assert_eq!(decision(&rule, &shell(line)), "undecided", "{line:?}");
        }
    }
}

const HIDDEN: &[&str] = &[
    "rm -rf /",
    "rm x -rf",
    "rm -v -rf x",
    "true; rm -rf /",
    "true;rm -rf /",
    "true && rm -rf /",
    "false || rm -rf /",
    "x | rm -rf /",
    "x & rm -rf /",
    "x\nrm -rf /",
    "(rm -rf /)",
    "{ rm -rf /; }",
    "! rm -rf /",
    "$(rm -rf /)",
    "`rm -rf /`",
    "echo \"$(rm -rf /)\"",
    "echo \"`rm -rf /`\"",
    "cat <(rm -rf /)",
    "if true; then rm -rf /; fi",
    "for f in a; do rm -rf $f; done",
    "case x in x) rm -rf /;; esac",
    "echo \"$(case x in x) rm -rf /;; esac)\"",
    "/bin/rm -rf /",
    "./rm -rf /",
    "/bin/RM -rf /",
    "\\rm -rf /",
    "r\\m -rf /",
    "'rm' -rf /",
    "r'm' -rf /",
    "\"rm\" '-rf' /",
    "rm \\\n -rf /",
    "A=b rm -rf /",
    "A=b C= rm -rf /",
    "A+=b rm -rf /",
    "A=$(x) rm -rf /",
    "sudo rm -rf /",
    "sudo -u root rm -rf /",
    "env A=b rm -rf /",
    "env -S 'rm -rf /'",
    "exec rm -rf /",
    "command rm -rf /",
    "nohup rm -rf / &",
    "time -p rm -rf /",
    "timeout 5 rm -rf /",
    "ls | xargs -n 1 rm -rf",
    "find . -exec rm -rf {} \\;",
    "sh -c 'rm -rf /'",
    "bash -lc \"cd / && rm -rf .\"",
    "sudo sh -c 'exec rm -rf /'",
    "sh -c \"sh -c 'rm -rf /'\"",
    "eval 'rm -rf /'",
    "eval rm -rf /",
    "echo 'rm -rf /' | sh",
    "echo rm -rf / | sh",
    "echo rm -rf / | sudo bash",
    "{ echo x; echo rm -rf /; } | sh",
    "(echo rm -rf /; echo x) | sh",
    "sh <(echo rm -rf /)",
    "npx rm -rf /",
    "npx -c 'rm -rf /'",
    "docker run --rm -v /:/x alpine rm -rf /x",
    "docker exec -it c sh -c 'rm -rf /'",
    "podman --log-level x exec c rm -rf /",
    "nsenter -t 1 -m rm -rf /",
    "setpriv --reuid 1 rm -rf /",
    "systemd-run --user rm -rf /",
    "gosu root rm -rf /",
    "sg wheel -c 'rm -rf /'",
    "nix-shell -p x --run 'rm -rf /'",
    "watch 'rm -rf /'",
    "flock f -c 'rm -rf /'",
    "sh <<< 'rm -rf /'",
    "sh <<EOF\nrm -rf /\nEOF",
    "cat <<EOF\nit's\nEOF\nrm -rf /\n#'",
    "echo # '\nrm -rf / #'",
    "echo $'\\'' ; rm -rf / #'",
    "echo '\\'' ; rm -rf / '",
    "echo it's; rm -rf /",
    ">x rm -rf /",
    "2>/dev/null rm -rf /",
    "rm 2>&1 -rf /",
    "git 2>&1 push",
    "git >|x push",
    "x &>y rm -rf /",
    "git &>x push",
    "echo >&& rm -rf /",
    "$X -rf /",
    "${X} -rf /",
    "$EMPTY rm -rf /",
    "r$Z -rf /",
    "/bin/r? -rf /",
    "{rm,-rf,/}",
    "git $X",
    "git \"$X\"",
    "git $(echo push)",
    "git \"`echo push`\"",
    "git push",
    "git -C .. push origin",
    "git -c a=b --no-pager push",
    "git -c \"a=b c\" push",
    "ssh host rm -rf /",
    "trap 'rm -rf /' EXIT",
    "sh -c \"sh -c 'sh -c \\\"sh -c \\\\\\\"true; x\\\\\\\"\\\"'\"",
];

const INNOCENT: &[&str] = &[
    "",
    "rm x",
    "ls -rf",
    "echo rm -rf",
    "git stash push",
    "git commit -m 'rm -rf; git push'",
    "git commit -m \"a; rm -rf b\"",
    "grep -E 'x|rm -rf' a.txt",
    "awk '{ a; $1 = 2 }' b",
    "git pull && cargo test | tail -5",
    "cargo test 2>&1 | tee rm",
    "git add *.rs",
    "{ ls; }",
    "echo '`rm -rf`; x'",
    "echo $HOME",
    "source venv/activate && ls *.py",
    "bash x.sh; echo rm -rf",
    "source venv/activate && pytest tests/*.py | tail -5",
    "ls *.py || bash x.sh",
    "docker rm -rf x",
    "docker ps | grep rm -rf",
    "git commit -m \"$(cat <<'EOF'\nfix: it's gone\n\nBecause of rm.\nEOF\n)\"",
];

#[test]
fn paths_are_normalized_as_text() {
    let rule = |action: &str| {
        policy(&format!(
            "[[rule]]\npath = [\"src/**\", \"/data/*.csv\"]\ndo = \"{action}\""
        ))
    };
    let (allow, deny) = (rule("allow"), rule("deny"));
    for (paths, allows, denies) in [
        (&["src/a.rs"][..], true, true),
        (&["./src//a/b.rs"], true, true),
        (&["/w/project/src/a"], true, true),
        (&["src/../src/a"], true, true),
        (&["x/../src/a"], true, true),
        (&["/data/a.csv"], true, true),
        (&["../../data/a.csv"], true, true),
        (&["src/a", "src/b"], true, true),
        (&["src/a", "b"], false, true),
        (&[], false, false),
        (&["src/../b"], false, false),
        (&["src/../../project/b"], false, false),
        (&["../src/a"], false, false),
        (&["/w/project2/src/a"], false, false),
        (&["/w/project/../src/a"], false, false),
        (&["/src/a"], false, false),
        (&["/data/x/a.csv"], false, false),
        (&["a/src/b"], false, false),
        // Tools may interpret these differently.
        (&["~/src/a"], false, true),
        (&["src\\a"], false, true),
        (&["src/..\\..\\b"], false, true),
        (&["x\\..\\src/a"], false, true),
        (&["file:///w/project/src/../b"], false, false),
        (&["src/://a"], false, true),
        (&["src/a:///../b"], false, true),
        (&["x://src/a"], false, true),
        (&["file://localhost/data/a.csv"], false, true),
        (&["FILE:/data/a.csv"], false, true),
        (&["file:///data/%61.%63sv"], false, true),
        (&["src/a\nb"], false, true),
        (&["file:///w/project/src/a"], false, true),
        // Some file systems ignore case.
        (&["SRC/a"], false, true),
        (&["/W/Project/src/a"], false, true),
        (&["/W/Project2/src/a"], false, false),
        // These lead wherever a process has something open.
        (&["/proc/self/cwd/b"], false, true),
        (&["/proc/12/root/../x"], false, true),
        (&["../../proc/thread-self/fd/3"], false, true),
        (&["/proc/self/task/7/cwd/x"], false, true),
        (&["/dev/fd/3"], false, true),
        (&["/proc/self/status"], false, false),
        (&["proc/self/cwd/b"], false, false),
        // A search through the directory also searches what is below.
        (&["src"], false, true),
        (&["src/"], false, true),
    ] {
        let wants = edit(paths);
        assert_eq!(
            decision(&allow, &wants) == "allow",
            allows,
            "allow {paths:?}"
        );
        assert_eq!(decision(&deny, &wants) == "deny", denies, "deny {paths:?}");
    }
    // Without an absolute workspace, nothing is known to be inside.
    assert_eq!(
        allow.decide(&edit(&["src/a"]), "").action,
        PolicyAction::Undecided
    );
    assert_eq!(deny.decide(&edit(&["src/a"]), "").action.as_str(), "deny");
}

#[test]
fn a_path_that_is_too_long_could_be_any() {
    let rule = |action: &str| policy(&format!("[[rule]]\npath = \"src/**\"\ndo = \"{action}\""));
    let long = format!("src/{}", "a/../".repeat(200_000));
    let many = vec!["src/a"; 2_000];
    for paths in [&[long.as_str()][..], &many] {
        assert_eq!(decision(&rule("allow"), &edit(paths)), "undecided");
        assert_eq!(decision(&rule("deny"), &edit(paths)), "deny");
    }
}

#[test]
fn moving_a_directory_moves_what_is_in_it() {
    let deny = policy(
        "[[rule]]\npath = [\"conf/secrets/**\", \"/etc/ssh/key\", \"**/vault/*/x\", \"*/gen/**\", \"d/**/e\"]\ndo = \"deny\"",
    );
    let read = |path: &str| ToolUse {
        kind: ToolKind::Read,
        ..edit(&[path])
    };
    for (path, edits, reads) in [
        ("conf/secrets/a", true, true),
        ("conf/secrets", true, true),
        ("conf", true, false),
        ("Conf/", true, false),
        ("x/../conf", true, false),
        (".", true, false),
        ("..", true, false),
        ("/w", true, false),
        ("/", true, false),
        ("/etc", true, false),
        ("/etc/ssh", true, false),
        ("a/vault", true, false),
        ("/x/vault", true, false),
        ("d", true, false),
        ("conf/other", false, false),
        ("configuration", false, false),
        ("/etcetera", false, false),
        ("/w/other", false, false),
        // Otherwise no file at the top, or below d, could be edited.
        ("README.md", false, false),
        ("d/a.rs", false, false),
    ] {
        assert_eq!(
            decision(&deny, &edit(&[path])) == "deny",
            edits,
            "edit {path}"
        );
        assert_eq!(decision(&deny, &read(path)) == "deny", reads, "read {path}");
    }
    let allow = policy("[[rule]]\npath = \"conf/secrets/**\"\ndo = \"allow\"");
    assert_eq!(decision(&allow, &edit(&["conf"])), "undecided");
    // It is unknown whose home directory this is.
    assert_eq!(decision(&deny, &edit(&["~/conf/secrets/a"])), "deny");
}

#[test]
fn leading_stars_match_outside_only_to_deny() {
    let allow = policy("[[rule]]\npath = \"**/*.md\"\ndo = \"allow\"");
    let deny = policy("[[rule]]\npath = \"**/.env\"\ndo = \"deny\"");
    assert_eq!(decision(&allow, &edit(&["a/b.md"])), "allow");
    assert_eq!(decision(&allow, &edit(&["/etc/b.md"])), "undecided");
    for path in [".env", "a/.env", "/etc/.env", "../.env", "~/.env"] {
        assert_eq!(decision(&deny, &edit(&[path])), "deny", "{path}");
    }
    // For a path in the workspace, the components above it do not count.
    let hidden = policy("[[rule]]\npath = \"**/.*/**\"\ndo = \"ask\"");
    assert_eq!(
        hidden
            .decide(&edit(&["/home/.trees/a/src/b"]), "/home/.trees/a")
            .action,
        PolicyAction::Undecided
    );
}

#[test]
fn all_conditions_hold_and_the_first_rule_decides() {
    let rules = policy(
        "[[rule]]\nkind = \"edit\"\ntool = \"Write*\"\npath = \"a/**\"\ndo = \"deny\"\nmessage = \"not there\"\n\
         [[rule]]\nkind = [\"edit\", \"read\"]\ndo = \"allow\"\n\
         [[rule]]\ntool = \"*\"\ndo = \"ask\"\n",
    );
    let write = ToolUse {
        tool: "WriteFile".into(),
        ..edit(&["a/b"])
    };
    let ruling = rules.decide(&write, WORKSPACE);
    assert_eq!(ruling.action, PolicyAction::Deny("not there".into()));
    assert_eq!(
        ruling.rule.as_deref(),
        Some("rule 1 of policy.toml (edit Write* \"a/**\")")
    );
    for other in [
        edit(&["a/b"]),
        ToolUse {
            paths: vec!["b".into()],
            ..write.clone()
        },
    ] {
        assert_eq!(decision(&rules, &other), "allow", "{other:?}");
    }
    assert_eq!(
        decision(
            &rules,
            &ToolUse {
                kind: ToolKind::Mcp,
                ..write
            }
        ),
        "ask"
    );
    let silent = policy("[[rule]]\ncommand = \"git push\"\nkind = \"execute\"\ndo = \"deny\"");
    let PolicyAction::Deny(message) = silent.decide(&shell("git push"), WORKSPACE).action else {
        panic!()
    };
    assert_eq!(
        message,
        "Not allowed by rule 1 of policy.toml (execute \"git push\")."
    );
    assert_eq!(silent.rules().next().unwrap().message(), None);
    let loud = policy("[[rule]]\ntool = \"*\"\ndo = \"deny\"\nmessage = \"Ask first.\"");
    assert_eq!(loud.rules().next().unwrap().message(), Some("Ask first."));
    // Text for people is on one line.
    let odd = policy("[[rule]]\ntool = \"a\\nb\\u001b[2K\"\ndo = \"ask\"");
    assert_eq!(
        odd.rules().next().unwrap().to_string(),
        "rule 1 of policy.toml (a b)"
    );
    assert_eq!(
        Policy::default().decide(&shell("x"), WORKSPACE),
        PolicyDecision {
            action: PolicyAction::Undecided,
            rule: None
        }
    );
}

#[test]
fn a_workspace_policy_can_only_restrict() {
    let project = "[[rule]]\ntool = \"*\"\ndo = \"allow\"\n\
         [[rule]]\ncommand = \"git push\"\ndo = \"ask\"\nexamples = []\n\
         [[rule]]\ncommand = \"git\"\ndo = \"deny\"\n\
         [[rule]]\ntool = \"*\"\ndo = \"ask\"\n";
    let read = |trust| Policy::parse(project, "project", trust).unwrap();
    assert_eq!(
        (read(Trust::Full).dropped(), read(Trust::Project).dropped()),
        (0, 1)
    );
    assert_eq!(decision(&read(Trust::Full), &shell("git push")), "allow");
    for (preset, line, expected) in [
        // A workspace's ask does not turn a later denial into a prompt …
        (Preset::ReadOnly, "git push", "deny"),
        (Preset::ReadOnly, "ls", "deny"),
        // … but turns a later permission into one.
        (Preset::All, "git push", "ask"),
        (Preset::All, "git pull", "deny"),
        (Preset::All, "ls", "ask"),
        (Preset::Ask, "ls", "ask"),
    ] {
        let all = read(Trust::Project).then(Policy::preset(preset));
        assert_eq!(decision(&all, &shell(line)), expected, "{preset:?} {line}");
    }
    let mine = policy("[[rule]]\ncommand = \"git\"\ndo = \"allow\"").then(read(Trust::Project));
    assert_eq!(
        (decision(&mine, &shell("git push")), mine.dropped()),
        ("allow", 1)
    );
    let asked = read(Trust::Project).decide(&shell("git push"), WORKSPACE);
    assert_eq!(
        asked.rule.as_deref(),
        Some("rule 2 of project (\"git push\")"),
        "numbers are those of the file"
    );
}

#[test]
fn presets_decide_typical_tool_uses() {
    let read = |path: &str| ToolUse {
        paths: vec![path.into()],
        ..ToolUse::new("Read", ToolKind::Read)
    };
    let of = |kind| ToolUse::new("x", kind);
    let table = [
        (read("src/a.rs"), ["allow", "allow", "allow", "allow"]),
        (of(ToolKind::Read), ["allow", "allow", "allow", "allow"]),
        (read("/etc/hosts"), ["allow", "allow", "allow", "allow"]),
        (read(".env.example"), ["allow", "allow", "allow", "allow"]),
        (read("a/.env"), ["deny", "ask", "ask", "allow"]),
        (
            read("/home/x/.ssh/id_ed25519"),
            ["deny", "ask", "ask", "allow"],
        ),
        (edit(&["src/a.rs"]), ["deny", "ask", "allow", "allow"]),
        (edit(&["src/a.rs", "../b"]), ["deny", "ask", "ask", "allow"]),
        (
            edit(&[".git/hooks/post-commit"]),
            ["deny", "ask", "ask", "allow"],
        ),
        (
            edit(&["sub/.ostler/policy.toml"]),
            ["deny", "ask", "ask", "allow"],
        ),
        (
            edit(&["src/a.rs", ".mcp.json"]),
            ["deny", "ask", "ask", "allow"],
        ),
        (edit(&[]), ["deny", "ask", "ask", "allow"]),
        (shell("ls"), ["deny", "ask", "ask", "allow"]),
        (of(ToolKind::Network), ["deny", "ask", "ask", "allow"]),
        (of(ToolKind::Mcp), ["deny", "ask", "ask", "allow"]),
        (of(ToolKind::Other), ["deny", "ask", "ask", "allow"]),
    ];
    let presets = Preset::ALL.map(Policy::preset);
    for (wants, expected) in table {
        let rulings = presets.each_ref().map(|preset| decision(preset, &wants));
        assert_eq!(rulings, expected, "{wants:?}");
    }
}

#[test]
fn a_policy_error_has_line_and_remedy() {
    for (text, wanted) in [
        (
            "[[rule]]\ncomand = \"x\"\ndo = \"ask\"",
            "p:2: unknown field `comand`, expected one of `kind`",
        ),
        ("[[rules]]\n", "p:1: unknown field `rules`"),
        (
            "\n[[rule]]\ntool = 3\ndo = \"ask\"",
            "p:3: invalid type: integer `3`, expected a string or a list",
        ),
        ("[[rule]]\ntool = \"*\"\n", "p:1: missing field `do`"),
        ("[[rule]\n", "p:1: "),
        (
            "\n\n[[rule]]\ntool = \"*\"\ndo = \"yes\"",
            "p:3: rule 1: do = \"yes\": expected \"allow\"",
        ),
        ("[[rule]]\ndo = \"allow\"", "rule 1: it has no condition"),
        (
            "[[rule]]\nkind = \"reed\"\ndo = \"allow\"",
            "unknown kind \"reed\": expected one of read, edit, execute",
        ),
        ("[[rule]]\ntool = \"\"\ndo = \"allow\"", "write \"*\""),
        ("[[rule]]\ncommand = \" \"\ndo = \"allow\"", "no words"),
        (
            "[[rule]]\ncommand = \"git; rm\"\ndo = \"deny\"",
            "first words of one command, without ';'",
        ),
        (
            "[[rule]]\npath = \"~/x\"\ndo = \"allow\"",
            "~ is not expanded",
        ),
        (
            "[[rule]]\npath = \"../x\"\ndo = \"allow\"",
            "must not contain \"..\"",
        ),
        (
            "[[rule]]\npath = \"src/\"\ndo = \"allow\"",
            "write \"src/**\"",
        ),
        (
            "[[rule]]\npath = \"a[\"\ndo = \"allow\"",
            "the path \"a[\": unclosed",
        ),
        (
            "[[rule]]\ntool = \"*\"\nmessage = \"x\"\ndo = \"ask\"",
            "message is the denial reason for the model",
        ),
        (
            "trusted_projects = [\"~/x\"]",
            "trusted_projects: \"~/x\" must be an absolute path",
        ),
        (
            "[[rule]]\ncommand = \"git\"\ndo = \"deny\"\n[[rule]]\ncommand = \"git log\"\ndo = \"allow\"\nexamples = [\"git log\"]",
            "p:4: rule 2: its example \"git log\" is decided by rule 1 of p (\"git\")",
        ),
        (
            "[[rule]]\ncommand = \"git\"\ndo = \"allow\"\nexamples = \"git log | sh\"",
            "its example \"git log | sh\" is decided by no rule",
        ),
        (
            "[[rule]]\ncommand = \"git\"\ndo = \"deny\"\nnot = [{ words = [\"git\", \"x\"] }]",
            "it matches { words = [\"git\", \"x\"] }, which is listed under `not`",
        ),
        (
            "[[rule]]\ntool = \"*\"\ndo = \"ask\"\nexamples = [{ pat = 1 }]",
            "p:4: unknown field `pat`",
        ),
        (
            "[[rule]]\npath = \"a\"\ncommand = \"a\"\ndo = \"ask\"\nexamples = [\"a\"]",
            "write it as { command",
        ),
    ] {
        let error = Policy::parse(text, "p", Trust::Full)
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{text}\n  {error}\n  {wanted}");
    }
    let error = Policy::parse("trusted_projects = []", "p", Trust::Project).unwrap_err();
    assert!(error.to_string().contains("cannot trust itself"), "{error}");
}

#[test]
fn trusted_projects_are_absolute_paths() {
    let mine = policy("trusted_projects = [\"/home/me/work/**\", \"/srv/one\"]");
    for (dir, trusted) in [
        ("/home/me/work/a", true),
        ("/home/me/work/a/b", true),
        ("/srv/one", true),
        ("/srv/one/two", false),
        ("/home/me/work/../evil", false),
        ("/home/me/workshop", false),
        ("home/me/work/a", false),
        ("", false),
    ] {
        assert_eq!(mine.trusts(dir), trusted, "{dir}");
    }
}

// P45
#[test]
fn a_rule_that_never_applies_is_found() {
    let rule = |action: &str, when: &str| format!("[[rule]]\n{when}\ndo = \"{action}\"\n");
    for (first, second, is_idle) in [
        (
            rule("allow", "tool = \"*\""),
            rule("ask", "command = \"git push\""),
            true,
        ),
        (
            rule("allow", "kind = \"execute\""),
            rule("ask", "kind = \"execute\"\ncommand = \"git\""),
            true,
        ),
        (
            rule("allow", "kind = \"execute\""),
            rule("ask", "command = \"git\""),
            false,
        ),
        (
            rule("deny", "command = \"git\""),
            rule("allow", "command = \"git status\""),
            true,
        ),
        (
            rule("deny", "command = \"git status\""),
            rule("allow", "command = \"git\""),
            false,
        ),
        // `git status; x` is still denied by the second.
        (
            rule("allow", "command = \"git\""),
            rule("deny", "command = \"git\""),
            false,
        ),
        (
            rule("allow", "path = \"a\""),
            rule("deny", "path = \"a\""),
            false,
        ),
        (
            rule("ask", "path = [\"a\", \"b\"]"),
            rule("deny", "path = \"a\""),
            true,
        ),
        (
            rule("ask", "tool = \"A\""),
            rule("deny", "tool = [\"A\", \"B\"]"),
            false,
        ),
        (
            rule("ask", "tool = [\"A\", \"B\"]"),
            rule("deny", "kind = \"read\"\ntool = \"A\""),
            true,
        ),
    ] {
        let found = policy(&(first.clone() + &second)).lint();
        assert_eq!(!found.is_empty(), is_idle, "{first}{second}{found:?}");
        let wanted = "rule 2 of policy.toml (";
        assert!(
            found
                .iter()
                .all(|words| words.starts_with(wanted) && words.contains("never applies: rule 1"))
        );
    }
    // Where a workspace asks, later rules may still deny.
    let project = Policy::parse(&rule("ask", "tool = \"*\""), "project", Trust::Project).unwrap();
    assert!(
        project
            .then(policy(&rule("deny", "tool = \"*\"")))
            .lint()
            .is_empty()
    );
}

#[test]
fn the_size_of_a_file_is_limited() {
    let rules = |count: usize| "[[rule]]\ntool = \"*\"\ndo = \"ask\"\n".repeat(count);
    let list = |key: &str, one: &str, count: usize| {
        format!(
            "[[rule]]\n{key} = [{}]\ndo = \"ask\"\n",
            format!("\"{one}\",").repeat(count)
        )
    };
    let full = policy(&rules(1_000));
    assert_eq!(full.lint().len(), 999);
    assert_eq!(full.clone().then(full).lint().len(), 1_999);
    for (text, wanted) in [
        (rules(1_001), "p: 1001 rules exceed the maximum of 1000"),
        (list("command", "a b", 2_501), "p: 5002 command words"),
        (list("path", "a/b/c/d", 1_251), "maximum of 5000"),
        (list("tool", "a", 5_001), "maximum of 5000"),
        (
            format!(
                "[[rule]]\ntool = \"*\"\nnot = [{}]\ndo = \"ask\"",
                "\"x\",".repeat(5_000)
            ),
            "maximum of 5000",
        ),
    ] {
        let error = Policy::parse(&text, "p", Trust::Full)
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{error}\n  {wanted}");
    }
}

#[test]
fn every_pattern_of_a_file_counts_towards_its_size() {
    // 4,992 tools, 1 kind, 2 words, 2 path components and 3 of a trusted project.
    let file = |tools: usize| {
        format!(
            "trusted_projects = [\"/a/b\"]\n[[rule]]\ntool = [{}]\nkind = \"execute\"\n\
             command = \"a b\"\npath = \"a/b\"\ndo = \"ask\"\n",
            "\"a\",".repeat(tools)
        )
    };
    let read = |tools| Policy::parse(&file(tools), "p", Trust::Full);
    assert!(read(4_992).is_ok());
    let error = read(4_993).unwrap_err().to_string();
    assert!(error.contains("5001 command words"), "{error}");
}

fn any_use() -> impl Strategy<Value = ToolUse> {
    let command = prop_oneof![
        Just(None),
        "\\PC{0,40}".prop_map(|line| Some(Command::Shell(line))),
        "[a-z'\"\\\\$(){}<>;|&`# \n=/*-]{0,40}".prop_map(|line| Some(Command::Shell(line))),
        proptest::collection::vec("\\PC{0,9}", 0..4).prop_map(|words| Some(Command::Words(words))),
    ];
    let paths = proptest::collection::vec("[a-z./~\\\\:é-]{0,12}", 0..3);
    (
        proptest::sample::select(&ToolKind::ALL[..]),
        "\\PC{0,6}",
        command,
        paths,
    )
        .prop_map(|(kind, tool, command, paths)| ToolUse {
            tool,
            kind,
            command,
            paths,
        })
}

proptest! {
    #[test]
    fn decide_never_panics(wants in any_use(), workspace in "[a-z/.]{0,8}") {
        static PRESETS: LazyLock<[Policy; 4]> = LazyLock::new(|| Preset::ALL.map(Policy::preset));
        for preset in &*PRESETS {
            prop_assert_ne!(preset.decide(&wants, &workspace).action, PolicyAction::Undecided);
        }
        let _ = policy("[[rule]]\ncommand = \"a b -c\"\npath = \"a/**\"\ndo = \"deny\"").decide(&wants, &workspace);
    }

    #[test]
    fn only_a_single_command_is_allowed(
        head in "git status[a-z '\"]{0,9}", bad in "[;|&$()<>`\n\r\\\\]", tail in "[a-z '\"]{0,9}",
    ) {
        let allow = policy("[[rule]]\ncommand = [\"git\", \"*\"]\ndo = \"allow\"");
        prop_assert_eq!(decision(&allow, &shell(&format!("{head}{bad}{tail}"))), "undecided");
    }

    #[test]
    fn an_allowing_match_is_also_a_denying_match(line in "[a-z'\" -]{0,20}") {
        let allow = policy("[[rule]]\ncommand = [\"a\", \"b *\"]\ndo = \"allow\"");
        let deny = policy("[[rule]]\ncommand = [\"a\", \"b *\"]\ndo = \"deny\"");
        if decision(&allow, &shell(&line)) == "allow" {
            prop_assert_eq!(decision(&deny, &shell(&line)), "deny");
        }
    }

    #[test]
    fn then_preserves_the_order(
        left in proptest::collection::vec(0..3usize, 0..5),
        right in proptest::collection::vec(0..3usize, 0..5),
    ) {
        let read = |list: &[usize]| {
            let rule = |at: &usize| format!("[[rule]]\ntool = \"*\"\ndo = \"{}\"\n", ["allow", "deny", "ask"][*at]);
            policy(&list.iter().map(rule).collect::<String>())
        };
        let both = read(&left).then(read(&right));
        let got: Vec<_> = both.rules().map(Rule::as_str).collect();
        let wanted: Vec<_> = left.iter().chain(&right).map(|at| ["allow", "deny", "ask"][*at]).collect();
        prop_assert_eq!(decision(&both, &shell("x")), wanted.first().copied().unwrap_or("undecided"));
        prop_assert_eq!(both.is_empty(), wanted.is_empty());
        prop_assert_eq!(got, wanted);
    }
}

// S0-5: a plain model may use only the named tools, whatever it calls them.
#[test]
fn only_the_named_tools_may_run() {
    let only = Policy::only(["calculator", "weather"], "Say it instead.");
    let named = ToolUse::new("calculator", ToolKind::Other);
    assert_eq!(decision(&only, &named), "allow");
    for wants in [
        shell("ls"),
        words(&["ls"]),
        edit(&["/w/project/a"]),
        ToolUse::new("calculator2", ToolKind::Other),
    ] {
        let ruling = only.decide(&wants, WORKSPACE);
        assert_eq!(
            ruling.action,
            PolicyAction::Deny("Say it instead.".into()),
            "{wants:?}"
        );
        assert!(
            ruling
                .rule
                .is_some_and(|rule| rule.contains("a plain model"))
        );
    }
    // One of the agent's own tools with the name of a caller's tool: its kind is known.
    assert_eq!(
        decision(&only, &ToolUse::new("calculator", ToolKind::Edit)),
        "deny"
    );
    let none = Policy::only([], "Say it instead.");
    for wants in [named, shell("ls"), ToolUse::new("", ToolKind::Read)] {
        assert_eq!(decision(&none, &wants), "deny", "{wants:?}");
    }
    assert_eq!(only.lint(), [""; 0]);
}

// The file of a hostile workspace must not end the program.
#[test]
fn a_path_pattern_that_cannot_be_compiled_is_an_error() {
    for depth in [10, 150, 1_000, 100_000] {
        let glob = format!("{}{}", "{a,".repeat(depth), "}".repeat(depth));
        for action in ["allow", "deny"] {
            let text = format!("[[rule]]\npath = \"{glob}\"\ndo = \"{action}\"");
            let read = Policy::parse(&text, "p", Trust::Project);
            assert_eq!(read.is_ok(), depth == 10, "{depth} {action}");
        }
    }
}

// P49: a stored policy decides as the original did, with the same reasons.
#[test]
fn a_policy_survives_serialization() {
    let file = "[[rule]]\nkind = \"execute\"\ncommand = [\"git status\", \"cargo\"]\ndo = \"allow\"\n\
                [[rule]]\npath = \"/etc/**\"\ndo = \"deny\"\nmessage = \"not there\"\n";
    let own = Policy::parse(file, "own.toml", Trust::Full).unwrap();
    let project = "[[rule]]\ntool = \"Web*\"\ndo = \"ask\"\n";
    let project = Policy::parse(project, "project.toml", Trust::Project).unwrap();
    let mut policies = vec![
        own.then(project).then(Policy::preset(Preset::Workspace)),
        Policy::only(["a"], "nothing else"),
        Policy::only([], "nothing"),
        Policy::default(),
    ];
    policies.extend(Preset::ALL.map(Policy::preset));
    let command = |text: &str| ToolUse {
        command: Some(Command::Shell(text.to_owned())),
        ..ToolUse::new("Bash", ToolKind::Execute)
    };
    let path = |kind, path: &str| ToolUse {
        paths: vec![path.to_owned()],
        ..ToolUse::new("Edit", kind)
    };
    let uses = [
        command("git status"),
        command("git push; cargo test"),
        path(ToolKind::Edit, "/etc/passwd"),
        path(ToolKind::Edit, "src/main.rs"),
        path(ToolKind::Read, ".env"),
        ToolUse::new("WebFetch", ToolKind::Network),
        ToolUse::new("a", ToolKind::Other),
        ToolUse::new("mcp__x", ToolKind::Mcp),
    ];
    for policy in policies {
        let stored = serde_json::to_string(&policy).unwrap();
        let read: Policy = serde_json::from_str(&stored).unwrap();
        for wants in &uses {
            let (before, after) = (policy.decide(wants, "/w"), read.decide(wants, "/w"));
            assert_eq!(before, after, "{wants:?} in {stored}");
        }
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }
    let invalid = r#"[{"source":"x","number":1,"trust":"full","do":"perhaps"}]"#;
    assert!(serde_json::from_str::<Policy>(invalid).is_err());
}
