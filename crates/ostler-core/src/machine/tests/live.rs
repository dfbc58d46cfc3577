//! Sessions of many turns: processes that come and go, questions, changes, budgets, standing still.

use super::*;
use crate::dialect::{Capabilities, Change};
use crate::event::Refused;
use crate::permission::{Otherwise, PermissionRequest, Policy, ToolKind, ToolUse, Trust, Verdict};
use crate::spec::Attendance;

pub(super) fn able() -> Capabilities {
    Capabilities {
        many_turns: true,
        resume: true,
        steer: true,
        set_model: true,
        freeze: true,
        ..Capabilities::default()
    }
}

/// A session that waits for messages, in its first turn.
/// The same under rules, for work in `/w`.
pub(super) fn ruled(mut rig: Rig, policy: Option<Policy>, attendance: Attendance) -> Rig {
    let machine = std::mem::replace(
        &mut rig.machine,
        Machine::new(Limits::default(), AfterTurn::Wait),
    );
    rig.machine = machine.with_policy(policy, "/w".into(), attendance);
    rig
}

pub(super) fn waiting(limits: Limits, able: Capabilities) -> Rig {
    let mut rig = Rig::new(limits, AfterTurn::Wait);
    rig.machine = rig.machine.with_capabilities(able);
    for input in [
        Input::Send("one".into()),
        Input::Start,
        Input::Spawned,
        Input::Event(started()),
    ] {
        rig.give(input);
    }
    rig
}

fn spawns(rig: &Rig) -> usize {
    rig.effects
        .iter()
        .filter(|effect| **effect == Effect::Spawn)
        .count()
}

fn refusals(rig: &Rig) -> Vec<(&str, &str)> {
    let refused = rig.events().into_iter().filter_map(|kind| {
        if let EventKind::Refused(it) = kind {
            Some(it)
        } else {
            None
        }
    });
    refused
        .map(|Refused { request, code, .. }| (request.as_str(), code.as_str()))
        .collect()
}

fn notices(rig: &Rig, code: &str) -> usize {
    rig.events()
        .into_iter()
        .filter(|kind| matches!(kind, EventKind::Notice(notice) if notice.code == code))
        .count()
}

fn ask(id: &str, tool: &str, otherwise: Otherwise) -> Input {
    let wants = ToolUse::of(tool, ToolKind::Execute);
    Input::PermissionRequested(PermissionRequest {
        id: id.into(),
        call: Some(format!("call-{id}")),
        input: None,
        wants,
        otherwise,
    })
}

fn verdicts(rig: &Rig) -> Vec<(&str, &Verdict)> {
    let said = rig.effects.iter().filter_map(|effect| match effect {
        Effect::Send(ToAgent::Verdict { id, verdict }) => Some((id.as_str(), verdict)),
        _ => None,
    });
    said.collect()
}

// The process goes, the session stays; the next message starts another, also when each turn has one of its own.
#[test]
fn a_session_outlives_its_process() {
    for many_turns in [true, false] {
        let mut rig = waiting(
            Limits::default(),
            Capabilities {
                many_turns,
                ..able()
            },
        );
        rig.give(Input::TurnEnded(over(Cause::Completed)));
        assert_eq!(
            rig.did(&Effect::CloseInput),
            !many_turns,
            "a process of one turn is told to go"
        );
        rig.give(Input::Send("two".into()))
            .give(Input::Exited(exit(0), None));
        if many_turns {
            continue; // the message was delivered to the first process
        }
        assert_eq!(
            (spawns(&rig), rig.machine.state()),
            (2, SessionState::Starting)
        );
        rig.give(Input::Spawned);
        assert!(rig.did(&Effect::Send(ToAgent::Prompt("two".into()))));
    }
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Exited(exit(1), None));
    assert_eq!(
        (
            rig.machine.state(),
            notices(&rig, "agent_gone"),
            spawns(&rig)
        ),
        (SessionState::Idle, 1, 1)
    );
    rig.give(Input::Send("two".into()))
        .give(Input::Spawned)
        .give(Input::TurnEnded(over(Cause::Completed)));
    rig.give(Input::Stop).give(Input::Exited(exit(0), None));
    assert_eq!(
        (rig.ended().outcome.cause, spawns(&rig)),
        (Cause::Completed, 2)
    );
}

