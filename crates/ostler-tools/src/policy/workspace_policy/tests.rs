//! A workspace's file can only narrow the policy; requests of a trusted one are granted.

use std::ffi::OsStr;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::command::CommandContext;

fn file(text: &str) -> WorkspacePolicy {
    text.parse().unwrap()
}

fn left_out(base: &str, workspace: &str) -> Vec<String> {
    let narrowed = base
        .parse::<SandboxPolicy>()
        .unwrap()
        .narrowed_by(&file(workspace));
    narrowed.left_out.iter().map(ToString::to_string).collect()
}

// Issue 14, break 1: each request of the attack is left out, and named.
#[test]
fn requests_are_left_out_and_named() {
    for (base, workspace, expected) in [
        (
            "",
            "[sandbox]\nwrite = [\"~/.bashrc\"]",
            &["commands may write ~/.bashrc"][..],
        ),
        ("", "[sandbox]\nread = [\"~\"]", &["commands may read ~"]),
        (
            "",
            "[sandbox]\nnetwork = \"all\"",
            &["commands may use the network"],
        ),
        (
            "",
            "[sandbox]\nenv = [\"DATABASE_URL\"]",
            &["commands get the variable DATABASE_URL"],
        ),
        (
            "",
            "[sandbox]\nenv = [\"GITHUB_TOKEN\", \"A=B\"]",
            &[
                "commands get the variable GITHUB_TOKEN",
                "commands get the variable A=B",
            ],
        ),
        (
            "",
            "[sandbox]\ntimeout_seconds = 9999",
            &["timeout_seconds is raised from 120 to 9999"],
        ),
        (
            "",
            "[files]\nallow = [\".env\"]",
            &["the file tools open .env"],
        ),
        (
            "",
            "[[command]]\nname = \"bash\"",
            &["the command bash may run"],
        ),
        (
            "",
            "[[command]]\nname = \"git\"",
            &["its own rule for git replaces a stricter one"],
        ),
        (
            "",
            "[sandbox]\nwrite = [\"a\\u001b[2Jb\\u202e\"]",
            &["commands may write a\\u{1b}[2Jb\\u{202e}"],
        ),
        (
            "[sandbox]\nrequired = true",
            "[sandbox]\nrequired = false",
            &["commands run even if layers of the sandbox are missing"],
        ),
        // A permission that is already granted is not a request, and neither is a narrowing.
        (
            "[sandbox]\nwrite = [\"/x\"]\nnetwork = \"all\"",
            "[sandbox]\nwrite = [\"/x\"]\nnetwork = \"all\"",
            &[],
        ),
        (
            "",
            "[sandbox]\ntimeout_seconds = 5\nmemory_mb = 64\nrequired = true\nnetwork = \"none\"",
            &[],
        ),
        ("", "[files]\ndeny = [\"a\"]\nread_only = [\"b\"]", &[]),
        (
            "[[command]]\nname = \"x\"",
            "[[command]]\nname = \"x\"\nallow = [\"y\"]\nblock_args = [\"z\"]",
            &[],
        ),
        ("", "", &[]),
    ] {
        assert_eq!(left_out(base, workspace), expected, "{workspace}");
    }
}

