//! Output formats of a run, live and replayed.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use insta::assert_snapshot;
use ostler_testkit::processes::alive;
use serde_json::Value;

use crate::rig::{Rig, check, finish, kinds};

/// A mock agent's script with everything that a run can show.
const SCRIPT: &str = r#"
{"type":"started","agent":"mock","agent_version":"1","native_session":"abc","model":"m1","cwd":null,"tools":[]}
{"type":"text","kind":"thinking","text":"Hm.","delta":false,"message":"m"}
{"type":"text","kind":"reply","text":"Two ","delta":true,"message":"m"}
{"type":"text","kind":"reply","text":"words.","delta":true,"message":"m"}
{"type":"tool_call","id":"1","name":"Bash","input":{"command":"ls\n-la"},"parent":null}
{"type":"tool_result","id":"1","name":"Bash","ok":true,"output":"a b","denied":false}
{"type":"tool_call","id":"2","name":"Write","input":{"path":"/etc/passwd"},"parent":null}
{"type":"tool_result","id":"2","name":"Write","ok":false,"output":"not allowed","denied":true}
{"type":"notice","level":"warning","code":"x","message":"careful \u001b[31mred\u001b[0m"}
{"type":"text","kind":"reply","text":"Done.","delta":false,"message":"n"}
{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":"Done.","structured":{"a":1},"usage":{"scope":"turn","model":"m1","input":1000,"cache_read":200,"cache_write":30,"output":4,"reasoning":null,"cost_usd":0.0123,"cost_source":"reported"}}
"#;

fn run(args: &[&str]) -> crate::rig::Finished {
    let rig = Rig::new();
    let script = format!("script={}", rig.file("script.jsonl", SCRIPT).display());
    let all = [&["run", "--agent", "mock", "--set", &script, "hi"], args].concat();
    finish(&mut rig.ostler(&all))
}

/// Replaces times and ids, which differ from run to run.
fn normalize(text: &str) -> String {
    let mut out = String::new();
    let id = text
        .split("--resume ")
        .nth(1)
        .and_then(|rest| rest.get(..8))
        .unwrap_or("no id")
        .to_owned();
    assert!(id.chars().all(|c| c.is_ascii_hexdigit()), "{text}");
    let text = &text.replace(&id, "SHORT-ID");
    for piece in text.split_inclusive("ms") {
        let digits = piece
            .strip_suffix("ms")
            .map(|p| p.trim_end_matches(|c: char| c.is_ascii_digit()));
        match digits {
            Some(before) if before.len() + 2 < piece.len() => {
                out.push_str(&format!("{before}TIME"));
            }
            _ => out.push_str(piece),
        }
    }
    out
}

#[test]
fn human() {
    let done = run(&[]);
    assert_eq!(done.code, Some(0));
    assert_snapshot!(done.stdout, @r"
    Two words.
    Done.
    ");
    let short = done
        .stderr
        .split("session ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .unwrap();
    assert!(
        short.len() == 8 && short.chars().all(|c| c.is_ascii_hexdigit()),
        "{}",
        done.stderr
    );
    assert_snapshot!(normalize(&done.stderr), @r#"
    Hm.
    ✓ Bash ls -la TIME
    ✗ Write /etc/passwd TIME denied
      not allowed
    ! careful red
    ✓ completed · 1,230 tokens in, 4 out · $0.0123 · TIME · session SHORT-ID
      resume with: ostler run --resume SHORT-ID "…"
    "#);
    assert!(
        !done.stdout.contains('\u{1b}') && !done.stderr.contains('\u{1b}'),
        "no escape codes when piped"
    );
}

// Issue 15, point 8: Codex needs seconds to exit after its last turn; the end line does not wait
// for it.
#[test]
fn the_end_line_comes_with_the_end_of_the_turn() {
    let rig = Rig::new();
    let script = "pid-file agent\nread-user\ninit\ntext Hi.\nresult Hi.\nread-until-eof\nhang";
    let mut child = rig
        .fake_run(script, &["hi", "--grace", "120s"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let end = lines.find(|line| line.contains("completed")).unwrap();
    let agent = rig.number("agent");
    assert!(alive(agent), "the agent is still there: {end}");
    assert!(end.contains("tokens") && end.contains("session "), "{end}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(agent).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(
        !rest.iter().any(|line| line.contains("completed")),
        "once: {rest:?}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn colours_only_when_asked_for() {
    let rig = Rig::new();
    let script = format!("script={}", rig.file("script.jsonl", SCRIPT).display());
    let args = ["run", "--agent", "mock", "--set", &script, "hi"];
    let forced = finish(rig.ostler(&args).env("CLICOLOR_FORCE", "1"));
    assert!(forced.stderr.contains("\u{1b}[3"), "colours when forced");
    assert!(
        !forced.stderr.contains("\u{1b}[31mred"),
        "but never the agent's own"
    );
    let never = finish(rig.ostler(&args).env("NO_COLOR", "1"));
    assert!(!never.stderr.contains('\u{1b}'));
}

#[test]
fn text() {
    let done = run(&["--output", "text"]);
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("Done.\n", "warning: careful red\n")
    );
}

// S4-6
#[test]
fn json() {
    let [report, short] = [&["--output", "json"][..], &["--json"]]
        .map(|form| serde_json::from_str::<Value>(&run(form).stdout).unwrap());
    assert_eq!(
        (&short["outcome"], &short["usage"]),
        (&report["outcome"], &report["usage"])
    );
    assert_eq!(
        run(&["--json", "--output", "text"]).code,
        Some(2),
        "--json and --output conflict"
    );
    assert_eq!(report["outcome"]["status"], "success");
    assert_eq!(
        (&report["text"], &report["structured"]["a"]),
        (&"Done.".into(), &1.into())
    );
    assert_eq!(
        (&report["native_session"], &report["model"]),
        (&"abc".into(), &"m1".into())
    );
    assert_eq!(
        (&report["tool_calls"], &report["denied"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&report["usage"]["input"], &report["usage"]["cost_usd"]),
        (&1000.into(), &0.0123.into())
    );
    let begin = report["started_at"].as_str().unwrap();
    assert!(begin.len() == 24 && begin.ends_with('Z'), "{begin}");
    assert_eq!(report["errors"], Value::Array(vec![]));
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1, "{report}");
}

// S4-7: a failed run resolves, with its exit code and its errors.
#[test]
fn json_of_a_failure() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        "read\ninit\nstderr boom\nexit 5",
        &["--output", "json", "hi"],
    ));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((done.code, &report["exit_code"]), (Some(1), &5.into()));
    assert_eq!(report["outcome"]["cause"], "agent_died");
    assert!(
        report["outcome"]["detail"]["stderr"]
            .as_str()
            .unwrap()
            .contains("boom")
    );
    assert!(!report["errors"].as_array().unwrap().is_empty());
}

// S3-43
#[test]
fn events() {
    let done = run(&["--output", "events"]);
    let events = done.events();
    let want = "state turn_started started state text text text tool_call tool_result tool_call tool_result notice text usage usage \
                turn_ended state state state ended";
    assert_eq!(kinds(&events).join(" "), want);
}

// A reader that goes away is not an error, and the agent is stopped.
#[test]
fn a_broken_pipe_is_not_an_error() {
    let rig = Rig::new();
    let script = "read\ninit\nloop 100000\ntext hello\nend\nresult x\nread-until-eof";
    let mut child = rig
        .fake_run(script, &["--output", "events", "--grace", "200ms", "hi"])
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap(); // and closes it
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), errors.as_str()),
        (Some(0), "")
    );
}

