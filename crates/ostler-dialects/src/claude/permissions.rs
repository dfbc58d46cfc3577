//! Questions whether a tool may run. They come on two ways: from a hook, before every call and whatever Claude Code's own
//! layer thinks of it; and from that layer, about what it would ask a person.

use std::collections::BTreeMap;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{DecidedBy, Decision, Permission};
use ostler_core::permission::{NOBODY, Otherwise, PermissionRequest, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{self, Spec};
use serde::Serialize;
use serde_json::value::RawValue;

use super::control::{self, HOOK};
use super::conversation::ClaudeConversation;
use super::wire::{HookInput, Request};
use crate::lenient::Node;
use crate::surrogates;

/// What it is told about a question that does not say what it is about.
const UNCLEAR: &str = "Denied: the permission request lacks the tool's name or its input.";

/// Which way a question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The hook: without a verdict Claude Code goes on as if nobody had been asked.
    Hook,
    /// Its own layer: without a yes it is a no.
    Layer,
}

/// A call that somebody decides on, or has decided on.
#[derive(Debug, Clone)]
struct Call {
    way: Way,
    id: Option<String>,
    tool: String,
    input: RawJson,
}

/// A decision that the hook passed on.
#[derive(Debug)]
pub(super) struct Decided {
    call: Call,
    verdict: Verdict,
}

/// The questions of a conversation.
#[derive(Debug)]
pub(super) struct OpenPermissions {
    /// Whether there are rules, which every call is put before.
    pub(super) policy: bool,
    /// Whether anybody decides, rules or a person.
    attended: bool,
    open: BTreeMap<String, Call>,
}

/// Whether what Claude Code asks is decided by somebody.
pub(super) fn attended(spec: &Spec) -> bool {
    spec.policy.is_some() || spec.attendance == spec::Attendance::Attended
}

impl OpenPermissions {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            policy: spec.policy.is_some(),
            attended: attended(spec),
            open: BTreeMap::new(),
        }
    }

    /// Whether a question of this id waits for its answer.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Nobody waits for the answer any more; false when nobody did.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }
}

/// Reads a question of Claude Code's own layer.
pub(super) fn can_use_tool(
    talk: &mut ClaudeConversation,
    id: &str,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    let tool = request.tool_name.or_empty();
    let call = call(Way::Layer, request.tool_use_id.owned(), tool, request.input);
    if !talk.permissions.attended {
        return refuse(talk, (id, &call), NOBODY, out);
    }
    let Some(call) = call.well_formed() else {
        return refuse(talk, (id, &call), UNCLEAR, out);
    };
    // It can ask although the hook has said yes: a rule of its own says so. The answer is the same, unless the input is not.
    let same = |it: &&Decided| it.call.tool == call.tool && it.call.input == call.input;
    match call
        .id
        .as_ref()
        .and_then(|id| talk.turn.decided.get(id))
        .filter(same)
    {
        Some(decided) => answer(id, call, &decided.verdict, out),
        None => ask(talk, id, call.clone(), out),
    }
}

/// Reads a call of a hook. Of hooks that are not ours nothing is known, and they decide nothing.
pub(super) fn hook(
    talk: &mut ClaudeConversation,
    id: &str,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    if !talk.permissions.policy
        || request
            .callback_id
            .text()
            .is_some_and(|callback| callback != HOOK)
    {
        return control::reply(id, &HookAnswer { output: None }, out);
    }
    let text = request.input.map_or("null", RawValue::get);
    let mut room = String::new();
    let input: Node<'_, HookInput<'_>> = surrogates::read(text, &mut room);
    let empty = HookInput::default();
    let input = input.map().unwrap_or(&empty);
    let call_id = input
        .tool_use_id
        .owned()
        .or_else(|| request.tool_use_id.owned());
    let call = call(
        Way::Hook,
        call_id,
        input.tool_name.or_empty(),
        input.tool_input,
    );
    match call.well_formed() {
        // An error would be as good as an empty answer, and the tool might run.
        None => refuse(talk, (id, &call), UNCLEAR, out),
        Some(call) => ask(talk, id, call.clone(), out),
    }
}

