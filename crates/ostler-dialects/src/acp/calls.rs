//! Tool calls: each is reported once with its arguments and finished once, however many updates the
//! agent sends about it.

use std::collections::BTreeMap;

use ostler_core::dialect::{Outbox, ToolJob};
use ostler_core::event::{ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::json;
use serde_json::value::RawValue;

use super::profile::AgentProfile;
use super::quirks::{NameSource, Quirks};
use super::tool_use;
use super::wire::{Block, CallMeta, McpCall, Output, Update};
use crate::lenient::{self, List, Node, Object, Objects, Scalar};
use crate::mcp::ToolOutput;

/// What a conversation knows that its calls depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallContext<'a> {
    pub(super) profile: &'a AgentProfile,
    pub(super) quirks: &'a Quirks,
    /// Names of the caller's tools.
    pub(super) bound: &'a [String],
    /// Whether the turn was interrupted.
    pub(super) cut_off: bool,
}

/// The tool calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: BTreeMap<String, Call>,
    /// Denied calls without a result so far, with the reason given to the agent.
    denied: Vec<(String, String)>,
    /// Number of call ids that were reused.
    reused_ids: u64,
}

/// State of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) kind: String,
    title: String,
    /// The caller's name of the tool, if it is one of the caller's.
    pub(super) bound: Option<String>,
    /// Whether the agent reported the name.
    name_known: bool,
    /// Whether it calls a tool of an MCP server and is named after it.
    mcp: bool,
    input: Option<RawJson>,
    pub(super) paths: Vec<String>,
    /// The id shown in events, if it differs from the agent's: the tool ran before the agent
    /// announced the call.
    alias: Option<String>,
    /// Whether there was a job to run it, and whether that succeeded.
    has_job: bool,
    job_ok: Option<bool>,
    reported: bool,
    done: bool,
    denied: bool,
    /// Output so far.
    output: String,
    content: Option<RawJson>,
}

impl Call {
    /// Returns the arguments, or what the agent reports in place of them.
    pub(super) fn input(&self) -> RawJson {
        let substitute = || RawJson::of(&json!({"title": self.title, "locations": self.paths}));
        self.input.clone().unwrap_or_else(substitute)
    }

    /// Returns the id shown in events for the call with this agent id.
    pub(super) fn shown_id(&self, id: &str) -> String {
        self.alias.as_deref().unwrap_or(id).to_owned()
    }

    /// Returns the name shown in events.
    pub(super) fn shown(&self) -> &str {
        self.bound.as_deref().unwrap_or(&self.name)
    }

    fn report(&mut self, id: &str, out: &mut Outbox) {
        if !std::mem::replace(&mut self.reported, true) {
            out.event(ToolCall {
                id: self.shown_id(id),
                name: self.shown().to_owned(),
                input: self.input(),
                parent: None,
            });
        }
    }

    fn finish(&mut self, id: &str, ok: bool, out: &mut Outbox) {
        self.report(id, out);
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        out.event(ToolResult {
            id: self.shown_id(id),
            name: Some(self.shown().to_owned()),
            ok: ok && !self.denied,
            output: std::mem::take(&mut self.output),
            denied: self.denied,
            content: self.content.take(),
        });
    }
}

