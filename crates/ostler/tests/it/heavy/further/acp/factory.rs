//! Agents whose default settings allow everything or let a model decide: the policy still decides.

use std::ffi::OsString;
use std::fs;

use ostler::Host;
use ostler::event::EventKind;
use ostler::permission::{Policy, Trust};
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{GOOSE, QWEN, Subject, Task};

use crate::sessions::Scene;

const RULES: &str = "[[rule]]\nkind = \"execute\"\ndo = \"deny\"\n";

/// A command that a policy denies does not run, in a new session or a resumed one.
async fn asks_all_the_same(subject: &'static Subject, factory: fn(&mut Scene)) {
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(
            Rule::on_text("PROMPT")
                .with_tools()
                .answer(subject.shell("echo 42 > made")),
        );
    let mut scene = Scene::new(subject, script, &Task::new("PROMPT"));
    factory(&mut scene);
    scene.spec.policy = Some(Policy::parse(RULES, "test", Trust::Full).unwrap());
    for round in ["new", "resumed"] {
        let mut live = scene.start();
        live.turn().await;
        let seen = live.end(&scene).await;
        assert!(
            !scene.place.work().join("made").exists(),
            "{round}: the command ran"
        );
        assert!(
            seen.kinds()
                .any(|kind| matches!(kind, EventKind::Permission(_))),
            "{round}: {:?}",
            seen.story()
        );
        let native = crate::sessions::started(&seen)[0]
            .native_session
            .clone()
            .unwrap();
        scene.spec.resume = Some((*native).into());
        scene.spec.prompt = "PROMPT again".into();
    }
}

#[test]
fn goose_begins_in_auto() {
    let factory = |scene: &mut Scene| {
        let rest = scene
            .place
            .host()
            .iter()
            .filter(|(name, _)| name != "GOOSE_MODE");
        scene.host =
            Host::new(rest.map(|(name, value)| (OsString::from(name), OsString::from(value))));
    };
    crate::driver::runtime().block_on(asks_all_the_same(&GOOSE, factory));
}

#[test]
fn qwen_begins_in_auto() {
    let factory = |scene: &mut Scene| {
        let path = scene.place.outside("home/.qwen/settings.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(r#""approvalMode": "default", "#));
        fs::write(&path, text.replace(r#""approvalMode": "default", "#, "")).unwrap();
    };
    crate::driver::runtime().block_on(asks_all_the_same(&QWEN, factory));
}