// A start that fails later on is the turn's end, and not the session's.
#[test]
fn a_restart_that_fails_ends_the_turn() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Exited(exit(9), None))
        .give(Input::Send("two".into()));
    rig.give(Input::SpawnFailed(Outcome::new(Cause::Unavailable, "gone")))
        .give(Input::Send("three".into()));
    assert_eq!((rig.machine.turn(), spawns(&rig)), (2, 3));
    assert_ne!(rig.machine.state(), SessionState::Ended);
}

// What no rule decides goes to a person, or to the agent's own layer; nobody there is a no.
#[test]
fn questions_are_decided_by_rules_then_people_and_else_denied() {
    let rules = "[[rule]]\ntool = \"Good\"\ndo = \"allow\"\n[[rule]]\ntool = \"Bad\"\ndo = \"deny\"\nmessage = \"no\"\n[[rule]]\ntool = \"Ask\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    for attendance in [Attendance::Unattended, Attendance::Attended] {
        let mut rig = ruled(
            waiting(Limits::default(), able()),
            Some(policy.clone()),
            attendance,
        );
        rig.give(ask("1", "Good", Otherwise::Person))
            .give(ask("2", "Bad", Otherwise::Agent));
        rig.give(ask("3", "Other", Otherwise::Agent))
            .give(ask("4", "Ask", Otherwise::Agent));
        rig.give(ask("5", "Other", Otherwise::Person));
        let decided: Vec<_> = verdicts(&rig)
            .into_iter()
            .map(|(id, verdict)| (id, verdict.clone()))
            .collect();
        let no = || Verdict::Deny("no".into());
        assert_eq!(
            decided[..3],
            [
                ("1", Verdict::Allow),
                ("2", no()),
                ("3", Verdict::Undecided)
            ]
        );
        if attendance == Attendance::Unattended {
            assert!(matches!(
                &decided[3..],
                [("4", Verdict::Deny(_)), ("5", Verdict::Deny(_))]
            ));
            continue;
        }
        assert_eq!(decided.len(), 3);
        rig.give(Input::PermissionAnswered(
            "call-4".into(),
            PermissionAnswer::AllowAlways,
        ))
        .give(ask("6", "Ask", Otherwise::Agent));
        rig.give(Input::PermissionAnswered(
            "call-4".into(),
            PermissionAnswer::Allow,
        ))
        .give(Input::PermissionAnswered(
            "x".into(),
            PermissionAnswer::Allow,
        ));
        rig.give(Input::PermissionWithdrawn("5".into()))
            .give(Input::PermissionAnswered(
                "call-5".into(),
                PermissionAnswer::Allow,
            ));
        assert_eq!(
            verdicts(&rig)[3..],
            [("4", &Verdict::Allow), ("6", &Verdict::Allow)]
        );
        assert_eq!(
            refusals(&rig),
            [
                ("answer", "decided"),
                ("answer", "unknown"),
                ("answer", "decided")
            ]
        );
    }
}

// A rule that allows does not answer a question that is always a person's; one that denies does.
#[test]
fn a_question_that_is_always_a_persons_is_not_answered_by_an_allowing_rule() {
    let rules = "[[rule]]\ntool = \"Bad\"\ndo = \"deny\"\nmessage = \"no\"\n[[rule]]\ntool = \"*\"\ndo = \"allow\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    for attendance in [Attendance::Unattended, Attendance::Attended] {
        let mut rig = ruled(
            waiting(Limits::default(), able()),
            Some(policy.clone()),
            attendance,
        );
        rig.give(ask("1", "Good", Otherwise::PersonAlways))
            .give(ask("2", "Bad", Otherwise::PersonAlways));
        if attendance == Attendance::Attended {
            assert_eq!(verdicts(&rig), [("2", &Verdict::Deny("no".into()))]);
            rig.give(Input::PermissionAnswered(
                "call-1".into(),
                PermissionAnswer::AllowAlways,
            ))
            .give(ask("3", "Good", Otherwise::PersonAlways));
            assert_eq!(
                verdicts(&rig)[1..],
                [("1", &Verdict::Allow), ("3", &Verdict::Allow)]
            );
        } else {
            assert!(
                verdicts(&rig)
                    .iter()
                    .all(|(_, verdict)| matches!(verdict, Verdict::Deny(_)))
            );
        }
    }
}

