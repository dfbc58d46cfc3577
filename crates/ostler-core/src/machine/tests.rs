//! Tests of the session machine: random sequences of inputs, and the important ones by name.

mod attacks;
mod background;
mod budget;
mod bypass;
mod live;
mod pairs;
mod properties;
mod queries;
mod heartbeat;
mod volume;

use std::time::Duration;

use super::*;
use crate::dialect::TurnResult;
use crate::event::{
    DecidedBy, Decision, NoticeCode, Permission, Started, Text, TextKind, ToolCall, ToolResult,
    Unreadable,
};
use crate::outcome::Cause;
use crate::permission::PermissionRequest;
use crate::raw_json::RawJson;
use crate::usage::{Tokens, Usage};

const S: Duration = Duration::from_secs(1);

/// A machine with its collected effects, and a clock that the test moves.
struct Rig {
    machine: Machine,
    now: Duration,
    effects: Vec<Effect>,
}

impl Rig {
    fn new(limits: Limits, after: AfterTurn) -> Self {
        Self {
            machine: Machine::new(limits, after),
            now: Duration::ZERO,
            effects: Vec::new(),
        }
    }

    /// Creates a one-message session whose agent has identified itself.
    fn working() -> Self {
        let mut rig = Self::new(Limits::default(), AfterTurn::End);
        for input in [
            Input::Send("hi".into()),
            Input::Start,
            Input::Spawned,
            event(started()),
        ] {
            rig.give(input);
        }
        rig
    }

    fn give(&mut self, input: Input) -> &mut Self {
        self.machine.handle(self.now, input, &mut self.effects);
        self
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.give(Input::Tick)
    }

    fn events(&self) -> Vec<&EventKind> {
        let emitted = self.effects.iter().filter_map(|e| {
            if let Effect::Emit { kind, .. } = e {
                Some(kind)
            } else {
                None
            }
        });
        emitted.collect()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.events().into_iter().map(EventKind::as_str).collect()
    }

    fn has_effect(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }

    fn turn_ended(&self) -> &crate::event::TurnEnded {
        let ended = |w: &&&EventKind| matches!(w, EventKind::TurnEnded(_));
        match self.events().iter().find(ended) {
            Some(EventKind::TurnEnded(t)) => t,
            _ => panic!("no turn ended: {:?}", self.kinds()),
        }
    }

    fn ended(&self) -> &crate::event::Ended {
        match self.events().last() {
            Some(EventKind::Ended(e)) => e,
            other => panic!("not ended: {other:?}"),
        }
    }
}

fn started() -> EventKind {
    Started {
        agent: "a".into(),
        agent_version: None,
        native_session: None,
        model: None,
        cwd: None,
        tools: vec![],
    }
    .into()
}

fn text(text: &str) -> EventKind {
    let message = Some("m".into());
    Text {
        kind: TextKind::Reply,
        text: text.into(),
        delta: true,
        message,
        parent: None,
    }
    .into()
}

fn call(id: &str) -> EventKind {
    ToolCall {
        id: id.into(),
        name: "Bash".into(),
        input: RawJson::null(),
        parent: None,
    }
    .into()
}

fn result(id: &str) -> EventKind {
    ToolResult {
        id: id.into(),
        name: None,
        ok: true,
        output: String::new(),
        denied: false,
        content: None,
    }
    .into()
}

fn used(model: &str, input: u64) -> EventKind {
    Usage::for_turn(
        Some(model.into()),
        Tokens {
            input,
            ..Tokens::default()
        },
    )
    .into()
}

fn over(cause: Cause) -> TurnResult {
    TurnResult::new(Outcome::new(cause, "x"))
}

fn exit(code: i32) -> Exit {
    Exit {
        code: Some(code),
        ..Exit::default()
    }
}

fn event(kind: EventKind) -> Input {
    FromConversation::Event(kind).into()
}

fn turn_started() -> Input {
    FromConversation::TurnStarted.into()
}

fn turn_ended(result: TurnResult) -> Input {
    FromConversation::TurnEnded(result).into()
}

fn background(running: usize) -> Input {
    FromConversation::Background(running).into()
}

fn requested(ask: PermissionRequest) -> Input {
    FromConversation::AskPermission(ask).into()
}

fn withdrawn(id: String) -> Input {
    FromConversation::WithdrawPermission(id).into()
}

fn changed(id: u64, error: Option<String>) -> Input {
    FromConversation::Changed { id, error }.into()
}

