//! What a step of the test command is, and what it reports.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::lanes::Lane;
use crate::agents::Installation;

/// One step, in the order of the table in `steps.rs`.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Part of `--quick`.
    pub(super) quick: bool,
    /// A step that must not have failed before this one.
    pub(super) needs: Option<&'static str>,
    /// When it runs.
    pub(super) lane: Lane,
    pub(super) run: fn(&mut Context) -> Result<Outcome>,
}

/// How a step ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed,
    /// Passed, and the reader should know something.
    PassedWith(String),
    Failed(String),
    /// Tests that this machine cannot run, and how to mend that. A failure where CI is set.
    Skipped {
        tests: Vec<String>,
        fix: String,
    },
    /// Not tried, because a step that it needs failed.
    NotRun(String),
}

/// How many tests a runner ran, where it told us.
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
    /// The tests of it that this machine could not run, and why.
    pub(super) skipped: Vec<String>,
}

impl Report {
    pub(super) fn word(&self) -> &'static str {
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

/// What the steps share.
#[derive(Default)]
pub(super) struct Context {
    /// The programs that tests start are built.
    pub(super) built: bool,
    /// Known once the agents were tried.
    pub(super) agents: Option<Installation>,
    /// Variables for the tests.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// What nextest wrote about each group of tests that was run.
    pub(super) junits: Vec<String>,
    /// Set by a step that ran tests, taken by its report.
    pub(super) counts: Option<Counts>,
    /// Tests that reported that they could not run, taken by the report.
    pub(super) skipped: Vec<String>,
    /// Where commands write that run beside others; the terminal if there is none.
    pub(super) log: Option<File>,
}

impl Context {
    /// Runs a command, with its output where that of the step belongs.
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
    /// What is known already, for steps that run beside others. Their log is their own.
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

/// Runs a command with its output let through; its failure names the command to run again.
pub(super) fn perform(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("{status}: {}", shown(command))),
        Err(error) => Outcome::Failed(format!("cannot start: {error}: {}", shown(command))),
    }
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        // One that is cleared is not shown: whoever types the command has not set it.
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
    fn a_failing_command_is_named_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/env");
        command.args(["false", "a b", ""]).env("X", "-D warnings");
        let Outcome::Failed(text) = perform(&mut command) else {
            panic!("false did not fail")
        };
        assert!(
            text.ends_with("X='-D warnings' env false 'a b' ''"),
            "{text}"
        );
    }
}