fn call(way: Way, id: Option<String>, tool: &str, input: Option<&RawValue>) -> Call {
    Call {
        way,
        id,
        tool: tool.to_owned(),
        input: input.map_or_else(RawJson::null, RawJson::keep),
    }
}

impl Call {
    fn well_formed(&self) -> Option<&Self> {
        (!self.tool.is_empty() && self.input.get().starts_with('{')).then_some(self)
    }
}

fn ask(talk: &mut ClaudeConversation, id: &str, call: Call, out: &mut Outbox) {
    out.push(FromConversation::Ask(PermissionRequest {
        id: id.to_owned(),
        call: call.id.clone(),
        input: Some(call.input.clone()),
        wants: talk.server.wants(&call.tool, &call.input),
        otherwise: match call.way {
            Way::Hook => Otherwise::Agent,
            Way::Layer => Otherwise::Person,
        },
    }));
    talk.permissions.open.insert(id.to_owned(), call);
}

/// Passes a verdict on. Of a question that nobody asked, or that was withdrawn, nothing is said.
pub(super) fn decided(talk: &mut ClaudeConversation, id: &str, verdict: Verdict, out: &mut Outbox) {
    let Some(call) = talk.permissions.open.remove(id) else {
        return;
    };
    answer(id, &call, &verdict, out);
    let Some(call_id) = call.id.clone() else {
        return;
    };
    if matches!(verdict, Verdict::Deny(_)) {
        talk.turn.denied.insert(call_id.clone());
    }
    if call.way == Way::Hook && verdict != Verdict::Undecided {
        talk.turn.decided.insert(call_id, Decided { call, verdict });
    }
}

/// Denies at once, without asking anybody.
fn refuse(talk: &ClaudeConversation, (id, call): (&str, &Call), why: &str, out: &mut Outbox) {
    answer(id, call, &Verdict::Deny(why.to_owned()), out);
    out.event(Permission {
        id: call.id.clone().unwrap_or_else(|| id.to_owned()),
        tool: talk.server.shown(&call.tool),
        kind: None,
        input: Some(call.input.clone()).filter(|input| input.get() != "null"),
        decision: Decision::Denied,
        by: DecidedBy::Default,
        message: Some(why.to_owned()),
    });
}

#[derive(Serialize)]
struct LayerAnswer<'a> {
    behavior: &'static str,
    #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize)]
struct HookAnswer<'a> {
    #[serde(rename = "hookSpecificOutput", skip_serializing_if = "Option::is_none")]
    output: Option<HookOutput<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookOutput<'a> {
    hook_event_name: &'static str,
    permission_decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision_reason: Option<&'a str>,
}

fn answer(id: &str, call: &Call, verdict: &Verdict, out: &mut Outbox) {
    let (decision, why) = match (verdict, call.way) {
        (Verdict::Allow, _) => ("allow", None),
        (Verdict::Deny(why), _) if why.is_empty() => ("deny", Some("Denied.")),
        (Verdict::Deny(why), _) => ("deny", Some(why.as_str())),
        (Verdict::Undecided, Way::Hook) => {
            return control::reply(id, &HookAnswer { output: None }, out);
        }
        (Verdict::Undecided, Way::Layer) => ("deny", Some(NOBODY)),
    };
    match call.way {
        Way::Layer => {
            let input = Some(&call.input).filter(|_| why.is_none());
            control::reply(
                id,
                &LayerAnswer {
                    behavior: decision,
                    input,
                    message: why,
                },
                out,
            );
        }
        Way::Hook => {
            let output = HookOutput {
                hook_event_name: "PreToolUse",
                permission_decision: decision,
                permission_decision_reason: why,
            };
            control::reply(
                id,
                &HookAnswer {
                    output: Some(output),
                },
                out,
            );
        }
    }
}
