//! `ostler sandbox check`: attempts to escape from the sandbox, and reports what is enforced.

#[cfg(target_os = "linux")]
pub(crate) use linux::{attempt, check};

#[cfg(not(target_os = "linux"))]
pub(crate) async fn check(
    _args: crate::args::SandboxCheckArgs,
) -> crate::fault::Result<crate::exit::Code> {
    Err(usage!("the command sandbox is only available on Linux"))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::ExitCode;

    use ostler::render::clip::sanitize;
    use ostler::sandbox::check::{self, AttemptOutcome, Checked, Verdict};
    use ostler::trust::{Decided, FileKind, REMEDY, Standing};
    use serde_json::{Value, json};

    use crate::args::{ConfigArgs, PolicyArgs, SandboxCheckArgs};
    use crate::config::directory;
    use crate::environment;
    use crate::exit::{self, Code};
    use crate::fault::{Fault, Result};
    use crate::output::style::{BAD, DIM, GOOD, WARN};
    use crate::output::{print_json, print_line};
    use crate::signals::{SignalAction, Signals};
    use crate::trust::Project;

    /// Runs the hidden role: one escape attempt from inside a sandbox.
    pub(crate) fn attempt(args: impl Iterator<Item = OsString>) -> ExitCode {
        let tried = check::attempt(args);
        if let AttemptOutcome::Done(words) | AttemptOutcome::Refused(words) = &tried {
            print_line(words);
        }
        ExitCode::from(tried.code())
    }

    pub(crate) async fn check(args: SandboxCheckArgs) -> Result<Code> {
        let policy = args.dir.as_deref().map(WorkspacePolicy::of).transpose()?;
        let attempter = environment::attempter().map_err(Fault::internal)?;
        let host = environment::host();
        // An interrupt leaves nothing behind: dropping the future cleans up.
        let checked = tokio::select! {
            checked = check::check(&host, &attempter) => checked,
            caught = interrupted() => return caught,
        };
        let checked = checked.map_err(|error| Fault::internal(error.message))?;
        if args.json {
            let mut report = serde_json::to_value(&checked).map_err(Fault::internal)?;
            let workspace = policy.as_ref().map(WorkspacePolicy::as_json);
            report["policy"] = json!(workspace.as_ref().map(|it| &it["opened"]));
            report["workspace"] = json!(workspace);
            print_json(&report);
        } else {
            show(&checked);
            policy.iter().for_each(WorkspacePolicy::show);
            conclude(&checked);
        }
        Ok(exit::ok_if(checked.holds))
    }

    /// Resolves when a signal ends the program.
    async fn interrupted() -> Result<Code> {
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
        fn of(dir: &Path) -> Result<Self> {
            let dir = directory(Some(dir))?;
            let project =
                Project::read(ConfigArgs { no_config: true }, &PolicyArgs::default(), &dir)?;
            let standing = project.file(FileKind::Sandbox).map(|file| file.standing);
            let host = environment::host().with_workspace(project.trust());
            let decided = ostler::sandbox::sandbox_policy(&host, &project.root);
            Ok(Self {
                decided: decided.map_err(|error| Fault::usage(error.message))?,
                standing,
            })
        }

        /// Returns the requests that are granted, not granted, and never granted.
        fn clauses(&self) -> [Vec<String>; 3] {
            fn texts(requests: &[impl ToString]) -> Vec<String> {
                requests.iter().map(ToString::to_string).collect()
            }
            let decided = &self.decided;
            [
                texts(&decided.opened),
                texts(&decided.left_out),
                texts(&decided.refused),
            ]
        }

        fn as_json(&self) -> Value {
            let [opened, left_out, never] = self.clauses();
            let trust = self.standing.map(Standing::as_str);
            json!({ "trust": trust, "opened": opened, "left_out": left_out, "never": never })
        }

        fn show(&self) {
            let Some(standing) = self.standing else {
                return print_line("\nThe project has no .ostler/sandbox.toml.");
            };
            let standing = standing.as_str();
            outln!("\nThe project's .ostler/sandbox.toml is {standing}:");
            let lists = self.clauses();
            for (label, clauses) in ["granted", "not granted", "never granted"]
                .iter()
                .zip(&lists)
            {
                for clause in clauses {
                    outln!("  {label}: {}", sanitize(clause));
                }
            }
            if lists.iter().all(Vec::is_empty) {
                print_line("  requests nothing beyond your own policy");
            }
            if !lists[1].is_empty() {
                outln!("  {REMEDY}");
            }
        }
    }

    fn mark(is_good: bool) -> String {
        let (mark, paint) = if is_good { ("✓", GOOD) } else { ("✗", BAD) };
        format!("{paint}{mark}{paint:#}")
    }

    fn show(checked: &Checked) {
        print_line("Sandbox layers on this machine:\n");
        for layer in &checked.report.layers {
            outln!("{} {:<14} {}", mark(layer.enforced), layer.name, layer.by);
        }
        print_line("\nAttempts from inside the sandbox:\n");
        let widths = checked.attempts.iter().map(|attempt| attempt.what.len());
        let width = widths.max().unwrap_or(0);
        for attempt in &checked.attempts {
            let result = match attempt.result {
                Verdict::Held => "held",
                Verdict::Works => "works",
                Verdict::Leaked => "LEAKED",
                Verdict::Broken => "BROKEN",
                Verdict::Untried => "not tried",
            };
            let detail: String = sanitize(&attempt.detail).chars().take(60).collect();
            outln!(
                "{} {:<width$}  {result:<9} {DIM}{:<15} {detail}{DIM:#}",
                mark(attempt.result.is_good()),
                attempt.what,
                attempt.layer
            );
        }
        if let Some(refused) = &checked.refused {
            outln!("\n{WARN}By default {}{WARN:#}", sanitize(refused));
        }
    }

    fn conclude(checked: &Checked) {
        let failed = checked
            .attempts
            .iter()
            .filter(|attempt| !attempt.result.is_good())
            .count();
        match failed {
            0 => outln!("\n{GOOD}The default policy is enforced.{GOOD:#}"),
            _ => outln!(
                "\n{BAD}The default policy is not enforced{BAD:#}: {failed} of these attempts had the wrong result."
            ),
        }
    }
}