impl Calls {
    /// Handles an update about a call.
    pub(super) fn on_update(
        &mut self,
        context: CallContext<'_>,
        update: &Update<'_>,
        out: &mut Outbox,
    ) {
        let Some(id) = update.tool_call_id.text() else {
            return;
        };
        if update.session_update.text() == Some("tool_call")
            && matches!(update.status.or_empty(), "" | "pending" | "in_progress")
        {
            self.reset_if_reused(id);
        }
        self.merge(context, id, update);
        let is_finished = matches!(update.status.or_empty(), "completed" | "failed");
        let is_raw = context.quirks.formats_outputs && update.raw_output.is_some();
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| is_finished || is_raw || !context.quirks.describes_calls)
        {
            update_output(call, update, context.quirks);
        }
        if !self.denied.iter().any(|(denied, _)| denied == id) {
            self.finish_denied(out);
        }
        let Some(call) = self.all.get_mut(id) else {
            return;
        };
        let status = update.status.or_empty();
        let follows = context.quirks.input_follows
            && status == "pending"
            && update.session_update.text() == Some("tool_call");
        if !follows {
            call.report(id, out);
        }
        if is_finished {
            // If the agent reports no output, the denial reason has to do.
            let why = self
                .denied
                .iter()
                .find(|(denied, _)| denied == id)
                .map(|(_, why)| why);
            if let Some(why) = why.filter(|_| call.output.is_empty()) {
                call.output.clone_from(why);
            }
            let cut_off = context.cut_off && context.quirks.describes_calls;
            call.finish(
                id,
                status == "completed" && !cut_off && !command_failed(update.raw_output),
                out,
            );
            self.denied.retain(|(denied, _)| denied != id);
        }
    }

    /// Starts a new call if the id of a finished one is reused. Ids come from the model API
    /// and can repeat; the new call then shares nothing with the first.
    fn reset_if_reused(&mut self, id: &str) {
        if self.all.get(id).is_some_and(|call| call.done) {
            self.reused_ids += 1;
            let alias = Some(format!("{id}-again-{}", self.reused_ids));
            self.all.insert(
                id.to_owned(),
                Call {
                    alias,
                    ..Call::default()
                },
            );
        }
    }

    /// Merges what a permission request says about a call. It overrides earlier updates, because it
    /// is what the decision is about.
    pub(super) fn on_permission_request(
        &mut self,
        context: CallContext<'_>,
        id: &str,
        update: &Update<'_>,
    ) {
        self.reset_if_reused(id);
        let tool_name = update
            .name
            .owned()
            .or_else(|| name_in_meta(&lenient::parse(update.meta)));
        let has_diff = update
            .content
            .is_some_and(|content| content.get().contains(r#""diff""#));
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| !update.locations.is_empty() || has_diff)
        {
            call.paths.clear();
        }
        if let Some(call) = self.all.get_mut(id).filter(|call| !call.mcp) {
            if let Some(tool_name) = tool_name {
                call.name = tool_name;
                call.name_known = true;
            }
            if update.kind.text().is_some_and(|kind| kind != call.kind) {
                call.kind.clear();
                if context.quirks.names == NameSource::ValueKind {
                    call.name.clear();
                    call.name_known = false;
                }
            }
            if update.title.text().is_some() && context.quirks.title_is_command {
                call.title.clear();
            }
        }
        self.merge(context, id, update);
    }

    /// Merges an update about a call, except its output: the content of a permission request
    /// describes the request.
    fn merge(&mut self, context: CallContext<'_>, id: &str, update: &Update<'_>) {
        let CallContext {
            profile,
            quirks,
            bound,
            ..
        } = context;
        let call = self.all.entry(id.to_owned()).or_default();
        let meta: Object<CallMeta<'_>> = lenient::parse(update.meta);
        let set = |field: &mut String, text: &Scalar<'_>| {
            if let Some(text) = text.text().filter(|_| field.is_empty()) {
                text.clone_into(field);
            }
        };
        if meta.is_mcp_tool_call.is_true() {
            unwrap_mcp_call(call, update.raw_input);
        }
        set(&mut call.kind, &update.kind);
        set(&mut call.title, &update.title);
        let given = update
            .raw_input
            .filter(|input| input.get().starts_with('{') && input.get() != "{}");
        if let Some(input) = given.filter(|_| !call.mcp) {
            call.input = Some(RawJson::from_raw(input));
        }
        if !call.mcp && (call.name.is_empty() || !call.reported) {
            let tool_name = update.name.owned().or_else(|| name_in_meta(&meta));
            call.name_known |= tool_name.is_some();
            if let Some(name) =
                tool_name.or_else(|| (!call.name_known).then(|| fallback_name(quirks, id, call)))
            {
                call.name = name;
            }
        }
        // A title can be the model's own words: it identifies one of the caller's tools only if
        // nothing contradicts it.
        let is_plain = matches!(call.kind.as_str(), "" | "other");
        let is_command = call.input.as_ref().is_some_and(tool_use::has_command);
        let by_name = Some(&call.name).filter(|_| quirks.names != NameSource::Title || is_plain);
        let by_title =
            Some(&call.title).filter(|_| is_plain && !is_command && !call.name_known && !call.mcp);
        call.bound = by_name
            .into_iter()
            .chain(by_title)
            .find_map(|shown| tool_use::bound(profile, shown, bound));
        if let Some(title) = update.title.text().filter(|_| !call.reported) {
            title.clone_into(&mut call.title);
        }
        let paths = update.locations.iter().filter_map(|it| it.path.owned());
        let paths: Vec<String> = paths.collect();
        if !paths.is_empty() {
            call.paths = paths;
        } else if call.paths.is_empty() {
            // Some agents only show the diff.
            let shown = update
                .content
                .filter(|content| content.get().contains(r#""diff""#));
            let blocks: Objects<Block<'_>> = lenient::parse(shown);
            let paths = blocks.iter().filter_map(|block| block.path.owned());
            call.paths = paths.collect();
        }
        self.join_early_job(id);
    }

    /// Merges a call with the job that ran it before the agent announced it.
    fn join_early_job(&mut self, id: &str) {
        let Some(call) = self
            .all
            .get(id)
            .filter(|call| !call.reported && !call.has_job && call.bound.is_some())
        else {
            return;
        };
        let is_same = |other: &Call| {
            other.bound == call.bound && may_be_equal(call.input.as_ref(), other.input.as_ref())
        };
        let mut early = self
            .all
            .iter()
            .filter(|(_, other)| other.alias.is_some() && other.name.is_empty());
        let Some(early) = early
            .find(|(_, other)| is_same(other))
            .map(|(early, _)| early.clone())
        else {
            return;
        };
        let (Some(call), Some(first)) = (self.all.remove(id), self.all.remove(&early)) else {
            return;
        };
        let Call {
            name,
            kind,
            title,
            paths,
            ..
        } = call;
        self.denied
            .iter_mut()
            .filter(|(denied, _)| *denied == early)
            .for_each(|(denied, _)| id.clone_into(denied));
        self.all.insert(
            id.to_owned(),
            Call {
                name,
                kind,
                title,
                paths,
                ..first
            },
        );
    }

    /// Registers a job for one of the caller's tools and returns the id of the call that it belongs
    /// to.
    pub(super) fn on_job(&mut self, job: &ToolJob, out: &mut Outbox) -> String {
        let ToolJob {
            id: job,
            name,
            input,
            ..
        } = job;
        let matches = |call: &Call| {
            call.bound.as_ref() == Some(name)
                && !call.has_job
                && !call.done
                && may_be_equal(call.input.as_ref(), Some(input))
        };
        // Calls with known arguments are a more certain match than calls without.
        let fitting = self.all.iter().filter(|(_, call)| matches(call));
        let best = fitting.min_by_key(|(_, call)| call.input.is_none());
        let id = best.map_or_else(|| job.to_owned(), |(id, _)| id.clone());
        let new = || Call {
            bound: Some(name.to_owned()),
            alias: Some(job.to_owned()),
            ..Call::default()
        };
        let call = self.all.entry(id.clone()).or_insert_with(new);
        call.has_job = true;
        call.input.get_or_insert_with(|| input.clone());
        call.report(&id, out);
        id
    }

    /// Records the result of a job. It is reported only if the agent reports no result itself.
    pub(super) fn on_job_done(&mut self, job: &str, output: ToolOutput<'_>) {
        if let Some(call) = self.all.get_mut(job) {
            call.job_ok = Some(output.ok);
            output.text.clone_into(&mut call.output);
        }
    }

    /// State of a call.
    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.all.get(id)
    }

    /// Reports a call that needs permission, unless it was reported already.
    pub(super) fn report(&mut self, id: &str, out: &mut Outbox) {
        if let Some(call) = self.all.get_mut(id) {
            call.report(id, out);
        }
    }

    /// Denies a call, identified by the id shown in events.
    pub(super) fn deny_shown(&mut self, shown: &str, why: &str) {
        let aliased = self
            .all
            .iter()
            .find(|(_, call)| call.alias.as_deref() == Some(shown))
            .map(|(id, _)| id.clone());
        self.deny(aliased.as_deref().unwrap_or(shown), why);
    }

    /// Marks a call as denied.
    pub(super) fn deny(&mut self, id: &str, why: &str) {
        if let Some(call) = self.all.get_mut(id) {
            call.denied = true;
            self.denied.push((id.to_owned(), why.to_owned()));
        }
    }

    /// Finishes denied calls that the agent has moved past without an update.
    pub(super) fn finish_denied(&mut self, out: &mut Outbox) {
        for (id, why) in std::mem::take(&mut self.denied) {
            if let Some(call) = self.all.get_mut(&id).filter(|call| !call.done) {
                call.output = why;
                call.finish(&id, false, out);
            }
        }
    }

    /// Ends the turn. A call with output but no final status counts as successful, unless the turn
    /// was cut off.
    pub(super) fn end_turn(&mut self, cut_off: bool, out: &mut Outbox) {
        self.finish_denied(out);
        for (id, mut call) in std::mem::take(&mut self.all) {
            let gave = !call.output.is_empty() || call.content.is_some() || call.job_ok.is_some();
            if call.reported && !call.done && gave {
                call.finish(&id, call.job_ok.unwrap_or(!cut_off), out);
            }
        }
    }
}

