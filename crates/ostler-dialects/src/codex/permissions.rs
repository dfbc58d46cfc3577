//! Requests of Codex: approvals, and calls of the caller's tools.
//!
//! A request that cannot be understood is never approved. Codex does not pass the reason of a
//! denial to the model; the caller gets it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Action, FromConversation, Outbox, ToolJob};
use ostler_core::event::{DecidedBy, NoticeCode, Permission};
use ostler_core::permission::{
    Fallback, PermissionRequest, ToolKind, ToolUse, UNATTENDED_DENIAL, Verdict,
};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::items::Items;
use super::plan::Plan;
use super::rpc::RPC;
use super::wire::Params;
use super::{TITLE, tool_use};
use crate::json_lines::report_unknown;
use crate::jsonrpc::{Failure, METHOD_NOT_FOUND, RequestId};
use crate::mcp::ToolOutput;
use crate::permissions::{UNCLEAR, denied, reason};

/// Denial message for a sub-agent's request that does not name its tool call.
const UNCLEAR_SUBAGENT: &str = "Denied: a sub-agent's permission request \
    does not say what it is about, and its call was not reported.";

/// Kind of a request.
#[derive(Debug)]
enum RequestKind {
    /// Approval of a command or of file changes.
    Decision,
    /// Approval of these additional permissions.
    Permissions(RawJson),
    /// Approval of an MCP server's tool.
    Mcp,
    /// A call of one of the caller's tools. The policy is checked first.
    Tool(ToolJob),
}

/// A request without a verdict so far.
#[derive(Debug)]
struct PendingRequest {
    rpc: RequestId,
    kind: RequestKind,
    call: Option<String>,
    tool: String,
    input: RawJson,
}

/// Pending requests of a conversation.
#[derive(Debug)]
pub(super) struct OpenPermissions {
    names: BTreeSet<String>,
    /// Requests by the JSON of their ids.
    open: BTreeMap<String, PendingRequest>,
    /// Running calls of the caller's tools, by the JSON of their ids.
    running_tools: BTreeMap<String, RequestId>,
}

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        let names = spec
            .bound_tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        Self {
            names,
            open: BTreeMap::new(),
            running_tools: BTreeMap::new(),
        }
    }

    /// Returns the names of the caller's tools.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }

    /// Withdraws a request or cancels a tool that Codex no longer waits for.
    pub(super) fn withdraw(&mut self, id: &str, out: &mut Outbox) {
        if self.open.remove(id).is_some() {
            out.push(FromConversation::WithdrawPermission(id.to_owned()));
        }
        if self.running_tools.remove(id).is_some() {
            out.push(Action::CancelTool(id.to_owned()));
        }
    }

    /// Withdraws all requests at the end of the turn.
    pub(super) fn withdraw_all(&mut self, out: &mut Outbox) {
        let ids: Vec<String> = self
            .open
            .keys()
            .chain(self.running_tools.keys())
            .cloned()
            .collect();
        ids.iter().for_each(|id| self.withdraw(id, out));
    }

    /// Sends a tool's result. Does nothing if the call is no longer pending.
    pub(super) fn on_tool_result(&mut self, id: &str, result: ToolOutput<'_>, out: &mut Outbox) {
        if let Some(rpc) = self.running_tools.remove(id) {
            RPC.reply(&rpc, tool_response(result), out);
        }
    }

    fn wants(&self, request: &PendingRequest) -> ToolUse {
        match request.kind {
            RequestKind::Tool(_) => ToolUse::new(&request.tool, ToolKind::Other),
            _ => tool_use::tool_use(&request.tool, &request.input),
        }
    }
}

/// Returns the response to a call of one of the caller's tools.
fn tool_response(result: ToolOutput<'_>) -> Value {
    let content = json!([{"type": "inputText", "text": result.text}]);
    json!({"contentItems": content, "success": result.ok})
}

/// Thread that a request comes from.
#[derive(Debug)]
pub(super) enum Requester<'a> {
    /// The conversation's own thread.
    Own,
    /// A sub-agent's thread, with its items if any are known.
    Subagent(Option<&'a Items>),
}

/// A request of Codex.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) id: RequestId,
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
}

impl Request<'_> {
    /// Returns the request as one that waits for a verdict.
    fn pending(&self, kind: RequestKind, tool: String, input: RawJson) -> PendingRequest {
        PendingRequest {
            rpc: self.id.clone(),
            kind,
            call: self.params.item_id.owned(),
            tool,
            input,
        }
    }
}

/// Parts of the conversation that a request needs.
pub(super) struct AskContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) items: &'a mut Items,
    pub(super) permissions: &'a mut OpenPermissions,
    pub(super) requester: Requester<'a>,
}

