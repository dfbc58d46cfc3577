//! Access to the session store in the state directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::agent::Breakers;
use ostler::config::Config;
use ostler::spec::Attendance;
use ostler::{Event, Host};
use ostler_store::{Filter, Log, SessionRow, Store, StoreError};

use crate::args::StartArgs;
use crate::fault::{Fault, Result};
use crate::spec::LOOP;
use crate::trust::Project;
use crate::{commands, config, environment, output, trust_review};

/// Opens the user's store, creating it if necessary.
pub(crate) fn open_store() -> Result<Arc<Store>> {
    Ok(Arc::new(Store::open(&store_dir()?)?))
}

fn store_dir() -> Result<PathBuf> {
    environment::state_dir().ok_or_else(|| {
        Fault::usage("no directory to store sessions in: HOME is not set")
            .hint("set OSTLER_STATE_DIR to a directory")
    })
}

/// Opens the store for reading. If it is not writable, opens it read-only with a warning.
pub(crate) fn open_store_for_reading() -> Result<Arc<Store>> {
    let fault = match open_store() {
        Ok(store) => return Ok(store),
        Err(fault) => fault,
    };
    let Some(store) = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok())
    else {
        return Err(fault);
    };
    errln!(
        "warning: sessions are read-only: {}",
        fault.outcome().message
    );
    Ok(Arc::new(store))
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Ambiguous { .. } => usage!("{error}").hint("use a longer prefix of the id"),
            StoreError::Running { pid, .. } => {
                usage!("{error}").hint(format!("stop process {pid} first"))
            }
            StoreError::Unusable { .. } => {
                Self::internal(error).hint("set OSTLER_STATE_DIR to another directory")
            }
            _ => Self::internal(error),
        }
    }
}

/// The host for a session, and the store it is saved to; `None` if the session is not stored.
pub(crate) struct SessionStorage {
    pub(crate) host: Host,
    pub(crate) store: Option<Arc<Store>>,
}

/// Prepares storing of a session. If the store cannot be opened, prints a warning and continues
/// without it.
pub(crate) fn prepare_storage(
    args: &mut StartArgs,
    dir: &Path,
    config: &Config,
) -> Result<SessionStorage> {
    let host = environment::host().with_commands(commands::choice(&args.commands)?);
    // With `--no-store`, neither the directory nor the database is created.
    let is_read = args.continue_latest || args.agent_settings.resume.is_some();
    let open = || match is_read {
        true => open_store(),
        // Meanwhile, the agent starts. A notice of the session reports a failure.
        false => Ok(Arc::new(Store::open_in_background(&store_dir()?)?)),
    };
    let store = match (!args.no_store).then(open).transpose() {
        Ok(store) => store,
        Err(fault) => {
            errln!(
                "warning: the session is not stored: {}",
                fault.outcome().message
            );
            None
        }
    };
    if args.continue_latest {
        resume_latest(args, dir, store.as_deref(), config)?;
    } else if let (None, Some(id), Some(store)) = (&args.agent, &args.agent_settings.resume, &store)
    {
        args.agent = agent_of(store, id, config)?;
    }
    let host = match &store {
        Some(store) => host.with_log(store.clone()).with_breakers(breakers()),
        None => host,
    };
    Ok(SessionStorage { host, store })
}

/// Returns the circuit breakers that all processes share.
pub(crate) fn breakers() -> Breakers {
    match environment::state_dir() {
        Some(dir) => Breakers::stored_in(dir.join("breakers")),
        None => Breakers::default(),
    }
}

/// The project that a session works in, and what its agent starts with.
pub(crate) struct OpenedProject {
    pub(crate) project: Project,
    pub(crate) config: Config,
    pub(crate) host: Host,
    pub(crate) store: Option<Arc<Store>>,
}

/// Opens the project in a directory for a session.
pub(crate) fn open_project(
    args: &mut StartArgs,
    dir: &Path,
    attendance: Attendance,
) -> Result<OpenedProject> {
    let project = trust_review::open(args.config, &args.policy, dir, attendance)?;
    let config = config::load(args.config, &project)?;
    let SessionStorage { host, store } = prepare_storage(args, dir, &config)?;
    Ok(OpenedProject {
        host: trust_review::attach(host, &project, &config)?,
        project,
        config,
        store,
    })
}

/// Number of events to read at once.
const PAGE: usize = 1_000;

/// Iterates over the events of a session, page by page.
pub(crate) fn pages(store: &Store, session: &str) -> impl Iterator<Item = Result<Vec<Event>>> {
    let mut next = 1;
    std::iter::from_fn(move || {
        let page = store.read(session, next, PAGE).map_err(Fault::internal);
        if let Ok(events) = &page {
            next = events.last()?.seq + 1;
        }
        Some(page)
    })
}

/// Returns the agent of a session to resume, or `None` if the default agent is the same. An unknown
/// id is an error: for a session that only the agent knows, the agent must be named.
fn agent_of(store: &Store, id: &str, config: &Config) -> Result<Option<String>> {
    let row = store.look_up(id)?.ok_or_else(|| {
        usage!("no session {}", output::name(id)).hint(
            "run `ostler sessions --all` to list sessions; \
             if only the agent knows the session, add `--agent NAME`",
        )
    })?;
    // A configured name may refer to the same agent with different settings.
    let usual = config
        .default_agent()
        .and_then(|entry| config.agent(entry.value.text()));
    Ok(Some(row.agent).filter(|own| usual.is_none_or(|agent| agent.about().name != own)))
}

/// Returns the session with this id or prefix, or an error with a hint.
pub(crate) fn resolve(store: &Store, id: &str) -> Result<SessionRow> {
    store.look_up(id)?.ok_or_else(|| {
        usage!("no session {}", output::name(id)).hint(
            "run `ostler sessions --all` to list sessions; a unique prefix of an id is enough",
        )
    })
}

/// Number of recent sessions to search for one that can be resumed.
const RECENT: usize = 100;

/// Selects the latest session of a directory to resume.
fn resume_latest(
    args: &mut StartArgs,
    dir: &Path,
    store: Option<&Store>,
    config: &Config,
) -> Result<()> {
    let store = store.ok_or_else(|| Fault::usage("sessions are not stored"))?;
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    // Sessions are stored under the agent's own name.
    let own = |name: &String| {
        config
            .agent(name)
            .map_or_else(|| name.clone(), |agent| agent.about().name.to_owned())
    };
    let filter = Filter {
        agent: args.agent.as_ref().map(own),
        dir: Some(real),
        limit: Some(RECENT),
        ..Filter::default()
    };
    let mut rows = store.sessions(&filter)?.into_iter();
    // A session whose agent never reported an id cannot be resumed.
    let row = rows.find(|row| {
        let from_events = match config.agents().get(&row.agent) {
            Some(agent) => agent.about().capabilities.resumes_from_events,
            None => row.agent == LOOP && args.agent.as_deref() == Some(LOOP),
        };
        row.native_session.is_some() || from_events
    });
    let row = row.ok_or_else(|| {
        Fault::usage("no session to resume in this directory")
            .hint("run `ostler sessions` to list all sessions")
    })?;
    args.agent.get_or_insert(row.agent);
    args.agent_settings.resume = Some(row.session);
    Ok(())
}