// Every recording is a bug report that can be replayed.
#[test]
fn a_raw_log_replays_to_the_same_events() {
    let rig = Rig::new();
    let script = "read\ninit\ndelta Hel\ndelta lo\ntext Hello\ntool-use t1 Bash {\"command\":\"ls\"}\ntool-result t1 ok\nresult Hello\nread-until-eof";
    let live = finish(&mut rig.fake_run(
        script,
        &["--output", "events", "--raw-log", "raw.jsonl", "hi"],
    ))
    .events();
    let replayed = finish(&mut rig.ostler(&[
        "replay",
        "raw.jsonl",
        "--agent",
        "claude",
        "--output",
        "events",
    ]))
    .events();
    assert_eq!(kinds(&live), kinds(&replayed));
    let bare = |events: &[Value]| -> Vec<Value> {
        let strip = |e: &Value| {
            let mut e = e.clone();
            for key in ["at", "session", "exit_code", "prompt"] {
                e.as_object_mut().unwrap().remove(key);
            }
            e
        };
        events.iter().map(strip).collect()
    };
    assert_eq!(bare(&live), bare(&replayed));
}

#[test]
fn every_fixture_replays_in_every_output() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude");
    let mut count = 0;
    for scenario in std::fs::read_dir(root).unwrap() {
        let scenario = scenario.unwrap().path();
        if scenario.is_file() {
            continue; // the expected causes
        }
        let file = scenario.join("stdout.jsonl");
        for output in ["human", "text", "json", "events"] {
            let rig = Rig::new();
            let done =
                finish(&mut rig.ostler(&["replay", file.to_str().unwrap(), "--output", output]));
            assert!(
                done.code.is_some_and(|c| c != 70),
                "{file:?} {output}: {:?} {}",
                done.code,
                done.stderr
            );
            if output == "events" {
                check(&done.events());
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn replay_reads_stdin_and_names_a_missing_file() {
    let rig = Rig::new();
    let recording = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude/hello/stdout.jsonl");
    let mut command = rig.ostler(&["replay", "-", "--output", "text"]);
    command.stdin(Stdio::from(std::fs::File::open(recording).unwrap()));
    assert_eq!(finish(&mut command).stdout, "Hello from the mock model.\n");
    let missing = finish(&mut rig.ostler(&["replay", "nothing.jsonl"]));
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("nothing.jsonl: "),
        "{}",
        missing.stderr
    );
}

// On a machine without agents, the first command still demonstrates Ostler.
#[test]
fn demo_is_played_without_an_agent() {
    let rig = Rig::new();
    let done = finish(&mut rig.ostler(&["run", "hello"]));
    assert_eq!(done.code, Some(0));
    assert!(
        done.stderr.contains("No coding agent found"),
        "{}",
        done.stderr
    );
    assert!(
        done.stdout.contains("\"hello\"") && done.stderr.contains("list_files"),
        "{}",
        done.stderr
    );
    let done = finish(&mut rig.ostler(&["run", "--output", "events", "hello"]));
    assert!(
        done.stderr.contains("No coding agent found"),
        "{}",
        done.stderr
    );
    let events = done.events();
    for kind in [
        "started",
        "text",
        "tool_call",
        "tool_result",
        "turn_ended",
        "ended",
    ] {
        assert!(kinds(&events).contains(&kind), "{kind}");
    }
}

// A script must not mistake a demo for an answer, and a request for a specific agent means that
// agent.
#[test]
fn demo_is_not_played_to_scripts() {
    let rig = Rig::new();
    let text = finish(&mut rig.ostler(&["run", "--output", "text", "hello"]));
    assert_eq!((text.code, text.stdout.as_str()), (Some(3), ""));
    assert!(
        text.stderr.starts_with("unavailable: ") && text.stderr.contains("https://claude.ai/code"),
        "{}",
        text.stderr
    );
    let json = finish(&mut rig.ostler(&["run", "--output", "json", "hello"]));
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (json.code, &report["outcome"]["cause"]),
        (Some(3), &"unavailable".into())
    );
    for flags in [
        ["--allowed-tools", "Read"],
        ["--model", "x"],
        ["--max-turns", "3"],
        ["--set", "effort=high"],
    ] {
        let done = finish(rig.ostler(&["run", "hello"]).args(flags));
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(3), ""),
            "{flags:?}: {}",
            done.stderr
        );
        assert!(
            done.stderr.contains("https://claude.ai/code"),
            "{}",
            done.stderr
        );
    }
}

// `jq .outcome.cause` works for a run that failed to start, too.
#[test]
fn json_of_a_run_that_failed_to_start() {
    let rig = Rig::new();
    let done = finish(&mut rig.ostler(&["run", "--agent", "nobody", "--output", "json", "hi"]));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (done.code, &report["outcome"]["cause"]),
        (Some(2), &"bad_request".into())
    );
    assert_eq!(report["outcome"]["status"], "failed");
    let agents = ostler::Agents::builtin();
    let names: Vec<&str> = agents.iter().map(|agent| agent.about().name).collect();
    let names = names.join(", ").replace(", loop", "");
    assert_eq!(
        report["outcome"]["hint"],
        format!("available agents: {names}")
    );
    assert_eq!(report["errors"][0], "unknown agent \"nobody\"");
    assert!(
        done.stderr.starts_with("error: unknown agent"),
        "{}",
        done.stderr
    );
}