impl AskContext<'_> {
    /// Handles a request of Codex.
    pub(super) fn on_request(&mut self, request: &Request<'_>, raw: &str, out: &mut Outbox) {
        let id = &request.id;
        match request.method {
            "item/commandExecution/requestApproval" => {
                let pending = self.command(request);
                self.ask(id, pending, out);
            }
            "item/fileChange/requestApproval" => {
                let pending = self.files(request);
                self.ask(id, pending, out);
            }
            "item/permissions/requestApproval" => self.ask(id, permissions(request), out),
            "mcpServer/elicitation/request" => match self.mcp(request) {
                Some((pending, true)) => self.ask(id, Some(pending), out),
                Some((pending, false)) => {
                    self.deny(&self.without_own_call(pending), self.unclear(), out);
                }
                None => {
                    RPC.reply(id, json!({"action": "decline"}), out);
                    let message = format!(
                        "An elicitation of MCP server {} was declined.",
                        request.params.server_name.or_empty()
                    );
                    out.warn(NoticeCode::QuestionDeclined, message);
                }
            },
            "item/tool/call" => self.tool(request, out),
            "item/tool/requestUserInput" => {
                RPC.reply(id, json!({"answers": {}}), out);
                out.warn(
                    NoticeCode::QuestionDeclined,
                    "A question of the model was declined.",
                );
            }
            // Used by earlier versions.
            "applyPatchApproval" | "execCommandApproval" => {
                RPC.reply(id, json!({"decision": "denied"}), out);
            }
            other => {
                let failure = Failure {
                    code: METHOD_NOT_FOUND,
                    message: "unknown method",
                };
                RPC.reply_error(id, failure, out);
                report_unknown(TITLE, &format!("the request {other:?}"), raw, out);
            }
        }
    }

    fn unclear(&self) -> &'static str {
        if matches!(self.requester, Requester::Own) {
            UNCLEAR
        } else {
            UNCLEAR_SUBAGENT
        }
    }

    /// Returns the items of the requesting thread.
    fn calls(&self) -> Option<&Items> {
        match self.requester {
            Requester::Own => Some(&*self.items),
            Requester::Subagent(items) => items,
        }
    }

    fn command(&self, request: &Request<'_>) -> Option<PendingRequest> {
        let params = request.params;
        let (tool, input) = if let Some(network) = params.network_approval_context.map() {
            let host = network.host.or_empty();
            (tool_use::NETWORK, RawJson::of(&json!({ "host": host })))
        } else {
            let command = tool_use::CommandInput {
                command: params.command.text()?,
                cwd: params.cwd.text(),
                session_dir: self.items.session_dir.as_deref(),
                reason: params.reason.text(),
            };
            (tool_use::COMMAND, command.arguments())
        };
        Some(request.pending(RequestKind::Decision, tool.to_owned(), input))
    }

    /// Looks up the files to change in the item that was started.
    fn files(&self, request: &Request<'_>) -> Option<PendingRequest> {
        let params = request.params;
        let call = params.item_id.text()?;
        let (tool, input) = self.calls()?.calls.get(call)?.clone();
        let input = match params.grant_root.text() {
            Some(root) => with_root(&input, root)?,
            None => input,
        };
        Some(request.pending(RequestKind::Decision, tool, input))
    }

    /// Reads the approval of an MCP server's tool, which has the form of an elicitation of that
    /// server. It does not name the tool: the flag is false if the open calls do not identify it
    /// either.
    fn mcp(&self, request: &Request<'_>) -> Option<(PendingRequest, bool)> {
        let params = request.params;
        let meta = &params.meta;
        if meta.codex_approval_kind.text() != Some("mcp_tool_call") {
            return None;
        }
        let input = meta
            .tool_params
            .map_or_else(RawJson::null, RawJson::from_raw);
        let server = params.server_name.or_empty();
        let all = self
            .calls()
            .map(|items| items.open_calls(server, &input))
            .unwrap_or_default();
        let is_known = matches!(self.requester, Requester::Own) || !all.is_empty();
        let is_clear = is_known
            && all
                .iter()
                .all(|(_, name)| Some(*name) == all.first().map(|(_, first)| *first));
        let found = all.first().filter(|_| is_clear);
        let call = found.map(|(id, _)| (*id).clone());
        let tool = found.map_or_else(|| tool_use::mcp(server, "?"), |(_, name)| (*name).clone());
        let pending = request.pending(RequestKind::Mcp, tool, input);
        Some((PendingRequest { call, ..pending }, is_clear))
    }

    /// Detaches a sub-agent's request from any call. Its calls are not shown, and a call of the
    /// conversation's own thread may have the same id, which the verdict must not affect.
    fn without_own_call(&self, request: PendingRequest) -> PendingRequest {
        match self.requester {
            Requester::Own => request,
            Requester::Subagent(_) => PendingRequest {
                call: None,
                ..request
            },
        }
    }

    fn ask(&mut self, id: &RequestId, request: Option<PendingRequest>, out: &mut Outbox) {
        let denied = match (&request, self.plan.attended) {
            (None, _) => Some(self.unclear()),
            (_, false) => Some(UNATTENDED_DENIAL),
            _ => None,
        };
        let request = self.without_own_call(request.unwrap_or_else(|| PendingRequest {
            rpc: id.clone(),
            kind: RequestKind::Decision,
            call: None,
            tool: "unknown".into(),
            input: RawJson::null(),
        }));
        if let Some(why) = denied {
            return self.deny(&request, why, out);
        }
        let fallback = if matches!(request.kind, RequestKind::Tool(_)) {
            Fallback::Agent
        } else {
            Fallback::Person
        };
        let id = id.as_json().to_owned();
        out.push(PermissionRequest {
            id: id.clone(),
            call: request.call.clone(),
            input: Some(request.input.clone()),
            wants: self.permissions.wants(&request),
            fallback,
        });
        self.permissions.open.insert(id, request);
    }

    /// Denies a request immediately, without asking.
    fn deny(&mut self, request: &PendingRequest, why: &str, out: &mut Outbox) {
        let wants = self.permissions.wants(request);
        let call = request.call.as_deref();
        let shown = call.unwrap_or(request.rpc.as_json()).to_owned();
        out.event(Permission {
            kind: Some(wants.kind),
            input: Some(request.input.clone()).filter(|input| input.get() != "null"),
            message: Some(why.to_owned()),
            ..denied(DecidedBy::Default, shown, wants.tool)
        });
        self.respond(request, &Verdict::Deny(why.to_owned()), out);
    }

    fn tool(&mut self, request: &Request<'_>, out: &mut Outbox) {
        let params = request.params;
        let name = params.tool.or_empty().to_owned();
        if !self.permissions.names.contains(&name) {
            let result = ToolOutput::failed("There is no such tool in this session.");
            return RPC.reply(&request.id, tool_response(result), out);
        }
        let job = ToolJob {
            id: request.id.as_json().to_owned(),
            call: params.call_id.owned(),
            name: name.clone(),
            input: params
                .arguments
                .map_or_else(RawJson::null, RawJson::from_raw),
        };
        let pending = PendingRequest {
            rpc: request.id.clone(),
            call: job.call.clone(),
            tool: name,
            input: job.input.clone(),
            kind: RequestKind::Tool(job),
        };
        if self.plan.policy {
            self.ask(&request.id, Some(pending), out);
        } else {
            self.respond(&pending, &Verdict::Undecided, out);
        }
    }

    /// Replies with a verdict. Does nothing if the request is unknown or was withdrawn.
    pub(super) fn on_verdict(&mut self, id: &str, verdict: &Verdict, out: &mut Outbox) {
        if let Some(request) = self.permissions.open.remove(id) {
            self.respond(&request, verdict, out);
        }
    }

    fn respond(&mut self, request: &PendingRequest, verdict: &Verdict, out: &mut Outbox) {
        let allowed = match verdict {
            Verdict::Allow => true,
            Verdict::Undecided => matches!(request.kind, RequestKind::Tool(_)),
            Verdict::Deny(_) => false,
        };
        let why = reason(verdict);
        match request
            .call
            .as_ref()
            .filter(|call| self.items.calls.contains_key(*call))
        {
            _ if allowed => {}
            Some(call) => {
                self.items.denials.insert(call.clone(), why.to_owned());
            }
            // No call gets a result, so the denial is known only here.
            None => self.items.denied.push(request.tool.clone()),
        }
        let id = &request.rpc;
        let accept = if allowed { "accept" } else { "decline" };
        match &request.kind {
            RequestKind::Decision => RPC.reply(id, json!({ "decision": accept }), out),
            RequestKind::Mcp => RPC.reply(id, json!({ "action": accept }), out),
            RequestKind::Permissions(wanted) => {
                let none = RawJson::of(&json!({}));
                let response = PermissionsResponse {
                    permissions: if allowed { wanted } else { &none },
                    scope: "turn",
                };
                RPC.reply(id, response, out);
            }
            RequestKind::Tool(job) if allowed => {
                self.permissions
                    .running_tools
                    .insert(id.as_json().to_owned(), id.clone());
                out.push(Action::RunTool(job.clone()));
            }
            RequestKind::Tool(_) => {
                RPC.reply(id, tool_response(ToolOutput::failed(why)), out);
            }
        }
    }
}

#[derive(Serialize)]
struct PermissionsResponse<'a> {
    permissions: &'a RawJson,
    scope: &'static str,
}

fn permissions(request: &Request<'_>) -> Option<PendingRequest> {
    let wanted = request.params.permissions;
    let wanted = RawJson::from_raw(wanted.filter(|raw| raw.get().starts_with('{'))?);
    let kind = RequestKind::Permissions(wanted.clone());
    Some(request.pending(kind, tool_use::PERMISSIONS.to_owned(), wanted))
}

/// Adds the directory that is to become writable to the changes.
fn with_root(input: &RawJson, root: &str) -> Option<RawJson> {
    #[derive(Serialize, serde::Deserialize)]
    struct Changes<'a> {
        #[serde(borrow)]
        changes: &'a RawValue,
        #[serde(default)]
        root: Option<&'a str>,
    }
    let changes: Changes<'_> = serde_json::from_str(input.get()).ok()?;
    Some(RawJson::of(&Changes {
        root: Some(root),
        ..changes
    }))
}
