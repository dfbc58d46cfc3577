//! The agent loop around a model that replies from a list: stop conditions, checks, hooks, people.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::adapter::{
    Message, ModelAdapter, ModelError, Reply, ReplyFuture, Stop, ToolRequest, Update, Updates,
};
use ostler::agent_loop::{
    ApprovalError, CommandCheck, Condition, Ending, Loop, LoopResult, Mode, Waiting,
};
use ostler::event::{Notice, RawJson};
use ostler::hooks::{Flow, FlowFuture, Middleware};
use ostler::permission::{self, PermissionAnswer, Trust};
use ostler::spec::ToolOffer;
use ostler::{Agent, Cause, EventKind, Host, Outcome, Spec, Usage, tool};
use ostler_core::usage::Tokens;
use serde::Deserialize;

use crate::driver::runtime;

/// A model that replies from a list and records its prompts.
#[derive(Clone, Default)]
struct Model {
    replies: Arc<Mutex<VecDeque<Result<Reply, ModelError>>>>,
    asked: Arc<Mutex<Vec<Vec<Message>>>>,
}

impl Model {
    fn new(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Self {
        Self {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            ..Self::default()
        }
    }

    fn asked(&self) -> Vec<Vec<Message>> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the texts of the last prompt.
    fn last(&self) -> Vec<String> {
        self.asked()
            .last()
            .unwrap()
            .iter()
            .map(|message| message.content().as_text().into_owned())
            .collect()
    }
}

impl ModelAdapter for Model {
    fn name(&self) -> &str {
        "listed"
    }

    fn invoke_with_updates<'a>(&'a self, messages: &'a [Message], _: Updates) -> ReplyFuture<'a> {
        self.asked.lock().unwrap().push(messages.to_vec());
        let next = self.replies.lock().unwrap().pop_front();
        Box::pin(
            async move { next.unwrap_or_else(|| panic!("nothing was to be asked: {messages:?}")) },
        )
    }

