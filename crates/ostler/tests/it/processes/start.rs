//! How an agent is started: its arguments, its directory, its descriptors, and texts too long for
//! arguments.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use ostler::Cause;
use ostler::event::EventKind;
use ostler::spec::{AfterTurn, keys};
use ostler_testkit::processes;

use crate::rig::{Rig, claude, finish_after, read_until};

/// An agent that plays `verbs` when it has its prompt, then answers.
fn dumping(verbs: &str) -> Rig {
    Rig::new(format!(
        "read\n{verbs}\ninit\ntext hi\nresult hi\nread-until-eof"
    ))
}

/// Returns the prompt the agent received on stdin.
fn prompt_on_stdin(rig: &Rig) -> String {
    let line: serde_json::Value = serde_json::from_slice(&rig.read("stdin")).unwrap();
    line["message"]["content"].as_str().unwrap().to_owned()
}

fn arguments(rig: &Rig) -> Vec<String> {
    serde_json::from_slice(&rig.read("args")).unwrap()
}

// P28: it is neither an argument nor a variable, where `ps` would show it and the kernel would
// refuse it.
#[tokio::test]
async fn a_prompt_of_five_megabytes_arrives_whole_and_unseen() {
    let mut rig = dumping("dump-stdin $DIR/stdin\ndump-args $DIR/args\ndump-env $DIR/env");
    rig.spec.prompt = format!("{}ü😀\n", "secret words ").repeat(5_000_000 / 19);
    assert!(rig.spec.prompt.len() >= 4_999_000);
    assert_eq!(rig.run().await.outcome().cause, Cause::Completed);
    assert!(
        prompt_on_stdin(&rig) == rig.spec.prompt,
        "the prompt was changed in transit"
    );
    assert!(!rig.text("args").contains("secret") && !rig.text("env").contains("secret"));
}

// S4-18, S4-38
#[tokio::test]
async fn a_prompt_with_every_nasty_character_arrives_unchanged() {
    let mut rig = dumping("dump-stdin $DIR/stdin");
    rig.spec.prompt =
        "--help -p `id` $(id) $HOME \"q\" 'q' \\n \\\\ ; rm -rf * | & > < \r\n\t\u{1b}[31m ü😀\u{2028}".into();
    rig.run().await;
    assert_eq!(prompt_on_stdin(&rig), rig.spec.prompt);
}

// P28: it is passed in a file that only this user can read, and that is removed with the session.
#[tokio::test]
async fn a_system_prompt_of_a_megabyte_goes_through_a_private_file() {
    let mut rig = dumping("dump-args $DIR/args");
    let long = "be kind ".repeat(1_000_000 / 8);
    rig.spec.append_system_prompt = Some(long.clone());
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    let args = arguments(&rig);
    let path = args
        .iter()
        .find_map(|arg| arg.strip_prefix("--append-system-prompt-file="))
        .unwrap();
    assert_eq!(
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        std::fs::read_to_string(path).unwrap() == long,
        "the system prompt was changed in transit"
    );
    session.remote().stop();
    finish_after(read, session).await;
    assert!(!std::fs::exists(path).unwrap(), "the file is left behind");
}

// P29: values that look like flags stay values.
#[tokio::test]
async fn a_value_that_looks_like_a_flag_stays_a_value() {
    let mut rig = dumping("dump-args $DIR/args");
    rig.spec.resume = Some("--version".into());
    rig.spec.append_system_prompt = Some("--dangerously-skip-permissions".into());
    rig.spec.allowed_tools = vec!["Bash(git log *)".into(), "Read".into()];
    rig.run().await;
    let args = arguments(&rig);
    for whole in [
        "--resume=--version",
        "--allowed-tools=Bash(git log *)",
        "--allowed-tools=Read",
    ] {
        assert!(
            args.iter().any(|arg| arg == whole),
            "{whole} is not in {args:?}"
        );
    }
    assert!(
        !args
            .iter()
            .any(|arg| arg == "--version" || arg == "--dangerously-skip-permissions"),
        "{args:?}"
    );
}

