//! Permission requests for tool calls, from two sources: a hook, which runs before every call
//! whatever Claude Code's own permission layer decides, and that layer itself, when it would prompt
//! a person.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Permission};
use ostler_core::permission::{Fallback, PermissionRequest, UNATTENDED_DENIAL, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::control::{self, HOOK};
use super::conversation::ClaudeConversation;
use super::wire::{HookInput, Request};
use crate::json_lines::without_nulls;
use crate::lenient::Object;
use crate::{permissions, surrogates};

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
    /// Id of the control request.
    request: String,
    /// Id of the tool call, if the request names it.
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

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            policy: spec.policy.is_some(),
            attended: spec.is_supervised(),
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
    let call = PendingCall {
        source: PermissionSource::CanUseTool,
        request: id.to_owned(),
        id: request.tool_use_id.owned(),
        tool: request.tool_name.or_empty().to_owned(),
        input: request.input.map_or_else(RawJson::null, RawJson::from_raw),
    };
    if !conversation.permissions.attended {
        return refuse(conversation, &call, UNATTENDED_DENIAL, out);
    }
    if !call.is_well_formed() {
        return refuse(conversation, &call, MALFORMED, out);
    }
    // Claude Code's own rules can make it ask even though the hook has allowed the call. The
    // verdict is reused unless the input has changed.
    let same = |it: &&HookDecision| it.call.tool == call.tool && it.call.input == call.input;
    match call
        .id
        .as_ref()
        .and_then(|id| conversation.turn.decided.get(id))
        .filter(same)
    {
        Some(decided) => answer(&call, &decided.verdict, out),
        None => ask(conversation, call, out),
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
        return control::reply(id, &json!({}), out);
    }
    let text = request.input.map_or("null", RawValue::get);
    let mut buffer = String::new();
    let input: Object<HookInput<'_>> = surrogates::read(text, &mut buffer);
    let call = PendingCall {
        source: PermissionSource::Hook,
        request: id.to_owned(),
        id: input
            .tool_use_id
            .owned()
            .or_else(|| request.tool_use_id.owned()),
        tool: input.tool_name.or_empty().to_owned(),
        input: input
            .tool_input
            .map_or_else(RawJson::null, RawJson::from_raw),
    };
    if call.is_well_formed() {
        ask(conversation, call, out);
    } else {
        // Claude Code would treat an error as an empty reply, and the tool might run.
        refuse(conversation, &call, MALFORMED, out);
    }
}

impl PendingCall {
    fn is_well_formed(&self) -> bool {
        !self.tool.is_empty() && self.input.get().starts_with('{')
    }
}

fn ask(conversation: &mut ClaudeConversation, call: PendingCall, out: &mut Outbox) {
    out.push(PermissionRequest {
        id: call.request.clone(),
        call: call.id.clone(),
        input: Some(call.input.clone()),
        wants: conversation.server.tool_use(&call.tool, &call.input),
        fallback: match call.source {
            PermissionSource::Hook => Fallback::Agent,
            PermissionSource::CanUseTool => Fallback::Person,
        },
    });
    let id = call.request.clone();
    conversation.permissions.open.insert(id, call);
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
    answer(&call, &verdict, out);
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
fn refuse(conversation: &ClaudeConversation, call: &PendingCall, why: &str, out: &mut Outbox) {
    answer(call, &Verdict::Deny(why.to_owned()), out);
    let shown = call.id.as_ref().unwrap_or(&call.request).clone();
    let tool = conversation.server.display_name(&call.tool);
    out.event(Permission {
        input: Some(call.input.clone()).filter(|input| input.get() != "null"),
        message: Some(why.to_owned()),
        ..permissions::denied(DecidedBy::Default, shown, tool)
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

fn answer(call: &PendingCall, verdict: &Verdict, out: &mut Outbox) {
    let id = &call.request;
    let (decision, why) = match (verdict, call.source) {
        (Verdict::Allow, _) => ("allow", None),
        (Verdict::Undecided, PermissionSource::Hook) => {
            return control::reply(id, &json!({}), out);
        }
        _ => ("deny", Some(permissions::reason(verdict))),
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
            let output = without_nulls(json!({
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": why,
            }));
            control::reply(id, &json!({ "hookSpecificOutput": output }), out);
        }
    }
}
