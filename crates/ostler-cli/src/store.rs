//! The store of sessions, where the environment says that it is.

use std::path::Path;
use std::sync::Arc;

use ostler::Host;
use ostler::config::Config;
use ostler_store::{Filter, SessionRow, Store, StoreError};

use crate::args::StartArgs;
use crate::fault::Fault;
use crate::spec::LOOP;
use crate::{commands, environment, output};

/// Opens the store of this user, made if need be.
pub(crate) fn open_store() -> Result<Arc<Store>, Fault> {
    let dir = environment::state_dir().ok_or_else(|| {
        Fault::usage("there is no place to keep sessions: HOME is not set")
            .hint("OSTLER_STATE_DIR names a directory")
    })?;
    Store::open(&dir)
        .map(Arc::new)
        .map_err(|error| fault(&error))
}

/// The same to look into it: a store that cannot be written can perhaps be read, and that is told.
pub(crate) fn open_store_for_reading() -> Result<Arc<Store>, Fault> {
    let fault = match open_store() {
        Ok(store) => return Ok(store),
        Err(fault) => fault,
    };
    let Some(store) = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok())
    else {
        return Err(fault);
    };
    output::tell(&format!(
        "The sessions can only be read: {}",
        fault.outcome().message
    ));
    Ok(Arc::new(store))
}

/// The same for people.
pub(crate) fn fault(error: &StoreError) -> Fault {
    match error {
        StoreError::Ambiguous { .. } => Fault::usage(error.to_string()).hint("give more of the id"),
        StoreError::Running { pid, .. } => {
            Fault::usage(error.to_string()).hint(format!("stop process {pid} first"))
        }
        StoreError::Unusable { .. } => {
            Fault::internal(error).hint("OSTLER_STATE_DIR names another directory")
        }
        _ => Fault::internal(error),
    }
}

/// The surroundings in which a session is kept, and the store that keeps it; none when it is not to be kept, or cannot be.
pub(crate) struct SessionStorage {
    pub(crate) host: Host,
    pub(crate) store: Option<Arc<Store>>,
}

/// Makes ready to keep a session. A store that cannot be opened is told, and the run goes on without it.
pub(crate) fn prepare_storage(
    args: &mut StartArgs,
    dir: &Path,
    config: &Config,
) -> Result<SessionStorage, Fault> {
    let host = environment::host().with_commands(commands::choice(&args.commands)?);
    // Whoever wants nothing kept gets no directory and no database either.
    let store = match (!args.no_store).then(open_store).transpose() {
        Ok(store) => store,
        Err(fault) => {
            output::tell(&format!(
                "This session is not kept: {}",
                fault.outcome().message
            ));
            None
        }
    };
    if args.continue_latest {
        resume_latest(args, dir, (store.as_deref(), config))?;
    } else if let (None, Some(id), Some(store)) = (&args.agent, &args.agent_settings.resume, &store)
    {
        args.agent = agent_of(store, id, config)?;
    }
    let host = match &store {
        Some(store) => host.with_log(store.clone()),
        None => host,
    };
    Ok(SessionStorage { host, store })
}

/// Returns the agent of a session to resume, unless the one that would be used anyway is the same. An id that Ostler does not
/// know is not tried with any agent: the agent it belongs to has to be named.
fn agent_of(store: &Store, id: &str, config: &Config) -> Result<Option<String>, Fault> {
    let row = store.look_up(id).map_err(|error| fault(&error))?.ok_or_else(|| {
        Fault::usage(format!("there is no session {}", output::name(id))).hint(
            "`ostler sessions --all` lists them; to resume a session that only the agent knows, name it with `--agent`",
        )
    })?;
    // A configured name may stand for the same agent, with settings of its own.
    let usual = config
        .default_agent()
        .and_then(|entry| config.agent(entry.value.text()));
    Ok(Some(row.agent).filter(|own| usual.is_none_or(|agent| agent.name() != own)))
}

/// Returns the session that an id means, or an error that says how to find it.
pub(crate) fn resolve(store: &Store, id: &str) -> Result<SessionRow, Fault> {
    store
        .look_up(id)
        .map_err(|error| fault(&error))?
        .ok_or_else(|| {
            Fault::usage(format!("there is no session {}", output::name(id)))
                .hint("`ostler sessions --all` lists them; any unambiguous prefix of an id will do")
        })
}

/// Among how many of the newest sessions one is looked for that can be gone on with.
const RECENT: usize = 100;

/// The latest session of a directory is the one to go on with.
fn resume_latest(
    args: &mut StartArgs,
    dir: &Path,
    (store, config): (Option<&Store>, &Config),
) -> Result<(), Fault> {
    let kept = store.ok_or_else(|| Fault::usage("no sessions are kept here"))?;
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    // Sessions are kept under the agent's own name.
    let own = |name: &String| {
        config
            .agent(name)
            .map_or_else(|| name.clone(), |agent| agent.name().to_owned())
    };
    let filter = Filter {
        agent: args.agent.as_ref().map(own),
        dir: Some(real),
        limit: Some(RECENT),
        ..Filter::default()
    };
    let mut rows = kept
        .sessions(&filter)
        .map_err(|error| fault(&error))?
        .into_iter();
    // One whose agent never said how its session is called holds nothing that could be gone on with.
    let row = rows.find(|row| {
        let from_events = match config.agents().get(&row.agent) {
            Some(agent) => agent.dialect().resumes_from_events(),
            None => row.agent == LOOP && args.agent.as_deref() == Some(LOOP),
        };
        row.native_session.is_some() || from_events
    });
    let row = row.ok_or_else(|| {
        Fault::usage("there is no earlier session of this directory")
            .hint("`ostler sessions` lists those there are")
    })?;
    args.agent.get_or_insert(row.agent);
    args.agent_settings.resume = Some(row.session);
    Ok(())
}