#[test]
fn narrowing_parts_are_applied() {
    let base = SandboxPolicy::from_str(
        "[sandbox]\nnetwork = \"all\"\ntimeout_seconds = 600\nwrite = [\"/x\"]",
    )
    .unwrap();
    let text = "[sandbox]\nnetwork = \"none\"\ntimeout_seconds = 5\nmemory_mb = 64\nrequired = true\n\
                [files]\ndeny = [\"a\"]\nread_only = [\"b\"]";
    let CommandLimits {
        network,
        timeout_seconds,
        memory_mb,
        required,
        write,
        ..
    } = base.narrowed_by(&file(text)).policy.sandbox;
    assert_eq!(
        (network, timeout_seconds, memory_mb, required),
        (Network::None, 5, Some(64), Required::Everything)
    );
    assert_eq!(write, [Path::new("/x")], "the user's grants remain");
    let files = base.narrowed_by(&file(text)).policy.files;
    assert_eq!(
        (files.deny, files.read_only),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    // A limit that the file does not name keeps the user's value.
    assert_eq!(
        base.narrowed_by(&file("[sandbox]\nprocesses = 3"))
            .policy
            .sandbox
            .timeout_seconds,
        600
    );
}

fn passes(policy: &SandboxPolicy, command: &str, args: &[&str]) -> bool {
    let commands = Commands::new(&policy.commands)
        .unwrap()
        .narrowed_by(&policy.narrowing);
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let context = CommandContext {
        root: Path::new("/workspace"),
        path: OsStr::new("/usr/bin:/bin"),
        is_denied: &|_| false,
    };
    // A program that is not installed has passed the rules.
    commands
        .check(command, &args, &context)
        .map_or_else(|error| error.code == crate::Code::FileNotFound, |_| true)
}

#[test]
fn a_workspaces_rule_only_refuses() {
    let base = SandboxPolicy::default();
    let narrowed = |text: &str| base.narrowed_by(&file(text)).policy;
    let git = narrowed("[[command]]\nname = \"git\"\nallow = [\"status\", \"push\", \"config\"]");
    assert!(passes(&git, "git", &["status"]));
    assert!(
        !passes(&git, "git", &["log"]),
        "not listed by the workspace"
    );
    assert!(
        !passes(&git, "git", &["push", "--force"]),
        "blocked by the default"
    );
    assert!(
        !passes(&git, "git", &["config", "x"]),
        "not listed by the default"
    );
    assert!(!passes(
        &narrowed("[[command]]\nname = \"bash\""),
        "bash",
        &[]
    ));
    // `just` lists no sub-commands. A list in the workspace's rule must not change the meaning of
    // the default's blocks.
    let just = narrowed(
        "[[command]]\nname = \"just\"\nallow = [\"test\"]\nbefore = [\"-f\", \"--justfile\"]",
    );
    assert!(passes(&just, "just", &["test"]) && !passes(&just, "just", &["build"]));
    assert!(
        !passes(&just, "just", &["-f", "x", "test"])
            && !passes(&just, "just", &["test", "--justfile", "x"])
    );
}

#[test]
fn trusted_file_is_granted_its_unrefused_requests() {
    let text = "[sandbox]\nwrite = [\"/a\", \"/b\"]\nnetwork = \"all\"\nprocesses = 9999\nmemory_mb = 8\n\
                [files]\nallow = [\".env\"]\n[[command]]\nname = \"bash\"";
    let judge = |request: &Request| match request {
        Request::Write(path) if path == Path::new("/b") => Err(NotGranted::new("never")),
        Request::Write(_) => Ok(Request::Write("/real".into())),
        other => Ok(other.clone()),
    };
    let granted = SandboxPolicy::default().granting(&file(text), &judge);
    assert_eq!(
        granted.refused,
        [RefusedRequest {
            request: Request::Write("/b".into()),
            reason: NotGranted::new("never"),
        }]
    );
    assert_eq!(granted.opened.len(), 5);
    let CommandLimits {
        write,
        network,
        processes,
        memory_mb,
        ..
    } = granted.policy.sandbox.clone();
    assert_eq!((write, network), (vec!["/real".into()], Network::All));
    assert_eq!((processes, memory_mb), (9999, Some(8)));
    assert_eq!(granted.policy.files.workspace_allow, [".env"]);
    assert!(passes(&granted.policy, "bash", &[]));
}

#[test]
fn invalid_file_is_an_error() {
    for text in [
        "nonsense",
        "[sandbox]\nsurprise = 1",
        "[sandbox]\nprocesses = 0",
        "[files]\ndeny = [\"a{\"]",
    ] {
        assert!(text.parse::<WorkspacePolicy>().is_err(), "{text}");
    }
    // Neither can be granted, but neither is a mistake in the file.
    for text in [
        "[sandbox]\nwrite = [\"/\", \"~\"]",
        "[sandbox]\nenv = [\"MY_TOKEN\"]",
    ] {
        assert!(text.parse::<WorkspacePolicy>().is_ok(), "{text}");
    }
}

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(of), 0..4)
}

const NAMES: &[&str] = &["git", "just", "bash", "cargo", "./x"];
const ARGS: &[&str] = &[
    "status",
    "push",
    "--force",
    "-f",
    "test",
    "a.txt",
    "--output=x",
    "commit",
    "-m",
    "-c",
];

