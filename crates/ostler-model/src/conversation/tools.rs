//! The model's tool calls: permissions, execution and results.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Decision, ToolResult};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::{Fallback, PermissionRequest, UNATTENDED_DENIAL, Verdict};
use ostler_core::raw_json::RawJson;

use super::agent_loop::{Next, decision_event, tool_call_event};
use super::{ModelConversation, Phase, send_command};
use crate::calls::Call;
use crate::history::Entry;
use crate::rebuild::AWAITING_APPROVAL;
use crate::runner_protocol::{RunnerCommand, ToolJob, ToolOutcome, When};
use crate::tool_use;

/// Tool calls that wait for a decision.
pub(super) struct UndecidedCalls {
    pub(super) calls: Vec<Call>,
    /// Ids of the undecided calls.
    pub(super) open: Vec<String>,
}

/// A running tool that waits for a person to approve changes to files.
pub(super) struct Approval {
    /// Id of the call.
    pub(super) id: String,
    /// The files, relative to the workspace.
    pub(super) paths: Vec<String>,
    /// Message for the model if the change is not approved.
    pub(super) output: String,
}

impl ModelConversation {
    pub(super) fn on_tool_calls(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        out.events(calls.iter().map(tool_call_event));
        if self.turn.steps >= self.config.max_turns {
            return self.end(self.too_many_steps(), None, out);
        }
        if let Some(outcome) = self.too_many_calls(calls.len()) {
            return self.end(outcome, None, out);
        }
        self.decide_calls(calls, out);
    }

    /// Runs the tools once it is decided which of them may run.
    pub(super) fn decide_calls(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        self.deny_in_plan_mode(&calls, out);
        let asks =
            self.config.checks_permissions || calls.iter().any(|call| self.needs_approval(call));
        let open = if asks {
            self.request_permissions(&calls, out)
        } else {
            Vec::new()
        };
        if open.is_empty() {
            self.run(calls, out);
        } else {
            self.phase = Phase::Deciding(UndecidedCalls { calls, open });
        }
    }

