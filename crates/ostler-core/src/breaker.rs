//! Circuit breaker: stops repeated starts of a broken agent or service, and probes it after a
//! cooldown.
//!
//! A closed breaker admits every start. After several consecutive failures it opens and rejects
//! starts until the cooldown ends, or until the time that the service reported. Then it admits
//! exactly one start as a probe, and the probe's result decides whether it closes.
//!
//! The caller owns the clock: every time is a [`Duration`] since an origin of the caller's choice.

use std::time::Duration;

use crate::outcome::Cause;

/// Thresholds and timeouts of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Number of consecutive failures that open the breaker.
    pub failures: u32,
    /// How long it stays open if the service did not report a time.
    pub cooldown: Duration,
    /// How long a probe blocks other starts. A probe that takes longer is either busy with real
    /// work or lost.
    pub probe_timeout: Duration,
    /// Maximum time it stays open, even if the service reported a later time: a limit may be lifted
    /// early, or have been misread.
    pub max_open: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            failures: 3,
            cooldown: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(120),
            max_open: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// How the end of a turn counts towards opening or closing the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The agent and its service work: closes the breaker.
    Success,
    /// The agent or its service may be broken: [`Config::failures`] in a row open the breaker.
    Failure,
    /// The next start would fail the same way: opens the breaker at once.
    Immediate,
    /// Opens the breaker at once if the reset time is known; otherwise counts as a failure.
    Limit,
    /// Has no effect: the task failed, or the caller ended it.
    Neutral,
}

impl Weight {
    /// Returns the weight of a cause. `docs/limits.md` has the same table.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        match cause {
            Cause::Completed => Self::Success,
            Cause::Auth => Self::Immediate,
            Cause::RateLimit => Self::Limit,
            Cause::Overloaded
            | Cause::ServerError
            | Cause::Network
            | Cause::StartupLimit
            | Cause::AgentDied
            | Cause::Protocol
            | Cause::Unavailable => Self::Failure,
            Cause::Budget
            | Cause::TurnLimit
            | Cause::WallLimit
            | Cause::IdleLimit
            | Cause::OutputLimit
            | Cause::Denied
            | Cause::NeedsInput
            | Cause::Refused
            | Cause::Interrupted
            | Cause::BadRequest
            | Cause::Stopped => Self::Neutral,
        }
    }
}

/// Permit for an admitted start. Pass it to [`Breaker::record`] with the result, or to
/// [`Breaker::release`] if there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    number: u64,
    /// Whether this start is the probe.
    pub is_probe: bool,
}

/// Rejection of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// Time until the next start is admitted, as far as it is known now.
    pub retry_after: Duration,
    /// Cause of the last failure.
    pub cause: Cause,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Whether a probe is in progress; its result may end the rejection sooner.
    pub is_probing: bool,
}

/// Result of a turn, as reported to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnReport {
    /// Why the turn ended.
    pub cause: Cause,
    /// When the service said it would accept requests again.
    pub reset: Option<Duration>,
}

/// Failures of a breaker, for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of consecutive failures.
    pub failures: u32,
    /// Cause of the last one.
    pub cause: Cause,
    /// Until when starts are rejected.
    pub open_until: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Duration },
    HalfOpen { probe: u64, until: Duration },
}

/// Circuit breaker for one agent, account and model.
#[derive(Debug, Clone)]
pub struct Breaker {
    config: Config,
    state: State,
    failures: u32,
    last: Cause,
    permits: u64,
}

