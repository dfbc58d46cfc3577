//! Output thread: a reader that does not read blocks only this thread, not signals, limits or the
//! session.

use std::io;
use std::time::Duration;

use ostler::Event;
use tokio::sync::{mpsc, oneshot};

use super::{Output, QuestionText};

/// Maximum number of events and bytes waiting for the thread. Small, because the session has its
/// own queue.
const EVENTS: usize = 256;
const BYTES: usize = 1024 * 1024;

/// Items to show next.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    bytes: usize,
    elapsed: Option<Duration>,
}

/// An item to show.
#[derive(Debug)]
enum Item {
    Event(Event),
    Line(String),
    Question(QuestionText),
    Answered,
    Shown(oneshot::Sender<()>),
}

impl Batch {
    /// Returns a batch that only updates the status line.
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

    /// Adds a line. Foreign text in it must be sanitized.
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.items.push(Item::Line(line.into()));
    }

    /// Adds a question, which stays open on the screen.
    pub(crate) fn question(&mut self, question: QuestionText) {
        self.items.push(Item::Question(question));
    }

    /// Marks the open question as answered, before everything else in the batch.
    pub(crate) fn answered(&mut self) {
        self.items.insert(0, Item::Answered);
    }

    /// Resolves when everything before it is on the screen.
    pub(crate) fn shown(&mut self) -> oneshot::Receiver<()> {
        let (sender, shown) = oneshot::channel();
        self.items.push(Item::Shown(sender));
        shown
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.items.len() < EVENTS && self.bytes < BYTES
    }

    /// Returns true if the batch reaches the byte limit.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes >= BYTES
    }

    fn show(self, output: &mut dyn Output) -> io::Result<()> {
        for item in self.items {
            match item {
                Item::Event(event) => output.event(&event)?,
                Item::Line(line) => output.line(&line),
                Item::Question(question) => output.question(&question),
                Item::Answered => output.answered(),
                Item::Shown(sender) => {
                    output.flush()?;
                    let _ = sender.send(()); // the receiver may be gone
                }
            }
        }
        if let Some(elapsed) = self.elapsed {
            output.tick(elapsed);
        }
        Ok(())
    }
}

/// Handle to the thread. Dropping `to` ends it; `done` resolves with the result.
pub(crate) struct Writer {
    pub(crate) to: mpsc::Sender<Batch>,
    pub(crate) done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(mut output: Box<dyn Output>) -> io::Result<Self> {
        let (to, mut batches) = mpsc::channel(1);
        let (sender, done) = oneshot::channel();
        let work = move || {
            let result = write(&mut *output, &mut batches);
            drop(output); // clears the status line
            let _ = sender.send(result); // the receiver is gone if the program is exiting
        };
        // The thread is never joined: a blocked write must not keep the program from exiting.
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
