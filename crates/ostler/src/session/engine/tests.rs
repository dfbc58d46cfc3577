//! The engine under random inputs and lines: no entry point leaves anything queued, and everything
//! is carried out in the order in which it was asked for.

use ostler_core::dialect::{
    Action, Capabilities, Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult,
};
use ostler_core::event::{EventKind, Level, Notice};
use ostler_core::lines::Line;
use ostler_core::machine::{CallerRequest, Input, Machine};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::{Fallback, PermissionRequest, ToolKind, ToolUse};
use ostler_core::spec::{AfterTurn, Attendance, Limits};
use proptest::prelude::*;

use super::Engine;

/// A conversation that answers everything: each call numbers a write and a notice, and does what
/// the line names in between.
#[derive(Default)]
struct Chatty {
    written: u64,
}

impl Chatty {
    fn answer(&mut self, word: &str, out: &mut Outbox) {
        self.number(out);
        match word {
            "start" => out.push(FromConversation::TurnStarted),
            "end" => out.push(FromConversation::TurnEnded(TurnResult::new(Outcome::new(
                Cause::Completed,
                "done",
            )))),
            "ask" => out.push(FromConversation::AskPermission(PermissionRequest {
                id: self.written.to_string(),
                call: None,
                input: None,
                wants: ToolUse::new("t", ToolKind::Other),
                fallback: Fallback::Person,
            })),
            "background" => out.push(FromConversation::Background(1)),
            "useless" => out.push(FromConversation::EndProcess),
            "terminate" => out.push(Action::Terminate),
            _ => {}
        }
        self.number(out);
    }

    fn number(&mut self, out: &mut Outbox) {
        self.written += 1;
        out.push(Action::Write(self.written.to_string().into_bytes()));
        out.event(Notice::new(
            Level::Info,
            "n".into(),
            self.written.to_string(),
        ));
    }
}

impl Conversation for Chatty {
    fn on_start(&mut self, out: &mut Outbox) {
        self.answer("", out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        if let ToAgent::Change { id, .. } = message {
            out.push(FromConversation::Changed { id, error: None });
        }
        self.answer("", out);
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        self.answer(line, out);
    }

    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}

/// A call of one of the engine's entry points.
#[derive(Debug, Clone)]
enum Entry {
    Input(Input),
    Line(&'static str),
    BridgeLine,
    Message,
    Spawned,
    Exit,
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let words = [
        "",
        "start",
        "end",
        "ask",
        "background",
        "useless",
        "terminate",
    ];
    let inputs = prop_oneof![
        Just(Input::Start),
        Just(Input::Send("p".into())),
        Just(Input::Steer("s".into())),
        Just(Input::Change(CallerRequest(1), Change::Model("m".into()))),
        Just(Input::Interrupt(CallerRequest(2))),
        Just(Input::Pause),
        Just(Input::Resume),
        Just(Input::Stop),
        Just(Input::Kill),
        Just(Input::Tick),
    ];
    prop_oneof![
        inputs.prop_map(Entry::Input),
        proptest::sample::select(words.to_vec()).prop_map(Entry::Line),
        Just(Entry::BridgeLine),
        Just(Entry::Message),
        Just(Entry::Spawned),
        Just(Entry::Exit),
    ]
}

fn engine() -> Engine {
    let able = Capabilities {
        many_turns: true,
        resume: true,
        steer: true,
        set_model: true,
        ..Capabilities::default()
    };
    let machine = Machine::new(Limits::default(), AfterTurn::Wait)
        .with_capabilities(able)
        .with_policy(None, "/w".into(), Attendance::Attended);
    Engine::new("s".into(), Box::<Chatty>::default(), machine)
}

fn call(engine: &mut Engine, entry: Entry) {
    match entry {
        Entry::Input(input) => engine.handle(input),
        Entry::Line(text) => engine.on_line(Line::Text {
            text: text.into(),
            lossy: false,
        }),
        Entry::BridgeLine => engine.on_bridge_line(1, "x"),
        Entry::Message => engine.send(ToAgent::ToolProgress {
            id: "t".into(),
            message: "m".into(),
        }),
        Entry::Spawned => engine.on_spawned(),
        Entry::Exit => engine.on_exit(Exit::default()),
    }
}

/// Returns the numbers that the conversation wrote, and the numbers of its notices, as the engine
/// passed them on.
fn numbers(engine: &mut Engine) -> (Vec<u64>, Vec<u64>) {
    let written = engine.actions.drain(..).filter_map(|action| match action {
        Action::Write(bytes) => String::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    });
    let written = written.collect();
    let notices = engine.events.take().into_iter();
    let notices = notices.filter_map(|event| match event.kind {
        EventKind::Notice(notice) if notice.code.as_str() == "n" => notice.message.parse().ok(),
        _ => None,
    });
    (written, notices.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_entry_point_leaves_all_queues_empty_and_keeps_the_order(
        entries in proptest::collection::vec(any_entry(), 0..40),
    ) {
        let mut engine = engine();
        let mut last = 0;
        for entry in entries {
            call(&mut engine, entry);
            prop_assert!(engine.outbox.is_empty() && engine.effects.is_empty());
            let (written, notices) = numbers(&mut engine);
            prop_assert_eq!(&written, &notices, "both take the same way");
            for number in written {
                prop_assert!(number > last, "{} after {}", number, last);
                last = number;
            }
        }
    }
}