/// Returns true if two sets of arguments are equal, or if one of them is unknown.
fn may_be_equal(one: Option<&RawJson>, other: Option<&RawJson>) -> bool {
    let value = |raw: &RawJson| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
    one.zip(other).is_none_or(|(one, other)| {
        one == other || value(one).zip(value(other)).is_some_and(|(a, b)| a == b)
    })
}

/// Returns true if an update is not about a tool call: the agent reports a compaction this way.
pub(super) fn is_compaction(quirks: &Quirks, update: &Update<'_>) -> bool {
    let compacts = |name| name_in_meta(&lenient::parse(update.meta)).as_deref() == Some(name);
    quirks.compacts_as.is_some_and(compacts)
}

/// Unwraps a call to an MCP server's tool: the name combines both, and the arguments are nested.
fn unwrap_mcp_call(call: &mut Call, input: Option<&RawValue>) {
    let wrapped: Object<McpCall<'_>> = lenient::parse(input);
    let (Some(server), Some(tool)) = (wrapped.server.text(), wrapped.tool.text()) else {
        return;
    };
    call.name = format!("mcp__{server}__{tool}");
    call.mcp = true;
    "other".clone_into(&mut call.kind);
    call.input = wrapped.arguments.map(RawJson::from_raw);
}

/// Returns the tool name in a call's `_meta`.
fn name_in_meta(meta: &Object<CallMeta<'_>>) -> Option<String> {
    let names = [
        &meta.claude.tool_name,
        &meta.goose.tool_call.tool_name,
        &meta.tool_name,
    ];
    names.into_iter().find_map(Scalar::owned)
}

