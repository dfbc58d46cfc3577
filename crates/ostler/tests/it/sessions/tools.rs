//! The caller's tools: bound functions, their failures, progress and size, and tools that the
//! caller runs itself.

use std::sync::{Arc, Mutex};

use ostler::event::{EventKind, RawJson, ToolResult};
use ostler::session::{RequestError, SubmittedResult};
use ostler::spec::ToolOffer;
use ostler::tools::{Code, Progress, ToolError, ToolFuture};
use ostler::{Cause, Tool};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Subject, Task};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Scene;
use crate::conformance::assert_story;
use crate::rig::Seen;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second one.
    b: i64,
}

/// A model that calls this tool and then repeats its result.
fn calls(subject: &'static Subject, tool: &str, input: Value) -> Scene {
    let call = Answer::tool(format!("{}{tool}", subject.tools.bound), input);
    let script = Script::new()
        .rule(Rule::on_text("second").text("Two."))
        .rule(Rule::on_tool_result().text("{tool_result}"))
        .rule(Rule::any().answer(call));
    Scene::new(subject, script, &Task::new("the first"))
}

fn results(seen: &Seen) -> Vec<&ToolResult> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::ToolResult(it) = kind {
                Some(it)
            } else {
                None
            }
        })
        .collect()
}

/// The function gets the model's arguments, and the model gets its result; events use the tool's
/// own name.
pub(crate) async fn a_bound_tool(subject: &'static Subject) {
    let got = Arc::new(Mutex::new(Vec::new()));
    let keep = got.clone();
    let add = ostler::tool("add", "Adds two numbers.", move |add: Add| {
        let sum = add.a + add.b;
        keep.lock().unwrap().push(add);
        async move { Ok(sum.to_string()) }
    });
    let mut scene = calls(subject, "add", json!({"a": 19, "b": 23}));
    scene.host = scene.host.with_tool(add);
    let mut live = scene.start();
    let turn = live.turn().await;
    let is_sum = |text: &str| {
        text == "42" || (subject.quirks.wraps_outputs && format!("{text}\n").contains("\n42\n"))
    };
    assert!(
        turn.outcome.cause == Cause::Completed && is_sum(&turn.text),
        "{turn:?}"
    );
    // A recording has the agent's output; the helper it starts to reach the function is not in it.
    if !scene.place.skips_live_checks()
        || !crate::driver::dialect(&scene)
            .about()
            .capabilities
            .bridged_tools
    {
        assert_eq!(*got.lock().unwrap(), [Add { a: 19, b: 23 }]);
    }
    if scene.place.skips_live_checks() {
        assert_story(subject, "bound_tool", &live.end(&scene).await);
        return;
    }
    let offered = scene.call(0).body["tools"].to_string();
    assert!(
        offered.contains("Adds two numbers.") && offered.contains("The second one."),
        "{offered}"
    );
    let received = scene.call(1).last_tool_results();
    assert!(
        received.len() == 1 && is_sum(&received[0].text) && !received[0].is_error,
        "{received:?}"
    );
    let seen = live.end(&scene).await;
    assert_story(subject, "bound_tool", &seen);
    let names = seen.kinds().filter_map(|kind| {
        if let EventKind::ToolCall(it) = kind {
            Some(it.name.as_str())
        } else {
            None
        }
    });
    assert_eq!(names.collect::<Vec<_>>(), ["add"]);
    assert!(results(&seen)[0].ok);
}

/// An error, a panic and wrong arguments each give a failed result, and the session continues.
pub(crate) async fn a_tool_that_fails_or_panics(subject: &'static Subject) {
    let cases = [
        (json!({"a": 1, "b": 0}), "there is no zero today"),
        (json!({"a": 1, "b": 13}), "panicked"),
        (json!({"a": "one", "b": 2}), "expected i64"),
    ];
    for (input, expected) in cases {
        let mut scene = calls(subject, "divide", input);
        scene.host = scene.host.with_tool(ostler::tool(
            "divide",
            "Divides.",
            |Add { a, b }: Add| async move {
                assert_ne!(b, 13, "as it should");
                a.checked_div(b)
                    .map(|n| n.to_string())
                    .ok_or_else(|| ToolError::new(Code::BadArguments, "there is no zero today"))
            },
        ));
        let mut live = scene.start();
        let turn = live.turn().await;
        assert!(
            turn.outcome.cause == Cause::Completed && turn.text.contains(expected),
            "{expected}: {turn:?}"
        );
        assert!(scene.call(1).last_tool_results()[0].is_error, "{expected}");
        assert_eq!(live.ask("the second").await.text, "Two.");
        let seen = live.end(&scene).await;
        assert_eq!(
            (results(&seen)[0].ok, results(&seen)[0].denied),
            (false, false),
            "{expected}"
        );
    }
}

