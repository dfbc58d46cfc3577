//! Tool calls: told once, with their arguments, and settled once, however many words the agent makes about them.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::event::{ToolCall, ToolResult};
use ostler_core::raw::Raw;
use serde::Serialize;
use serde_json::value::RawValue;

use super::known::Entry;
use super::quirks::{Names, Quirks};
use super::uses;
use super::wire::{Block, CallMeta, Output, Printed, Update};
use crate::lenient::{List, Node, Scalar};

/// Whose call it is: the agent, how it differs, and the caller's tools.
pub(super) type Whose<'a> = (&'a Entry, &'a Quirks, &'a [String]);

/// The calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: BTreeMap<String, Call>,
    /// Calls that were denied and have no result yet, with what was said.
    denied: Vec<(String, String)>,
}

/// What is known of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) title: String,
    /// The caller's name, when it is one of its tools.
    pub(super) bound: Option<String>,
    input: Option<Raw>,
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
    content: Option<Raw>,
}

impl Call {
    /// The arguments, or what the agent says in their place.
    pub(super) fn input(&self) -> Raw {
        #[derive(Serialize)]
        struct InPlace<'a> {
            title: &'a str,
            locations: &'a [String],
        }
        let place = || Raw::of(&InPlace { title: &self.title, locations: &self.paths });
        self.input.clone().unwrap_or_else(place)
    }

    /// The name that events show.
    pub(super) fn shown(&self) -> &str {
        self.bound.as_deref().unwrap_or(&self.name)
    }

    fn tell(&mut self, id: &str, out: &mut Outbox) {
        if !std::mem::replace(&mut self.told, true) {
            let id = self.alias.as_deref().unwrap_or(id);
            out.event(ToolCall { id: id.to_owned(), name: self.shown().to_owned(), input: self.input(), parent: None });
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
    pub(super) fn hear(&mut self, (whose, cut_off): (Whose<'_>, bool), update: &Update<'_>, out: &mut Outbox) {
        let Some(id) = update.tool_call_id.text() else { return };
        self.note(whose, id, update);
        let is_over = matches!(update.status.or_empty(), "completed" | "failed");
        if let Some(call) = self.all.get_mut(id).filter(|_| is_over || !whose.1.describes_calls) {
            gave(call, update, whose.1.prints_raw);
        }
        if !self.denied.iter().any(|(denied, _)| denied == id) {
            self.settle_denied(out);
        }
        let Some(call) = self.all.get_mut(id) else { return };
        let status = update.status.or_empty();
        let follows = whose.1.input_follows && status == "pending" && update.session_update.text() == Some("tool_call");
        if !follows {
            call.tell(id, out);
        }
        if is_over {
            let cut_off = cut_off && whose.1.describes_calls;
            call.settle(id, status == "completed" && !cut_off && !failed(update.raw_output), out);
            self.denied.retain(|(denied, _)| denied != id);
        }
    }

    /// Takes what a question says about a call. It is what is decided on, whatever was said before.
    pub(super) fn asked(&mut self, whose: Whose<'_>, id: &str, update: &Update<'_>) {
        if let Some(call) = self.all.get_mut(id) {
            if update.kind.text().is_some_and(|kind| kind != call.kind) {
                call.kind.clear();
                if whose.1.names == Names::Kind {
                    call.name.clear();
                }
            }
            if update.title.text().is_some() && whose.1.title_is_command {
                call.title.clear();
            }
        }
        self.note(whose, id, update);
    }

    /// Takes what is said about a call. What it gave is not among it: the words of a question are about the question.
    pub(super) fn note(&mut self, (entry, quirks, bound): Whose<'_>, id: &str, update: &Update<'_>) {
        let call = self.all.entry(id.to_owned()).or_default();
        let meta: Node<'_, CallMeta<'_>> = parsed(update.meta);
        let set = |field: &mut String, said: &Scalar<'_>| {
            if let Some(said) = said.text().filter(|_| field.is_empty()) {
                said.clone_into(field);
            }
        };
        set(&mut call.kind, &update.kind);
        set(&mut call.title, &update.title);
        if let Some(input) = update.raw_input.filter(|input| input.get().starts_with('{') && input.get() != "{}") {
            call.input = Some(Raw::keep(input));
        }
        if call.name.is_empty() || !call.told {
            call.name = name(quirks, id, call, meta.map());
        }
        // A title can be the model's own words: it names a tool of the caller's only where nothing says otherwise.
        let is_plain = matches!(call.kind.as_str(), "" | "other");
        let is_command = call.input.as_ref().is_some_and(uses::has_command);
        let by_name = Some(&call.name).filter(|_| quirks.names != Names::Title || is_plain);
        let by_title = Some(&call.title).filter(|_| is_plain && !is_command);
        call.bound = by_name.into_iter().chain(by_title).find_map(|shown| uses::bound(entry, shown, bound));
        if let Some(title) = update.title.text().filter(|_| !call.told) {
            title.clone_into(&mut call.title);
        }
        let paths = update.locations.0.iter().filter_map(|it| it.map()?.path.owned());
        let paths: Vec<String> = paths.collect();
        if !paths.is_empty() {
            call.paths = paths;
        }
        self.join(id);
    }

    /// A call whose order came before the agent's first word about it is that same call.
    fn join(&mut self, id: &str) {
        let Some(call) = self.all.get(id).filter(|call| !call.told && !call.ordered && call.bound.is_some()) else {
            return;
        };
        let is_same = |other: &Call| other.bound == call.bound && may_be(call.input.as_ref(), other.input.as_ref());
        let mut early = self.all.iter().filter(|(_, other)| other.alias.is_some() && other.name.is_empty());
        let Some(early) = early.find(|(_, other)| is_same(other)).map(|(early, _)| early.clone()) else { return };
        let (Some(call), Some(first)) = (self.all.remove(id), self.all.remove(&early)) else { return };
        let Call { name, kind, title, paths, .. } = call;
        self.denied.iter_mut().filter(|(denied, _)| *denied == early).for_each(|(denied, _)| id.clone_into(denied));
        self.all.insert(id.to_owned(), Call { name, kind, title, paths, ..first });
    }

    /// A tool of the caller's is to run: the call that it belongs to, by the id that events show.
    pub(super) fn ordered(&mut self, (order, name): (&str, &str), input: &Raw, out: &mut Outbox) -> String {
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
        let new = || Call { bound: Some(name.to_owned()), alias: Some(order.to_owned()), ..Call::default() };
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
        let aliased = self.all.iter().find(|(_, call)| call.alias.as_deref() == Some(shown)).map(|(id, _)| id.clone());
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
fn may_be(one: Option<&Raw>, other: Option<&Raw>) -> bool {
    let value = |raw: &Raw| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
    one.zip(other).is_none_or(|(one, other)| one == other || value(one).zip(value(other)).is_some_and(|(a, b)| a == b))
}

fn parsed<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Node<'a, T>
where
    Node<'a, T>: Default,
{
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn name(quirks: &Quirks, id: &str, call: &Call, meta: Option<&CallMeta<'_>>) -> String {
    let told = meta.and_then(|meta| {
        let goose = meta.goose.map().and_then(|it| it.tool_call.map());
        let noted = meta.claude.map().or(goose).and_then(|it| it.tool_name.owned());
        noted.or(meta.tool_name.owned())
    });
    let found = told.or_else(|| match quirks.names {
        Names::Notes => None,
        Names::Kind => Some(call.kind.clone()).filter(|kind| !kind.is_empty()),
        Names::Title => Some(call.title.clone()).filter(|title| call.name.is_empty() && !title.is_empty()),
        Names::CallId => in_id(id).map(str::to_owned),
    });
    let kind = if call.kind.is_empty() { "other" } else { &call.kind };
    found.unwrap_or_else(|| if call.name.is_empty() { kind.to_owned() } else { call.name.clone() })
}

/// The name in an id of the form `name__name_1794771579066_0`.
fn in_id(id: &str) -> Option<&str> {
    let ends = id.match_indices("__").map(|(at, _)| at);
    ends.map(|at| (&id[..at], &id[at + 2..])).find(|(name, rest)| rest.starts_with(name)).map(|(name, _)| name)
}

/// What a call gave: as content, else as the agent's own output, else in its notes.
fn gave(call: &mut Call, update: &Update<'_>, prints_raw: bool) {
    let meta: Node<'_, CallMeta<'_>> = parsed(update.meta);
    let blocks: List<Node<'_, Block<'_>>> =
        update.content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    let texts: Vec<String> = blocks.0.iter().filter_map(|block| text_in(block.map()?)).collect();
    let printed = printed(update.raw_output).filter(|_| prints_raw);
    let said = printed
        .or_else(|| Some(texts.join("\n")).filter(|text| !text.is_empty()))
        .or_else(|| raw_output(update.raw_output));
    if let Some(said) = said {
        call.output = said;
    } else if let Some(meta) = meta.map() {
        let printed = meta.terminal_output.map().and_then(|it| it.data.text());
        call.output.push_str(printed.or(meta.output.text()).unwrap_or_default());
    }
    if texts.len() < blocks.0.len() {
        call.content = update.content.map(Raw::keep);
    }
}

fn text_in(block: &Block<'_>) -> Option<String> {
    let inner: Node<'_, Block<'_>> = parsed(block.content);
    inner.map().map_or_else(|| block.text.owned(), |inner| inner.text.owned())
}

/// Whether a command ended badly. To some agents a tool that ran has done its work, whatever came of it.
fn failed(raw: Option<&RawValue>) -> bool {
    let output: Node<'_, Output<'_>> = parsed(raw);
    let bad = |code: &Scalar<'_>| code.amount().is_some_and(|code| code != 0.0);
    // What it printed is there and how it ended is not: it was cut off.
    let cut_off = |it: &Printed<'_>| it.output.text().is_some() && it.exit.amount().is_none();
    output.map().is_some_and(|it| {
        it.contents.0.iter().filter_map(Node::map).any(|it| bad(&it.exit_code))
            || it.metadata.map().is_some_and(|it| bad(&it.exit) || cut_off(it))
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
            let fields = [&it.output, &it.content, &it.stdout, &it.message, &it.text, &it.error];
            fields.into_iter().find_map(Scalar::owned)
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
            ("run_shell_command__run_shell_command_1794771579066_0", Some("run_shell_command")),
            ("mcp__a__b__mcp__a__b_17_0", Some("mcp__a__b")),
            ("call_1cd05f8d", None),
            ("a__b", None),
        ] {
            assert_eq!(in_id(id), name, "{id}");
        }
    }
}
