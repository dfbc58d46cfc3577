//! A command as the check of a loop's result: it is done when the command succeeds.

use std::path::PathBuf;
use std::time::Duration;

use crate::hooks::{Verify, VerifyFuture};
use crate::host::Host;
use crate::process::{self, PreparedCommand};

/// Checks by a command of the caller's: exit code 0 says that the work is done, and what it prints goes back to the model.
/// No shell reads it, and it runs outside of the sandbox, with the caller's rights and environment: it is the caller's, not
/// the model's. Variables that look like keys of a model's service are left out, since the command may run what the model wrote.
pub struct CommandCheck {
    host: Host,
    words: Vec<String>,
    dir: PathBuf,
    limit: Duration,
}

impl CommandCheck {
    /// A command of these words, in this directory.
    #[must_use]
    pub fn new(host: &Host, words: Vec<String>, dir: PathBuf) -> Self {
        Self {
            host: host.clone(),
            words,
            dir,
            limit: Duration::from_secs(30 * 60),
        }
    }

    /// The longest that it may take; else 30 minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Whether the command can be started, as far as that can be known before the loop has begun: a program that the loop is
    /// to write need not be there yet.
    ///
    /// # Errors
    /// Says which program is missing, and where it was looked for.
    pub fn check_program(&self) -> Result<(), String> {
        match self.words.first() {
            Some(program) if program.contains('/') => Ok(()),
            _ => PreparedCommand::user_command(&self.host, &self.words, &self.dir)
                .map(|_| ())
                .map_err(|error| error.to_string()),
        }
    }

    async fn check(&self) -> Result<(), String> {
        let shown = self.words.join(" ");
        let prepared = PreparedCommand::user_command(&self.host, &self.words, &self.dir);
        let prepared =
            prepared.map_err(|error| format!("`{shown}` could not be started: {error}"))?;
        let ran = process::run_once(prepared, self.limit).await;
        let ran = ran.map_err(|error| format!("`{shown}` could not be started: {error}"))?;
        let printed: Vec<&str> = [&ran.stdout, &ran.stderr]
            .into_iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
            .collect();
        let printed = match &printed[..] {
            [] => "It printed nothing.".to_owned(),
            some => format!("It printed:\n\n{}", some.join("\n\n")),
        };
        if ran.timed_out {
            return Err(format!(
                "`{shown}` took longer than {} seconds.\n{printed}",
                self.limit.as_secs()
            ));
        }
        match (ran.status.code, ran.status.signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => Err(format!(
                "`{shown}` failed with exit code {code}.\n{printed}"
            )),
            (None, signal) => Err(format!(
                "`{shown}` was ended by signal {}.\n{printed}",
                signal.unwrap_or_default()
            )),
        }
    }
}

impl Verify for CommandCheck {
    fn verify<'a>(&'a self, _: &'a str) -> VerifyFuture<'a> {
        Box::pin(self.check())
    }
}