struct Patient;

impl Tool for Patient {
    fn name(&self) -> &str {
        "patient"
    }

    fn description(&self) -> &str {
        "Takes its time."
    }

    fn schema(&self) -> String {
        r#"{"type":"object","properties":{}}"#.into()
    }

    fn call<'a>(&'a self, _: &'a str) -> ToolFuture<'a> {
        Box::pin(async { Ok("never reached".into()) })
    }

    fn call_reporting<'a>(&'a self, _: &'a str, progress: &'a Progress) -> ToolFuture<'a> {
        Box::pin(async {
            progress.report("half of it");
            tokio::task::yield_now().await;
            progress.report("nearly all of it");
            Ok("all of it".into())
        })
    }
}

/// Each progress report of a tool is emitted as a notice, in order.
pub(crate) async fn tool_progress_is_emitted(subject: &'static Subject) {
    let mut scene = calls(subject, "patient", json!({}));
    scene.host = scene.host.with_tool(Patient);
    let mut live = scene.start();
    assert_eq!(live.turn().await.text, "all of it");
    let seen = live.end(&scene).await;
    let received: Vec<&str> = seen
        .notices("tool_progress")
        .iter()
        .map(|notice| notice.message.as_str())
        .collect();
    assert_eq!(received, ["half of it", "nearly all of it"]);
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Ten megabytes: Claude Code saves them to a file and gives the model the path and the first 2 KB;
/// the API agent keeps head and tail, 256 KiB together.
pub(crate) async fn ten_megabytes(subject: &'static Subject) {
    let mut scene = calls(subject, "much", json!({}));
    scene.host = scene
        .host
        .with_tool(ostler::tool("much", "Gives a lot.", |_: Nothing| async {
            Ok(format!("the head {} the tail", "x".repeat(10_000_000)))
        }));
    let mut live = scene.start();
    assert_eq!(live.turn().await.outcome.cause, Cause::Completed);
    let received = scene.call(1).last_tool_results().swap_remove(0).text;
    let (start, end) = (
        &received[..received.len().min(600)],
        &received[received.len().saturating_sub(200)..],
    );
    assert!(received.contains("the head"), "{start}");
    if subject.pinned().is_some() {
        assert!(
            received.len() < 5_000 && received.contains("saved to"),
            "{} bytes: {start} … {end}",
            received.len()
        );
    } else {
        assert!(
            (200_000..300_000).contains(&received.len()),
            "{} bytes: {start} … {end}",
            received.len()
        );
        assert!(received.ends_with("the tail"), "{end}");
    }
    let seen = live.end(&scene).await;
    assert!(results(&seen)[0].ok);
}

/// A tool without a function: the caller sees the call and submits its result, once.
pub(crate) async fn a_tool_that_the_caller_runs(subject: &'static Subject) {
    for ok in [true, false] {
        let mut scene = calls(subject, "weather", json!({"town": "Ulm"}));
        scene.spec.bound_tools.push(ToolOffer {
            name: "weather".into(),
            description: "The weather of a town.".into(),
            parameters: RawJson::parse(
                r#"{"type":"object","properties":{"town":{"type":"string"}}}"#,
            )
            .unwrap(),
        });
        let mut live = scene.start();
        let (id, input) = live
            .find(|kind| match kind {
                EventKind::ToolCall(call) => Some((call.id.clone(), call.input.get().to_owned())),
                _ => None,
            })
            .await;
        assert!(input.contains("Ulm"), "{input}");
        let result = SubmittedResult {
            id,
            ok,
            output: "sunny: or so they say".into(),
        };
        assert_eq!(live.remote().submit_tool_results([result.clone()]), Ok(()));
        assert_eq!(live.turn().await.text, "sunny: or so they say");
        let again = live.remote().submit_tool_results([result]);
        assert!(
            matches!(&again, Err(RequestError::Refused(refused)) if refused.code.as_str() == "decided"),
            "{again:?}"
        );
        let seen = live.end(&scene).await;
        assert_eq!(results(&seen)[0].ok, ok);
    }
}
