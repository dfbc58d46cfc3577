//! Permission requests for tool calls, from two sources: a hook, which runs before every call
//! whatever Claude Code's own permission layer decides, and that layer itself, when it would prompt
//! a person.

use std::collections::BTreeMap;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{DecidedBy, Decision, Permission};
use ostler_core::permission::{Fallback, PermissionRequest, UNATTENDED_DENIAL, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{self, Spec};
use serde::Serialize;
use serde_json::value::RawValue;

use super::control::{self, HOOK};
use super::conversation::ClaudeConversation;
use super::wire::{HookInput, Request};
use crate::lenient::Node;
use crate::surrogates;

/// Denial reason for a malformed request.
const MALFORMED: &str = "Denied: the permission request lacks the tool's name or its input.";

/// Source of a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionSource {
    /// The hook. Without a verdict, Claude Code proceeds as if there were no hook.
    Hook,
    /// Claude Code's own permission layer. Without a verdict, the call is denied.
    CanUseTool,
}

/// A tool call that needs a decision.
#[derive(Debug, Clone)]
struct PendingCall {
    source: PermissionSource,
    id: Option<String>,
    tool: String,
    input: RawJson,
}

/// A decision returned to the hook.
#[derive(Debug)]
pub(super) struct HookDecision {
    call: PendingCall,
    verdict: Verdict,
}

/// Pending permission requests of a conversation.
#[derive(Debug)]
pub(super) struct OpenPermissions {
    /// Whether a policy checks every call.
    pub(super) policy: bool,
    /// Whether requests are decided at all, by a policy or a person.
    attended: bool,
    open: BTreeMap<String, PendingCall>,
}

/// Returns true if permission requests are decided by a policy or a person.
pub(super) fn attended(spec: &Spec) -> bool {
    spec.policy.is_some() || spec.attendance == spec::Attendance::Attended
}

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            policy: spec.policy.is_some(),
            attended: attended(spec),
            open: BTreeMap::new(),
        }
    }

    /// Returns true if a request with this id is pending.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Drops a cancelled request. Returns false if no such request was pending.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }
}

/// Handles a request from Claude Code's own permission layer.
pub(super) fn can_use_tool(
    conversation: &mut ClaudeConversation,
    id: &str,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    let tool = request.tool_name.or_empty();
    let call = call(
        PermissionSource::CanUseTool,
        request.tool_use_id.owned(),
        tool,
        request.input,
    );
    if !conversation.permissions.attended {
        return refuse(conversation, (id, &call), UNATTENDED_DENIAL, out);
    }
    let Some(call) = call.well_formed() else {
        return refuse(conversation, (id, &call), MALFORMED, out);
    };
    // Claude Code's own rules can make it ask even though the hook has allowed the call. The
    // verdict is reused unless the input has changed.
    let same = |it: &&HookDecision| it.call.tool == call.tool && it.call.input == call.input;
    match call
        .id
        .as_ref()
        .and_then(|id| conversation.turn.decided.get(id))
        .filter(same)
    {
        Some(decided) => answer(id, call, &decided.verdict, out),
        None => ask(conversation, id, call.clone(), out),
    }
}

/// Handles a hook callback. Hooks that are not ours get no decision.
pub(super) fn hook(
    conversation: &mut ClaudeConversation,
    id: &str,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    if !conversation.permissions.policy
        || request
            .callback_id
            .text()
            .is_some_and(|callback| callback != HOOK)
    {
        return control::reply(id, &HookReply { output: None }, out);
    }
    let text = request.input.map_or("null", RawValue::get);
    let mut buffer = String::new();
    let input: Node<'_, HookInput<'_>> = surrogates::read(text, &mut buffer);
    let empty = HookInput::default();
    let input = input.map().unwrap_or(&empty);
    let call_id = input
        .tool_use_id
        .owned()
        .or_else(|| request.tool_use_id.owned());
    let call = call(
        PermissionSource::Hook,
        call_id,
        input.tool_name.or_empty(),
        input.tool_input,
    );
    match call.well_formed() {
        // Claude Code would treat an error as an empty reply, and the tool might run.
        None => refuse(conversation, (id, &call), MALFORMED, out),
        Some(call) => ask(conversation, id, call.clone(), out),
    }
}

