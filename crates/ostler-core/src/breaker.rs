//! The circuit breaker: a broken agent or service is not started again and again, but tried once in a while.
//!
//! Closed, every start is let through. After some failures in a row it is open: starts are refused until a cooldown is over,
//! or until the moment that the service named. Then exactly one start is let through as a probe, and how it ends decides.
//! Time is the caller's: every moment is a [`Duration`] since some start of theirs.

use std::time::Duration;

use crate::outcome::Cause;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// So many failures in a row open it.
    pub failures: u32,
    /// How long it stays open when nobody said for how long.
    pub cooldown: Duration,
    /// How long a probe keeps others out. One that takes longer works on something, or its holder is lost.
    pub patience: Duration,
    /// The longest that it stays open, whatever moment was named: a limit may be lifted early, or have been misread.
    pub longest: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            failures: 3,
            cooldown: Duration::from_secs(30),
            patience: Duration::from_secs(120),
            longest: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What the end of a turn says about the agent and its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// They work: it closes.
    Success,
    /// They may not: so many in a row open it.
    Failure,
    /// The next start would end the same way: it opens at once.
    AtOnce,
    /// The same when it is known until when; else a failure like others.
    Limit,
    /// Nothing: the task failed, or the caller ended it.
    Neutral,
}

impl Weight {
    /// The weight of a cause. `docs/limits.md` has the same table.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        match cause {
            Cause::Completed => Self::Success,
            Cause::Auth => Self::AtOnce,
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

/// A start that was let through. How it ended is told with it; if nobody will ever know, it is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    number: u64,
    /// Whether it is the one start that decides for the others.
    pub is_probe: bool,
}

/// A start that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// How long starts are refused, as far as is known now.
    pub left: Duration,
    /// The last failure.
    pub because: Cause,
    /// How many there were in a row.
    pub failures: u32,
    /// Whether a probe is under way: what it comes to may end the refusal sooner.
    pub is_probed: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Why it ended.
    pub cause: Cause,
    /// The moment from which on the service said it would answer again.
    pub reset: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Duration },
    HalfOpen { probe: u64, until: Duration },
}