    fn bind_tools(&self, _: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
        Arc::new(self.clone())
    }
}

fn said(text: &str) -> Result<Reply, ModelError> {
    Ok(Reply {
        content: text.into(),
        tool_calls: Vec::new(),
        usage: Vec::new(),
        stop: Stop::End,
    })
}

fn calling(calls: &[(&str, &str)]) -> Result<Reply, ModelError> {
    let call = |(n, (name, args)): (usize, &(&str, &str))| ToolRequest {
        id: format!("c{n}"),
        name: (*name).into(),
        args: RawJson::parse(args).unwrap(),
    };
    let tool_calls = calls.iter().enumerate().map(call).collect();
    Ok(Reply {
        content: String::new(),
        tool_calls,
        usage: Vec::new(),
        stop: Stop::ToolCalls,
    })
}

/// Returns the same reply with this usage.
fn using(
    reply: Result<Reply, ModelError>,
    input: u64,
    output: u64,
    cost: Option<f64>,
) -> Result<Reply, ModelError> {
    let usage = Usage::for_turn(
        Some("m".into()),
        Tokens {
            input,
            output,
            ..Tokens::default()
        },
    );
    Ok(Reply {
        usage: vec![cost.map_or(usage.clone(), |cost| usage.reported(cost))],
        ..reply.unwrap()
    })
}

fn broken(cause: Cause) -> Result<Reply, ModelError> {
    Err(ModelError::new(Outcome::new(cause, "it broke")))
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

const ADD: (&str, &str) = ("add", r#"{"a":1,"b":2}"#);

/// Builds a loop with a tool that adds, and returns the counter of its calls.
fn looping(model: &Model) -> (Loop, Arc<AtomicU32>) {
    let used = Arc::new(AtomicU32::new(0));
    let counter = used.clone();
    let add = tool("add", "Adds two numbers.", move |Add { a, b }| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok((a + b).to_string()) }
    });
    (Loop::new(model.clone()).bare().tool(add), used)
}

fn run(agent: &Loop) -> LoopResult {
    runtime()
        .block_on(agent.run(&Host::default(), "the task"))
        .unwrap()
}

/// A function that configures a loop.
type Set = fn(Loop) -> Loop;

/// The result of a call to a model.
type ModelResult = fn() -> Result<Reply, ModelError>;

fn stopped(result: &LoopResult) -> Condition {
    match result.ending {
        Ending::Stopped(condition) => condition,
        ref other => panic!("{other:?}: {:?}", result.outcome),
    }
}

fn waiting(result: LoopResult) -> Waiting {
    match result.ending {
        Ending::NeedsInput(waiting) => *waiting,
        other => panic!("{other:?}: {:?}", result.outcome),
    }
}

#[test]
fn tools_are_run_until_the_task_is_done() {
    let model = Model::new([calling(&[ADD]), said("It is 3.")]);
    let (agent, used) = looping(&model);
    let result = run(&agent.instructions("Count."));
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!(
        (
            &*result.text,
            result.iterations,
            used.load(Ordering::SeqCst)
        ),
        ("It is 3.", 2, 1)
    );
    let wanted = [
        Message::system("Count."),
        Message::user("the task"),
        Message::Assistant {
            content: "".into(),
            tool_calls: vec![ToolRequest {
                id: "c0".into(),
                name: "add".into(),
                args: RawJson::parse(ADD.1).unwrap(),
            }],
        },
        Message::tool("c0", "3"),
    ];
    assert_eq!(model.asked()[1], wanted);
    assert_eq!(
        result.thread[..],
        [&wanted[1..], &[Message::assistant("It is 3.")]].concat()[..]
    );
}

#[test]
fn each_condition_stops_the_loop() {
    let forever = || (0..9).map(|_| using(calling(&[ADD]), 100, 10, Some(0.25)));
    let agents: [(Condition, Cause, usize, Set); 6] = [
        (Condition::Iterations, Cause::TurnLimit, 3, |a| {
            a.max_iterations(3)
        }),
        (Condition::ToolCalls, Cause::TurnLimit, 3, |a| {
            a.max_tool_calls(2)
        }),
        (Condition::InputTokens, Cause::Budget, 2, |a| {
            a.max_input_tokens(200)
        }),
        (Condition::OutputTokens, Cause::Budget, 4, |a| {
            a.max_output_tokens(35)
        }),
        (Condition::Budget, Cause::Budget, 2, |a| a.max_cost_usd(0.4)),
        (Condition::Time, Cause::WallLimit, 1, |a| {
            let slow = tool("add", "Sleeps.", |_: Add| async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok(String::new())
            });
            a.tool(slow).max_time(Duration::from_millis(300))
        }),
    ];
    for (condition, cause, asked, set) in agents {
        let model = Model::new(forever());
        let result = run(&set(looping(&model).0));
        assert_eq!(
            (stopped(&result), result.outcome.cause),
            (condition, cause),
            "{:?}",
            result.outcome
        );
        assert_eq!(model.asked().len(), asked, "{condition:?}");
    }
}

/// A limit that cannot be enforced ends the loop instead of being ignored.
#[test]
fn unenforceable_limit_ends_the_loop() {
    let table: [(Condition, Set, ModelResult); 3] = [
        (
            Condition::Budget,
            |a| a.max_cost_usd(5.0),
            || using(calling(&[ADD]), 1, 1, None),
        ),
        (
            Condition::Budget,
            |a| a.max_cost_usd(5.0),
            || calling(&[ADD]),
        ),
        (
            Condition::InputTokens,
            |a| a.max_input_tokens(5000),
            || calling(&[ADD]),
        ),
    ];
    for (condition, set, reply) in table {
        let model = Model::new([reply()]);
        let result = run(&set(looping(&model).0));
        assert_eq!(stopped(&result), condition);
        assert!(
            result.outcome.message.contains("cannot be enforced"),
            "{:?}",
            result.outcome
        );
        assert_eq!(result.usage.and_then(|usage| usage.cost_usd), None);
    }
}