fn call(
    source: PermissionSource,
    id: Option<String>,
    tool: &str,
    input: Option<&RawValue>,
) -> PendingCall {
    PendingCall {
        source,
        id,
        tool: tool.to_owned(),
        input: input.map_or_else(RawJson::null, RawJson::from_raw),
    }
}

impl PendingCall {
    fn well_formed(&self) -> Option<&Self> {
        (!self.tool.is_empty() && self.input.get().starts_with('{')).then_some(self)
    }
}

fn ask(conversation: &mut ClaudeConversation, id: &str, call: PendingCall, out: &mut Outbox) {
    out.push(FromConversation::AskPermission(PermissionRequest {
        id: id.to_owned(),
        call: call.id.clone(),
        input: Some(call.input.clone()),
        wants: conversation.server.tool_use(&call.tool, &call.input),
        fallback: match call.source {
            PermissionSource::Hook => Fallback::Agent,
            PermissionSource::CanUseTool => Fallback::Person,
        },
    }));
    conversation.permissions.open.insert(id.to_owned(), call);
}

/// Sends a verdict to Claude Code. Does nothing if the request is unknown or was withdrawn.
pub(super) fn on_verdict(
    conversation: &mut ClaudeConversation,
    id: &str,
    verdict: Verdict,
    out: &mut Outbox,
) {
    let Some(call) = conversation.permissions.open.remove(id) else {
        return;
    };
    answer(id, &call, &verdict, out);
    let Some(call_id) = call.id.clone() else {
        return;
    };
    if matches!(verdict, Verdict::Deny(_)) {
        conversation.turn.denied.insert(call_id.clone());
    }
    if call.source == PermissionSource::Hook && verdict != Verdict::Undecided {
        conversation
            .turn
            .decided
            .insert(call_id, HookDecision { call, verdict });
    }
}

/// Denies a call immediately, without asking the policy or the handler.
fn refuse(
    conversation: &ClaudeConversation,
    (id, call): (&str, &PendingCall),
    why: &str,
    out: &mut Outbox,
) {
    answer(id, call, &Verdict::Deny(why.to_owned()), out);
    out.event(Permission {
        id: call.id.clone().unwrap_or_else(|| id.to_owned()),
        tool: conversation.server.display_name(&call.tool),
        kind: None,
        input: Some(call.input.clone()).filter(|input| input.get() != "null"),
        decision: Decision::Denied,
        by: DecidedBy::Default,
        message: Some(why.to_owned()),
    });
}

#[derive(Serialize)]
struct CanUseToolReply<'a> {
    behavior: &'static str,
    #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize)]
struct HookReply<'a> {
    #[serde(rename = "hookSpecificOutput", skip_serializing_if = "Option::is_none")]
    output: Option<HookOutput<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookOutput<'a> {
    hook_event_name: &'static str,
    permission_decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision_reason: Option<&'a str>,
}

fn answer(id: &str, call: &PendingCall, verdict: &Verdict, out: &mut Outbox) {
    let (decision, why) = match (verdict, call.source) {
        (Verdict::Allow, _) => ("allow", None),
        (Verdict::Deny(why), _) if why.is_empty() => ("deny", Some("Denied.")),
        (Verdict::Deny(why), _) => ("deny", Some(why.as_str())),
        (Verdict::Undecided, PermissionSource::Hook) => {
            return control::reply(id, &HookReply { output: None }, out);
        }
        (Verdict::Undecided, PermissionSource::CanUseTool) => ("deny", Some(UNATTENDED_DENIAL)),
    };
    match call.source {
        PermissionSource::CanUseTool => {
            let input = Some(&call.input).filter(|_| why.is_none());
            control::reply(
                id,
                &CanUseToolReply {
                    behavior: decision,
                    input,
                    message: why,
                },
                out,
            );
        }
        PermissionSource::Hook => {
            let output = HookOutput {
                hook_event_name: "PreToolUse",
                permission_decision: decision,
                permission_decision_reason: why,
            };
            control::reply(
                id,
                &HookReply {
                    output: Some(output),
                },
                out,
            );
        }
    }
}
