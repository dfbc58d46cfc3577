//! Metrics of all sessions, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use ostler::{Cause, Event, EventKind};

/// Counters since the start of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    events: u64,
    tokens: u64,
    cost_usd: f64,
    turns: BTreeMap<&'static str, u64>,
    sessions: BTreeMap<&'static str, u64>,
}

impl Metrics {
    /// Counts an event.
    pub(crate) fn on_event(&self, event: &Event) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.events += 1;
        match &event.kind {
            EventKind::TurnEnded(turn) => {
                *counters
                    .turns
                    .entry(turn.outcome.cause.as_str())
                    .or_default() += 1;
                if let Some(usage) = &turn.usage {
                    counters.tokens += usage.total().unwrap_or_default();
                    counters.cost_usd += usage.cost_usd.unwrap_or_default();
                }
            }
            EventKind::Ended(ended) => {
                *counters
                    .sessions
                    .entry(ended.outcome.cause.as_str())
                    .or_default() += 1;
            }
            _ => {}
        }
    }

    /// Returns the metrics as text, with the numbers of running and waiting sessions.
    pub(crate) fn text(&self, running: usize, waiting: usize) -> String {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, lines: &[(String, f64)]| {
            let _ = writeln!(
                text,
                "# HELP ostler_{name} {help}\n# TYPE ostler_{name} {kind}"
            );
            for (labels, value) in lines {
                let _ = writeln!(text, "ostler_{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        let by_cause = |counts: &BTreeMap<&'static str, u64>| {
            let lines = Cause::ALL.into_iter().map(|cause| {
                let count = counts.get(cause.as_str()).copied().unwrap_or_default();
                (format!("{{cause=\"{cause}\"}}"), count as f64)
            });
            lines.collect::<Vec<_>>()
        };
        metric(
            "sessions_running",
            "gauge",
            "Sessions that run now.",
            &one(running as f64),
        );
        metric(
            "sessions_waiting",
            "gauge",
            "Sessions that wait to be started.",
            &one(waiting as f64),
        );
        metric(
            "sessions_ended_total",
            "counter",
            "Sessions that ended, by cause.",
            &by_cause(&counters.sessions),
        );
        metric(
            "turns_ended_total",
            "counter",
            "Turns that ended, by cause.",
            &by_cause(&counters.turns),
        );
        metric(
            "events_total",
            "counter",
            "Events of all sessions.",
            &one(counters.events as f64),
        );
        metric(
            "tokens_total",
            "counter",
            "Tokens of all turns, as far as known.",
            &one(counters.tokens as f64),
        );
        metric(
            "cost_usd_total",
            "counter",
            "Cost of all turns in US dollars, as far as known.",
            &one(counters.cost_usd),
        );
        text
    }
}
