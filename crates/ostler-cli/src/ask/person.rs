//! Questions that a model has of its own: the way from the loop to whoever sits at the keyboard.

use ostler::hooks::{Person, PersonFuture};
use tokio::sync::{mpsc, oneshot};

use crate::output::style::{DIM, WARN};
use crate::output::{Question, visible};

/// Where the answer goes.
const PROMPT: &str = "  answer > ";

/// How much of a question is shown.
const LINES: usize = 40;
const WIDTH: usize = 400;

/// A question of the model's. Dropped, it stays without an answer.
pub(crate) struct Query {
    text: String,
    to: oneshot::Sender<String>,
}

/// The loop's end of the way.
pub(crate) struct Teller(mpsc::UnboundedSender<Query>);

/// The keyboard's end of it.
pub(crate) type Line = mpsc::UnboundedReceiver<Query>;

/// A way for questions.
pub(crate) fn line() -> (Teller, Line) {
    let (tell, line) = mpsc::unbounded_channel();
    (Teller(tell), line)
}

impl Person for Teller {
    fn answer<'a>(&'a self, question: &'a str) -> PersonFuture<'a> {
        let (to, answer) = oneshot::channel();
        let is_put = self
            .0
            .send(Query {
                text: question.to_owned(),
                to,
            })
            .is_ok();
        Box::pin(async move { if is_put { answer.await.ok() } else { None } })
    }
}

impl Query {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.to.is_closed()
    }

    pub(super) fn answer(self, answer: String) {
        let _ = self.to.send(answer); // whoever asked may have been called off
    }

    /// The question as it is shown.
    pub(super) fn shown(&self) -> Question {
        let warn = WARN.bold();
        let mut lines = vec![format!(
            "{warn}?{warn:#} The model asks {DIM}(Ctrl-D: answer later){DIM:#}"
        )];
        let all = self.text.trim_end().split('\n');
        for line in all.clone().take(LINES) {
            let (line, left) = visible(line.trim_end_matches('\r'), WIDTH);
            let left = if left == 0 {
                String::new()
            } else {
                format!(" {DIM}({left} more characters){DIM:#}")
            };
            lines.push(format!("  {line}{left}"));
        }
        match all.count().saturating_sub(LINES) {
            0 => {}
            more => lines.push(format!(
                "  {WARN}and {more} more lines that are not shown{WARN:#}"
            )),
        }
        Question {
            lines,
            prompt: PROMPT.to_owned(),
        }
    }
}
