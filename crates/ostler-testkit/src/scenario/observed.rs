//! Observed results of a run: its events, and the invariants of every event stream.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use ostler_core::event::Timestamp;
use serde_json::{Value, json};

use super::Subject;
use crate::model::Usage;

/// Observed results of a run.
#[derive(Debug)]
pub struct Observed {
    /// The agent under test.
    pub subject: &'static Subject,
    /// The events, as JSON.
    pub events: Vec<Value>,
    /// Exit code of the program; `None` for the library.
    pub exit: Option<i32>,
    /// Token counts of all answers that the model server sent during the run; empty when a
    /// recording is replayed.
    pub served: Vec<Usage>,
}

impl Observed {
    /// Returns the session's id.
    #[must_use]
    pub fn session(&self) -> &str {
        text(&self.events[0], "/session")
    }

    /// Returns the events of a kind.
    #[must_use]
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    /// Returns the only event of a kind.
    ///
    /// # Panics
    /// If there is none, or more than one.
    #[must_use]
    pub fn one(&self, kind: &str) -> &Value {
        let found = self.all(kind);
        assert_eq!(
            found.len(),
            1,
            "one {kind} was expected: {:#?}",
            self.story()
        );
        found[0]
    }

    /// Returns the time of the only event of a kind, since the epoch.
    ///
    /// # Panics
    /// If there is none, or more than one, or its time cannot be parsed.
    #[must_use]
    pub fn at(&self, kind: &str) -> Duration {
        let at: Timestamp = text(self.one(kind), "/at").parse().expect("a time");
        Duration::from_millis(u64::try_from(at.0).expect("a time after the epoch"))
    }

    /// Returns the answer of the last turn.
    #[must_use]
    pub fn answer(&self) -> &str {
        self.all("turn_ended")
            .last()
            .map_or("", |turn| text(turn, "/text"))
    }

    /// Returns the `started` event; an agent that learns more by the end emits a second one.
    ///
    /// # Panics
    /// If there is none, or a second one adds nothing.
    #[must_use]
    pub fn started(&self) -> &Value {
        let found = self.all("started");
        let more = found
            .windows(2)
            .all(|pair| pair[0]["native_session"] != pair[1]["native_session"]);
        assert!(!found.is_empty() && more, "{:#?}", self.story());
        found[found.len() - 1]
    }

    /// Returns the agent's own id of the session.
    #[must_use]
    pub fn native(&self) -> String {
        text(self.started(), "/native_session").to_owned()
    }

    /// Returns the outcome of the session.
    #[must_use]
    pub fn outcome(&self) -> &Value {
        &self.one("ended")["outcome"]
    }

    /// Checks how the session and its last turn ended, and the program's exit code.
    ///
    /// # Panics
    /// If they differ.
    pub fn assert_ended(&self, cause: &str, exit: i32) {
        assert_eq!(self.outcome()["cause"], cause, "{:#}", self.outcome());
        assert_eq!(
            self.all("turn_ended")
                .last()
                .map(|turn| &turn["outcome"]["cause"]),
            Some(&json!(cause))
        );
        if let Some(code) = self.exit {
            assert_eq!(code, exit, "the exit code for {cause}");
        }
        if cause != "completed" {
            assert_ne!(
                text(self.outcome(), "/message"),
                "",
                "a failure has a message"
            );
        }
    }

    /// Checks that these model answers, numbered from 1, were counted once each, and the cost if
    /// the agent knows it. The last of them is the last one served.
    ///
    /// # Panics
    /// If the numbers differ from those that the model server sent.
    pub fn assert_usage(&self, answers: RangeInclusive<u64>) {
        self.assert_usage_by_turn(&[answers]);
    }

    /// Checks the same for each turn.
    ///
    /// # Panics
    /// If the numbers differ from those that the model server sent.
    pub fn assert_usage_by_turn(&self, turns: &[RangeInclusive<u64>]) {
        self.assert_tokens_by_turn(turns);
        let ended = self.one("ended");
        assert_eq!(
            ended["usage"]["cost_source"], self.subject.numbers.cost_source,
            "{ended}"
        );
        for event in self.all("turn_ended").into_iter().chain([ended]) {
            let (reported, wanted) = (
                event["usage"]["cost_usd"].as_f64(),
                self.subject.numbers.cost(tokens(&event["usage"])),
            );
            let is_exact = match (reported, wanted) {
                (Some(reported), Some(wanted)) => (reported - wanted).abs() < 1e-9,
                (reported, wanted) => reported.is_none() && wanted.is_none(),
            };
            assert!(is_exact, "a cost of {wanted:?} in {event}");
        }
    }

    /// Checks that these model answers, numbered from 1, were counted once each. The last of them
    /// is the last one served.
    ///
    /// # Panics
    /// If the numbers differ from those that the model server sent.
    pub fn assert_tokens(&self, answers: RangeInclusive<u64>) {
        self.assert_tokens_by_turn(&[answers]);
    }

