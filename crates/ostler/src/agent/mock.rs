//! The mock agent, which plays given events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::{Capabilities, Dialect, Setting};
use ostler_core::spec::{Spec, SpecError};
use ostler_dialects::mock::Mock;

use super::{Agent, check_without_process, directory, prepare, session_id};
use crate::breaker::SessionBreaker;
use crate::host::Host;
use crate::mock::{self, Events};
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
    fn name(&self) -> &str {
        Mock.name()
    }

    fn capabilities(&self) -> Capabilities {
        Mock.capabilities()
    }

    fn models(&self) -> &[&'static str] {
        Mock.models()
    }

    fn settings(&self) -> Vec<Setting> {
        Mock.settings()
    }

    fn plays(&self) -> bool {
        true
    }

    /// It is always available, but only used when it is named.
    fn is_found(&self, _: &Host) -> bool {
        false
    }

    fn probe<'a>(&'a self, _: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        Box::pin(async {
            Probed::Ready {
                version: None,
                path: None,
                login: None,
            }
        })
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check_without_process(&spec)?;
        prepare(host, &mut spec);
        Mock.launch(&spec)?;
        let events = match (&self.0, spec.settings.last("script")) {
            (Some(events), _) => events.clone(),
            (None, Some(path)) => read(path)?,
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
            id: session_id(),
            dir: directory(&spec),
            continues: spec.follows.clone(),
            breaker: SessionBreaker::off(),
            host: host.clone(),
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
    Events::parse(&text).map_err(|error| SpecError::new("script", path, error))
}
