//! A command as the check of a loop's result.

use std::path::PathBuf;
use std::time::Duration;

use crate::hooks::{NotVerified, Verify, VerifyFuture};
use crate::host::Host;
use crate::process::{self, PreparedCommand};

/// A check by the caller's command. Exit code 0 means that the work is done; otherwise its output
/// goes back to the model.
///
/// There is no shell. The command runs outside the sandbox with the caller's rights and
/// environment, because it is the caller's and not the model's. Variables that look like API keys
/// are removed, because the command may run code that the model wrote.
pub struct CommandCheck {
    host: Host,
    words: Vec<String>,
    dir: PathBuf,
    limit: Duration,
}

/// A program that is missing, or cannot be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MissingProgram(String);

impl CommandCheck {
    /// Creates a check from a program and its arguments, run in this directory.
    #[must_use]
    pub fn new(host: &Host, words: Vec<String>, dir: PathBuf) -> Self {
        Self {
            host: host.clone(),
            words,
            dir,
            limit: Duration::from_secs(30 * 60),
        }
    }

    /// Sets the maximum duration. The default is 30 minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Checks that the program exists, as far as that is possible before the loop starts. A program
    /// given by its path is not checked, because the loop may have to write it first.
    ///
    /// # Errors
    /// Returns which program is missing, and where it was searched for.
    pub fn check_program(&self) -> Result<(), MissingProgram> {
        match self.words.first() {
            Some(program) if program.contains('/') => Ok(()),
            _ => PreparedCommand::user_command(&self.host, &self.words, &self.dir)
                .map(|_| ())
                .map_err(|error| MissingProgram(error.to_string())),
        }
    }

    async fn check(&self) -> Result<(), NotVerified> {
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
            let seconds = self.limit.as_secs();
            return Err(format!("`{shown}` took longer than {seconds} seconds.\n{printed}").into());
        }
        match (ran.status.code, ran.status.signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => {
                Err(format!("`{shown}` failed with exit code {code}.\n{printed}").into())
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Err(format!("`{shown}` was ended by signal {signal}.\n{printed}").into())
            }
        }
    }
}

impl Verify for CommandCheck {
    fn verify<'a>(&'a self, _: &'a str) -> VerifyFuture<'a> {
        Box::pin(self.check())
    }
}