    fn assert_tokens_by_turn(&self, turns: &[RangeInclusive<u64>]) {
        let served: Vec<Usage> = turns
            .iter()
            .flat_map(|answers| self.answers(answers.clone()))
            .collect();
        let last = turns.last().map_or(0, |answers| *answers.end());
        assert!(
            self.served.is_empty() || self.served.len() as u64 == last,
            "answers were served: {:?}",
            self.served
        );
        let wanted: Vec<[u64; 4]> = turns
            .iter()
            .map(|answers| self.subject.numbers.sum(&self.answers(answers.clone())))
            .collect();
        let reported: Vec<[u64; 4]> = self
            .all("turn_ended")
            .iter()
            .map(|turn| tokens(&turn["usage"]))
            .collect();
        assert_eq!(reported, wanted, "tokens of each turn");
        let wanted = self.subject.numbers.sum(&served);
        assert_eq!(
            tokens(&self.one("ended")["usage"]),
            wanted,
            "tokens of the session"
        );
        let session = self
            .all("usage")
            .into_iter()
            .rfind(|usage| usage["scope"] == "session");
        assert_eq!(
            session.map(tokens),
            Some(wanted),
            "the last usage event of the session"
        );
    }

    /// Returns the counts of these answers, numbered from 1: as served, or as recorded.
    pub(super) fn answers(&self, numbers: RangeInclusive<u64>) -> Vec<Usage> {
        let counts = |nth: u64| {
            self.served
                .get(usize::try_from(nth - 1).unwrap_or(usize::MAX))
                .copied()
        };
        numbers
            .map(|nth| counts(nth).unwrap_or_else(|| Usage::of_nth(nth)))
            .collect()
    }

    /// Returns a short summary of each event; deltas of a text count as one. Omits usage during a
    /// turn, because its order relative to tool results is random, and sandbox notices, which
    /// depend on the machine.
    #[must_use]
    pub fn story(&self) -> Vec<String> {
        let summarize = |(at, event): (usize, &Value)| {
            let is_random = event["type"] == "usage" && !self.is_last_usage_of_turn(at);
            let is_machine_specific = text(event, "/code").starts_with("sandbox_");
            (!is_random && !is_machine_specific).then(|| summary(event))
        };
        let mut story: Vec<String> = self
            .events
            .iter()
            .enumerate()
            .filter_map(summarize)
            .collect();
        story.dedup_by(|b, a| a == b && a.ends_with('…'));
        story
    }

    /// Returns true if the usage event at this index is the last of its scope before its turn
    /// ends.
    pub(super) fn is_last_usage_of_turn(&self, at: usize) -> bool {
        let mut after = self.events[at + 1..].iter().skip_while(|event| {
            event["type"] == "usage" && event["scope"] != self.events[at]["scope"]
        });
        after
            .next()
            .is_some_and(|next| next["type"] == "turn_ended")
    }

    /// Checks the invariants of every run.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        for (event, seq) in self.events.iter().zip(1_u64..) {
            assert_eq!(event["seq"], seq, "sequence numbers without a gap");
            assert_eq!(event["session"], self.session());
        }
        let story = self.story();
        let count = |kind: &str| self.all(kind).len();
        assert!(
            self.events
                .last()
                .is_some_and(|last| last["type"] == "ended")
                && count("ended") == 1,
            "{story:#?}"
        );
        assert_eq!(count("turn_started"), count("turn_ended"), "{story:#?}");
        let mut open = false;
        for event in &self.events {
            match text(event, "/type") {
                "turn_started" => assert!(
                    !std::mem::replace(&mut open, true),
                    "nested turns: {story:#?}"
                ),
                "turn_ended" => {
                    assert!(std::mem::take(&mut open), "a turn ended twice: {story:#?}");
                }
                _ => {}
            }
        }
        self.check_tools();
    }

    /// Checks that everything the agent wrote was understood.
    ///
    /// # Panics
    /// If it was not.
    pub fn check_understood(&self) {
        // The version is pinned, so an unknown line is a missing case in the dialect.
        let not_understood =
            |event: &&Value| event["type"] == "unreadable" || event["code"] == "unknown_message";
        assert_eq!(self.events.iter().find(not_understood), None);
    }

    fn check_tools(&self) {
        let mut open = BTreeSet::new();
        for event in &self.events {
            let id = text(event, "/id");
            match text(event, "/type") {
                "tool_call" => assert!(open.insert(id), "{id} is called twice"),
                "tool_result" => assert!(open.remove(id), "{id} has no call before it"),
                _ => {}
            }
        }
        assert_eq!(open, BTreeSet::new(), "calls without a result");
    }
}

/// Returns the tokens of a usage: input, cache writes, cache reads, output.
fn tokens(usage: &Value) -> [u64; 4] {
    ["input", "cache_write", "cache_read", "output"].map(|name| usage[name].as_u64().unwrap_or(0))
}

/// Summarizes one event.
fn summary(event: &Value) -> String {
    let part = |pointer: &str| text(event, pointer);
    match part("/type") {
        "state" => format!("is {}", part("/to")),
        "turn_started" => format!("turn of the {}", part("/origin")),
        "text" if event["delta"] == true => format!("{}…", part("/kind")),
        "text" => part("/kind").to_owned(),
        "tool_call" => format!("calls {}", part("/name")),
        "tool_result" => {
            let how = match (event["ok"] == true, event["denied"] == true) {
                (true, _) => "ok",
                (false, true) => "denied",
                (false, false) => "failed",
            };
            format!("{} {how}", part("/name"))
        }
        "permission" => format!("{} {}", part("/tool"), part("/decision")),
        "usage" => format!("usage of the {}", part("/scope")),
        "notice" => format!("notice {}", part("/code")),
        kind @ ("turn_ended" | "ended") => format!("{kind} {}", part("/outcome/cause")),
        kind => kind.to_owned(),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
