//! Loading of `ostler.toml` files: their locations and the merged configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler::Agents;
use ostler::config::{Author, Config, Key, Origin, Source};
use ostler::trust::{FileKind, REMEDY, Standing, WorkspaceFile, within_repository};

use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Result;
use crate::trust::{Project, why_ignored};
use crate::{environment, files};

/// Name of the user's file.
const FILE: &str = "ostler.toml";

/// Environment variable for the agent.
const AGENT_VARIABLE: &str = "OSTLER_AGENT";

/// Environment variable for the model.
pub(crate) const MODEL_VARIABLE: &str = "OSTLER_MODEL";

/// Maximum number of ignored values to name in a warning.
const MAX_NAMED: usize = 12;

/// A path that is searched for a configuration file.
#[derive(Debug)]
pub(crate) struct ConfigLocation {
    pub(crate) whose: &'static str,
    pub(crate) file: PathBuf,
    pub(crate) exists: bool,
    /// Whether the file is trusted; only harmless values are used otherwise.
    pub(crate) standing: Standing,
}

/// Loads the configuration for an agent name. No file is read for the name of a built-in agent.
pub(crate) fn load_for(name: &str) -> Result<Config> {
    if Agents::builtin().get(name).is_some() {
        return Ok(Config::default());
    }
    Ok(load_in(ConfigArgs::default(), &directory(None)?)?.1)
}

/// Loads the project in a directory, and its configuration.
pub(crate) fn load_in(args: ConfigArgs, dir: &Path) -> Result<(Project, Config)> {
    let project = Project::read(args, &PolicyArgs::default(), dir)?;
    let config = load(args, &project)?;
    Ok((project, config))
}

/// Returns the absolute working directory.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf> {
    let here =
        environment::directory().map_err(|e| usage!("cannot use the current directory: {e}"))?;
    Ok(given.map_or_else(|| here.clone(), |dir| here.join(dir)))
}

/// Loads the configuration of a project: the user's file, overridden by the project's.
pub(crate) fn load(args: ConfigArgs, project: &Project) -> Result<Config> {
    let mut sources = Vec::new();
    if !args.no_config {
        sources.extend(user_source()?);
        let file = project.file(FileKind::Config);
        sources.extend(file.map(|file| source(file, file.is_trusted())));
    }
    let mut config = parse(&sources)?;
    if let Some(name) = agent()? {
        config.set(Key::Agent, name, Origin::Variable(AGENT_VARIABLE));
    }
    Ok(config)
}

/// Loads the user's own file, without any project's.
pub(crate) fn user(args: ConfigArgs) -> Result<Config> {
    let source = if args.no_config { None } else { user_source()? };
    parse(source.as_slice())
}

/// Loads the configuration with a project file that is treated as untrusted.
pub(crate) fn untrusted(file: &WorkspaceFile) -> Result<Config> {
    let mut sources: Vec<Source> = user_source()?.into_iter().collect();
    sources.push(source(file, false));
    parse(&sources)
}

fn parse(sources: &[Source]) -> Result<Config> {
    Config::load(sources, &Agents::builtin()).map_err(|error| {
        let hint = "see docs/configuration.md for the file format; `--no-config` ignores the file";
        usage!("{error}").hint(hint)
    })
}

fn source(file: &WorkspaceFile, is_trusted: bool) -> Source {
    Source {
        name: file.path().display().to_string(),
        text: file.text.clone(),
        dir: file.root.clone(),
        home: environment::home(),
        author: if is_trusted {
            Author::TrustedProject
        } else {
            Author::Unknown
        },
    }
}

/// Reads the user's file.
fn user_source() -> Result<Option<Source>> {
    let Some(dir) = user_config_dir() else {
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

fn user_config_dir() -> Option<PathBuf> {
    environment::config_dir().map(|dir| std::path::absolute(&dir).unwrap_or(dir))
}

/// Returns the agent from the environment.
pub(crate) fn agent() -> Result<Option<String>> {
    variable(AGENT_VARIABLE)
}

/// Returns the model from the environment, for any agent.
pub(crate) fn model() -> Result<Option<String>> {
    variable(MODEL_VARIABLE)
}

fn variable(name: &str) -> Result<Option<String>> {
    let value = environment::variable(name).filter(|value| !value.is_empty());
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|_| usage!("{name} is not UTF-8"))
}

/// Returns a warning about values of the project's file that were ignored.
pub(crate) fn ignored_warnings(config: &Config, project: &Project) -> Vec<String> {
    let ignored = config.ignored();
    let file = project.file(FileKind::Config);
    let Some(file) = file.filter(|_| !ignored.is_empty()) else {
        return Vec::new();
    };
    let keys = ignored.iter().take(MAX_NAMED);
    let keys: Vec<String> = keys.map(|it| it.entry.key.to_string()).collect();
    let more = if ignored.len() > MAX_NAMED {
        ", …"
    } else {
        ""
    };
    let count = match ignored.len() {
        1 => "one value is".to_owned(),
        count => format!("{count} values are"),
    };
    vec![format!(
        "{} {}: {count} ignored ({}{more}). {REMEDY} `ostler config show` explains why.",
        file.path().display(),
        why_ignored(file),
        keys.join(", "),
    )]
}

/// Returns every path that is searched, in the order the files are read.
pub(crate) fn locations(project: &Project) -> Vec<ConfigLocation> {
    let mut locations = Vec::new();
    let user_dir = user_config_dir();
    if let Some(dir) = &user_dir {
        let file = dir.join(FILE);
        locations.push(ConfigLocation {
            whose: "your own",
            exists: file.exists(),
            file,
            standing: Standing::Trusted,
        });
    }
    let user_dir = user_dir.and_then(|dir| dir.canonicalize().ok());
    let found = project.file(FileKind::Config);
    for root in within_repository(&project.root)
        .into_iter()
        .filter(|root| user_dir.as_deref() != Some(*root))
    {
        for name in FileKind::Config.names() {
            let here = found.filter(|file| file.root == root && file.name == *name);
            let standing = here.map_or(Standing::Untrusted, |file| file.standing);
            locations.push(ConfigLocation {
                whose: "the project's",
                file: root.join(name),
                exists: here.is_some(),
                standing,
            });
        }
        if found.is_some_and(|file| file.root == root) {
            break;
        }
    }
    locations
}