/// The request of tests that do not look at its completion.
const ANY: CallerRequest = CallerRequest(0);

fn interrupt() -> Input {
    Input::Interrupt(ANY)
}

fn change_to(change: Change) -> Input {
    Input::Change(ANY, change)
}

fn answered(id: String, answer: PermissionAnswer) -> Input {
    let request = None;
    Input::PermissionAnswered {
        id,
        answer,
        request,
    }
}

fn end_process() -> Input {
    FromConversation::EndProcess.into()
}

#[test]
fn a_run_emits_the_expected_events() {
    let mut rig = Rig::working();
    rig.give(event(text("hello")))
        .give(turn_ended(over(Cause::Completed)))
        .give(Input::Exited(exit(0), None));
    let words = [
        "state",
        "turn_started",
        "started",
        "state",
        "text",
        "turn_ended",
        "state",
        "state",
        "state",
        "ended",
    ];
    assert_eq!(rig.kinds(), words);
    assert!(
        rig.has_effect(&Effect::Do(Action::CloseInput))
            && !rig.has_effect(&Effect::Do(Action::Terminate))
    );
    assert_eq!(
        (rig.turn_ended().text.as_str(), rig.ended().exit_code),
        ("hello", Some(0))
    );
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
}

// S3-18: the states a session passes through.
#[test]
fn states_go_from_created_to_ended() {
    let mut rig = Rig::working();
    rig.give(turn_ended(over(Cause::Completed)))
        .give(Input::Exited(exit(0), None));
    let states: Vec<String> = rig
        .events()
        .iter()
        .filter_map(|w| {
            if let EventKind::State(s) = w {
                Some(format!("{:?}", s.to))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(states, ["Starting", "Working", "Idle", "Stopping", "Ended"]);
}

// S3-32, P14
#[test]
fn a_failed_start_ends_the_turn_and_the_session() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::End);
    rig.give(Input::Send("hi".into())).give(Input::Start);
    rig.give(Input::SpawnFailed(Outcome::new(
        Cause::Unavailable,
        "missing",
    )));
    assert_eq!(
        rig.kinds(),
        ["state", "turn_started", "turn_ended", "state", "ended"]
    );
    assert_eq!(rig.ended().outcome.cause, Cause::Unavailable);
}

// S2-20, P8: the death of the process ends the turn and the session in the same step, without a
// timer.
#[test]
fn the_outcome_of_a_dead_agent_has_its_stderr() {
    let mut rig = Rig::working();
    rig.give(event(text("par"))).give(event(call("1")));
    rig.give(Input::Exited(
        Exit {
            code: None,
            signal: Some(9),
            stderr: "boom".into(),
        },
        None,
    ));
    assert_eq!(
        (rig.machine.state(), rig.machine.deadline()),
        (SessionState::Ended, None)
    );
    let ended = rig.turn_ended();
    assert_eq!(
        (ended.outcome.cause, ended.text.as_str()),
        (Cause::AgentDied, "par")
    );
    let detail = ended.outcome.detail.as_deref().unwrap();
    assert_eq!(
        (detail.signal, detail.stderr.as_deref()),
        (Some(9), Some("boom"))
    );
}

// S1-20, S1-26: an agent that exits successfully without a result, only with output that is not in
// its protocol, sent an invalid response.
#[test]
fn unreadable_output_without_a_result_is_an_invalid_response() {
    let unreadable = |raw: &str| -> EventKind {
        Unreadable {
            raw: raw.into(),
            why: "not JSON".into(),
            length: raw.len() as u64,
            lossy: false,
        }
        .into()
    };
    let ends = |lines: &[&str], exit: Exit| {
        let mut rig = Rig::working();
        for line in lines {
            rig.give(event(unreadable(line)));
        }
        rig.give(Input::Exited(exit, None));
        rig.turn_ended().outcome.clone()
    };
    let outcome = ends(&["Usage: agent [options]", &"x".repeat(5000)], exit(0));
    assert_eq!(
        (outcome.cause, outcome.cause.seed_name()),
        (Cause::Protocol, Some("InvalidResponseError"))
    );
    assert!(
        outcome.message.contains("2 lines") && outcome.message.contains("Usage: agent [options]"),
        "{outcome:?}"
    );
    assert!(outcome.hint.is_some() && outcome.detail.unwrap().exit_code == Some(0));
    let outcome = ends(&[&"ü".repeat(5000)], exit(0));
    assert!(
        outcome.message.contains("1 line ") && outcome.message.len() < 1000,
        "{}",
        outcome.message.len()
    );
    // A process that failed or was killed died, whatever it printed. So did one that printed
    // nothing.
    assert_eq!(ends(&["oops"], exit(1)).cause, Cause::AgentDied);
    assert_eq!(
        ends(
            &["oops"],
            Exit {
                signal: Some(9),
                ..Exit::default()
            }
        )
        .cause,
        Cause::AgentDied
    );
    assert_eq!(ends(&[], exit(0)).cause, Cause::AgentDied);
    // An agent that made progress speaks its protocol; a warning between its lines does not change
    // that.
    let mut rig = Rig::working();
    rig.give(event(unreadable("a warning")))
        .give(event(text("half an answer")));
    rig.give(Input::Exited(exit(0), None));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::AgentDied);
    // With a result, an unreadable line is one event and nothing more.
    let mut rig = Rig::working();
    rig.give(event(unreadable("a banner")))
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
}

