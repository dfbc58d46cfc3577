//! `ostler eval regrade`: evaluates the stored changes of a run again.

use std::sync::Arc;

use ostler_eval::normalized::LogFormat;
use ostler_eval::plan::TrialFilter;
use ostler_eval::report::{human, json};
use ostler_eval::run_trial::{TrialOptions, TrialRequest, regrade};
use ostler_eval::trial::TrialResult;
use ostler_store::Ledger;

use super::program::Program;
use super::{reports, run};
use crate::args::EvalRegradeArgs;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::{environment, output, store};

pub(super) async fn run_again(args: EvalRegradeArgs) -> Result<Code> {
    environment::start_guard();
    let store = store::open_store()?;
    let row = reports::find(&store, &args.run)?;
    let plan = reports::plan(&row)?;
    let suite = run::reload(&plan, args.config)?;
    let filter = TrialFilter::new(&args.filter).map_err(|error| usage!("{error}"))?;
    let program = Program::new(
        args.policy.clone(),
        args.config,
        environment::host(),
        plan.share_login,
    );
    let options = TrialOptions {
        isolation: args.isolation.map(run::tier).or(plan.isolation),
        ..TrialOptions::default()
    };
    let services = run::services(
        program,
        args.work_dir.as_deref(),
        options,
        LogFormat::default(),
    )?;
    let ledger = Ledger::new(&store);
    let mut is_complete = true;
    for trial in ledger.trials(&row.run)? {
        let name = &trial.name;
        let Some(text) = trial.result.as_deref() else {
            continue;
        };
        if !filter.selects(&name.case, &name.contender) {
            continue;
        }
        let old: TrialResult = serde_json::from_str(text).map_err(Fault::internal)?;
        let case = suite.cases.iter().find(|case| case.name == name.case);
        let contender = plan.contenders.iter().find(|it| it.label == name.contender);
        let (Some(case), Some(contender)) = (case, contender) else {
            errln!(
                "warning: {} is not in the suite any more",
                output::name(&name.case)
            );
            is_complete = false;
            continue;
        };
        let request = TrialRequest {
            run: row.run.clone(),
            case: Arc::new(case.clone()),
            contender: contender.clone(),
            repetition: name.repetition,
            attempt: u64::from(old.attempts),
            artifacts: old.artifacts.clone(),
            cap_usd: None,
        };
        match regrade(&request, &services, &old).await {
            Ok(new) => {
                let text = serde_json::to_string(&new).map_err(Fault::internal)?;
                ledger.regrade(&row.run, trial.position, environment::now(), &text)?;
            }
            Err(error) => {
                is_complete = false;
                errln!(
                    "warning: {} cannot be regraded: {error}",
                    output::name(&name.case)
                );
            }
        }
    }
    let report = reports::of_run(&store, &row.run)?;
    if args.json {
        output::print_json(&json(&report));
    } else {
        output::print_line(human(&report, output::width()).trim_end());
    }
    Ok(exit::ok_if(is_complete && run::is_success(&report)))
}
