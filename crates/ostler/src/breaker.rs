//! Circuit breakers: one per agent, account and model, shared by all sessions of a process and, if
//! they are stored, by all processes.

mod files;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::breaker::{self, Breaker, Config, Rejection, Snapshot, TurnReport};
use ostler_core::event::Timestamp;
use ostler_core::outcome::{Cause, Outcome, SpawnFailure};
use ostler_core::spec::Spec;
use sha2::{Digest, Sha256};

use self::files::{BreakerFiles, StoredBreaker};
use crate::clock::{self, SessionClock};

/// Prevents a broken agent from being started over and over; see `docs/limits.md`. Clones share
/// state.
#[derive(Debug, Clone)]
pub struct Breakers(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    clock: SessionClock,
    config: Config,
    breakers: Mutex<HashMap<Key, Entry>>,
    /// Where they are stored.
    files: Option<BreakerFiles>,
}

/// A breaker, and what its file contained when it was last read or written.
#[derive(Debug)]
struct Entry {
    breaker: Breaker,
    stored: Option<StoredBreaker>,
}

/// What shares a breaker, because it fails together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Name of the agent.
    agent: String,
    /// Fingerprint of the credentials; see [`account`].
    account: String,
    /// The requested model.
    model: Option<String>,
}

/// A point in time on two clocks: a monotonic one, and the wall clock that services use for resets.
#[derive(Debug, Clone, Copy)]
struct Moment {
    monotonic: Duration,
    wall: Timestamp,
}

/// The breaker of an agent, account and model, for a caller that wants to know whether a start
/// would be refused now. See [`crate::Agent::breaker`].
#[derive(Debug, Clone)]
pub struct BreakerState {
    breakers: Breakers,
    key: Key,
}

impl BreakerState {
    pub(crate) fn new(
        breakers: Breakers,
        agent: &str,
        account: String,
        model: Option<String>,
    ) -> Self {
        Self {
            breakers,
            key: Key {
                agent: agent.to_owned(),
                account,
                model,
            },
        }
    }

    /// Returns the outcome with which a session would end instead of being started, and how long
    /// that will be so; `None` if it would be started. Changes nothing.
    #[must_use]
    pub fn rejection(&self) -> Option<(Outcome, Duration)> {
        let shared = self.breakers.0.as_ref()?;
        shared.rejection(&self.key, shared.now())
    }
}

/// Permission to start a session. It records how each turn ends. If dropped before any did, the
/// start does not count.
#[derive(Debug)]
struct Permit(Option<(Arc<Shared>, Key, breaker::Permit)>);

impl Default for Breakers {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Breakers {
    fn new(files: Option<BreakerFiles>) -> Self {
        Self(Some(Arc::new(Shared {
            clock: SessionClock::start(),
            config: Config::default(),
            breakers: Mutex::default(),
            files,
        })))
    }

    /// Creates breakers that all processes share through files in this directory, so that a shell
    /// loop cannot start a broken agent over and over. It is created at the first failure.
    #[must_use]
    pub fn stored_in(dir: PathBuf) -> Self {
        Self::new(Some(BreakerFiles::new(dir)))
    }

    /// Returns a fingerprint of the account in an agent's environment; see [`account`].
    pub(crate) fn account(&self, env: &BTreeMap<OsString, OsString>) -> String {
        let files = self.0.as_ref().and_then(|shared| shared.files.as_ref());
        account(env, files.map_or(*SALT, |files| files.salt(*SALT)))
    }

