//! Results of stored runs: list, report, comparison and gate.

use ostler_eval::gate::{self, Gate, Requirement};
use ostler_eval::plan::Plan;
use ostler_eval::report::{
    IdentityField, RunReport, compare_runs, human, human_comparison, json, junit, lock, markdown,
    markdown_comparison,
};
use ostler_eval::trial::{TrialKey, TrialResult};
use ostler_store::{AttemptState, Ledger, RunRow, Store};
use serde_json::json as object;

use super::{exports, late};
use crate::args::{EvalCompareArgs, EvalGateArgs, EvalListArgs, EvalReportArgs, ReportFormat};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{Align, table};
use crate::{output, store};

/// Returns a run by its name or a prefix of it.
pub(super) fn find(store: &Store, name: &str) -> Result<RunRow> {
    let found = Ledger::new(store).look_up(name)?;
    found.ok_or_else(|| {
        usage!("no run {}", output::name(name)).hint("run `ostler eval list` to list all runs")
    })
}

/// Returns the plan of a run.
pub(super) fn plan(row: &RunRow) -> Result<Plan> {
    serde_json::from_str(&row.plan)
        .map_err(|error| Fault::internal(format!("the plan of run {}: {error}", row.run)))
}

/// Returns the results of a run.
pub(super) fn of_run(store: &Store, name: &str) -> Result<RunReport> {
    let row = find(store, name)?;
    let plan = plan(&row)?;
    let trials = Ledger::new(store).trials(&row.run)?;
    let results = trials.iter().filter_map(|trial| trial.result.as_deref());
    let results = results.map(serde_json::from_str::<TrialResult>);
    let cancelled = trials.iter().filter(|trial| {
        let last = trial.attempts.last();
        trial.result.is_none() && last.is_some_and(|it| it.state == AttemptState::Cancelled)
    });
    let cancelled = cancelled.map(|trial| TrialKey {
        case: trial.name.case.clone(),
        contender: trial.name.contender.clone(),
        repetition: trial.name.repetition,
    });
    Ok(RunReport {
        trials: results
            .collect::<std::result::Result<_, _>>()
            .map_err(Fault::internal)?,
        planned: plan.trials(),
        cancelled: cancelled.collect(),
        run: row.run,
        suite: row.suite,
        contenders: plan.contenders,
        seed: plan.seed,
        started_at: Some(row.created_at.to_string()),
    })
}

