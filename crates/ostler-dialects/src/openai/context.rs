//! Keeps a conversation within the model's context window: shortens old tool results first, then
//! summarizes old messages. The caller reports both.

use super::history::{History, Message};

/// Approximate number of characters per token, for text that the server has not counted yet.
const CHARS_PER_TOKEN: u64 = 4;

/// Percentage of the context window that may be filled before compaction.
const FULL_PERCENT: u64 = 80;

/// Percentage of the context window that stays unchanged when the rest is summarized.
const RETAINED_PERCENT: u64 = 30;

/// Number of recent tool results that stay complete, because the model is working with them.
const RECENT_RESULTS: usize = 2;

/// Length of each half of a shortened tool result.
const HALF_LENGTH: usize = 200;

/// Estimates how full the context window is.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Tokens that the server counted for the last request and its answer.
    counted: u64,
    /// Characters in the conversation at that time.
    at: usize,
}

impl Meter {
    /// Records that the server counted `tokens` for the current conversation.
    pub(super) fn record(&mut self, tokens: u64, history: &History) {
        *self = Self {
            counted: tokens,
            at: size(history),
        };
    }

    /// Discards the count, because the conversation was replaced.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Estimates the tokens of the conversation: the server's count, plus or minus an estimate for
    /// what changed since.
    pub(super) fn tokens(&self, history: &History) -> u64 {
        let now = size(history);
        let tokens = |characters: usize| characters as u64 / CHARS_PER_TOKEN;
        match now.checked_sub(self.at) {
            Some(more) => self.counted + tokens(more),
            None => self.counted.saturating_sub(tokens(self.at - now)),
        }
    }

    /// Returns true if the conversation, with `overhead` additional characters, is too long for the
    /// window.
    pub(super) fn is_full(&self, history: &History, overhead: usize, window: u64) -> bool {
        let overhead = if self.counted == 0 {
            overhead as u64 / CHARS_PER_TOKEN
        } else {
            0
        };
        self.tokens(history) + overhead > window / 100 * FULL_PERCENT
    }
}

fn size(history: &History) -> usize {
    history.0.iter().map(Message::size).sum()
}

/// Shortens old tool results and injected messages. Returns how many, and how many characters were
/// removed.
pub(super) fn shorten(history: &mut History) -> Option<(usize, usize)> {
    let old = history.0.iter_mut().filter_map(|message| match message {
        Message::Tool { text, .. } | Message::Injected(text) => Some(text),
        _ => None,
    });
    let mut old: Vec<&mut String> = old.collect();
    let keep = old.len().saturating_sub(RECENT_RESULTS);
    let (mut count, mut removed) = (0, 0);
    for text in old.drain(..keep) {
        if text.len() <= 3 * HALF_LENGTH {
            continue;
        }
        let (head, tail) = (
            text.floor_char_boundary(HALF_LENGTH),
            text.ceil_char_boundary(text.len() - HALF_LENGTH),
        );
        let left_out = tail - head;
        let short = format!(
            "{}\n[… {left_out} bytes left out to save room …]\n{}",
            &text[..head],
            &text[tail..]
        );
        (count, removed) = (count + 1, removed + text.len() - short.len());
        *text = short;
    }
    (count > 0).then_some((count, removed))
}

/// Returns the index before which everything is to be summarized, or `None` if that is not
/// worthwhile.
pub(super) fn cut(history: &History, window: u64) -> Option<usize> {
    let room =
        usize::try_from(window / 100 * RETAINED_PERCENT * CHARS_PER_TOKEN).unwrap_or(usize::MAX);
    let mut retained = 0;
    let mut cut = None;
    // Backwards from the end, as far as there is room. A tool result stays with its call.
    for (at, message) in history.0.iter().enumerate().rev() {
        retained += message.size();
        if retained > room && cut.is_some() {
            break;
        }
        if !matches!(message, Message::Tool { .. }) {
            cut = Some(at);
        }
    }
    cut.filter(|at| *at > 0)
}

