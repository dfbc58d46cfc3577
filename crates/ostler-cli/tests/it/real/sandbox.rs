//! The real Claude Code in a sandbox of the system's.

use ostler_testkit::machine::{self, Need};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::real;
use ostler_testkit::scenario::{CLAUDE, Place};
use serde_json::{Value, json};

use crate::driver::{ostler, output};

/// What the agent's shell says to `line`, in that sandbox; and whether the sandbox is whole on this machine.
fn shell(place: &Place, sandbox: &str) -> Option<String> {
    let mut command = ostler(place);
    command
        .args(["run", "--agent", "claude", "--program"])
        .arg(real::claude())
        .arg("--dir")
        .arg(place.work());
    command.args([
        "--permission-mode",
        "bypassPermissions",
        "--output",
        "events",
        "--sandbox",
        sandbox,
        "PROMPT",
    ]);
    let ran = output(&mut command);
    assert_eq!(place.left(), []);
    let events: Vec<Value> = ran
        .stdout
        .split(|b| *b == b'\n')
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect();
    let of = |kind: &str| {
        events
            .iter()
            .find(|event| event["type"] == kind || event["code"] == kind)
            .unwrap()
            .clone()
    };
    assert_eq!(of("ended")["outcome"]["cause"], "completed", "{events:#?}");
    if sandbox != "off" {
        let notice = of("sandbox")["message"].as_str().unwrap().to_owned();
        let need = Need::of(!notice.contains("Not enforced"), || notice.clone());
        if !machine::can_run("real::sandbox", &need) {
            return None;
        }
    }
    Some(of("tool_result")["output"].as_str().unwrap().to_owned())
}

fn place() -> Place {
    let line = "echo x > made && echo INSIDE; echo x > ../aside && echo OUTSIDE; cat ~/.ssh/id_ed25519 && echo KEY; \
                echo x > $TMPDIR/y && echo TEMP; cat ../beside; echo end";
    let call = json!({ "command": line, "description": "for the test" });
    let place = Place::new(
        &CLAUDE,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::default().and_tool("Bash", call)))
            .rule(Rule::on_tool_result().answer(Answer::text("Done."))),
    );
    let ssh = place.aside("home/.ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::write(ssh.join("id_ed25519"), "a-key").unwrap();
    std::fs::write(place.aside("beside"), "readable\n").unwrap();
    place
}

/// It writes in its directory and nowhere else, reads what is not secret, and works as it always does.
#[test]
fn workspace_write() {
    let place = place();
    let Some(said) = shell(&place, "workspace-write") else {
        return;
    };
    assert!(
        said.contains("INSIDE") && said.contains("TEMP") && said.contains("readable"),
        "{said}"
    );
    assert!(
        !said.contains("OUTSIDE") && !said.contains("KEY") && !said.contains("a-key"),
        "{said}"
    );
    assert!(place.work().join("made").exists() && !place.aside("aside").exists());
    // Its own state is kept: the session can be gone on with.
    assert!(place.aside("home/.claude/projects").exists());
}

#[test]
fn read_only() {
    let place = place();
    let Some(said) = shell(&place, "read-only") else {
        return;
    };
    assert!(said.contains("end") && said.contains("TEMP"), "{said}");
    assert!(
        !said.contains("INSIDE") && !said.contains("OUTSIDE") && !said.contains("a-key"),
        "{said}"
    );
    assert!(!place.work().join("made").exists() && !place.aside("aside").exists());
}

/// The same without a sandbox, so that the two above prove something.
#[test]
fn off() {
    let place = place();
    let said = shell(&place, "off").unwrap();
    assert!(
        said.contains("INSIDE") && said.contains("OUTSIDE") && said.contains("KEY"),
        "{said}"
    );
}

/// Settings that are there already can be read and written, in the one file that lies at home.
#[test]
fn settings_that_are_there() {
    let place = place();
    std::fs::write(place.aside("home/.claude.json"), "{\"numStartups\": 3}").unwrap();
    let Some(said) = shell(&place, "workspace-write") else {
        return;
    };
    assert!(said.contains("INSIDE"), "{said}");
    let settings: Value =
        serde_json::from_slice(&std::fs::read(place.aside("home/.claude.json")).unwrap()).unwrap();
    assert!(settings["numStartups"].as_u64().unwrap() >= 3, "{settings}");
}
