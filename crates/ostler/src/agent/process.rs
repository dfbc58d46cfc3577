//! An agent that is a program.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::{Capabilities, Dialect, Setting};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Spec, SpecError};

use super::{Agent, check, directory, prepare, session_id};
use crate::host::{Found, Host};
use crate::probe::{self, Probed};
use crate::process::Prepared;
use crate::session::{Beginning, Body, Fuse, Session};

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
        prepare(host, &mut spec);
        let inherits = self.0.launch(&spec)?.inherits;
        let id = session_id();
        let install_hint = self.0.probe().map(|p| p.install_hint);
        let launch = launcher(self.0, host.clone(), id.clone(), install_hint);
        Ok(Session::begin(Beginning {
            dialect: self.0,
            launch: Box::new(launch),
            install_hint,
            id,
            dir: directory(&spec),
            breaker: Fuse::new(host, self.0.name(), &inherits),
            host: host.clone(),
            submissions: Arc::default(),
            spec,
        }))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.0
    }
}

/// Prepares the agent's process, each time it is started.
fn launcher(
    dialect: &'static dyn Dialect,
    host: Host,
    id: Arc<str>,
    install_hint: Option<&'static str>,
) -> impl FnMut(&Spec) -> Result<Body, Outcome> + Send {
    move |spec| {
        let wrong = |error: SpecError| Outcome::new(Cause::BadRequest, error.to_string());
        let launch = dialect.launch(spec).map_err(wrong)?;
        let prepared = Prepared::agent(&host, spec, &launch, &id).map_err(|error| error.outcome(install_hint))?;
        Ok(Body::Process(Box::new(prepared)))
    }
}