#[test]
fn costs_are_added_up() {
    let model = Model::new([
        using(calling(&[ADD]), 100, 10, Some(0.25)),
        using(said("3"), 50, 5, Some(0.5)),
    ]);
    let usage = run(&looping(&model).0.max_cost_usd(5.0)).usage.unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.cost_usd),
        (Some(150), Some(15), Some(0.75))
    );
}

#[test]
fn the_result_is_checked_and_the_reason_goes_back() {
    let model = Model::new([said("two"), said("three"), said("four")]);
    let agent = looping(&model).0.verify(|answer: String| async move {
        if answer == "four" {
            Ok(())
        } else {
            Err(format!("{answer} is too little").into())
        }
    });
    let result = run(&agent);
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!((&*result.text, result.iterations), ("four", 3));
    let sent = model.last();
    assert!(
        sent[2].contains("two is too little") || sent[3].contains("two is too little"),
        "{sent:?}"
    );
    assert!(
        sent.last().unwrap().contains("three is too little"),
        "{sent:?}"
    );
    // The thread, which is built from the events alone, contains what the model was sent.
    assert_eq!(result.thread.len(), 6, "{:?}", result.thread);
    // A check that never passes ends at the limit, with the last reply.
    let model = Model::new((0..3).map(|_| said("two")));
    let agent = looping(&model)
        .0
        .max_iterations(3)
        .verify(|_: String| async { Err("no".into()) });
    let result = run(&agent);
    assert_eq!(
        (stopped(&result), &*result.text),
        (Condition::Iterations, "two")
    );
    // A check that fails to run is not an approval.
    let model = Model::new((0..2).map(|_| said("two")));
    let agent = looping(&model)
        .0
        .max_iterations(2)
        .verify(|_: String| async { panic!("on purpose") });
    assert_eq!(stopped(&run(&agent)), Condition::Iterations);
}

#[test]
fn three_errors_in_a_row_are_too_many() {
    // Two in a row are not too many, and a success in between resets the count.
    let died = || broken(Cause::AgentDied);
    let model = Model::new([
        died(),
        died(),
        calling(&[ADD]),
        died(),
        died(),
        said("done"),
    ]);
    let result = run(&looping(&model).0);
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    let model = Model::new([died(), died(), broken(Cause::Protocol)]);
    let result = run(&looping(&model).0);
    assert!(
        matches!(result.ending, Ending::Failed),
        "{:?}",
        result.outcome
    );
    assert_eq!(
        (result.outcome.cause, result.outcome.message.as_str()),
        (Cause::Protocol, "it broke")
    );
    // Errors that a retry cannot fix are not retried.
    let model = Model::new([broken(Cause::Auth)]);
    assert_eq!(run(&looping(&model).0).outcome.cause, Cause::Auth);
    // Failing tools count as errors too.
    let model = Model::new((0..3).map(|_| calling(&[("nothing", "{}")])));
    let result = run(&looping(&model).0);
    assert_eq!(stopped(&result), Condition::Errors);
}

#[test]
fn tools_that_only_read_run_at_once_and_none_runs_for_ever() {
    struct Meet(Arc<tokio::sync::Barrier>);
    impl ostler::Tool for Meet {
        fn name(&self) -> &str {
            "meet"
        }
        fn description(&self) -> &str {
            "Returns when two of its kind are there."
        }
        fn schema(&self) -> String {
            r#"{"type":"object"}"#.into()
        }
        fn only_reads(&self) -> bool {
            true
        }
        fn call<'a>(&'a self, _: &'a str) -> ostler::tools::ToolFuture<'a> {
            Box::pin(async {
                self.0.wait().await;
                Ok("met".into())
            })
        }
    }
    let model = Model::new([
        calling(&[("meet", "{}"), ("meet", "{}")]),
        calling(&[("meet", "{}")]),
        said("done"),
    ]);
    let meet = Meet(Arc::new(tokio::sync::Barrier::new(2)));
    let result = run(&looping(&model)
        .0
        .tool(meet)
        .tool_timeout(Duration::from_millis(500)));
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    let sent = model.last();
    assert_eq!(
        sent.iter().filter(|text| *text == "met").count(),
        2,
        "{sent:?}"
    );
    assert!(sent.last().unwrap().starts_with("timeout:"), "{sent:?}");
}

