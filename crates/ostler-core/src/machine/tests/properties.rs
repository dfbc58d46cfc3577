//! The machine's invariants under random sequences of inputs.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Start),
        Just(Input::Spawned),
        Just(Input::SpawnFailed(Outcome::new(Cause::Unavailable, "x"))),
        Just(Input::Send("p".into())),
        Just(Input::Activity),
        Just(event(started())),
        Just(event(text("t"))),
        (0u8..3).prop_map(|n| event(call(&n.to_string()))),
        (0u8..3).prop_map(|n| event(result(&n.to_string()))),
        (0u8..3).prop_map(|n| event(used(&n.to_string(), 1))),
        Just(turn_started()),
        Just(turn_ended(over(Cause::Completed))),
        Just(turn_ended(over(Cause::Auth))),
        (0usize..2).prop_map(background),
        Just(end_process()),
        Just(interrupt()),
        Just(Input::Pause),
        Just(Input::Freeze),
        Just(Input::Steer("s".into())),
        Just(Input::SendNow("n".into())),
        Just(change_to(crate::dialect::Change::Model("m".into()))),
        (1u64..3).prop_map(|id| changed(id, None)),
        (0u8..3).prop_map(|n| asked(&n.to_string())),
        (0u8..3).prop_map(|n| withdrawn(n.to_string())),
        (0u8..3, any::<bool>()).prop_map(|(n, by_caller)| Input::PermissionAnswered {
            id: n.to_string(),
            answer: PermissionAnswer::Allow,
            request: by_caller.then_some(ANY),
        }),
        Just(Input::Resume),
        Just(Input::Stop),
        Just(Input::Kill),
        Just(Input::Exited(Exit::default(), None)),
        Just(Input::Exited(exit(0), None)),
        Just(Input::Tick),
    ]
}

fn asked(id: &str) -> Input {
    let wants = crate::permission::ToolUse::new("t", crate::permission::ToolKind::Other);
    let fallback = crate::permission::Fallback::Person;
    requested(crate::permission::PermissionRequest {
        id: id.into(),
        call: None,
        input: None,
        wants,
        fallback,
    })
}

fn any_limit() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        Just(None),
        Just(Some(Duration::MAX)),
        (1u64..5000).prop_map(|s| Some(Duration::from_secs(s)))
    ]
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let times = (any_limit(), any_limit(), any_limit(), any_limit());
    (times, proptest::option::of(0u64..8000)).prop_map(
        |((wall, idle, startup, grace), event_bytes)| {
            Limits::default()
                .wall(wall)
                .idle(idle)
                .startup(startup)
                .grace(grace.unwrap_or_default())
                .event_bytes(event_bytes)
        },
    )
}

