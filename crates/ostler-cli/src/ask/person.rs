//! Questions of the model: the channel from the agent loop to the user.

use ostler::hooks::{Person, PersonFuture};
use tokio::sync::{mpsc, oneshot};

use super::question::not_shown;
use crate::output::style::{DIM, WARN};
use crate::output::{QuestionText, visible};

/// Prompt for the answer.
const PROMPT: &str = "  answer > ";

/// Maximum number of lines shown of a question, and of characters in each.
const LINES: usize = 40;
const WIDTH: usize = 400;

/// A question of the model. Dropping it leaves the question unanswered.
pub(crate) struct ModelQuestion {
    text: String,
    reply: oneshot::Sender<String>,
}

/// Sending half, for the loop.
pub(crate) struct QuestionSender(mpsc::UnboundedSender<ModelQuestion>);

/// Receiving half, for the prompter.
pub(crate) type QuestionReceiver = mpsc::UnboundedReceiver<ModelQuestion>;

/// Creates a channel for questions.
pub(crate) fn question_channel() -> (QuestionSender, QuestionReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (QuestionSender(sender), receiver)
}

impl Person for QuestionSender {
    fn answer<'a>(&'a self, question: &'a str) -> PersonFuture<'a> {
        let (reply, answer) = oneshot::channel();
        // A question that cannot be sent is dropped, which closes the channel for its answer.
        let _ = self.0.send(ModelQuestion {
            text: question.to_owned(),
            reply,
        });
        Box::pin(async move { answer.await.ok() })
    }
}

impl ModelQuestion {
    /// Returns true if the model no longer waits for the answer.
    pub(super) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn answer(self, answer: String) {
        let _ = self.reply.send(answer); // the call may have been cancelled
    }

    /// Returns the question for the screen.
    pub(super) fn shown(&self) -> QuestionText {
        let warn = WARN.bold();
        let mut lines = vec![format!(
            "{warn}?{warn:#} The model asks: {DIM}(Ctrl-D to answer later){DIM:#}"
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
        lines.extend(not_shown(all.count().saturating_sub(LINES)));
        QuestionText {
            lines,
            prompt: PROMPT,
        }
    }
}
