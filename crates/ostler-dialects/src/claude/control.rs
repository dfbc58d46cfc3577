//! The control channel: interrupts to Claude Code, and its questions to the host.
//!
//! Nobody handles questions yet, so every one is answered at once: a permission with no, anything else with an error.
//! A question that cannot be understood is never a yes.

use ostler_core::dialect::{Out, Outbox};
use ostler_core::event::{DecidedBy, Decision, Level, Notice, Permission};
use ostler_core::raw::Raw;
use serde::Serialize;

use super::wire::{Line, Request};

/// The interrupt of the turn under way.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    /// Whether one waits until the agent is heard.
    held: bool,
    /// How many were sent; each needs an id of its own.
    sent: u64,
}

impl Interrupt {
    /// The caller wants the turn ended.
    pub(super) fn want(&mut self, heard: bool, out: &mut Outbox) {
        self.held = true;
        if heard {
            self.release(out);
        }
    }

    /// The agent was heard: what waited goes out.
    pub(super) fn release(&mut self, out: &mut Outbox) {
        if std::mem::take(&mut self.held) {
            self.sent += 1;
            let id = format!("ostler-interrupt-{}", self.sent);
            let line = format!(
                "{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"interrupt\"}}}}\n"
            );
            out.push(Out::Write(line.into_bytes()));
        }
    }

    /// Another turn begins; what waited was not meant for it.
    pub(super) fn forget(&mut self) {
        self.held = false;
    }
}

#[derive(Serialize)]
struct Reply<'a> {
    r#type: &'static str,
    response: Answer<'a>,
}

#[derive(Serialize)]
struct Answer<'a> {
    subtype: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

#[derive(Serialize)]
struct Verdict {
    behavior: &'static str,
    message: &'static str,
}

/// What the model is told about a tool call that nobody could be asked about.
const NOBODY: &str = "Denied: nobody is there to answer permission requests. The tool must be allowed beforehand \
                      (allowed_tools, permission_mode).";

/// Answers a `control_request`.
pub(super) fn answer(line: &Line<'_>, raw: &str, out: &mut Outbox) {
    let request = line.request.map();
    let subtype = request.map(|request| request.subtype.or_empty()).unwrap_or_default();
    let Some(id) = line.request_id.text() else {
        let message = format!("Claude Code asked something ({subtype:?}) without a request id; it cannot be answered.");
        out.event(Notice { raw: Raw::parse(raw).ok(), ..Notice::new(Level::Warning, "control_malformed", message) });
        return;
    };
    if let Some(request) = request.filter(|_| subtype == "can_use_tool") {
        deny(id, request, out);
        return;
    }
    reply(Answer { subtype: "error", request_id: id, response: None, error: Some("not supported by this host") }, out);
    let message = format!("Claude Code asked for {subtype:?}, which Ostler does not answer; it was told so.");
    out.event(Notice { raw: Raw::parse(raw).ok(), ..Notice::new(Level::Warning, "control_unsupported", message) });
}

fn deny(id: &str, request: &Request<'_>, out: &mut Outbox) {
    let verdict = Verdict { behavior: "deny", message: NOBODY };
    reply(Answer { subtype: "success", request_id: id, response: Some(verdict), error: None }, out);
    out.event(Permission {
        id: request.tool_use_id.text().unwrap_or(id).to_owned(),
        tool: request.tool_name.or_empty().to_owned(),
        input: request.input.map(Raw::keep),
        decision: Decision::Denied,
        by: DecidedBy::Default,
        message: Some(NOBODY.to_owned()),
    });
}

fn reply(response: Answer<'_>, out: &mut Outbox) {
    let line = format!("{}\n", Raw::of(&Reply { r#type: "control_response", response }).get());
    out.push(Out::Write(line.into_bytes()));
}

/// Reads a `control_response`: the answer to a request of ours. Only a refusal is worth telling.
pub(super) fn answered(line: &Line<'_>, out: &mut Outbox) {
    if let Some(response) = line.response.map().filter(|response| response.subtype.text() == Some("error")) {
        let message = format!("Claude Code refused a request: {}", response.error.text().unwrap_or("no reason given"));
        out.notice(Level::Warning, "control_error", message);
    }
}