/// Returns a name for a call whose name was not reported.
fn fallback_name(quirks: &Quirks, id: &str, call: &Call) -> String {
    let of_kind = || {
        quirks
            .kind_names
            .iter()
            .find(|(kind, _)| *kind == call.kind)
            .map(|(_, name)| (*name).to_owned())
    };
    let found = match quirks.names {
        NameSource::Meta => None,
        NameSource::ValueKind => {
            of_kind().or_else(|| Some(call.kind.clone()).filter(|kind| !kind.is_empty()))
        }
        NameSource::Title => {
            Some(call.title.clone()).filter(|title| call.name.is_empty() && !title.is_empty())
        }
        NameSource::CallId => name_in_id(id).map(str::to_owned),
    };
    let kind = if call.kind.is_empty() {
        "other"
    } else {
        &call.kind
    };
    found.unwrap_or_else(|| {
        if call.name.is_empty() {
            kind.to_owned()
        } else {
            call.name.clone()
        }
    })
}

/// Returns the name in an id of the form `name__name_1794771579066_0`.
fn name_in_id(id: &str) -> Option<&str> {
    let ends = id.match_indices("__").map(|(at, _)| at);
    ends.map(|at| (&id[..at], &id[at + 2..]))
        .find(|(name, rest)| rest.starts_with(name))
        .map(|(name, _)| name)
}

