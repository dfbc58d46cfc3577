//! Writing on a thread of its own: a reader that does not read blocks that thread and nothing else. Signals, limits and
//! the session go on.

use std::io;
use std::time::Duration;

use ostler::Event;
use tokio::sync::{mpsc, oneshot};

use super::{Output, QuestionText};

/// How much may wait for the thread. What waits here leaves less to wait in the session, so it is little.
const EVENTS: usize = 256;
const BYTES: usize = 1024 * 1024;

/// What is shown next: what there is of it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    bytes: usize,
    elapsed: Option<Duration>,
}

/// One thing to show.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events; a box each would cost more than it saves"
)]
enum Item {
    Event(Event),
    Remark(String),
    Line(String),
    Question(QuestionText),
    Answered,
    Shown(oneshot::Sender<()>),
}

impl Batch {
    /// A batch that only moves the status line.
    pub(crate) fn tick(elapsed: Duration) -> Self {
        Self {
            elapsed: Some(elapsed),
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += event.weight();
        self.items.push(Item::Event(event));
    }

    /// What the person at the keyboard did deserves a word.
    pub(crate) fn remark(&mut self, words: impl Into<String>) {
        self.items.push(Item::Remark(words.into()));
    }

    /// A line of our own; what others chose in it has been made plain.
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.items.push(Item::Line(line.into()));
    }

    /// A question, left open on the screen.
    pub(crate) fn question(&mut self, question: QuestionText) {
        self.items.push(Item::Question(question));
    }

    /// The question on the screen was answered, before anything else here.
    pub(crate) fn answered(&mut self) {
        self.items.insert(0, Item::Answered);
    }

    /// Resolves when everything before it is on the screen.
    pub(crate) fn shown(&mut self) -> oneshot::Receiver<()> {
        let (tell, shown) = oneshot::channel();
        self.items.push(Item::Shown(tell));
        shown
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.items.len() < EVENTS && self.bytes < BYTES
    }

    /// Returns true if the batch holds as much as may wait at all.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes >= BYTES
    }

    fn show(self, output: &mut dyn Output) -> io::Result<()> {
        for item in self.items {
            match item {
                Item::Event(event) => output.event(&event)?,
                Item::Remark(words) => output.remark(&words),
                Item::Line(line) => output.line(&line),
                Item::Question(question) => output.question(&question),
                Item::Answered => output.answered(),
                Item::Shown(tell) => {
                    output.flush()?;
                    let _ = tell.send(()); // whoever asked may have gone on
                }
            }
        }
        if let Some(elapsed) = self.elapsed {
            output.tick(elapsed);
        }
        Ok(())
    }
}

/// The way to the thread. Dropping the sender ends it; `done` says how that went.
pub(crate) struct Writer {
    pub(crate) to: mpsc::Sender<Batch>,
    pub(crate) done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(mut output: Box<dyn Output>) -> io::Result<Self> {
        let (to, mut batches) = mpsc::channel(1);
        let (tell, done) = oneshot::channel();
        let work = move || {
            let result = write(&mut *output, &mut batches);
            drop(output); // it takes its status line away
            let _ = tell.send(result); // nobody waits for it any more: the program is about to end
        };
        // It is never joined: a write that nobody reads must not keep the program from ending.
        std::thread::Builder::new()
            .name("output".into())
            .spawn(work)?;
        Ok(Self { to, done })
    }
}

fn write(output: &mut dyn Output, batches: &mut mpsc::Receiver<Batch>) -> io::Result<()> {
    while let Some(batch) = batches.blocking_recv() {
        batch.show(output)?;
        if batches.is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}
