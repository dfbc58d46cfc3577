//! The scripted agent: the tool loop, the tools and the sandbox are real; only the model's text
//! comes from a file.

use std::path::Path;
use std::sync::Arc;

use ostler::agent::{ApiAgent, Probed};
use ostler::event::{EventKind, Level};
use ostler::outcome::SpawnFailure;
use ostler::testing::Script;
use ostler::tools::ToolFuture;
use ostler::{Agent, Agents, Cause, Spec, Tool};

use crate::rig::{Seen, finish, finish_after, host, read_until};

fn scripted() -> Arc<dyn Agent> {
    Agents::builtin().get("scripted").unwrap()
}

fn asking(dir: &Path) -> Spec {
    Spec::new("hello").dir(dir)
}

async fn play(script: &str, dir: &Path) -> Seen {
    let agent = ApiAgent::playing(Script::parse(script).unwrap());
    finish(agent.start(&host(&[]), asking(dir)).unwrap()).await
}

// The built-in script shows a real tool call, a text with the prompt and the end, with nothing
// installed.
#[tokio::test]
async fn without_a_script_it_shows_what_ostler_does() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a-file.txt"), "x").unwrap();
    assert!(matches!(
        scripted().probe(&host(&[]), &Spec::default()).await,
        Probed::Ready { path: None, .. }
    ));
    let seen = finish(scripted().start(&host(&[]), asking(dir.path())).unwrap()).await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    assert!(seen.turn().text.contains("hello"));
    let listed = seen.kinds().find_map(|kind| {
        if let EventKind::ToolResult(result) = kind {
            Some(result)
        } else {
            None
        }
    });
    assert!(
        listed.is_some_and(|result| result.ok && result.output.contains("a-file.txt")),
        "the tool really ran"
    );
}

// The script is used only if the directory is trusted. A malformed one is an invalid setting.
#[tokio::test]
async fn a_directory_brings_its_own_script() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".ostler")).unwrap();
    std::fs::write(
        dir.path().join(".ostler/script.toml"),
        "[[reply]]\ntext = \"from the directory\"",
    )
    .unwrap();
    // Issue 14, break 1: the directory is not trusted, and the library does not trust it by itself.
    let seen = finish(scripted().start(&host(&[]), asking(dir.path())).unwrap()).await;
    assert!(
        !seen.turn().text.contains("from the directory"),
        "{}",
        seen.turn().text
    );
    let notices: Vec<_> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::Notice(it) = kind {
                Some(it)
            } else {
                None
            }
        })
        .collect();
    assert!(
        notices
            .iter()
            .any(|it| it.code.as_str() == "workspace_untrusted"
                && it.message.contains("script.toml")),
        "{notices:?}"
    );
    let trusting =
        || host(&[]).with_workspace(ostler::trust::WorkspaceTrust::trusting(dir.path()).unwrap());
    let seen = finish(scripted().start(&trusting(), asking(dir.path())).unwrap()).await;
    assert_eq!(seen.turn().text, "from the directory");
    std::fs::write(dir.path().join(".ostler/script.toml"), "[[replay]]").unwrap();
    let wrong = scripted()
        .start(&trusting(), asking(dir.path()))
        .unwrap_err();
    assert!(
        wrong.key == "script" && wrong.why.contains("replay"),
        "{wrong}"
    );
}

// S2-17, S2-21
#[tokio::test]
async fn change_is_made_and_denied_call_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(dir.path().join(".env"), "KEY=canary").unwrap();
    let script = r#"
        [[reply]]
        text = "I change it."
        calls = [{ tool = "edit_file", input = { path = "a.txt", edits = [{ find = "two", replace = "three" }] } }]
        usage = { input = 10, output = 5 }
        [[reply]]
        when = { result_of = "edit_file" }
        calls = [{ tool = "read_file", input = { path = ".env" } }, { tool = "no_such_tool" }]
        usage = { input = 20, output = 5, cached = 10 }
        [[reply]]
        when = { result_of = "read_file", result = "denied_by_policy" }
        text = "That is not mine to read."
        usage = { input = 30, output = 5 }"#;
    let seen = play(script, dir.path()).await;
    assert_eq!(
        std::fs::read_to_string(dir.path().join("a.txt")).unwrap(),
        "one\nthree\n"
    );
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Denied, "That is not mine to read.")
    );
    assert!(
        !seen
            .kinds()
            .any(|kind| format!("{kind:?}").contains("canary"))
    );
    let usage = seen.turn().usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.cache_read, usage.output, usage.cost_usd),
        (Some(60), Some(10), Some(15), None)
    );
    let unknown = seen.kinds().any(
        |kind| matches!(kind, EventKind::ToolResult(r) if r.output.starts_with("unknown_tool")),
    );
    assert!(unknown, "an unknown tool is answered, not fatal");
}

#[tokio::test]
async fn a_script_that_does_not_fit_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let seen = play(
        "[[reply]]\nwhen = { prompt = \"goodbye\" }\ntext = \"bye\"",
        dir.path(),
    )
    .await;
    assert_eq!(seen.outcome().cause, Cause::BadRequest);
    assert!(
        seen.outcome().message.contains("hello"),
        "{}",
        seen.outcome().message
    );
}