/// Returns the prompt for a summary of everything before the cut.
pub(super) fn summary_prompt(history: &History, cut: usize, window: u64) -> String {
    let mut text = String::new();
    for message in &history.0[..cut] {
        message.write(&mut text);
    }
    let room = usize::try_from(window / 100 * (FULL_PERCENT - RETAINED_PERCENT) * CHARS_PER_TOKEN)
        .unwrap_or(usize::MAX);
    if text.len() > room {
        let (head, tail) = (
            text.floor_char_boundary(room / 2),
            text.ceil_char_boundary(text.len() - room / 2),
        );
        text = format!(
            "{}\n[… {} bytes left out …]\n{}",
            &text[..head],
            tail - head,
            &text[tail..]
        );
    }
    format!(
        "Below is the first part of a conversation between a user and a coding agent. Summarise it for the agent, who will \
         continue the task and will not see it again: the task, what was found, what was changed (files, names), what is \
         left to do. Do not answer the user.\n\n{text}"
    )
}

/// First line of a summary.
const SUMMARY_HEADING: &str = "[Summary of the conversation so far]";

/// Maximum length of a user message that is kept verbatim.
const MAX_TASK_LENGTH: usize = 16 * 1024;

/// Replaces the messages with the summary. The user's last request is kept verbatim.
pub(super) fn replace(history: &mut History, cut: usize, summary: &str) {
    let task = history.0[..cut]
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User(text) if !text.starts_with(SUMMARY_HEADING) => Some(text),
            _ => None,
        });
    let earlier = history.0[..cut].iter().find_map(|message| match message {
        Message::User(text) if text.starts_with(SUMMARY_HEADING) => {
            text.split_once(LATEST_HEADING).map(|(_, task)| task)
        }
        _ => None,
    });
    let task = task.map(String::as_str).or(earlier).unwrap_or_default();
    let task = &task[..task.floor_char_boundary(MAX_TASK_LENGTH)];
    let message = Message::User(format!(
        "{SUMMARY_HEADING}\n{summary}{LATEST_HEADING}{task}"
    ));
    history.0.splice(..cut, [message]);
}

/// Separator between a summary and the user's last message.
const LATEST_HEADING: &str = "\n\n[The user's latest message before that]\n";

#[cfg(test)]
mod tests {
    use super::super::history::HistoryCall;
    use super::*;

    fn step(id: &str, size: usize) -> [Message; 2] {
        let call = HistoryCall {
            id: id.into(),
            name: "read_file".into(),
            arguments: "{}".into(),
        };
        let result = Message::Tool {
            id: id.into(),
            text: "x".repeat(size),
        };
        [
            Message::Assistant {
                text: String::new(),
                calls: vec![call],
            },
            result,
        ]
    }

    fn history(steps: usize, size: usize) -> History {
        let mut all = vec![Message::User("the task".into())];
        (0..steps).for_each(|n| all.extend(step(&n.to_string(), size)));
        History(all)
    }

    #[test]
    fn recent_results_stay_complete() {
        let mut history = history(5, 1000);
        let (count, removed) = shorten(&mut history).unwrap();
        assert_eq!(count, 3);
        assert!(removed > 1500);
        let lengths: Vec<usize> = history
            .0
            .iter()
            .filter_map(|m| {
                if let Message::Tool { text, .. } = m {
                    Some(text.len())
                } else {
                    None
                }
            })
            .collect();
        assert!(
            lengths[..3].iter().all(|len| *len < 500)
                && lengths[3..].iter().all(|len| *len == 1000),
            "{lengths:?}"
        );
        assert_eq!(
            shorten(&mut history),
            None,
            "results are shortened only once"
        );
    }

    #[test]
    fn cut_never_separates_a_result_from_its_call() {
        for window in [100, 500, 1000, 5000, 100_000] {
            let history = history(20, 300);
            if let Some(at) = cut(&history, window) {
                assert!(!matches!(history.0[at], Message::Tool { .. }), "{window}");
                let mut short = history.clone();
                replace(&mut short, at, "what was");
                assert!(short.0.len() < history.0.len());
            }
        }
        assert_eq!(
            cut(&history(0, 0), 100),
            None,
            "a single message is not summarised"
        );
    }

    #[test]
    fn token_count_of_the_server_is_trusted() {
        let mut meter = Meter::default();
        let mut history = history(2, 400);
        assert!(!meter.is_full(&history, 0, 1000));
        assert!(
            meter.is_full(&history, 4000, 1000),
            "what comes before it counts too"
        );
        meter.record(790, &history);
        assert_eq!(meter.tokens(&history), 790);
        history.push(Message::User("y".repeat(80)));
        assert_eq!(meter.tokens(&history), 810);
        assert!(meter.is_full(&history, 4000, 1000));
    }
}