/// One breaker: for one agent, one account, one model.
#[derive(Debug, Clone)]
pub struct Breaker {
    config: Config,
    state: State,
    failures: u32,
    last: Cause,
    passes: u64,
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Closed,
            failures: 0,
            last: Cause::Completed,
            passes: 0,
        }
    }

    /// Asks whether a start is let through.
    ///
    /// # Errors
    /// When it is not; the refusal says for how long and why.
    pub fn admit(&mut self, now: Duration) -> Result<Pass, Refused> {
        let is_probe = match self.state {
            State::Closed => false,
            State::Open { until } | State::HalfOpen { until, .. } if now < until => {
                let is_probed = matches!(self.state, State::HalfOpen { .. });
                let (because, failures) = (self.last, self.failures);
                return Err(Refused {
                    left: until.saturating_sub(now),
                    because,
                    failures,
                    is_probed,
                });
            }
            State::Open { .. } | State::HalfOpen { .. } => true,
        };
        self.passes += 1;
        let pass = Pass {
            number: self.passes,
            is_probe,
        };
        if is_probe {
            self.state = State::HalfOpen {
                probe: pass.number,
                until: now.saturating_add(self.config.patience),
            };
        }
        Ok(pass)
    }

    /// A turn of a start that was let through has ended.
    ///
    /// A success counts from whomever it comes. A failure counts when the breaker is closed, or when it is the probe's; else it
    /// is late news of a start from before, and lengthens nothing.
    pub fn record(&mut self, now: Duration, pass: Pass, report: Report) {
        let weight = Weight::of(report.cause);
        match weight {
            Weight::Success => {
                self.state = State::Closed;
                self.failures = 0;
            }
            Weight::Neutral => self.give_back(pass),
            Weight::Failure | Weight::AtOnce | Weight::Limit => {
                self.failures = self.failures.saturating_add(1);
                self.last = report.cause;
                let reset = report.reset.filter(|reset| *reset > now);
                let at_once =
                    weight == Weight::AtOnce || (weight == Weight::Limit && reset.is_some());
                let opens = match self.state {
                    State::Closed => at_once || self.failures >= self.config.failures,
                    State::HalfOpen { probe, .. } => probe == pass.number,
                    State::Open { .. } => false,
                };
                if opens {
                    let until = reset.unwrap_or(now.saturating_add(self.config.cooldown));
                    self.state = State::Open {
                        until: until.min(now.saturating_add(self.config.longest)),
                    };
                }
            }
        }
    }

    /// The start came to nothing that says anything. If it was the probe, the next start is.
    pub fn give_back(&mut self, pass: Pass) {
        if matches!(self.state, State::HalfOpen { probe, .. } if probe == pass.number) {
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

    /// What happens at a second, and whether the next start is then let through, refused for so many seconds, or a probe.
    #[derive(Debug, Clone, Copy)]
    enum Do {
        /// A start that was let through before anything else ends.
        Early(Cause),
        /// The same, with the second at which the service answers again.
        Reset(Cause, u64),
        /// The newest start that was let through ends.
        Newest(Cause),
        Pass,
        Probe,
        Refuse(u64),
    }

    use Cause::{
        Auth, Completed, Interrupted, Network, Overloaded, RateLimit, Refused as No, Stopped,
    };
    use Do::{Early, Newest, Pass, Probe, Refuse, Reset};

    /// Histories, in seconds. One that begins later than at 0 begins with three failures, which open it at 2.
    const HISTORIES: &[(&str, &[(u64, Do)])] = &[
        (
            "two failures are not enough",
            &[(0, Early(Network)), (1, Early(Network)), (1, Pass)],
        ),
        (
            "three are, for the cooldown, and then one probe",
            &[
                (2, Refuse(30)),
                (31, Refuse(1)),
                (32, Probe),
                (33, Refuse(119)),
            ],
        ),
        (
            "a good probe closes",
            &[(32, Probe), (33, Newest(Completed)), (33, Pass), (33, Pass)],
        ),
        (
            "a bad probe opens again, as long",
            &[
                (32, Probe),
                (40, Newest(Network)),
                (40, Refuse(30)),
                (70, Probe),
            ],
        ),
        (
            "a cancelled probe gives its place back",
            &[
                (32, Probe),
                (33, Newest(Interrupted)),
                (33, Probe),
                (34, Refuse(119)),
            ],
        ),
        (
            "a probe whose task failed too",
            &[(32, Probe), (33, Newest(No)), (33, Probe)],
        ),
        (
            "a probe is not waited for for ever",
            &[(32, Probe), (151, Refuse(1)), (152, Probe)],
        ),
        (
            "late news of a failure lengthens nothing",
            &[
                (20, Early(Network)),
                (20, Refuse(12)),
                (32, Probe),
                (33, Early(Auth)),
                (33, Refuse(119)),
            ],
        ),
        (
            "late news of a success closes",
            &[(20, Early(Completed)), (20, Pass)],
        ),
        (
            "authentication opens at once",
            &[
                (0, Early(Completed)),
                (1, Early(Auth)),
                (1, Refuse(30)),
                (31, Probe),
            ],
        ),
        (
            "a limit until a moment opens at once",
            &[
                (0, Early(Completed)),
                (1, Reset(RateLimit, 500)),
                (1, Refuse(499)),
                (500, Probe),
            ],
        ),
        (
            "a limit without one is a failure",
            &[(0, Early(Completed)), (1, Early(RateLimit)), (1, Pass)],
        ),
        (
            "a moment that is past is none",
            &[(0, Early(Completed)), (9, Reset(RateLimit, 9)), (9, Pass)],
        ),
        (
            "an overload opens after three, until the moment",
            &[
                (0, Early(Completed)),
                (1, Reset(Overloaded, 9)),
                (1, Pass),
                (1, Reset(Overloaded, 9)),
                (1, Reset(Overloaded, 9)),
                (1, Refuse(8)),
            ],
        ),
        (
            "no moment is further than a day",
            &[
                (0, Early(Completed)),
                (1, Reset(RateLimit, 9_000_000)),
                (1, Refuse(86_400)),
                (86_401, Probe),
            ],
        ),
        (
            "a success begins the count anew",
            &[
                (0, Early(Completed)),
                (0, Early(Network)),
                (0, Early(Network)),
                (0, Early(Completed)),
                (0, Early(Network)),
                (0, Pass),
            ],
        ),
        (
            "what says nothing changes no count",
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
    fn each_history_lets_through_or_refuses() {
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
                let mut record =
                    |pass, cause, reset| breaker.record(s(*at), pass, Report { cause, reset });
                match *step {
                    Early(cause) => record(early, cause, None),
                    Newest(cause) => record(newest, cause, None),
                    Reset(cause, reset) => record(early, cause, Some(s(reset))),
                    Refuse(left) => {
                        let refused = breaker.admit(s(*at)).expect_err(name);
                        assert_eq!(refused.left, s(left), "{name}: at {at}");
                    }
                    Pass | Probe => {
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
    fn a_refusal_says_why() {
        let mut breaker = Breaker::new(Config::default());
        let pass = breaker.admit(s(0)).unwrap();
        for cause in [Cause::Network, Cause::ServerError, Cause::Overloaded] {
            breaker.record(s(5), pass, Report { cause, reset: None });
        }
        let refused = Refused {
            left: s(27),
            because: Cause::Overloaded,
            failures: 3,
            is_probed: false,
        };
        assert_eq!(breaker.admit(s(8)), Err(refused));
        let _ = breaker.admit(s(35)).unwrap();
        assert!(breaker.admit(s(35)).unwrap_err().is_probed);
    }

    // The page for users and the code must say the same of every cause.
    #[test]
    fn the_documentation_has_the_weight_of_every_cause() {
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
                Weight::AtOnce => "opens at once",
                Weight::Limit => "opens at once until the limit resets",
                Weight::Neutral => "has no effect",
            };
            assert!(
                row.split('|').nth(2).unwrap().trim().starts_with(said),
                "{cause}: {row}"
            );
        }
    }

    fn any_report() -> impl Strategy<Value = Report> {
        let reset = prop_oneof![Just(None), (0u64..9_000_000).prop_map(|at| Some(s(at)))];
        (proptest::sample::select(&Cause::ALL[..]), reset)
            .prop_map(|(cause, reset)| Report { cause, reset })
    }

    proptest! {
        // P65: whatever happens, one probe at a time, never a refusal for ever, and a success closes.
        #[test]
        fn one_probe_at_a_time_and_no_end_without_a_start(
            steps in proptest::collection::vec((0u64..100, 0usize..4, any_report(), 0u8..4), 0..80),
        ) {
            let config = Config::default();
            let mut breaker = Breaker::new(config);
            let (mut now, mut open, mut probe) = (s(0), Vec::new(), None);
            for (seconds, which, report, kind) in steps {
                now += s(seconds);
                if kind < 2 {
                    let Ok(pass) = breaker.admit(now) else { continue };
                    if pass.is_probe {
                        prop_assert!(probe.is_none_or(|(_, since)| now >= since + config.patience), "two probes");
                        probe = Some((pass, now));
                    } else {
                        probe = None; // it is closed: there is nothing to find out
                    }
                    open.push(pass);
                } else if !open.is_empty() {
                    let pass = open.swap_remove(which % open.len());
                    let success = report.cause == Cause::Completed && kind == 2;
                    if kind == 2 { breaker.record(now, pass, report) } else { breaker.give_back(pass) }
                    if success {
                        prop_assert!((0..3).all(|_| breaker.admit(now).is_ok_and(|pass| !pass.is_probe)));
                    }
                    if success || probe.is_some_and(|(it, _)| it == pass) {
                        probe = None;
                    }
                }
            }
            prop_assert!(breaker.admit(now + config.longest).is_ok(), "refused for ever: {:?}", breaker);
        }
    }
}
