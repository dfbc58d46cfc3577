//! Queue to the output thread. Output is held back while a question is open.

use std::io;
use std::time::Duration;

use ostler::Event;
use tokio::sync::{mpsc, oneshot};

use crate::output::style::WARN;
use crate::output::{Batch, Output, QuestionText, Writer};

/// The result of the writer, unless it panicked.
pub(crate) type WriterResult = Result<io::Result<()>, oneshot::error::RecvError>;

/// How the output ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Everything was written.
    Shown,
    /// Writing failed.
    Gone(io::Error),
    /// The output was not read before a signal ended the program.
    Abandoned,
}

/// Queue of output that is still to be shown.
pub(crate) struct Screen {
    to: Option<mpsc::Sender<Batch>>,
    waiting: Batch,
    /// A question that is about to be shown. It goes before all waiting output, which is held until
    /// the answer.
    question: Option<Batch>,
    is_held: bool,
    /// A large batch that the writer has not shown yet. Nothing more is read until it is, so that
    /// at most one is in memory.
    large: Option<oneshot::Receiver<()>>,
    end: Option<End>,
}

impl Screen {
    /// Starts the output thread. The receiver resolves with its result.
    pub(crate) fn open(
        output: Box<dyn Output>,
    ) -> io::Result<(Self, oneshot::Receiver<io::Result<()>>)> {
        let Writer { to, done } = Writer::start(output)?;
        let screen = Self {
            to: Some(to),
            waiting: Batch::default(),
            question: None,
            is_held: false,
            large: None,
            end: None,
        };
        Ok((screen, done))
    }

    /// Returns how the output ended, if it has.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Returns how the output ended, if it has.
    pub(crate) fn into_end(self) -> Option<End> {
        self.end
    }

    /// Returns true if more events can be queued. While a question is open all events are read,
    /// because one may withdraw it.
    pub(crate) fn has_room(&self) -> bool {
        self.is_held || (self.large.is_none() && self.waiting.has_room())
    }

    /// Returns true if nothing is waiting to be shown.
    pub(crate) fn is_clear(&self) -> bool {
        self.waiting.is_empty() && self.question.is_none()
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.end.is_none() {
            self.waiting.push(event);
        }
    }

    /// Queues a warning in response to user input.
    pub(crate) fn remark(&mut self, words: impl std::fmt::Display) {
        self.line(format!("{WARN}!{WARN:#} {words}"));
    }

    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.waiting.line(line);
    }

    /// Resolves when everything queued so far is on the screen.
    pub(crate) fn shown(&mut self) -> oneshot::Receiver<()> {
        self.waiting.shown()
    }

    /// Shows a question and holds back other output.
    pub(crate) fn ask(&mut self, question: QuestionText) {
        let mut batch = self.question.take().unwrap_or_default();
        batch.question(question);
        self.question = Some(batch);
        self.is_held = true;
    }

    /// Shows a question again after an invalid answer.
    pub(crate) fn ask_again(&mut self, question: QuestionText) {
        let mut batch = Batch::default();
        batch.answered();
        batch.question(question);
        self.question = Some(batch);
    }

    /// Releases the held output: the question was answered by a typed line, or withdrawn.
    pub(crate) fn release(&mut self, answered: bool) {
        self.is_held = false;
        if answered {
            self.waiting.answered();
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        let waits = !self.is_held && !self.waiting.is_empty();
        self.end.is_none() && (waits || self.question.is_some() || self.large.is_some())
    }

    /// Sends the waiting output when the writer has room. Returns true if it was sent. Cancel safe.
    pub(crate) async fn send(&mut self) -> bool {
        if let Some(shown) = &mut self.large {
            let _ = shown.await; // an error means that the writer stopped; its result says why
            self.large = None;
            return true;
        }
        let Some(to) = &self.to else {
            return std::future::pending().await;
        };
        if let Ok(permit) = to.reserve().await {
            let mut batch = self
                .question
                .take()
                .unwrap_or_else(|| std::mem::take(&mut self.waiting));
            self.large = batch.is_large().then(|| batch.shown());
            permit.send(batch);
            return true;
        }
        self.to = None; // the writer stopped; its result says why
        false
    }

    /// Updates the status line, unless the writer is busy.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        if let (Some(to), false) = (&self.to, self.is_held) {
            let _ = to.try_send(Batch::tick(elapsed));
        }
    }

    /// Closes the queue if everything has been sent.
    pub(crate) fn close_if_drained(&mut self) {
        if self.is_clear() {
            self.to = None;
        }
    }

    /// Ends with the result of the writer. Returns false if the output has no reader.
    pub(crate) fn on_writer_done(&mut self, result: WriterResult) -> bool {
        let result = result.unwrap_or_else(|_| Err(io::Error::other("the writer thread panicked")));
        let is_shown = result.is_ok();
        self.finish(result.map_or_else(End::Gone, |()| End::Shown));
        is_shown
    }

    pub(crate) fn finish(&mut self, end: End) {
        self.end = Some(end);
        (self.waiting, self.question) = (Batch::default(), None);
    }
}