// "Always" is for the same thing: the same command or files; and no rule gives way to it.
#[test]
fn a_grant_covers_the_same_thing_and_no_more() {
    let rules =
        "[[rule]]\npath = \"secrets/**\"\ndo = \"deny\"\n[[rule]]\nkind = \"edit\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    let mut rig = ruled(
        waiting(Limits::default(), able()),
        Some(policy),
        Attendance::Attended,
    );
    let edit = |id: &str, path: &str| {
        let wants = ToolUse {
            paths: vec![path.into()],
            ..ToolUse::of("Edit", ToolKind::Edit)
        };
        Input::PermissionRequested(PermissionRequest {
            id: id.into(),
            call: None,
            input: None,
            wants,
            otherwise: Otherwise::Person,
        })
    };
    let other = |id: &str, input: &str| {
        let (input, wants) = (
            RawJson::parse(input).ok(),
            ToolUse::of("Fetch", ToolKind::Network),
        );
        Input::PermissionRequested(PermissionRequest {
            id: id.into(),
            call: None,
            input,
            wants,
            otherwise: Otherwise::Person,
        })
    };
    rig.give(edit("1", "a.txt")).give(Input::PermissionAnswered(
        "1".into(),
        PermissionAnswer::AllowAlways,
    ));
    rig.give(other("2", "{\"url\":1}"))
        .give(Input::PermissionAnswered(
            "2".into(),
            PermissionAnswer::AllowAlways,
        ));
    rig.give(edit("3", "a.txt"))
        .give(edit("4", "b.txt"))
        .give(edit("5", "secrets/a"));
    rig.give(other("6", "{\"url\":1}"))
        .give(other("7", "{\"url\":2}"));
    let allowed = verdicts(&rig)
        .into_iter()
        .filter(|(_, verdict)| **verdict == Verdict::Allow);
    assert_eq!(
        allowed.map(|(id, _)| id).collect::<Vec<_>>(),
        ["1", "2", "3", "6"]
    );
    assert_eq!(
        verdicts(&rig).len(),
        5,
        "one was denied, two wait: {:?}",
        verdicts(&rig)
    );
}

// P51: an hour in which somebody thinks is nobody's silence. P40, P41: nor is a long tool, or a long turn.
#[test]
fn a_question_can_wait_for_an_hour() {
    let mut rig = ruled(
        waiting(
            Limits {
                wall: None,
                ..Limits::default()
            },
            able(),
        ),
        None,
        Attendance::Attended,
    );
    rig.give(ask("1", "Bash", Otherwise::Person)).wait(3600 * S);
    assert!(!rig.did(&Effect::Send(ToAgent::Interrupt)));
    rig.give(Input::PermissionAnswered(
        "call-1".into(),
        PermissionAnswer::Allow,
    ));
    assert_eq!(verdicts(&rig), [("1", &Verdict::Allow)]);
    rig.wait(601 * S);
    assert!(
        rig.did(&Effect::Send(ToAgent::Interrupt)),
        "silence counts again"
    );
}

// A change is asked of the agent, answered, refused, or not answered in time; an agent that sleeps gets it at its next start.
#[test]
fn changes_are_answered_in_time_or_refused() {
    let change = || Input::Change(Change::Model("m".into()));
    let mut rig = waiting(Limits::default(), able());
    rig.give(change()).give(change()).give(change());
    rig.give(Input::Changed(1, None))
        .give(Input::Changed(2, Some("no such model".into())))
        .wait(31 * S);
    rig.give(Input::Changed(3, None));
    assert_eq!(
        refusals(&rig),
        [("set_model", "rejected"), ("set_model", "timeout")]
    );
    assert_eq!(notices(&rig, "model_changed"), 1);
    rig.give(Input::Change(Change::PermissionMode("plan".into())));
    assert_eq!(
        refusals(&rig).last(),
        Some(&("set_permission_mode", "unsupported"))
    );
    rig.give(Input::Exited(exit(9), None)).give(change());
    assert_eq!(
        rig.effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Adopt(_)))
            .count(),
        2
    );
}

