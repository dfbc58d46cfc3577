//! Reading a recording of an agent's output into the events it would have given. Nothing is started.

use ostler_core::dialect::{Dialect, Exit};
use ostler_core::event::{At, Event};
use ostler_core::lines::Lines;
use ostler_core::machine::{Input, Machine};
use ostler_core::spec::{AfterTurn, Limits, Spec};

use crate::session::engine::Engine;

/// A recording that is being read. Feed it bytes, take events, and finish.
///
/// A recording holds no times, so every event is stamped with [`At::UNKNOWN`].
pub struct Replay {
    engine: Engine,
    lines: Lines,
}

impl Replay {
    /// Number of bytes at the beginning of a recording that are enough to recognize it.
    pub const OPENING: usize = 256 * 1024;

    /// The dialect of a recording that begins with these bytes, or `None` if they are not an agent's output.
    #[must_use]
    pub fn recognize(opening: &[u8]) -> Option<&'static dyn Dialect> {
        ostler_dialects::recognize(&String::from_utf8_lossy(opening))
    }

    /// Reads what an agent of this dialect printed.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect, spec: &Spec) -> Self {
        // Nothing is stored.
        let limits = Limits {
            wall: None,
            idle: None,
            startup: None,
            event_bytes: None,
            ..spec.limits.clone()
        };
        let id = format!("replay-{}", uuid::Uuid::new_v4()).into();
        let dialect = dialect.select_transport(spec).unwrap_or(dialect);
        let mut engine = Engine::new(
            id,
            dialect.converse(spec),
            Machine::new(limits, AfterTurn::Wait),
        );
        engine.handle(Input::Send(String::new()));
        engine.handle(Input::Start);
        engine.open(None);
        Self {
            engine,
            lines: Lines::new(),
        }
    }

    /// Takes the next bytes, and gives the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.lines.push(bytes, |line| self.engine.hear(line));
        self.events()
    }

    /// The recording is over. A turn that was open in it ends as an agent's that died.
    #[must_use]
    pub fn finish(mut self) -> Vec<Event> {
        self.lines.finish(|line| self.engine.hear(line));
        if !self.engine.in_turn() {
            self.engine.handle(Input::Stop);
        }
        self.engine.finish(Exit::default());
        self.engine.farewell();
        self.events()
    }

    fn events(&mut self) -> Vec<Event> {
        let events = self.engine.out.take().into_iter();
        events
            .map(|event| Event {
                at: At::UNKNOWN,
                ..event
            })
            .collect()
    }
}
