//! Questions of Codex's: whether something may run, and for tools of the caller's.
//!
//! A question that cannot be understood is never a yes. Codex gives the model no reason for a no; the caller gets it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{FromConversation, Outbox, ToolOrder};
use ostler_core::event::{DecidedBy, Decision, Level, Permission};
use ostler_core::permission::{NOBODY, Otherwise, PermissionRequest, ToolKind, ToolUse, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use serde::Serialize;
use serde_json::value::RawValue;

use super::items::{Items, unknown};
use super::plan::Plan;
use super::wire::Params;
use super::{rpc, tool_use};

/// What is told about a question that does not say what it is about.
const UNCLEAR: &str = "Denied: the permission request does not say what it is about.";

/// The same, when it is a sub-agent's.
const UNCLEAR_OF_ANOTHER: &str = "Denied: a sub-agent's permission request does not say what it is about, and its call was not told.";

/// What Codex wants to know.
#[derive(Debug, Clone)]
enum Way {
    /// Whether a command may run, or files may be changed.
    Decision,
    /// Whether the agent gets these permissions.
    Permissions(RawJson),
    /// Whether a tool of an MCP server may run.
    Mcp,
    /// What a tool of the caller's gives. Rules are asked first.
    Tool(ToolOrder),
}

/// A question that waits for its answer.
#[derive(Debug, Clone)]
struct Question {
    way: Way,
    call: Option<String>,
    tool: String,
    input: RawJson,
}

/// The questions of a conversation.
#[derive(Debug)]
pub(super) struct OpenPermissions {
    names: BTreeSet<String>,
    /// Questions by the JSON of their ids.
    open: BTreeMap<String, Question>,
    /// Tools of the caller's that are at work.
    at_work: BTreeSet<String>,
}

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        let names = spec.tools.iter().map(|tool| tool.name.clone()).collect();
        Self {
            names,
            open: BTreeMap::new(),
            at_work: BTreeSet::new(),
        }
    }

    /// The caller's tools.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }

    /// Nobody waits for the answer any more.
    pub(super) fn withdraw(&mut self, id: &str, out: &mut Outbox) {
        if self.open.remove(id).is_some() {
            out.push(FromConversation::Withdraw(id.to_owned()));
        }
        if self.at_work.remove(id) {
            out.push(FromConversation::ToolOff(id.to_owned()));
        }
    }

    /// The turn is over.
    pub(super) fn withdraw_all(&mut self, out: &mut Outbox) {
        let ids: Vec<String> = self.open.keys().chain(&self.at_work).cloned().collect();
        ids.iter().for_each(|id| self.withdraw(id, out));
    }

    /// What came of a tool. Of one that nobody waits for, nothing is said.
    pub(super) fn done(&mut self, id: &str, (ok, text): (bool, &str), out: &mut Outbox) {
        if self.at_work.remove(id) {
            rpc::reply(id, &ToolAnswer::new(ok, text), out);
        }
    }

    fn wants(&self, question: &Question) -> ToolUse {
        match question.way {
            Way::Tool(_) => ToolUse::of(&question.tool, ToolKind::Other),
            _ => tool_use::tool_use(&question.tool, &question.input),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolAnswer<'a> {
    content_items: [Piece<'a>; 1],
    success: bool,
}

#[derive(Serialize)]
struct Piece<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> ToolAnswer<'a> {
    fn new(success: bool, text: &'a str) -> Self {
        Self {
            content_items: [Piece {
                r#type: "inputText",
                text,
            }],
            success,
        }
    }
}

/// Whose question it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Requester<'a> {
    /// That of the thread that is talked in.
    Own,
    /// That of a sub-agent, and what is known of its calls.
    Other(Option<&'a Items>),
}

/// What a question needs to know of the conversation.
pub(super) struct AskContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) items: &'a mut Items,
    pub(super) permissions: &'a mut OpenPermissions,
    pub(super) requester: Requester<'a>,
}

