//! Progress of a run: a status line on a terminal, and a line for every finished trial.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler::event::Timestamp;
use ostler_eval::run_trial::Phase;
use ostler_eval::runner::{Observer, RunEvent, is_scored};
use ostler_eval::trial::{TrialKey, TrialResult, Verdict};

use crate::environment;
use crate::output::{self, Status, eprint_line};

/// Maximum length of a line.
const MAX_LINE: usize = 400;

/// Shows a run while it is under way, on stderr.
pub(super) struct Progress {
    state: Mutex<State>,
}

struct State {
    status: Status,
    started: Timestamp,
    total: u64,
    done: u64,
    /// Number of trials done before this process started.
    before: u64,
    scored: u64,
    passed: u64,
    /// Cost and tokens of finished attempts.
    cost: f64,
    active: BTreeMap<String, Active>,
}

/// A trial that is under way.
struct Active {
    phase: &'static str,
    started: Timestamp,
    tokens: Option<u64>,
    cost: f64,
}

impl Active {
    /// Shows a trial: `case · agent #1 working 12 s 4.1k tokens $0.02`.
    fn shown(&self, name: &str) -> String {
        let elapsed = since(self.started).as_secs();
        let mut text = format!("{name} {} {}", self.phase, clock(elapsed));
        if let Some(tokens) = self.tokens {
            text = format!("{text} {} tokens", thousands(tokens));
        }
        if self.cost > 0.0 {
            text = format!("{text} ${:.2}", self.cost);
        }
        text
    }
}

/// Returns the time since a moment.
fn since(started: Timestamp) -> Duration {
    let elapsed = environment::now().0.saturating_sub(started.0);
    Duration::from_millis(u64::try_from(elapsed).unwrap_or(0))
}

/// `12 s`, `3 m 04 s`.
fn clock(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} m {:02} s", seconds / 60, seconds % 60),
    }
}

/// The same, with tenths below ten seconds.
fn precise(elapsed: Duration) -> String {
    match elapsed.as_millis() {
        ms @ 0..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => clock(elapsed.as_secs()),
    }
}

/// `850`, `12.3k`.
fn thousands(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        _ => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
    }
}

/// What was done before this process started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) done: u64,
    pub(super) scored: u64,
    pub(super) passed: u64,
    pub(super) cost: f64,
}

impl Progress {
    pub(super) fn new(total: u64, before: Before) -> Self {
        Self {
            state: Mutex::new(State {
                status: output::status(),
                started: environment::now(),
                total,
                done: before.done,
                before: before.done,
                scored: before.scored,
                passed: before.passed,
                cost: before.cost,
                active: BTreeMap::new(),
            }),
        }
    }

    /// Updates the status line.
    pub(super) fn tick(&self) {
        let mut state = self.lock();
        state.show();
    }

    /// Removes the status line.
    pub(super) fn clear(&self) {
        self.lock().status.hide();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(key: &TrialKey) -> String {
    format!("{} · {} #{}", key.case, key.contender, key.repetition)
}

impl State {
    fn elapsed(&self) -> Duration {
        since(self.started)
    }

    fn show(&mut self) {
        if !self.status.is_live() {
            return;
        }
        let cost: f64 = self.cost + self.active.values().map(|trial| trial.cost).sum::<f64>();
        let mut whole = vec![format!("{}/{} done", self.done, self.total)];
        if self.scored > 0 {
            whole.push(format!("{}/{} passed", self.passed, self.scored));
        }
        if cost > 0.0 {
            whole.push(format!("${cost:.2}"));
        }
        whole.extend(self.eta());
        let trials = self.active.iter().map(|(name, trial)| trial.shown(name));
        let trials: Vec<String> = trials.collect();
        let mut line = whole.join(", ");
        if !trials.is_empty() {
            line = format!("{line} │ {}", trials.join(" │ "));
        }
        let elapsed = self.elapsed();
        self.status.doing(&line);
        self.status.show(elapsed);
    }

    /// Returns how long the rest takes, at the pace so far.
    fn eta(&self) -> Option<String> {
        let (here, left) = (self.done - self.before, self.total - self.done);
        if here == 0 || left == 0 {
            return None;
        }
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        let seconds = (elapsed / here).saturating_mul(left) / 1_000;
        Some(match seconds {
            0..60 => format!("{seconds} s left"),
            _ => format!("{} min left", seconds / 60),
        })
    }

    fn finished(&mut self, result: &TrialResult) {
        self.done += 1;
        if is_scored(result) {
            self.scored += 1;
            self.passed += u64::from(result.verdict == Verdict::Passed);
        }
        let word = match result.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Errored => "errored",
            Verdict::Skipped => "skipped",
        };
        let usage = &result.usage;
        let tokens = usage.total().map_or_else(String::new, |tokens| {
            format!(", {} tokens", thousands(tokens))
        });
        let cost = usage
            .cost_usd
            .map_or_else(String::new, |cost| format!(", ${cost:.4}"));
        let why = result
            .message
            .as_deref()
            .map_or_else(String::new, |why| format!(": {why}"));
        let time = precise(Duration::from_millis(result.agent_ms));
        self.print(&format!(
            "[{}/{}] {word}  {} ({time}{tokens}{cost}){why}",
            self.done,
            self.total,
            name(&result.key)
        ));
    }

    fn print(&mut self, line: &str) {
        self.status.hide();
        eprint_line(&output::one_line(line, MAX_LINE));
    }

    fn on(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { key, attempt } => {
                let active = Active {
                    phase: "starting",
                    started: environment::now(),
                    tokens: None,
                    cost: 0.0,
                };
                self.active.insert(name(key), active);
                if *attempt > 1 {
                    self.print(&format!("attempt {attempt}: {}", name(key)));
                }
            }
            RunEvent::Entered { key, phase } => {
                if let Some(active) = self.active.get_mut(&name(key)) {
                    active.phase = match phase {
                        Phase::Preparing => "preparing",
                        Phase::Working => "working",
                        Phase::Evaluating => "evaluating",
                    };
                }
            }
            RunEvent::Spent { key, usage } => {
                if let Some(active) = self.active.get_mut(&name(key)) {
                    active.cost = usage.cost_usd.unwrap_or(active.cost);
                    active.tokens = usage.total().or(active.tokens);
                }
            }
            RunEvent::Finished(result) => {
                self.close(&result.key);
                self.finished(result);
            }
            RunEvent::Retried(result, at) => {
                self.close(&result.key);
                let why = result
                    .message
                    .as_deref()
                    .unwrap_or("the infrastructure failed");
                let line = format!("will be retried at {at}: {} ({why})", name(&result.key));
                self.print(&line);
            }
            RunEvent::Cancelled(key) => {
                self.close(key);
                self.print(&format!("cancelled: {}", name(key)));
            }
            RunEvent::Lost(key) => {
                self.close(key);
                self.print(&format!("lost, and tried again: {}", name(key)));
            }
            RunEvent::Late(key) => {
                self.close(key);
                self.print(&format!("late, and not counted: {}", name(key)));
            }
            RunEvent::Waiting(why) => self.print(&format!("waiting: {why}")),
        }
    }

    fn close(&mut self, key: &TrialKey) {
        if let Some(active) = self.active.remove(&name(key)) {
            self.cost += active.cost;
        }
    }
}

impl Observer for Progress {
    fn on(&self, event: RunEvent) {
        let mut state = self.lock();
        state.on(&event);
        state.show();
    }
}
