//! The files `ostler.toml`: where they are, and what they say together.

use std::path::PathBuf;

use ostler::Agents;
use ostler::config::{Author, Config, Key, Origin, Source};
use ostler::trust::{FileKind, REMEDY, Standing, WorkspaceFile};

use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Fault;
use crate::trust::{Project, within_repository};
use crate::{environment, files};

/// The name of the user's own file.
const FILE: &str = "ostler.toml";

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
    pub(crate) standing: Standing,
}

/// The configuration for a name that is no agent's own; where it is one, no file is read.
pub(crate) fn load_for(name: &str) -> Result<Config, Fault> {
    if Agents::builtin().get(name).is_some() {
        return Ok(Config::default());
    }
    let here = environment::directory()
        .map_err(|e| Fault::usage(format!("this directory cannot be used: {e}")))?;
    let args = ConfigArgs::default();
    load(args, &Project::read(args, &PolicyArgs::default(), &here)?)
}

/// Loads the configuration that holds in a project: the user's own file, and the project's over it.
pub(crate) fn load(args: ConfigArgs, project: &Project) -> Result<Config, Fault> {
    let mut sources = Vec::new();
    if !args.no_config {
        sources.extend(own()?);
        sources.extend(project.file(FileKind::Config).map(|file| {
            source(
                file,
                if file.is_trusted() {
                    Author::Trusted
                } else {
                    Author::Unknown
                },
            )
        }));
    }
    let mut config = parse(&sources)?;
    if let Some(name) = variable(AGENT_VARIABLE)? {
        config.give(Key::Agent, name, Origin::Variable(AGENT_VARIABLE));
    }
    Ok(config)
}

/// The configuration with a project's file that nobody trusts.
pub(crate) fn untrusted(file: &WorkspaceFile) -> Result<Config, Fault> {
    let own = own()?;
    parse(
        &own.into_iter()
            .chain([source(file, Author::Unknown)])
            .collect::<Vec<_>>(),
    )
}

fn parse(sources: &[Source]) -> Result<Config, Fault> {
    Config::load(sources, &Agents::builtin()).map_err(|error| {
        let hint = "docs/configuration.md describes the file; --no-config leaves it out.";
        Fault::usage(error.to_string()).hint(hint)
    })
}

fn source(file: &WorkspaceFile, author: Author) -> Source {
    let name = file.root.join(&file.name).display().to_string();
    Source {
        name,
        text: file.text.clone(),
        dir: file.root.clone(),
        home: environment::home(),
        author,
    }
}

/// The user's own file.
fn own() -> Result<Option<Source>, Fault> {
    let Some(dir) = own_directory() else {
        return Ok(None);
    };
    let file = dir.join(FILE);
    let name = file.display().to_string();
    let text = files::text(&file)?;
    Ok(text.map(|text| Source {
        name,
        text,
        dir,
        home: environment::home(),
        author: Author::Trusted,
    }))
}

fn own_directory() -> Option<PathBuf> {
    environment::config_dir().map(|dir| std::path::absolute(&dir).unwrap_or(dir))
}

/// The model that the environment names, for whatever agent.
pub(crate) fn model() -> Result<Option<String>, Fault> {
    variable(MODEL_VARIABLE)
}

fn variable(name: &str) -> Result<Option<String>, Fault> {
    let value = environment::variable(name).filter(|value| !value.is_empty());
    let text = value.map(|value| {
        value
            .into_string()
            .map_err(|_| Fault::usage(format!("{name} is not UTF-8")))
    });
    text.transpose()
}

/// What was not taken of the project's file, in one sentence.
pub(crate) fn remarks(config: &Config, project: &Project) -> Vec<String> {
    let ignored = config.ignored();
    let Some(file) = project
        .file(FileKind::Config)
        .filter(|_| !ignored.is_empty())
    else {
        return Vec::new();
    };
    let keys: Vec<String> = ignored
        .iter()
        .take(NAMED)
        .map(|ignored| ignored.entry.key.to_string())
        .collect();
    vec![format!(
        "{} {}: {} not taken ({}). {REMEDY} `ostler config show` says why.",
        file.root.join(&file.name).display(),
        if file.standing == Standing::Changed {
            "has changed since you trusted it"
        } else {
            "is not trusted"
        },
        if ignored.len() == 1 {
            "one value is".to_owned()
        } else {
            format!("{} values are", ignored.len())
        },
        keys.join(", ") + if ignored.len() > NAMED { ", …" } else { "" },
    )]
}

/// Every place that is looked at, in the order in which the files are read.
pub(crate) fn places(project: &Project) -> Vec<Place> {
    let mut places = Vec::new();
    let own = own_directory();
    if let Some(dir) = &own {
        let file = dir.join(FILE);
        places.push(Place {
            whose: "your own",
            is_there: file.exists(),
            file,
            standing: Standing::Trusted,
        });
    }
    let own = own.and_then(|dir| dir.canonicalize().ok());
    let found = project.file(FileKind::Config);
    for root in within_repository(&project.root)
        .into_iter()
        .filter(|root| own.as_deref() != Some(*root))
    {
        for name in FileKind::Config.names() {
            let here = found.filter(|file| file.root == root && file.name == *name);
            let standing = here.map_or(Standing::Untrusted, |file| file.standing);
            places.push(Place {
                whose: "the project's",
                file: root.join(name),
                is_there: here.is_some(),
                standing,
            });
        }
        if found.is_some_and(|file| file.root == root) {
            break;
        }
    }
    places
}