prop_compose! {
    fn rule()(
        name in prop::sample::select(NAMES),
        allow in prop::option::of(words(ARGS)),
        before in words(ARGS),
        block in words(ARGS),
        block_args in words(ARGS),
        text in words(ARGS),
    ) -> String {
        let list = |words: &[&str]| format!("{words:?}");
        let lists = |words: &[&str]| {
            format!("{:?}", words.iter().map(|word| vec![*word]).collect::<Vec<_>>())
        };
        let allow = allow.map(|allow| format!("allow = {}\n", list(&allow))).unwrap_or_default();
        format!(
            "[[command]]\nname = {name:?}\n{allow}before = {}\nblock = {}\nblock_args = {}\ntext = {}\n",
            list(&before), lists(&block), list(&block_args), lists(&text),
        )
    }
}

prop_compose! {
    fn policy_text()(
        write in words(&["/x", "~/.bashrc", "a"]),
        read in words(&["~", "/y"]),
        env in words(&["CI", "RUST_LOG", "DATABASE_URL"]),
        network in prop::option::of(prop::sample::select(&["none", "all"][..])),
        required in prop::option::of(any::<bool>()),
        counts in prop::collection::vec(prop::option::of(1u64..2000), 6),
        rules in prop::collection::vec(rule(), 0..3),
        deny in words(&["a", "b/**"]),
        allow in words(&[".env", "**"]),
        read_only in words(&["c"]),
    ) -> String {
        let names = [
            "timeout_seconds", "cpu_seconds", "file_size_mb",
            "processes", "open_files", "memory_mb",
        ];
        let counts = names
            .iter()
            .zip(counts)
            .filter_map(|(name, count)| Some(format!("{name} = {}\n", count?)));
        format!(
            "[sandbox]\nwrite = {write:?}\nread = {read:?}\nenv = {env:?}\n{}{}{}[files]\ndeny = {deny:?}\n\
             allow = {allow:?}\nread_only = {read_only:?}\n{}",
            network.map(|network| format!("network = {network:?}\n")).unwrap_or_default(),
            required.map(|required| format!("required = {required}\n")).unwrap_or_default(),
            counts.collect::<String>(),
            rules.concat(),
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Issue 14, break 1: whatever the workspace's file says, nothing new is allowed.
    #[test]
    fn narrowed_policy_allows_nothing_the_base_refuses(
        base in policy_text(),
        workspace in policy_text(),
        command in prop::sample::select(NAMES),
        args in words(ARGS),
    ) {
        let base = base
            .replace("DATABASE_URL", "JAVA_HOME")
            .parse::<SandboxPolicy>()
            .unwrap();
        let mut policy = base.narrowed_by(&file(&workspace)).policy;
        let (mut current, limits) = (base.sandbox.clone(), &mut policy.sandbox);
        prop_assert_eq!(
            (&limits.write, &limits.read, &limits.env),
            (&current.write, &current.read, &current.env)
        );
        prop_assert!(limits.network == current.network || limits.network == Network::None);
        prop_assert!(limits.required >= current.required);
        for ((name, now), (_, current)) in counts(limits).into_iter().zip(counts(&mut current)) {
            let max = |count: Count<'_>| match count {
                Count::Always(count) => *count,
                Count::Optional(count) => count.unwrap_or_else(default_memory_mb),
            };
            prop_assert!(max(now) <= max(current), "{}", name);
        }
        prop_assert_eq!(&policy.files.allow, &base.files.allow);
        prop_assert!(policy.files.workspace_allow.is_empty());
        prop_assert!(base.files.deny.iter().all(|glob| policy.files.deny.contains(glob)));
        prop_assert!(base.files.read_only.iter().all(|glob| policy.files.read_only.contains(glob)));
        prop_assert!(
            passes(&base, command, &args) || !passes(&policy, command, &args),
            "{} {:?}", command, args
        );
    }

    // A rule that is not reported as a request really allows no more.
    #[test]
    fn rule_without_a_request_allows_no_more(
        base in rule(), workspace in rule(), args in words(ARGS),
    ) {
        let base: SandboxPolicy = base.parse().unwrap();
        let workspace = file(&workspace);
        let rule = &workspace.policy.commands[0];
        if request_of(rule, Commands::new(&base.commands).ok().as_ref()).is_none() {
            let replaced = SandboxPolicy {
                commands: [&base.commands[..], &workspace.policy.commands].concat(),
                ..SandboxPolicy::default()
            };
            prop_assert!(
                passes(&base, &rule.name, &args) || !passes(&replaced, &rule.name, &args),
                "{:?}", args
            );
        }
    }
}
