//! Whatever is said to a conversation, and whenever: no turn ends twice, no tool call goes without a result, no message is
//! lost, and every request is one that a server takes.

use std::collections::HashSet;

use ostler_core::dialect::{Change, Out, Say};
use ostler_core::event::What;
use ostler_core::permission::Verdict;
use ostler_core::spec::{Asks, Spec};
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
    ran: HashSet<String>,
}

impl Play {
    fn new(spec: &Spec) -> Self {
        let (decided, denied, ran) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut stage = Stage::of(&OpenAi, spec);
        stage.counts = true;
        Self { stage, prompts: 0, steers: 0, calls: 0, decided, denied, ran }
    }

    fn in_turn(&self) -> bool {
        self.stage.ended().len() < self.prompts
    }

    /// What the body was told last, while the turn runs.
    fn order(&self) -> Value {
        if self.in_turn() { self.stage.orders().last().cloned().unwrap_or_default() } else { Value::Null }
    }

    fn open_asks(&self) -> Vec<String> {
        let withdrawn = |id: &str| self.stage.outs.iter().any(|out| matches!(out, Out::Withdraw(w) if w == id));
        let ids = self.stage.asks().into_iter().map(|ask| ask.id.clone());
        ids.filter(|id| !self.decided.contains(id) && !withdrawn(id)).collect()
    }

    /// Tools that the body was told to run and has not.
    fn running(&self) -> Vec<Value> {
        let order = self.order();
        let tools = order.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        tools.into_iter().filter(|tool| !self.ran.contains(tool["id"].as_str().unwrap())).collect()
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
            Happens::Change => self.stage.tell(Say::Change { id: 1, change: Change::Model("other".into()) }),
            Happens::Verdict(n, yes) => {
                let open = self.open_asks();
                let id = open.get(*n).cloned().unwrap_or_else(|| "stale".into());
                self.decided.insert(id.clone());
                if !yes {
                    self.denied.insert(id.clone());
                }
                self.stage.verdict(&id, if *yes { Verdict::Allow } else { Verdict::Deny("no".into()) });
            }
            Happens::Answer(calls) if self.is_asked() => self.answer(calls),
            Happens::Piece if self.is_asked() => {
                self.stage.hear(&json!({"choices": [{"delta": {"content": "well, "}}]}));
            }
            Happens::Failed(too_long) if self.is_asked() => {
                let body = if *too_long { "{\"error\":{\"code\":\"context_length_exceeded\"}}" } else { "" };
                self.stage.hear(
                    &json!({"ostler": {"failed": {"kind": "status", "status": 400, "message": "no", "body": body}}}),
                );
            }
            Happens::Ran(n) => self.ran(*n),
            Happens::Cancelled if self.order() == "cancel" => self.stage.hear(&json!({"ostler": "cancelled"})),
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
        let list: Vec<_> =
            list.map(|((n, good), id)| (id.as_str(), names[*n], if *good { "{\"a\":1}" } else { "{" })).collect();
        self.stage.calls(&list);
    }

    fn ran(&mut self, n: usize) {
        let Some(tool) = self.running().get(n).cloned() else { return };
        let id = tool["id"].as_str().unwrap().to_owned();
        let refused = tool["refused"].as_str();
        assert_eq!(refused.is_some(), self.denied.contains(&id), "what is denied does not run: {tool}");
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
        open = message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str()).collect();
        settled
    }) && open.is_empty()
}

fn count(events: &[What], matches: impl Fn(&What) -> bool) -> usize {
    events.iter().filter(|what| matches(what)).count()
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
        let spec = Spec { asks: if asks { Asks::Somebody } else { Asks::Nobody }, ..spec(settings) };
        let mut play = Play::new(&spec);
        for happens in &all {
            play.go(happens);
            prop_assert!(play.stage.ended().len() <= play.prompts, "a turn ended twice");
        }
        play.finish();
        prop_assert_eq!(play.stage.ended().len(), play.prompts);
        prop_assert!(play.open_asks().is_empty(), "every question is answered or withdrawn");
        let events = &play.stage.events;
        for what in events {
            if let What::ToolCall(call) = what {
                let results = count(events, |w| matches!(w, What::ToolResult(result) if result.id == call.id));
                prop_assert_eq!(results, 1, "{}", &call.id);
            }
        }
        for order in play.stage.orders() {
            if let Some(call) = order.get("call") {
                prop_assert!(is_valid(call["messages"].as_array().unwrap()), "{}", call);
            }
        }
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
}
