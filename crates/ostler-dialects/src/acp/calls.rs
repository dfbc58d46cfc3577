//! Tool calls: told once, with their arguments, and settled once, however many words the agent makes about them.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::event::{ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::value::RawValue;

use super::entry::Entry;
use super::quirks::{Names, Quirks};
use super::tool_use;
use super::wire::{Block, CallMeta, McpCall, Output, Printed, Update};
use crate::lenient::{List, Node, Scalar};

/// Whose call it is: the agent, how it differs, and the caller's tools.
pub(super) type Whose<'a> = (&'a Entry, &'a Quirks, &'a [String]);

/// The calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: BTreeMap<String, Call>,
    /// Calls that were denied and have no result yet, with what was said.
    denied: Vec<(String, String)>,
    /// How many ids came again.
    again: u64,
}

/// What is known of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) title: String,
    /// The caller's name, when it is one of its tools.
    pub(super) bound: Option<String>,
    /// Whether the agent said the name.
    named: bool,
    /// Whether it is of an MCP server, and named after it.
    mcp: bool,
    input: Option<RawJson>,
    pub(super) paths: Vec<String>,
    /// The id that events show, when it is not the agent's: the tool was to run before the agent said a word.
    alias: Option<String>,
    /// Whether there was an order to run it, and what came of that.
    ordered: bool,
    ran: Option<bool>,
    told: bool,
    done: bool,
    denied: bool,
    /// What it gave so far.
    output: String,
    content: Option<RawJson>,
}