// S2-31: budgets over turns: a warning at four fifths, and at the end the turn is interrupted and
// the session over.
#[test]
fn budgets_warn_and_then_end_the_session() {
    let limits = Limits {
        budget_tokens: Some(100),
        budget_turns: Some(2),
        ..Limits::default()
    };
    let mut rig = waiting(limits, able());
    rig.give(Input::Event(used("m", 79)));
    assert_eq!(notices(&rig, "budget_near"), 0);
    rig.give(Input::Event(used("m", 80)));
    assert_eq!(
        (
            notices(&rig, "budget_near"),
            rig.did(&Effect::Send(ToAgent::Interrupt))
        ),
        (1, false)
    );
    rig.give(Input::Event(used("m", 100)));
    assert!(rig.did(&Effect::Send(ToAgent::Interrupt)));
    rig.give(Input::TurnEnded(over(Cause::Interrupted)));
    assert_eq!(
        (rig.turn_ended().outcome.cause, rig.did(&Effect::CloseInput)),
        (Cause::Budget, true)
    );

    let mut rig = waiting(
        Limits {
            budget_turns: Some(2),
            ..Limits::default()
        },
        able(),
    );
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Send("two".into()));
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Send("three".into()))
        .give(Input::Exited(exit(0), None));
    assert_eq!(
        (refusals(&rig), rig.ended().outcome.cause),
        (vec![("send", "budget")], Cause::Budget)
    );

    let mut rig = waiting(
        Limits {
            budget_wall: Some(100 * S),
            ..Limits::default()
        },
        able(),
    );
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .wait(80 * S);
    assert_eq!(
        (notices(&rig, "budget_near"), rig.did(&Effect::CloseInput)),
        (1, false)
    );
    rig.wait(20 * S).give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::Budget);
}

// An agent that stands still is not late; stopping lets it hear first.
#[test]
fn the_time_of_a_frozen_agent_stands_still() {
    let mut rig = waiting(
        Limits {
            wall: Some(100 * S),
            ..Limits::default()
        },
        able(),
    );
    rig.wait(50 * S).give(Input::Freeze).wait(1000 * S);
    assert_eq!(
        (
            rig.machine.deadline(),
            rig.did(&Effect::Send(ToAgent::Interrupt))
        ),
        (None, false)
    );
    rig.give(Input::Resume).wait(49 * S);
    assert!(!rig.did(&Effect::Send(ToAgent::Interrupt)) && rig.did(&Effect::Thaw));
    rig.wait(2 * S);
    assert!(rig.did(&Effect::Send(ToAgent::Interrupt)));
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Freeze).give(Input::Stop);
    let order: Vec<_> = rig
        .effects
        .iter()
        .filter(|e| matches!(e, Effect::Thaw | Effect::Send(ToAgent::Interrupt)))
        .collect();
    assert_eq!(order, [&Effect::Thaw, &Effect::Send(ToAgent::Interrupt)]);
}

// A message for the turn under way goes to the agent; where that cannot be, it is refused or begins a turn.
#[test]
fn steering() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Steer("left".into()));
    assert!(rig.did(&Effect::Send(ToAgent::Steer("left".into()))) && notices(&rig, "steered") == 1);
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Steer("right".into()));
    assert!(rig.did(&Effect::Send(ToAgent::Prompt("right".into()))));
    let mut rig = waiting(
        Limits::default(),
        Capabilities {
            steer: false,
            ..able()
        },
    );
    rig.give(Input::Steer("left".into()))
        .give(Input::SendNow("now".into()));
    assert_eq!(refusals(&rig), [("send", "unsupported"), ("send", "busy")]);
}
