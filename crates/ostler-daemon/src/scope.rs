//! Scopes: who may do what. Pure decisions; `peer` and `token` find out who a caller is.

use std::fmt;

use ostler_core::names::named;

use crate::api::CreateSession;

named! {
    /// A group of operations that a caller may be allowed to use.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Scope {
        /// Report to one's own session. An agent with this scope also starts child sessions, and
        /// reads and stops those.
        Agent = "agent",
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
    /// A browser that was logged in with a one-time link.
    Browser {
        /// Whether it also presented the page's key, which other servers of this machine never
        /// get.
        has_key: bool,
        /// Whether the approval code was entered in it.
        approved: bool,
    },
    /// Anyone on this machine, without credentials.
    Anonymous,
    /// A process of a session, whatever it claims to be.
    Agent {
        /// Ostler's id of the session, if it could be determined.
        session: Option<String>,
        /// Id of the session whose mark it carries, if it could not. Anyone can carry a mark.
        claims: Option<String>,
    },
}

impl Caller {
    /// Returns true for an agent whose session could not be determined.
    pub(crate) fn is_unknown_agent(&self) -> bool {
        matches!(self, Self::Agent { session: None, .. })
    }
}

/// What a request does, as far as that matters for who may send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads sessions, events and approvals.
    Read,
    /// Creates a session.
    Create,
    /// Stops a session.
    Stop,
    /// Adds a notice to a session.
    Report,
    /// Controls a session in another way.
    Control,
    /// Answers a permission request.
    Approve,
    /// Deletes a session.
    Delete,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Create,
        Self::Stop,
        Self::Report,
        Self::Control,
        Self::Approve,
        Self::Delete,
    ];

    /// Returns the scope that a caller needs.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::Read => Scope::Read,
            Self::Create | Self::Stop | Self::Control => Scope::Prompt,
            Self::Report => Scope::Agent,
            Self::Approve => Scope::Approve,
            Self::Delete => Scope::Admin,
        }
    }
}

/// The session that a request names, from the view of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Its own session.
    Own,
    /// A session that it started.
    Child,
    /// Another session.
    Other,
    /// No session.
    None,
}

/// Decides whether an agent may do something.
#[must_use]
pub fn agent_may(operation: Operation, target: Target) -> bool {
    match operation {
        Operation::Read => matches!(target, Target::Own | Target::Child),
        Operation::Create => target == Target::None,
        Operation::Stop => target == Target::Child,
        Operation::Report => target == Target::Own,
        Operation::Control | Operation::Approve | Operation::Delete => false,
    }
}

/// Decides whether a caller may use an operation.
#[must_use]
pub fn allows(caller: &Caller, scope: Scope) -> bool {
    match caller {
        Caller::User { .. } => true,
        Caller::Token { approved } => match scope {
            Scope::Agent | Scope::Read | Scope::Prompt => true,
            Scope::Approve | Scope::Admin => *approved,
        },
        Caller::Browser { has_key, approved } => match scope {
            Scope::Read => true,
            Scope::Agent | Scope::Prompt => *has_key,
            Scope::Approve | Scope::Admin => *has_key && *approved,
        },
        Caller::Anonymous => false,
        // More depends on the session that it names: see `agent_may`.
        Caller::Agent { session, .. } => scope == Scope::Agent && session.is_some(),
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
    // Only the strictest one is never wider than the default.
    if request
        .sandbox
        .as_ref()
        .is_some_and(|mode| mode != "read-only")
    {
        return Some("sandbox");
    }
    if !request.settings.is_empty() {
        return Some("settings");
    }
    request.resume.is_some().then_some("resume")
}

/// Describes the caller, for the record of who decided.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { pid: Some(pid) } => write!(f, "process {pid}"),
            Self::User { pid: None } => f.write_str("user"),
            Self::Token { .. } => f.write_str("token"),
            Self::Browser { .. } => f.write_str("browser"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Agent { session, .. } => {
                write!(f, "agent of {}", session.as_deref().unwrap_or("a session"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_uses_its_own_session_and_its_children_only() {
        let agent = Caller::Agent {
            session: Some("a".into()),
            claims: None,
        };
        let unknown = Caller::Agent {
            session: None,
            claims: Some("a".into()),
        };
        for scope in Scope::ALL {
            assert_eq!(allows(&agent, scope), scope == Scope::Agent, "{scope}");
            assert!(!allows(&unknown, scope), "{scope}");
        }
        let allowed = [
            (Operation::Read, Target::Own),
            (Operation::Read, Target::Child),
            (Operation::Create, Target::None),
            (Operation::Stop, Target::Child),
            (Operation::Report, Target::Own),
        ];
        let targets = [Target::Own, Target::Child, Target::Other, Target::None];
        for operation in Operation::ALL {
            for target in targets {
                let expected = allowed.contains(&(operation, target));
                assert_eq!(
                    agent_may(operation, target),
                    expected,
                    "{operation:?} {target:?}"
                );
            }
        }
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
            (request(|it| it.sandbox = Some("read-only".into())), None),
            (
                request(|it| it.sandbox = Some("off".into())),
                Some("sandbox"),
            ),
            (
                request(|it| it.sandbox = Some("workspace-write".into())),
                Some("sandbox"),
            ),
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
    fn a_browser_needs_the_key_to_write_and_the_code_to_approve() {
        let browser = |has_key, approved| Caller::Browser { has_key, approved };
        for scope in Scope::ALL {
            let cookie = allows(&browser(false, false), scope);
            assert_eq!(cookie, scope == Scope::Read, "{scope}");
            // Another server that got the cookie of a browser that may approve.
            assert_eq!(allows(&browser(false, true), scope), cookie, "{scope}");
            let key = allows(&browser(true, false), scope);
            assert_eq!(key, scope < Scope::Approve, "{scope}");
            assert!(allows(&browser(true, true), scope), "{scope}");
            assert!(!allows(&Caller::Anonymous, scope), "{scope}");
        }
        assert_eq!(browser(true, true).to_string(), "browser");
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
