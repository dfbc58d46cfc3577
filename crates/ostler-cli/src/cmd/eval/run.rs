//! `ostler eval run`: plans a run or resumes one, works on it, and prints the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::case::{Contender, Isolation, Suite};
use ostler_eval::gate::Gate;
use ostler_eval::git::Git;
use ostler_eval::load::AgentCatalogue as _;
use ostler_eval::normalized::{LogFormat, NormalizedLogs};
use ostler_eval::place::Here;
use ostler_eval::plan::{Plan, TrialFilter};
use ostler_eval::registry::Evaluators;
use ostler_eval::report::{RunReport, human, json};
use ostler_eval::run_trial::{TrialOptions, TrialServices};
use ostler_eval::runner::{RetryPolicy, RunEnd, RunOptions, Runner, create_run, is_scored};
use ostler_eval::trial::{TrialResult, Verdict};
use ostler_store::{Ledger, RunRow, Store, Worker};
use serde_json::json as object;
use tokio::sync::watch;

use super::catalogue::Catalogue;
use super::files;
use super::fleet;
use super::normalize;
use super::program::Program;
use super::progress::{Before, Progress};
use super::reports;
use crate::args::{EvalRunArgs, EvalSourceArgs, IsolationTier};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::signals::{SignalAction, Signals};
use crate::{config, environment, output, spec, store};

/// Exit code when the budget was reached.
const BUDGET: Code = Code(6);
/// Exit code after Ctrl-C.
const INTERRUPTED: Code = Code(130);

/// Default number of trials at once.
const JOBS: u32 = 2;

pub(super) async fn run(args: EvalRunArgs) -> Result<Code> {
    environment::start_guard();
    let gate = reports::requirements(&args.require)?;
    let store = store::open_store()?;
    let (run, plan, suite) = match &args.resume {
        Some(name) => resume(&args, &store, name)?,
        None => begin(&args, &store)?,
    };
    let progress = Arc::new(Progress::new(run.trials, before(&store, &run)?));
    let mut runner = runner(
        &args,
        store.clone(),
        (&run, &plan, &suite),
        progress.clone(),
    )?;
    let _owner = match args.fleet {
        true => Some(fleet::use_fleet(&mut runner, &args).await?),
        false => None,
    };
    if !args.json {
        let verb = if args.resume.is_some() {
            "Resuming"
        } else {
            "Running"
        };
        errln!("{verb} {}: {} trials of {}", run.run, run.trials, run.suite);
    }
    let end = work(Arc::new(runner), &progress).await;
    progress.clear();
    let end = end?;
    let report = reports::of_run(&store, &run.run)?;
    if args.json {
        output::print_json(&json(&report));
    } else {
        output::print_line(human(&report, output::width()).trim_end());
        if end == RunEnd::Complete {
            errln!(
                "\nSee each trial: `ostler eval report {} --format html --out report.html`",
                run.run
            );
        } else {
            errln!("Continue with `ostler eval run --resume {}`.", run.run);
        }
    }
    if end == RunEnd::Complete && !gate.is_empty() {
        let gate = Gate {
            requirements: gate,
            ..Gate::default()
        };
        return Ok(reports::judge(&report, &gate));
    }
    Ok(match end {
        RunEnd::Interrupted => INTERRUPTED,
        RunEnd::BudgetReached => BUDGET,
        RunEnd::FailedFast => exit::FAILED,
        RunEnd::Complete => exit::ok_if(is_success(&report)),
    })
}

/// Returns true if every trial has a result, and every scored one passed. A trial that the
/// infrastructure prevented has no verdict, and a skipped one is no failure.
pub(super) fn is_success(report: &RunReport) -> bool {
    let is_fine = |trial: &TrialResult| match is_scored(trial) {
        true => trial.verdict == Verdict::Passed,
        false => trial.blame.is_none(),
    };
    report.missing() == 0 && report.trials.iter().all(is_fine)
}

/// Returns what earlier processes did of a run.
fn before(store: &Store, run: &RunRow) -> Result<Before> {
    let report = reports::of_run(store, &run.run)?;
    let scored = report.trials.iter().filter(|trial| is_scored(trial));
    let passed = scored.clone().filter(|it| it.verdict == Verdict::Passed);
    Ok(Before {
        done: run.done,
        scored: scored.clone().count() as u64,
        passed: passed.count() as u64,
        cost: run.cost_usd.unwrap_or_default(),
    })
}

