//! Property tests of the tool loop with random input in any order: no turn ends twice, every tool
//! call gets a result, no message is lost, and every request is valid for a server.

use std::collections::HashSet;

use ostler_core::dialect::{Change, FromConversation, ToAgent};
use ostler_core::event::{DecidedBy, EventKind};
use ostler_core::permission::Verdict;
use ostler_core::spec::{Attendance, Spec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{API, Harness, spec};
use super::rebuild::rebuilt;

/// A random action; skipped if it is not possible.
#[derive(Debug, Clone)]
enum Action {
    Prompt,
    Steer,
    Interrupt,
    Change,
    /// A verdict on the pending request with this number, or on one that is not pending.
    Verdict(usize, bool),
    /// An answer of the model, with these calls.
    Answer(Vec<(usize, bool)>),
    /// Part of an answer.
    Partial,
    Failed(bool),
    /// The runner has run the tool with this number.
    Ran(usize),
    Cancelled,
    /// A hook of a loop continues, returns a message, or stops it.
    Flow(u8),
    /// The verification of a loop succeeds or fails.
    Verified(bool),
    /// A person approves the pending calls.
    Approve,
    /// An unexpected runner event.
    Stray(bool),
}

fn action() -> impl Strategy<Value = Action> {
    let calls = proptest::collection::vec((0usize..4, any::<bool>()), 0..4);
    prop_oneof![
        2 => Just(Action::Prompt),
        2 => Just(Action::Steer),
        1 => Just(Action::Interrupt),
        1 => Just(Action::Change),
        4 => (0usize..4, any::<bool>()).prop_map(|(n, yes)| Action::Verdict(n, yes)),
        5 => calls.prop_map(Action::Answer),
        2 => Just(Action::Partial),
        1 => any::<bool>().prop_map(Action::Failed),
        5 => (0usize..4).prop_map(Action::Ran),
        3 => Just(Action::Cancelled),
        5 => (0u8..8).prop_map(Action::Flow),
        3 => any::<bool>().prop_map(Action::Verified),
        2 => Just(Action::Approve),
        1 => any::<bool>().prop_map(Action::Stray),
    ]
}

/// A conversation with a well-behaved runner.
struct Scenario {
    harness: Harness,
    prompts: usize,
    steers: usize,
    calls: usize,
    /// Ids that are settled: verdicts given, results sent.
    decided: HashSet<String>,
    denied: HashSet<String>,
    allowed: HashSet<String>,
    /// Whether the session is unattended, so that nothing can be approved.
    unattended: bool,
    ran: HashSet<String>,
}

impl Scenario {
    fn new(spec: &Spec) -> Self {
        Self::on(Harness::of(API, spec))
    }

    fn on(mut harness: Harness) -> Self {
        let (decided, denied, allowed, ran) = (
            HashSet::new(),
            HashSet::new(),
            HashSet::new(),
            HashSet::new(),
        );
        harness.counts = true;
        Self {
            harness,
            prompts: 0,
            steers: 0,
            calls: 0,
            decided,
            denied,
            allowed,
            unattended: false,
            ran,
        }
    }

    fn in_turn(&self) -> bool {
        self.harness.ended().len() < self.prompts
    }

    /// Returns the last command to the runner during the turn.
    fn last_command(&self) -> Value {
        if self.in_turn() {
            self.harness.commands().last().cloned().unwrap_or_default()
        } else {
            Value::Null
        }
    }

    fn open_requests(&self) -> Vec<String> {
        let withdrawn = |id: &str| {
            self.harness
                .outs
                .iter()
                .any(|out| matches!(out, FromConversation::WithdrawPermission(w) if w == id))
        };
        let ids = self
            .harness
            .permission_requests()
            .into_iter()
            .map(|ask| ask.id.clone());
        ids.filter(|id| !self.decided.contains(id) && !withdrawn(id))
            .collect()
    }

    /// Returns the tools that the runner was to run and has not.
    fn running(&self) -> Vec<Value> {
        let command = self.last_command();
        let tools = command
            .get("tools")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        tools
            .into_iter()
            .filter(|tool| !self.ran.contains(tool["id"].as_str().unwrap()))
            .collect()
    }

    /// Returns true if a model call is pending and nothing else was decided since.
    fn is_asked(&self) -> bool {
        self.last_command().get("call").is_some() && self.open_requests().is_empty()
    }

    fn go(&mut self, action: &Action) {
        match action {
            Action::Prompt if !self.in_turn() => {
                self.prompts += 1;
                self.harness.prompt(&format!("prompt {}", self.prompts));
            }
            Action::Steer if self.in_turn() => {
                self.steers += 1;
                self.harness.steer(&format!("steer {}", self.steers));
            }
            Action::Interrupt => self.harness.interrupt(),
            Action::Change => self.harness.send(ToAgent::Change {
                id: 1,
                change: Change::Model("other".into()),
            }),
            Action::Verdict(n, yes) => {
                let open = self.open_requests();
                let id = open.get(*n).cloned().unwrap_or_else(|| "stale".into());
                self.decided.insert(id.clone());
                if !yes {
                    self.denied.insert(id.clone());
                }
                let yes = match (yes, self.unattended) {
                    (true, true) => Verdict::Undecided,
                    (true, false) => Verdict::Allow,
                    (false, _) => Verdict::Deny("no".into()),
                };
                if yes == Verdict::Allow {
                    self.allowed.insert(id.clone());
                }
                self.harness.verdict(&id, yes);
            }
            Action::Answer(calls) if self.is_asked() => self.answer(calls),
            Action::Partial if self.is_asked() => {
                self.harness
                    .feed(&json!({"choices": [{"delta": {"content": "well, "}}]}));
            }
            Action::Failed(too_long) if self.is_asked() => {
                let body = if *too_long {
                    "{\"error\":{\"code\":\"context_length_exceeded\"}}"
                } else {
                    ""
                };
                self.harness.feed(
                    &json!({"ostler": {"failed": {"kind": "status", "status": 400, "message": "no", "body": body}}}),
                );
            }
            Action::Ran(n) => self.ran(*n),
            Action::Approve if !self.in_turn() => {
                self.prompts += 1;
                let pending = self.harness.pending_calls();
                self.harness.approve(pending);
            }
            Action::Flow(n) if self.last_command().get("hook").is_some() => {
                self.harness.feed(&flow(*n));
            }
            Action::Verified(yes) if self.last_command().get("verify").is_some() => {
                self.harness.feed(&verified(*yes));
            }
            // Written before the runner received the cancellation.
            Action::Stray(hook) if self.last_command() == "cancel" => {
                self.harness
                    .feed(&if *hook { flow(0) } else { verified(true) });
            }
            Action::Cancelled if self.last_command() == "cancel" => {
                self.harness.feed(&json!({"ostler": "cancelled"}));
            }
            _ => {}
        }
    }

    fn answer(&mut self, calls: &[(usize, bool)]) {
        let is_summary = self.last_command()["call"].get("tools").is_none();
        if calls.is_empty() || is_summary {
            return self.harness.text("words");
        }
        let ids: Vec<String> = calls
            .iter()
            .map(|_| {
                self.calls += 1;
                format!("c{}", self.calls)
            })
            .collect();
        let names = ["read_file", "write_file", "weather", "made_up"];
        let list = calls.iter().zip(&ids);
        let list: Vec<_> = list
            .map(|((n, good), id)| {
                (
                    id.as_str(),
                    names[*n],
                    if *good { "{\"a\":1}" } else { "{" },
                )
            })
            .collect();
        self.harness.calls(&list);
    }

    fn ran(&mut self, n: usize) {
        let Some(tool) = self.running().get(n).cloned() else {
            return;
        };
        let id = tool["id"].as_str().unwrap().to_owned();
        let refused = tool["refused"].as_str();
        assert!(
            refused.is_some() || !self.denied.contains(&id),
            "denied tools do not run: {tool}"
        );
        let output = refused.map_or_else(|| "x".repeat(700), str::to_owned);
        self.harness.feed(
            &json!({"ostler": {"result": {"id": id, "ok": refused.is_none(),
            "denied": refused.is_some(), "output": output}}}),
        );
        self.ran.insert(id);
    }

    /// Brings the turn to a regular end.
    fn finish(&mut self) {
        for _ in 0..200 {
            let next = if !self.in_turn() {
                return;
            } else if self.last_command() == "cancel" {
                Action::Cancelled
            } else if self.last_command().get("hook").is_some() {
                Action::Flow(0)
            } else if self.last_command().get("verify").is_some() {
                Action::Verified(true)
            } else if !self.open_requests().is_empty() {
                Action::Verdict(0, true)
            } else if !self.running().is_empty() {
                Action::Ran(0)
            } else {
                Action::Answer(Vec::new())
            };
            self.go(&next);
        }
        assert!(
            !self.in_turn(),
            "the turn does not end: {:?}",
            self.last_command()
        );
    }
}

fn flow(n: u8) -> Value {
    match n {
        6 => json!({"ostler": {"flow": {"say": "the hook says"}}}),
        7 => json!({"ostler": {"flow": {"stop": "enough"}}}),
        _ => json!({"ostler": {"flow": "go"}}),
    }
}

fn verified(yes: bool) -> Value {
    json!({"ostler": {"verified": if yes { Value::Null } else { json!("not yet") }}})
}

/// Checks the invariants.
fn check(scenario: &Scenario) -> Result<(), TestCaseError> {
    prop_assert_eq!(scenario.harness.ended().len(), scenario.prompts);
    prop_assert!(
        scenario.open_requests().is_empty(),
        "every request is answered or withdrawn"
    );
    let events = &scenario.harness.events;
    for kind in events {
        if let EventKind::ToolCall(call) = kind {
            let results = count(
                events,
                |w| matches!(w, EventKind::ToolResult(result) if result.id == call.id),
            );
            prop_assert_eq!(results, 1, "{}", &call.id);
        }
    }
    for command in scenario.harness.commands() {
        if let Some(call) = command.get("call") {
            prop_assert!(is_valid(call["messages"].as_array().unwrap()), "{}", call);
        }
    }
    Ok(())
}

/// Returns true if each call of a request precedes its result; servers reject anything else.
fn is_valid(messages: &[Value]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    messages.iter().all(|message| {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let known = open.iter().position(|open| *open == id);
            return known.map(|at| open.remove(at)).is_some();
        }
        let settled = open.is_empty();
        open = message["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|call| call["id"].as_str())
            .collect();
        settled
    }) && open.is_empty()
}

fn count(events: &[EventKind], matches: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|kind| matches(kind)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_or_repeated(
        asks in any::<bool>(),
        narrow in any::<bool>(),
        all in proptest::collection::vec(action(), 1..60),
    ) {
        let settings: &[(&str, &str)] = if narrow { &[("context_window", "1500"), ("max_turns", "6")] } else { &[] };
        let spec = spec(settings).attendance(if asks { Attendance::Attended } else {
            Attendance::Unattended });
        let mut scenario = Scenario::new(&spec);
        for action in &all {
            scenario.go(action);
            prop_assert!(scenario.harness.ended().len() <= scenario.prompts, "a turn ended twice");
        }
        scenario.finish();
        check(&scenario)?;
        let (mut next, before) = (scenario.harness.resumed(API), rebuilt(&scenario.harness));
        scenario.go(&Action::Prompt);
        if narrow {
            // After a possible summary, the request still matches the events.
            for _ in 0..3 {
                if scenario.last_command()["call"].get("tools").is_none() {
                    scenario.harness.text("a summary");
                }
            }
            prop_assert_eq!(rebuilt(&scenario.harness),
                scenario.harness.last_request().split_off(1));
        } else {
            let asked = scenario.harness.last_request();
            let summarised = scenario.harness.notices().contains(&"context_summarised");
            for n in (1..=scenario.steers).filter(|_| !summarised) {
                prop_assert_eq!(asked.iter().filter(|m| m["content"] == format!("steer {n}")).count(), 1);
            }
            prop_assert_eq!(&asked[1..asked.len() - 1], &before[..]);
            next.prompt(asked[asked.len() - 1]["content"].as_str().unwrap());
            prop_assert_eq!(next.last_request(), asked);
        }
    }
    /// The same for a loop with all its features: hooks, verification, approvals.
    #[test]
    fn loop_ends_its_turns_and_makes_no_unapproved_call(
        mode in prop_oneof![Just("auto"), Just("plan"), Just("approve")],
        asks in any::<bool>(),
        all in proptest::collection::vec(action(), 1..80),
    ) {
        let spec = spec(&[("mode", mode), ("max_turns", "8")]).attendance(if asks { Attendance::Attended } else {
            Attendance::Unattended });
        let looping = json!({"verifies": true, "hooks": true, "mutating": ["write_file", "weather"]});
        let mut scenario = Scenario::on(Harness::with_loop(&spec, &looping));
        scenario.unattended = !asks;
        for action in &all {
            scenario.go(action);
            prop_assert!(scenario.harness.ended().len() <= scenario.prompts, "a turn ended twice");
        }
        scenario.finish();
        check(&scenario)?;
        // A tool that changes something runs only with approval: in this turn, or by "approve" in
        // the next one.
        let commanded =
            scenario.harness.commands().into_iter().flat_map(|command| command["tools"].as_array(
            ).cloned().unwrap_or_default());
        for tool in commanded.filter(|tool| tool["refused"].is_null() && ["write_file",
            "weather"].contains(&tool["name"].as_str().unwrap())) {
            let id = tool["id"].as_str().unwrap();
            let allowed = scenario.allowed.contains(id);
            let approved = count(&scenario.harness.events, |kind| matches!(kind,
                EventKind::Permission(p) if p.id == id && p.by == DecidedBy::Person)) == 1;
            prop_assert!(mode == "auto" || (mode == "approve" && (allowed || approved)), "{mode} {tool}");
        }
        // Another process would resume with the same state.
        let (before, mut next) = (rebuilt(&scenario.harness), scenario.harness.resumed_loop(&spec,
            &looping));
        scenario.prompts += 1;
        let pending = scenario.harness.pending_calls();
        if pending.is_empty() {
            scenario.harness.prompt("go on");
            next.prompt("go on");
        } else {
            scenario.harness.approve(pending.clone());
            next.approve(pending);
        }
        let tail = |harness: &Harness| harness.commands().last().cloned();
        let (here, there) = (tail(&scenario.harness), tail(&next));
        prop_assert_eq!(here.as_ref().map(|o| o.get("tools").cloned()),
            there.as_ref().map(|o| o.get("tools").cloned()));
        if here.as_ref().is_some_and(|command| command.get("hook").is_some()) {
            scenario.harness.feed(&flow(0));
            next.feed(&flow(0));
            let asked = scenario.harness.last_request();
            prop_assert_eq!(&asked[1..asked.len() - 1], &before[..]);
            prop_assert_eq!(next.last_request(), asked);
        }
    }
}
