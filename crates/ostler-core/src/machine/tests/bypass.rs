//! Tools that run without asking, although the policy does not allow them.

use super::live::{all_capabilities, waiting, with_rules};
use super::*;
use crate::permission::{Policy, ToolKind, ToolUse, Trust};
use crate::spec::Attendance;

const POLICY: &str = "[[rule]]\ndo = \"deny\"\ntool = \"deny\"\n\
    [[rule]]\ndo = \"ask\"\ntool = \"ask\"\n\
    [[rule]]\ndo = \"allow\"\ntool = \"allow\"\n";

/// Creates a session in which each of these tools was called, with its name as the id.
fn called(tools: &[&str]) -> Rig {
    let policy = Policy::parse(POLICY, "test", Trust::Full).unwrap();
    let rig = waiting(Limits::default(), all_capabilities());
    let mut rig = with_rules(rig, Some(policy), Attendance::Attended);
    for tool in tools {
        rig.give(event(call(tool)));
        let wants = ToolUse::new(tool, ToolKind::Execute);
        rig.give(Input::ToolCalled((*tool).into(), wants));
    }
    rig
}

fn bypasses(rig: &Rig) -> Vec<&str> {
    let messages = rig.events().into_iter().filter_map(|kind| match kind {
        EventKind::Notice(it) if it.code == NoticeCode::PolicyBypass => Some(it.message.as_str()),
        _ => None,
    });
    messages.collect()
}

fn decided(id: &str, decision: Decision) -> Input {
    let permission = Permission {
        id: id.into(),
        tool: id.into(),
        kind: None,
        input: None,
        decision,
        by: DecidedBy::Agent,
        message: None,
    };
    event(permission.into())
}

#[test]
fn a_tool_that_ran_against_the_policy_is_reported_once() {
    for (tool, reported) in [("deny", 1), ("ask", 1), ("allow", 0), ("other", 0)] {
        let mut rig = called(&[tool]);
        rig.give(event(result(tool))).give(event(result(tool)));
        assert_eq!(bypasses(&rig).len(), reported, "{tool}");
    }
    let mut rig = called(&["deny"]);
    rig.give(event(result("deny")));
    let message = bypasses(&rig)[0];
    assert!(message.contains("(deny) without asking"), "{message}");
}

#[test]
fn a_decision_before_the_result_is_no_bypass() {
    for (decision, reported) in [
        (Decision::Allowed, 0),
        (Decision::Denied, 0),
        (Decision::Asked, 1),
    ] {
        let mut rig = called(&["ask"]);
        rig.give(decided("ask", decision))
            .give(event(result("ask")));
        assert_eq!(bypasses(&rig).len(), reported, "{decision:?}");
    }
}

#[test]
fn a_tool_that_failed_did_not_run() {
    let mut rig = called(&["deny"]);
    let EventKind::ToolResult(mut failed) = result("deny") else {
        unreachable!("a result")
    };
    failed.ok = false;
    rig.give(event(failed.into()));
    assert_eq!(bypasses(&rig), [""; 0]);
}

#[test]
fn calls_are_forgotten_with_their_turn() {
    let mut rig = called(&["deny"]);
    rig.give(turn_ended(over(Cause::Completed)));
    rig.give(Input::Send("two".into()));
    rig.give(event(call("deny"))).give(event(result("deny")));
    assert_eq!(bypasses(&rig), [""; 0]);
}
