//! Requests of Codex: approvals, and calls of the caller's tools.
//!
//! A request that cannot be understood is never approved. Codex does not pass the reason of a
//! denial to the model; the caller gets it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{FromConversation, Outbox, ToolJob};
use ostler_core::event::{DecidedBy, Decision, Level, Permission};
use ostler_core::permission::{
    Fallback, PermissionRequest, ToolKind, ToolUse, UNATTENDED_DENIAL, Verdict,
};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use serde::Serialize;
use serde_json::value::RawValue;

use super::items::{Items, report_unknown};
use super::plan::Plan;
use super::wire::Params;
use super::{rpc, tool_use};

/// Denial message for a request that does not name its tool call.
const UNCLEAR: &str = "Denied: the permission request does not say what it is about.";

/// Denial message for such a request of a sub-agent.
const UNCLEAR_SUBAGENT: &str = "Denied: a sub-agent's permission request \
    does not say what it is about, and its call was not reported.";

/// Kind of a request.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
struct PendingRequest {
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
    /// Ids of running calls of the caller's tools.
    running_tools: BTreeSet<String>,
}

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        let names = spec.tools.iter().map(|tool| tool.name.clone()).collect();
        Self {
            names,
            open: BTreeMap::new(),
            running_tools: BTreeSet::new(),
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
        if self.running_tools.remove(id) {
            out.push(FromConversation::CancelTool(id.to_owned()));
        }
    }

    /// Withdraws all requests at the end of the turn.
    pub(super) fn withdraw_all(&mut self, out: &mut Outbox) {
        let ids: Vec<String> = self
            .open
            .keys()
            .chain(&self.running_tools)
            .cloned()
            .collect();
        ids.iter().for_each(|id| self.withdraw(id, out));
    }

    /// Sends a tool's result. Does nothing if the call is no longer pending.
    pub(super) fn on_tool_result(&mut self, id: &str, (ok, text): (bool, &str), out: &mut Outbox) {
        if self.running_tools.remove(id) {
            rpc::reply(id, &ToolResponse::new(ok, text), out);
        }
    }

    fn wants(&self, request: &PendingRequest) -> ToolUse {
        match request.kind {
            RequestKind::Tool(_) => ToolUse::new(&request.tool, ToolKind::Other),
            _ => tool_use::tool_use(&request.tool, &request.input),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResponse<'a> {
    content_items: [InputText<'a>; 1],
    success: bool,
}

#[derive(Serialize)]
struct InputText<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> ToolResponse<'a> {
    fn new(success: bool, text: &'a str) -> Self {
        Self {
            content_items: [InputText {
                r#type: "inputText",
                text,
            }],
            success,
        }
    }
}

/// Thread that a request comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Requester<'a> {
    /// The conversation's own thread.
    Own,
    /// A sub-agent's thread, with its items if any are known.
    Subagent(Option<&'a Items>),
}

/// Parts of the conversation that a request needs.
pub(super) struct AskContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) items: &'a mut Items,
    pub(super) permissions: &'a mut OpenPermissions,
    pub(super) requester: Requester<'a>,
}

