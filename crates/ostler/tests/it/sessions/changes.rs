//! Changes during a session: another model, another permission mode.

use ostler::Cause;
use ostler::event::{Decision, EventKind};
use ostler::permission::PermissionAnswer;
use ostler::spec::Attendance;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Subject, Task};

use super::Scene;
use super::sending::three;

/// The next turn's call goes to the other model, and one notice reports the change.
pub(crate) async fn another_model(subject: &'static Subject) {
    let scene = Scene::new(subject, three(), &Task::new("the first"));
    let mut live = scene.start();
    live.turn().await;
    assert_eq!(
        live.remote().set_model(&subject.settings.model).await,
        Ok(())
    );
    live.ask("the second").await;
    let models = [0, 1].map(|at| scene.call(at).model().to_owned());
    assert!(
        !models[0].contains(&subject.settings.model) && models[1].contains(&subject.settings.model),
        "{models:?}"
    );
    let seen = live.end(&scene).await;
    assert_eq!(seen.notices("model_changed").len(), 1);
}

/// A call of the kind that needed approval runs without it afterwards. A mode that does not exist
/// is refused.
pub(crate) async fn another_permission_mode(subject: &'static Subject) {
    let write = |name: &str| {
        let (tool, input) = subject.tools.write(name);
        Answer::tool(tool, input)
    };
    let script = Script::new()
        .rule(Rule::on_text("first").answer(write("one.txt")))
        .rule(Rule::on_text("second").answer(write("two.txt")))
        .rule(Rule::on_tool_result().text("Done."));
    let mut scene = Scene::new(subject, script, &Task::new("the first"));
    scene.spec.attendance = Attendance::Attended;
    let mut live = scene.start();
    let asked = |kind: &EventKind| match kind {
        EventKind::Permission(it) if it.decision == Decision::Asked => Some(it.id.clone()),
        _ => None,
    };
    let id = live.find(asked).await;
    assert_eq!(live.answer(&id, PermissionAnswer::Allow).await, Ok(()));
    live.turn().await;
    assert!(
        live.remote()
            .set_permission_mode("no-such-mode")
            .await
            .is_err()
    );
    assert_eq!(
        live.remote().set_permission_mode("acceptEdits").await,
        Ok(())
    );
    assert_eq!(live.ask("the second").await.outcome.cause, Cause::Completed);
    let seen = live.end(&scene).await;
    assert_eq!(seen.kinds().filter(|kind| asked(kind).is_some()).count(), 1);
    assert!(
        ["one.txt", "two.txt"]
            .iter()
            .all(|name| scene.place.work().join(name).exists())
    );
}
