//! Lanes of the test command: steps that run in parallel.
//!
//! Tests mostly wait, and compilers only compute. Run in parallel, they use cores that either would
//! leave idle.

use std::fs::File;
use std::io::Write as _;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::step::{Context, Outcome, Report, Step};
use crate::workspace;

/// When a step runs. The steps of one lane run sequentially, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Before front and back: quick steps, and those that others need.
    First,
    /// In the foreground, with output on the terminal.
    Front,
    /// In parallel with the front. The output is printed when the step has ended.
    Back,
    /// After front and back.
    Last,
}

/// Runs the steps, each in its lane, and returns their reports in the order of the steps.
pub(super) fn run(steps: &[&'static Step]) -> Vec<Report> {
    // Without front steps, the back steps run in the foreground.
    let has_front = steps.iter().any(|step| step.lane == Lane::Front);
    let lane_of = |step: &Step| {
        if step.lane == Lane::Back && !has_front {
            Lane::Front
        } else {
            step.lane
        }
    };
    let of = |lane: Lane| {
        steps
            .iter()
            .copied()
            .filter(move |step| lane_of(step) == lane)
    };
    let mut context = Context::default();
    let mut reports = Vec::new();
    of(Lane::First).for_each(|step| reports.push(in_foreground(step, &reports, &mut context)));
    let (before, background) = (&reports, context.clone());
    let (front, back) = thread::scope(|scope| {
        let back = scope.spawn(move || in_background(of(Lane::Back), before, background));
        let mut front = Vec::new();
        of(Lane::Front).for_each(|step| front.push(in_foreground(step, before, &mut context)));
        (
            front,
            back.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let (back, background) = back;
    context.junits.extend(background.junits);
    context.agents = context.agents.or(background.agents);
    reports.extend(front.into_iter().chain(back));
    of(Lane::Last).for_each(|step| reports.push(in_foreground(step, &reports, &mut context)));
    reports.sort_by_key(|report| steps.iter().position(|step| step.name == report.name));
    reports
}

fn in_foreground(step: &Step, before: &[Report], context: &mut Context) -> Report {
    println!("\n── {} ── {}", step.name, step.about);
    let report = run_step(step, before, context);
    println!(
        "── {} ── {} in {}",
        report.name,
        report.as_str(),
        report.seconds()
    );
    report
}

fn in_background<'a>(
    steps: impl Iterator<Item = &'a Step>,
    before: &[Report],
    mut context: Context,
) -> (Vec<Report>, Context) {
    let mut reports = Vec::new();
    for step in steps {
        let report = match open_log(step) {
            Ok(log) => {
                context.log = Some(log);
                run_step(step, before, &mut context)
            }
            Err(error) => failed(step, &error),
        };
        let output = std::fs::read_to_string(log_path(step)).unwrap_or_default();
        // A single write, so that output of the front does not interleave.
        let (name, about, seconds) = (step.name, step.about, report.seconds());
        let text = format!(
            "\n── {name} ── {about}\n{output}── {name} ── {} in {seconds}\n\n",
            report.as_str()
        );
        // A failure is ignored: the next `println!` panics if stdout is closed.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        reports.push(report);
    }
    (reports, context)
}

fn run_step(step: &Step, before: &[Report], context: &mut Context) -> Report {
    let started = Instant::now();
    let outcome = match blocked(step, before) {
        Some(reason) => Outcome::NotRun(reason),
        None => (step.run)(context).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}"))),
    };
    let (counts, skipped) = (context.counts.take(), std::mem::take(&mut context.skipped));
    Report {
        name: step.name,
        outcome,
        duration: started.elapsed(),
        counts,
        skipped,
    }
}

fn failed(step: &Step, error: &anyhow::Error) -> Report {
    let outcome = Outcome::Failed(format!("{error:#}"));
    Report {
        name: step.name,
        outcome,
        duration: std::time::Duration::ZERO,
        counts: None,
        skipped: Vec::new(),
    }
}

fn log_path(step: &Step) -> std::path::PathBuf {
    workspace::root().join(format!("target/xtask-{}.log", step.name))
}

fn open_log(step: &Step) -> Result<File> {
    let path = log_path(step);
    File::create(&path).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns why a step cannot run: a step that it needs did not succeed.
fn blocked(step: &Step, before: &[Report]) -> Option<String> {
    let needed = step.needs?;
    let report = before.iter().find(|report| report.name == needed)?;
    matches!(report.outcome, Outcome::Failed(_) | Outcome::NotRun(_))
        .then(|| format!("{needed} failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, LazyLock};
    use std::time::Duration;

    use super::super::steps;
    use super::*;

    #[test]
    fn a_failed_build_blocks_only_the_steps_that_need_it() {
        let outcome = Outcome::Failed("x".into());
        let before = [Report {
            name: "build",
            outcome,
            duration: Duration::ZERO,
            counts: None,
            skipped: Vec::new(),
        }];
        let find = |name: &str| steps::STEPS.iter().find(|step| step.name == name).unwrap();
        assert_eq!(
            blocked(find("tests"), &before).as_deref(),
            Some("build failed")
        );
        assert_eq!(blocked(find("docs"), &before), None);
        assert_eq!(blocked(find("tests"), &[]), None);
    }

    /// Returns only when two steps wait at the same time.
    static MEETING: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

    fn meet(_: &mut Context) -> Result<Outcome> {
        MEETING.wait();
        Ok(Outcome::Passed)
    }

    fn build(context: &mut Context) -> Result<Outcome> {
        context.built = true;
        Ok(Outcome::Passed)
    }

    fn need_the_build(context: &mut Context) -> Result<Outcome> {
        Ok(if context.built {
            Outcome::Passed
        } else {
            Outcome::Failed("not built".into())
        })
    }

    const fn step(
        name: &'static str,
        lane: Lane,
        run: fn(&mut Context) -> Result<Outcome>,
    ) -> Step {
        Step {
            name,
            about: "",
            quick: false,
            needs: None,
            lane,
            run,
        }
    }

    static STEPS: [Step; 5] = [
        step("lane-back", Lane::Back, meet),
        step("lane-last", Lane::Last, need_the_build),
        step("lane-first", Lane::First, build),
        step("lane-front", Lane::Front, meet),
        step("lane-back-2", Lane::Back, need_the_build),
    ];

    #[test]
    fn front_and_back_run_in_parallel_with_the_context_of_the_first_lane() {
        let steps: Vec<&'static Step> = STEPS.iter().collect();
        let reports = run(&steps);
        let results: Vec<_> = reports
            .iter()
            .map(|report| (report.name, report.as_str()))
            .collect();
        let ok: Vec<_> = STEPS.iter().map(|step| (step.name, "ok")).collect();
        assert_eq!(results, ok, "in the order of the steps");
        STEPS
            .iter()
            .for_each(|step| drop(std::fs::remove_file(log_path(step))));
    }
}
