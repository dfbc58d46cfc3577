//! Browser sessions: one-time links, cookies, and what a browser may do. They exist in memory only.
//!
//! A browser proves who it is with two secrets. The cookie is sent by the browser itself, and the
//! page's scripts cannot read it. But cookies ignore ports: a server of an agent on another port
//! of the same address gets it too, if the user opens that. So whatever changes something also
//! needs the page's key, which the page stores for its own origin, port included.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::event::Timestamp;
use tokio::sync::watch;

use crate::token::Secret;

/// How long a link can be used, in milliseconds.
pub(crate) const LINK_MS: i64 = 2 * 60 * 1000;

/// How long a browser session lasts without a request, in milliseconds.
const IDLE_MS: i64 = 12 * 60 * 60 * 1000;

/// How long a browser session lasts at most, in milliseconds.
const LIFE_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Number of wrong approval codes after which a browser session is revoked.
const MAX_WRONG_CODES: u8 = 5;

/// Maximum number of links at a time. The oldest one is dropped.
const MAX_LINKS: usize = 32;

/// Maximum number of browser sessions. The one that was not used for the longest time is dropped.
const MAX_SESSIONS: usize = 64;

/// How often an open stream checks that its browser session has not expired.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Links and browser sessions of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Browsers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    links: Vec<Link>,
    sessions: Vec<BrowserSession>,
    last_id: u64,
}

/// A one-time link. It is remembered until it expires, so that a second use is noticed.
#[derive(Debug)]
struct Link {
    code: Secret,
    issued_at: Timestamp,
    /// The browser session that was created with it.
    used_by: Option<u64>,
}

#[derive(Debug)]
struct BrowserSession {
    id: u64,
    cookie: Secret,
    key: Secret,
    created_at: Timestamp,
    used_at: Timestamp,
    may_approve: bool,
    wrong_codes: u8,
    /// Dropped with the browser session, which ends its streams.
    alive: watch::Sender<()>,
}

/// Secrets of a new browser session.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) cookie: Secret,
    pub(crate) key: Secret,
}

/// A browser that presented a valid cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Browser {
    pub(crate) id: u64,
    /// Whether it also presented the page's key.
    pub(crate) has_key: bool,
    /// Whether the approval code was entered in it.
    pub(crate) may_approve: bool,
}

/// Why a link cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// It has expired, or never existed.
    Unknown,
    /// It was used before. The browser session of the first use is revoked: one of the two users
    /// was not the right one.
    Used,
}

/// Result of entering an approval code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeResult {
    Approved,
    /// Wrong, and how many attempts are left.
    Wrong(u8),
    /// Wrong too often: the browser session is revoked.
    Revoked,
}

impl BrowserSession {
    fn is_alive(&self, now: Timestamp) -> bool {
        now.0.saturating_sub(self.used_at.0) <= IDLE_MS
            && now.0.saturating_sub(self.created_at.0) <= LIFE_MS
    }
}

impl State {
    fn drop_expired(&mut self, now: Timestamp) {
        // A clock that was set back must not make a link last longer.
        self.links
            .retain(|link| (0..=LINK_MS).contains(&now.0.saturating_sub(link.issued_at.0)));
        self.sessions.retain(|session| session.is_alive(now));
    }

    fn revoke(&mut self, id: u64) {
        self.sessions.retain(|session| session.id != id);
    }
}

