//! Whatever is said to a conversation, and whenever: no turn ends twice, no tool call goes without a result, no message is
//! lost, and every request is one that a server takes.

use std::collections::HashSet;

use ostler_core::dialect::{Change, FromConversation, ToAgent};
use ostler_core::event::{DecidedBy, EventKind};
use ostler_core::permission::Verdict;
use ostler_core::spec::{Attendance, Spec};
use ostler_dialects::openai::OpenAi;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::rebuild::rebuilt;
use super::stage::{Stage, spec};

/// What may happen next, if it can.
#[derive(Debug, Clone)]
enum Happens {
    Prompt,
    Steer,
    Interrupt,
    Change,
    /// On the open question of this number, or on one that is not open.
    Verdict(usize, bool),
    /// The model says something; with these calls, if any.
    Answer(Vec<(usize, bool)>),
    /// Half an answer.
    Piece,
    Failed(bool),
    /// The body has run the tool of this number.
    Ran(usize),
    Cancelled,
    /// A hook of a loop goes on, says something, or stops it.
    Flow(u8),
    /// The check of a loop passes, or not.
    Verified(bool),
    /// A person approves what waits.
    Approve,
    /// A word that nobody waits for.
    Stray(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    let calls = proptest::collection::vec((0usize..4, any::<bool>()), 0..4);
    prop_oneof![
        2 => Just(Happens::Prompt),
        2 => Just(Happens::Steer),
        1 => Just(Happens::Interrupt),
        1 => Just(Happens::Change),
        4 => (0usize..4, any::<bool>()).prop_map(|(n, yes)| Happens::Verdict(n, yes)),
        5 => calls.prop_map(Happens::Answer),
        2 => Just(Happens::Piece),
        1 => any::<bool>().prop_map(Happens::Failed),
        5 => (0usize..4).prop_map(Happens::Ran),
        3 => Just(Happens::Cancelled),
        5 => (0u8..8).prop_map(Happens::Flow),
        3 => any::<bool>().prop_map(Happens::Verified),
        2 => Just(Happens::Approve),
        1 => any::<bool>().prop_map(Happens::Stray),
    ]
}

/// A conversation with a body that keeps to the rules.
struct Play {
    stage: Stage,
    prompts: usize,
    steers: usize,
    calls: usize,
    /// What has an answer: a verdict that was given, a result that was said.
    decided: HashSet<String>,
    denied: HashSet<String>,
    allowed: HashSet<String>,
    /// Whether nobody is there who could allow anything.
    nobody: bool,
    ran: HashSet<String>,
}

impl Play {
    fn new(spec: &Spec) -> Self {
        Self::on(Stage::of(&OpenAi, spec))
    }

    fn on(mut stage: Stage) -> Self {
        let (decided, denied, allowed, ran) = (
            HashSet::new(),
            HashSet::new(),
            HashSet::new(),
            HashSet::new(),
        );
        stage.counts = true;
        Self {
            stage,
            prompts: 0,
            steers: 0,
            calls: 0,
            decided,
            denied,
            allowed,
            nobody: false,
            ran,
        }
    }

    fn in_turn(&self) -> bool {
        self.stage.ended().len() < self.prompts
    }

    /// What the body was told last, while the turn runs.
    fn order(&self) -> Value {
        if self.in_turn() {
            self.stage.orders().last().cloned().unwrap_or_default()
        } else {
            Value::Null
        }
    }

    fn open_asks(&self) -> Vec<String> {
        let withdrawn = |id: &str| {
            self.stage
                .outs
                .iter()
                .any(|out| matches!(out, FromConversation::Withdraw(w) if w == id))
        };
        let ids = self.stage.asks().into_iter().map(|ask| ask.id.clone());
        ids.filter(|id| !self.decided.contains(id) && !withdrawn(id))
            .collect()
    }

    /// Tools that the body was told to run and has not.
    fn running(&self) -> Vec<Value> {
        let order = self.order();
        let tools = order
            .get("tools")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        tools
            .into_iter()
            .filter(|tool| !self.ran.contains(tool["id"].as_str().unwrap()))
            .collect()
    }

    /// Whether the model is asked and nothing else has been decided since.
    fn is_asked(&self) -> bool {
        self.order().get("call").is_some() && self.open_asks().is_empty()
    }

