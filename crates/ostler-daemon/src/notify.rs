//! Notifications: a command of the user that runs when a session needs attention.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::names::named;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of commands that run, or wait to run, at the same time. More are left out.
const MAX_WAITING: usize = 100;

/// Maximum number of commands that run at the same time.
const MAX_RUNNING: usize = 4;

named! {
    /// Reason of a notification.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Occasion {
        /// A permission request waits for an answer.
        NeedsApproval = "needs_approval",
        /// A turn ended.
        TurnEnded = "turn_ended",
        /// A session ended.
        SessionEnded = "session_ended",
    }
}

/// A command that is run for every notification, with a JSON object on its stdin.
#[derive(Debug, Clone)]
pub struct NotifyCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Runs the command.
#[derive(Debug)]
pub(crate) struct Notifier {
    command: Option<NotifyCommand>,
    waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Notifier {
    pub(crate) fn new(command: Option<NotifyCommand>) -> Self {
        Self {
            command,
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
        }
    }

    /// Returns true if there is a command.
    pub(crate) fn is_on(&self) -> bool {
        self.command.is_some()
    }

    /// Runs the command without waiting for it. `session` is the session as the API shows it.
    pub(crate) fn notify(&self, occasion: Occasion, session: &Value, event: &Value) {
        let Some(command) = self.command.clone() else {
            return;
        };
        let Ok(place) = self.waiting.clone().try_acquire_owned() else {
            return tracing::warn!(%occasion, "too many notifications: one is left out");
        };
        let input = json!({"occasion": occasion.as_str(), "session": session, "event": event});
        let running = self.running.clone();
        tokio::spawn(async move {
            let _place = place;
            let _slot = running.acquire_owned().await;
            let input = format!("{input}\n").into_bytes();
            let NotifyCommand { program, args } = command;
            let run = ostler::detached::run(&program, &args, input, TIMEOUT).await;
            if let Err(error) = run {
                tracing::warn!(program = %program.display(), %error, "notification failed");
            }
        });
    }
}