impl AskContext<'_> {
    /// Handles a request of Codex. `id` is the JSON of its id.
    pub(super) fn on_request(
        &mut self,
        (id, method): (&str, &str),
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) {
        match method {
            "item/commandExecution/requestApproval" => {
                let request = self.command(params);
                self.ask(id, request, out);
            }
            "item/fileChange/requestApproval" => {
                let request = self.files(params);
                self.ask(id, request, out);
            }
            "item/permissions/requestApproval" => self.ask(id, permissions(params), out),
            "mcpServer/elicitation/request" => match self.mcp(params) {
                Some((request, true)) => self.ask(id, Some(request), out),
                Some((request, false)) => {
                    self.deny((id, &self.without_own_call(request)), self.unclear(), out);
                }
                None => {
                    rpc::reply(id, &ElicitationResponse { action: "decline" }, out);
                    let message = format!(
                        "An elicitation of MCP server {} was declined.",
                        params.server_name.or_empty()
                    );
                    out.notice(Level::Warning, "question_declined", message);
                }
            },
            "item/tool/call" => self.tool(id, params, out),
            "item/tool/requestUserInput" => {
                rpc::reply(
                    id,
                    &UserInputResponse {
                        answers: BTreeMap::new(),
                    },
                    out,
                );
                out.notice(
                    Level::Warning,
                    "question_declined",
                    "A question of the model was declined.",
                );
            }
            // Used by earlier versions.
            "applyPatchApproval" | "execCommandApproval" => {
                rpc::reply(id, &DecisionResponse { decision: "denied" }, out);
            }
            other => {
                rpc::reply_error(id, "unknown method", out);
                report_unknown(raw, &format!("the request {other:?}"), out);
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

    fn command(&self, params: &Params<'_>) -> Option<PendingRequest> {
        #[derive(Serialize)]
        struct Host<'a> {
            host: &'a str,
        }
        let call = params.item_id.owned();
        if let Some(network) = params.network_approval_context.map() {
            let input = RawJson::of(&Host {
                host: network.host.or_empty(),
            });
            return Some(PendingRequest {
                kind: RequestKind::Decision,
                call,
                tool: tool_use::NETWORK.to_owned(),
                input,
            });
        }
        let dirs = (params.cwd.text(), self.items.session_dir.as_deref());
        let input = tool_use::command_input(params.command.text()?, dirs, params.reason.text());
        Some(PendingRequest {
            kind: RequestKind::Decision,
            call,
            tool: tool_use::COMMAND.to_owned(),
            input,
        })
    }

    /// Looks up the files to change in the item that was started.
    fn files(&self, params: &Params<'_>) -> Option<PendingRequest> {
        let call = params.item_id.owned();
        let (tool, input) = self.calls()?.calls.get(call.as_deref()?)?.clone();
        let input = match params.grant_root.text() {
            Some(root) => with_root(&input, root)?,
            None => input,
        };
        Some(PendingRequest {
            kind: RequestKind::Decision,
            call,
            tool,
            input,
        })
    }

    /// Reads the approval of an MCP server's tool, which has the form of an elicitation of that
    /// server. It does not name the tool: the flag is false if the open calls do not identify it
    /// either.
    fn mcp(&self, params: &Params<'_>) -> Option<(PendingRequest, bool)> {
        let meta = params
            .meta
            .map()
            .filter(|meta| meta.codex_approval_kind.text() == Some("mcp_tool_call"))?;
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
        Some((
            PendingRequest {
                kind: RequestKind::Mcp,
                call,
                tool,
                input,
            },
            is_clear,
        ))
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

    fn ask(&mut self, id: &str, request: Option<PendingRequest>, out: &mut Outbox) {
        let empty = PendingRequest {
            kind: RequestKind::Decision,
            call: None,
            tool: "unknown".into(),
            input: RawJson::null(),
        };
        let denied = match (&request, self.plan.attended) {
            (None, _) => Some(self.unclear()),
            (_, false) => Some(UNATTENDED_DENIAL),
            _ => None,
        };
        let request = self.without_own_call(request.unwrap_or(empty));
        if let Some(why) = denied {
            return self.deny((id, &request), why, out);
        }
        let fallback = if matches!(request.kind, RequestKind::Tool(_)) {
            Fallback::Agent
        } else {
            Fallback::Person
        };
        out.push(FromConversation::AskPermission(PermissionRequest {
            id: id.to_owned(),
            call: request.call.clone(),
            input: Some(request.input.clone()),
            wants: self.permissions.wants(&request),
            fallback,
        }));
        self.permissions.open.insert(id.to_owned(), request);
    }

    /// Denies a request immediately, without asking.
    fn deny(&mut self, (id, request): (&str, &PendingRequest), why: &str, out: &mut Outbox) {
        let wants = self.permissions.wants(request);
        out.event(Permission {
            id: request.call.clone().unwrap_or_else(|| id.to_owned()),
            tool: wants.tool,
            kind: Some(wants.kind),
            input: Some(request.input.clone()).filter(|input| input.get() != "null"),
            decision: Decision::Denied,
            by: DecidedBy::Default,
            message: Some(why.to_owned()),
        });
        self.respond((id, request), &Verdict::Deny(why.to_owned()), out);
    }

    fn tool(&mut self, id: &str, params: &Params<'_>, out: &mut Outbox) {
        let name = params.tool.or_empty().to_owned();
        if !self.permissions.names.contains(&name) {
            return rpc::reply(
                id,
                &ToolResponse::new(false, "There is no such tool in this session."),
                out,
            );
        }
        let input = params
            .arguments
            .map_or_else(RawJson::null, RawJson::from_raw);
        let call = params.call_id.owned();
        let order = ToolJob {
            id: id.to_owned(),
            call: call.clone(),
            name: name.clone(),
            input: input.clone(),
        };
        let request = PendingRequest {
            kind: RequestKind::Tool(order),
            call,
            tool: name,
            input,
        };
        if self.plan.policy {
            self.ask(id, Some(request), out);
        } else {
            self.respond((id, &request), &Verdict::Undecided, out);
        }
    }

    /// Replies with a verdict. Does nothing if the request is unknown or was withdrawn.
    pub(super) fn on_verdict(&mut self, id: &str, verdict: &Verdict, out: &mut Outbox) {
        if let Some(request) = self.permissions.open.remove(id) {
            self.respond((id, &request), verdict, out);
        }
    }

    fn respond(
        &mut self,
        (id, request): (&str, &PendingRequest),
        verdict: &Verdict,
        out: &mut Outbox,
    ) {
        let allowed = match verdict {
            Verdict::Allow => true,
            Verdict::Undecided => matches!(request.kind, RequestKind::Tool(_)),
            Verdict::Deny(_) => false,
        };
        let why = match verdict {
            Verdict::Deny(why) if !why.is_empty() => why.as_str(),
            Verdict::Deny(_) => "Denied.",
            _ => UNATTENDED_DENIAL,
        };
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
        match &request.kind {
            RequestKind::Decision => rpc::reply(
                id,
                &DecisionResponse {
                    decision: if allowed { "accept" } else { "decline" },
                },
                out,
            ),
            RequestKind::Mcp => rpc::reply(
                id,
                &ElicitationResponse {
                    action: if allowed { "accept" } else { "decline" },
                },
                out,
            ),
            RequestKind::Permissions(wanted) => {
                let none = RawJson::of(&BTreeMap::<&str, &str>::new());
                rpc::reply(
                    id,
                    &PermissionsResponse {
                        permissions: if allowed { wanted } else { &none },
                        scope: "turn",
                    },
                    out,
                );
            }
            RequestKind::Tool(order) if allowed => {
                self.permissions.running_tools.insert(id.to_owned());
                out.push(FromConversation::RunTool(order.clone()));
            }
            RequestKind::Tool(_) => rpc::reply(id, &ToolResponse::new(false, why), out),
        }
    }
}

#[derive(Serialize)]
struct DecisionResponse {
    decision: &'static str,
}

#[derive(Serialize)]
struct ElicitationResponse {
    action: &'static str,
}

#[derive(Serialize)]
struct PermissionsResponse<'a> {
    permissions: &'a RawJson,
    scope: &'static str,
}

#[derive(Serialize)]
struct UserInputResponse {
    answers: BTreeMap<String, String>,
}

fn permissions(params: &Params<'_>) -> Option<PendingRequest> {
    let wanted = RawJson::from_raw(
        params
            .permissions
            .filter(|raw| raw.get().starts_with('{'))?,
    );
    let tool = tool_use::PERMISSIONS.to_owned();
    Some(PendingRequest {
        kind: RequestKind::Permissions(wanted.clone()),
        call: params.item_id.owned(),
        tool,
        input: wanted,
    })
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
