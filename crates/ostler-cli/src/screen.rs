//! The way to what is seen: what waits for the writing thread, and what is held back while a question stands open.

use std::io;
use std::time::Duration;

use ostler::Event;
use tokio::sync::{mpsc, oneshot};

use crate::output::{Batch, Output, Question, Writer};

/// How the showing ended.
#[derive(Debug)]
pub(crate) enum End {
    /// All of it was written.
    Shown,
    /// It cannot be written.
    Gone(io::Error),
    /// It was not read, and somebody told us to end.
    Abandoned,
}

/// What is to be seen.
pub(crate) struct Screen {
    to: Option<mpsc::Sender<Batch>>,
    waiting: Batch,
    /// A question that is about to be shown. It goes before what waits, and what waits stays until it is answered.
    question: Option<Batch>,
    is_held: bool,
    /// A large batch that the writer has and has not shown yet. Nothing more is read before it is: at most one is in memory.
    large: Option<oneshot::Receiver<()>>,
    end: Option<End>,
}

impl Screen {
    /// Starts the writing. The other part says how it ended.
    pub(crate) fn open(
        output: Box<dyn Output>,
    ) -> io::Result<(Self, oneshot::Receiver<io::Result<()>>)> {
        let Writer { to, done } = Writer::start(output)?;
        let (waiting, question) = (Batch::default(), None);
        Ok((
            Self {
                to: Some(to),
                waiting,
                question,
                is_held: false,
                large: None,
                end: None,
            },
            done,
        ))
    }

    /// How the showing ended, if it has.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Takes how it ended.
    pub(crate) fn into_end(self) -> Option<End> {
        self.end
    }

    /// Whether more may come. While a question stands open everything is read: it may be withdrawn.
    pub(crate) fn has_room(&self) -> bool {
        self.is_held || (self.large.is_none() && self.waiting.has_room())
    }

    /// Whether nothing waits to be shown.
    pub(crate) fn is_clear(&self) -> bool {
        self.waiting.is_empty() && self.question.is_none()
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.end.is_none() {
            self.waiting.push(event);
        }
    }

    pub(crate) fn remark(&mut self, words: impl Into<String>) {
        self.waiting.remark(words);
    }

    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.waiting.line(line);
    }

    /// Resolves when everything so far can be seen.
    pub(crate) fn shown(&mut self) -> oneshot::Receiver<()> {
        self.waiting.shown()
    }

    /// Shows a question and leaves it open.
    pub(crate) fn ask(&mut self, question: Question) {
        let mut batch = self.question.take().unwrap_or_default();
        batch.question(question);
        self.question = Some(batch);
        self.is_held = true;
    }

    /// The answer was not one: the question comes again.
    pub(crate) fn ask_again(&mut self, question: Question) {
        let mut batch = Batch::default();
        batch.answered();
        batch.question(question);
        self.question = Some(batch);
    }

    /// The question was answered by a line that was typed, or it is gone.
    pub(crate) fn release(&mut self, answered: bool) {
        self.is_held = false;
        if answered {
            self.waiting.answered();
        }
    }

    pub(crate) fn has_something_to_say(&self) -> bool {
        let waits = !self.is_held && !self.waiting.is_empty();
        self.end.is_none() && (waits || self.question.is_some() || self.large.is_some())
    }

    /// Hands over what waits, as soon as the writer takes it; true when it did. It can be dropped without losing anything.
    pub(crate) async fn say(&mut self) -> bool {
        if let Some(shown) = &mut self.large {
            let _ = shown.await; // the writer has stopped: it says why
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
        self.to = None; // the writer has stopped, and says why
        false
    }

    /// Moves the status line. Without room the line cannot move anyway.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        if let (Some(to), false) = (&self.to, self.is_held) {
            let _ = to.try_send(Batch::tick(elapsed));
        }
    }

    /// Nothing more will come.
    pub(crate) fn close_if_all_is_said(&mut self) {
        if self.is_clear() {
            self.to = None;
        }
    }

    pub(crate) fn finish(&mut self, end: End) {
        self.end = Some(end);
        (self.waiting, self.question) = (Batch::default(), None);
    }
}
