//! An agent's output to events without a process: lines, conversation and session machine, as a
//! session feeds them.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ostler_core::dialect::{self, Conversation, Launching, Outbox};
use ostler_core::event::EventKind;
use ostler_core::lines::{Line, Lines};
use ostler_core::machine::{Effect, Input, Machine};
use ostler_core::spec::{AfterTurn, Limits, Spec};

const CHUNK: usize = 64 * 1024;

/// Prints MB/s for deltas, tool results and a mix.
pub(crate) fn speeds(dir: &Path, runs: usize) {
    let inputs = ["deltas", "results", "mixed"].map(|name| read(dir, name));
    for _ in 0..runs {
        let speeds = inputs.each_ref().map(|input| {
            let begin = Instant::now();
            let decoded = black_box(decode(input));
            let took = begin.elapsed().as_secs_f64();
            decoded.check(input);
            input.len() as f64 / 1e6 / took
        });
        println!("{:.1} {:.1} {:.1}", speeds[0], speeds[1], speeds[2]);
    }
}

/// Decodes a small input once, for a count of instructions. Prints the number of events.
pub(crate) fn counted(dir: &Path) {
    let input = read(dir, "counted");
    println!("{}", decode(&input).events);
}

fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(format!("decode-{name}.jsonl"))).unwrap()
}

/// Decodes an input.
fn decode(input: &[u8]) -> Decoder {
    let mut decoder = Decoder::new();
    let mut lines = Lines::new();
    for chunk in input.chunks(CHUNK) {
        decoder.now = decoder.begin.elapsed(); // a session reads the clock once per chunk
        lines.push(chunk, |line| decoder.on_line(line));
    }
    lines.finish(|line| decoder.on_line(line));
    decoder
}

struct Decoder {
    begin: Instant,
    now: Duration,
    conversation: Box<dyn Conversation>,
    machine: Machine,
    outbox: Outbox,
    effects: Vec<Effect>,
    events: usize,
    /// Events that a line of the input stands for.
    contents: usize,
}

impl Decoder {
    fn new() -> Self {
        let claude = ostler_dialects::find("claude").unwrap();
        let mut decoder = Self {
            begin: Instant::now(),
            now: Duration::ZERO,
            conversation: claude.converse(&Launching::new(&Spec::default())),
            machine: Machine::new(Limits::default(), AfterTurn::End)
                .with_capabilities(claude.about().capabilities),
            outbox: Outbox::default(),
            effects: Vec::new(),
            events: 0,
            contents: 0,
        };
        for input in [Input::Send("hello".into()), Input::Start] {
            decoder.handle(input);
        }
        decoder.conversation.on_start(&mut decoder.outbox);
        decoder.handle(Input::Spawned);
        decoder
    }

    fn on_line(&mut self, line: Line<'_>) {
        dialect::deliver_line(&mut *self.conversation, line, &mut self.outbox);
        self.handle(Input::Activity);
    }

    /// Feeds the machine until nothing is left.
    fn handle(&mut self, input: Input) {
        self.drain_outbox();
        self.machine.handle(self.now, input, &mut self.effects);
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Emit { kind, .. } => self.count(kind),
                    Effect::Send(message) => self.conversation.send(message, &mut self.outbox),
                    _ => {} // nothing to write to, and no caller
                }
            }
            self.effects = effects;
            self.drain_outbox();
        }
    }

    fn drain_outbox(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        for output in self.outbox.drain() {
            self.machine
                .handle(self.now, output.into(), &mut self.effects);
        }
    }

    /// Checks that every line of the input was an event.
    fn check(&self, input: &[u8]) {
        let lines = input.iter().filter(|byte| **byte == b'\n').count();
        assert!(self.contents >= lines, "every line is an event");
    }

    fn count(&mut self, kind: EventKind) {
        self.events += 1;
        self.contents += usize::from(matches!(
            black_box(kind),
            EventKind::Text(_) | EventKind::ToolCall(_) | EventKind::ToolResult(_)
        ));
    }
}