    /// Requests permission for all tools at once. Calls that cannot run anyway are skipped.
    fn request_permissions(&self, calls: &[Call], out: &mut Outbox) -> Vec<String> {
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
            let person = self.config.attended && self.needs_approval(call);
            let fallback = if person {
                Fallback::Person
            } else {
                Fallback::Agent
            };
            let (id, input) = (call.id.clone(), Some(input));
            out.push(PermissionRequest {
                call: Some(id.clone()),
                id,
                input,
                wants,
                fallback,
            });
            open.push(call.id.clone());
        }
        open
    }

    pub(super) fn on_verdict(&mut self, id: &str, verdict: Verdict, out: &mut Outbox) {
        if let Some(approval) = self.turn.approvals.remove(id) {
            return self.on_approval_decided(approval, &verdict, out);
        }
        let Phase::Deciding(UndecidedCalls { calls, open }) = &mut self.phase else {
            return;
        };
        let Some(at) = open.iter().position(|open| open == id) else {
            return;
        };
        open.remove(at);
        // No rule allows the call, or a rule requires a person and the session is unattended.
        let waits = verdict == Verdict::Undecided
            || matches!(&verdict, Verdict::Deny(why) if why == UNATTENDED_DENIAL);
        let waiting = calls.iter().find(|call| waits && call.id == id).cloned();
        let all = open.is_empty().then(|| std::mem::take(calls));
        let waiting = waiting.filter(|call| self.needs_approval(call));
        if let (Verdict::Deny(why), None) = (verdict, &waiting) {
            let message_to_model = if why.is_empty() {
                "denied".to_owned()
            } else {
                format!("denied: {why}")
            };
            self.turn.refused.insert(id.to_owned(), message_to_model);
        }
        self.pending.extend(waiting);
        if let Some(calls) = all {
            // In the model's order, regardless of the order of decisions.
            self.pending
                .sort_by_key(|pending| calls.iter().position(|call| call.id == pending.id));
            self.run(calls, out);
        }
    }

    /// Returns a running call and its arguments.
    fn running_call(&self, id: &str) -> Option<(&Call, RawJson)> {
        let Phase::Working(calls) = &self.phase else {
            return None;
        };
        let call = calls.iter().find(|call| call.id == id)?;
        Some((call, call.input().ok()?))
    }

    /// Handles a tool that would change files which other programs act on: a person must approve
    /// it, whatever the policy allows.
    pub(super) fn on_approval_needed(&mut self, approval: Approval, out: &mut Outbox) {
        let Some((call, input)) = self.running_call(&approval.id) else {
            return;
        };
        let mut wants = tool_use(&call.name, &input);
        // The files that would actually change, with symlinks resolved.
        wants.paths.clone_from(&approval.paths);
        let ask = format!("{}:approval", call.id);
        let (call, input, fallback) = (Some(call.id.clone()), Some(input), Fallback::PersonAlways);
        out.push(PermissionRequest {
            call,
            id: ask.clone(),
            input,
            wants,
            fallback,
        });
        self.turn.approvals.insert(ask, approval);
    }

    /// Handles the decision of a person, or of a rule that denies the change. The call is repeated
    /// or ends.
    fn on_approval_decided(&mut self, approval: Approval, verdict: &Verdict, out: &mut Outbox) {
        let Some((call, input)) = self.running_call(&approval.id) else {
            return;
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        let (refused, approved) = match verdict {
            Verdict::Allow => (None, approval.paths),
            Verdict::Deny(why) if why != UNATTENDED_DENIAL && !why.is_empty() => {
                (Some(format!("denied: {why}")), Vec::new())
            }
            _ => (Some(approval.output), Vec::new()),
        };
        if let Some(refused) = &refused {
            self.turn.refused.insert(id.clone(), refused.clone());
        }
        send_command(
            &RunnerCommand::Approved(ToolJob {
                id,
                name,
                input,
                refused,
                approved,
            }),
            out,
        );
    }

    /// Runs the permitted tools.
    fn run(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        let (mut jobs, mut results) = (Vec::new(), Vec::new());
        let failed = |id: String, output: String| ToolOutcome {
            id,
            ok: false,
            denied: false,
            output,
        };
        for call in &calls {
            let (id, name) = (call.id.clone(), call.name.clone());
            match call.input() {
                // A placeholder result: the call runs once it is approved.
                Ok(_) if self.pending.iter().any(|pending| pending.id == id) => {
                    results.push(failed(id, AWAITING_APPROVAL.to_owned()));
                }
                Ok(input) => {
                    let refused = self.turn.refused.get(&id).cloned();
                    jobs.push(ToolJob {
                        refused,
                        id,
                        name,
                        input,
                        approved: Vec::new(),
                    });
                }
                Err(why) => {
                    let output = format!(
                        "bad_arguments: the arguments are not a JSON object ({why}). \
                         Call the tool again."
                    );
                    results.push(failed(id, output));
                }
            }
        }
        self.phase = Phase::Working(calls);
        if !jobs.is_empty() {
            send_command(&RunnerCommand::Tools(jobs), out);
        }
        for outcome in results {
            self.on_result(outcome, out);
        }
    }

    pub(super) fn on_result(&mut self, outcome: ToolOutcome, out: &mut Outbox) {
        let (Phase::Working(calls) | Phase::Cancelling(calls)) = &mut self.phase else {
            return;
        };
        let Some(at) = calls.iter().position(|call| call.id == outcome.id) else {
            return;
        };
        let call = calls.remove(at);
        let ToolOutcome {
            id,
            ok,
            denied,
            output,
        } = outcome;
        if denied && !self.turn.denied.contains(&call.name) {
            self.turn.denied.push(call.name.clone());
        }
        // The session has already emitted its own decisions.
        if denied && !self.turn.refused.contains_key(&id) {
            out.event(decision_event(
                &call,
                Decision::Denied,
                DecidedBy::Rule,
                Some(&output),
            ));
        }
        let waits = self.pending.iter().any(|pending| pending.id == id);
        self.record_result(ok, denied || waits);
        self.history.push(Entry::Tool {
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
            let ending = self.end_of_step().or_else(|| self.needs_input());
            match ending {
                Some(outcome) => self.end(outcome, None, out),
                None => self.hook(When::After, Next::Round, out),
            }
        }
    }

    /// Emits the usage of the turn so far, between answers, so that a cost limit can end it.
    pub(super) fn emit_usage(&self, out: &mut Outbox) {
        out.events(self.turn.usage.usage());
    }

    pub(super) fn too_many_steps(&self) -> Outcome {
        let message = format!("The model did not finish within {} steps.", self.turn.steps);
        let flag = if self.agent_loop().is_some() {
            "--max-iterations"
        } else {
            "--max-turns"
        };
        Outcome::new(Cause::TurnLimit, message).hint(format!(
            "Allow more steps ({flag}), or give a smaller task."
        ))
    }
}
