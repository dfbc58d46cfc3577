//! Metrics of all sessions, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use ostler::{Cause, Event, EventKind};
use ostler_core::event::Timestamp;

/// Counters since the start of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    events: u64,
    /// How long the last event took to be stored, and all of them, in milliseconds.
    last_lag: u64,
    lag: u64,
    tokens: u64,
    cost_usd: f64,
    turns: BTreeMap<&'static str, u64>,
    sessions: BTreeMap<&'static str, u64>,
    delivered: u64,
    undelivered: u64,
    /// Refused requests of agents: of this daemon's sessions, and of others.
    denied: u64,
    denied_others: u64,
}

/// Current numbers.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// Number of running sessions.
    pub(crate) running: usize,
    /// Number of waiting sessions by agent, for agents that have any.
    pub(crate) waiting: Vec<(String, usize)>,
    /// Number of sessions that have not ended, by state.
    pub(crate) sessions: BTreeMap<&'static str, usize>,
    /// Whether the breaker that an agent was last started with refuses starts.
    pub(crate) open_breakers: BTreeMap<&'static str, bool>,
}

impl Gauges {
    fn write(&self, metric: &mut impl FnMut(&str, &str, &str, &[(String, f64)])) {
        let one = |value: f64| vec![(String::new(), value)];
        let labelled =
            |name: &str, label: &str, value: f64| (format!("{{{name}=\"{label}\"}}"), value);
        metric(
            "sessions_running",
            "gauge",
            "Sessions that run now.",
            &one(self.running as f64),
        );
        let waiting: usize = self.waiting.iter().map(|(_, count)| count).sum();
        metric(
            "sessions_waiting",
            "gauge",
            "Sessions that wait to be started.",
            &one(waiting as f64),
        );
        let by_state = self.sessions.iter();
        let by_state: Vec<_> = by_state
            .map(|(state, count)| labelled("state", state, *count as f64))
            .collect();
        metric(
            "sessions",
            "gauge",
            "Sessions of this daemon that have not ended, by state.",
            &by_state,
        );
        let queue = self.waiting.iter();
        let queue: Vec<_> = queue
            .map(|(agent, count)| labelled("agent", agent, *count as f64))
            .collect();
        metric(
            "queue_length",
            "gauge",
            "Sessions that wait to be started, by agent.",
            &queue,
        );
        let breakers = self.open_breakers.iter();
        let breakers: Vec<_> = breakers
            .map(|(agent, is_open)| labelled("agent", agent, f64::from(u8::from(*is_open))))
            .collect();
        metric(
            "breaker_open",
            "gauge",
            "Whether the circuit breaker of an agent refuses starts now.",
            &breakers,
        );
    }
}

impl Metrics {
    /// Counts an event that is stored by now.
    pub(crate) fn on_event(&self, event: &Event, now: Timestamp) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.events += 1;
        counters.last_lag = u64::try_from(now.0.saturating_sub(event.at.0)).unwrap_or(0);
        counters.lag = counters.lag.saturating_add(counters.last_lag);
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

    /// Counts an attempt to deliver to a webhook.
    pub(crate) fn on_delivery(&self, is_ok: bool) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_ok {
            counters.delivered += 1;
        } else {
            counters.undelivered += 1;
        }
    }

    /// Counts a request of an agent that was refused.
    pub(crate) fn on_denied(&self, is_own: bool) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_own {
            counters.denied += 1;
        } else {
            counters.denied_others += 1;
        }
    }

    /// Returns the metrics as text, with the current numbers.
    pub(crate) fn text(&self, gauges: &Gauges) -> String {
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
        gauges.write(&mut metric);
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
            "event_lag_seconds",
            "gauge",
            "How long the last event took to be stored.",
            &one(counters.last_lag as f64 / 1000.0),
        );
        metric(
            "event_lag_seconds_total",
            "counter",
            "How long all events took to be stored.",
            &one(counters.lag as f64 / 1000.0),
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
        metric(
            "requests_denied_total",
            "counter",
            "Requests of agents that were refused.",
            &[
                ("{agent_of=\"daemon\"}".to_owned(), counters.denied as f64),
                (
                    "{agent_of=\"other\"}".to_owned(),
                    counters.denied_others as f64,
                ),
            ],
        );
        metric(
            "webhook_attempts_total",
            "counter",
            "Requests to webhooks.",
            &[
                ("{result=\"ok\"}".to_owned(), counters.delivered as f64),
                (
                    "{result=\"failed\"}".to_owned(),
                    counters.undelivered as f64,
                ),
            ],
        );
        text
    }
}
