//! Steps of the test command, and their reports.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::lanes::Lane;
use crate::agents::Installation;

/// A step. The table is in `steps.rs`.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it is part of `--quick`.
    pub(super) quick: bool,
    /// A step that must succeed before this one.
    pub(super) needs: Option<&'static str>,
    /// When it runs.
    pub(super) lane: Lane,
    pub(super) run: fn(&mut Context) -> Result<Outcome>,
}

/// How a step ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed,
    /// Passed, with a note for the reader.
    PassedWith(String),
    Failed(String),
    /// Tests that this machine cannot run, and the fix. A failure if CI is set.
    Skipped {
        tests: Vec<String>,
        fix: String,
    },
    /// Not run, because a step that it needs failed.
    NotRun(String),
}

/// Number of tests run, if the runner reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) run: u64,
    pub(super) failed: u64,
}

/// A finished step.
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) duration: Duration,
    pub(super) counts: Option<Counts>,
    /// Its tests that could not run on this machine, with the reason.
    pub(super) skipped: Vec<String>,
}

impl Report {
    pub(super) fn as_str(&self) -> &'static str {
        match self.outcome {
            Outcome::Passed | Outcome::PassedWith(_) => "ok",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped { .. } => "skipped",
            Outcome::NotRun(_) => "not run",
        }
    }

    pub(super) fn seconds(&self) -> String {
        format!("{:.1} s", self.duration.as_secs_f64())
    }
}

/// State that the steps share.
#[derive(Default)]
pub(super) struct Context {
    /// Whether the programs that tests start are built.
    pub(super) built: bool,
    /// Result of installing the agents, once that was tried.
    pub(super) agents: Option<Installation>,
    /// Environment variables for the tests.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// JUnit reports of nextest, one for each group of tests.
    pub(super) junits: Vec<String>,
    /// Test counts of the current step, moved into its report.
    pub(super) counts: Option<Counts>,
    /// Skipped tests of the current step, moved into its report.
    pub(super) skipped: Vec<String>,
    /// Output file of a background step; `None` for the terminal.
    pub(super) log: Option<File>,
}

impl Context {
    /// Runs a command and sends its output to the log, or to the terminal.
    pub(super) fn perform(&self, command: &mut Command) -> Outcome {
        if let Some(log) = &self.log {
            match (log.try_clone(), log.try_clone()) {
                (Ok(out), Ok(err)) => drop(command.stdout(out).stderr(err)),
                (Err(error), _) | (_, Err(error)) => {
                    return Outcome::Failed(format!("cannot write the log: {error}"));
                }
            }
        }
        perform(command)
    }
}

impl Clone for Context {
    /// Clones the inputs of a step for another lane, without log and results.
    fn clone(&self) -> Self {
        let Self {
            built,
            agents,
            variables,
            ..
        } = self;
        Self {
            built: *built,
            agents: agents.clone(),
            variables: variables.clone(),
            ..Self::default()
        }
    }
}

/// Runs a command with inherited output. A failure shows the command line.
pub(super) fn perform(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("{status}: {}", command_line(command))),
        Err(error) => Outcome::Failed(format!("cannot start: {error}: {}", command_line(command))),
    }
}

/// Renders a command as one would type it.
fn command_line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        // Removed variables are not shown: whoever types the command has not set them.
        words.extend(value.map(|value| {
            format!(
                "{}={}",
                name.to_string_lossy(),
                quoted(&value.to_string_lossy())
            )
        }));
    }
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    words.push(name.to_string_lossy().into_owned());
    words.extend(
        command
            .get_args()
            .map(|argument| quoted(&argument.to_string_lossy())),
    );
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:./,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/env");
        command.args(["false", "a b", ""]).env("X", "-D warnings");
        let Outcome::Failed(text) = perform(&mut command) else {
            panic!("`false` did not fail")
        };
        assert!(
            text.ends_with("X='-D warnings' env false 'a b' ''"),
            "{text}"
        );
    }
}