    /// Creates breakers that are disabled: every start is admitted.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Admits the start of a session, or returns the outcome with which it ends instead.
    fn admit(&self, key: &Key) -> Result<Permit, Outcome> {
        match &self.0 {
            None => Ok(Permit(None)),
            Some(shared) => shared.admit(key, shared.now()),
        }
    }
}

impl Shared {
    fn now(&self) -> Moment {
        Moment {
            monotonic: self.clock.now(),
            wall: clock::wall(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rejection(&self, key: &Key, now: Moment) -> Option<(Outcome, Duration)> {
        let mut breakers = self.lock();
        let entry = self.entry(&mut breakers, key, now);
        let rejection = entry.breaker.rejection(now.monotonic)?;
        Some((outcome(key, &rejection, now.wall), rejection.retry_after))
    }

    /// Returns the breaker, with what other processes have stored.
    fn entry<'a>(
        &self,
        breakers: &'a mut HashMap<Key, Entry>,
        key: &Key,
        now: Moment,
    ) -> &'a mut Entry {
        let entry = breakers.entry(key.clone()).or_insert_with(|| Entry {
            breaker: Breaker::new(self.config),
            stored: None,
        });
        self.refresh(key, entry, now);
        entry
    }

    fn admit(self: &Arc<Self>, key: &Key, now: Moment) -> Result<Permit, Outcome> {
        let mut breakers = self.lock();
        let entry = self.entry(&mut breakers, key, now);
        match entry.breaker.admit(now.monotonic) {
            Ok(pass) => Ok(Permit(Some((self.clone(), key.clone(), pass)))),
            Err(refused) => Err(outcome(key, &refused, now.wall)),
        }
    }
}

impl Shared {
    /// Takes over what another process has stored since this one last looked.
    fn refresh(&self, key: &Key, entry: &mut Entry, now: Moment) {
        let Some(files) = &self.files else { return };
        let stored = files.read(&key.path(files));
        if stored == entry.stored {
            return;
        }
        let snapshot = stored.as_ref().map(|stored| Snapshot {
            failures: stored.failures,
            cause: stored.cause,
            open_until: stored.open_until().map(|at| now.to_monotonic(at)),
        });
        entry.breaker = match snapshot {
            Some(snapshot) => Breaker::restore(self.config, snapshot),
            None => Breaker::new(self.config),
        };
        entry.stored = stored;
    }

    /// Stores a breaker that has changed.
    fn store(&self, key: &Key, entry: &mut Entry, now: Moment) {
        let Some(files) = &self.files else { return };
        let stored = entry.breaker.snapshot().map(|snapshot| StoredBreaker {
            agent: key.agent.clone(),
            failures: snapshot.failures,
            cause: snapshot.cause,
            open_until: snapshot.open_until.map(|until| now.to_wall(until).0),
        });
        if stored != entry.stored {
            files.write(&key.path(files), stored.as_ref());
            entry.stored = stored;
        }
    }
}

impl Key {
    fn path(&self, files: &BreakerFiles) -> PathBuf {
        let model = self.model.as_deref();
        let known = if model.is_some() { "model" } else { "" };
        files.path(&[&self.agent, &self.account, known, model.unwrap_or_default()])
    }
}

impl Moment {
    /// Converts a time of the wall clock.
    fn to_monotonic(self, at: Timestamp) -> Duration {
        let left = u64::try_from(at.0.saturating_sub(self.wall.0)).unwrap_or(0);
        self.monotonic.saturating_add(Duration::from_millis(left))
    }

