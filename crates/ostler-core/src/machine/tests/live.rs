//! Sessions of many turns: processes that come and go, permission requests, changes, budgets,
//! freezing.

use super::*;
use crate::dialect::{Capabilities, Change};
use crate::event::Refused;
use crate::permission::{Fallback, PermissionRequest, Policy, ToolKind, ToolUse, Trust, Verdict};
use crate::spec::Attendance;

pub(super) fn all_capabilities() -> Capabilities {
    Capabilities {
        many_turns: true,
        resume: true,
        steer: true,
        set_model: true,
        freeze: true,
        ..Capabilities::default()
    }
}

/// Adds a policy to a session, for work in `/w`.
pub(super) fn with_rules(mut rig: Rig, policy: Option<Policy>, attendance: Attendance) -> Rig {
    let machine = std::mem::replace(
        &mut rig.machine,
        Machine::new(Limits::default(), AfterTurn::Wait),
    );
    rig.machine = machine.with_policy(policy, "/w".into(), attendance);
    rig
}

/// Creates a session that waits for messages, in its first turn.
pub(super) fn waiting(limits: Limits, capabilities: Capabilities) -> Rig {
    let mut rig = Rig::new(limits, AfterTurn::Wait);
    rig.machine = rig.machine.with_capabilities(capabilities);
    for input in [
        Input::Send("one".into()),
        Input::Start,
        Input::Spawned,
        event(started()),
    ] {
        rig.give(input);
    }
    rig
}

fn spawns(rig: &Rig) -> usize {
    rig.effects
        .iter()
        .filter(|effect| **effect == Effect::Do(Action::Spawn))
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
        .filter(|kind| matches!(kind, EventKind::Notice(notice) if notice.code.as_str() == code))
        .count()
}

fn ask(id: &str, tool: &str, fallback: Fallback) -> Input {
    let wants = ToolUse::new(tool, ToolKind::Execute);
    requested(PermissionRequest {
        id: id.into(),
        call: Some(format!("call-{id}")),
        input: None,
        wants,
        fallback,
    })
}

fn verdicts(rig: &Rig) -> Vec<(&str, &Verdict)> {
    let said = rig.effects.iter().filter_map(|effect| match effect {
        Effect::Send(ToAgent::Verdict { id, verdict }) => Some((id.as_str(), verdict)),
        _ => None,
    });
    said.collect()
}

// The process exits and the session continues; the next message starts another process, also if
// each turn has its own.
#[test]
fn a_session_outlives_its_process() {
    for many_turns in [true, false] {
        let mut rig = waiting(
            Limits::default(),
            Capabilities {
                many_turns,
                ..all_capabilities()
            },
        );
        rig.give(turn_ended(over(Cause::Completed)));
        assert_eq!(
            rig.has_effect(&Effect::Do(Action::CloseInput)),
            !many_turns,
            "a process of one turn is ended"
        );
        rig.give(Input::Send("two".into()))
            .give(Input::Exited(exit(0), None));
        if many_turns {
            continue; // the message went to the first process
        }
        assert_eq!(
            (spawns(&rig), rig.machine.state()),
            (2, SessionState::Starting)
        );
        rig.give(Input::Spawned);
        assert!(rig.has_effect(&Effect::Send(ToAgent::Prompt("two".into()))));
    }
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(turn_ended(over(Cause::Completed)))
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
        .give(turn_ended(over(Cause::Completed)));
    rig.give(Input::Stop).give(Input::Exited(exit(0), None));
    assert_eq!(
        (rig.ended().outcome.cause, spawns(&rig)),
        (Cause::Completed, 2)
    );
}

// A failed restart ends the turn, and not the session.
#[test]
fn a_failed_restart_ends_the_turn() {
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(Input::Exited(exit(9), None))
        .give(Input::Send("two".into()));
    rig.give(Input::SpawnFailed(Outcome::new(Cause::Unavailable, "gone")))
        .give(Input::Send("three".into()));
    assert_eq!((rig.machine.turn(), spawns(&rig)), (2, 3));
    assert_ne!(rig.machine.state(), SessionState::Ended);
}