/// Adds a message before the second iteration and stops before the third.
struct Hook(Arc<Mutex<Vec<String>>>);

impl Middleware for Hook {
    fn before(&self, iteration: u64) -> FlowFuture<'_> {
        self.0.lock().unwrap().push(format!("before {iteration}"));
        Box::pin(async move {
            match iteration {
                2 => Flow::Say("hurry".into()),
                3 => Flow::Stop("that was enough".into()),
                _ => Flow::Go,
            }
        })
    }

    fn after(&self, iteration: u64) -> FlowFuture<'_> {
        self.0.lock().unwrap().push(format!("after {iteration}"));
        Box::pin(async { Flow::Go })
    }
}

#[test]
fn hooks_run_around_each_iteration() {
    let heard = Arc::default();
    let model = Model::new([calling(&[ADD]), calling(&[ADD])]);
    let result = run(&looping(&model).0.middleware(Hook(Arc::clone(&heard))));
    assert_eq!(
        (stopped(&result), result.outcome.message.as_str()),
        (Condition::Hook, "that was enough")
    );
    assert_eq!(
        *heard.lock().unwrap(),
        ["before 1", "after 1", "before 2", "after 2", "before 3"]
    );
    assert_eq!(model.last().last().unwrap(), "hurry");
}

#[test]
fn a_person_is_asked_like_a_tool() {
    let question = ("ask_person", r#"{"question":"Which one?"}"#);
    let model = Model::new([calling(&[question]), said("So be it.")]);
    let agent = looping(&model)
        .0
        .person(|question: String| async move { Some(format!("{question} The red one.")) });
    let result = run(&agent);
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!(model.last().last().unwrap(), "Which one? The red one.");
    // Unattended, the run ends with the question and resumes with the answer.
    let model = Model::new([calling(&[question]), said("So be it.")]);
    runtime().block_on(async {
        let agent = looping(&model).0.may_ask();
        let result = agent.run(&Host::default(), "the task").await.unwrap();
        assert_eq!(result.outcome.cause, Cause::NeedsInput);
        let waiting = waiting(result);
        assert_eq!(
            (waiting.question.as_str(), !waiting.calls.is_empty()),
            ("Which one?", false)
        );
        let result = waiting.answer("The blue one.").await.unwrap();
        assert!(
            matches!(result.ending, Ending::Completed),
            "{:?}",
            result.outcome
        );
        assert_eq!(
            (result.iterations, model.last().last().unwrap().as_str()),
            (2, "The blue one.")
        );
    });
}

#[test]
fn an_approved_call_really_runs_once() {
    for approve in [true, false] {
        let model = Model::new([calling(&[ADD]), said("done")]);
        let (agent, used) = looping(&model);
        let agent = agent.mode(Mode::Approve);
        runtime().block_on(async {
            let result = agent.run(&Host::default(), "the task").await.unwrap();
            assert_eq!(used.load(Ordering::SeqCst), 0);
            let waiting = waiting(result);
            assert!(
                waiting.calls[0].name == "add" && waiting.question.contains("add"),
                "{waiting:?}"
            );
            let result = match approve {
                true => waiting.approve().await.unwrap(),
                false => waiting.refuse("Use your head.").await.unwrap(),
            };
            assert!(
                matches!(result.ending, Ending::Completed),
                "{:?}",
                result.outcome
            );
        });
        assert_eq!(used.load(Ordering::SeqCst), u32::from(approve));
        let sent = model.last();
        assert_eq!(sent.iter().any(|text| text == "3"), approve, "{sent:?}");
        assert_eq!(
            sent.iter().any(|text| text.contains("Use your head.")),
            !approve,
            "{sent:?}"
        );
    }
}

#[test]
fn attended_loop_asks_for_approval() {
    for (answer, uses) in [
        (PermissionAnswer::Allow, 1),
        (PermissionAnswer::Deny("no".into()), 0),
    ] {
        let model = Model::new([calling(&[ADD]), said("done")]);
        let (agent, used) = looping(&model);
        let host = Host::default().with_permission_handler(move |_| {
            let answer = answer.clone();
            async move { answer }
        });
        let result = runtime()
            .block_on(agent.mode(Mode::Approve).run(&host, "the task"))
            .unwrap();
        assert!(
            matches!(result.ending, Ending::Completed),
            "{:?}",
            result.outcome
        );
        assert_eq!(used.load(Ordering::SeqCst), uses);
    }
}

#[test]
fn rule_decides_before_approval_is_requested() {
    let policy = permission::Policy::parse(
        "[[rule]]\ntool = \"add\"\ndo = \"allow\"\n",
        "test",
        Trust::Full,
    )
    .unwrap();
    let model = Model::new([calling(&[ADD]), said("done")]);
    let (agent, used) = looping(&model);
    let spec = Spec::new("the task").policy(policy);
    let result = runtime()
        .block_on(agent.mode(Mode::Approve).run_with(&Host::default(), spec))
        .unwrap();
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!(used.load(Ordering::SeqCst), 1);
}

#[test]
fn a_plan_changes_nothing() {
    let model = Model::new([calling(&[ADD]), said("I would add.")]);
    let (agent, used) = looping(&model);
    let result = run(&agent.mode(Mode::Plan));
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!(used.load(Ordering::SeqCst), 0);
    assert!(
        model.last().last().unwrap().contains("plan mode"),
        "{:?}",
        model.last()
    );
}

#[test]
fn long_history_is_summarised() {
    // The model's own text cannot be shortened; only a summary helps.
    let long = "word ".repeat(4000);
    let step = |n: u64| {
        let reply = Reply {
            content: format!("{n} {long}"),
            ..calling(&[ADD]).unwrap()
        };
        using(Ok(reply), 5000 * n, 5000, None)
    };
    let replies = [
        step(1),
        step(2),
        using(said("SUMMARY"), 100, 10, None),
        using(said("done"), 100, 10, None),
    ];
    let model = Model::new(replies);
    let result = run(&looping(&model).0.context_window(20_000));
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?} {:?}",
        result.outcome,
        model.asked().len()
    );
    assert_eq!(
        (&*result.text, model.asked().len(), result.iterations),
        ("done", 4, 3)
    );
    let last = model.last();
    assert!(last.iter().any(|text| text.contains("SUMMARY")), "{last:?}");
    assert!(
        !last.iter().any(|text| text.starts_with("1 word")),
        "what is old is gone"
    );
}

