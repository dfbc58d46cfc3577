//! What happened is kept first, and then told.

use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::{Level, Notice};
use ostler_core::log::{Log, LogError, Opening};
use ostler_core::machine::Input;

use super::Driver;
use crate::clock;
use crate::session::SessionSetup;
use crate::session::backlog::Batch;
use crate::session::engine::Engine;
use crate::session::status::Shared;

/// How long the log may take for the last events of a session.
const LAST_KEEPING: Duration = Duration::from_secs(10);

impl Driver {
    /// What happened is kept first, and then told.
    pub(super) fn publish(&mut self) {
        if self.keeping.is_some() || self.engine.out.is_empty() {
            return;
        }
        let (entries, bytes) = self.engine.out.take_entries();
        let batch = Arc::new(entries);
        match &self.log {
            Some(log) => self.keeping = Some((log.append(batch.clone()), batch, bytes)),
            None => self.tell(batch, bytes),
        }
    }

    pub(super) fn kept(&mut self, result: Result<(), LogError>) {
        let Some((_, batch, bytes)) = self.keeping.take() else {
            return;
        };
        if let Err(error) = result {
            self.log = None;
            self.caller.shared.backlog.forget_log();
            match self.engine.ended() {
                true => self.engine.add(not_kept(&error).into()),
                false => complain(&mut self.engine, &error),
            }
        }
        self.tell(batch, bytes);
    }

    pub(super) fn tell(&self, batch: Batch, bytes: usize) {
        self.caller.shared.note(&batch);
        self.caller.shared.backlog.publish(batch, bytes);
    }

    /// What is left to tell, and then the last event.
    pub(super) async fn tell_the_rest(&mut self) {
        self.flush().await;
        self.engine.farewell();
        self.flush().await;
    }

    async fn flush(&mut self) {
        loop {
            self.publish();
            let Some((appending, ..)) = &mut self.keeping else {
                break;
            };
            let late = || Err(LogError("the log does not answer".into()));
            let result = tokio::time::timeout(LAST_KEEPING, appending.as_mut())
                .await
                .unwrap_or_else(|_| late());
            self.kept(result);
        }
    }
}

pub(super) fn open_log(
    setup: &SessionSetup,
    engine: &mut Engine,
    shared: &Shared,
) -> Option<Arc<dyn Log>> {
    let log = setup.host.log()?.clone();
    let opening = Opening {
        session: setup.id.to_string(),
        agent: setup.dialect.name().to_owned(),
        dir: setup.dir.clone(),
        at: clock::wall(),
        continues: setup.continues.clone(),
        pid: std::process::id(),
    };
    match log.open(&opening) {
        Ok(()) => Some(log),
        Err(error) => {
            shared.backlog.forget_log();
            complain(engine, &error);
            None
        }
    }
}

/// A broken recorder does not break the run.
fn complain(engine: &mut Engine, error: &LogError) {
    engine.handle(Input::Remark(not_kept(error)));
}

fn not_kept(error: &LogError) -> Notice {
    Notice::new(
        Level::Warning,
        "store_failed",
        format!("The session is not kept: {error}"),
    )
}