impl AskContext<'_> {
    /// Reads a request of Codex's. `id` is the JSON of its id.
    pub(super) fn hear(
        &mut self,
        (id, method): (&str, &str),
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) {
        match method {
            "item/commandExecution/requestApproval" => {
                let question = self.command(params);
                self.ask(id, question, out);
            }
            "item/fileChange/requestApproval" => {
                let question = self.files(params);
                self.ask(id, question, out);
            }
            "item/permissions/requestApproval" => self.ask(id, permissions(params), out),
            "mcpServer/elicitation/request" => match self.mcp(params) {
                Some((question, true)) => self.ask(id, Some(question), out),
                Some((question, false)) => {
                    self.refuse((id, &self.foreign(question)), self.unclear(), out)
                }
                None => {
                    rpc::reply(id, &Elicited { action: "decline" }, out);
                    let message = format!(
                        "A question of the MCP server {} was declined.",
                        params.server_name.or_empty()
                    );
                    out.notice(Level::Warning, "question_declined", message);
                }
            },
            "item/tool/call" => self.tool(id, params, out),
            "item/tool/requestUserInput" => {
                rpc::reply(
                    id,
                    &Input {
                        answers: BTreeMap::new(),
                    },
                    out,
                );
                out.notice(
                    Level::Warning,
                    "question_declined",
                    "A question of the model's was left without an answer.",
                );
            }
            // Of earlier versions.
            "applyPatchApproval" | "execCommandApproval" => {
                rpc::reply(id, &Decided { decision: "denied" }, out)
            }
            other => {
                rpc::refuse(id, "this client does not know the method", out);
                unknown(raw, &format!("a request {other:?}"), out);
            }
        }
    }

    fn unclear(&self) -> &'static str {
        if matches!(self.requester, Requester::Own) {
            UNCLEAR
        } else {
            UNCLEAR_OF_ANOTHER
        }
    }

    /// The calls of whoever asks.
    fn calls(&self) -> Option<&Items> {
        match self.requester {
            Requester::Own => Some(&*self.items),
            Requester::Other(items) => items,
        }
    }

    fn command(&self, params: &Params<'_>) -> Option<Question> {
        #[derive(Serialize)]
        struct Host<'a> {
            host: &'a str,
        }
        let call = params.item_id.owned();
        if let Some(network) = params.network_approval_context.map() {
            let input = RawJson::of(&Host {
                host: network.host.or_empty(),
            });
            return Some(Question {
                way: Way::Decision,
                call,
                tool: tool_use::NETWORK.to_owned(),
                input,
            });
        }
        let place = (params.cwd.text(), self.items.home.as_deref());
        let input = tool_use::command_input(params.command.text()?, place, params.reason.text());
        Some(Question {
            way: Way::Decision,
            call,
            tool: tool_use::COMMAND.to_owned(),
            input,
        })
    }

    /// Which files are to be changed stands in the item that was begun.
    fn files(&self, params: &Params<'_>) -> Option<Question> {
        let call = params.item_id.owned();
        let (tool, input) = self.calls()?.calls.get(call.as_deref()?)?.clone();
        let input = match params.grant_root.text() {
            Some(root) => with_root(&input, root)?,
            None => input,
        };
        Some(Question {
            way: Way::Decision,
            call,
            tool,
            input,
        })
    }

    /// Whether a tool of an MCP server may run comes in the form of a question of that server's. It does not say which tool:
    /// false when that is not clear from the calls that are open either.
    fn mcp(&self, params: &Params<'_>) -> Option<(Question, bool)> {
        let meta = params
            .meta
            .map()
            .filter(|meta| meta.codex_approval_kind.text() == Some("mcp_tool_call"))?;
        let input = meta.tool_params.map_or_else(RawJson::null, RawJson::keep);
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
            Question {
                way: Way::Mcp,
                call,
                tool,
                input,
            },
            is_clear,
        ))
    }

    /// A sub-agent's calls are not shown, and one of ours may have the same id: what is decided must not fall on that one.
    fn foreign(&self, question: Question) -> Question {
        match self.requester {
            Requester::Own => question,
            Requester::Other(_) => Question {
                call: None,
                ..question
            },
        }
    }

    fn ask(&mut self, id: &str, question: Option<Question>, out: &mut Outbox) {
        let empty = Question {
            way: Way::Decision,
            call: None,
            tool: "unknown".into(),
            input: RawJson::null(),
        };
        let refused = match (&question, self.plan.attended) {
            (None, _) => Some(self.unclear()),
            (_, false) => Some(NOBODY),
            _ => None,
        };
        let question = self.foreign(question.unwrap_or(empty));
        if let Some(why) = refused {
            return self.refuse((id, &question), why, out);
        }
        let otherwise = if matches!(question.way, Way::Tool(_)) {
            Otherwise::Agent
        } else {
            Otherwise::Person
        };
        out.push(FromConversation::Ask(PermissionRequest {
            id: id.to_owned(),
            call: question.call.clone(),
            input: Some(question.input.clone()),
            wants: self.permissions.wants(&question),
            otherwise,
        }));
        self.permissions.open.insert(id.to_owned(), question);
    }

    /// Denies at once, without asking anybody.
    fn refuse(&mut self, (id, question): (&str, &Question), why: &str, out: &mut Outbox) {
        let wants = self.permissions.wants(question);
        out.event(Permission {
            id: question.call.clone().unwrap_or_else(|| id.to_owned()),
            tool: wants.tool,
            kind: Some(wants.kind),
            input: Some(question.input.clone()).filter(|input| input.get() != "null"),
            decision: Decision::Denied,
            by: DecidedBy::Default,
            message: Some(why.to_owned()),
        });
        self.answer((id, question), &Verdict::Deny(why.to_owned()), out);
    }

    fn tool(&mut self, id: &str, params: &Params<'_>, out: &mut Outbox) {
        let name = params.tool.or_empty().to_owned();
        if !self.permissions.names.contains(&name) {
            return rpc::reply(
                id,
                &ToolAnswer::new(false, "There is no such tool in this session."),
                out,
            );
        }
        let input = params.arguments.map_or_else(RawJson::null, RawJson::keep);
        let call = params.call_id.owned();
        let order = ToolOrder {
            id: id.to_owned(),
            call: call.clone(),
            name: name.clone(),
            input: input.clone(),
        };
        let question = Question {
            way: Way::Tool(order),
            call,
            tool: name,
            input,
        };
        if self.plan.policy {
            self.ask(id, Some(question), out);
        } else {
            self.answer((id, &question), &Verdict::Undecided, out);
        }
    }

    /// Passes a verdict on. Of a question that nobody asked, or that was withdrawn, nothing is said.
    pub(super) fn decided(&mut self, id: &str, verdict: &Verdict, out: &mut Outbox) {
        if let Some(question) = self.permissions.open.remove(id) {
            self.answer((id, &question), verdict, out);
        }
    }

    fn answer(&mut self, (id, question): (&str, &Question), verdict: &Verdict, out: &mut Outbox) {
        let allowed = match verdict {
            Verdict::Allow => true,
            Verdict::Undecided => matches!(question.way, Way::Tool(_)),
            Verdict::Deny(_) => false,
        };
        let why = match verdict {
            Verdict::Deny(why) if !why.is_empty() => why.as_str(),
            Verdict::Deny(_) => "Denied.",
            _ => NOBODY,
        };
        match question
            .call
            .as_ref()
            .filter(|call| self.items.calls.contains_key(*call))
        {
            _ if allowed => {}
            Some(call) => {
                self.items.denials.insert(call.clone(), why.to_owned());
            }
            // There is no call that gets a result: what was denied is known only here.
            None => self.items.denied.push(question.tool.clone()),
        }
        match &question.way {
            Way::Decision => rpc::reply(
                id,
                &Decided {
                    decision: if allowed { "accept" } else { "decline" },
                },
                out,
            ),
            Way::Mcp => rpc::reply(
                id,
                &Elicited {
                    action: if allowed { "accept" } else { "decline" },
                },
                out,
            ),
            Way::Permissions(wanted) => {
                let none = RawJson::of(&BTreeMap::<&str, &str>::new());
                rpc::reply(
                    id,
                    &Granted {
                        permissions: if allowed { wanted } else { &none },
                        scope: "turn",
                    },
                    out,
                );
            }
            Way::Tool(order) if allowed => {
                self.permissions.at_work.insert(id.to_owned());
                out.push(FromConversation::Tool(order.clone()));
            }
            Way::Tool(_) => rpc::reply(id, &ToolAnswer::new(false, why), out),
        }
    }
}

#[derive(Serialize)]
struct Decided {
    decision: &'static str,
}

#[derive(Serialize)]
struct Elicited {
    action: &'static str,
}

#[derive(Serialize)]
struct Granted<'a> {
    permissions: &'a RawJson,
    scope: &'static str,
}

#[derive(Serialize)]
struct Input {
    answers: BTreeMap<String, String>,
}

fn permissions(params: &Params<'_>) -> Option<Question> {
    let wanted = RawJson::keep(
        params
            .permissions
            .filter(|raw| raw.get().starts_with('{'))?,
    );
    let tool = tool_use::PERMISSIONS.to_owned();
    Some(Question {
        way: Way::Permissions(wanted.clone()),
        call: params.item_id.owned(),
        tool,
        input: wanted,
    })
}

/// The changes, with the directory that is to be open for changes from now on.
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
