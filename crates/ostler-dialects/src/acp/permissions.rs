//! Permission requests of the agent (`session/request_permission`), and the choice among the
//! options it offers.
//!
//! Options are chosen by their `kind`, because their ids differ from agent to agent.

use ostler_core::dialect::{FromConversation, Outbox, ToolJob};
use ostler_core::event::{DecidedBy, Permission};
use ostler_core::permission::{Fallback, PermissionRequest, Verdict};
use serde_json::json;

use super::conversation::{AcpConversation, Request};
use super::wire::PermissionOption;
use super::{bridge_calls, files, tool_use};
use crate::jsonrpc::{RequestId, V2};
use crate::permissions::{UNCLEAR, denied, reason};

/// A permission request without a verdict so far.
#[derive(Debug)]
pub(super) enum PendingPermission {
    /// The agent asks whether a tool may run.
    Tool(PermissionPrompt),
    /// The agent asks to have a file read or written.
    File(files::FileRequest),
    /// One of the caller's tools waits for the policy.
    Bridged(ToolJob),
}

/// A request of the agent, with the ids of the options to reply with.
#[derive(Debug)]
pub(super) struct PermissionPrompt {
    rpc: RequestId,
    call: String,
    allow: Option<String>,
    reject: Option<String>,
}

fn respond(rpc: &RequestId, option: Option<&str>, out: &mut Outbox) {
    let outcome = match option {
        Some(id) => json!({"outcome": "selected", "optionId": id}),
        None => json!({"outcome": "cancelled"}),
    };
    V2.reply(rpc, json!({ "outcome": outcome }), out);
}

/// Handles a permission request.
pub(super) fn on_request(
    conversation: &mut AcpConversation,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    let Request {
        id: rpc, params, ..
    } = request;
    let id = format!("ask-{}", rpc.as_json());
    let options = &params.options;
    let reject = pick_option(options, "reject_once", &[])
        .or_else(|| pick_option(options, "reject_always", &[]));
    if conversation.turn.interrupted || conversation.permissions.contains_key(&id) {
        return respond(rpc, None, out);
    }
    let update = &params.tool_call;
    let Some(call) = update.tool_call_id.owned() else {
        respond(rpc, reject.as_deref(), out);
        return out.event(Permission {
            message: Some(UNCLEAR.to_owned()),
            ..denied(DecidedBy::Default, id, "unknown".to_owned())
        });
    };
    let (calls, context) = conversation.calls_in_context();
    calls.on_permission_request(context, &call, update);
    conversation.calls.finish_denied(out);
    conversation.turn.used_tools = true;
    conversation.turn.text.end_message(out);
    let Some(known) = conversation.calls.get(&call) else {
        return;
    };
    // An option that allows more than this one call is not a valid reply.
    let allow = pick_option(options, "allow_once", conversation.quirks.allow_ids);
    if known.bound.is_some() {
        // The caller's tools need no permission except from the policy, which is checked when the
        // tool runs. The call is reported then too: its arguments may not be known yet.
        return respond(rpc, allow.as_deref(), out);
    }
    let prompt = PermissionPrompt {
        rpc: rpc.clone(),
        call: call.clone(),
        allow,
        reject,
    };
    let (input, wants) = (
        Some(known.input()),
        tool_use::of(conversation.profile, known),
    );
    let shown = known.shown_id(&call);
    conversation.calls.report(&call, out);
    out.push(PermissionRequest {
        id: id.clone(),
        call: Some(shown),
        input,
        wants,
        fallback: Fallback::Person,
    });
    conversation
        .permissions
        .insert(id, PendingPermission::Tool(prompt));
}

/// Returns the id of the option of this kind: a preferred one, if there are several, otherwise the
/// first.
fn pick_option(options: &[PermissionOption<'_>], kind: &str, preferred: &[&str]) -> Option<String> {
    let of_kind = || {
        options
            .iter()
            .filter(|it| it.kind.text() == Some(kind))
            .filter_map(|it| it.option_id.text())
    };
    of_kind()
        .find(|id| preferred.contains(id))
        .or_else(|| of_kind().next())
        .map(str::to_owned)
}

/// Replies with a verdict. Does nothing if the request is unknown or was withdrawn.
pub(super) fn on_verdict(
    conversation: &mut AcpConversation,
    id: &str,
    verdict: &Verdict,
    out: &mut Outbox,
) {
    match conversation.permissions.remove(id) {
        Some(PendingPermission::Tool(prompt)) => {
            on_tool_verdict(conversation, &prompt, verdict, out);
        }
        Some(PendingPermission::File(request)) => {
            conversation.files.on_verdict(request, verdict, out);
        }
        Some(PendingPermission::Bridged(job)) => {
            bridge_calls::on_verdict(conversation, job, verdict, out);
        }
        None => {}
    }
}

fn on_tool_verdict(
    conversation: &mut AcpConversation,
    prompt: &PermissionPrompt,
    verdict: &Verdict,
    out: &mut Outbox,
) {
    if let (Verdict::Allow, Some(option)) = (verdict, &prompt.allow) {
        return respond(&prompt.rpc, Some(option), out);
    }
    let why = match verdict {
        Verdict::Allow => "Denied: the agent does not offer to allow this one call.",
        _ => reason(verdict),
    };
    if let Some(call) = conversation.calls.get(&prompt.call) {
        conversation.turn.denied.push(call.shown().to_owned());
    }
    conversation.calls.deny(&prompt.call, why);
    respond(&prompt.rpc, prompt.reject.as_deref(), out);
}

/// Cancels all pending requests at the end of the turn.
pub(super) fn cancel_all(conversation: &mut AcpConversation, out: &mut Outbox) {
    for (id, pending) in std::mem::take(&mut conversation.permissions) {
        match pending {
            PendingPermission::Tool(prompt) => respond(&prompt.rpc, None, out),
            PendingPermission::File(request) => request.cancel(out),
            PendingPermission::Bridged(job) => bridge_calls::cancel(conversation, &job, out),
        }
        out.push(FromConversation::WithdrawPermission(id));
    }
}
