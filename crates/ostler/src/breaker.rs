//! The circuit breakers of a process: one for each agent, account and model, shared by all who start sessions.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::breaker::{self, Breaker, Config, Refused, Report};
use ostler_core::event::At;
use ostler_core::outcome::{Cause, Outcome};

use crate::clock::{self, SessionClock};

/// `detail.spawn` of a start that a breaker refused.
const BREAKER_OPEN: &str = "breaker_open";

/// Keeps a broken agent from being started again and again; see `docs/limits.md`. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Breakers(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    clock: SessionClock,
    config: Config,
    known: Mutex<HashMap<Key, Breaker>>,
}

/// What fails together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The agent's name.
    pub(crate) agent: String,
    /// Whose credentials are used; see [`account`].
    pub(crate) account: String,
    /// The model that was asked for.
    pub(crate) model: Option<String>,
}

/// A moment by both clocks: one that never jumps, and the one in which services say when a limit ends.
#[derive(Debug, Clone, Copy)]
struct Moment {
    since: Duration,
    wall: At,
}

/// A start that was let through. It is told how each turn ends; dropped before any did, it gives its place back.
#[derive(Debug)]
pub(crate) struct Pass(Option<(Arc<Shared>, Key, breaker::Pass)>);

impl Default for Breakers {
    fn default() -> Self {
        let (clock, config) = (SessionClock::start(), Config::default());
        Self(Some(Arc::new(Shared {
            clock,
            config,
            known: Mutex::default(),
        })))
    }
}

impl Breakers {
    /// None: every start is let through.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Asks whether a session may be started; if not, how it ends instead.
    pub(crate) fn admit(&self, key: &Key) -> Result<Pass, Outcome> {
        match &self.0 {
            None => Ok(Pass(None)),
            Some(shared) => shared.admit(key, shared.moment()),
        }
    }
}

