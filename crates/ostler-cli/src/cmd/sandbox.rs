//! `ostler sandbox check`: what keeps a model's commands in, on this machine, by trying to get out.

use crate::args::{SandboxArgs, SandboxCheckArgs, SandboxVerb};
use crate::exit::Code;
use crate::fault::Fault;

/// Runs the verb of the verb.
pub(crate) async fn run(args: SandboxArgs) -> Result<Code, Fault> {
    match args.verb {
        SandboxVerb::Check(args) => check(args).await,
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{attempt, check};

#[cfg(not(target_os = "linux"))]
async fn check(_args: SandboxCheckArgs) -> Result<Code, Fault> {
    Err(Fault::usage(
        "there is a sandbox for commands on Linux only",
    ))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::ExitCode;

    use ostler::clip::plain;
    use ostler::sandbox_check::{self, AttemptOutcome, Checked, Verdict};
    use ostler::trust::{Decided, FileKind, REMEDY, Standing};

    use super::SandboxCheckArgs;
    use crate::args::{ConfigArgs, PolicyArgs};
    use crate::environment;
    use crate::exit::{self, Code};
    use crate::fault::Fault;
    use crate::output::{say, style};
    use crate::signals::{SignalAction, Signals};
    use crate::spec::directory;
    use crate::trust::Project;

    /// The hidden role: one attempt, made from inside a sandbox.
    pub(crate) fn attempt(args: impl Iterator<Item = OsString>) -> ExitCode {
        let tried = sandbox_check::attempt(args);
        if let AttemptOutcome::Done(words) | AttemptOutcome::Refused(words) = &tried {
            say(words);
        }
        ExitCode::from(tried.code())
    }

    pub(crate) async fn check(args: SandboxCheckArgs) -> Result<Code, Fault> {
        let policy = args.dir.as_deref().map(WorkspacePolicy::of).transpose()?;
        let attempter = environment::attempter().map_err(Fault::internal)?;
        let host = environment::host();
        // Whoever interrupts it leaves nothing behind: what the check has made goes with the future.
        let checked = tokio::select! {
            checked = sandbox_check::check(&host, &attempter) => checked,
            caught = interrupted() => return caught,
        };
        let checked = checked.map_err(|error| Fault::internal(error.message))?;
        if args.json {
            let mut report = serde_json::to_value(&checked).map_err(Fault::internal)?;
            report["policy"] = serde_json::json!(policy.as_ref().map(|policy| policy.clauses().0));
            report["workspace"] = serde_json::json!(policy.as_ref().map(WorkspacePolicy::as_json));
            say(&format!("{report:#}"));
        } else {
            show(&checked);
            policy.iter().for_each(WorkspacePolicy::show);
            conclude(&checked);
        }
        Ok(if checked.holds {
            exit::OK
        } else {
            exit::FAILED
        })
    }

    /// Resolves when somebody wants the program to end.
    async fn interrupted() -> Result<Code, Fault> {
        let mut signals = Signals::listen()?;
        while signals.next().await == SignalAction::Continue {}
        Ok(exit::of(ostler::Cause::Interrupted))
    }

    /// The part that a workspace's own file has in its policy.
    struct WorkspacePolicy {
        decided: Decided,
        /// The decision about the file; none where there is no file.
        standing: Option<Standing>,
    }

    impl WorkspacePolicy {
        fn of(dir: &Path) -> Result<Self, Fault> {
            let dir = directory(Some(dir))?;
            let project =
                Project::read(ConfigArgs { no_config: true }, &PolicyArgs::default(), &dir)?;
            let standing = project.file(FileKind::Sandbox).map(|file| file.standing);
            let host = environment::host().with_workspace(project.trust());
            let decided = ostler::sandbox_policy(&host, &project.root);
            Ok(Self {
                decided: decided.map_err(|error| Fault::usage(error.message))?,
                standing,
            })
        }

        /// What was granted, left out, and never granted.
        fn clauses(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
            let all = |requests: &[ostler::tools::Request]| {
                requests.iter().map(ToString::to_string).collect()
            };
            let never = self
                .decided
                .refused
                .iter()
                .map(|(request, why)| format!("{request} ({why})"))
                .collect();
            (
                all(&self.decided.opened),
                all(&self.decided.left_out),
                never,
            )
        }

        fn as_json(&self) -> serde_json::Value {
            let (opened, left_out, never) = self.clauses();
            let trust = self.standing.map(Standing::as_str);
            serde_json::json!({ "trust": trust, "opened": opened, "left_out": left_out, "never": never })
        }

        fn show(&self) {
            let Some(standing) = self.standing else {
                return say("\nThe workspace has no .ostler/sandbox.toml.");
            };
            let (opened, left_out, never) = self.clauses();
            say(&format!(
                "\nThe workspace's .ostler/sandbox.toml is {}:",
                standing.as_str()
            ));
            let lists = [
                ("granted", opened),
                ("not granted", left_out),
                ("never granted", never),
            ];
            for (word, clauses) in &lists {
                clauses
                    .iter()
                    .for_each(|clause| say(&format!("  {word}: {}", plain(clause))));
            }
            if lists.iter().all(|(_, clauses)| clauses.is_empty()) {
                say("  it asks for nothing beyond the policy below it");
            }
            if !lists[1].1.is_empty() {
                say(&format!("  {REMEDY}"));
            }
        }
    }

    fn show(checked: &Checked) {
        let (good, bad, dim) = (style::GOOD, style::BAD, style::DIM);
        say("What keeps a model's commands in on this machine:\n");
        for layer in &checked.report.layers {
            let (mark, paint) = if layer.enforced {
                ("✓", good)
            } else {
                ("✗", bad)
            };
            say(&format!(
                "{paint}{mark}{paint:#} {:<14} {}",
                layer.name, layer.by
            ));
        }
        say("\nWhat was tried from inside:\n");
        let width = checked
            .attempts
            .iter()
            .map(|attempt| attempt.what.len())
            .max()
            .unwrap_or(0);
        for attempt in &checked.attempts {
            let (mark, paint) = if attempt.result.is_good() {
                ("✓", good)
            } else {
                ("✗", bad)
            };
            let result = match attempt.result {
                Verdict::Held => "held",
                Verdict::Works => "works",
                Verdict::Leaked => "LEAKED",
                Verdict::Broken => "BROKEN",
                Verdict::Untried => "not tried",
            };
            let detail: String = plain(&attempt.detail).chars().take(60).collect();
            let row = format!(
                "{:<width$}  {result:<9} {dim}{:<15} {detail}{dim:#}",
                attempt.what, attempt.layer
            );
            say(&format!("{paint}{mark}{paint:#} {row}"));
        }
        if let Some(refused) = &checked.refused {
            let warn = style::WARN;
            say(&format!("\n{warn}By default {}{warn:#}", plain(refused)));
        }
    }

    fn conclude(checked: &Checked) {
        let (good, bad) = (style::GOOD, style::BAD);
        let wrong = checked
            .attempts
            .iter()
            .filter(|attempt| !attempt.result.is_good())
            .count();
        match wrong {
            0 => say(&format!("\n{good}The default policy holds.{good:#}")),
            _ => say(&format!(
                "\n{bad}The default policy does not hold{bad:#}: {wrong} of these should be otherwise."
            )),
        }
    }
}
