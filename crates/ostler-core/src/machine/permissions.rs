//! Permission requests: decided by rules, by a person, or denied if the session is unattended.
//! Every decision is an event.

use std::collections::{BTreeSet, VecDeque};

use super::request::{CallerRequest, Completion, refused};
use super::{Machine, PermissionAnswer};
use crate::dialect::{Action, ToAgent};
use crate::event::{
    DecidedBy, Decision, EventKind, Level, Notice, NoticeCode, Permission, RefusalCode, RequestKind,
};
use crate::permission::{
    Fallback, PermissionRequest, Policy, PolicyAction, PolicyDecision, ToolUse, UNATTENDED_DENIAL,
    Verdict,
};
use crate::spec::Attendance;

/// Number of decided requests that are remembered, to distinguish a late answer from an unknown
/// one.
const REMEMBERED: usize = 1000;

/// Permission state of a session.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    policy: Option<Policy>,
    workspace: String,
    attended: bool,
    /// Requests that wait for a person, each with the id of its event.
    open: Vec<(String, PermissionRequest)>,
    decided: VecDeque<String>,
    /// Requests that a person allowed for the rest of the session.
    granted: Vec<PermissionRequest>,
    /// Tool calls that need a decision before their result.
    undecided_calls: BTreeSet<String>,
}

impl Permissions {
    pub(super) fn new(policy: Option<Policy>, workspace: String, attendance: Attendance) -> Self {
        Self {
            policy,
            workspace,
            attended: attendance == Attendance::Attended,
            ..Self::default()
        }
    }

    fn rule(&self, wants: &ToolUse) -> PolicyDecision {
        match &self.policy {
            Some(policy) => policy.decide(wants, &self.workspace),
            None => PolicyDecision {
                action: PolicyAction::Undecided,
                rule: None,
            },
        }
    }

    /// Like [`Self::rule`], but also applies grants for the rest of the session. A grant answers a
    /// request, and overrides no rule.
    fn rule_or_grant(&self, ask: &PermissionRequest) -> PolicyDecision {
        let ruling = self.rule(&ask.wants);
        let open = matches!(
            (&ruling.action, ask.fallback),
            (PolicyAction::Ask | PolicyAction::Undecided, _)
                | (PolicyAction::Allow, Fallback::PersonAlways)
        );
        if open && self.granted.iter().any(|granted| covers(granted, ask)) {
            return PolicyDecision {
                action: PolicyAction::Allow,
                rule: None,
            };
        }
        ruling
    }

    /// Records a tool call. If the policy does not allow it, a decision must precede its result.
    pub(super) fn on_tool_called(&mut self, call: String, wants: &ToolUse) {
        if matches!(
            self.rule(wants).action,
            PolicyAction::Deny(_) | PolicyAction::Ask
        ) && !self.decided.contains(&call)
        {
            self.undecided_calls.insert(call);
        }
    }

    /// Forgets calls without a result at the end of their turn: they will not get one.
    pub(super) fn forget_undecided_calls(&mut self) {
        self.undecided_calls.clear();
    }

    /// Returns a notice if a tool ran although the policy does not allow it and no permission was
    /// requested.
    pub(super) fn bypassed(&mut self, kind: &EventKind) -> Option<Notice> {
        match kind {
            EventKind::Permission(permission) if permission.decision != Decision::Asked => {
                self.undecided_calls.remove(&permission.id);
                None
            }
            EventKind::ToolResult(result)
                if self.undecided_calls.remove(&result.id) && result.ok =>
            {
                let tool = result.name.as_deref().unwrap_or("a tool");
                let message = format!(
                    "The agent ran {tool} ({}) without asking, although the policy does not allow it.",
                    result.id
                );
                Some(Notice::new(Level::Error, NoticeCode::PolicyBypass, message))
            }
            _ => None,
        }
    }

    fn mark_decided(&mut self, id: &str) {
        self.undecided_calls.remove(id);
        self.decided.push_back(id.to_owned());
        if self.decided.len() > REMEMBERED {
            self.decided.pop_front();
        }
    }
}

/// A decision on a permission request.
struct PermissionDecision {
    id: String,
    ask: PermissionRequest,
    verdict: Verdict,
    message: Option<String>,
    by: DecidedBy,
}

/// Returns true if a grant covers a request: the same command, the same files, or otherwise the
/// same arguments.
fn covers(granted: &PermissionRequest, ask: &PermissionRequest) -> bool {
    let (before, now) = (&granted.wants, &ask.wants);
    let is_known = now.command.is_some() || !now.paths.is_empty();
    before == now && (is_known || granted.input == ask.input)
}

impl Machine {
    pub(super) fn on_permission_requested(&mut self, ask: PermissionRequest) {
        let id = self.event_id(&ask);
        let PolicyDecision { action, rule } = self.permissions.rule_or_grant(&ask);
        // A grant has no rule: it comes from a person, and answers every request.
        let is_rule = rule.is_some();
        let is_ask = match (&action, ask.fallback) {
            (PolicyAction::Ask, _)
            | (PolicyAction::Undecided, Fallback::Person | Fallback::PersonAlways) => true,
            (PolicyAction::Allow, Fallback::PersonAlways) => is_rule,
            _ => false,
        };
        let (verdict, message, by) = match action {
            PolicyAction::Allow if !is_ask => (
                Verdict::Allow,
                rule.clone(),
                rule.map_or(DecidedBy::Person, |_| DecidedBy::Rule),
            ),
            PolicyAction::Deny(why) => {
                let message = rule.map_or_else(|| why.clone(), |rule| format!("{why} ({rule})"));
                (Verdict::Deny(why), Some(message), DecidedBy::Rule)
            }
            _ if is_ask && self.permissions.attended => {
                let asked = permission(&id, &ask, Decision::Asked, rule, DecidedBy::Default);
                self.step.push(Action::AskHandler(asked.clone()));
                self.emit_permission(asked);
                return self.permissions.open.push((id, ask));
            }
            _ if is_ask => (
                Verdict::Deny(UNATTENDED_DENIAL.to_owned()),
                Some(UNATTENDED_DENIAL.to_owned()),
                DecidedBy::Default,
            ),
            _ => {
                return self.step.push(ToAgent::Verdict {
                    id: ask.id,
                    verdict: Verdict::Undecided,
                });
            }
        };
        self.decide(PermissionDecision {
            id,
            ask,
            verdict,
            message,
            by,
        });
    }

