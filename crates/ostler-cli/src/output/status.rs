//! The status line of a live run: elapsed time, what the agent does, tokens and cost. It is there only while nothing else
//! stands on its line.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ostler::Usage;

/// The status line; it does nothing when stderr is not a terminal.
pub(super) struct Status {
    bar: Option<ProgressBar>,
    live: bool,
    doing: String,
    spent: String,
}

impl Status {
    pub(super) fn new(live: bool) -> Self {
        Self { bar: None, live, doing: "starting".into(), spent: String::new() }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    pub(super) fn doing(&mut self, what: impl Into<String>) {
        self.doing = what.into();
    }

    pub(super) fn spent(&mut self, usage: &Usage) {
        self.spent = super::human::spent(usage);
    }

    /// Shows the line, or moves it on.
    pub(super) fn show(&mut self, elapsed: Duration) {
        if !self.live {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            bar.with_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "))
        });
        let spent = if self.spent.is_empty() { String::new() } else { format!(" · {}", self.spent) };
        bar.set_message(format!("{}s · {}{spent}", elapsed.as_secs(), self.doing));
        bar.tick();
    }

    /// Takes the line away, so that something else can be written.
    pub(super) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