// P10, S2-12: the turn ends at once; a process that stays gets its grace period and is then ended.
#[test]
fn an_agent_that_stays_after_its_result_is_terminated() {
    let mut rig = Rig::working();
    rig.give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
    rig.wait(4 * S);
    assert!(!rig.has_effect(&Effect::Do(Action::Terminate)));
    rig.wait(S);
    assert!(
        rig.has_effect(&Effect::Do(Action::Terminate))
            && !rig.has_effect(&Effect::Do(Action::Kill))
    );
    rig.wait(5 * S);
    assert!(rig.has_effect(&Effect::Do(Action::Kill)));
    rig.give(Input::Exited(
        Exit {
            signal: Some(9),
            ..Exit::default()
        },
        None,
    ));
    assert_eq!(
        (rig.ended().outcome.cause, rig.ended().signal),
        (Cause::Completed, Some(9))
    );
}

// P42: an agent that has lost its session, and does not react to SIGTERM either.
#[test]
fn a_useless_process_is_killed_after_the_grace_period() {
    let mut rig = Rig::working();
    rig.give(end_process());
    assert!(
        rig.has_effect(&Effect::Do(Action::Terminate))
            && !rig.has_effect(&Effect::Do(Action::Kill))
    );
    rig.wait(5 * S);
    assert!(rig.has_effect(&Effect::Do(Action::Kill)));
    rig.give(Input::Exited(
        Exit {
            signal: Some(9),
            ..Exit::default()
        },
        Some(over(Cause::AgentDied)),
    ));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::AgentDied);
    assert_eq!(rig.ended().outcome.cause, Cause::AgentDied);
}

// A session that waits for its first message has no deadline, whatever its limits.
#[test]
fn no_limit_applies_before_the_first_message() {
    let limits = Limits::default().startup(S).idle(S).wall(S);
    let mut rig = Rig::new(limits, AfterTurn::Wait);
    rig.give(Input::Start);
    assert_eq!(rig.machine.deadline(), None);
    rig.wait(3600 * S);
    assert!(
        !rig.kinds()
            .iter()
            .any(|word| ["turn_ended", "ended"].contains(word)),
        "{:?}",
        rig.kinds()
    );
}

#[test]
fn an_unkillable_process_does_not_block_the_session() {
    let mut rig = Rig::working();
    rig.give(Input::Kill).wait(5 * S);
    assert!(rig.kinds().contains(&"notice"));
    assert_eq!(rig.ended().outcome.cause, Cause::Stopped);
    assert_eq!(rig.machine.deadline(), None);
}