    fn go(&mut self, happens: &Happens) {
        match happens {
            Happens::Prompt if !self.in_turn() => {
                self.prompts += 1;
                self.stage.say(&format!("prompt {}", self.prompts));
            }
            Happens::Steer if self.in_turn() => {
                self.steers += 1;
                self.stage.steer(&format!("steer {}", self.steers));
            }
            Happens::Interrupt => self.stage.interrupt(),
            Happens::Change => self.stage.tell(ToAgent::Change {
                id: 1,
                change: Change::Model("other".into()),
            }),
            Happens::Verdict(n, yes) => {
                let open = self.open_asks();
                let id = open.get(*n).cloned().unwrap_or_else(|| "stale".into());
                self.decided.insert(id.clone());
                if !yes {
                    self.denied.insert(id.clone());
                }
                let yes = match (yes, self.nobody) {
                    (true, true) => Verdict::Undecided,
                    (true, false) => Verdict::Allow,
                    (false, _) => Verdict::Deny("no".into()),
                };
                if yes == Verdict::Allow {
                    self.allowed.insert(id.clone());
                }
                self.stage.verdict(&id, yes);
            }
            Happens::Answer(calls) if self.is_asked() => self.answer(calls),
            Happens::Piece if self.is_asked() => {
                self.stage
                    .hear(&json!({"choices": [{"delta": {"content": "well, "}}]}));
            }
            Happens::Failed(too_long) if self.is_asked() => {
                let body = if *too_long {
                    "{\"error\":{\"code\":\"context_length_exceeded\"}}"
                } else {
                    ""
                };
                self.stage.hear(
                    &json!({"ostler": {"failed": {"kind": "status", "status": 400, "message": "no", "body": body}}}),
                );
            }
            Happens::Ran(n) => self.ran(*n),
            Happens::Approve if !self.in_turn() => {
                self.prompts += 1;
                self.stage.say("approve");
            }
            Happens::Flow(n) if self.order().get("hook").is_some() => self.stage.hear(&flow(*n)),
            Happens::Verified(yes) if self.order().get("verify").is_some() => {
                self.stage.hear(&verified(*yes))
            }
            // Written before the body heard that it should leave off.
            Happens::Stray(hook) if self.order() == "cancel" => {
                self.stage
                    .hear(&if *hook { flow(0) } else { verified(true) });
            }
            Happens::Cancelled if self.order() == "cancel" => {
                self.stage.hear(&json!({"ostler": "cancelled"}))
            }
            _ => {}
        }
    }