#[tokio::test]
async fn errors_and_endings_can_be_scripted() {
    let dir = tempfile::tempdir().unwrap();
    for (reply, cause) in [
        ("error = { status = 401, message = \"no\" }", Cause::Auth),
        (
            "error = { status = 429, message = \"slow down\" }",
            Cause::RateLimit,
        ),
        (
            "error = { status = 404, message = \"no such model\" }",
            Cause::BadRequest,
        ),
        ("text = \"half\"\ncut = true", Cause::Network),
        ("text = \"half\"\nfinish = \"length\"", Cause::OutputLimit),
        ("text = \"no\"\nfinish = \"content_filter\"", Cause::Refused),
    ] {
        assert_eq!(
            play(&format!("[[reply]]\n{reply}"), dir.path())
                .await
                .outcome()
                .cause,
            cause,
            "{reply}"
        );
    }
}

// Issue 15, point 8: any cause that exists, except `completed`.
#[tokio::test]
async fn a_script_can_end_a_turn_with_any_cause() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "forty-two\n").unwrap();
    let script = "
        [[reply]]
        calls = [{ tool = \"read_file\", input = { path = \"a.txt\" } }]
        [[reply]]
        text = \"That is not what I need.\"
        ending = { cause = \"needs_input\", message = \"I got: {result}\", hint = \"Say more.\" }";
    let seen = play(script, dir.path()).await;
    let outcome = seen.outcome();
    assert_eq!(
        (outcome.cause, outcome.hint.as_deref()),
        (Cause::NeedsInput, Some("Say more."))
    );
    assert!(
        outcome.message.starts_with("I got: ") && outcome.message.contains("forty-two"),
        "{}",
        outcome.message
    );
    assert_eq!(seen.turn().text, "That is not what I need.");
    for (ending, why) in [
        ("{ cause = \"completed\" }", "completed"),
        ("{ cause = \"tired\" }", "tired"),
    ] {
        let error = Script::parse(&format!("[[reply]]\nending = {ending}"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
}

// A call that failed before its first word is retried, and no text is repeated.
#[tokio::test]
async fn an_overloaded_model_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = "[[reply]]\nerror = { status = 503 }\n[[reply]]\nerror = { status = 429 }\n[[reply]]\ntext = \"there\"";
    let agent = ApiAgent::playing(Script::parse(script).unwrap());
    let mut spec = asking(dir.path());
    spec.set("retries", ["2"]).unwrap();
    let seen = finish(agent.start(&host(&[]), spec).unwrap()).await;
    assert_eq!(
        (seen.outcome().cause, seen.replies().concat().as_str()),
        (Cause::Completed, "there")
    );
    let retry = |kind: &&EventKind| {
        matches!(
            kind,
            EventKind::Notice(n) if n.code.as_str() == "retrying" && n.level == Level::Warning
        )
    };
    assert_eq!(seen.kinds().filter(retry).count(), 2);
}

// P37
#[tokio::test]
async fn a_hanging_model_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let agent =
        ApiAgent::playing(Script::parse("[[reply]]\ntext = \"half\"\nhang = true").unwrap());
    let mut session = agent.start(&host(&[]), asking(dir.path())).unwrap();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    session.remote().interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Interrupted, "half")
    );
    assert_eq!(
        seen.outcome().detail.as_ref().and_then(|d| d.acknowledged),
        Some(true)
    );
}

struct Slow;

impl Tool for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn description(&self) -> &str {
        "never ends"
    }
    fn schema(&self) -> String {
        "{\"type\":\"object\"}".into()
    }
    fn call<'a>(&'a self, _: &'a str) -> ToolFuture<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn custom_tool_runs_and_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let script = "[[reply]]\ncalls = [{ tool = \"list_files\" }, { tool = \"slow\" }]";
    let agent = ApiAgent::playing(Script::parse(script).unwrap()).tool(Slow);
    let mut session = agent.start(&host(&[]), asking(dir.path())).unwrap();
    let read = read_until(&mut session, |kind| {
        matches!(kind, EventKind::ToolResult(_))
    })
    .await;
    session.remote().interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(seen.outcome().cause, Cause::Interrupted);
    let results: Vec<bool> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::ToolResult(result) = kind {
                Some(result.ok)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(results, [true, false], "each call has its result");
}

#[tokio::test]
async fn tools_can_be_limited_and_a_wrong_name_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let agent = ApiAgent::playing(Script::parse("[[reply]]\ntext = \"x\"").unwrap());
    let started = |spec: Spec| async {
        let seen = finish(agent.start(&host(&[]), spec).unwrap()).await;
        seen.kinds()
            .find_map(|kind| {
                if let EventKind::Started(started) = kind {
                    Some(started.tools.clone())
                } else {
                    None
                }
            })
            .unwrap()
    };
    let mut spec = asking(dir.path());
    spec.tools = Some(vec!["read_file".into(), "list_files".into()]);
    spec.disallowed_tools = vec!["list_files".into()];
    assert_eq!(started(spec).await, ["read_file"]);
    let mut none = asking(dir.path());
    none.tools = Some(Vec::new());
    assert_eq!(started(none).await, [""; 0]);
    let mut wrong = asking(dir.path());
    wrong.tools = Some(vec!["Bash".into()]);
    let error = agent.start(&host(&[]), wrong).unwrap_err();
    assert!(error.why.contains("read_file"), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_a_named_ending() {
    let seen = play("[[reply]]\ntext = \"x\"", Path::new("/nowhere/at/all")).await;
    assert_eq!(seen.outcome().cause, Cause::BadRequest);
    assert_eq!(
        seen.outcome().detail.as_ref().and_then(|d| d.spawn.clone()),
        Some(SpawnFailure::BadDirectory)
    );
}
