//! Questions whether a tool may run: rules decide, or a person, or nobody, which is a no. Every decision is an event.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{Effect, Machine, PermissionAnswer};
use crate::dialect::ToAgent;
use crate::event::{DecidedBy, Decision, EventKind, Level, Notice, Permission};
use crate::permission::{
    NOBODY, Otherwise, PermissionRequest, Policy, Ruled, Ruling, ToolUse, Verdict,
};
use crate::spec::Attendance;

/// How many questions are remembered after they were answered, to tell a late answer from a wrong one.
const REMEMBERED: usize = 1000;

/// The questions of a session.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    policy: Option<Policy>,
    workspace: String,
    attended: bool,
    /// Questions that wait for a person, each with the id of its event.
    open: Vec<(String, PermissionRequest)>,
    decided: VecDeque<String>,
    /// What a person allowed for the rest of the session.
    granted: Vec<PermissionRequest>,
    /// Calls on which a decision is due.
    due: BTreeSet<String>,
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

    fn rule(&self, wants: &ToolUse) -> Ruling {
        match &self.policy {
            Some(policy) => policy.decide(wants, &self.workspace),
            None => Ruling {
                ruled: Ruled::Undecided,
                rule: None,
            },
        }
    }

    /// The same, with what a person allowed for the rest of the session: that answers a question, and overrules no rule.
    fn rule_or_grant(&self, ask: &PermissionRequest) -> Ruling {
        let ruling = self.rule(&ask.wants);
        let open = matches!(
            (&ruling.ruled, ask.otherwise),
            (Ruled::Ask | Ruled::Undecided, _) | (Ruled::Allow, Otherwise::PersonAlways)
        );
        if open && self.granted.iter().any(|granted| covers(granted, ask)) {
            return Ruling {
                ruled: Ruled::Allow,
                rule: None,
            };
        }
        ruling
    }

    /// The agent called a tool. If a rule stands in its way, a decision must come before its result.
    pub(super) fn called(&mut self, call: String, wants: &ToolUse) {
        if matches!(self.rule(wants).ruled, Ruled::Deny(_) | Ruled::Ask)
            && !self.decided.contains(&call)
        {
            self.due.insert(call);
        }
    }

    /// What has no result when its turn ends will not get one.
    pub(super) fn forget_due(&mut self) {
        self.due.clear();
    }

    /// A tool ran although the rules stood in its way and nobody had been asked.
    pub(super) fn bypassed(&mut self, kind: &EventKind) -> Option<Notice> {
        match kind {
            EventKind::Permission(permission) if permission.decision != Decision::Asked => {
                self.due.remove(&permission.id);
                None
            }
            EventKind::ToolResult(result) if self.due.remove(&result.id) && result.ok => {
                let tool = result.name.as_deref().unwrap_or("a tool");
                let message = format!(
                    "The agent ran {tool} ({}) without asking, although the policy does not allow it.",
                    result.id
                );
                Some(Notice::new(Level::Error, "policy_bypass", message))
            }
            _ => None,
        }
    }

    fn settle(&mut self, id: &str) {
        self.due.remove(id);
        self.decided.push_back(id.to_owned());
        if self.decided.len() > REMEMBERED {
            self.decided.pop_front();
        }
    }
}

/// What was decided on a question.
struct Decided {
    id: String,
    ask: PermissionRequest,
    verdict: Verdict,
    message: Option<String>,
    by: DecidedBy,
}

/// Whether what was granted is the same thing again: the same command, the same files, and else the same arguments.
fn covers(granted: &PermissionRequest, ask: &PermissionRequest) -> bool {
    let (before, now) = (&granted.wants, &ask.wants);
    let is_known = now.command.is_some() || !now.paths.is_empty();
    before == now && (is_known || granted.input == ask.input)
}