// Requests without a matching rule go to a person or to the agent's own settings; unattended, they
// are denied.
#[test]
fn requests_are_decided_by_rules_then_people_and_otherwise_denied() {
    let rules = "[[rule]]\ntool = \"Good\"\ndo = \"allow\"\n\
        [[rule]]\ntool = \"Bad\"\ndo = \"deny\"\nmessage = \"no\"\n\
        [[rule]]\ntool = \"Ask\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    for attendance in [Attendance::Unattended, Attendance::Attended] {
        let mut rig = with_rules(
            waiting(Limits::default(), all_capabilities()),
            Some(policy.clone()),
            attendance,
        );
        rig.give(ask("1", "Good", Fallback::Person))
            .give(ask("2", "Bad", Fallback::Agent));
        rig.give(ask("3", "Other", Fallback::Agent))
            .give(ask("4", "Ask", Fallback::Agent));
        rig.give(ask("5", "Other", Fallback::Person));
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
        rig.give(answered("call-4".into(), PermissionAnswer::AllowAlways))
            .give(ask("6", "Ask", Fallback::Agent));
        rig.give(answered("call-4".into(), PermissionAnswer::Allow))
            .give(answered("x".into(), PermissionAnswer::Allow));
        rig.give(withdrawn("5".into()))
            .give(answered("call-5".into(), PermissionAnswer::Allow));
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

// An allowing rule does not answer a request that is always a person's; a denying one does.
#[test]
fn an_allowing_rule_does_not_answer_a_request_for_a_person() {
    let rules = "[[rule]]\ntool = \"Bad\"\ndo = \"deny\"\nmessage = \"no\"\n\
        [[rule]]\ntool = \"*\"\ndo = \"allow\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    for attendance in [Attendance::Unattended, Attendance::Attended] {
        let mut rig = with_rules(
            waiting(Limits::default(), all_capabilities()),
            Some(policy.clone()),
            attendance,
        );
        rig.give(ask("1", "Good", Fallback::PersonAlways)).give(ask(
            "2",
            "Bad",
            Fallback::PersonAlways,
        ));
        if attendance == Attendance::Attended {
            assert_eq!(verdicts(&rig), [("2", &Verdict::Deny("no".into()))]);
            rig.give(answered("call-1".into(), PermissionAnswer::AllowAlways))
                .give(ask("3", "Good", Fallback::PersonAlways));
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

// A grant covers the same action, that is the same command or files, and overrides no rule.
#[test]
fn a_grant_covers_the_same_action_only() {
    let rules =
        "[[rule]]\npath = \"secrets/**\"\ndo = \"deny\"\n[[rule]]\nkind = \"edit\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    let mut rig = with_rules(
        waiting(Limits::default(), all_capabilities()),
        Some(policy),
        Attendance::Attended,
    );
    let edit = |id: &str, path: &str| {
        let wants = ToolUse {
            paths: vec![path.into()],
            ..ToolUse::new("Edit", ToolKind::Edit)
        };
        requested(PermissionRequest {
            id: id.into(),
            call: None,
            input: None,
            wants,
            fallback: Fallback::Person,
        })
    };
    let other = |id: &str, input: &str| {
        let (input, wants) = (
            RawJson::parse(input).ok(),
            ToolUse::new("Fetch", ToolKind::Network),
        );
        requested(PermissionRequest {
            id: id.into(),
            call: None,
            input,
            wants,
            fallback: Fallback::Person,
        })
    };
    rig.give(edit("1", "a.txt"))
        .give(answered("1".into(), PermissionAnswer::AllowAlways));
    rig.give(other("2", "{\"url\":1}"))
        .give(answered("2".into(), PermissionAnswer::AllowAlways));
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
        "one denied, two waiting: {:?}",
        verdicts(&rig)
    );
}

// P51: an hour in which a person thinks is not silence. P40, P41: nor is a long tool call, or a
// long turn.
#[test]
fn a_request_can_wait_for_an_hour() {
    let mut rig = with_rules(
        waiting(Limits::default().wall(None), all_capabilities()),
        None,
        Attendance::Attended,
    );
    rig.give(ask("1", "Bash", Fallback::Person)).wait(3600 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(answered("call-1".into(), PermissionAnswer::Allow));
    assert_eq!(verdicts(&rig), [("1", &Verdict::Allow)]);
    rig.wait(601 * S);
    assert!(
        rig.has_effect(&Effect::Send(ToAgent::Interrupt)),
        "silence counts again"
    );
}

// A change is sent to the agent and accepted, refused, or times out; a sleeping agent gets it at
// its next start.
#[test]
fn changes_are_accepted_or_refused_in_time() {
    let change = || change_to(Change::Model("m".into()));
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(change()).give(change()).give(change());
    rig.give(changed(1, None))
        .give(changed(2, Some("no such model".into())))
        .wait(31 * S);
    rig.give(changed(3, None));
    assert_eq!(
        refusals(&rig),
        [("set_model", "rejected"), ("set_model", "timeout")]
    );
    assert_eq!(notices(&rig, "model_changed"), 1);
    rig.give(change_to(Change::PermissionMode("plan".into())));
    assert_eq!(
        refusals(&rig).last(),
        Some(&("set_permission_mode", "unsupported"))
    );
    rig.give(Input::Exited(exit(9), None)).give(change());
    assert_eq!(
        rig.effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Do(Action::Adopt(_))))
            .count(),
        2
    );
}