/// Plans a new run and stores it.
fn begin(args: &EvalRunArgs, store: &Store) -> Result<(RunRow, Plan, Suite)> {
    let paths = files::paths(&args.source)?;
    let variables = files::variables(&args.source)?;
    let loading = (args.config, args.source.allow_private_hosts);
    let mut suite = files::load(&paths, &variables, loading)?;
    change(&mut suite, args)?;
    let filter = TrialFilter::new(&args.filter).map_err(|error| usage!("{error}"))?;
    let mut plan = Plan::new(&suite, &filter).map_err(|error| usage!("{error}"))?;
    plan.share_login = args.share_login;
    let here = environment::directory().map_err(Fault::internal)?;
    plan.inputs = object!({
        "dir": here,
        "paths": paths,
        "variables": variables.given,
        "allow_env": args.source.allow_env,
        "allow_private_hosts": args.source.allow_private_hosts,
        "jobs": suite.jobs,
    });
    let now = environment::now();
    let stamp = now.to_string();
    let digits: String = stamp
        .chars()
        .filter(char::is_ascii_digit)
        .take(14)
        .collect();
    let (day, time) = digits.split_at(8.min(digits.len()));
    // Two runs may start in the same second.
    let name = format!("{day}-{time}-{:04x}", std::process::id() & 0xffff);
    let root = args
        .artifacts
        .clone()
        .unwrap_or_else(|| PathBuf::from(".ostler/eval"));
    let artifacts = here.join(root).join(&name);
    std::fs::create_dir_all(&artifacts).map_err(|error| {
        usage!("{}: {error}", artifacts.display()).hint("use `--artifacts DIR`")
    })?;
    create_run(store, &name, &plan, artifacts, (suite.budget_usd, now))?;
    let row = Ledger::new(store).run(&name)?;
    let row = row.ok_or_else(|| Fault::internal("the run was not stored"))?;
    Ok((row, plan, suite))
}

/// Changes a suite as the command line says.
fn change(suite: &mut Suite, args: &EvalRunArgs) -> Result<()> {
    if !args.agent.is_empty() {
        let models: Vec<Option<String>> = match args.model.is_empty() {
            true => vec![None],
            false => args.model.iter().cloned().map(Some).collect(),
        };
        suite.contenders = agents(args)?
            .iter()
            .flat_map(|agent| models.iter().map(|model| contender(agent, model.as_ref())))
            .collect();
    }
    suite.repetitions = args.repeat.unwrap_or(suite.repetitions);
    suite.budget_usd = args.budget_usd.or(suite.budget_usd);
    suite.seed = args.seed.unwrap_or(suite.seed);
    suite.isolation = args.isolation.map(tier).or(suite.isolation);
    suite.jobs = args.jobs.or(suite.jobs);
    Ok(())
}

/// Returns the agents of the command line by their names in Ostler.
fn agents(args: &EvalRunArgs) -> Result<Vec<String>> {
    let here = environment::directory().map_err(Fault::internal)?;
    let (_, config) = config::load_in(args.config, &here)?;
    let known = args
        .agent
        .iter()
        .map(|name| match Catalogue(&config).find(name) {
            Some(info) => Ok(info.name),
            None => spec::find_agent(&config, name).map(|found| found.name),
        });
    known.collect()
}

fn contender(agent: &str, model: Option<&String>) -> Contender {
    let label = match model {
        Some(model) => format!("{agent}/{model}"),
        None => agent.to_owned(),
    };
    Contender {
        label,
        agent: agent.to_owned(),
        model: model.cloned(),
        settings: std::collections::BTreeMap::new(),
        prompt: None,
        instructions: None,
    }
}

pub(super) fn tier(tier: IsolationTier) -> Isolation {
    match tier {
        IsolationTier::Directory => Isolation::Directory,
        IsolationTier::Sandbox => Isolation::Sandbox,
        IsolationTier::PrivateRoot => Isolation::PrivateRoot,
    }
}

/// Finds a run and loads its suite again.
fn resume(args: &EvalRunArgs, store: &Store, name: &str) -> Result<(RunRow, Plan, Suite)> {
    let row = reports::find(store, name)?;
    let plan = reports::plan(&row)?;
    let suite = reload(&plan, args.config)?;
    let ledger = Ledger::new(store);
    if let Some(budget) = args.budget_usd {
        ledger.set_budget(&row.run, budget)?;
    }
    ledger.reopen(&row.run)?;
    Ok((row, plan, suite))
}

