//! Tool calls: each is reported once with its arguments and finished once, however many updates the
//! agent sends about it.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::event::{ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::value::RawValue;

use super::profile::AgentProfile;
use super::quirks::{NameSource, Quirks};
use super::tool_use;
use super::wire::{Block, CallMeta, CommandResult, McpCall, Output, Update};
use crate::lenient::{List, Node, Scalar};

/// Context of a call: the agent, its quirks, and the names of the caller's tools.
pub(super) type CallContext<'a> = (&'a AgentProfile, &'a Quirks, &'a [String]);

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
    pub(super) title: String,
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
        #[derive(Serialize)]
        struct Substitute<'a> {
            title: &'a str,
            locations: &'a [String],
        }
        let substitute = || {
            RawJson::of(&Substitute {
                title: &self.title,
                locations: &self.paths,
            })
        };
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
            let id = self.alias.as_deref().unwrap_or(id);
            out.event(ToolCall {
                id: id.to_owned(),
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
            id: self.alias.clone().unwrap_or_else(|| id.to_owned()),
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
        (context, cut_off): (CallContext<'_>, bool),
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
        let is_raw = context.1.formats_outputs && update.raw_output.is_some();
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| is_finished || is_raw || !context.1.describes_calls)
        {
            update_output(call, update, context.1);
        }
        if !self.denied.iter().any(|(denied, _)| denied == id) {
            self.finish_denied(out);
        }
        let Some(call) = self.all.get_mut(id) else {
            return;
        };
        let status = update.status.or_empty();
        let follows = context.1.input_follows
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
            let cut_off = cut_off && context.1.describes_calls;
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
            .or_else(|| parse_lenient(update.meta).map().and_then(name_in_meta));
        let has_diff = update
            .content
            .is_some_and(|content| content.get().contains(r#""diff""#));
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| !update.locations.0.is_empty() || has_diff)
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
                if context.1.names == NameSource::ValueKind {
                    call.name.clear();
                    call.name_known = false;
                }
            }
            if update.title.text().is_some() && context.1.title_is_command {
                call.title.clear();
            }
        }
        self.merge(context, id, update);
    }

    /// Merges an update about a call, except its output: the content of a permission request
    /// describes the request.
    pub(super) fn merge(
        &mut self,
        (profile, quirks, bound): CallContext<'_>,
        id: &str,
        update: &Update<'_>,
    ) {
        let call = self.all.entry(id.to_owned()).or_default();
        let meta: Node<'_, CallMeta<'_>> = parse_lenient(update.meta);
        let set = |field: &mut String, text: &Scalar<'_>| {
            if let Some(text) = text.text().filter(|_| field.is_empty()) {
                text.clone_into(field);
            }
        };
        if meta
            .map()
            .is_some_and(|meta| meta.is_mcp_tool_call.is_true())
        {
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
            let tool_name = update
                .name
                .owned()
                .or_else(|| meta.map().and_then(name_in_meta));
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
        let paths = update
            .locations
            .0
            .iter()
            .filter_map(|it| it.map()?.path.owned());
        let paths: Vec<String> = paths.collect();
        if !paths.is_empty() {
            call.paths = paths;
        } else if call.paths.is_empty() {
            // Some agents only show the diff.
            let shown = update
                .content
                .filter(|content| content.get().contains(r#""diff""#));
            let blocks: List<Node<'_, Block<'_>>> = shown
                .and_then(|content| serde_json::from_str(content.get()).ok())
                .unwrap_or_default();
            call.paths = blocks
                .0
                .iter()
                .filter_map(|block| block.map()?.path.owned())
                .collect();
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
    pub(super) fn on_job(
        &mut self,
        (job, name): (&str, &str),
        input: &RawJson,
        out: &mut Outbox,
    ) -> String {
        let matches = |call: &Call| {
            call.bound.as_deref() == Some(name)
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
    pub(super) fn on_job_done(&mut self, job: &str, ok: bool, output: &str) {
        if let Some(call) = self.all.get_mut(job) {
            call.job_ok = Some(ok);
            output.clone_into(&mut call.output);
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
    let meta: Node<'_, CallMeta<'_>> = parse_lenient(update.meta);
    quirks.compacts_as.is_some_and(|name| {
        meta.map()
            .and_then(name_in_meta)
            .is_some_and(|tool_name| tool_name == name)
    })
}

fn parse_lenient<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Node<'a, T>
where
    Node<'a, T>: Default,
{
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Unwraps a call to an MCP server's tool: the name combines both, and the arguments are nested.
fn unwrap_mcp_call(call: &mut Call, input: Option<&RawValue>) {
    let wrapped: Node<'_, McpCall<'_>> = parse_lenient(input);
    let Some((server, tool, it)) = wrapped
        .map()
        .and_then(|it| Some((it.server.text()?, it.tool.text()?, it)))
    else {
        return;
    };
    call.name = format!("mcp__{server}__{tool}");
    call.mcp = true;
    "other".clone_into(&mut call.kind);
    call.input = it.arguments.map(RawJson::from_raw);
}

/// Returns the tool name in a call's `_meta`.
fn name_in_meta(meta: &CallMeta<'_>) -> Option<String> {
    let goose = meta.goose.map().and_then(|it| it.tool_call.map());
    let noted = meta
        .claude
        .map()
        .or(goose)
        .and_then(|it| it.tool_name.owned());
    noted.or(meta.tool_name.owned())
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
    let meta: Node<'_, CallMeta<'_>> = parse_lenient(update.meta);
    let mut blocks: List<Node<'_, Block<'_>>> = update
        .content
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    // Terminals belong to the client, and Ostler offers none.
    blocks.0.retain(|block| {
        block
            .map()
            .is_none_or(|block| block.r#type.text() != Some("terminal"))
    });
    let texts = texts(&blocks);
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
    } else if let Some(meta) = meta.map() {
        let terminals = [&meta.terminal_output, &meta.terminal_output_delta];
        let printed = terminals.iter().find_map(|it| it.map()?.data.text());
        call.output
            .push_str(printed.or(meta.output.text()).unwrap_or_default());
    }
    if texts.len() < blocks.0.len() {
        call.content = update.content.map(RawJson::from_raw);
    }
}

fn texts(blocks: &List<Node<'_, Block<'_>>>) -> Vec<String> {
    blocks
        .0
        .iter()
        .filter_map(|block| text_in(block.map()?))
        .collect()
}

fn text_in(block: &Block<'_>) -> Option<String> {
    let inner: Node<'_, Block<'_>> = parse_lenient(block.content);
    inner
        .map()
        .map_or_else(|| block.text.owned(), |inner| inner.text.owned())
}

/// Returns true if a command failed. Some agents report every tool that ran as completed.
fn command_failed(raw: Option<&RawValue>) -> bool {
    let output: Node<'_, Output<'_>> = parse_lenient(raw);
    let bad = |code: &Scalar<'_>| code.amount().is_some_and(|code| code != 0.0);
    // Output without an exit code means that it was cut off.
    let cut_off = |it: &CommandResult<'_>| it.output.text().is_some() && it.exit.amount().is_none();
    output.map().is_some_and(|it| {
        it.contents
            .0
            .iter()
            .filter_map(Node::map)
            .any(|it| bad(&it.exit_code))
            || it
                .metadata
                .map()
                .is_some_and(|it| bad(&it.exit) || cut_off(it))
    })
}

/// Returns a command's output if the raw output has a field for it. It may be empty.
fn command_output(raw: Option<&RawValue>) -> Option<String> {
    let output: Node<'_, Output<'_>> = parse_lenient(raw);
    output.map()?.output.owned()
}

fn raw_output(raw: Option<&RawValue>) -> Option<String> {
    let output: Node<'_, Output<'_>> = parse_lenient(raw);
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
            let answered = || it.result.map().map(|it| texts(&it.content).join("\n"));
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