// Each request completes by its own reply, in any order. A notice of the agent completes none.
#[test]
fn requests_complete_by_their_id() {
    let completions = |rig: &Rig| -> Vec<(u64, Completion)> {
        let completed = rig.effects.iter().filter_map(|effect| match effect {
            Effect::Complete {
                request,
                completion,
            } => Some((request.0, completion.clone())),
            _ => None,
        });
        completed.collect()
    };
    let set_model = |id, model: &str| Input::Change(CallerRequest(id), Change::Model(model.into()));
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(set_model(7, "unknown"))
        .give(set_model(8, "known"))
        .give(event(
            Notice::new(Level::Info, NoticeCode::ModelChanged, "by itself").into(),
        ));
    assert_eq!(completions(&rig), []);
    rig.give(changed(2, None))
        .give(changed(1, Some("no such model".into())));
    let [(8, Completion::Done), (7, Completion::Refused(refused))] = &completions(&rig)[..] else {
        panic!("{:?}", completions(&rig));
    };
    assert_eq!(refused.why, "no such model");
    // Both interrupts end with the turn; a third finds none.
    rig.effects.clear();
    let interrupt = |id| Input::Interrupt(CallerRequest(id));
    rig.give(interrupt(1)).give(interrupt(2));
    assert_eq!(completions(&rig), []);
    rig.give(turn_ended(over(Cause::Interrupted)))
        .give(interrupt(3));
    let was = |id, interruption| (id, Completion::Interrupted(interruption));
    assert_eq!(
        completions(&rig),
        [
            was(1, Interruption::Acknowledged),
            was(2, Interruption::Acknowledged),
            was(3, Interruption::NoTurn)
        ]
    );
}

// S2-31: budgets over several turns: a warning at 80%, and at 100% the turn is interrupted and
// the session ends.
#[test]
fn budgets_warn_and_then_end_the_session() {
    let limits = Limits::default().budget_tokens(100).budget_turns(2);
    let mut rig = waiting(limits, all_capabilities());
    rig.give(event(used("m", 79)));
    assert_eq!(notices(&rig, "budget_near"), 0);
    rig.give(event(used("m", 80)));
    assert_eq!(
        (
            notices(&rig, "budget_near"),
            rig.has_effect(&Effect::Send(ToAgent::Interrupt))
        ),
        (1, false)
    );
    rig.give(event(used("m", 100)));
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(turn_ended(over(Cause::Interrupted)));
    assert_eq!(
        (
            rig.turn_ended().outcome.cause,
            rig.has_effect(&Effect::Do(Action::CloseInput))
        ),
        (Cause::Budget, true)
    );

    let mut rig = waiting(
        Limits {
            budget_turns: Some(2),
            ..Limits::default()
        },
        all_capabilities(),
    );
    rig.give(turn_ended(over(Cause::Completed)))
        .give(Input::Send("two".into()));
    rig.give(turn_ended(over(Cause::Completed)))
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
        all_capabilities(),
    );
    rig.give(turn_ended(over(Cause::Completed))).wait(80 * S);
    assert_eq!(
        (
            notices(&rig, "budget_near"),
            rig.has_effect(&Effect::Do(Action::CloseInput))
        ),
        (1, false)
    );
    rig.wait(20 * S).give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::Budget);
}

// The time limits of a suspended agent do not run; a stop continues it first.
#[test]
fn limits_do_not_run_for_a_frozen_agent() {
    let mut rig = waiting(Limits::default().wall(100 * S), all_capabilities());
    rig.wait(50 * S).give(Input::Freeze).wait(1000 * S);
    assert_eq!(
        (
            rig.machine.deadline(),
            rig.has_effect(&Effect::Send(ToAgent::Interrupt))
        ),
        (None, false)
    );
    rig.give(Input::Resume).wait(49 * S);
    assert!(
        !rig.has_effect(&Effect::Send(ToAgent::Interrupt))
            && rig.has_effect(&Effect::Do(Action::Thaw))
    );
    rig.wait(2 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(Input::Freeze).give(Input::Stop);
    let order: Vec<_> = rig
        .effects
        .iter()
        .filter(|e| {
            matches!(
                e,
                Effect::Do(Action::Thaw) | Effect::Send(ToAgent::Interrupt)
            )
        })
        .collect();
    assert_eq!(
        order,
        [&Effect::Do(Action::Thaw), &Effect::Send(ToAgent::Interrupt)]
    );
}

// A message for the current turn goes to the agent; where that is impossible, it is refused or
// starts a turn.
#[test]
fn steering_reaches_the_turn_or_is_refused() {
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(Input::Steer("left".into()));
    assert!(
        rig.has_effect(&Effect::Send(ToAgent::Steer("left".into())))
            && notices(&rig, "steered") == 1
    );
    rig.give(turn_ended(over(Cause::Completed)))
        .give(Input::Steer("right".into()));
    assert!(rig.has_effect(&Effect::Send(ToAgent::Prompt("right".into()))));
    let mut rig = waiting(
        Limits::default(),
        Capabilities {
            steer: false,
            ..all_capabilities()
        },
    );
    rig.give(Input::Steer("left".into()))
        .give(Input::SendNow("now".into()));
    assert_eq!(refusals(&rig), [("send", "unsupported"), ("send", "busy")]);
}
