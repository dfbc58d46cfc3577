//! Writing on a thread of its own: a reader that does not read blocks that thread and nothing else. Signals, limits and
//! the session go on.

use std::io;
use std::time::Duration;

use ostler::{Event, What};
use tokio::sync::{mpsc, oneshot};

use super::Output;

/// How much may wait for the thread. What waits here leaves less to wait in the session, so it is little.
const EVENTS: usize = 256;
const BYTES: usize = 1024 * 1024;

/// What is shown next: what there is of it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    events: Vec<Event>,
    bytes: usize,
    remark: Option<&'static str>,
    elapsed: Option<Duration>,
}

impl Batch {
    /// A batch that only moves the status line.
    pub(crate) fn tick(elapsed: Duration) -> Self {
        Self { elapsed: Some(elapsed), ..Self::default() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += weight(&event);
        self.events.push(event);
    }

    pub(crate) fn remark(&mut self, words: &'static str) {
        self.remark = Some(words);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.remark.is_none()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.events.len() < EVENTS && self.bytes < BYTES
    }

    fn show(&self, output: &mut dyn Output) -> io::Result<()> {
        if let Some(words) = self.remark {
            output.remark(words);
        }
        for event in &self.events {
            output.event(event)?;
        }
        if let Some(elapsed) = self.elapsed {
            output.tick(elapsed);
        }
        Ok(())
    }
}

/// Roughly how large an event is: only what can be large counts.
fn weight(event: &Event) -> usize {
    match &event.what {
        What::Text(text) => text.text.len(),
        What::ToolCall(call) => call.input.get().len(),
        What::ToolResult(result) => result.output.len() + result.content.as_ref().map_or(0, |c| c.get().len()),
        What::Notice(notice) => notice.message.len() + notice.raw.as_ref().map_or(0, |raw| raw.get().len()),
        What::Unreadable(it) => it.raw.len(),
        What::TurnEnded(turn) => turn.text.len() + turn.structured.as_ref().map_or(0, |s| s.get().len()),
        _ => 0,
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
        std::thread::Builder::new().name("output".into()).spawn(work)?;
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