// P29: a tool name cannot smuggle in a second permission; nothing is started.
#[tokio::test]
async fn a_tool_name_with_a_comma_is_refused() {
    let mut rig = dumping("pid-file $DIR/started");
    rig.spec.allowed_tools = vec!["Read,Bash(*)".into()];
    let error = claude().start(&rig.host, rig.spec.clone()).unwrap_err();
    assert_eq!(
        (error.key.as_str(), error.value.as_str()),
        (keys::ALLOWED_TOOLS, "Read,Bash(*)")
    );
    assert!(!rig.path("started").exists());
}

// P32: each standard stream is a separate pipe, never ours; stdin is closed when there is no more
// input.
#[tokio::test]
async fn stdin_is_a_separate_pipe_and_is_closed() {
    let rig = Rig::new(
        "read\ninit\nreport-fds $DIR/fds\ntext hi\nresult hi\nread-until-eof\npid-file $DIR/eof",
    );
    rig.run().await;
    let own: Vec<_> = (0..3)
        .filter_map(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok())
        .collect();
    for fd in 0..3 {
        let fds = rig.text("fds");
        let target = fds
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{fd} ")))
            .unwrap();
        assert!(
            target.starts_with("pipe:") && !own.iter().any(|own| own.as_os_str() == target),
            "{fd} {target}"
        );
    }
    assert!(rig.path("eof").exists(), "stdin was not closed");
}

// S4-36: while another session runs, with its pipes and raw log open, an agent gets its three
// streams, and otherwise only what the test runner leaks.
#[tokio::test]
async fn an_agent_inherits_no_descriptor() {
    let inherited = inheritable();
    let mut first = Rig::new("read\ninit\ntext hi\nhang").grace_ms(200);
    first.spec.raw_log = Some(first.path("raw"));
    let mut session = first.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let _open = std::fs::File::open("/dev/null").unwrap();
    let rig = dumping("report-fds $DIR/fds");
    rig.run().await;
    let text = rig.text("fds");
    let fds: BTreeSet<u32> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap().0.parse().unwrap())
        .collect();
    let extra: Vec<_> = fds.difference(&inherited).collect();
    assert!(
        extra.is_empty(),
        "beyond 0, 1, 2 and what the test runner leaks: {extra:?} of {text}"
    );
    session.remote().kill();
    finish_after(read, session).await;
}

/// Returns the descriptors of this process that every child gets: the standard ones, and those a
/// test runner left open.
fn inheritable() -> BTreeSet<u32> {
    let fds = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let fds = fds.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stays = |fd: &u32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap_or("02000000");
        u32::from_str_radix(flags.trim(), 8).unwrap() & 0o2_000_000 == 0
    };
    fds.filter(stays).chain(0..3).collect()
}

// P1, S4-15: a separate session (so no controlling terminal), a separate group, and the requested
// directory.
#[tokio::test]
async fn an_agent_runs_in_its_own_session_and_directory() {
    let rig = Rig::new("read\ninit\ndump-cwd $DIR/cwd\ntext hi\nhang").grace_ms(200);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let pid = session.remote().pid().unwrap();
    assert_eq!(
        (processes::session(pid), processes::group(pid)),
        (Some(pid), Some(pid))
    );
    session.remote().stop();
    let seen = finish_after(read, session).await;
    let dir = std::fs::canonicalize(rig.spec.dir.as_ref().unwrap()).unwrap();
    assert_eq!(rig.text("cwd"), dir.to_str().unwrap());
    let Some(EventKind::Started(started)) = seen
        .kinds()
        .find(|kind| matches!(kind, EventKind::Started(_)))
    else {
        panic!()
    };
    assert_eq!(started.cwd.as_deref(), dir.to_str());
}

// Tools that the agent would never learn of are not dropped silently: the agent is not started, and
// the caller learns why.
#[tokio::test]
async fn an_agent_that_takes_no_tools_is_not_started_with_them() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let agent = ostler::Agents::builtin().get("openclaw").unwrap();
    assert!(
        !agent.about().capabilities.tools,
        "the test needs an agent without tool support"
    );
    let spec = || ostler::Spec::new("hello").program("/nowhere/agent");
    let host = ostler::Host::default();
    let bound = host
        .clone()
        .with_tool(ostler::tool("add", "Adds.", |_: Nothing| async {
            Ok(String::new())
        }));
    let error = agent.start(&bound, spec()).unwrap_err().to_string();
    assert!(
        error.contains("add")
            && error.contains("does not support tools")
            && error.contains("another"),
        "{error}"
    );
    assert!(agent.start(&host, spec()).is_ok());
}
