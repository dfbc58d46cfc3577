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
    Err(Fault::usage("there is a sandbox for commands on Linux only"))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::ExitCode;

    use ostler::clip::plain;
    use ostler::sandbox_check::{self, Checked, Tried, Verdict};
    use ostler::tools::Workspace;

    use super::SandboxCheckArgs;
    use crate::environment;
    use crate::exit::{self, Code};
    use crate::fault::Fault;
    use crate::output::{say, style};

    /// The hidden role: one attempt, made from inside a sandbox.
    pub(crate) fn attempt(args: impl Iterator<Item = OsString>) -> ExitCode {
        let tried = sandbox_check::attempt(args);
        if let Tried::Done(words) | Tried::Refused(words) = &tried {
            say(words);
        }
        ExitCode::from(tried.code())
    }

    pub(crate) async fn check(args: SandboxCheckArgs) -> Result<Code, Fault> {
        let opened = args.dir.as_deref().map(opened_by).transpose()?;
        let attempter = environment::attempter().map_err(Fault::internal)?;
        let checked = sandbox_check::check(&environment::host(), &attempter).await;
        let checked = checked.map_err(|error| Fault::internal(error.message))?;
        if args.json {
            let mut report = serde_json::to_value(&checked).map_err(Fault::internal)?;
            report["policy"] = serde_json::json!(opened);
            say(&format!("{report:#}"));
        } else {
            show(&checked, opened.as_deref());
        }
        Ok(if checked.holds { exit::OK } else { exit::FAILED })
    }

    /// What the policy of a workspace allows beyond the defaults.
    fn opened_by(dir: &Path) -> Result<Vec<String>, Fault> {
        let policy = Workspace::load_policy(dir).map_err(|error| Fault::usage(error.message))?;
        let rules = policy.commands.iter().map(|rule| format!("a rule of its own for {}", rule.name));
        Ok(rules.chain(policy.sandbox.beyond_defaults()).collect())
    }

    fn show(checked: &Checked, opened: Option<&[String]>) {
        let (good, bad, dim) = (style::GOOD, style::BAD, style::DIM);
        say("What keeps a model's commands in on this machine:\n");
        for layer in &checked.report.layers {
            let (mark, paint) = if layer.enforced { ("✓", good) } else { ("✗", bad) };
            say(&format!("{paint}{mark}{paint:#} {:<14} {}", layer.name, layer.by));
        }
        say("\nWhat was tried from inside:\n");
        let width = checked.attempts.iter().map(|attempt| attempt.what.len()).max().unwrap_or(0);
        for attempt in &checked.attempts {
            let (mark, paint) = if attempt.result.is_good() { ("✓", good) } else { ("✗", bad) };
            let result = match attempt.result {
                Verdict::Held => "held",
                Verdict::Works => "works",
                Verdict::Leaked => "LEAKED",
                Verdict::Broken => "BROKEN",
                Verdict::Untried => "not tried",
            };
            let detail: String = plain(&attempt.detail).chars().take(60).collect();
            let row = format!("{:<width$}  {result:<9} {dim}{:<15} {detail}{dim:#}", attempt.what, attempt.layer);
            say(&format!("{paint}{mark}{paint:#} {row}"));
        }
        if let Some(opened) = opened {
            say("\nThe policy of the workspace allows beyond the defaults:");
            let nothing = ["nothing".to_owned()];
            for line in if opened.is_empty() { &nothing[..] } else { opened } {
                say(&format!("  {}", plain(line)));
            }
        }
        let wrong = checked.attempts.iter().filter(|attempt| !attempt.result.is_good()).count();
        match wrong {
            0 => say(&format!("\n{good}The default policy holds.{good:#}")),
            _ => say(&format!("\n{bad}The default policy does not hold{bad:#}: {wrong} of these should be otherwise.")),
        }
    }
}