impl Browsers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a link, and returns its code.
    pub(crate) fn issue_link(&self, now: Timestamp) -> Secret {
        let mut state = self.state();
        state.drop_expired(now);
        if state.links.len() >= MAX_LINKS {
            state.links.remove(0);
        }
        let code = Secret::random();
        state.links.push(Link {
            code: code.clone(),
            issued_at: now,
            used_by: None,
        });
        code
    }

    /// Creates a browser session with the code of a link.
    pub(crate) fn redeem(&self, code: &[u8], now: Timestamp) -> Result<Credentials, LinkError> {
        let mut state = self.state();
        state.drop_expired(now);
        let id = state.last_id + 1;
        let mut links = state.links.iter_mut();
        let link = links
            .find(|link| link.code.matches(code))
            .ok_or(LinkError::Unknown)?;
        if let Some(first) = link.used_by {
            state.revoke(first);
            return Err(LinkError::Used);
        }
        link.used_by = Some(id);
        state.last_id = id;
        if state.sessions.len() >= MAX_SESSIONS {
            let oldest = state
                .sessions
                .iter()
                .min_by_key(|session| session.used_at.0);
            if let Some(oldest) = oldest.map(|session| session.id) {
                state.revoke(oldest);
            }
        }
        let credentials = Credentials {
            cookie: Secret::random(),
            key: Secret::random(),
        };
        state.sessions.push(BrowserSession {
            id,
            cookie: credentials.cookie.clone(),
            key: credentials.key.clone(),
            created_at: now,
            used_at: now,
            may_approve: false,
            wrong_codes: 0,
            alive: watch::channel(()).0,
        });
        Ok(credentials)
    }

    /// Returns the browser with this cookie, and counts this as its use. A wrong key is as good as
    /// none.
    pub(crate) fn identify(
        &self,
        cookie: &[u8],
        key: Option<&[u8]>,
        now: Timestamp,
    ) -> Option<Browser> {
        let mut state = self.state();
        state.drop_expired(now);
        let mut sessions = state.sessions.iter_mut();
        let session = sessions.find(|session| session.cookie.matches(cookie))?;
        session.used_at = session.used_at.max(now);
        Some(Browser {
            id: session.id,
            has_key: key.is_some_and(|key| session.key.matches(key)),
            may_approve: session.may_approve,
        })
    }

    /// Checks an approval code that was entered in a browser.
    pub(crate) fn enter_code(&self, id: u64, is_right: bool) -> CodeResult {
        let mut state = self.state();
        let Some(session) = state.sessions.iter_mut().find(|session| session.id == id) else {
            return CodeResult::Revoked;
        };
        if is_right {
            session.may_approve = true;
            session.wrong_codes = 0;
            return CodeResult::Approved;
        }
        session.wrong_codes += 1;
        match MAX_WRONG_CODES.saturating_sub(session.wrong_codes) {
            0 => {
                state.revoke(id);
                CodeResult::Revoked
            }
            left => CodeResult::Wrong(left),
        }
    }

    /// Ends a browser session.
    pub(crate) fn revoke(&self, id: u64) {
        self.state().revoke(id);
    }

    /// Resolves once a browser session was revoked or has expired.
    pub(crate) async fn ended(&self, id: u64, now: impl Fn() -> Timestamp) {
        loop {
            let mut alive = {
                let mut state = self.state();
                state.drop_expired(now());
                match state.sessions.iter().find(|session| session.id == id) {
                    Some(session) => session.alive.subscribe(),
                    None => return,
                }
            };
            // It only changes by being dropped.
            let _ = tokio::time::timeout(CHECK_INTERVAL, alive.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_000_000_000_000);

    fn after(ms: i64) -> Timestamp {
        Timestamp(START.0 + ms)
    }

    fn log_in(browsers: &Browsers) -> Credentials {
        let code = browsers.issue_link(START);
        browsers.redeem(code.reveal().as_bytes(), START).unwrap()
    }

    fn identify(browsers: &Browsers, with: &Credentials, now: Timestamp) -> Option<Browser> {
        let key = Some(with.key.reveal().as_bytes());
        browsers.identify(with.cookie.reveal().as_bytes(), key, now)
    }

    #[test]
    fn a_link_works_once_and_a_second_use_revokes_the_first() {
        let browsers = Browsers::default();
        let code = browsers.issue_link(START);
        let first = browsers.redeem(code.reveal().as_bytes(), START).unwrap();
        assert!(identify(&browsers, &first, START).is_some());
        let second = browsers.redeem(code.reveal().as_bytes(), after(1));
        assert_eq!(second.unwrap_err(), LinkError::Used);
        assert_eq!(identify(&browsers, &first, after(1)), None);
    }

    #[test]
    fn a_link_expires_whatever_the_clock_does() {
        for (ms, works) in [
            (0, true),
            (LINK_MS, true),
            (LINK_MS + 1, false),
            (-1, false),
            (i64::MAX - START.0, false),
        ] {
            let browsers = Browsers::default();
            let code = browsers.issue_link(START);
            let redeemed = browsers.redeem(code.reveal().as_bytes(), after(ms));
            assert_eq!(redeemed.is_ok(), works, "{ms}");
        }
        let unknown = Browsers::default().redeem(b"", START);
        assert_eq!(unknown.unwrap_err(), LinkError::Unknown);
    }

    #[test]
    fn a_browser_session_expires_when_idle_and_after_a_week() {
        let browsers = Browsers::default();
        let idle = log_in(&browsers);
        assert!(identify(&browsers, &idle, after(IDLE_MS)).is_some());
        assert!(identify(&browsers, &idle, after(2 * IDLE_MS)).is_some());
        assert!(identify(&browsers, &idle, after(3 * IDLE_MS + 1)).is_none());
        let used = log_in(&browsers);
        let mut now = 0;
        while now < LIFE_MS {
            assert!(identify(&browsers, &used, after(now)).is_some(), "{now}");
            now += IDLE_MS;
        }
        assert!(identify(&browsers, &used, after(LIFE_MS + 1)).is_none());
    }

    #[test]
    fn a_cookie_alone_is_not_the_key() {
        let browsers = Browsers::default();
        let (own, other) = (log_in(&browsers), log_in(&browsers));
        let cookie = own.cookie.reveal().as_bytes();
        for key in [None, Some(""), Some(other.key.reveal()), Some("x")] {
            let found = browsers.identify(cookie, key.map(str::as_bytes), START);
            assert!(!found.unwrap().has_key, "{key:?}");
        }
        assert!(identify(&browsers, &own, START).unwrap().has_key);
        let swapped = browsers.identify(own.key.reveal().as_bytes(), None, START);
        assert_eq!(swapped, None, "the key is not a cookie");
    }

    #[test]
    fn five_wrong_codes_revoke_the_browser_session() {
        let browsers = Browsers::default();
        let own = log_in(&browsers);
        let id = identify(&browsers, &own, START).unwrap().id;
        for left in [4, 3, 2, 1] {
            assert_eq!(browsers.enter_code(id, false), CodeResult::Wrong(left));
        }
        assert_eq!(browsers.enter_code(id, true), CodeResult::Approved);
        assert!(identify(&browsers, &own, START).unwrap().may_approve);
        for _ in 0..4 {
            browsers.enter_code(id, false);
        }
        assert_eq!(browsers.enter_code(id, false), CodeResult::Revoked);
        assert_eq!(browsers.enter_code(id, true), CodeResult::Revoked);
        assert_eq!(identify(&browsers, &own, START), None);
    }

    #[test]
    fn there_is_a_limit_on_links_and_sessions() {
        let browsers = Browsers::default();
        let first = browsers.issue_link(START);
        for _ in 0..MAX_LINKS {
            browsers.issue_link(START);
        }
        assert!(browsers.redeem(first.reveal().as_bytes(), START).is_err());
        let oldest = log_in(&browsers);
        let second = log_in(&browsers);
        identify(&browsers, &second, after(1));
        for _ in 1..MAX_SESSIONS {
            log_in(&browsers);
        }
        assert_eq!(identify(&browsers, &oldest, after(1)), None);
        assert!(identify(&browsers, &second, after(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_with_the_browser_session() {
        let browsers = Browsers::default();
        let own = log_in(&browsers);
        let id = identify(&browsers, &own, START).unwrap().id;
        let ended = browsers.ended(id, || START);
        tokio::pin!(ended);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, &mut ended).await.is_err());
        browsers.revoke(id);
        ended.await;
        let own = log_in(&browsers);
        let id = identify(&browsers, &own, START).unwrap().id;
        browsers.ended(id, || after(IDLE_MS + 1)).await;
    }
}