/// Eight times the usual number of cases, which `PROPTEST_CASES` sets.
fn many_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases * 8,
        ..usual
    }
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn every_turn_ends_once_and_the_session_ends_once_and_last(
        inputs in proptest::collection::vec((any_input(), 0u64..2000), 0..40),
        (one_shot, many_turns, resume) in any::<(bool, bool, bool)>(),
        limits in any_limits(),
    ) {
        let after = if one_shot { AfterTurn::End } else { AfterTurn::Wait };
        let mut rig = Rig::new(limits, after);
        let able = crate::dialect::Capabilities {
            many_turns, resume, steer: resume, set_model: true, freeze: resume, ..Default::default()
        };
        rig.machine = Machine::new(rig.machine.limits.clone(), after)
            .with_capabilities(able)
            .with_policy(None, "/w".into(), crate::spec::Attendance::Attended);
        let mut sent = 0;
        let mut requests = Vec::new();
        for (mut input, seconds) in inputs {
            rig.now += Duration::from_secs(seconds);
            if let Input::Interrupt(request)
            | Input::Change(request, _)
            | Input::PermissionAnswered { request: Some(request), .. } = &mut input
                && rig.machine.state() != SessionState::Ended
            {
                *request = CallerRequest(requests.len() as u64);
                requests.push(*request);
            }
            let message = matches!(input, Input::Send(_) | Input::Steer(_) | Input::SendNow(_));
            sent += usize::from(message && rig.machine.state() != SessionState::Ended);
            rig.give(input);
            prop_assert!(rig.machine.deadline().is_none_or(|at| at < NEVER));
        }
        rig.give(Input::Start).give(Input::Spawned).give(Input::Kill);
        rig.give(Input::Exited(Exit::default(), None));
        let words = rig.kinds();
        prop_assert_eq!(words.iter().filter(|w| **w == "ended").count(), 1, "{:?}", words);
        prop_assert_eq!(words.last(), Some(&"ended"));
        // No message is lost: it has a turn, steered one, or was refused.
        let became = rig.events().into_iter().filter(|kind| match kind {
            EventKind::TurnStarted(turn) => turn.origin == Origin::Caller,
            EventKind::Notice(notice) => notice.code.as_str() == "steered",
            EventKind::Refused(refused) => refused.request.as_str() == "send",
            _ => false,
        });
        prop_assert_eq!(became.count(), sent, "{:?}", words);
        // Each request completes once.
        let mut completed: Vec<CallerRequest> = rig
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Complete { request, .. } => Some(*request),
                _ => None,
            })
            .collect();
        completed.sort_by_key(|request| request.0);
        prop_assert_eq!(completed, requests);
        let mut asked: Vec<&str> = Vec::new();
        for kind in rig.events() {
            if let EventKind::Permission(it) = kind {
                match it.decision {
                    Decision::Asked => asked.push(&it.id),
                    _ => {
                        let at = asked.iter().position(|id| *id == it.id);
                        prop_assert!(at.is_some(), "decided without a request");
                        asked.remove(at.unwrap_or(0));
                    }
                }
            }
        }
        prop_assert!(asked.is_empty(), "requested and never decided: {:?}", asked);
        let mut open = false;
        // Every known id, and whether its call still waits for a result.
        let mut calls: BTreeMap<String, bool> = BTreeMap::new();
        for kind in rig.events() {
            match kind {
                EventKind::TurnStarted(_) => { prop_assert!(!open); open = true; }
                EventKind::TurnEnded(_) => {
                    prop_assert!(open);
                    prop_assert!(!calls.values().any(|waits| *waits), "a call without a result");
                    open = false;
                }
                EventKind::ToolCall(call) => {
                    prop_assert_ne!(calls.insert(call.id.clone(), true), Some(true), "two open calls with one id");
                }
                EventKind::ToolResult(result) => {
                    prop_assert_ne!(calls.insert(result.id.clone(), false), Some(false), "two results for one call");
                }
                _ => {}
            }
        }
        prop_assert!(!open, "a turn did not end");
        prop_assert!(!calls.values().any(|waits| *waits), "a call without a result");
    }

    // Nothing waits forever: whatever happened, time alone ends a session with a turn in progress.
    #[test]
    fn time_alone_ends_a_turn(inputs in proptest::collection::vec(any_input(), 0..20)) {
        let mut rig = Rig::working();
        for input in inputs {
            rig.give(input);
        }
        rig.give(Input::Resume);
        for _ in 0..200 {
            let Some(at) = rig.machine.deadline() else { break };
            rig.now = rig.now.max(at);
            rig.give(Input::Tick);
        }
        prop_assert!(rig.machine.deadline().is_none(), "still waiting: {:?}", rig.machine);
        prop_assert_eq!(rig.machine.state(), SessionState::Ended);
    }

    // A task has one deadline, which an agent that continues by itself cannot move.
    #[test]
    fn an_agent_that_continues_by_itself_does_not_outlive_the_task(
        steps in proptest::collection::vec((any::<bool>(), 1u64..900), 40..60),
    ) {
        let mut rig = Rig::working();
        rig.machine.limits.idle = None;
        rig.give(background(1));
        for (begins, seconds) in steps {
            rig.wait(Duration::from_secs(seconds));
            let ended = turn_ended(over(Cause::Completed));
            rig.give(if begins { turn_started() } else { ended });
        }
        rig.now = rig.now.max(61 * 60 * S);
        for _ in 0..4 {
            rig.give(Input::Tick).wait(5 * S);
        }
        prop_assert_eq!(rig.machine.state(), SessionState::Ended);
    }
}
