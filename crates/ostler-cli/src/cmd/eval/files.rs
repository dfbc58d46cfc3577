//! Files of the evaluation: paths, variables and loading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ostler_eval::case::{EvaluatorSpec, Suite};
use ostler_eval::load::{self, LoadOptions, Variables};
use ostler_eval::registry::Evaluators;

use super::catalogue::Catalogue;
use super::validate;
use crate::args::{ConfigArgs, EvalSourceArgs, EvalValidateArgs};
use crate::exit::Code;
use crate::fault::{Fault, Result};
use crate::{config, environment};

/// Returns the paths of a suite: arguments and `-c`.
pub(super) fn paths(source: &EvalSourceArgs) -> Result<Vec<PathBuf>> {
    let given: Vec<&PathBuf> = source.paths.iter().chain(&source.config_file).collect();
    if given.is_empty() {
        return Err(Fault::usage("no suite or case is given")
            .hint("run `ostler eval init` for an example, then `ostler eval run evaluation`"));
    }
    let here = environment::directory().map_err(Fault::internal)?;
    Ok(given.into_iter().map(|path| here.join(path)).collect())
}

/// Returns the values for `${NAME}`.
pub(super) fn variables(source: &EvalSourceArgs) -> Result<Variables> {
    let mut given = BTreeMap::new();
    for path in &source.var_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| usage!("--var-file {}: {error}", path.display()))?;
        let values = load::parse_variables(&text)
            .map_err(|error| usage!("--var-file {}: {error}", path.display()))?;
        given.extend(values);
    }
    for entry in &source.variables {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| usage!("--var {entry}: expected NAME=VALUE"))?;
        given.insert(name.to_owned(), value.to_owned());
    }
    let allowed: BTreeSet<String> = source.allow_env.iter().cloned().collect();
    let environment = allowed.iter().filter_map(|name| {
        let value = environment::variable(name)?.into_string().ok()?;
        Some((name.clone(), value))
    });
    Ok(Variables {
        given,
        environment: environment.collect(),
        allowed,
    })
}

/// Loads a suite. Faults in files are usage errors that name file, line and key.
pub(super) fn load(
    paths: &[PathBuf],
    variables: &Variables,
    (config_args, allow_private_hosts): (ConfigArgs, bool),
) -> Result<Suite> {
    let here = environment::directory().map_err(Fault::internal)?;
    let (_, config) = config::load_in(config_args, &here)?;
    let evaluators = Evaluators::builtin(&environment::host());
    let check = |spec: &EvaluatorSpec| evaluators.check(spec);
    let options = LoadOptions {
        agents: &Catalogue(&config),
        variables,
        check_evaluator: Some(&check),
        allow_private_hosts,
    };
    load::load(paths, &options)
        .map_err(|problems| usage!("{problems}").hint("see docs/eval.md for the file format"))
}

/// Checks files without running anything.
pub(super) fn check(args: &EvalValidateArgs) -> Result<Code> {
    let here = environment::directory().map_err(Fault::internal)?;
    let (_, config) = config::load_in(args.config, &here)?;
    let options = validate::Options {
        config: &config,
        variables: &variables(&args.source)?,
        allow_private_hosts: args.source.allow_private_hosts,
        json: args.json,
    };
    validate::validate(&paths(&args.source)?, &options)
}