impl Machine {
    pub(super) fn asked(&mut self, now: Duration, ask: PermissionRequest, fx: &mut Vec<Effect>) {
        let id = self.name_of(&ask);
        let Ruling { ruled, rule } = self.permissions.rule_or_grant(&ask);
        // A grant has no rule: a person gave it, and it answers every question.
        let is_rule = rule.is_some();
        let is_ask = match (&ruled, ask.otherwise) {
            (Ruled::Ask, _) | (Ruled::Undecided, Otherwise::Person | Otherwise::PersonAlways) => {
                true
            }
            (Ruled::Allow, Otherwise::PersonAlways) => is_rule,
            _ => false,
        };
        let (verdict, message, by) = match ruled {
            Ruled::Allow if !is_ask => (
                Verdict::Allow,
                rule.clone(),
                rule.map_or(DecidedBy::Person, |_| DecidedBy::Rule),
            ),
            Ruled::Deny(why) => {
                let told = rule.map_or_else(|| why.clone(), |rule| format!("{why} ({rule})"));
                (Verdict::Deny(why), Some(told), DecidedBy::Rule)
            }
            _ if is_ask && self.permissions.attended => {
                self.tell_permission(
                    now,
                    permission(&id, &ask, Decision::Asked, (rule, DecidedBy::Default)),
                    fx,
                );
                return self.permissions.open.push((id, ask));
            }
            _ if is_ask => (
                Verdict::Deny(NOBODY.to_owned()),
                Some(NOBODY.to_owned()),
                DecidedBy::Default,
            ),
            _ => {
                return fx.push(Effect::Send(ToAgent::Verdict {
                    id: ask.id,
                    verdict: Verdict::Undecided,
                }));
            }
        };
        self.decide(
            now,
            Decided {
                id,
                ask,
                verdict,
                message,
                by,
            },
            fx,
        );
    }

    /// The tool call it is about, unless another question is open about the same.
    fn name_of(&self, ask: &PermissionRequest) -> String {
        let free = |id: &&String| !self.permissions.open.iter().any(|(open, _)| open == *id);
        ask.call.as_ref().filter(free).unwrap_or(&ask.id).clone()
    }

    fn decide(&mut self, now: Duration, decided: Decided, fx: &mut Vec<Effect>) {
        let Decided {
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
        self.permissions.settle(&id);
        self.tell_permission(now, permission(&id, &ask, decision, (message, by)), fx);
        fx.push(Effect::Send(ToAgent::Verdict {
            id: ask.id,
            verdict,
        }));
    }

    fn tell_permission(&mut self, now: Duration, permission: Permission, fx: &mut Vec<Effect>) {
        let kind = EventKind::from(permission);
        if let Some(turn) = &mut self.open {
            turn.note(now, &kind);
        }
        self.emit(kind, fx);
    }

    pub(super) fn answered(
        &mut self,
        now: Duration,
        (id, answer): (&str, PermissionAnswer),
        fx: &mut Vec<Effect>,
    ) {
        let Some(at) = self
            .permissions
            .open
            .iter()
            .position(|(open, _)| open == id)
        else {
            let late = self.permissions.decided.iter().any(|decided| decided == id);
            let (code, why) = if late {
                ("decided", "it was decided already")
            } else {
                ("unknown", "nobody asked that")
            };
            return self.refuse(("answer", code), why, fx);
        };
        let (id, ask) = self.permissions.open.remove(at);
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
        self.decide(
            now,
            Decided {
                id,
                ask,
                verdict,
                message,
                by: DecidedBy::Person,
            },
            fx,
        );
    }

    pub(super) fn withdrawn(&mut self, now: Duration, ask_id: &str, fx: &mut Vec<Effect>) {
        let Some(at) = self
            .permissions
            .open
            .iter()
            .position(|(_, ask)| ask.id == ask_id)
        else {
            return;
        };
        let (id, ask) = self.permissions.open.remove(at);
        self.permissions.settle(&id);
        let why = Some("the agent withdrew the question".to_owned());
        self.tell_permission(
            now,
            permission(&id, &ask, Decision::Denied, (why, DecidedBy::Agent)),
            fx,
        );
    }

    /// Nobody waits for the answers any more. A late one is told so.
    pub(super) fn withdraw_all(&mut self, fx: &mut Vec<Effect>) {
        for (id, ask) in std::mem::take(&mut self.permissions.open) {
            self.permissions.settle(&id);
            let why = "no answer: the turn ended".to_owned();
            self.emit(
                permission(
                    &id,
                    &ask,
                    Decision::Denied,
                    (Some(why.clone()), DecidedBy::Default),
                ),
                fx,
            );
            if self.spawned.is_some() {
                // What asked may still wait: a sub-agent in the background, for example.
                fx.push(Effect::Send(ToAgent::Verdict {
                    id: ask.id,
                    verdict: Verdict::Deny(why),
                }));
            }
        }
    }
}

fn permission(
    id: &str,
    ask: &PermissionRequest,
    decision: Decision,
    (message, by): (Option<String>, DecidedBy),
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
