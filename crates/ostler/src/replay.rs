//! Replay: turns a recording of an agent's output into events, without starting anything.

use ostler_core::dialect::{Dialect, Exit, Launching};
use ostler_core::event::{Event, Timestamp};
use ostler_core::lines::Lines;
use ostler_core::machine::{Input, Machine};
use ostler_core::spec::{AfterTurn, Spec};

use crate::session::engine::Engine;

/// Replays a recording: push bytes, take the events, and finish.
///
/// A recording contains no times, so every event has the timestamp [`Timestamp::UNKNOWN`].
pub struct Replay {
    engine: Engine,
    lines: Lines,
}

impl Replay {
    /// Number of bytes at the beginning of a recording that are enough to recognize it.
    pub const OPENING: usize = 256 * 1024;

    /// Returns the dialect of a recording that starts with these bytes, or `None` if they are not
    /// an agent's output.
    #[must_use]
    pub fn recognize(opening: &[u8]) -> Option<&'static dyn Dialect> {
        ostler_dialects::recognize(&String::from_utf8_lossy(opening))
    }

    /// Creates a replay of the output of an agent with this dialect.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect, spec: &Spec) -> Self {
        // No time limits, and no size limit because nothing is stored.
        let limits = spec
            .limits
            .clone()
            .wall(None)
            .idle(None)
            .startup(None)
            .event_bytes(None);
        let id = format!("replay-{}", uuid::Uuid::new_v4()).into();
        let dialect = dialect.select_transport(spec).unwrap_or(dialect);
        let mut engine = Engine::new(
            id,
            dialect.converse(&Launching::new(spec)),
            Machine::new(limits, AfterTurn::Wait),
        );
        engine.handle(Input::Send(String::new()));
        engine.handle(Input::Start);
        engine.on_spawned();
        Self {
            engine,
            lines: Lines::new(),
        }
    }

    /// Processes the next bytes and returns the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.lines.push(bytes, |line| self.engine.on_line(line));
        self.events()
    }

    /// Ends the replay and returns the last events. A turn that is still open ends as if the agent
    /// had died.
    #[must_use]
    pub fn finish(mut self) -> Vec<Event> {
        self.lines.finish(|line| self.engine.on_line(line));
        if !self.engine.in_turn() {
            self.engine.handle(Input::Stop);
        }
        self.engine.on_exit(Exit::default());
        self.engine.emit_final();
        self.events()
    }

    fn events(&mut self) -> Vec<Event> {
        let events = self.engine.events.take().into_iter();
        events
            .map(|event| Event {
                at: Timestamp::UNKNOWN,
                ..event
            })
            .collect()
    }
}