/// Updates a call's output: from its content, otherwise from the raw output, otherwise from
/// `_meta`.
fn update_output(call: &mut Call, update: &Update<'_>, quirks: &Quirks) {
    let meta: Object<CallMeta<'_>> = lenient::parse(update.meta);
    let mut blocks: List<Node<'_, Block<'_>>> = lenient::parse(update.content);
    // Terminals belong to the client, and Ostler offers none.
    blocks.0.retain(|block| {
        block
            .map()
            .is_none_or(|block| block.r#type.text() != Some("terminal"))
    });
    let texts = texts(blocks.0.iter().filter_map(Node::map));
    let raw = || raw_output(update.raw_output);
    let text = || Some(texts.join("\n")).filter(|text| !text.is_empty());
    let printed = command_output(update.raw_output).filter(|_| quirks.raw_output_is_stdout);
    let text = printed.or_else(|| {
        if quirks.formats_outputs {
            raw().or_else(text)
        } else {
            text().or_else(raw)
        }
    });
    if let Some(text) = text {
        call.output = text;
    } else {
        let printed = [
            &meta.terminal_output.data,
            &meta.terminal_output_delta.data,
            &meta.output,
        ];
        let printed = printed.into_iter().find_map(Scalar::text);
        call.output.push_str(printed.unwrap_or_default());
    }
    if texts.len() < blocks.0.len() {
        call.content = update.content.map(RawJson::from_raw);
    }
}

fn texts<'a>(blocks: impl Iterator<Item = &'a Block<'a>>) -> Vec<String> {
    blocks.filter_map(text_in).collect()
}

fn text_in(block: &Block<'_>) -> Option<String> {
    let inner: Node<'_, Block<'_>> = lenient::parse(block.content);
    inner.map().unwrap_or(block).text.owned()
}

/// Returns true if a command failed. Some agents report every tool that ran as completed.
fn command_failed(raw: Option<&RawValue>) -> bool {
    let output: Object<Output<'_>> = lenient::parse(raw);
    let bad = |code: &Scalar<'_>| code.amount().is_some_and(|code| code != 0.0);
    let result = &output.metadata;
    // Output without an exit code means that it was cut off.
    let cut_off = result.output.text().is_some() && result.exit.amount().is_none();
    output.contents.iter().any(|it| bad(&it.exit_code)) || bad(&result.exit) || cut_off
}

/// Returns a command's output if the raw output has a field for it. It may be empty.
fn command_output(raw: Option<&RawValue>) -> Option<String> {
    let output: Object<Output<'_>> = lenient::parse(raw);
    output.output.owned()
}

fn raw_output(raw: Option<&RawValue>) -> Option<String> {
    let output: Node<'_, Output<'_>> = lenient::parse(raw);
    let text = match &output {
        Node::Text(text) => Some(text.clone().into_owned()),
        Node::Map(it) => {
            let fields = [
                &it.output,
                &it.content,
                &it.stdout,
                &it.message,
                &it.text,
                &it.error,
            ];
            let answered = || {
                it.result
                    .map()
                    .map(|it| texts(it.content.iter()).join("\n"))
            };
            fields.into_iter().find_map(Scalar::owned).or_else(answered)
        }
        Node::None => None,
    };
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::name_in_id;

    #[test]
    fn names_are_parsed_from_ids() {
        for (id, name) in [
            (
                "run_shell_command__run_shell_command_1794771579066_0",
                Some("run_shell_command"),
            ),
            ("mcp__a__b__mcp__a__b_17_0", Some("mcp__a__b")),
            ("call_1cd05f8d", None),
            ("a__b", None),
        ] {
            assert_eq!(name_in_id(id), name, "{id}");
        }
    }
}
