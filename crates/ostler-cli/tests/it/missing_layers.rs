//! Machines without some sandbox layers: nothing runs unconfined without a warning, and
//! `sandbox check` reports the truth.

use std::process::Command;

use ostler_testkit::fake;
use ostler_testkit::processes::with_argument;
use rustix::process::Signal;
use serde_json::Value;

use crate::guard::{guard_of, pid};
use crate::rig::{Finished, Rig, collect, finish};

/// Wraps a command to run as on a machine without these layers.
fn without(layers: &str, command: &Command) -> Command {
    let mut deprived = Command::new(fake::deprived());
    deprived
        .args([layers, "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    deprived.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    deprived.current_dir(command.get_current_dir().unwrap());
    deprived.stdin(std::process::Stdio::null());
    deprived
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    deprived
}

/// Builds `ostler run` with a model that calls `git` once.
fn run(rig: &Rig, args: &[&str]) -> Command {
    std::fs::create_dir_all(rig.path("work")).unwrap();
    let script = "[[reply]]\nwhen = { prompt = \"go\" }\n\
                  calls = [{ tool = \"run_command\", input = { command = \"git\", args = [\"--version\"] } }]\n\
                  [[reply]]\nrepeat = true\ntext = \"done\"\n";
    let script = format!("script={}", rig.file("script.toml", script).display());
    let mut command = rig.ostler(&[
        "run", "--agent", "scripted", "--set", &script, "--dir", "work",
    ]);
    command.args(args).arg("go");
    command
}

fn result(done: &Finished) -> Value {
    done.events()
        .into_iter()
        .find(|event| event["type"] == "tool_result")
        .unwrap()
}

fn gaps(done: &Finished) -> Vec<String> {
    let notices = done
        .events()
        .into_iter()
        .filter(|event| event["code"] == "sandbox_gap");
    notices
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn no_command_runs_where_files_cannot_be_confined() {
    let rig = Rig::new();
    let done = finish(&mut without(
        "landlock",
        &run(&rig, &["--output", "events"]),
    ));
    let result = result(&done);
    assert_eq!(result["ok"], false, "{result}");
    let output = result["output"].as_str().unwrap();
    assert!(
        output.contains("Landlock")
            && output.contains("--sandbox off")
            && !output.contains("git version"),
        "{output}"
    );
    assert!(
        gaps(&done)
            .iter()
            .any(|gap| gap.contains("No command is run")),
        "{:?}",
        gaps(&done)
    );
}

#[test]
fn disabled_sandbox_reports_the_missing_layers() {
    let rig = Rig::new();
    let off = ["--sandbox", "off"];
    let done = finish(&mut without(
        "landlock",
        &run(&rig, &[&off[..], &["--output", "events"]].concat()),
    ));
    assert!(
        result(&done)["output"]
            .as_str()
            .unwrap()
            .contains("git version"),
        "{}",
        done.stdout
    );
    assert!(
        gaps(&done).iter().any(|gap| gap.contains("\"files\"")),
        "{:?}",
        gaps(&done)
    );
    // In every output format: on stderr, and as data in the report.
    for form in ["text", "json", "human"] {
        let done = finish(&mut without(
            "landlock",
            &run(&rig, &[&off[..], &["--output", form]].concat()),
        ));
        let output = if form == "human" {
            done.stdout.clone() + &done.stderr
        } else {
            done.stderr.clone()
        };
        assert!(
            output.contains("without the sandbox layer \"files\""),
            "{form}: {}{}",
            done.stdout,
            done.stderr
        );
        if form == "json" {
            let report: Value = serde_json::from_str(&done.stdout).unwrap();
            let warnings = report["warnings"].as_array().unwrap();
            assert!(
                warnings
                    .iter()
                    .any(|warning| warning.as_str().unwrap().contains("\"files\"")),
                "{report}"
            );
        }
    }
}

#[test]
fn policy_that_requires_every_layer_is_enforced() {
    for layers in ["unshare", "mount_setattr", "seccomp"] {
        let rig = Rig::new();
        let command = run(&rig, &["--output", "events"]);
        let done = finish(&mut without(layers, &command));
        assert!(
            result(&done)["output"]
                .as_str()
                .unwrap()
                .contains("git version"),
            "{layers}: {}",
            done.stdout
        );
        assert!(!gaps(&done).is_empty(), "{layers}: nothing is reported");
        std::fs::create_dir(rig.path("work/.ostler")).unwrap();
        rig.file("work/.ostler/sandbox.toml", "[sandbox]\nrequired = true\n");
        let done = finish(&mut without(layers, &command));
        let result = result(&done);
        assert!(
            result["ok"] == false && result["output"].as_str().unwrap().contains("required"),
            "{layers}: {result}"
        );
    }
}

// Build tools execute the project's code, so they need every layer; a shell even more so.
#[test]
fn fewer_commands_are_allowed_where_a_layer_is_missing() {
    let rig = Rig::new();
    let any = run(&rig, &["--output", "events", "--commands", "any"]);
    let done = finish(&mut without("unshare", &any));
    assert!(
        done.code == Some(2) && done.stderr.contains("needs the whole sandbox"),
        "{}{}",
        done.stdout,
        done.stderr
    );
    let done = finish(&mut without("unshare", &run(&rig, &["--output", "events"])));
    let notice = done
        .events()
        .into_iter()
        .find(|event| event["code"] == "sandbox_commands")
        .unwrap();
    assert!(
        notice["message"].as_str().unwrap().contains("\"strict\""),
        "{notice}"
    );
}

#[test]
fn an_agent_is_not_started_where_its_files_cannot_be_confined() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("work")).unwrap();
    let script = format!(
        "pid-file {}\nread\ninit\nresult done\nread-until-eof",
        rig.path("outside").display()
    );
    let args = [
        "--dir",
        "work",
        "--sandbox",
        "read-only",
        "--output",
        "events",
        "hi",
    ];
    let done = finish(&mut without("landlock", &rig.fake_run(&script, &args)));
    assert_eq!(done.cause(), "unavailable", "{}", done.stdout);
    assert_eq!(done.outcome()["detail"]["spawn"], "unconfined");
    assert!(!rig.path("outside").exists());
}

// Files that would make others run something later: writes are refused where namespaces exist, and
// otherwise reverted and reported.
#[test]
fn an_agent_in_a_sandbox_changes_nothing_that_runs_later() {
    for layers in ["", "unshare"] {
        for (planted, made) in [
            (".git/hooks/pre-commit", ".git/hooks"),
            (".git/hooks/pre-commit", ".git"),
            (".ostler/sandbox.toml", ".ostler"),
            (".ostler-later/../.ostler", ".ostler-later"),
            ("ostler.toml", "other"),
        ] {
            let rig = Rig::new();
            std::fs::create_dir_all(rig.path("work").join(made)).unwrap();
            if made == ".git" {
                std::fs::write(rig.path("work/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
                std::fs::create_dir_all(rig.path("work/.git/objects")).unwrap();
                std::fs::create_dir_all(rig.path("work/.git/refs")).unwrap();
            }
            let args = [
                "--dir",
                "work",
                "--sandbox",
                "workspace-write",
                "--output",
                "events",
                "hi",
            ];
            let script = format!(
                "pid-file {planted}\npid-file made\nread\ninit\nresult done\nread-until-eof"
            );
            let command = rig.fake_run(&script, &args);
            let done = finish(&mut if layers.is_empty() {
                command
            } else {
                without(layers, &command)
            });
            let about = format!("{layers:?} {planted} in {made}: {}", done.stdout);
            assert!(!rig.path("work").join(planted).exists(), "{about}");
            // Either it could not be written, or it was reverted and reported.
            let was_written = rig.path("work/made").exists();
            assert_eq!(
                was_written,
                done.stdout.contains("\"protected_files\""),
                "{about}"
            );
            assert!(
                layers.is_empty() || was_written || made == ".git",
                "{about}"
            );
        }
    }
}

// `check` reports the real state of the machine, terminates on its own, and leaves nothing behind.
#[test]
fn check_finds_what_leaks_where_layers_are_missing() {
    let all = "landlock,unshare,seccomp";
    for (layers, gap, leak) in [
        ("landlock", "files", "read_key"),
        ("unshare", "process_tree", "change_mode"),
        ("mount_setattr", "attributes", "change_mode"),
        ("seccomp", "system_calls", "set_user_id"),
        (all, "network", "tcp"),
    ] {
        let rig = Rig::new();
        let temp = rig.path("tmp");
        std::fs::create_dir(&temp).unwrap();
        let mut command = rig.ostler(&["sandbox", "check", "--json"]);
        let done = finish(&mut without(layers, command.env("TMPDIR", &temp)));
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        let layer = report["layers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|layer| layer["name"] == gap)
            .unwrap();
        assert_eq!(layer["enforced"], false, "{layers}: {layer}");
        let attempt = report["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .find(|attempt| attempt["name"] == leak)
            .unwrap();
        // Only root can change root's files, so some attempts are blocked for other users even
        // here.
        let is_root = rustix::process::geteuid().is_root();
        assert!(
            attempt["result"] == "leaked" || !is_root,
            "{layers}: {attempt}"
        );
        assert_eq!(
            (done.code, report["holds"].as_bool()),
            (Some(1), Some(false)),
            "{layers}"
        );
        assert_eq!(
            std::fs::read_dir(&temp).unwrap().count(),
            0,
            "{layers}: something is left"
        );
    }
}

// Without a pid namespace the guard is the only protection. A stopped guard is continued, and finds
// processes that dropped their mark.
#[test]
fn a_stopped_guard_still_ends_its_command() {
    for layers in ["unshare", ""] {
        let rig = Rig::new();
        let nap = format!("300.{}{}", std::process::id(), layers.len());
        std::fs::create_dir_all(rig.path("work/.git")).unwrap();
        let recipe = format!(
            "attack:\n\tmkdir -p .git/hooks; env -i setsid sh -c 'while :; do echo x > .git/hooks/pre-commit; sleep 0.01; done' {nap} & touch begun; sleep {nap}\n"
        );
        rig.file("work/Makefile", &recipe);
        let script = "[[reply]]\nwhen = { prompt = \"go\" }\n\
            calls = [{ tool = \"run_command\", input = { command = \"make\", args = [\"attack\"], timeout_seconds = 3 } }]\n\
            [[reply]]\nrepeat = true\ntext = \"done\"\n";
        let script = format!("script={}", rig.file("script.toml", script).display());
        let allowed = ["--allow-command", "make"];
        let mut command = rig.ostler(&[
            "run", "--agent", "scripted", "--set", &script, "--dir", "work", "--output", "events",
        ]);
        command.args(allowed).arg("go");
        let mut command = if layers.is_empty() {
            command
        } else {
            without(layers, &command)
        };
        let child = command.spawn().unwrap();
        while !rig.path("work/begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        rustix::process::kill_process(pid(guard_of(&child)), Signal::STOP).unwrap();
        let done = collect(child);
        assert!(
            result(&done)["output"]
                .as_str()
                .unwrap()
                .starts_with("timed_out"),
            "{}",
            done.stdout
        );
        assert!(
            with_argument(&nap).is_empty(),
            "{layers:?}: something is left"
        );
        assert!(
            !rig.path("work/.git/hooks").exists(),
            "{layers:?}: the hook is left"
        );
    }
}
