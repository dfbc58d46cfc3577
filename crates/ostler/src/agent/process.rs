//! An agent that is a program.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::{Capabilities, Dialect, Setting};
use ostler_core::spec::{Spec, SpecError, keys};

use super::{Agent, check, session_id};
use crate::host::{Found, Host};
use crate::probe::{self, Probed};
use crate::process::Prepared;
use crate::session::{Beginning, Body, Session};

/// An agent that is a program: any dialect, over a child process.
pub struct ProcessAgent(&'static dyn Dialect);

impl ProcessAgent {
    /// An agent that speaks `dialect`.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect) -> Self {
        Self(dialect)
    }
}

impl Agent for ProcessAgent {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn models(&self) -> &[&'static str] {
        self.0.models()
    }

    fn settings(&self) -> Vec<Setting> {
        self.0.settings()
    }

    fn is_found(&self, host: &Host) -> bool {
        self.0.probe().is_some_and(|p| matches!(host.find(Path::new(p.program)), Found::At(_)))
    }

    fn probe<'a>(&'a self, host: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        Box::pin(async move {
            match self.0.probe() {
                Some(plan) => probe::probe(host, &plan).await,
                None => Probed::Ready { version: None, path: None, login: None },
            }
        })
    }

    fn probe_for<'a>(&'a self, host: &'a Host, spec: &'a Spec) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        let needs = self.0.launch(spec).map_or(&[][..], |launch| launch.needs);
        let missing = needs.iter().find_map(|helper| match host.find_helper(helper) {
            Found::At(_) => None,
            Found::Nowhere(searched) => Some((helper, searched)),
        });
        match missing {
            Some((helper, searched)) => {
                let hint = format!(
                    "{helper} comes with Ostler: build it (cargo build --release -p ostler-tools) and put it on PATH."
                );
                Box::pin(async move { Probed::Missing { hint, searched } })
            }
            None => self.probe(host),
        }
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check(&spec)?;
        if let Some(budget) = spec.settings.last(keys::MAX_BUDGET_USD).and_then(|b| b.parse().ok()) {
            spec.limits.budget_usd.get_or_insert(budget);
        }
        let launch = self.0.launch(&spec)?;
        let id = session_id();
        let prepared = Prepared::agent(host, &spec, &launch, &id);
        Ok(Session::begin(Beginning {
            conversation: self.0.converse(&spec),
            body: Body::Process(Box::new(prepared)),
            install_hint: self.0.probe().map(|p| p.install_hint),
            id,
            pid: Arc::default(),
            spec,
        }))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.0
    }
}
