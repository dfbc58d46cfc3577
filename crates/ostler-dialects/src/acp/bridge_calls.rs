//! Calls of the caller's tools: they come over the bridge, are put before the rules, and belong to calls of the events.

use ostler_core::dialect::{FromConversation, Outbox, ToolOrder};
use ostler_core::permission::{Otherwise, PermissionRequest, ToolKind, ToolUse, Verdict};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

use super::conversation::AcpConversation;
use super::permissions::Question;
use crate::mcp::Heard;

/// What the agent is told about a tool that nobody waits for.
const OFF: &str = "The turn ended before the tool was done.";

/// Reads a line of a program that the agent started to reach the tools.
pub(super) fn hear(talk: &mut AcpConversation, from: u32, line: &str, out: &mut Outbox) {
    talk.unreached = false;
    talk.orders += 1;
    let id = format!("order-{}", talk.orders);
    let mut wanted = Outbox::default();
    if let Heard::Answer(answer) = talk.server.hear((from, &id), line, &mut wanted) {
        aside(from, &answer, out);
    }
    for item in wanted.drain() {
        match item {
            FromConversation::Tool(order) => ordered(talk, order, out),
            FromConversation::ToolOff(id) if talk.permissions.remove(&id).is_some() => {
                out.push(FromConversation::Withdraw(id))
            }
            other => out.push(other),
        }
    }
}

/// A tool is to run. Whoever asked the agent about it: here it is known what runs, so here the rules are asked.
fn ordered(talk: &mut AcpConversation, mut order: ToolOrder, out: &mut Outbox) {
    if talk.is_working() {
        talk.turn.used_tools = true;
        talk.turn.told.breaks(out);
        order.call = Some(
            talk.calls
                .ordered((&order.id, &order.name), &order.input, out),
        );
    }
    if !talk.policy {
        return out.push(FromConversation::Tool(order));
    }
    out.push(FromConversation::Ask(PermissionRequest {
        id: order.id.clone(),
        call: order.call.clone(),
        input: Some(order.input.clone()),
        wants: ToolUse::of(&order.name, ToolKind::Other),
        otherwise: Otherwise::Agent,
    }));
    talk.permissions
        .insert(order.id.clone(), Question::Order(order));
}

/// The rules have spoken.
pub(super) fn decided(
    talk: &mut AcpConversation,
    order: ToolOrder,
    verdict: &Verdict,
    out: &mut Outbox,
) {
    let why = match verdict {
        Verdict::Allow | Verdict::Undecided => return out.push(FromConversation::Tool(order)),
        Verdict::Deny(why) if why.is_empty() => "Denied.",
        Verdict::Deny(why) => why,
    };
    if let Some(call) = &order.call {
        talk.calls.deny_told(call, why);
    }
    talk.turn.denied.push(order.name);
    answer(talk, &order.id, (false, why), out);
}

/// What came of a tool. Of one that nobody waits for, nothing is said.
pub(super) fn done(
    talk: &mut AcpConversation,
    id: &str,
    (ok, output): (bool, &str),
    out: &mut Outbox,
) {
    talk.calls.ran(id, ok, output);
    answer(talk, id, (ok, output), out);
}

/// A tool reports its progress to the client that waits for it.
pub(super) fn progress(talk: &mut AcpConversation, id: &str, message: &str, out: &mut Outbox) {
    if let Some((to, note)) = talk.server.progress(id, message) {
        aside(to, &note, out);
    }
}

/// Nobody waits for tools any more: the turn ends.
pub(super) fn call_off(talk: &mut AcpConversation, out: &mut Outbox) {
    for id in talk.server.open() {
        answer(talk, &id, (false, OFF), out);
        out.push(FromConversation::ToolOff(id));
    }
}

/// A program that reached the tools is gone: what it asked for is not wanted any more.
pub(super) fn gone(talk: &mut AcpConversation, from: u32, out: &mut Outbox) {
    let orders: Vec<String> = talk.server.open_for(from).cloned().collect();
    for id in orders {
        talk.server.call_off(&id);
        out.push(if talk.permissions.remove(&id).is_some() {
            FromConversation::Withdraw(id)
        } else {
            FromConversation::ToolOff(id)
        });
    }
}

/// A tool that was asked about is not going to run: nobody waits for the answer.
pub(super) fn forget(talk: &mut AcpConversation, order: &ToolOrder, out: &mut Outbox) {
    answer(talk, &order.id, (false, OFF), out);
}

fn answer(talk: &mut AcpConversation, id: &str, (ok, output): (bool, &str), out: &mut Outbox) {
    if let Some((to, answer)) = talk.server.done(id, ok, output) {
        aside(to, &answer, out);
    }
}

fn aside(to: u32, message: &impl Serialize, out: &mut Outbox) {
    out.push(FromConversation::WriteBridge {
        to,
        line: format!("{}\n", RawJson::of(message).get()).into_bytes(),
    });
}