impl Shared {
    fn moment(&self) -> Moment {
        Moment {
            since: self.clock.now(),
            wall: clock::wall(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Breaker>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>, key: &Key, now: Moment) -> Result<Pass, Outcome> {
        let mut known = self.known();
        let breaker = known
            .entry(key.clone())
            .or_insert_with(|| Breaker::new(self.config));
        match breaker.admit(now.since) {
            Ok(pass) => Ok(Pass(Some((self.clone(), key.clone(), pass)))),
            Err(refused) => Err(outcome(key, &refused, now.wall)),
        }
    }
}

impl Pass {
    /// A turn has ended, or the session could not begin.
    pub(crate) fn record(&self, outcome: &Outcome) {
        if let Some((shared, ..)) = &self.0 {
            self.record_at(outcome, shared.moment());
        }
    }

    fn record_at(&self, outcome: &Outcome, now: Moment) {
        let Some((shared, key, pass)) = &self.0 else {
            return;
        };
        let resets_at = outcome
            .detail
            .as_ref()
            .and_then(|detail| detail.resets_at.as_deref());
        let left = resets_at
            .and_then(moment)
            .and_then(|at| u64::try_from(at.0.saturating_sub(now.wall.0)).ok());
        let reset = left.map(|left| now.since.saturating_add(Duration::from_millis(left)));
        if let Some(breaker) = shared.known().get_mut(key) {
            breaker.record(
                now.since,
                *pass,
                Report {
                    cause: outcome.cause,
                    reset,
                },
            );
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((shared, key, pass)) = &self.0
            && let Some(breaker) = shared.known().get_mut(key)
        {
            breaker.give_back(*pass);
        }
    }
}

/// A moment as agents write it: RFC 3339, or seconds since the epoch.
fn moment(text: &str) -> Option<At> {
    let seconds = || {
        text.parse::<i64>()
            .ok()
            .and_then(|seconds| seconds.checked_mul(1000))
            .map(At)
    };
    text.parse().ok().or_else(seconds)
}

fn outcome(key: &Key, refused: &Refused, wall: At) -> Outcome {
    let model = key
        .model
        .as_ref()
        .map(|model| format!(" with model {model}"))
        .unwrap_or_default();
    let count = if refused.failures == 1 {
        "1 failure".into()
    } else {
        format!("{} failures", refused.failures)
    };
    let (agent, last, left) = (&key.agent, refused.because, in_words(refused.left));
    let until = match refused.is_probed {
        true => format!(
            "one start is being tried, and others are refused until it has ended, for at most {left}"
        ),
        false => format!("starts are refused for another {left}"),
    };
    let message =
        format!("{agent}{model} was not started: {count} in a row (last: {last}); {until}.");
    let hint = match last {
        Cause::Auth => "Log in, or set a valid key: another key is tried at once.",
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        _ => {
            "Wait, and look at how the last sessions ended (`ostler doctor` checks the agent); another model is tried at once."
        }
    };
    let left = i64::try_from(refused.left.as_millis()).unwrap_or(i64::MAX);
    Outcome::new(Cause::Unavailable, message)
        .hint(hint)
        .with(|detail| {
            detail.spawn = Some(BREAKER_OPEN.to_owned());
            detail.resets_at = Some(At(wall.0.saturating_add(left)).to_string());
        })
}

/// A time in the largest unit that does it justice, rounded up: who waits that long does not wait in vain.
fn in_words(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    match seconds {
        0..=120 => format!("{seconds} s"),
        121..=7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Parts of the names of variables that say whose account is used, and where.
const OF_AN_ACCOUNT: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "AUTH",
    "CREDENTIAL",
    "PROFILE",
    "BASE_URL",
    "CONFIG_DIR",
    "CODE_USE_",
];

/// Differs in each process, so that a fingerprint that gets into a log helps nobody to guess a key.
static SALT: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A fingerprint of the credentials in an agent's environment, which holds none of them: names, and a hash of the values. A
/// login that the agent keeps in a file counts by where that file is.
pub(crate) fn account(env: &BTreeMap<OsString, OsString>) -> String {
    let counts =
        |name: &str| name == "HOME" || OF_AN_ACCOUNT.iter().any(|part| name.contains(part));
    let chosen = env
        .iter()
        .filter_map(|(name, value)| Some((name.to_str().filter(|name| counts(name))?, value)));
    let (names, values): (Vec<&str>, Vec<&OsString>) =
        chosen.filter(|(_, value)| !value.is_empty()).unzip();
    let hash = SALT.hash_one((&names, &values)) & 0xffff_ffff;
    format!("{}#{hash:08x}", names.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(account: &str, model: Option<&str>) -> Key {
        Key {
            agent: "tester".into(),
            account: account.into(),
            model: model.map(Into::into),
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment {
            since: Duration::from_secs(seconds),
            wall: At(1_800_000_000_000 + i64::try_from(seconds).unwrap() * 1000),
        }
    }

    fn shared(breakers: &Breakers) -> Arc<Shared> {
        breakers.0.clone().unwrap()
    }

    // S3-33, S3-40, P65
    #[test]
    fn a_refused_start_is_an_outcome_that_says_why_and_for_how_long() {
        let shared = shared(&Breakers::default());
        let key = key("a", Some("big"));
        for _ in 0..3 {
            let pass = shared.admit(&key, at(0)).unwrap();
            pass.record_at(&Outcome::new(Cause::Overloaded, "busy"), at(0));
        }
        let refused = shared.admit(&key, at(3)).unwrap_err();
        assert_eq!(
            refused.message,
            "tester with model big was not started: 3 failures in a row (last: overloaded); starts are refused for another 27 s."
        );
        assert_eq!(
            (refused.cause, refused.hint.is_some()),
            (Cause::Unavailable, true)
        );
        let detail = refused.detail.unwrap();
        assert_eq!(detail.spawn.as_deref(), Some("breaker_open"));
        assert_eq!(detail.resets_at, Some(at(30).wall.to_string()));
        let probe = shared.admit(&key, at(30)).unwrap();
        let refused = shared.admit(&key, at(30)).unwrap_err();
        assert!(
            refused.message.contains("one start is being tried"),
            "{}",
            refused.message
        );
        drop(probe);
        shared
            .admit(&key, at(30))
            .unwrap()
            .record_at(&Outcome::completed(), at(31));
        let _both = [
            shared.admit(&key, at(31)).unwrap(),
            shared.admit(&key, at(31)).unwrap(),
        ];
    }

    #[test]
    fn each_way_to_write_a_reset_is_read() {
        let wall = at(500).wall;
        let cases = [
            (wall.to_string(), Some(500)),
            ((wall.0 / 1000).to_string(), Some(500)),
            (at(2).wall.to_string(), None), // past
            ("soon".to_owned(), None),
            (String::new(), None),
        ];
        for (text, opens_until) in cases {
            let shared = shared(&Breakers::default());
            let limited =
                Outcome::new(Cause::RateLimit, "limit").with(|d| d.resets_at = Some(text.clone()));
            shared
                .admit(&key("a", None), at(0))
                .unwrap()
                .record_at(&limited, at(9));
            let refused = shared.admit(&key("a", None), at(9)).err();
            let said = refused.and_then(|refused| refused.detail?.resets_at);
            assert_eq!(
                said,
                opens_until.map(|seconds| at(seconds).wall.to_string()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn clones_share_and_keys_do_not() {
        let breakers = Breakers::default();
        let bad = Outcome::new(Cause::Auth, "no");
        let clone = breakers.clone();
        clone.admit(&key("a", None)).unwrap().record(&bad);
        assert!(breakers.admit(&key("a", None)).is_err());
        for other in [key("b", None), key("a", Some("m"))] {
            assert!(breakers.admit(&other).is_ok(), "{other:?}");
        }
        let off = Breakers::off();
        off.admit(&key("a", None)).unwrap().record(&bad);
        assert!(off.admit(&key("a", None)).is_ok());
    }

    #[test]
    fn times_are_said_in_words_rounded_up() {
        let cases = [
            (0, "0 s"),
            (1, "1 s"),
            (26_001, "27 s"),
            (120_001, "3 min"),
            (7_200_000, "120 min"),
            (9_000_000, "3 h"),
        ];
        for (ms, words) in cases {
            assert_eq!(in_words(Duration::from_millis(ms)), words);
        }
    }

    // P31: what identifies an account gives none of it away.
    #[test]
    fn an_account_is_told_apart_without_its_secret() {
        let of = |vars: &[(&str, &str)]| {
            account(
                &vars
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect(),
            )
        };
        let one = of(&[("HOME", "/h"), ("X_API_KEY", "sk-secret"), ("LANG", "C")]);
        assert!(
            one.starts_with("HOME+X_API_KEY#") && !one.contains("sk-secret") && !one.contains("/h"),
            "{one}"
        );
        let same = of(&[
            ("HOME", "/h"),
            ("X_API_KEY", "sk-secret"),
            ("LANG", "de"),
            ("X_TOKEN", ""),
        ]);
        assert_eq!(
            one, same,
            "what is no credential, or is empty, is no other account"
        );
        let others: &[&[(&str, &str)]] = &[
            &[("HOME", "/h"), ("X_API_KEY", "sk-other")],
            &[("HOME", "/g"), ("X_API_KEY", "sk-secret")],
            &[
                ("HOME", "/h"),
                ("X_API_KEY", "sk-secret"),
                ("X_BASE_URL", "u"),
            ],
            &[("HOME", "/h")],
        ];
        for other in others {
            assert_ne!(one, of(other), "{other:?}");
        }
    }
}
