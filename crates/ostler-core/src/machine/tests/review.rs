use super::*;
use crate::dialect::Capabilities;
use crate::permission::{Ask, Otherwise, Policy, ToolKind, ToolUse, Trust, Verdict};
use crate::spec::Asks;

fn able() -> Capabilities {
    Capabilities {
        many_turns: true,
        resume: true,
        steer: true,
        set_model: true,
        freeze: true,
        ..Capabilities::default()
    }
}
fn waiting(limits: Limits, able: Capabilities) -> Rig {
    let mut rig = Rig::new(limits, AfterTurn::Wait);
    rig.machine = rig.machine.able(able);
    for input in [Input::Send("one".into()), Input::Start, Input::Spawned, Input::Heard(started())] {
        rig.give(input);
    }
    rig
}

#[test]
fn m1_wall_budget_spins() {
    let mut rig = waiting(Limits { budget_wall: Some(60 * S), ..Limits::default() }, able());
    rig.wait(48 * S).wait(12 * S);
    assert!(rig.did(&Effect::Say(Say::Interrupt)));
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}
#[test]
fn m1b_wall_budget_spins_when_interrupted_before() {
    let mut rig = waiting(Limits { budget_wall: Some(60 * S), ..Limits::default() }, able());
    rig.wait(58 * S).give(Input::Interrupt).wait(2 * S);
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}
#[test]
fn m2_allow_always_beats_deny() {
    let rules = "[[rule]]\npath = \"**/.env\"\ndo = \"deny\"\n[[rule]]\ntool = \"Edit\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    let mut rig = waiting(Limits::default(), able());
    rig.machine = std::mem::replace(&mut rig.machine, Machine::new(Limits::default(), AfterTurn::Wait)).ruled(
        Some(policy),
        "/w".into(),
        Asks::Somebody,
    );
    let ask = |id: &str, path: &str| {
        let wants = ToolUse { paths: vec![path.into()], ..ToolUse::of("Edit", ToolKind::Edit) };
        Input::Asked(Ask {
            id: id.into(),
            call: Some(format!("c{id}")),
            input: None,
            wants,
            otherwise: Otherwise::Agent,
        })
    };
    rig.give(ask("0", "/w/.env"));
    rig.give(ask("1", "/w/a.txt")).give(Input::Answered("c1".into(), Answer::AllowAlways));
    rig.give(ask("2", "/w/.env")).give(ask("3", "/etc/passwd"));
    let v: Vec<_> = rig
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Say(Say::Verdict { id, verdict }) => Some((id.clone(), verdict.clone())),
            _ => None,
        })
        .collect();
    println!("{v:?}");
    assert!(!v.iter().any(|(id, v)| id == "2" && *v == Verdict::Allow), "{v:?}");
}
#[test]
fn m3_stop_then_freeze_hangs() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Stop).give(Input::Freeze);
    assert!(rig.machine.deadline().is_some(), "nothing will ever end it; frozen={:?}", rig.machine.frozen);
}
#[test]
fn m4_turn_that_ends_at_exit_has_no_budget() {
    let mut rig =
        waiting(Limits { budget_tokens: Some(100), ..Limits::default() }, Capabilities { many_turns: false, ..able() });
    for n in 0..5 {
        let usage = Usage::of(Some("m".into()), Tokens { input: 1000, ..Tokens::default() });
        rig.give(Input::Exited(exit(0), Some(TurnOver { usage: vec![usage], ..over(Cause::Completed) })));
        rig.give(Input::Send(format!("{n}"))).give(Input::Spawned);
    }
    assert!(rig.machine.turn() < 3, "turns {} state {:?}", rig.machine.turn(), rig.machine.state());
}
#[test]
fn m5_late_usage_over_budget_then_next_turn() {
    let mut rig = waiting(Limits { budget_tokens: Some(100), ..Limits::default() }, able());
    rig.give(Input::TurnOver(over(Cause::Completed))).give(Input::Heard(used("m", 1000)));
    rig.give(Input::Send("two".into()));
    assert!(rig.machine.turn() < 2, "second turn began; state {:?} {:?}", rig.machine.state(), rig.words());
}
#[test]
fn m6_zero_messages() {
    let mut rig = Rig::new(Limits { budget_turns: Some(0), ..Limits::default() }, AfterTurn::End);
    rig.give(Input::Send("x".into())).give(Input::Start);
    for _ in 0..4 {
        rig.wait(5 * S);
    }
    let left = rig.events().into_iter().any(|w| matches!(w, What::Notice(n) if n.code == "process_left"));
    assert!(!left, "{:?}", rig.words());
}
#[test]
fn m7_stop_while_restart_fails_spawns_after_end() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Exited(exit(9), None)).give(Input::Send("two".into())).give(Input::Send("three".into()));
    rig.effects.clear();
    // what the driver does on Stop during Life::Starting
    rig.give(Input::SpawnFailed(Outcome::new(Cause::Stopped, "called off"))).give(Input::Stop);
    assert!(!rig.did(&Effect::Spawn), "{:?}", rig.words());
}
#[test]
fn m8_wall_budget_counts_from_zero_after_failed_start() {
    let mut rig = Rig::new(Limits { budget_wall: Some(60 * S), ..Limits::default() }, AfterTurn::Wait);
    rig.machine = rig.machine.able(able());
    rig.give(Input::Start).give(Input::Spawned).give(Input::Exited(exit(1), None));
    rig.now = 3600 * S;
    rig.give(Input::Send("one".into())).give(Input::SpawnFailed(Outcome::new(Cause::Unavailable, "gone")));
    rig.give(Input::Tick);
    assert_ne!(rig.machine.state(), SessionState::Ended, "ended: {:?}", rig.ended().outcome);
}
#[test]
fn m9_gone_idle_then_stop() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::TurnOver(over(Cause::Completed))).give(Input::Exited(exit(0), None)).give(Input::Stop);
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
}
#[test]
fn m10_due_and_known_grow() {
    let policy = Policy::parse("[[rule]]\ntool = \"Bash\"\ndo = \"deny\"\n", "t", Trust::Full).unwrap();
    let mut rig = waiting(Limits::default(), able());
    rig.machine = std::mem::replace(&mut rig.machine, Machine::new(Limits::default(), AfterTurn::Wait)).ruled(
        Some(policy),
        "/w".into(),
        Asks::Nobody,
    );
    for n in 0..50_000 {
        let id = format!("toolu_01ABCDEFGHIJKLMNOPQR{n:08}");
        rig.give(Input::Called(id.clone(), ToolUse::of("Bash", ToolKind::Execute))).give(Input::Heard(call(&id)));
        if n % 2 == 0 {
            rig.give(Input::TurnOver(over(Cause::Completed))).give(Input::Send("x".into()));
        }
        rig.effects.clear();
    }
    println!("{:?}", format!("{:?}", rig.machine).len());
    assert!(
        format!("{:?}", rig.machine.asking).len() < 100_000,
        "asking {} tools {}",
        format!("{:?}", rig.machine.asking).len(),
        format!("{:?}", rig.machine.tools).len()
    );
}
#[test]
fn m11_change_while_starting_is_claimed_and_lost() {
    use crate::dialect::Change;
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.machine = rig.machine.able(able());
    rig.give(Input::Send("one".into())).give(Input::Start); // Effect::Spawn: the driver has built the command line
    rig.give(Input::Change(Change::Model("m".into()))).give(Input::Spawned).give(Input::Heard(started()));
    let said = rig.effects.iter().any(|e| matches!(e, Effect::Say(Say::Change { .. })));
    let claimed = rig.events().into_iter().any(|w| matches!(w, What::Notice(n) if n.code == "model_changed"));
    assert!(said || !claimed, "model_changed was told, and the process that was being started has the old model");
}
#[test]
fn m12_interrupt_while_frozen_waits_for_the_frozen_time_again() {
    let mut rig = waiting(Limits { wall: None, idle: None, ..Limits::default() }, able());
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(Input::Interrupt);
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(left <= 6 * S, "the agent has {left:?} to answer, grace is 5 s");
}
#[test]
fn m13_change_while_frozen() {
    use crate::dialect::Change;
    let mut rig = waiting(Limits { wall: None, idle: None, ..Limits::default() }, able());
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(Input::Change(Change::Model("m".into())));
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(left <= 31 * S, "the agent has {left:?} to answer");
}
#[test]
fn m14_interrupt_before_the_first_message_hits_it() {
    // what Driver::wish + awake do: Interrupt while Life::Starting is kept, and given after Spawned
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.machine = rig.machine.able(able());
    rig.give(Input::Start); // no prompt; interrupt() comes here and is kept by the driver
    rig.give(Input::Send("a message that came after the interrupt".into()));
    rig.give(Input::Spawned).give(Input::Interrupt);
    assert!(!rig.did(&Effect::Say(Say::Interrupt)));
}
