//! `ostler eval`: runs suites of cases with agents, and reports the results.

pub(crate) mod catalogue;
mod exports;
mod files;
mod fleet;
pub(crate) mod init;
mod judges;
mod late;
mod new_case;
mod normalize;
mod program;
mod progress;
mod regrade;
mod reports;
mod run;
pub(crate) mod validate;

pub(super) use self::program::Program;
pub(super) use self::run::services;
use crate::args::{EvalArgs, EvalVerb};
use crate::exit::Code;
use crate::fault::Result;

/// Runs a verb of the evaluation.
pub(crate) async fn run(args: EvalArgs) -> Result<Code> {
    match args.verb {
        None => run::run(args.run).await,
        Some(EvalVerb::Run(args)) => run::run(*args).await,
        Some(EvalVerb::List(args)) => reports::list(&args),
        Some(EvalVerb::Report(args)) => reports::report(&args),
        Some(EvalVerb::Compare(args)) => reports::compare(&args),
        Some(EvalVerb::Gate(args)) => reports::gate(&args),
        Some(EvalVerb::Regrade(args)) => regrade::run_again(*args).await,
        Some(EvalVerb::Validate(args)) => files::check(&args),
        Some(EvalVerb::Init(args)) => init::init(&args.dir),
        Some(EvalVerb::NewCase(args)) => new_case::from_commit(&args).await,
        Some(EvalVerb::Promote(args)) => new_case::promote(&args).await,
        Some(EvalVerb::Normalize(args)) => normalize::normalize(&args),
    }
}
