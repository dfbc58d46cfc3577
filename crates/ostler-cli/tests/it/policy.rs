//! The permission policy end to end: layers, errors, and which rule decides.

use serde_json::Value;

use crate::rig::{Finished, Rig, finish};

const RM: &str = r#"{"command":"rm -rf /"}"#;

fn policy(rig: &Rig, args: &[&str]) -> Finished {
    finish(rig.ostler(&["policy"]).args(args))
}

/// Creates a rig with a user policy and a workspace policy.
fn rig(own: Option<&str>, project: Option<&str>) -> Rig {
    let rig = Rig::new();
    for (dir, text) in [(".config/ostler", own), (".ostler", project)] {
        if let Some(text) = text {
            std::fs::create_dir_all(rig.path(dir)).unwrap();
            rig.file(&format!("{dir}/policy.toml"), text);
        }
    }
    rig
}

#[test]
fn test_reports_the_deciding_rule() {
    let own =
        "[[rule]]\ntool = \"Bash\"\ndo = \"deny\"\nmessage = \"no shell\"\nexamples = [\"Bash\"]\n";
    let rig = rig(Some(own), None);
    let done = policy(&rig, &["test", "Bash", RM]);
    assert_eq!(done.code, Some(7), "{}", done.stderr);
    assert!(
        done.stdout.starts_with("deny  Bash (") && done.stdout.contains("rule 1 of "),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout
            .contains(".config/ostler/policy.toml (Bash): no shell"),
        "{}",
        done.stdout
    );
    let done = policy(&rig, &["test", "Other", "--permissions", "ask", "--json"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (done.code, &report["ruled"]),
        (Some(1), &Value::from("ask")),
        "{report}"
    );
    assert!(
        report["rule"].as_str().unwrap().contains("the preset ask"),
        "{report}"
    );
    assert_eq!(
        policy(&rig, &["test", "Other", "--permissions", "all"]).code,
        Some(0)
    );
    let done = policy(&rig, &["test", "Other"]);
    assert!(
        done.code == Some(1) && done.stdout.starts_with("undecided"),
        "{}",
        done.stdout
    );
}

// Only the preset that allows everything allows a dangerous command.
#[test]
fn presets_and_a_dangerous_command() {
    let rig = Rig::new();
    for (preset, code) in [("read-only", 7), ("workspace", 1), ("ask", 1), ("all", 0)] {
        let done = policy(&rig, &["test", "Bash", RM, "--permissions", preset]);
        assert_eq!(
            done.code,
            Some(code),
            "{preset}: {}{}",
            done.stdout,
            done.stderr
        );
    }
    let done = policy(&rig, &["test", "Bash", RM]);
    assert!(
        done.code == Some(1) && done.stdout.contains("no policy: "),
        "{}",
        done.stdout
    );
}

#[test]
fn layers_apply_in_order() {
    let rule = |tool: &str| format!("[[rule]]\ntool = \"{tool}\"\ndo = \"deny\"\n");
    let rig = rig(Some(&rule("B")), Some(&rule("C")));
    let file = rig.file("mine.toml", &rule("A"));
    let mut command = rig.ostler(&[
        "policy",
        "show",
        "--json",
        "--permissions",
        "read-only",
        "--policy",
    ]);
    let report: Value = serde_json::from_str(&finish(command.arg(&file)).stdout).unwrap();
    let rules: Vec<_> = report["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["tool"][0].clone())
        .collect();
    assert_eq!(rules[..3], ["A", "B", "C"]);
    assert_eq!(rules.last().unwrap(), "*");
    // An explicit configuration directory replaces the default ones.
    std::fs::create_dir(rig.path("settings")).unwrap();
    rig.file("settings/policy.toml", &rule("D"));
    for (name, dir) in [
        ("OSTLER_CONFIG_DIR", "settings"),
        ("XDG_CONFIG_HOME", ".config"),
    ] {
        let done = finish(rig.ostler(&["policy", "show"]).env(name, rig.path(dir)));
        let wanted = if dir == "settings" { "(D)" } else { "(B)" };
        assert!(
            done.stdout.contains(wanted) && done.stdout.contains("(C)"),
            "{name}: {}",
            done.stdout
        );
    }
    let done = policy(&Rig::new(), &["show"]);
    assert!(
        done.stdout.contains("No rules") && done.code == Some(0),
        "{}",
        done.stdout
    );
}

#[test]
fn project_cannot_widen_the_policy() {
    let project =
        "[[rule]]\ntool = \"*\"\ndo = \"allow\"\n[[rule]]\ntool = \"Web\"\ndo = \"ask\"\n";
    let args = ["test", "Web", "--permissions", "read-only"];
    let done = policy(&rig(None, Some(project)), &args);
    assert_eq!(done.code, Some(7), "{}", done.stdout);
    assert!(done.stderr.contains("(1) are ignored"), "{}", done.stderr);
    let done = policy(
        &rig(None, Some(project)),
        &[&args[..], &["--trust-project"]].concat(),
    );
    assert_eq!(done.code, Some(0), "{}", done.stdout);
    // The user's file lists trusted projects by their canonical paths.
    let rig = rig(Some(""), Some(project));
    let real = rig.dir().canonicalize().unwrap();
    for (trusted, code) in [
        (format!("{}", real.display()), 0),
        (format!("{}x", real.display()), 7),
    ] {
        rig.file(
            ".config/ostler/policy.toml",
            &format!("trusted_projects = [{trusted:?}]\n"),
        );
        assert_eq!(policy(&rig, &args).code, Some(code), "{trusted}");
    }
    rig.file(
        ".ostler/policy.toml",
        &format!("trusted_projects = [\"/**\"]\n{project}"),
    );
    let done = policy(&rig, &args);
    assert!(
        done.code == Some(2) && done.stderr.contains("cannot trust itself"),
        "{}",
        done.stderr
    );
}

#[test]
fn errors_say_what_to_do() {
    let bad = rig(
        Some("[[rule]]\ntool = \"*\"\nwhen = \"now\"\ndo = \"ask\"\n"),
        None,
    );
    let example = rig(
        None,
        Some("\n[[rule]]\ncommand = \"git log\"\ndo = \"allow\"\nexamples = [\"git push\"]\n"),
    );
    let good = Rig::new();
    std::fs::create_dir_all(good.path("strange/.ostler/policy.toml")).unwrap();
    for (rig, args, wanted) in [
        (
            &bad,
            &["show"][..],
            &[
                "policy.toml:3: unknown field `when`",
                "hint: see docs/permissions.md",
            ][..],
        ),
        (
            &example,
            &["show"],
            &["policy.toml:2: rule 1: its example \"git push\" is decided by no rule"],
        ),
        (
            &good,
            &["show", "--permissions", "yolo"],
            &["read-only, workspace, ask, all"],
        ),
        (
            &good,
            &["show", "--policy", "nowhere.toml"],
            &["--policy nowhere.toml: file not found"],
        ),
        (
            &good,
            &["show", "--dir", "nowhere"],
            &["cannot use ", "nowhere: "],
        ),
        (
            &good,
            &["show", "--dir", "strange"],
            &["must be a regular file"],
        ),
        (
            &good,
            &["test", "Bash", "rm -rf /"],
            &[
                "are not valid JSON",
                "hint: for example: ostler policy test Bash",
            ],
        ),
        (
            &good,
            &["test", "Bash", "--agent", "nobody"],
            &["unknown agent \"nobody\""],
        ),
    ] {
        let done = policy(rig, args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stdout);
        assert!(
            wanted.iter().all(|words| done.stderr.contains(words)),
            "{args:?}: {}",
            done.stderr
        );
    }
}

// P45: an `ask` rule that never applies, because an earlier rule allows, is reported.
#[test]
fn rule_that_never_applies_is_reported() {
    let own =
        "[[rule]]\ntool = \"*\"\ndo = \"allow\"\n[[rule]]\ncommand = \"git push\"\ndo = \"ask\"\n";
    let done = policy(&rig(Some(own), None), &["show"]);
    assert_eq!(done.stdout.lines().count(), 2, "{}", done.stdout);
    assert!(
        done.stderr
            .contains("(\"git push\") never applies: rule 1 of"),
        "{}",
        done.stderr
    );
}

#[test]
fn documented_examples_are_valid() {
    let page = include_str!("../../../../docs/permissions.md");
    let block = page
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let done = policy(&rig(Some(block), None), &["show"]);
    assert_eq!(
        (done.code, done.stderr.as_str()),
        (Some(0), ""),
        "{}",
        done.stdout
    );
    assert_eq!(
        done.stdout.lines().count(),
        block.matches("[[rule]]").count()
    );
    for word in ["read-only", "workspace", "ask", "all"] {
        assert!(page.contains(&format!("| `{word}` |")), "{word}");
    }
    let help = policy(&Rig::new(), &["test", "--help"]);
    assert!(
        [help.stdout.as_str(), page]
            .iter()
            .all(|text| text.contains("0 allow, 1 ask or no matching rule"))
    );
}

// Under a policy, an untrusted workspace's own agent settings are ignored: they can start programs
// that no rule sees.
#[test]
fn untrusted_workspace_settings_are_ignored() {
    let script = |rig: &Rig| {
        format!(
            "read\ninit\ndump-args {}\nresult hi\nread-until-eof",
            rig.path("args").display()
        )
    };
    let table: [(&[&str], bool); 4] = [
        (&["--permissions", "ask"], true),
        (&["--permissions", "ask", "--trust-project"], false),
        (
            &[
                "--permissions",
                "ask",
                "--set",
                "setting_sources=user,project",
            ],
            false,
        ),
        (&[], false),
    ];
    for (args, left_out) in table {
        let rig = Rig::new();
        rig.file(".mcp.json", "{}");
        let done = finish(&mut rig.fake_run(&script(&rig), &[args, &["hello"]].concat()));
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        let passed = std::fs::read_to_string(rig.path("args")).unwrap();
        assert_eq!(
            passed.contains("\"--setting-sources=user\""),
            left_out,
            "{args:?}: {passed}"
        );
        assert_eq!(
            done.stderr.contains(".mcp.json) are ignored"),
            left_out,
            "{args:?}: {}",
            done.stderr
        );
    }
}
