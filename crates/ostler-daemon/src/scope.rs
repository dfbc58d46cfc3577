//! Scopes: who may do what. Pure decisions; `peer` and `token` find out who a caller is.

use std::fmt;

use ostler_core::names::named;

use crate::api::CreateSession;

named! {
    /// A group of operations that a caller may be allowed to use.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Scope {
        /// Read sessions, events and approvals.
        Read = "read",
        /// Create sessions and send messages to them.
        Prompt = "prompt",
        /// Answer permission requests.
        Approve = "approve",
        /// Delete sessions.
        Admin = "admin",
    }
}

/// A caller of the daemon, as far as the system can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A process of the daemon's user that belongs to no session.
    User {
        /// Its process id, for the record of who decided.
        pid: Option<u32>,
    },
    /// A client with the token, over TCP.
    Token {
        /// Whether it also presented the approval code.
        approved: bool,
    },
    /// A process of a session, whatever it claims to be.
    Agent {
        /// Ostler's id of the session, if it could be determined.
        session: Option<String>,
    },
}

/// Decides whether a caller may use an operation.
#[must_use]
pub fn allows(caller: &Caller, scope: Scope) -> bool {
    match caller {
        Caller::User { .. } => true,
        Caller::Token { approved } => match scope {
            Scope::Read | Scope::Prompt => true,
            Scope::Approve | Scope::Admin => *approved,
        },
        // It may only read, and only its own session: see `may_see`.
        Caller::Agent { session } => scope == Scope::Read && session.is_some(),
    }
}

/// Returns the field of a new session that only a caller who may approve can set, because it could
/// widen what the agent may do without asking.
#[must_use]
pub fn needs_approval(caller: &Caller, request: &CreateSession) -> Option<&'static str> {
    if allows(caller, Scope::Approve) {
        return None;
    }
    let is_narrow = |preset: &String| matches!(preset.as_str(), "read-only" | "ask");
    if !request.permissions.as_ref().is_none_or(is_narrow) {
        return Some("permissions");
    }
    if !request.settings.is_empty() {
        return Some("settings");
    }
    request.resume.is_some().then_some("resume")
}

/// Decides whether a caller may see a session at all.
#[must_use]
pub fn may_see(caller: &Caller, id: &str) -> bool {
    match caller {
        Caller::User { .. } | Caller::Token { .. } => true,
        Caller::Agent { session } => session.as_deref() == Some(id),
    }
}

/// Describes the caller, for the record of who decided.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { pid: Some(pid) } => write!(f, "process {pid}"),
            Self::User { pid: None } => f.write_str("user"),
            Self::Token { .. } => f.write_str("token"),
            Self::Agent { session } => {
                write!(f, "agent of {}", session.as_deref().unwrap_or("a session"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_reads_its_own_session_and_nothing_else() {
        let agent = Caller::Agent {
            session: Some("a".into()),
        };
        let unknown = Caller::Agent { session: None };
        for scope in Scope::ALL {
            assert_eq!(allows(&agent, scope), scope == Scope::Read, "{scope}");
            assert!(!allows(&unknown, scope), "{scope}");
        }
        assert!(may_see(&agent, "a") && !may_see(&agent, "b") && !may_see(&unknown, "a"));
    }

    #[test]
    fn a_token_alone_never_widens_permissions() {
        let request = |set: fn(&mut CreateSession)| {
            let mut request = CreateSession::default();
            set(&mut request);
            request
        };
        let (token, code) = (
            Caller::Token { approved: false },
            Caller::Token { approved: true },
        );
        for (request, field) in [
            (request(|_| {}), None),
            (request(|it| it.attended = Some(false)), None),
            (request(|it| it.permissions = Some("ask".into())), None),
            (
                request(|it| it.permissions = Some("read-only".into())),
                None,
            ),
            (
                request(|it| it.permissions = Some("all".into())),
                Some("permissions"),
            ),
            (
                request(|it| it.permissions = Some("workspace".into())),
                Some("permissions"),
            ),
            (request(|it| it.resume = Some("x".into())), Some("resume")),
            (
                request(|it| drop(it.settings.insert("permission_mode".into(), "x".into()))),
                Some("settings"),
            ),
        ] {
            assert_eq!(needs_approval(&token, &request), field, "{request:?}");
            assert_eq!(needs_approval(&code, &request), None);
        }
    }

    #[test]
    fn a_token_alone_never_approves() {
        for scope in Scope::ALL {
            let weak = allows(&Caller::Token { approved: false }, scope);
            assert_eq!(weak, scope < Scope::Approve, "{scope}");
            assert!(allows(&Caller::Token { approved: true }, scope), "{scope}");
            assert!(allows(&Caller::User { pid: None }, scope), "{scope}");
        }
    }
}
