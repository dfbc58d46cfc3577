//! What a step of the test command is, and what it reports.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::agents::Installation;

/// One step, in the order of the table in `steps.rs`.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Part of `--quick`.
    pub(super) quick: bool,
    /// A step that must not have failed before this one.
    pub(super) needs: Option<&'static str>,
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
    /// Not tried; the reason is a failure elsewhere or a tool that is optional.
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
    /// Set by a step that ran tests, taken by its report.
    pub(super) counts: Option<Counts>,
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
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}={}", name.to_string_lossy(), quoted(&value)));
    }
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    words.push(name.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| quoted(&argument.to_string_lossy())));
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
        let Outcome::Failed(text) = perform(&mut command) else { panic!("false did not fail") };
        assert!(text.ends_with("X='-D warnings' env false 'a b' ''"), "{text}");
    }
}
