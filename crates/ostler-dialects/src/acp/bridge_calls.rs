//! Calls of the caller's tools. They arrive over the bridge, are checked against the policy, and
//! are matched to the tool calls in the events.

use ostler_core::dialect::{Action, FromConversation, Outbox, ToolJob};
use ostler_core::permission::{Fallback, PermissionRequest, ToolKind, ToolUse, Verdict};

use super::conversation::AcpConversation;
use super::permissions::PendingPermission;
use crate::json_lines;
use crate::mcp::{FromClient, Handled, ToClient, ToolOutput};
use crate::permissions::reason;

/// Result sent for a tool call that was cancelled.
const CANCELLED: ToolOutput<'_> = ToolOutput::failed("The turn ended before the tool was done.");

/// Handles a line from a bridge process that the agent started to reach the tools.
pub(super) fn on_line(conversation: &mut AcpConversation, from: u32, line: &str, out: &mut Outbox) {
    conversation.tools_unreached = false;
    conversation.job_count += 1;
    let id = format!("order-{}", conversation.job_count);
    let mut effects = Outbox::default();
    let message = FromClient {
        client: from,
        job: &id,
        text: line,
    };
    if let Handled::Response(message) = conversation.server.on_message(message, &mut effects) {
        let client = from;
        write(&ToClient { client, message }, out);
    }
    for item in effects.drain() {
        match item {
            FromConversation::Do(Action::RunTool(job)) => on_job(conversation, job, out),
            FromConversation::Do(Action::CancelTool(id))
                if conversation.permissions.remove(&id).is_some() =>
            {
                out.push(FromConversation::WithdrawPermission(id));
            }
            other => out.push(other),
        }
    }
}

/// Runs a tool, or asks the policy first. The policy is checked here, whatever the agent asked
/// before, because only here is it certain what will run.
fn on_job(conversation: &mut AcpConversation, mut job: ToolJob, out: &mut Outbox) {
    if conversation.is_working() {
        conversation.turn.used_tools = true;
        conversation.turn.text.end_message(out);
        job.call = Some(conversation.calls.on_job(&job, out));
    }
    if !conversation.policy {
        return out.push(Action::RunTool(job));
    }
    out.push(PermissionRequest {
        id: job.id.clone(),
        call: job.call.clone(),
        input: Some(job.input.clone()),
        wants: ToolUse::new(&job.name, ToolKind::Other),
        fallback: Fallback::Agent,
    });
    conversation
        .permissions
        .insert(job.id.clone(), PendingPermission::Bridged(job));
}

/// Runs or refuses a tool according to the policy's verdict.
pub(super) fn on_verdict(
    conversation: &mut AcpConversation,
    job: ToolJob,
    verdict: &Verdict,
    out: &mut Outbox,
) {
    if !matches!(verdict, Verdict::Deny(_)) {
        return out.push(Action::RunTool(job));
    }
    let why = reason(verdict);
    if let Some(call) = &job.call {
        conversation.calls.deny_shown(call, why);
    }
    conversation.turn.denied.push(job.name);
    respond(conversation, &job.id, ToolOutput::failed(why), out);
}

/// Sends a tool's result. Does nothing if the call is no longer pending.
pub(super) fn on_result(
    conversation: &mut AcpConversation,
    id: &str,
    output: ToolOutput<'_>,
    out: &mut Outbox,
) {
    conversation.calls.on_job_done(id, output);
    respond(conversation, id, output, out);
}

/// Reports a tool's progress to the client that waits for it.
pub(super) fn progress(
    conversation: &mut AcpConversation,
    id: &str,
    message: &str,
    out: &mut Outbox,
) {
    if let Some(notification) = conversation.server.progress(id, message) {
        write(&notification, out);
    }
}

/// Cancels all pending tool calls at the end of the turn.
pub(super) fn cancel_all(conversation: &mut AcpConversation, out: &mut Outbox) {
    for id in conversation.server.pending_jobs() {
        respond(conversation, &id, CANCELLED, out);
        out.push(Action::CancelTool(id));
    }
}

/// Cancels the pending calls of a bridge process that has exited.
pub(super) fn on_client_closed(conversation: &mut AcpConversation, from: u32, out: &mut Outbox) {
    let jobs: Vec<String> = conversation.server.pending_for(from).cloned().collect();
    for id in jobs {
        conversation.server.cancel(&id);
        out.push(if conversation.permissions.remove(&id).is_some() {
            FromConversation::WithdrawPermission(id)
        } else {
            FromConversation::Do(Action::CancelTool(id))
        });
    }
}

/// Cancels a tool call that still waits for the policy.
pub(super) fn cancel(conversation: &mut AcpConversation, job: &ToolJob, out: &mut Outbox) {
    respond(conversation, &job.id, CANCELLED, out);
}

fn respond(conversation: &mut AcpConversation, id: &str, output: ToolOutput<'_>, out: &mut Outbox) {
    if let Some(response) = conversation.server.finish(id, output) {
        write(&response, out);
    }
}

fn write(to: &ToClient, out: &mut Outbox) {
    out.push(Action::WriteBridge {
        to: to.client,
        line: json_lines::line(&to.message),
    });
}