// Every step is an event of the usual kinds.
#[test]
fn a_loop_is_a_session_like_any_other() {
    let model =
        Model::new([calling(&[ADD]), said("3"), said("4")].map(|reply| using(reply, 1, 1, None)));
    let agent = looping(&model)
        .0
        .verify(|answer: String| async move { (answer == "4").then_some(()).ok_or("no".into()) });
    let events = runtime().block_on(async {
        let mut session = agent.start(&Host::default(), Spec::new("go")).unwrap();
        let mut events = Vec::new();
        while let Some(event) = session.next().await {
            events.push(event.kind);
        }
        events
    });
    let word = |kind: &EventKind| match kind {
        EventKind::Notice(Notice { code, .. }) => code.to_string(),
        other => other.as_str().to_owned(),
    };
    let story: Vec<String> = events
        .iter()
        .map(word)
        .filter(|word| word != "state")
        .collect();
    let wanted = [
        "turn_started",
        "started",
        "iteration",
        "tool_call",
        "tool_result",
        "usage",
        "iteration",
        "text",
        "verifying",
        "not_verified",
        "usage",
        "iteration",
        "text",
        "verifying",
        "verified",
        "usage", // of the turn
        "usage", // of the session
        "turn_ended",
        "ended",
    ];
    assert_eq!(story, wanted);
    assert!(matches!(
        &events[..],
        [.., EventKind::Ended(ended)] if ended.outcome.cause == Cause::Completed
    ));
}

