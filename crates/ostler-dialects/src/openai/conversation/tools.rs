//! The model's tool calls: what is told of them, ordered, and heard back.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{DecidedBy, Decision, Permission, ToolResult};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::{NOBODY, Otherwise, PermissionRequest, Verdict};

use super::looping::{Next, called};
use super::{ModelConversation, Phase, order};
use crate::openai::calls::Call;
use crate::openai::history::Message;
use crate::openai::orders::{self, Order, ToolOrder, When};
use crate::openai::rebuild::WAITS;
use crate::openai::tool_use;

/// Tool calls that wait for the decision whether they may run.
pub(super) struct Asking {
    pub(super) calls: Vec<Call>,
    /// Those that are not decided.
    pub(super) open: Vec<String>,
}

/// What a running tool waits for: a person's approval of the change of files.
pub(super) struct Approval {
    /// The call.
    pub(super) id: String,
    /// The files, relative to the workspace.
    pub(super) paths: Vec<String>,
    /// What the model is told if nobody approves it.
    pub(super) output: String,
}

impl ModelConversation {
    pub(super) fn work(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        calls.iter().for_each(|call| out.event(called(call)));
        if self.turn.steps >= self.plan.max_turns {
            return self.end(self.too_many_steps(), None, out);
        }
        if let Some(outcome) = self.too_many_calls(calls.len()) {
            return self.end(outcome, None, out);
        }
        self.permitted(calls, out);
    }

    /// Has the tools run once it is known which of them may.
    pub(super) fn permitted(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        self.only_planned(&calls, out);
        let asks = self.plan.asks || calls.iter().any(|call| self.needs_approval(call));
        let open = if asks {
            self.inquire(&calls, out)
        } else {
            Vec::new()
        };
        if open.is_empty() {
            self.run(calls, out)
        } else {
            self.phase = Phase::Asking(Asking { calls, open })
        }
    }

    /// Asks whether the tools may run, all at once. What cannot run anyway is not worth a question.
    fn inquire(&self, calls: &[Call], out: &mut Outbox) -> Vec<String> {
        let exists = |call: &&Call| {
            self.ready
                .iter()
                .flat_map(|r| &r.tools)
                .any(|tool| tool.name == call.name)
        };
        let mut open = Vec::new();
        for call in calls
            .iter()
            .filter(exists)
            .filter(|call| !self.turn.refused.contains_key(&call.id))
        {
            let Ok(input) = call.input() else { continue };
            let wants = tool_use(&call.name, &input);
            let person = self.plan.somebody && self.needs_approval(call);
            let otherwise = if person {
                Otherwise::Person
            } else {
                Otherwise::Agent
            };
            let (id, input) = (call.id.clone(), Some(input));
            out.push(FromConversation::Ask(PermissionRequest {
                call: Some(id.clone()),
                id,
                input,
                wants,
                otherwise,
            }));
            open.push(call.id.clone());
        }
        open
    }

    pub(super) fn verdict(&mut self, id: &str, verdict: Verdict, out: &mut Outbox) {
        if let Some(approval) = self.turn.approvals.remove(id) {
            return self.approval_decided(approval, &verdict, out);
        }
        let Phase::Asking(Asking { calls, open }) = &mut self.phase else {
            return;
        };
        let Some(at) = open.iter().position(|open| open == id) else {
            return;
        };
        open.remove(at);
        // No rule allows it, or one wants a person asked, and nobody is there.
        let waits = verdict == Verdict::Undecided
            || matches!(&verdict, Verdict::Deny(why) if why == NOBODY);
        let waiting = calls.iter().find(|call| waits && call.id == id).cloned();
        let all = open.is_empty().then(|| std::mem::take(calls));
        let waiting = waiting.filter(|call| self.needs_approval(call));
        if let (Verdict::Deny(why), None) = (verdict, &waiting) {
            let told = if why.is_empty() {
                "denied".to_owned()
            } else {
                format!("denied: {why}")
            };
            self.turn.refused.insert(id.to_owned(), told);
        }
        self.pending.extend(waiting);
        if let Some(calls) = all {
            // In the model's order, whoever was decided first.
            self.pending
                .sort_by_key(|pending| calls.iter().position(|call| call.id == pending.id));
            self.run(calls, out);
        }
    }