    /// Converts a time of the monotonic clock.
    fn to_wall(self, at: Duration) -> Timestamp {
        let left = at.saturating_sub(self.monotonic).as_millis();
        Timestamp(
            self.wall
                .0
                .saturating_add(i64::try_from(left).unwrap_or(i64::MAX)),
        )
    }
}

impl Permit {
    /// Records the outcome of a turn, or of a start that failed.
    fn record(&self, outcome: &Outcome) {
        if let Some((shared, ..)) = &self.0 {
            self.record_at(outcome, shared.now());
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
            .and_then(parse_reset)
            .and_then(|at| u64::try_from(at.0.saturating_sub(now.wall.0)).ok());
        let reset = left.map(|left| now.monotonic.saturating_add(Duration::from_millis(left)));
        if let Some(entry) = shared.lock().get_mut(key) {
            let report = TurnReport {
                cause: outcome.cause,
                reset,
            };
            entry.breaker.record(now.monotonic, *pass, report);
            // A program that could not be started costs little to try again, and the user may have
            // installed it meanwhile.
            let detail = outcome.detail.as_ref();
            if detail.is_none_or(|detail| detail.spawn.is_none()) {
                shared.store(key, entry, now);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((shared, key, pass)) = &self.0
            && let Some(entry) = shared.lock().get_mut(key)
        {
            entry.breaker.release(*pass);
        }
    }
}

/// The circuit breaker as one session uses it. Agent and account are fixed; the model can change.
pub(crate) struct SessionBreaker {
    breakers: Breakers,
    agent: &'static str,
    account: String,
    permit: Option<Permit>,
}

impl SessionBreaker {
    /// Creates the breaker of a session of this agent with this [`account`].
    pub(crate) fn new(breakers: Breakers, agent: &'static str, account: String) -> Self {
        Self {
            breakers,
            agent,
            account,
            permit: None,
        }
    }

    /// Creates a disabled breaker, for an agent that depends on no service.
    pub(crate) fn off() -> Self {
        Self::new(Breakers::off(), "", String::new())
    }

    /// Admits a start of the agent, or returns the outcome with which it ends instead.
    pub(crate) fn admit(&mut self, spec: &Spec) -> Result<(), Outcome> {
        let key = Key {
            agent: self.agent.to_owned(),
            account: self.account.clone(),
            model: spec.model.clone(),
        };
        self.permit = None; // release the previous start first
        self.permit = Some(self.breakers.admit(&key)?);
        Ok(())
    }

    /// Records the outcome of a turn, or of a start that failed.
    pub(crate) fn record(&self, outcome: &Outcome) {
        if let Some(permit) = &self.permit {
            permit.record(outcome);
        }
    }
}

/// Parses a reset time as agents write it: RFC 3339, or seconds since the epoch.
fn parse_reset(text: &str) -> Option<Timestamp> {
    let seconds = || {
        text.parse::<i64>()
            .ok()
            .and_then(|seconds| seconds.checked_mul(1000))
            .map(Timestamp)
    };
    text.parse().ok().or_else(seconds)
}

fn outcome(key: &Key, refused: &Rejection, wall: Timestamp) -> Outcome {
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
    let (agent, last, left) = (&key.agent, refused.cause, display(refused.retry_after));
    let until = match refused.is_probing {
        true => format!(
            "a trial start is in progress, and others are refused until it ends, for at most {left}"
        ),
        false => format!("starts are refused for another {left}"),
    };
    let message =
        format!("{agent}{model} was not started: {count} in a row (last: {last}); {until}.");
    let hint = match last {
        Cause::Auth => "Log in or set a valid key; a different key is tried immediately.",
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        _ => {
            "Wait, and check why the last sessions failed (`ostler doctor` checks the agent). \
             A different model is tried immediately."
        }
    };
    let left = i64::try_from(refused.retry_after.as_millis()).unwrap_or(i64::MAX);
    Outcome::new(Cause::Unavailable, message)
        .hint(hint)
        .with(|detail| {
            detail.spawn = Some(SpawnFailure::BreakerOpen);
            detail.resets_at = Some(Timestamp(wall.0.saturating_add(left)).to_string());
        })
}

/// Formats a duration in a suitable unit, rounded up so that waiting that long is enough.
fn display(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    match seconds {
        0..=120 => format!("{seconds} s"),
        121..=7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Substrings of the names of variables that determine the account.
const ACCOUNT_VARIABLES: &[&str] = &[
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

/// A random salt per process, so that a logged fingerprint cannot be used to guess a key.
static SALT: LazyLock<[u8; 16]> = LazyLock::new(|| uuid::Uuid::new_v4().into_bytes());

/// Returns a fingerprint of the credentials in an agent's environment: variable names and a salted
/// hash of their values. A login stored in a file counts by the location of that file.
fn account(env: &BTreeMap<OsString, OsString>, salt: [u8; 16]) -> String {
    let counts =
        |name: &str| name == "HOME" || ACCOUNT_VARIABLES.iter().any(|part| name.contains(part));
    let chosen = env
        .iter()
        .filter_map(|(name, value)| Some((name.to_str().filter(|name| counts(name))?, value)));
    let (names, values): (Vec<&str>, Vec<&OsString>) =
        chosen.filter(|(_, value)| !value.is_empty()).unzip();
    let mut hash = Sha256::new_with_prefix(salt);
    for part in names
        .iter()
        .map(|name| name.as_bytes())
        .chain(values.iter().map(|value| value.as_encoded_bytes()))
    {
        hash.update(part);
        hash.update([0]);
    }
    let hash = hash.finalize();
    let hash: String = hash
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}#{hash}", names.join("+"))
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
            monotonic: Duration::from_secs(seconds),
            wall: Timestamp(1_800_000_000_000 + i64::try_from(seconds).unwrap() * 1000),
        }
    }

    fn shared(breakers: &Breakers) -> Arc<Shared> {
        breakers.0.clone().unwrap()
    }

    // S3-33, S3-40, P65
    #[test]
    fn refused_start_reports_reason_and_time_left() {
        let shared = shared(&Breakers::default());
        let key = key("a", Some("big"));
        for _ in 0..3 {
            let permit = shared.admit(&key, at(0)).unwrap();
            permit.record_at(&Outcome::new(Cause::Overloaded, "busy"), at(0));
        }
        let refused = shared.admit(&key, at(3)).unwrap_err();
        assert_eq!(
            refused.message,
            "tester with model big was not started: 3 failures in a row (last: overloaded); \
             starts are refused for another 27 s."
        );
        assert_eq!(
            (refused.cause, refused.hint.is_some()),
            (Cause::Unavailable, true)
        );
        let detail = refused.detail.unwrap();
        assert_eq!(detail.spawn, Some(SpawnFailure::BreakerOpen));
        assert_eq!(detail.resets_at, Some(at(30).wall.to_string()));
        let probe = shared.admit(&key, at(30)).unwrap();
        let refused = shared.admit(&key, at(30)).unwrap_err();
        assert!(
            refused.message.contains("a trial start is in progress"),
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
    fn all_reset_formats_are_parsed() {
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
            let resets_at = refused.and_then(|refused| refused.detail?.resets_at);
            assert_eq!(
                resets_at,
                opens_until.map(|seconds| at(seconds).wall.to_string()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn clones_share_state_and_keys_do_not() {
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
    fn durations_are_rounded_up() {
        let cases = [
            (0, "0 s"),
            (1, "1 s"),
            (26_001, "27 s"),
            (120_001, "3 min"),
            (7_200_000, "120 min"),
            (9_000_000, "3 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(display(Duration::from_millis(ms)), text);
        }
    }

    // P31: the fingerprint of an account reveals none of its secrets.
    #[test]
    fn account_fingerprint_contains_no_secret() {
        let of = |vars: &[(&str, &str)]| {
            let env = vars.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            account(&env.collect(), *SALT)
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
            "empty variables and non-credentials do not count"
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

    // P65: a shell loop of runs trips the breaker as the sessions of one process do.
    #[test]
    fn stored_breakers_are_shared_by_processes() {
        let dir = tempfile::tempdir().unwrap();
        let process = || shared(&Breakers::stored_in(dir.path().join("breakers")));
        let (key, other) = (key("a", None), key("a", Some("m")));
        let bad = Outcome::new(Cause::Overloaded, "busy");
        process()
            .admit(&key, at(0))
            .unwrap()
            .record_at(&Outcome::completed(), at(0));
        let missing = Outcome::new(Cause::Unavailable, "not installed")
            .with(|detail| detail.spawn = Some(SpawnFailure::Missing));
        process()
            .admit(&key, at(0))
            .unwrap()
            .record_at(&missing, at(0));
        assert!(!dir.path().join("breakers").exists(), "nothing to store");
        for second in 0..3 {
            let permit = process().admit(&key, at(second)).unwrap();
            permit.record_at(&bad, at(second));
        }
        let long_running = process();
        let refused = long_running.admit(&key, at(3)).unwrap_err();
        assert!(
            refused.message.contains("3 failures in a row"),
            "{}",
            refused.message
        );
        assert_eq!(
            refused.detail.unwrap().resets_at,
            Some(at(32).wall.to_string())
        );
        assert!(process().admit(&other, at(3)).is_ok(), "another model");
        // A probe of another process succeeds, and every process knows.
        let probe = process().admit(&key, at(40)).unwrap();
        probe.record_at(&Outcome::completed(), at(41));
        assert!(long_running.admit(&key, at(42)).is_ok());
        assert_eq!(
            std::fs::read_dir(dir.path().join("breakers"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn a_damaged_file_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let breakers = Breakers::stored_in(dir.path().to_owned());
        let key = key("a", None);
        let path = key.path(&BreakerFiles::new(dir.path().to_owned()));
        for text in ["", "{", "{}", &"x".repeat(10_000)] {
            std::fs::write(&path, text).unwrap();
            assert!(shared(&breakers).admit(&key, at(0)).is_ok(), "{text:.10}");
        }
    }

    #[test]
    fn accounts_have_the_same_fingerprint_in_every_process() {
        let dir = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("HOME".into(), "/h".into())]);
        let of = || Breakers::stored_in(dir.path().to_owned()).account(&env);
        assert_eq!(of(), of());
        let salt = std::fs::read(dir.path().join("salt")).unwrap();
        assert_eq!(salt.len(), 16);
    }
}