impl Breaker {
    /// Creates a closed breaker.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Closed,
            failures: 0,
            last: Cause::Completed,
            permits: 0,
        }
    }

    /// Creates a breaker with the failures of another one.
    #[must_use]
    pub fn restore(config: Config, snapshot: Snapshot) -> Self {
        Self {
            state: match snapshot.open_until {
                Some(until) => State::Open { until },
                None => State::Closed,
            },
            failures: snapshot.failures,
            last: snapshot.cause,
            ..Self::new(config)
        }
    }

    /// Returns the failures so far, or `None` if there are none. A probe that is in progress counts
    /// as a breaker that is open until the probe times out.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        (self.failures > 0).then_some(Snapshot {
            failures: self.failures,
            cause: self.last,
            open_until: match self.state {
                State::Closed => None,
                State::Open { until } | State::HalfOpen { until, .. } => Some(until),
            },
        })
    }

    /// Admits or rejects a start.
    ///
    /// # Errors
    /// Returns the reason for the rejection and the time until the next admission.
    pub fn admit(&mut self, now: Duration) -> Result<Permit, Rejection> {
        if let Some(rejection) = self.rejection(now) {
            return Err(rejection);
        }
        let is_probe = self.state != State::Closed;
        self.permits += 1;
        let permit = Permit {
            number: self.permits,
            is_probe,
        };
        if is_probe {
            self.state = State::HalfOpen {
                probe: permit.number,
                until: now.saturating_add(self.config.probe_timeout),
            };
        }
        Ok(permit)
    }

    /// Returns why a start would be rejected now, or `None` if it would be admitted.
    #[must_use]
    pub fn rejection(&self, now: Duration) -> Option<Rejection> {
        match self.state {
            State::Open { until } | State::HalfOpen { until, .. } if now < until => {
                Some(Rejection {
                    retry_after: until.saturating_sub(now),
                    cause: self.last,
                    failures: self.failures,
                    is_probing: matches!(self.state, State::HalfOpen { .. }),
                })
            }
            State::Closed | State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Records how a turn of an admitted start ended.
    ///
    /// A success always counts. A failure counts if the breaker is closed or if the probe failed.
    /// Otherwise it is a late report from an earlier start, and does not extend the open period.
    pub fn record(&mut self, now: Duration, permit: Permit, report: TurnReport) {
        let weight = Weight::of(report.cause);
        match weight {
            Weight::Success => {
                self.state = State::Closed;
                self.failures = 0;
            }
            Weight::Neutral => self.release(permit),
            Weight::Failure | Weight::Immediate | Weight::Limit => {
                self.failures = self.failures.saturating_add(1);
                self.last = report.cause;
                let reset = report.reset.filter(|reset| *reset > now);
                let at_once =
                    weight == Weight::Immediate || (weight == Weight::Limit && reset.is_some());
                let opens = match self.state {
                    State::Closed => at_once || self.failures >= self.config.failures,
                    State::HalfOpen { probe, .. } => probe == permit.number,
                    State::Open { .. } => false,
                };
                if opens {
                    let until = reset.unwrap_or(now.saturating_add(self.config.cooldown));
                    self.state = State::Open {
                        until: until.min(now.saturating_add(self.config.max_open)),
                    };
                }
            }
        }
    }

    /// Releases a permit without a result. If it was the probe, the next start becomes the probe.
    pub fn release(&mut self, permit: Permit) {
        if matches!(self.state, State::HalfOpen { probe, .. } if probe == permit.number) {
            self.state = State::Open {
                until: Duration::ZERO,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A step of a history, and what the next call of `admit` must then return.
    #[derive(Debug, Clone, Copy)]
    enum Do {
        /// The first admitted start ends with this cause.
        Early(Cause),
        /// The same, with the second at which the service accepts requests again.
        Reset(Cause, u64),
        /// The most recently admitted start ends with this cause.
        Newest(Cause),
        Admit,
        Probe,
        Refuse(u64),
    }

    use Cause::{
        Auth, Completed, Interrupted, Network, Overloaded, RateLimit, Refused as No, Stopped,
    };
    use Do::{Admit, Early, Newest, Probe, Refuse, Reset};

    /// Histories, with times in seconds. One that starts later than 0 is preceded by three
    /// failures, which open the breaker at 2.
    const HISTORIES: &[(&str, &[(u64, Do)])] = &[
        (
            "two failures do not open",
            &[(0, Early(Network)), (1, Early(Network)), (1, Admit)],
        ),
        (
            "three failures open for the cooldown, then one probe is admitted",
            &[
                (2, Refuse(30)),
                (31, Refuse(1)),
                (32, Probe),
                (33, Refuse(119)),
            ],
        ),
        (
            "a successful probe closes",
            &[
                (32, Probe),
                (33, Newest(Completed)),
                (33, Admit),
                (33, Admit),
            ],
        ),
        (
            "a failed probe reopens for the same time",
            &[
                (32, Probe),
                (40, Newest(Network)),
                (40, Refuse(30)),
                (70, Probe),
            ],
        ),
        (
            "a cancelled probe is replaced",
            &[
                (32, Probe),
                (33, Newest(Interrupted)),
                (33, Probe),
                (34, Refuse(119)),
            ],
        ),
        (
            "a probe whose task failed is replaced",
            &[(32, Probe), (33, Newest(No)), (33, Probe)],
        ),
        (
            "a probe times out",
            &[(32, Probe), (151, Refuse(1)), (152, Probe)],
        ),
        (
            "a late failure does not extend the open period",
            &[
                (20, Early(Network)),
                (20, Refuse(12)),
                (32, Probe),
                (33, Early(Auth)),
                (33, Refuse(119)),
            ],
        ),
        (
            "a late success closes",
            &[(20, Early(Completed)), (20, Admit)],
        ),
        (
            "an authentication error opens at once",
            &[
                (0, Early(Completed)),
                (1, Early(Auth)),
                (1, Refuse(30)),
                (31, Probe),
            ],
        ),
        (
            "a limit with a reset time opens at once",
            &[
                (0, Early(Completed)),
                (1, Reset(RateLimit, 500)),
                (1, Refuse(499)),
                (500, Probe),
            ],
        ),
        (
            "a limit without a reset time is a failure",
            &[(0, Early(Completed)), (1, Early(RateLimit)), (1, Admit)],
        ),
        (
            "a reset time in the past is ignored",
            &[(0, Early(Completed)), (9, Reset(RateLimit, 9)), (9, Admit)],
        ),
        (
            "an overload opens after three, until its reset time",
            &[
                (0, Early(Completed)),
                (1, Reset(Overloaded, 9)),
                (1, Admit),
                (1, Reset(Overloaded, 9)),
                (1, Reset(Overloaded, 9)),
                (1, Refuse(8)),
            ],
        ),
        (
            "a reset time is capped at one day",
            &[
                (0, Early(Completed)),
                (1, Reset(RateLimit, 9_000_000)),
                (1, Refuse(86_400)),
                (86_401, Probe),
            ],
        ),
        (
            "a success resets the count",
            &[
                (0, Early(Completed)),
                (0, Early(Network)),
                (0, Early(Network)),
                (0, Early(Completed)),
                (0, Early(Network)),
                (0, Admit),
            ],
        ),
        (
            "neutral causes do not change the count",
            &[
                (0, Early(Completed)),
                (0, Early(Network)),
                (0, Early(Stopped)),
                (0, Early(Network)),
                (0, Early(No)),
                (0, Early(Network)),
                (0, Refuse(30)),
            ],
        ),
    ];

    // S3-33, S3-40, P65
    #[test]
    fn each_history_admits_or_rejects() {
        let opened = [
            (0, Early(Network)),
            (1, Early(Network)),
            (2, Early(Overloaded)),
        ];
        for (name, steps) in HISTORIES {
            let mut breaker = Breaker::new(Config::default());
            let early = breaker.admit(s(0)).unwrap();
            let mut newest = early;
            let before: &[(u64, Do)] = if steps[0].0 == 0 { &[] } else { &opened };
            for (at, step) in before.iter().chain(*steps) {
                let mut record = |permit, cause, reset| {
                    breaker.record(s(*at), permit, TurnReport { cause, reset });
                };
                match *step {
                    Early(cause) => record(early, cause, None),
                    Newest(cause) => record(newest, cause, None),
                    Reset(cause, reset) => record(early, cause, Some(s(reset))),
                    Refuse(left) => {
                        let rejection = breaker.admit(s(*at)).expect_err(name);
                        assert_eq!(rejection.retry_after, s(left), "{name}: at {at}");
                    }
                    Admit | Probe => {
                        newest = breaker
                            .admit(s(*at))
                            .unwrap_or_else(|e| panic!("{name}: at {at}: {e:?}"));
                        assert_eq!(newest.is_probe, matches!(step, Probe), "{name}: at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_rejection_has_cause_and_time() {
        let mut breaker = Breaker::new(Config::default());
        let permit = breaker.admit(s(0)).unwrap();
        for cause in [Cause::Network, Cause::ServerError, Cause::Overloaded] {
            breaker.record(s(5), permit, TurnReport { cause, reset: None });
        }
        let rejection = Rejection {
            retry_after: s(27),
            cause: Cause::Overloaded,
            failures: 3,
            is_probing: false,
        };
        assert_eq!(breaker.admit(s(8)), Err(rejection));
        let _ = breaker.admit(s(35)).unwrap();
        assert!(breaker.admit(s(35)).unwrap_err().is_probing);
    }

    // The table in the docs must match the code for every cause.
    #[test]
    fn docs_list_the_weight_of_every_cause() {
        let page = include_str!("../../../docs/limits.md");
        let (_, table) = page
            .split_once("| cause | what it does |\n|---|---|\n")
            .unwrap();
        let rows: Vec<&str> = table
            .lines()
            .take_while(|line| line.starts_with('|'))
            .collect();
        for cause in Cause::ALL {
            let row = rows
                .iter()
                .find(|row| row.contains(&format!("`{cause}`")))
                .unwrap_or_else(|| panic!("{cause}"));
            let said = match Weight::of(cause) {
                Weight::Success => "closes",
                Weight::Failure => "counts",
                Weight::Immediate => "opens at once",
                Weight::Limit => "opens at once until the limit resets",
                Weight::Neutral => "has no effect",
            };
            assert!(
                row.split('|').nth(2).unwrap().trim().starts_with(said),
                "{cause}: {row}"
            );
        }
    }

    fn any_report() -> impl Strategy<Value = TurnReport> {
        let reset = prop_oneof![Just(None), (0u64..9_000_000).prop_map(|at| Some(s(at)))];
        (proptest::sample::select(&Cause::ALL[..]), reset)
            .prop_map(|(cause, reset)| TurnReport { cause, reset })
    }

    proptest! {
        // P65: at any time there is at most one probe, rejections are finite, and a success closes.
        #[test]
        fn at_most_one_probe_and_no_permanent_rejection(
            steps in proptest::collection::vec((0u64..100, 0usize..4, any_report(), 0u8..4), 0..80),
        ) {
            let config = Config::default();
            let mut breaker = Breaker::new(config);
            let (mut now, mut open, mut probe) = (s(0), Vec::new(), None);
            for (seconds, which, report, kind) in steps {
                now += s(seconds);
                if kind < 2 {
                    let Ok(permit) = breaker.admit(now) else { continue };
                    if permit.is_probe {
                        let has_timed_out = |(_, since)| now >= since + config.probe_timeout;
                        prop_assert!(probe.is_none_or(has_timed_out), "two probes");
                        probe = Some((permit, now));
                    } else {
                        probe = None; // closed: nothing to probe
                    }
                    open.push(permit);
                } else if !open.is_empty() {
                    let permit = open.swap_remove(which % open.len());
                    let success = report.cause == Cause::Completed && kind == 2;
                    if kind == 2 {
                        breaker.record(now, permit, report);
                    } else {
                        breaker.release(permit);
                    }
                    if success {
                        let mut is_closed =
                            |_| breaker.admit(now).is_ok_and(|permit| !permit.is_probe);
                        prop_assert!((0..3).all(&mut is_closed));
                    }
                    if success || probe.is_some_and(|(it, _)| it == permit) {
                        probe = None;
                    }
                }
            }
            let later = breaker.admit(now + config.max_open);
            prop_assert!(later.is_ok(), "rejected forever: {:?}", breaker);
        }
    }
}