    /// A running tool would change files that other programs act on: a person is asked, whatever the rules allow.
    pub(super) fn approval(&mut self, approval: Approval, out: &mut Outbox) {
        let Phase::Working(calls) = &self.phase else {
            return;
        };
        let Some(call) = calls.iter().find(|call| call.id == approval.id) else {
            return;
        };
        let Ok(input) = call.input() else { return };
        let mut wants = tool_use(&call.name, &input);
        // The files that would really change, with links resolved.
        wants.paths.clone_from(&approval.paths);
        let ask = format!("{}:approval", call.id);
        let (call, input, otherwise) =
            (Some(call.id.clone()), Some(input), Otherwise::PersonAlways);
        out.push(FromConversation::Ask(PermissionRequest {
            call,
            id: ask.clone(),
            input,
            wants,
            otherwise,
        }));
        self.turn.approvals.insert(ask, approval);
    }

    /// What a person said to it, or a rule that denies it. The call is made again, or is over.
    fn approval_decided(&mut self, approval: Approval, verdict: &Verdict, out: &mut Outbox) {
        let Phase::Working(calls) = &self.phase else {
            return;
        };
        let Some(call) = calls.iter().find(|call| call.id == approval.id) else {
            return;
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        let Ok(input) = call.input() else { return };
        let (refused, approved) = match verdict {
            Verdict::Allow => (None, approval.paths),
            Verdict::Deny(why) if why != NOBODY && !why.is_empty() => {
                (Some(format!("denied: {why}")), Vec::new())
            }
            _ => (Some(approval.output), Vec::new()),
        };
        if let Some(refused) = &refused {
            self.turn.refused.insert(id.clone(), refused.clone());
        }
        order(
            &Order::Approved(ToolOrder {
                id,
                name,
                input,
                refused,
                approved,
            }),
            out,
        );
    }

    /// Has the tools run, as far as they may.
    fn run(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        let mut orders = Vec::new();
        let mut wrong = Vec::new();
        for call in &calls {
            let (id, name) = (call.id.clone(), call.name.clone());
            match call.input() {
                // In place of its result: it is made when somebody has approved it.
                Ok(_) if self.pending.iter().any(|pending| pending.id == id) => {
                    wrong.push(orders::Outcome { id, ok: false, denied: false, output: WAITS.to_owned() });
                }
                Ok(input) => {
                    let refused = self.turn.refused.get(&id).cloned();
                    orders.push(ToolOrder { refused, id, name, input, approved: Vec::new() });
                }
                Err(why) => wrong.push(orders::Outcome {
                    id: call.id.clone(),
                    ok: false,
                    denied: false,
                    output: format!("bad_arguments: the arguments are not a JSON object ({why}). Call the tool again."),
                }),
            }
        }
        self.phase = Phase::Working(calls);
        if !orders.is_empty() {
            order(&Order::Tools(orders), out);
        }
        for outcome in wrong {
            self.result(outcome, out);
        }
    }

    pub(super) fn result(&mut self, outcome: orders::Outcome, out: &mut Outbox) {
        let (Phase::Working(calls) | Phase::Cancelling(calls)) = &mut self.phase else {
            return;
        };
        let Some(at) = calls.iter().position(|call| call.id == outcome.id) else {
            return;
        };
        let call = calls.remove(at);
        let orders::Outcome {
            id,
            ok,
            denied,
            output,
        } = outcome;
        if denied && !self.turn.denied.contains(&call.name) {
            self.turn.denied.push(call.name.clone());
        }
        // What the session decided it has told already.
        if denied && !self.turn.refused.contains_key(&id) {
            out.event(Permission {
                id: id.clone(),
                tool: call.name.clone(),
                kind: None,
                input: call.input().ok(),
                decision: Decision::Denied,
                by: DecidedBy::Rule,
                message: Some(output.clone()),
            });
        }
        self.note_result(ok, denied || output == WAITS);
        self.history.push(Message::Tool {
            id: id.clone(),
            text: output.clone(),
        });
        out.event(ToolResult {
            id,
            name: Some(call.name),
            ok,
            output,
            denied,
            content: None,
        });
        if matches!(&self.phase, Phase::Working(calls) if calls.is_empty()) {
            let ending = self.tools_failed().or_else(|| self.needs_input());
            match ending {
                Some(outcome) => self.end(outcome, None, out),
                None => self.hook(When::After, Next::Round, out),
            }
        }
    }

    /// What the turn has used so far: between two answers, so that a limit on money can end it.
    pub(super) fn tell_usage(&self, out: &mut Outbox) {
        self.turn
            .bill
            .usage()
            .into_iter()
            .for_each(|usage| out.event(usage));
    }

    pub(super) fn too_many_steps(&self) -> Outcome {
        let message = format!("The model wanted to go on after {} steps.", self.turn.steps);
        let flag = if self.looping().is_some() {
            "--max-iterations"
        } else {
            "--max-turns"
        };
        Outcome::new(Cause::TurnLimit, message).hint(format!(
            "Allow more steps ({flag}), or give a smaller task."
        ))
    }
}