    /// Returns an id that no other request has, so that an answer cannot reach another request than
    /// the one that was shown: the id of the tool call, that of the request, or one with a number.
    /// The agent chooses the first two, and may choose the same one twice.
    fn event_id(&self, ask: &PermissionRequest) -> String {
        let permissions = &self.permissions;
        let is_free = |id: &str| {
            !permissions.open.iter().any(|(open, _)| open == id)
                && !permissions.decided.iter().any(|decided| decided == id)
        };
        let own = ask.call.iter().chain([&ask.id]).cloned();
        let numbered = (2_u64..).map(|number| format!("{}#{number}", ask.id));
        let mut ids = own.chain(numbered);
        ids.find(|id| is_free(id)).unwrap_or_default()
    }

    fn decide(&mut self, decided: PermissionDecision) {
        let PermissionDecision {
            id,
            ask,
            verdict,
            message,
            by,
        } = decided;
        let decision = if verdict == Verdict::Allow {
            Decision::Allowed
        } else {
            Decision::Denied
        };
        self.permissions.mark_decided(&id);
        if let Some(call) = ask.call.as_ref().filter(|call| **call != id) {
            self.permissions.mark_decided(call);
        }
        self.emit_permission(permission(&id, &ask, decision, message, by));
        self.step.push(ToAgent::Verdict {
            id: ask.id,
            verdict,
        });
    }

    fn emit_permission(&mut self, permission: Permission) {
        let kind = EventKind::from(permission);
        if let Some(turn) = self.life.turn_mut() {
            turn.record(self.step.now, &kind);
        }
        self.emit(kind);
    }

    pub(super) fn on_permission_answered(
        &mut self,
        id: &str,
        answer: PermissionAnswer,
        request: Option<CallerRequest>,
    ) {
        let Some(at) = self
            .permissions
            .open
            .iter()
            .position(|(open, _)| open == id)
        else {
            let late = self.permissions.decided.iter().any(|decided| decided == id);
            let (code, why) = if late {
                (RefusalCode::Decided, "it was already decided")
            } else {
                (RefusalCode::Unknown, "there is no such permission request")
            };
            let refused = refused(RequestKind::Answer, code, why);
            return match request {
                Some(request) => self.refuse_request(request, refused),
                None => self.emit(refused),
            };
        };
        if let Some(request) = request {
            self.step.complete(request, Completion::Done);
        }
        let (id, ask) = self.permissions.open.remove(at);
        self.step.push(Action::CancelAsk(id.clone()));
        let (verdict, message) = match answer {
            PermissionAnswer::Allow => (Verdict::Allow, None),
            PermissionAnswer::AllowAlways => {
                self.permissions.granted.push(ask.clone());
                (
                    Verdict::Allow,
                    Some("for the rest of the session".to_owned()),
                )
            }
            PermissionAnswer::Deny(why) => (Verdict::Deny(why.clone()), Some(why)),
        };
        self.decide(PermissionDecision {
            id,
            ask,
            verdict,
            message,
            by: DecidedBy::Person,
        });
    }

    pub(super) fn on_permission_withdrawn(&mut self, ask_id: &str) {
        let Some(at) = self
            .permissions
            .open
            .iter()
            .position(|(_, ask)| ask.id == ask_id)
        else {
            return;
        };
        let (id, ask) = self.permissions.open.remove(at);
        self.step.push(Action::CancelAsk(id.clone()));
        self.permissions.mark_decided(&id);
        let why = Some("the agent withdrew the request".to_owned());
        self.emit_permission(permission(
            &id,
            &ask,
            Decision::Denied,
            why,
            DecidedBy::Agent,
        ));
    }

    /// Denies all open requests, because the turn is over. Later answers are refused.
    pub(super) fn withdraw_all(&mut self) {
        for (id, ask) in std::mem::take(&mut self.permissions.open) {
            self.permissions.mark_decided(&id);
            self.step.push(Action::CancelAsk(id.clone()));
            let why = "no answer: the turn ended".to_owned();
            self.emit(permission(
                &id,
                &ask,
                Decision::Denied,
                Some(why.clone()),
                DecidedBy::Default,
            ));
            if self.life.process().is_some() {
                // The requester may still be waiting, for example a subagent in the background.
                self.step.push(ToAgent::Verdict {
                    id: ask.id,
                    verdict: Verdict::Deny(why),
                });
            }
        }
    }
}

fn permission(
    id: &str,
    ask: &PermissionRequest,
    decision: Decision,
    message: Option<String>,
    by: DecidedBy,
) -> Permission {
    let (tool, kind) = (ask.wants.tool.clone(), Some(ask.wants.kind));
    Permission {
        id: id.to_owned(),
        tool,
        kind,
        input: ask.input.clone(),
        decision,
        by,
        message,
    }
}
