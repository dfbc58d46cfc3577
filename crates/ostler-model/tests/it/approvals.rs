//! Calls that wait for a person's approval: only a typed message with their ids approves them.

use ostler_core::dialect::ToAgent;
use ostler_core::outcome::{Cause, Reason};
use ostler_core::permission::Verdict;
use serde_json::{Value, json};

use super::harness::{Harness, spec};

/// A loop in which two calls wait for approval.
fn waiting() -> Harness {
    let features = json!({"mutating": ["write_file"]});
    let mut harness = Harness::with_loop(&spec(&[("mode", "approve")]), &features);
    harness.prompt("go");
    harness.calls(&[("1", "write_file", "{}"), ("2", "write_file", r#"{"b":1}"#)]);
    for id in ["1", "2"] {
        harness.verdict(id, Verdict::Undecided);
    }
    harness
}

/// Returns the inputs of the tools that were started.
fn started(harness: &Harness) -> Vec<Value> {
    let commands = harness.commands();
    let jobs = commands
        .iter()
        .filter_map(|command| command["tools"].as_array());
    jobs.flatten().map(|job| job["input"].clone()).collect()
}

// Issue 17, item 1.
#[test]
fn free_text_is_not_an_approval() {
    for text in ["approve", "Approved.", "yes", "y", "OK", "allow"] {
        let mut harness = waiting();
        harness.prompt(text);
        assert!(started(&harness).is_empty(), "{text}");
        assert_eq!(harness.last_request().last().unwrap()["content"], text);
    }
}

fn approve(harness: &mut Harness, ids: &[&str]) {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    harness.approve(ids);
}

#[test]
fn outcome_names_the_calls_that_wait() {
    let harness = waiting();
    let outcome = &harness.ended()[0].outcome;
    assert_eq!(
        (outcome.cause, outcome.reason()),
        (Cause::NeedsInput, Some(&Reason::Approval))
    );
    assert_eq!(outcome.detail.as_ref().unwrap().pending_calls, ["1", "2"]);
}

#[test]
fn only_the_approved_calls_are_made_and_only_once() {
    for (ids, inputs) in [
        (&["1", "2"][..], vec![json!({}), json!({"b": 1})]),
        (&["2"][..], vec![json!({"b": 1})]),
    ] {
        let mut harness = waiting();
        approve(&mut harness, ids);
        assert_eq!(started(&harness), inputs, "{ids:?}");
        for id in harness.open_calls() {
            harness.result(&id, "written");
        }
        harness.text("done");
        assert_eq!(harness.cause(), Cause::Completed);
        // They were new calls, so the first ones cannot be approved again.
        approve(&mut harness, ids);
        assert_eq!(harness.cause(), Cause::BadRequest);
        assert_eq!(started(&harness), inputs, "{ids:?}");
    }
}

#[test]
fn ids_that_do_not_wait_approve_nothing() {
    for ids in [&[][..], &["3"], &["1", "3"]] {
        let mut harness = waiting();
        approve(&mut harness, ids);
        assert_eq!(harness.cause(), Cause::BadRequest, "{ids:?}");
        assert!(started(&harness).is_empty(), "{ids:?}");
        // The calls still wait, here and in a session that resumes this one.
        let spec = spec(&[("mode", "approve")]);
        let mut resumed = harness.resumed_loop(&spec, &json!({"mutating": ["write_file"]}));
        for harness in [&mut harness, &mut resumed] {
            approve(harness, &["1"]);
            assert_eq!(started(harness), [json!({})], "{ids:?}");
        }
    }
}

#[test]
fn calls_wait_only_until_the_next_message() {
    let mut answered = waiting();
    answered.prompt("no");
    answered.text("fine");
    let spec = spec(&[("mode", "approve")]);
    let mut resumed = answered.resumed_loop(&spec, &json!({"mutating": ["write_file"]}));
    for harness in [&mut answered, &mut resumed] {
        harness.send(ToAgent::Approve(vec!["1".to_owned()]));
        assert_eq!(harness.cause(), Cause::BadRequest);
        assert!(started(harness).is_empty());
    }
}
