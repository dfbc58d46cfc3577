//! `session/request_permission`: the agent's question whether a tool may run, and the one of its answers that is meant.
//!
//! Answers are chosen by what they do (`kind`): their ids are different everywhere.

use ostler_core::dialect::{FromConversation, Outbox, ToolOrder};
use ostler_core::event::{DecidedBy, Decision, Permission};
use ostler_core::permission::{NOBODY, Otherwise, PermissionRequest, Verdict};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

use super::conversation::AcpConversation;
use super::wire::{Choice, Params};
use super::{bridge_calls, files, rpc, tool_use};
use crate::lenient::Node;

/// What the caller is told about a question that does not say what it is about.
const UNCLEAR: &str = "Denied: the permission request does not say what it is about.";

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) enum Question {
    /// May this tool run?
    Tool(Asked),
    /// May this file be read or written for the agent?
    File(files::Wish),
    /// May this tool of the caller's run?
    Order(ToolOrder),
}

/// A question of the agent's own.
#[derive(Debug)]
pub(super) struct Asked {
    rpc: RawJson,
    call: String,
    allow: Option<String>,
    reject: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    outcome: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    option_id: Option<&'a str>,
}

fn answer(rpc: &RawJson, option: Option<&str>, out: &mut Outbox) {
    let outcome = if option.is_some() {
        "selected"
    } else {
        "cancelled"
    };
    rpc::reply(
        rpc,
        Answer {
            outcome: Outcome {
                outcome,
                option_id: option,
            },
        },
        out,
    );
}

/// Reads a question.
pub(super) fn hear(
    talk: &mut AcpConversation,
    rpc: &RawJson,
    params: &Params<'_>,
    out: &mut Outbox,
) {
    let id = format!("ask-{}", rpc.get());
    let choices: Vec<&Choice<'_>> = params.options.0.iter().filter_map(Node::map).collect();
    let reject =
        pick(&choices, "reject_once", &[]).or_else(|| pick(&choices, "reject_always", &[]));
    if talk.turn.interrupted || talk.permissions.contains_key(&id) {
        return answer(rpc, None, out);
    }
    let update = params.tool_call.map();
    let Some((call, update)) = update.and_then(|it| Some((it.tool_call_id.owned()?, it))) else {
        answer(rpc, reject.as_deref(), out);
        return out.event(Permission {
            id,
            tool: "unknown".to_owned(),
            kind: None,
            input: None,
            decision: Decision::Denied,
            by: DecidedBy::Default,
            message: Some(UNCLEAR.to_owned()),
        });
    };
    talk.calls
        .asked((talk.entry, &talk.quirks, &talk.bound), &call, update);
    talk.calls.settle_denied(out);
    talk.turn.used_tools = true;
    talk.turn.told.breaks(out);
    let Some(known) = talk.calls.get(&call) else {
        return;
    };
    // What would allow more than this one call is no answer to the question about it.
    let allow = pick(&choices, "allow_once", talk.quirks.allow_ids);
    if known.bound.is_some() {
        // A tool of the caller's needs nobody's leave but that of rules, and they are asked when it is to run.
        // It is told then, too: its arguments may not be known yet.
        return answer(rpc, allow.as_deref(), out);
    }
    let asked = Asked {
        rpc: rpc.clone(),
        call: call.clone(),
        allow,
        reject,
    };
    let (input, wants) = (Some(known.input()), tool_use::of(talk.entry, known));
    let shown = known.shown_id(&call);
    talk.calls.tell(&call, out);
    out.push(FromConversation::Ask(PermissionRequest {
        id: id.clone(),
        call: Some(shown),
        input,
        wants,
        otherwise: Otherwise::Person,
    }));
    talk.permissions.insert(id, Question::Tool(asked));
}

/// The id of the answer of a kind: the one that is meant, if there are several, else the first.
fn pick(choices: &[&Choice<'_>], kind: &str, meant: &[&str]) -> Option<String> {
    let of_kind = || {
        choices
            .iter()
            .filter(|it| it.kind.text() == Some(kind))
            .filter_map(|it| it.option_id.text())
    };
    of_kind()
        .find(|id| meant.contains(id))
        .or_else(|| of_kind().next())
        .map(str::to_owned)
}

/// Passes a verdict on. Of a question that nobody asked, or that was withdrawn, nothing is said.
pub(super) fn decided(talk: &mut AcpConversation, id: &str, verdict: &Verdict, out: &mut Outbox) {
    match talk.permissions.remove(id) {
        Some(Question::Tool(asked)) => tool_decided(talk, &asked, verdict, out),
        Some(Question::File(wish)) => talk.files.decided(wish, verdict, out),
        Some(Question::Order(order)) => bridge_calls::decided(talk, order, verdict, out),
        None => {}
    }
}

fn tool_decided(talk: &mut AcpConversation, asked: &Asked, verdict: &Verdict, out: &mut Outbox) {
    if let (Verdict::Allow, Some(option)) = (verdict, &asked.allow) {
        return answer(&asked.rpc, Some(option), out);
    }
    let why = match verdict {
        Verdict::Allow => "Denied: the agent does not offer to allow this one call.",
        Verdict::Deny(why) if why.is_empty() => "Denied.",
        Verdict::Deny(why) => why,
        Verdict::Undecided => NOBODY,
    };
    if let Some(call) = talk.calls.get(&asked.call) {
        talk.turn.denied.push(call.shown().to_owned());
    }
    talk.calls.deny(&asked.call, why);
    answer(&asked.rpc, asked.reject.as_deref(), out);
}

/// Nobody waits for answers any more: the turn ends.
pub(super) fn forget(talk: &mut AcpConversation, out: &mut Outbox) {
    for (id, question) in std::mem::take(&mut talk.permissions) {
        match question {
            Question::Tool(asked) => answer(&asked.rpc, None, out),
            Question::File(wish) => wish.cancel(out),
            Question::Order(order) => bridge_calls::forget(talk, &order, out),
        }
        out.push(FromConversation::Withdraw(id));
    }
}