// S4-8, P41: a long turn is not cut before its limit, and its text is preserved.
#[test]
fn the_wall_limit_interrupts_with_its_cause() {
    let mut rig = Rig::working();
    rig.machine.limits.idle = None;
    rig.give(event(text("partial"))).wait(59 * 60 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.wait(60 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(turn_ended(over(Cause::Interrupted)))
        .give(Input::Exited(exit(0), None));
    let ended = rig.turn_ended();
    assert_eq!(
        (ended.outcome.cause, ended.text.as_str()),
        (Cause::WallLimit, "partial")
    );
    assert_eq!(
        ended.outcome.detail.as_deref().unwrap().limit_ms,
        Some(3_600_000)
    );
}

// S4-37: the turn ends within five seconds of its limit, whether the agent acknowledges the
// interrupt, ignores it, or continues to print. The clock moves to each deadline of the machine, as
// a driver does.
#[test]
fn a_limit_ends_the_turn_within_five_seconds() {
    const LIMIT: Duration = Duration::from_secs(60 * 60);
    let limits: [fn(&mut Limits); 2] = [
        |limits| limits.wall = Some(LIMIT),
        |limits| limits.idle = Some(LIMIT),
    ];
    for (limit, acknowledges, talks) in [
        (limits[0], true, false),
        (limits[0], false, false),
        (limits[0], false, true),
        (limits[1], false, false),
    ] {
        let mut rig = Rig::working();
        (rig.machine.limits.wall, rig.machine.limits.idle) = (None, None);
        limit(&mut rig.machine.limits);
        let mut ended = None;
        while ended.is_none() {
            rig.now = rig
                .machine
                .deadline()
                .expect("a turn with a limit has a deadline");
            rig.give(Input::Tick);
            if acknowledges && rig.has_effect(&Effect::Send(ToAgent::Interrupt)) {
                rig.give(turn_ended(over(Cause::Interrupted)));
            }
            if talks {
                rig.give(event(text("and on ")));
            }
            ended = rig.kinds().contains(&"turn_ended").then_some(rig.now);
        }
        let late = ended.unwrap() - LIMIT;
        assert!(late <= 5 * S, "ended {late:?} after the limit");
        assert_eq!(
            late.is_zero(),
            acknowledges,
            "no further wait for an agent that acknowledges it"
        );
        assert!(matches!(
            rig.turn_ended().outcome.cause,
            Cause::WallLimit | Cause::IdleLimit
        ));
    }
}

// P61: a tool that reports its progress for ten minutes is not cut off, although nothing else is
// printed and the idle limit is far shorter.
#[test]
fn tool_progress_is_not_silence() {
    let mut rig = Rig::working();
    rig.machine.limits.idle = Some(30 * S);
    rig.give(event(call("1")));
    for minute in 1..=10 {
        rig.wait(60 * S).give(Input::Notice(Notice::new(
            Level::Info,
            NoticeCode::ToolProgress,
            format!("minute {minute}"),
        )));
        assert!(
            !rig.has_effect(&Effect::Send(ToAgent::Interrupt)),
            "cut off in minute {minute}"
        );
    }
    rig.give(event(result("1")))
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
    assert_eq!(
        rig.kinds().iter().filter(|word| **word == "notice").count(),
        10,
        "each report is an event"
    );
}

#[test]
fn an_agent_that_ignores_the_limit_is_terminated() {
    let mut rig = Rig::working();
    rig.wait(10 * 60 * S).wait(5 * S);
    assert_eq!(rig.turn_ended().outcome.cause, Cause::IdleLimit);
    assert!(rig.has_effect(&Effect::Do(Action::Terminate)));
}

// P40: a tool that is silent for ten minutes is not idle; a silent model is.
#[test]
fn silence_counts_only_while_the_model_is_expected_to_write() {
    let mut rig = Rig::working();
    rig.give(event(call("1"))).wait(30 * 60 * S);
    assert!(
        !rig.has_effect(&Effect::Send(ToAgent::Interrupt)),
        "a silent tool is not idle"
    );
    rig.give(event(result("1"))).wait(9 * 60 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.wait(60 * S);
    assert!(
        rig.has_effect(&Effect::Send(ToAgent::Interrupt)),
        "a silent model is"
    );
}

#[test]
fn silence_does_not_count_during_a_permission_request() {
    let ask = |decision| Permission {
        id: "p".into(),
        tool: "T".into(),
        kind: None,
        input: None,
        decision,
        by: DecidedBy::Default,
        message: None,
    };
    let mut rig = Rig::working();
    rig.give(event(ask(Decision::Asked).into()))
        .wait(30 * 60 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(event(ask(Decision::Denied).into()))
        .wait(10 * 60 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
}

#[test]
fn an_agent_without_output_hits_the_startup_limit() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::End);
    rig.give(Input::Send("hi".into()))
        .give(Input::Start)
        .give(Input::Spawned)
        .wait(60 * S);
    assert_eq!(rig.turn_ended().outcome.cause, Cause::StartupLimit);
    assert!(rig.has_effect(&Effect::Do(Action::Terminate)));
}

// P37
#[test]
fn an_interrupt_reports_whether_it_was_acknowledged() {
    let acknowledged = |rig: &Rig| {
        rig.turn_ended()
            .outcome
            .detail
            .as_deref()
            .unwrap()
            .acknowledged
    };
    let mut heard = Rig::working();
    heard
        .give(interrupt())
        .give(turn_ended(over(Cause::Interrupted)));
    assert_eq!(
        (heard.turn_ended().outcome.cause, acknowledged(&heard)),
        (Cause::Interrupted, Some(true))
    );
    let mut deaf = Rig::working();
    deaf.give(interrupt()).wait(5 * S);
    assert_eq!(
        (deaf.turn_ended().outcome.cause, acknowledged(&deaf)),
        (Cause::Interrupted, Some(false))
    );
    assert!(deaf.has_effect(&Effect::Do(Action::Terminate)));
}

#[test]
fn a_turn_that_finished_before_the_interrupt_is_completed() {
    let mut rig = Rig::working();
    rig.give(interrupt())
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
}

#[test]
fn an_interrupt_without_a_turn_is_refused_with_an_event() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.give(Input::Start)
        .give(Input::Spawned)
        .give(interrupt());
    assert_eq!(rig.kinds(), ["state", "refused"]);
}

// P35: background tasks hold stdin open until they end or their time is up.
#[test]
fn background_tasks_delay_the_end() {
    let mut rig = Rig::working();
    rig.give(background(1))
        .give(turn_ended(over(Cause::Completed)));
    assert!(!rig.has_effect(&Effect::Do(Action::CloseInput)));
    rig.give(background(0));
    assert!(rig.has_effect(&Effect::Do(Action::CloseInput)));

    let mut stuck = Rig::working();
    stuck
        .give(background(1))
        .give(turn_ended(over(Cause::Completed)))
        .wait(60 * 60 * S);
    assert!(stuck.has_effect(&Effect::Do(Action::CloseInput)));
}

#[test]
fn an_interrupt_ends_background_tasks() {
    let mut rig = Rig::working();
    rig.give(background(1))
        .give(turn_ended(over(Cause::Completed)))
        .give(interrupt());
    assert!(rig.has_effect(&Effect::Do(Action::CloseInput)));
    rig.give(Input::Exited(exit(0), None));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
    assert_eq!(rig.ended().outcome.cause, Cause::Interrupted);
}

// Before the first output the startup limit applies, not the idle limit.
#[test]
fn silence_before_the_first_output_is_not_idle() {
    let limits = Limits::default().idle(S);
    let mut rig = Rig::new(limits, AfterTurn::End);
    rig.give(Input::Send("hi".into()))
        .give(Input::Start)
        .give(Input::Spawned)
        .wait(30 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(event(started())).wait(2 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
}

#[test]
fn an_agent_that_continues_by_itself_gets_a_new_turn() {
    let mut rig = Rig::working();
    rig.give(background(1))
        .give(turn_ended(over(Cause::Completed)));
    rig.give(turn_started())
        .give(background(0))
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(
        rig.kinds().iter().filter(|w| **w == "turn_ended").count(),
        2
    );
    assert_eq!(rig.machine.turn(), 2);
}

// P36: a late result changes nothing.
#[test]
fn a_result_without_a_turn_is_only_a_notice() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.give(Input::Start)
        .give(Input::Spawned)
        .give(turn_ended(over(Cause::Auth)));
    assert_eq!(rig.kinds(), ["state", "state", "notice"]);
}

#[test]
fn messages_are_queued_and_never_lost() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    rig.give(Input::Send("two".into()))
        .give(Input::Send("three".into()));
    rig.give(turn_ended(over(Cause::Completed)));
    assert!(
        rig.has_effect(&Effect::Send(ToAgent::Prompt("two".into())))
            && !rig.has_effect(&Effect::Send(ToAgent::Prompt("three".into())))
    );
    rig.give(Input::Stop);
    assert_eq!(rig.kinds().iter().filter(|w| **w == "refused").count(), 1);
}

// S3-20
#[test]
fn pause_holds_messages_back_and_resume_delivers_them() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    rig.give(turn_ended(over(Cause::Completed)))
        .give(Input::Pause)
        .give(Input::Send("later".into()));
    assert_eq!(rig.machine.state(), SessionState::Paused);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Prompt("later".into()))));
    rig.give(Input::Resume);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Prompt("later".into()))));
    assert_eq!(rig.machine.state(), SessionState::Working);
}

