//! The files `ostler.toml`: where they are, and what they say together.

use std::path::{Path, PathBuf};

use ostler::Agents;
use ostler::clip::plain;
use ostler::config::{Author, Config, Key, Origin, Source};

use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Fault;
use crate::output::tell;
use crate::{environment, files, policy};

/// What a file is called.
const FILE: &str = "ostler.toml";

/// The same where a project keeps what is Ostler's.
const HIDDEN: &str = ".ostler/ostler.toml";

/// The variable that names the agent.
const AGENT_VARIABLE: &str = "OSTLER_AGENT";

/// The variable that names the model.
pub(crate) const MODEL_VARIABLE: &str = "OSTLER_MODEL";

/// So many values are named of those that were not taken.
const NAMED: usize = 12;

/// A place that is looked at for a file.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) whose: &'static str,
    pub(crate) file: PathBuf,
    pub(crate) is_there: bool,
    /// Whether all of it is taken.
    pub(crate) is_trusted: bool,
    /// What paths in it are relative to.
    dir: PathBuf,
}

/// The configuration that holds in a directory, and what there is to say about it.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) remarks: Vec<String>,
}

/// Loads the configuration that holds in a directory, and tells what was not taken.
pub(crate) fn load(args: ConfigArgs, policy: &PolicyArgs, dir: &Path) -> Result<Config, Fault> {
    let Loaded { config, remarks } = gather(args, policy, dir)?;
    remarks.iter().for_each(|remark| tell(&plain(remark)));
    Ok(config)
}

/// The configuration for a name that is no agent's own; where it is one, no file is read.
pub(crate) fn load_for(name: &str) -> Result<Config, Fault> {
    if Agents::builtin().get(name).is_some() {
        return Ok(Config::default());
    }
    let here = environment::directory().map_err(|e| Fault::usage(format!("this directory cannot be used: {e}")))?;
    Ok(gather(ConfigArgs::default(), &PolicyArgs::default(), &here)?.config)
}

/// Reads the files and puts them over each other.
pub(crate) fn gather(args: ConfigArgs, policy: &PolicyArgs, dir: &Path) -> Result<Loaded, Fault> {
    let places = if args.no_config { Vec::new() } else { places(policy, dir)? };
    let mut sources = Vec::new();
    for place in places.iter().filter(|place| place.is_there) {
        let Some(text) = files::text(&place.file)? else { continue };
        let author = if place.is_trusted { Author::Trusted } else { Author::Unknown };
        let name = place.file.display().to_string();
        sources.push(Source { name, text, dir: place.dir.clone(), home: environment::home(), author });
    }
    let mut config = Config::load(&sources, &Agents::builtin()).map_err(|error| {
        let hint = "docs/configuration.md describes the file; --no-config leaves it out.";
        Fault::usage(error.to_string()).hint(hint)
    })?;
    if let Some(name) = variable(AGENT_VARIABLE)? {
        config.give(Key::Agent, name, Origin::Variable(AGENT_VARIABLE));
    }
    let remarks = remark(&config, &places);
    Ok(Loaded { config, remarks })
}

/// The model that the environment names, for whatever agent.
pub(crate) fn model() -> Result<Option<String>, Fault> {
    variable(MODEL_VARIABLE)
}

fn variable(name: &str) -> Result<Option<String>, Fault> {
    let value = environment::variable(name).filter(|value| !value.is_empty());
    let text = value.map(|value| value.into_string().map_err(|_| Fault::usage(format!("{name} is not UTF-8"))));
    text.transpose()
}

/// What was not taken, in one sentence.
fn remark(config: &Config, places: &[Place]) -> Vec<String> {
    let ignored = config.ignored();
    let Some(place) = places.iter().find(|place| place.is_there && !place.is_trusted).filter(|_| !ignored.is_empty())
    else {
        return Vec::new();
    };
    let keys: Vec<String> = ignored.iter().take(NAMED).map(|ignored| ignored.entry.key.to_string()).collect();
    vec![format!(
        "{} came with the project: {} not taken ({}). Read it; --trust-project, or trusted_projects in your own policy, \
         takes all of it, and `ostler config show` says why.",
        place.file.display(),
        if ignored.len() == 1 { "one value is".to_owned() } else { format!("{} values are", ignored.len()) },
        keys.join(", ") + if ignored.len() > NAMED { ", …" } else { "" },
    )]
}

/// Every place that is looked at, in the order in which the files are read.
pub(crate) fn places(policy: &PolicyArgs, dir: &Path) -> Result<Vec<Place>, Fault> {
    let mut places = Vec::new();
    let own = environment::config_dir().map(|dir| std::path::absolute(&dir).unwrap_or(dir));
    if let Some(dir) = &own {
        let file = dir.join(FILE);
        let is_there = file.exists();
        places.push(Place { whose: "your own", file, is_there, is_trusted: true, dir: dir.clone() });
    }
    // Where the project really is: a link does not make it a trusted one. If it is nowhere, the run is going to say so.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let own = own.and_then(|dir| dir.join(FILE).canonicalize().ok());
    for root in within_repository(&real) {
        let candidates = [root.join(FILE), root.join(HIDDEN)];
        let there: Vec<bool> = candidates
            .iter()
            .map(|file| file.symlink_metadata().is_ok() && (own.is_none() || file.canonicalize().ok() != own))
            .collect();
        if there == [true, true] {
            let [first, second] = candidates.map(|file| file.display().to_string());
            return Err(Fault::usage(format!("there are two files: {first} and {second}")).hint("keep one of them"));
        }
        let is_found = there.contains(&true);
        let is_trusted = is_found && policy::trusts(policy, root)?;
        for (file, is_there) in candidates.into_iter().zip(there) {
            places.push(Place { whose: "the project's", file, is_there, is_trusted, dir: root.to_owned() });
        }
        if is_found {
            break;
        }
    }
    Ok(places)
}

/// The directory and those above it, up to the root of the repository; outside of one, the directory alone.
fn within_repository(dir: &Path) -> Vec<&Path> {
    let all: Vec<&Path> = dir.ancestors().collect();
    let depth = all.iter().position(|dir| dir.join(".git").exists()).unwrap_or(0);
    all[..=depth].to_vec()
}