#[test]
fn an_interrupt_ends_a_check() {
    let model = Model::new([said("two")]);
    let agent = looping(&model).0.verify(|_: String| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    });
    let cause = runtime().block_on(async {
        let mut session = agent.start(&Host::default(), Spec::new("go")).unwrap();
        loop {
            match session.next().await.expect("an ending").kind {
                EventKind::Text(_) => drop(session.interrupt()),
                EventKind::TurnEnded(turn) => break turn.outcome.cause,
                _ => {}
            }
        }
    });
    assert_eq!(cause, Cause::Interrupted);
}

#[test]
fn partly_streamed_reply_is_completed() {
    // The model streams only the beginning of its reply; the result is the whole reply.
    struct Telling(Model);
    impl ModelAdapter for Telling {
        fn name(&self) -> &str {
            "telling"
        }
        fn invoke_with_updates<'a>(
            &'a self,
            messages: &'a [Message],
            updates: Updates,
        ) -> ReplyFuture<'a> {
            updates.send(&Update::Thinking("hm".into()));
            updates.send(&Update::Text("Hel".into()));
            self.0.invoke_with_updates(messages, updates)
        }
        fn bind_tools(&self, _: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
            Arc::new(Self(self.0.clone()))
        }
    }
    let result = run(&Loop::new(Telling(Model::new([said("Hello.")]))).bare());
    assert_eq!(result.text, "Hello.");
}

#[test]
fn a_command_checks_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("done");
    let write = tool(
        "write",
        "Writes the file.",
        move |_: serde_json::Map<String, serde_json::Value>| {
            std::fs::write(&file, "x").unwrap();
            async { Ok("written".into()) }
        },
    );
    let host = |more: &[(&str, &str)]| {
        let path = std::env::var_os("PATH").unwrap();
        Host::new(
            more.iter()
                .map(|(k, v)| (k.into(), v.into()))
                .chain([("PATH".into(), path)]),
        )
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    // The check gets the environment without the key, and its output goes back to the model.
    let script = r#"echo "found $OTHER$THE_API_KEY" >&2; test -f done"#;
    let host = host(&[("THE_API_KEY", "secret"), ("OTHER", "something")]);
    let check = CommandCheck::new(&host, words(&["sh", "-c", script]), dir.path().to_owned());
    check.check_program().unwrap();
    let model = Model::new([
        said("done"),
        calling(&[("write", "{}")]),
        said("really done"),
    ]);
    let agent = Loop::new(model.clone()).bare().tool(write).verify(check);
    let result = runtime().block_on(agent.run(&host, "the task")).unwrap();
    assert!(
        matches!(result.ending, Ending::Completed),
        "{:?}",
        result.outcome
    );
    assert_eq!((&*result.text, result.iterations), ("really done", 3));
    let sent = model.asked()[1]
        .last()
        .unwrap()
        .content()
        .as_text()
        .into_owned();
    assert!(
        sent.contains("exit code 1") && sent.contains("found something\n"),
        "{sent}"
    );
    // A missing program is detected up front, and one that takes too long is ended.
    let missing = CommandCheck::new(&host, words(&["no-such-program"]), dir.path().to_owned());
    assert!(
        missing
            .check_program()
            .unwrap_err()
            .to_string()
            .contains("no-such-program")
    );
    let slow = CommandCheck::new(&host, words(&["sleep", "60"]), dir.path().to_owned())
        .limit(Duration::from_millis(200));
    let why = runtime()
        .block_on(async { ostler::hooks::Verify::verify(&slow, "").await })
        .unwrap_err();
    assert!(why.0.contains("took longer"), "{why}");
}