// S3-19
#[test]
fn stop_and_kill_are_idempotent() {
    for first in [Input::Stop, Input::Kill] {
        let mut rig = Rig::working();
        rig.give(first.clone())
            .give(first.clone())
            .give(Input::Kill)
            .give(Input::Stop);
        rig.give(Input::Exited(exit(0), None)).give(first);
        assert_eq!(rig.turn_ended().outcome.cause, Cause::Stopped);
        assert_eq!(
            rig.effects
                .iter()
                .filter(|e| **e == Effect::Do(Action::Kill))
                .count(),
            1
        );
    }
}

#[test]
fn a_call_without_a_result_is_paired_when_the_turn_ends() {
    let mut rig = Rig::working();
    rig.give(event(call("1")))
        .give(event(call("1")))
        .give(event(call("2")))
        .give(event(result("2")));
    rig.give(turn_ended(over(Cause::Completed)));
    let results: Vec<(String, Option<String>, bool)> = rig
        .events()
        .iter()
        .filter_map(|w| {
            if let EventKind::ToolResult(r) = w {
                Some((r.id.clone(), r.name.clone(), r.ok))
            } else {
                None
            }
        })
        .collect();
    let bash = Some("Bash".to_owned());
    assert_eq!(
        results,
        [("2".into(), bash.clone(), true), ("1".into(), bash, false)]
    );
    assert_eq!(rig.kinds().iter().filter(|w| **w == "tool_call").count(), 2);
}

