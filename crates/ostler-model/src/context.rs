//! Keeps a conversation within the model's context window: shortens old tool results first, then
//! summarizes old messages. The caller reports both.

use crate::history::{Entry, History};

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
pub(crate) struct Meter {
    /// Tokens that the server counted for the last request and its answer.
    counted: u64,
    /// Characters in the conversation at that time.
    at: usize,
}

impl Meter {
    /// Records that the server counted `tokens` for the current conversation.
    pub(crate) fn record(&mut self, tokens: u64, history: &History) {
        *self = Self {
            counted: tokens,
            at: size(history),
        };
    }

    /// Discards the count, because the conversation was replaced.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Estimates the tokens of the conversation: the server's count, plus or minus an estimate for
    /// what changed since.
    pub(crate) fn tokens(&self, history: &History) -> u64 {
        let now = size(history);
        let tokens = |characters: usize| characters as u64 / CHARS_PER_TOKEN;
        match now.checked_sub(self.at) {
            Some(more) => self.counted.saturating_add(tokens(more)),
            None => self.counted.saturating_sub(tokens(self.at - now)),
        }
    }

    /// Returns true if the conversation, with `overhead` additional characters, is too long for the
    /// window.
    pub(crate) fn is_full(&self, history: &History, overhead: usize, window: u64) -> bool {
        let overhead = if self.counted == 0 {
            overhead as u64 / CHARS_PER_TOKEN
        } else {
            0
        };
        self.tokens(history).saturating_add(overhead) > window / 100 * FULL_PERCENT
    }
}

fn size(history: &History) -> usize {
    history.0.iter().map(Entry::size).sum()
}

/// Shortens old tool results and injected messages. Returns how many, and how many characters were
/// removed.
pub(crate) fn shorten(history: &mut History) -> Option<(usize, usize)> {
    let old = history.0.iter_mut().filter_map(|message| match message {
        Entry::Tool { text, .. } | Entry::Injected(text) => Some(text),
        _ => None,
    });
    let mut old: Vec<&mut String> = old.collect();
    let keep = old.len().saturating_sub(RECENT_RESULTS);
    let (mut count, mut removed) = (0, 0);
    for text in old.drain(..keep) {
        if text.len() <= 3 * HALF_LENGTH {
            continue;
        }
        let short = without_middle(text, HALF_LENGTH, "left out to save room");
        (count, removed) = (count + 1, removed + text.len() - short.len());
        *text = short;
    }
    (count > 0).then_some((count, removed))
}

/// Returns the beginning and the end of a text, about `half` bytes each, and how much is left out.
fn without_middle(text: &str, half: usize, why: &str) -> String {
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    let left_out = tail - head;
    format!(
        "{}\n[… {left_out} bytes {why} …]\n{}",
        &text[..head],
        &text[tail..]
    )
}

/// Returns the index before which everything is to be summarized, or `None` if that is not
/// worthwhile.
pub(crate) fn cut(history: &History, window: u64) -> Option<usize> {
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
        if !matches!(message, Entry::Tool { .. }) {
            cut = Some(at);
        }
    }
    cut.filter(|at| *at > 0)
}

