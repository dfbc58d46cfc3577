//! The control channel: what Ostler asks of Claude Code, what Claude Code asks of its host, and the answers to both.
//!
//! A question that cannot be understood is never a yes. Nothing is awaited: what is open stands in maps, and an answer
//! finds its question by its id.

use ostler_core::dialect::{Change, FromConversation, Outbox};
use ostler_core::event::{Level, Notice};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

use super::conversation::ClaudeConversation;
use super::wire::Line;
use super::{mcp, permissions};

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
    pub(super) fn want(&mut self) {
        self.held = true;
    }

    /// The agent was heard: what waited goes out. Messages for the turn that have not reached it end with it; else Claude
    /// Code would begin another turn with them.
    pub(super) fn release(&mut self, queued: bool, out: &mut Outbox) {
        if std::mem::take(&mut self.held) {
            self.sent += 1;
            let id = format!("ostler-interrupt-{}", self.sent);
            request(
                &id,
                &Asked {
                    subtype: "interrupt",
                    cancel_queued: queued,
                    ..Asked::default()
                },
                out,
            );
        }
    }

    /// Another turn begins; what waited was not meant for it.
    pub(super) fn forget(&mut self) {
        self.held = false;
    }
}

/// The id of the handshake.
const INITIALIZE: &str = "ostler-initialize";

/// What the ids of changes begin with; the caller's number follows.
const CHANGE: &str = "ostler-change-";

/// The callback under which the policy's hook is called.
pub(super) const HOOK: &str = "ostler-policy";

/// How long a hook may wait for an answer, in seconds. A person may be the one who answers, so: weeks. More does not fit
/// into the milliseconds of the program's timers.
const PATIENCE: u32 = 2_000_000;

#[derive(Default, Serialize)]
struct Asked<'a> {
    subtype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<Hooks>,
    #[serde(rename = "sdkMcpServers", skip_serializing_if = "Option::is_none")]
    servers: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancel_queued: bool,
}

#[derive(Serialize)]
struct Hooks {
    #[serde(rename = "PreToolUse")]
    before_tools: [Hook; 1],
}

/// Without a matcher it is called for every tool.
#[derive(Serialize)]
struct Hook {
    #[serde(rename = "hookCallbackIds")]
    ids: [&'static str; 1],
    timeout: u32,
}

/// Announces the hook, when there are rules to ask, and the server of the caller's tools, when there are any.
pub(super) fn initialize(policy: bool, tools: bool, out: &mut Outbox) {
    let hooks = policy.then_some(Hooks {
        before_tools: [Hook {
            ids: [HOOK],
            timeout: PATIENCE,
        }],
    });
    let servers = tools.then_some([mcp::SERVER]);
    request(
        INITIALIZE,
        &Asked {
            subtype: "initialize",
            hooks,
            servers,
            ..Asked::default()
        },
        out,
    );
}

/// Asks for something to be different.
pub(super) fn change(id: u64, change: &Change, out: &mut Outbox) {
    let subtype = change.request();
    let asked = match change {
        Change::Model(model) => Asked {
            subtype,
            model: Some(model),
            ..Asked::default()
        },
        Change::PermissionMode(mode) => Asked {
            subtype,
            mode: Some(mode),
            ..Asked::default()
        },
    };
    request(&format!("{CHANGE}{id}"), &asked, out);
}

fn request(request_id: &str, request: &Asked<'_>, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Request<'a> {
        r#type: &'static str,
        request_id: &'a str,
        request: &'a Asked<'a>,
    }
    write(
        &Request {
            r#type: "control_request",
            request_id,
            request,
        },
        out,
    );
}

/// Answers a request of Claude Code's.
pub(super) fn reply<T: Serialize>(request_id: &str, response: &T, out: &mut Outbox) {
    respond(
        &Answer {
            subtype: "success",
            request_id,
            response: Some(response),
            error: None,
        },
        out,
    );
}

#[derive(Serialize)]
struct Answer<'a, T> {
    subtype: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

fn respond<T: Serialize>(response: &Answer<'_, T>, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Reply<'a, T> {
        r#type: &'static str,
        response: &'a T,
    }
    write(
        &Reply {
            r#type: "control_response",
            response,
        },
        out,
    );
}

fn write<T: Serialize>(line: &T, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(line).get()).into_bytes(),
    ));
}

/// Reads a `control_request`.
pub(super) fn hear(talk: &mut ClaudeConversation, line: &Line<'_>, raw: &str, out: &mut Outbox) {
    let request = line.request.map();
    let subtype = request
        .map(|request| request.subtype.or_empty())
        .unwrap_or_default();
    let odd = |code: &str, message: String, out: &mut Outbox| {
        out.event(Notice {
            raw: RawJson::parse(raw).ok(),
            ..Notice::new(Level::Warning, code, message)
        });
    };
    let Some(id) = line.request_id.text().filter(|id| !id.is_empty()) else {
        let message = format!(
            "Claude Code asked something ({subtype:?}) without a request id; it cannot be answered."
        );
        return odd("control_malformed", message, out);
    };
    if talk.permissions.is_open(id) || talk.server.is_open(id) {
        let message = format!(
            "Claude Code asked something ({subtype:?}) under the id of another open question."
        );
        return odd("control_malformed", message, out);
    }
    match (subtype, request) {
        ("can_use_tool", Some(request)) => permissions::can_use_tool(talk, id, request, out),
        ("hook_callback", Some(request)) if talk.initializes() => {
            permissions::hook(talk, id, request, out)
        }
        ("mcp_message", Some(request)) if talk.server.serves(request) => {
            mcp::hear(&mut talk.server, id, request, out)
        }
        _ => {
            let error = Some("not supported by this host");
            respond(
                &Answer::<()> {
                    subtype: "error",
                    request_id: id,
                    response: None,
                    error,
                },
                out,
            );
            let message = format!(
                "Claude Code asked for {subtype:?}, which Ostler does not answer; it was told so."
            );
            odd("control_unsupported", message, out);
        }
    }
}

/// Reads a `control_cancel_request`: nobody waits for that answer any more.
pub(super) fn cancelled(talk: &mut ClaudeConversation, line: &Line<'_>, out: &mut Outbox) {
    let Some(id) = line.request_id.text() else {
        return;
    };
    if talk.permissions.withdraw(id) {
        out.push(FromConversation::Withdraw(id.to_owned()));
    } else if talk.server.call_off(id) {
        out.push(FromConversation::ToolOff(id.to_owned()));
    }
}

/// Reads a `control_response`: the answer to a request of ours.
pub(super) fn answered(talk: &mut ClaudeConversation, line: &Line<'_>, out: &mut Outbox) {
    let Some(response) = line.response.map() else {
        return;
    };
    let refused = response.subtype.text() == Some("error");
    let error = refused.then(|| {
        response
            .error
            .text()
            .unwrap_or("no reason given")
            .to_owned()
    });
    let id = response.request_id.or_empty();
    if let Some(id) = id
        .strip_prefix(CHANGE)
        .and_then(|number| number.parse().ok())
    {
        return out.push(FromConversation::Changed { id, error });
    }
    // What else succeeds is not worth telling.
    let Some(error) = error else { return };
    let vital = id == INITIALIZE;
    let level = if vital { Level::Error } else { Level::Warning };
    out.notice(
        level,
        "control_error",
        format!("Claude Code refused a request: {error}"),
    );
    if vital {
        // Without the hook the rules would not be asked, without the server the tools would be missing.
        talk.interrupt(out);
    }
}
