//! The mock agent, which plays given events.

use std::sync::Arc;

use ostler_core::dialect::{Dialect, Launching};
use ostler_core::spec::{Spec, SpecError};
use ostler_dialects::mock::Mock;

use super::{Agent, ProbeFuture, check_without_process, directory, prepare, session_id};
use crate::breaker::SessionBreaker;
use crate::host::Host;
use crate::mock::{self, Events, EventsError};
use crate::probe::Probed;
use crate::session::{Session, SessionSetup};

/// Plays given events, for testing programs that are built on Ostler.
#[derive(Default)]
pub struct MockAgent(Option<Events>);

impl MockAgent {
    /// Creates an agent that plays the file in the setting `script`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an agent that plays `events` for every message.
    #[must_use]
    pub fn playing(events: Events) -> Self {
        Self(Some(events))
    }
}

impl Agent for MockAgent {
    /// It is always available, but only used when it is named.
    fn is_found(&self, _: &Host, _: &Spec) -> bool {
        false
    }

    fn probe<'a>(&'a self, _: &'a Host, _: &'a Spec) -> ProbeFuture<'a> {
        Box::pin(async {
            Probed::Ready {
                version: None,
                path: None,
                login: None,
            }
        })
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check_without_process(&spec, &Mock.about())?;
        prepare(host, &mut spec);
        Mock.launch(&Launching::new(&spec))?;
        let events = match (&self.0, spec.value("script")) {
            (Some(events), _) => events.clone(),
            (None, Some(path)) => read(&path)?,
            (None, None) => {
                return Err(SpecError::new(
                    "script",
                    "",
                    "expected a file with events (docs/agents/mock.md)",
                ));
            }
        };
        Ok(Session::start(SessionSetup {
            dialect: &Mock,
            launch: Box::new(move |_, _| Ok(mock::start(events.clone()).into())),
            install_hint: None,
            id: session_id(&spec),
            dir: directory(&spec),
            continues: spec.follows.clone(),
            breaker: SessionBreaker::off(),
            host: host.clone(),
            past: Arc::default(),
            submissions: Arc::default(),
            spec,
        }))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        &Mock
    }
}

fn read(path: &str) -> Result<Events, SpecError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| SpecError::new("script", path, error.to_string()))?;
    text.parse()
        .map_err(|error: EventsError| SpecError::new("script", path, error.to_string()))
}