/// A message sent during the check is answered before the turn ends.
#[test]
fn a_message_during_the_check_is_answered() {
    let model = Model::new([said("two"), said("two and a half")]);
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (go, wait) = tokio::sync::watch::channel(false);
    let agent = looping(&model).0.verify(move |_: String| {
        begun.send(()).unwrap();
        let mut wait = wait.clone();
        async move {
            wait.wait_for(|go| *go)
                .await
                .map(|_| ())
                .map_err(|error| error.to_string().into())
        }
    });
    let text = runtime().block_on(async {
        let spec = Spec::new("go");
        let mut session = agent.start(&Host::default(), spec).unwrap();
        begins.recv().await.unwrap();
        session
            .remote()
            .send_when("and a half", ostler::session::WhenBusy::Steer)
            .unwrap();
        while !matches!(
            session.next().await.unwrap().kind,
            EventKind::Notice(Notice { code, .. }) if code.as_str() == "steered"
        ) {}
        go.send(true).unwrap();
        session.wait().await.text().to_owned()
    });
    assert_eq!(text, "two and a half");
    assert_eq!(model.last().last().unwrap(), "and a half");
}

/// Within one step, calls allowed by a rule run; all others wait, and each is approved by its id.
#[test]
fn only_what_needs_approval_waits() {
    let policy = permission::Policy::parse(
        "[[rule]]\ntool = \"add\"\ndo = \"allow\"\n",
        "test",
        Trust::Full,
    )
    .unwrap();
    let model = Model::new([
        calling(&[ADD, ("sub", ADD.1), ("sub", ADD.1)]),
        said("done"),
    ]);
    let (agent, added) = looping(&model);
    let subtracted = Arc::new(AtomicU32::new(0));
    let counter = subtracted.clone();
    let sub = tool("sub", "Subtracts.", move |Add { a, b }| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok((a - b).to_string()) }
    });
    let agent = agent.tool(sub).mode(Mode::Approve);
    let spec = Spec::new("the task").policy(policy);
    let uses = || {
        (
            added.load(Ordering::SeqCst),
            subtracted.load(Ordering::SeqCst),
        )
    };
    runtime().block_on(async {
        let result = agent.run_with(&Host::default(), spec).await.unwrap();
        assert_eq!(uses(), (1, 0));
        let waiting = waiting(result);
        let second = waiting.calls[1].id.clone();
        let result = waiting.approve_calls(vec![second]).await.unwrap();
        assert!(
            matches!(result.ending, Ending::Completed),
            "{:?}",
            result.outcome
        );
        assert_eq!(uses(), (1, 1));
    });
}

// Issue 17, item 1.
#[test]
fn text_and_unknown_ids_approve_nothing() {
    let start = || {
        let model = Model::new([calling(&[ADD]), said("fine")]);
        let (agent, added) = looping(&model);
        (agent.mode(Mode::Approve), added)
    };
    for text in ["approve", "yes", "Yes!", "y", "yes, but with three"] {
        let (agent, added) = start();
        runtime().block_on(async {
            let result = agent.run(&Host::default(), "the task").await.unwrap();
            waiting(result).answer(text).await.unwrap();
        });
        assert_eq!(added.load(Ordering::SeqCst), 0, "{text}");
    }
    for ids in [vec![], vec!["another".to_owned()]] {
        let (agent, added) = start();
        runtime().block_on(async {
            let result = agent.run(&Host::default(), "the task").await.unwrap();
            let error = waiting(result)
                .approve_calls(ids.clone())
                .await
                .unwrap_err();
            let is_expected = match ids.first() {
                None => matches!(error, ApprovalError::NoCalls),
                Some(given) => matches!(&error, ApprovalError::NotWaiting(id) if id == given),
            };
            assert!(is_expected, "{error:?}");
        });
        assert_eq!(added.load(Ordering::SeqCst), 0, "{ids:?}");
    }
}