    fn answer(&mut self, calls: &[(usize, bool)]) {
        let is_summary = self.order()["call"].get("tools").is_none();
        if calls.is_empty() || is_summary {
            return self.stage.text("words");
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
        self.stage.calls(&list);
    }

    fn ran(&mut self, n: usize) {
        let Some(tool) = self.running().get(n).cloned() else {
            return;
        };
        let id = tool["id"].as_str().unwrap().to_owned();
        let refused = tool["refused"].as_str();
        assert!(
            refused.is_some() || !self.denied.contains(&id),
            "what is denied does not run: {tool}"
        );
        let output = refused.map_or_else(|| "x".repeat(700), str::to_owned);
        self.stage.hear(&json!({"ostler": {"result": {"id": id, "ok": refused.is_none(), "denied": refused.is_some(), "output": output}}}));
        self.ran.insert(id);
    }

    /// Brings the turn to its end, in good order.
    fn finish(&mut self) {
        for _ in 0..200 {
            let next = if !self.in_turn() {
                return;
            } else if self.order() == "cancel" {
                Happens::Cancelled
            } else if self.order().get("hook").is_some() {
                Happens::Flow(0)
            } else if self.order().get("verify").is_some() {
                Happens::Verified(true)
            } else if !self.open_asks().is_empty() {
                Happens::Verdict(0, true)
            } else if !self.running().is_empty() {
                Happens::Ran(0)
            } else {
                Happens::Answer(Vec::new())
            };
            self.go(&next);
        }
        assert!(!self.in_turn(), "the turn does not end: {:?}", self.order());
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

/// What holds whatever happened.
fn check(play: &Play) -> Result<(), TestCaseError> {
    prop_assert_eq!(play.stage.ended().len(), play.prompts);
    prop_assert!(
        play.open_asks().is_empty(),
        "every question is answered or withdrawn"
    );
    let events = &play.stage.events;
    for kind in events {
        if let EventKind::ToolCall(call) = kind {
            let results = count(
                events,
                |w| matches!(w, EventKind::ToolResult(result) if result.id == call.id),
            );
            prop_assert_eq!(results, 1, "{}", &call.id);
        }
    }
    for order in play.stage.orders() {
        if let Some(call) = order.get("call") {
            prop_assert!(is_valid(call["messages"].as_array().unwrap()), "{}", call);
        }
    }
    Ok(())
}

/// Whether each call of a request has its result, and stands before it; servers refuse anything else.
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
    fn nothing_is_lost_and_nothing_comes_twice(
        asks in any::<bool>(),
        narrow in any::<bool>(),
        all in proptest::collection::vec(happens(), 1..60),
    ) {
        let settings: &[(&str, &str)] = if narrow { &[("context_window", "1500"), ("max_turns", "6")] } else { &[] };
        let spec = Spec { attendance: if asks { Attendance::Attended } else { Attendance::Unattended }, ..spec(settings) };
        let mut play = Play::new(&spec);
        for happens in &all {
            play.go(happens);
            prop_assert!(play.stage.ended().len() <= play.prompts, "a turn ended twice");
        }
        play.finish();
        check(&play)?;
        let (mut next, before) = (play.stage.resumed(&OpenAi), rebuilt(&play.stage));
        play.go(&Happens::Prompt);
        if narrow {
            // First a summary, perhaps; then what is asked is still what the events say.
            for _ in 0..3 {
                if play.order()["call"].get("tools").is_none() {
                    play.stage.text("a summary");
                }
            }
            prop_assert_eq!(rebuilt(&play.stage), play.stage.asked().split_off(1));
        } else {
            let asked = play.stage.asked();
            let summarised = play.stage.notices().contains(&"context_summarised");
            for n in (1..=play.steers).filter(|_| !summarised) {
                prop_assert_eq!(asked.iter().filter(|m| m["content"] == format!("steer {n}")).count(), 1);
            }
            prop_assert_eq!(&asked[1..asked.len() - 1], &before[..]);
            next.say(asked[asked.len() - 1]["content"].as_str().unwrap());
            prop_assert_eq!(next.asked(), asked);
        }
    }
    /// The same for a loop with everything around it: hooks, a check, approvals.
    #[test]
    fn a_loop_ends_its_turns_and_makes_no_call_unasked(
        mode in prop_oneof![Just("auto"), Just("plan"), Just("approve")],
        asks in any::<bool>(),
        all in proptest::collection::vec(happens(), 1..80),
    ) {
        let spec = Spec { attendance: if asks { Attendance::Attended } else { Attendance::Unattended }, ..spec(&[("mode", mode), ("max_turns", "8")]) };
        let looping = json!({"verifies": true, "hooks": true, "mutating": ["write_file", "weather"]});
        let mut play = Play::on(Stage::looping(&spec, &looping));
        play.nobody = !asks;
        for happens in &all {
            play.go(happens);
            prop_assert!(play.stage.ended().len() <= play.prompts, "a turn ended twice");
        }
        play.finish();
        check(&play)?;
        // What changes something runs only when somebody said so: in this turn, or with "approve" in the next.
        let ordered = play.stage.orders().into_iter().flat_map(|order| order["tools"].as_array().cloned().unwrap_or_default());
        for tool in ordered.filter(|tool| tool["refused"].is_null() && ["write_file", "weather"].contains(&tool["name"].as_str().unwrap())) {
            let id = tool["id"].as_str().unwrap();
            let allowed = play.allowed.contains(id);
            let approved = count(&play.stage.events, |kind| matches!(kind, EventKind::Permission(p) if p.id == id && p.by == DecidedBy::Person)) == 1;
            prop_assert!(mode == "auto" || (mode == "approve" && (allowed || approved)), "{mode} {tool}");
        }
        // What another process would go on with is what this one has.
        let (before, mut next) = (rebuilt(&play.stage), play.stage.resumed_loop(&spec, &looping));
        play.prompts += 1;
        play.stage.say("approve");
        next.say("approve");
        let tail = |stage: &Stage| stage.orders().last().cloned();
        let (here, there) = (tail(&play.stage), tail(&next));
        prop_assert_eq!(here.as_ref().map(|o| o.get("tools").cloned()), there.as_ref().map(|o| o.get("tools").cloned()));
        if here.as_ref().is_some_and(|order| order.get("hook").is_some()) {
            play.stage.hear(&flow(0));
            next.hear(&flow(0));
            let asked = play.stage.asked();
            prop_assert_eq!(&asked[1..asked.len() - 1], &before[..]);
            prop_assert_eq!(next.asked(), asked);
        }
    }
}