/// Lists the runs.
pub(super) fn list(args: &EvalListArgs) -> Result<Code> {
    let store = store::open_store_for_reading()?;
    let runs = Ledger::new(&store).runs()?;
    if args.json {
        for row in &runs {
            output::print_json(&object!({
                "run": row.run,
                "suite": row.suite,
                "created_at": row.created_at,
                "trials": row.trials,
                "done": row.done,
                "running": row.running,
                "cost_usd": row.cost_usd,
                "tokens": row.tokens,
                "budget_usd": row.budget_usd,
                "artifacts": row.artifacts,
            }));
        }
        return Ok(exit::OK);
    }
    let rows: Vec<[String; 5]> = runs
        .iter()
        .map(|row| {
            let cost = row
                .cost_usd
                .map_or_else(|| "–".to_owned(), |cost| format!("${cost:.2}"));
            [
                row.run.clone(),
                output::name(&row.suite),
                format!("{}/{}", row.done, row.trials),
                cost,
                row.created_at.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() {
        output::print_line("No runs. `ostler eval init` writes an example.");
        return Ok(exit::OK);
    }
    let heads = [
        ("run", Align::Left),
        ("suite", Align::Left),
        ("done", Align::Right),
        ("cost", Align::Right),
        ("created", Align::Left),
    ];
    table(heads, &rows);
    Ok(exit::OK)
}

/// Shows the results of a run.
pub(super) fn report(args: &EvalReportArgs) -> Result<Code> {
    let store = store::open_store_for_reading()?;
    let report = of_run(&store, &args.run)?;
    let late = late::of_run(&store, &report.run)?;
    let text = match args.format {
        ReportFormat::Harbor => {
            let out = args.out.as_ref().ok_or_else(|| {
                Fault::usage("a Harbor job is a directory").hint("use `--out DIR`")
            })?;
            exports::write_harbor_job(&report, out)?;
            return Ok(exit::OK);
        }
        ReportFormat::Atif => match &args.out {
            Some(out) if out.extension().is_none_or(|ext| ext != "json") => {
                exports::write_trajectories(&report, out)?;
                return Ok(exit::OK);
            }
            _ => exports::one_trajectory(&report)?,
        },
        ReportFormat::Html => exports::as_html(&report),
        ReportFormat::Human => human(&report, output::width()) + &late::lines(&late),
        ReportFormat::Md => markdown(&report) + &late::lines(&late),
        ReportFormat::Json => {
            let mut shown = json(&report);
            late::add_to(&mut shown, &late);
            shown.to_string() + "\n"
        }
        ReportFormat::Junit => junit(&report).map_err(Fault::internal)?,
        ReportFormat::Predictions => exports::predictions(&report)?,
    };
    match &args.out {
        Some(path) => {
            std::fs::write(path, text).map_err(|error| usage!("{}: {error}", path.display()))?;
        }
        None => output::print_line(text.trim_end()),
    }
    Ok(exit::OK)
}

/// Parses fields of a trial's identity.
fn identity_fields(names: &[String]) -> Result<Vec<IdentityField>> {
    let fields = names.iter().map(|name| {
        let known = IdentityField::ALL
            .into_iter()
            .find(|field| field.as_str() == name);
        known.ok_or_else(|| {
            let names: Vec<&str> = IdentityField::ALL
                .iter()
                .map(|field| field.as_str())
                .collect();
            usage!(
                "--allow-difference {name}: expected one of {}",
                names.join(", ")
            )
        })
    });
    fields.collect()
}

/// Parses `A=B`. A label may contain `=`, so both sides must be known.
fn pair(text: &str, before: &RunReport, after: &RunReport) -> Result<(String, String)> {
    let splits = text.match_indices('=').map(|(at, _)| text.split_at(at));
    let mut splits = splits.map(|(one, other)| (one, &other[1..]));
    let known = splits
        .find(|(one, other)| before.contender(one).is_some() && after.contender(other).is_some());
    known
        .map(|(one, other)| (one.to_owned(), other.to_owned()))
        .ok_or_else(|| {
            let labels = |report: &RunReport| {
                let labels = report.contenders.iter().map(|it| it.label.as_str());
                output::name(&labels.collect::<Vec<_>>().join(", "))
            };
            let text = output::name(text);
            usage!("--pair {text}: expected A=B with labels of the runs").hint(format!(
                "{} has {}; {} has {}",
                before.run,
                labels(before),
                after.run,
                labels(after)
            ))
        })
}

/// Compares two runs, or the agents of one run.
pub(super) fn compare(args: &EvalCompareArgs) -> Result<Code> {
    let store = store::open_store_for_reading()?;
    let before = of_run(&store, &args.before)?;
    let after = match &args.after {
        Some(after) => of_run(&store, after)?,
        None => before.clone(),
    };
    let pairs = args.pair.iter().map(|text| pair(text, &before, &after));
    let mut pairs = pairs.collect::<Result<Vec<_>>>()?;
    if pairs.is_empty() && args.after.is_none() {
        let labels: Vec<&String> = before.contenders.iter().map(|it| &it.label).collect();
        let Some((first, others)) = labels.split_first().filter(|(_, rest)| !rest.is_empty())
        else {
            let fault = usage!("run {} has only one agent", before.run);
            return Err(fault.hint("name a second run"));
        };
        let others = others.iter();
        pairs = others
            .map(|other| ((*first).clone(), (*other).clone()))
            .collect();
    }
    let allowed = identity_fields(&args.allow_difference)?;
    let compared =
        compare_runs(&before, &after, &pairs, &allowed).map_err(|error| usage!("{error}"))?;
    if args.json {
        output::print_serialized(&compared)?;
    } else if args.md {
        output::print_line(markdown_comparison(&compared).trim_end());
    } else {
        output::print_line(human_comparison(&compared, output::width()).trim_end());
    }
    Ok(exit::OK)
}

/// Parses requirements.
pub(super) fn requirements(texts: &[String]) -> Result<Vec<Requirement>> {
    let parsed = texts.iter().map(|text| text.parse::<Requirement>());
    parsed
        .map(|parsed| parsed.map_err(|error| usage!("--require: {error}")))
        .collect()
}

/// Checks a run and prints the checks.
pub(super) fn judge(report: &RunReport, gate: &Gate<'_>) -> Code {
    let checks = gate::check(gate, report);
    for check in &checks {
        let word = if check.met { "met" } else { "not met" };
        errln!(
            "{word}: {} requires {}, found {}",
            output::name(&check.contender),
            check.required,
            output::name(&check.found)
        );
    }
    exit::ok_if(checks.iter().all(|check| check.met))
}

/// Checks a stored run.
pub(super) fn gate(args: &EvalGateArgs) -> Result<Code> {
    let requirements = requirements(&args.require)?;
    if requirements.is_empty() && args.against.is_none() {
        return Err(Fault::usage("nothing is required")
            .hint("use `--require 'pass@1 >= 0.8'` or `--against RUN`"));
    }
    let max_regression = gate::parse_regression(&args.max_regression)
        .map_err(|error| usage!("--max-regression: {error}"))?;
    let store = store::open_store_for_reading()?;
    let report = of_run(&store, &args.run)?;
    let baseline = args
        .against
        .as_deref()
        .map(|run| of_run(&store, run))
        .transpose()?;
    if let Some(baseline) = &baseline {
        let allowed = identity_fields(&args.allow_difference)?;
        let pairs = baseline.common_labels(&report);
        lock(baseline, &report, &pairs, &allowed).map_err(|error| usage!("{error}"))?;
    }
    let gate = Gate {
        requirements,
        baseline: baseline.as_ref().map(|report| &report.trials[..]),
        max_regression,
        allow_errors: args.allow_errors,
        allow_unmatched: args.allow_unmatched,
    };
    Ok(judge(&report, &gate))
}