/// Usage of a failed answer counts. If it is unknown, the sum is partial, and with a budget the
/// loop ends.
#[test]
fn usage_of_failed_answers_counts() {
    let failed = |usage: Vec<Usage>| {
        Err(ModelError {
            usage,
            ..broken(Cause::AgentDied).unwrap_err()
        })
    };
    let usage = using(said(""), 10, 1, Some(0.5)).unwrap().usage;
    let model = Model::new([failed(usage), using(said("done"), 20, 2, Some(0.25))]);
    let sum = run(&looping(&model).0).usage.unwrap();
    assert_eq!(
        (sum.input, sum.output, sum.cost_usd),
        (Some(30), Some(3), Some(0.75))
    );
    let model = Model::new([failed(Vec::new()), using(said("done"), 20, 2, Some(0.25))]);
    let sum = run(&looping(&model).0).usage.unwrap();
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.25), ostler::event::CostSource::Partial)
    );
    let model = Model::new([failed(Vec::new())]);
    assert_eq!(
        stopped_by(&run(&looping(&model).0.max_cost_usd(1.0))),
        Cause::AgentDied
    );
    // An estimate remains an estimate.
    let estimated = |reply: Result<Reply, ModelError>| {
        let usage = Usage::for_turn(
            Some("m".into()),
            Tokens {
                input: 1,
                output: 1,
                ..Tokens::default()
            },
        )
        .estimated(0.3);
        Ok(Reply {
            usage: vec![usage],
            ..reply.unwrap()
        })
    };
    let model = Model::new([estimated(calling(&[ADD])), estimated(calling(&[ADD]))]);
    let result = run(&looping(&model).0.max_cost_usd(0.5));
    assert_eq!(
        (stopped(&result), model.asked().len()),
        (Condition::Budget, 2)
    );
    assert_eq!(
        result.usage.unwrap().cost_source,
        ostler::event::CostSource::Estimated
    );
}

fn stopped_by(result: &LoopResult) -> Cause {
    result.outcome.cause
}

/// A model that reports the usage of all its answers at the end.
#[test]
fn usage_reported_at_the_end_is_unknown_until_then() {
    #[derive(Clone)]
    struct AtTheEnd(Model);
    impl ModelAdapter for AtTheEnd {
        fn name(&self) -> &str {
            "at-the-end"
        }
        fn invoke_with_updates<'a>(
            &'a self,
            messages: &'a [Message],
            updates: Updates,
        ) -> ReplyFuture<'a> {
            self.0.invoke_with_updates(messages, updates)
        }
        fn bind_tools(&self, _: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
            Arc::new(self.clone())
        }
        fn reports_usage_late(&self) -> bool {
            true
        }
    }
    let agent = |replies: Vec<_>| {
        let model = Model::new(replies);
        let add = tool("add", "Adds.", |Add { a, b }| async move {
            Ok((a + b).to_string())
        });
        Loop::new(AtTheEnd(model)).bare().tool(add)
    };
    let done = || using(said("done"), 20, 2, Some(0.25));
    let usage = run(&agent(vec![calling(&[ADD]), done()])).usage.unwrap();
    assert_eq!((usage.input, usage.cost_usd), (Some(20), Some(0.25)));
    let cut_short = run(&agent(vec![calling(&[ADD]), calling(&[ADD])]).max_iterations(2));
    assert_eq!(cut_short.usage.and_then(|usage| usage.cost_usd), None);
}

/// A breach of contract is not retried.
#[test]
fn breach_of_contract_is_not_retried() {
    let outcome =
        Outcome::new(Cause::Protocol, "it used Bash").because(ostler::outcome::Reason::OwnTool);
    let model = Model::new([Err(ModelError::new(outcome))]);
    let result = run(&looping(&model).0);
    assert!(
        matches!(result.ending, Ending::Failed),
        "{:?}",
        result.outcome
    );
    assert_eq!(model.asked().len(), 1);
}