/// Loads the suite of a plan again.
pub(super) fn reload(plan: &Plan, config: crate::args::ConfigArgs) -> Result<Suite> {
    let texts = |key: &str| -> Vec<String> {
        let values = plan.inputs[key].as_array().into_iter().flatten();
        values
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    };
    let given = plan.inputs["variables"].as_object().into_iter().flatten();
    let source = EvalSourceArgs {
        paths: texts("paths").into_iter().map(PathBuf::from).collect(),
        variables: given
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
            .collect(),
        allow_env: texts("allow_env"),
        ..EvalSourceArgs::default()
    };
    let allow_private_hosts = plan.inputs["allow_private_hosts"] == true;
    let variables = files::variables(&source)?;
    files::load(
        &files::paths(&source)?,
        &variables,
        (config, allow_private_hosts),
    )
}

/// Returns what all trials share.
pub(in crate::cmd) fn services(
    program: Program,
    work_dir: Option<&Path>,
    options: TrialOptions,
    log_format: LogFormat,
) -> Result<TrialServices> {
    use ostler_eval::embedder::Embedder;
    let host = program.host();
    let cache = environment::cache_dir().ok_or_else(|| {
        Fault::usage("no directory for a cache: HOME is not set").hint("set XDG_CACHE_HOME")
    })?;
    let git = Git::new(&host, &cache.join("eval")).map_err(|error| usage!("{error}"))?;
    let work = work_dir.map_or_else(environment::work_dir, Path::to_owned);
    let program = Arc::new(program);
    Ok(TrialServices {
        evaluators: Evaluators::builtin(&host).with_judges(program.clone()),
        embedder: program,
        git,
        work,
        projections: vec![Arc::new(NormalizedLogs(log_format))],
        options,
    })
}

fn runner(
    args: &EvalRunArgs,
    store: Arc<Store>,
    (run, plan, suite): (&RunRow, &Plan, &Suite),
    observer: Arc<Progress>,
) -> Result<Runner> {
    let cases = plan.match_cases(suite).map_err(|error| usage!("{error}"))?;
    let host = environment::host().with_log(store.clone());
    let program = Program::new(args.policy.clone(), args.config, host, plan.share_login);
    let options = TrialOptions {
        isolation: plan.isolation,
        share_login: plan.share_login,
        keep_workspaces: args.keep_workspaces,
    };
    let jobs = plan.inputs["jobs"]
        .as_u64()
        .and_then(|jobs| u32::try_from(jobs).ok());
    Ok(Runner {
        services: services(
            program,
            args.work_dir.as_deref(),
            options,
            normalize::format(args.log_format),
        )?,
        run: run.run.clone(),
        artifacts: run.artifacts.clone(),
        cases,
        contenders: plan.contenders.clone(),
        place: Arc::new(Here),
        options: RunOptions {
            jobs: args.jobs.or(suite.jobs).or(jobs).unwrap_or(JOBS),
            fail_fast: args.fail_fast,
            retry: RetryPolicy {
                max_retries: args.retries,
                ..RetryPolicy::default()
            },
            heartbeat: Duration::from_secs(5),
            lease: Duration::from_secs(60),
            late_grace: Duration::ZERO,
            worker: Worker {
                name: format!("process {}", std::process::id()),
                pid: Some(std::process::id()),
            },
        },
        observer,
        store,
    })
}

/// Works on the run until it ends. The first Ctrl-C cancels it, a second one ends the program.
async fn work(runner: Arc<Runner>, progress: &Progress) -> Result<RunEnd> {
    let mut signals = Signals::listen()?;
    let (stop, cancelled) = watch::channel(false);
    let mut running = std::pin::pin!(runner.run(cancelled));
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            end = &mut running => return Ok(end?),
            _ = ticks.tick() => progress.tick(),
            signal = signals.next() => match signal {
                SignalAction::Continue => {}
                SignalAction::Interrupt | SignalAction::Terminate if *stop.borrow() => {
                    return Ok(RunEnd::Interrupted);
                }
                SignalAction::Interrupt | SignalAction::Terminate => {
                    errln!("Stopping. Finished trials are stored; press Ctrl-C again to quit now.");
                    stop.send_replace(true);
                }
            }
        }
    }
}