impl Call {
    /// The arguments, or what the agent says in their place.
    pub(super) fn input(&self) -> RawJson {
        #[derive(Serialize)]
        struct InPlace<'a> {
            title: &'a str,
            locations: &'a [String],
        }
        let place = || {
            RawJson::of(&InPlace {
                title: &self.title,
                locations: &self.paths,
            })
        };
        self.input.clone().unwrap_or_else(place)
    }

    /// The id that events show, of a call that the agent has by this one.
    pub(super) fn shown_id(&self, id: &str) -> String {
        self.alias.as_deref().unwrap_or(id).to_owned()
    }

    /// The name that events show.
    pub(super) fn shown(&self) -> &str {
        self.bound.as_deref().unwrap_or(&self.name)
    }

    fn tell(&mut self, id: &str, out: &mut Outbox) {
        if !std::mem::replace(&mut self.told, true) {
            let id = self.alias.as_deref().unwrap_or(id);
            out.event(ToolCall {
                id: id.to_owned(),
                name: self.shown().to_owned(),
                input: self.input(),
                parent: None,
            });
        }
    }

    fn settle(&mut self, id: &str, ok: bool, out: &mut Outbox) {
        self.tell(id, out);
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
    /// Reads a word about a call.
    pub(super) fn hear(
        &mut self,
        (whose, cut_off): (Whose<'_>, bool),
        update: &Update<'_>,
        out: &mut Outbox,
    ) {
        let Some(id) = update.tool_call_id.text() else {
            return;
        };
        if update.session_update.text() == Some("tool_call")
            && matches!(update.status.or_empty(), "" | "pending" | "in_progress")
        {
            self.anew(id);
        }
        self.note(whose, id, update);
        let is_over = matches!(update.status.or_empty(), "completed" | "failed");
        let is_raw = whose.1.dresses_outputs && update.raw_output.is_some();
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| is_over || is_raw || !whose.1.describes_calls)
        {
            gave(call, update, whose.1);
        }
        if !self.denied.iter().any(|(denied, _)| denied == id) {
            self.settle_denied(out);
        }
        let Some(call) = self.all.get_mut(id) else {
            return;
        };
        let status = update.status.or_empty();
        let follows = whose.1.input_follows
            && status == "pending"
            && update.session_update.text() == Some("tool_call");
        if !follows {
            call.tell(id, out);
        }
        if is_over {
            // What was said to the agent has to do where it says nothing.
            let why = self
                .denied
                .iter()
                .find(|(denied, _)| denied == id)
                .map(|(_, why)| why);
            if let Some(why) = why.filter(|_| call.output.is_empty()) {
                call.output.clone_from(why);
            }
            let cut_off = cut_off && whose.1.describes_calls;
            call.settle(
                id,
                status == "completed" && !cut_off && !failed(update.raw_output),
                out,
            );
            self.denied.retain(|(denied, _)| denied != id);
        }
    }

    /// Ids come from the model's service, and can come again: then it is another call, and nothing of the first one is its own.
    fn anew(&mut self, id: &str) {
        if self.all.get(id).is_some_and(|call| call.done) {
            self.again += 1;
            let alias = Some(format!("{id}-again-{}", self.again));
            self.all.insert(
                id.to_owned(),
                Call {
                    alias,
                    ..Call::default()
                },
            );
        }
    }

    /// Takes what a question says about a call. It is what is decided on, whatever was said before.
    pub(super) fn asked(&mut self, whose: Whose<'_>, id: &str, update: &Update<'_>) {
        self.anew(id);
        let told = update
            .name
            .owned()
            .or_else(|| parsed(update.meta).map().and_then(named));
        let shows = update
            .content
            .is_some_and(|content| content.get().contains(r#""diff""#));
        if let Some(call) = self
            .all
            .get_mut(id)
            .filter(|_| !update.locations.0.is_empty() || shows)
        {
            call.paths.clear();
        }
        if let Some(call) = self.all.get_mut(id).filter(|call| !call.mcp) {
            if let Some(told) = told {
                call.name = told;
                call.named = true;
            }
            if update.kind.text().is_some_and(|kind| kind != call.kind) {
                call.kind.clear();
                if whose.1.names == Names::Kind {
                    call.name.clear();
                    call.named = false;
                }
            }
            if update.title.text().is_some() && whose.1.title_is_command {
                call.title.clear();
            }
        }
        self.note(whose, id, update);
    }

    /// Takes what is said about a call. What it gave is not among it: the words of a question are about the question.
    pub(super) fn note(
        &mut self,
        (entry, quirks, bound): Whose<'_>,
        id: &str,
        update: &Update<'_>,
    ) {
        let call = self.all.entry(id.to_owned()).or_default();
        let meta: Node<'_, CallMeta<'_>> = parsed(update.meta);
        let set = |field: &mut String, said: &Scalar<'_>| {
            if let Some(said) = said.text().filter(|_| field.is_empty()) {
                said.clone_into(field);
            }
        };
        if meta
            .map()
            .is_some_and(|meta| meta.is_mcp_tool_call.is_true())
        {
            of_server(call, update.raw_input);
        }
        set(&mut call.kind, &update.kind);
        set(&mut call.title, &update.title);
        let given = update
            .raw_input
            .filter(|input| input.get().starts_with('{') && input.get() != "{}");
        if let Some(input) = given.filter(|_| !call.mcp) {
            call.input = Some(RawJson::keep(input));
        }
        if !call.mcp && (call.name.is_empty() || !call.told) {
            let told = update.name.owned().or_else(|| meta.map().and_then(named));
            call.named |= told.is_some();
            if let Some(name) = told.or_else(|| (!call.named).then(|| name(quirks, id, call))) {
                call.name = name;
            }
        }
        // A title can be the model's own words: it names a tool of the caller's only where nothing says otherwise.
        let is_plain = matches!(call.kind.as_str(), "" | "other");
        let is_command = call.input.as_ref().is_some_and(tool_use::has_command);
        let by_name = Some(&call.name).filter(|_| quirks.names != Names::Title || is_plain);
        let by_title =
            Some(&call.title).filter(|_| is_plain && !is_command && !call.named && !call.mcp);
        call.bound = by_name
            .into_iter()
            .chain(by_title)
            .find_map(|shown| tool_use::bound(entry, shown, bound));
        if let Some(title) = update.title.text().filter(|_| !call.told) {
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
            // Some only show what they change.
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
        self.join(id);
    }

    /// A call whose order came before the agent's first word about it is that same call.
    fn join(&mut self, id: &str) {
        let Some(call) = self
            .all
            .get(id)
            .filter(|call| !call.told && !call.ordered && call.bound.is_some())
        else {
            return;
        };
        let is_same = |other: &Call| {
            other.bound == call.bound && may_be(call.input.as_ref(), other.input.as_ref())
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

    /// A tool of the caller's is to run: the call that it belongs to, by the id that events show.
    pub(super) fn ordered(
        &mut self,
        (order, name): (&str, &str),
        input: &RawJson,
        out: &mut Outbox,
    ) -> String {
        let fits = |call: &Call| {
            call.bound.as_deref() == Some(name)
                && !call.ordered
                && !call.done
                && may_be(call.input.as_ref(), Some(input))
        };
        // One whose arguments are known is surer than one whose arguments are not.
        let fitting = self.all.iter().filter(|(_, call)| fits(call));
        let best = fitting.min_by_key(|(_, call)| call.input.is_none());
        let id = best.map_or_else(|| order.to_owned(), |(id, _)| id.clone());
        let new = || Call {
            bound: Some(name.to_owned()),
            alias: Some(order.to_owned()),
            ..Call::default()
        };
        let call = self.all.entry(id.clone()).or_insert_with(new);
        call.ordered = true;
        call.input.get_or_insert_with(|| input.clone());
        call.tell(&id, out);
        id
    }

    /// What came of an order. It is told only if the agent says nothing about it.
    pub(super) fn ran(&mut self, order: &str, ok: bool, output: &str) {
        if let Some(call) = self.all.get_mut(order) {
            call.ran = Some(ok);
            output.clone_into(&mut call.output);
        }
    }

    /// What is known of a call.
    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.all.get(id)
    }

    /// Tells a call that somebody is asked about, if it was not told.
    pub(super) fn tell(&mut self, id: &str, out: &mut Outbox) {
        if let Some(call) = self.all.get_mut(id) {
            call.tell(id, out);
        }
    }

    /// The same, by the id that events show.
    pub(super) fn deny_told(&mut self, shown: &str, why: &str) {
        let aliased = self
            .all
            .iter()
            .find(|(_, call)| call.alias.as_deref() == Some(shown))
            .map(|(id, _)| id.clone());
        self.deny(aliased.as_deref().unwrap_or(shown), why);
    }

    /// A call is not going to run.
    pub(super) fn deny(&mut self, id: &str, why: &str) {
        if let Some(call) = self.all.get_mut(id) {
            call.denied = true;
            self.denied.push((id.to_owned(), why.to_owned()));
        }
    }

    /// The agent has gone on without a word about what was denied.
    pub(super) fn settle_denied(&mut self, out: &mut Outbox) {
        for (id, why) in std::mem::take(&mut self.denied) {
            if let Some(call) = self.all.get_mut(&id).filter(|call| !call.done) {
                call.output = why;
                call.settle(&id, false, out);
            }
        }
    }

    /// The turn is over. A call that gave something and never said how it ended has ended well, unless it was cut off.
    pub(super) fn close(&mut self, cut_off: bool, out: &mut Outbox) {
        self.settle_denied(out);
        for (id, mut call) in std::mem::take(&mut self.all) {
            let gave = !call.output.is_empty() || call.content.is_some() || call.ran.is_some();
            if call.told && !call.done && gave {
                call.settle(&id, call.ran.unwrap_or(!cut_off), out);
            }
        }
    }
}

/// Whether arguments can be the same: they are, or one of them was not told.
fn may_be(one: Option<&RawJson>, other: Option<&RawJson>) -> bool {
    let value = |raw: &RawJson| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
    one.zip(other).is_none_or(|(one, other)| {
        one == other || value(one).zip(value(other)).is_some_and(|(a, b)| a == b)
    })
}

/// Whether a word about a call is about none: the agent makes the conversation shorter.
pub(super) fn is_compaction(quirks: &Quirks, update: &Update<'_>) -> bool {
    let meta: Node<'_, CallMeta<'_>> = parsed(update.meta);
    quirks
        .compacts_as
        .is_some_and(|name| meta.map().and_then(named).is_some_and(|told| told == name))
}

fn parsed<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Node<'a, T>
where
    Node<'a, T>: Default,
{
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// A call of a tool of an MCP server: its name is that of both, and its arguments are within.
fn of_server(call: &mut Call, input: Option<&RawValue>) {
    let wrapped: Node<'_, McpCall<'_>> = parsed(input);
    let Some((server, tool, it)) = wrapped
        .map()
        .and_then(|it| Some((it.server.text()?, it.tool.text()?, it)))
    else {
        return;
    };
    call.name = format!("mcp__{server}__{tool}");
    call.mcp = true;
    "other".clone_into(&mut call.kind);
    call.input = it.arguments.map(RawJson::keep);
}

/// The name in what an agent adds to a call.
fn named(meta: &CallMeta<'_>) -> Option<String> {
    let goose = meta.goose.map().and_then(|it| it.tool_call.map());
    let noted = meta
        .claude
        .map()
        .or(goose)
        .and_then(|it| it.tool_name.owned());
    noted.or(meta.tool_name.owned())
}

/// The name of a call that none was told of.
fn name(quirks: &Quirks, id: &str, call: &Call) -> String {
    let of_kind = || {
        quirks
            .kind_names
            .iter()
            .find(|(kind, _)| *kind == call.kind)
            .map(|(_, name)| (*name).to_owned())
    };
    let found = match quirks.names {
        Names::Notes => None,
        Names::Kind => {
            of_kind().or_else(|| Some(call.kind.clone()).filter(|kind| !kind.is_empty()))
        }
        Names::Title => {
            Some(call.title.clone()).filter(|title| call.name.is_empty() && !title.is_empty())
        }
        Names::CallId => in_id(id).map(str::to_owned),
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

/// The name in an id of the form `name__name_1794771579066_0`.
fn in_id(id: &str) -> Option<&str> {
    let ends = id.match_indices("__").map(|(at, _)| at);
    ends.map(|at| (&id[..at], &id[at + 2..]))
        .find(|(name, rest)| rest.starts_with(name))
        .map(|(name, _)| name)
}

/// What a call gave: as content, else as the agent's own output, else in its notes.
fn gave(call: &mut Call, update: &Update<'_>, quirks: &Quirks) {
    let meta: Node<'_, CallMeta<'_>> = parsed(update.meta);
    let mut blocks: List<Node<'_, Block<'_>>> = update
        .content
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    // A terminal is the caller's, and it offers none.
    blocks.0.retain(|block| {
        block
            .map()
            .is_none_or(|block| block.r#type.text() != Some("terminal"))
    });
    let texts = texts(&blocks);
    let raw = || raw_output(update.raw_output);
    let said = || Some(texts.join("\n")).filter(|text| !text.is_empty());
    let printed = printed(update.raw_output).filter(|_| quirks.prints_raw);
    let said = printed.or_else(|| {
        if quirks.dresses_outputs {
            raw().or_else(said)
        } else {
            said().or_else(raw)
        }
    });
    if let Some(said) = said {
        call.output = said;
    } else if let Some(meta) = meta.map() {
        let terminals = [&meta.terminal_output, &meta.terminal_output_delta];
        let printed = terminals.iter().find_map(|it| it.map()?.data.text());
        call.output
            .push_str(printed.or(meta.output.text()).unwrap_or_default());
    }
    if texts.len() < blocks.0.len() {
        call.content = update.content.map(RawJson::keep);
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
    let inner: Node<'_, Block<'_>> = parsed(block.content);
    inner
        .map()
        .map_or_else(|| block.text.owned(), |inner| inner.text.owned())
}

/// Whether a command ended badly. To some agents a tool that ran has done its work, whatever came of it.
fn failed(raw: Option<&RawValue>) -> bool {
    let output: Node<'_, Output<'_>> = parsed(raw);
    let bad = |code: &Scalar<'_>| code.amount().is_some_and(|code| code != 0.0);
    // What it printed is there and how it ended is not: it was cut off.
    let cut_off = |it: &Printed<'_>| it.output.text().is_some() && it.exit.amount().is_none();
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

/// What a command printed, where the raw output has a field for it. It may be nothing.
fn printed(raw: Option<&RawValue>) -> Option<String> {
    let output: Node<'_, Output<'_>> = parsed(raw);
    output.map()?.output.owned()
}

fn raw_output(raw: Option<&RawValue>) -> Option<String> {
    let output: Node<'_, Output<'_>> = parsed(raw);
    let said = match &output {
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
    said.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::in_id;

    #[test]
    fn names_are_found_in_ids() {
        for (id, name) in [
            (
                "run_shell_command__run_shell_command_1794771579066_0",
                Some("run_shell_command"),
            ),
            ("mcp__a__b__mcp__a__b_17_0", Some("mcp__a__b")),
            ("call_1cd05f8d", None),
            ("a__b", None),
        ] {
            assert_eq!(in_id(id), name, "{id}");
        }
    }
}
