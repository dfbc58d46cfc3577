//! The circuit breaker as one session sees it.

use ostler_core::dialect::Inherits;
use ostler_core::outcome::Outcome;
use ostler_core::spec::{Spec, keys};

use crate::breaker::{Breakers, Key, Pass};
use crate::host::Host;

/// The circuit breaker of this session's agent and account; the model can change.
pub(crate) struct Fuse {
    breakers: Breakers,
    agent: &'static str,
    account: String,
    pass: Option<Pass>,
}

impl Fuse {
    /// For an agent that uses what these variables hold.
    pub(crate) fn new(host: &Host, agent: &'static str, inherits: &Inherits) -> Self {
        Self {
            breakers: host.breakers().clone(),
            agent,
            account: host.account(inherits),
            pass: None,
        }
    }

    /// For an agent that has no service behind it.
    pub(crate) fn off() -> Self {
        Self {
            breakers: Breakers::off(),
            agent: "",
            account: String::new(),
            pass: None,
        }
    }

    /// Whether the agent may be started now.
    pub(super) fn admit(&mut self, spec: &Spec) -> Result<(), Outcome> {
        let model = spec.settings.last(keys::MODEL).map(str::to_owned);
        let key = Key {
            agent: self.agent.to_owned(),
            account: self.account.clone(),
            model,
        };
        self.pass = None; // what the last start came to is not this one's
        self.pass = Some(self.breakers.admit(&key)?);
        Ok(())
    }

    /// A turn came to its end, or a start to nothing.
    pub(super) fn record(&self, outcome: &Outcome) {
        if let Some(pass) = &self.pass {
            pass.record(outcome);
        }
    }
}