/// Returns the prompt for a summary of everything before the cut.
pub(crate) fn summary_prompt(history: &History, cut: usize, window: u64) -> String {
    let mut text = String::new();
    for message in &history.0[..cut] {
        message.write(&mut text);
    }
    let room = usize::try_from(window / 100 * (FULL_PERCENT - RETAINED_PERCENT) * CHARS_PER_TOKEN)
        .unwrap_or(usize::MAX);
    if text.len() > room {
        text = without_middle(&text, room / 2, "left out");
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
pub(crate) fn replace(history: &mut History, cut: usize, summary: &str) {
    let task = history.0[..cut]
        .iter()
        .rev()
        .find_map(|message| match message {
            Entry::User(text) if !text.starts_with(SUMMARY_HEADING) => Some(text),
            _ => None,
        });
    let earlier = history.0[..cut].iter().find_map(|message| match message {
        Entry::User(text) if text.starts_with(SUMMARY_HEADING) => {
            text.split_once(LATEST_HEADING).map(|(_, task)| task)
        }
        _ => None,
    });
    let task = task.map(String::as_str).or(earlier).unwrap_or_default();
    let task = &task[..task.floor_char_boundary(MAX_TASK_LENGTH)];
    let message = Entry::User(format!(
        "{SUMMARY_HEADING}\n{summary}{LATEST_HEADING}{task}"
    ));
    history.0.splice(..cut, [message]);
}

/// Separator between a summary and the user's last message.
const LATEST_HEADING: &str = "\n\n[The user's latest message before that]\n";

#[cfg(test)]
mod tests {
    use ostler_core::raw_json::RawJson;

    use super::*;
    use crate::message::ToolRequest;

    fn step(id: &str, size: usize) -> [Entry; 2] {
        let call = ToolRequest {
            id: id.into(),
            name: "read_file".into(),
            args: RawJson::empty_object(),
        };
        let result = Entry::Tool {
            id: id.into(),
            text: "x".repeat(size),
        };
        [
            Entry::Assistant {
                text: String::new(),
                calls: vec![call],
            },
            result,
        ]
    }

    fn history(steps: usize, size: usize) -> History {
        let mut all = vec![Entry::User("the task".into())];
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
                if let Entry::Tool { text, .. } = m {
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
                assert!(!matches!(history.0[at], Entry::Tool { .. }), "{window}");
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
        history.push(Entry::User("y".repeat(80)));
        assert_eq!(meter.tokens(&history), 810);
        assert!(meter.is_full(&history, 4000, 1000));
    }

    #[test]
    fn fewer_characters_than_were_counted_are_subtracted() {
        let mut meter = Meter::default();
        let mut history = history(2, 400);
        meter.record(790, &history);
        history.0.pop();
        let removed = meter.tokens(&history);
        assert_eq!(removed, 790 - 400 / CHARS_PER_TOKEN);
        meter.reset();
        assert_eq!(
            meter.tokens(&history),
            size(&history) as u64 / CHARS_PER_TOKEN
        );
    }

    #[test]
    fn a_window_is_full_above_four_fifths() {
        let mut meter = Meter::default();
        let history = history(0, 0);
        for (tokens, full) in [(800, false), (801, true)] {
            meter.record(tokens, &history);
            assert_eq!(meter.is_full(&history, 4000, 1000), full, "{tokens}");
        }
    }

    #[test]
    fn short_results_and_the_two_newest_stay_as_they_are() {
        assert_eq!(shorten(&mut history(2, 1000)), None, "both are recent");
        assert_eq!(
            shorten(&mut history(3, 3 * HALF_LENGTH)),
            None,
            "short enough"
        );
        let mut long = history(3, 3 * HALF_LENGTH + 1);
        let before = size(&long);
        let (count, removed) = shorten(&mut long).unwrap();
        assert_eq!((count, before - size(&long)), (1, removed));
        let Entry::Tool { text, .. } = &long.0[2] else {
            panic!("not a result: {:?}", long.0[2])
        };
        let half = "x".repeat(HALF_LENGTH);
        let note = "[… 201 bytes left out to save room …]";
        assert_eq!(*text, format!("{half}\n{note}\n{half}"));
    }

    #[test]
    fn injected_messages_are_shortened_like_results() {
        let mut all = history(2, 10);
        all.0.insert(0, Entry::Injected("y".repeat(1000)));
        assert_eq!(shorten(&mut all).map(|(count, _)| count), Some(1));
    }

    #[test]
    fn as_much_as_fits_stays_unchanged() {
        let history = history(20, 300);
        let per_step = size(&History(step("10", 300).into()));
        for steps in [2, 5, 11] {
            // A little more room than that many steps need.
            let characters = (steps * per_step + per_step / 2) as u64;
            let window = characters * 100 / (RETAINED_PERCENT * CHARS_PER_TOKEN);
            let at = cut(&history, window / 100 * 100).unwrap();
            assert_eq!(at, history.0.len() - 2 * steps, "{steps}");
        }
    }

    #[test]
    fn the_prompt_for_a_summary_fits_into_the_window() {
        let all = history(20, 300);
        let whole = summary_prompt(&all, 5, 100_000);
        assert!(!whole.contains("left out") && whole.contains("the task"));
        let window = 1000;
        let short = summary_prompt(&all, all.0.len(), window);
        let room = (window / 100 * (FULL_PERCENT - RETAINED_PERCENT) * CHARS_PER_TOKEN) as usize;
        let text = short.split_once("\n\n").unwrap().1;
        assert!(text.contains("bytes left out") && text.contains("the task"));
        assert!((room..room + 100).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn the_last_request_survives_every_summary() {
        let mut all = history(2, 10);
        all.0.insert(3, Entry::User("the second task".into()));
        let end = all.0.len();
        replace(&mut all, end, "first");
        let summarised = |all: &History| match all.0.as_slice() {
            [Entry::User(text)] => text.clone(),
            other => panic!("{other:?}"),
        };
        let expected =
            |summary| format!("{SUMMARY_HEADING}\n{summary}{LATEST_HEADING}the second task");
        assert_eq!(summarised(&all), expected("first"));
        replace(&mut all, 1, "second");
        assert_eq!(
            summarised(&all),
            expected("second"),
            "taken from the earlier summary"
        );
    }

    #[test]
    fn an_absurd_count_of_the_server_does_not_overflow() {
        let mut meter = Meter::default();
        let mut history = history(0, 0);
        meter.record(u64::MAX, &history);
        history.push(Entry::User("y".repeat(80)));
        assert_eq!(meter.tokens(&history), u64::MAX);
        assert!(meter.is_full(&history, 4000, 1000));
    }
}