// S4-14
#[test]
fn a_long_answer_is_truncated_with_a_marker_and_a_notice() {
    let mut rig = Rig::working();
    let mut long = over(Cause::Completed);
    long.text = Some("x".repeat(15 * 1024 * 1024));
    rig.give(turn_ended(long));
    let text = &rig.turn_ended().text;
    assert!(text.len() < 10 * 1024 * 1024 + 100 && text.contains("[OUTPUT TRUNCATED"));
    assert!(
        rig.events()
            .iter()
            .any(|w| matches!(w, EventKind::Notice(n) if n.code.as_str() == "output_truncated"))
    );
}

#[test]
fn the_budget_warns_at_eighty_percent_and_ends_the_turn_at_the_limit() {
    let spend = |usd: f64| EventKind::from(Usage::for_turn(None, Tokens::default()).reported(usd));
    let mut rig = Rig::working();
    rig.machine.limits.budget_usd = Some(1.0);
    rig.give(event(spend(0.5)));
    assert!(!rig.kinds().contains(&"notice"));
    rig.give(event(spend(0.9))).give(event(spend(0.95)));
    assert_eq!(rig.kinds().iter().filter(|w| **w == "notice").count(), 1);
    rig.give(event(spend(1.1)));
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(turn_ended(over(Cause::Interrupted)));
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Budget);
}

// A failed handshake is reported even without a turn, and nothing follows it.
#[test]
fn an_error_without_a_turn_ends_the_start() {
    for (level, state) in [
        (Level::Warning, SessionState::Starting),
        (Level::Error, SessionState::Idle),
    ] {
        let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
        rig.give(Input::Start).give(Input::Spawned);
        rig.give(event(
            Notice::new(level, NoticeCode::HandshakeFailed, "no session").into(),
        ));
        assert_eq!(rig.machine.state(), state, "{level:?}");
    }
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.give(Input::Start)
        .give(Input::Spawned)
        .give(Input::Send("hi".into()));
    rig.give(event(
        Notice::new(Level::Error, "hook_failed".into(), "no such hook").into(),
    ));
    assert_eq!(
        rig.machine.state(),
        SessionState::Starting,
        "identification comes first"
    );
}

// S2-21: every agent identifies itself before it works, whatever else it prints first.
#[test]
fn a_notice_does_not_end_the_start() {
    let mut rig = Rig::new(Limits::default().startup(S).idle(9 * S), AfterTurn::Wait);
    for input in [Input::Start, Input::Spawned, Input::Send("hi".into())] {
        rig.give(input);
    }
    rig.effects.clear();
    let notice = Notice::new(
        Level::Warning,
        "config_warning".into(),
        "something is missing",
    );
    rig.give(event(notice.into())).wait(2 * S);
    assert_eq!(
        (rig.machine.state(), rig.kinds()),
        (SessionState::Starting, vec!["notice"]),
        "it responded in time"
    );
    rig.give(event(started()));
    assert_eq!(
        (rig.machine.state(), rig.kinds()),
        (SessionState::Working, vec!["notice", "started", "state"])
    );
}
