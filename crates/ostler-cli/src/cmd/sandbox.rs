//! `ostler sandbox check`: attempts to escape from the sandbox, and reports what is enforced.

use crate::args::{SandboxArgs, SandboxCheckArgs, SandboxVerb};
use crate::exit::Code;
use crate::fault::Fault;

/// Runs the subcommand.
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
        "the command sandbox is only available on Linux",
    ))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::ExitCode;

    use ostler::clip::sanitize;
    use ostler::sandbox_check::{self, AttemptOutcome, Checked, Verdict};
    use ostler::trust::{Decided, FileKind, REMEDY, Standing};

    use super::SandboxCheckArgs;
    use crate::args::{ConfigArgs, PolicyArgs};
    use crate::environment;
    use crate::exit::{self, Code};
    use crate::fault::Fault;
    use crate::output::{print_line, style};
    use crate::signals::{SignalAction, Signals};
    use crate::spec::directory;
    use crate::trust::Project;

    /// Runs the hidden role: one escape attempt from inside a sandbox.
    pub(crate) fn attempt(args: impl Iterator<Item = OsString>) -> ExitCode {
        let tried = sandbox_check::attempt(args);
        if let AttemptOutcome::Done(words) | AttemptOutcome::Refused(words) = &tried {
            print_line(words);
        }
        ExitCode::from(tried.code())
    }

    pub(crate) async fn check(args: SandboxCheckArgs) -> Result<Code, Fault> {
        let policy = args.dir.as_deref().map(WorkspacePolicy::of).transpose()?;
        let attempter = environment::attempter().map_err(Fault::internal)?;
        let host = environment::host();
        // An interrupt leaves nothing behind: dropping the future cleans up.
        let checked = tokio::select! {
            checked = sandbox_check::check(&host, &attempter) => checked,
            caught = interrupted() => return caught,
        };
        let checked = checked.map_err(|error| Fault::internal(error.message))?;
        if args.json {
            let mut report = serde_json::to_value(&checked).map_err(Fault::internal)?;
            report["policy"] = serde_json::json!(policy.as_ref().map(|policy| policy.clauses().0));
            report["workspace"] = serde_json::json!(policy.as_ref().map(WorkspacePolicy::as_json));
            print_line(&format!("{report:#}"));
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

    /// Resolves when a signal ends the program.
    async fn interrupted() -> Result<Code, Fault> {
        let mut signals = Signals::listen()?;
        while signals.next().await == SignalAction::Continue {}
        Ok(exit::of(ostler::Cause::Interrupted))
    }

    /// The effect of a project's sandbox file.
    struct WorkspacePolicy {
        decided: Decided,
        /// Trust in the file; `None` if there is no file.
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

        /// Returns the requests that are granted, not granted, and never granted.
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
                return print_line("\nThe project has no .ostler/sandbox.toml.");
            };
            let (opened, left_out, never) = self.clauses();
            print_line(&format!(
                "\nThe project's .ostler/sandbox.toml is {}:",
                standing.as_str()
            ));
            let lists = [
                ("granted", opened),
                ("not granted", left_out),
                ("never granted", never),
            ];
            for (label, clauses) in &lists {
                clauses
                    .iter()
                    .for_each(|clause| print_line(&format!("  {label}: {}", sanitize(clause))));
            }
            if lists.iter().all(|(_, clauses)| clauses.is_empty()) {
                print_line("  requests nothing beyond your own policy");
            }
            if !lists[1].1.is_empty() {
                print_line(&format!("  {REMEDY}"));
            }
        }
    }

    fn show(checked: &Checked) {
        let (good, bad, dim) = (style::GOOD, style::BAD, style::DIM);
        print_line("Sandbox layers on this machine:\n");
        for layer in &checked.report.layers {
            let (mark, paint) = if layer.enforced {
                ("✓", good)
            } else {
                ("✗", bad)
            };
            print_line(&format!(
                "{paint}{mark}{paint:#} {:<14} {}",
                layer.name, layer.by
            ));
        }
        print_line("\nAttempts from inside the sandbox:\n");
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
            let detail: String = sanitize(&attempt.detail).chars().take(60).collect();
            let row = format!(
                "{:<width$}  {result:<9} {dim}{:<15} {detail}{dim:#}",
                attempt.what, attempt.layer
            );
            print_line(&format!("{paint}{mark}{paint:#} {row}"));
        }
        if let Some(refused) = &checked.refused {
            let warn = style::WARN;
            print_line(&format!("\n{warn}By default {}{warn:#}", sanitize(refused)));
        }
    }

    fn conclude(checked: &Checked) {
        let (good, bad) = (style::GOOD, style::BAD);
        let failed = checked
            .attempts
            .iter()
            .filter(|attempt| !attempt.result.is_good())
            .count();
        match failed {
            0 => print_line(&format!("\n{good}The default policy is enforced.{good:#}")),
            _ => print_line(&format!(
                "\n{bad}The default policy is not enforced{bad:#}: {failed} of these attempts had the wrong result."
            )),
        }
    }
}
