//! `ostler serve --fleet`: the daemon as an owner of sessions in a fleet.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::git::Git;
use ostler_fleet::nats::Connection;
use ostler_fleet::owner::sessions::{FleetSessions, SessionsOptions};
use ostler_fleet::subject::Token;
use ostler_store::Store;

use crate::args::ServeArgs;
use crate::cmd::sessions::bundles_dir;
use crate::cmd::worker::read_member;
use crate::environment;
use crate::fault::{Fault, Result};

/// Lease if none is given.
const LEASE: Duration = Duration::from_secs(60);

/// Connects to the fleet.
pub(super) async fn open(
    args: &ServeArgs,
    state_dir: &Path,
    store: &Store,
) -> Result<Arc<FleetSessions>> {
    let (path, member) = read_member(&args.member)?;
    let connection = Connection::open(&member.connect_settings(None, &path)?).await?;
    let cache = environment::cache_dir().ok_or_else(|| {
        Fault::usage("no directory for a cache: HOME is not set").hint("set XDG_CACHE_HOME")
    })?;
    let git = Git::new(&environment::host(), &cache.join("fleet"));
    let bundles = bundles_dir()?;
    clean(&bundles, store);
    let options = SessionsOptions {
        name: member.name.clone(),
        key: Arc::new(member.member_key().map_err(Fault::internal)?),
        run: own_run(state_dir)?,
        lease: args.lease.0.unwrap_or(LEASE),
        replicas: member.replicas,
        git: git.map_err(|error| usage!("{error}"))?,
        bundles,
    };
    Ok(FleetSessions::open(connection, options, environment::now).await?)
}

/// Returns the name of all sessions of this daemon. It is created once: another daemon with the
/// same member file has another one.
fn own_run(state_dir: &Path) -> Result<Token> {
    let dir = state_dir.join("fleet");
    let file = dir.join("run");
    if let Ok(text) = fs::read_to_string(&file)
        && let Ok(run) = text.trim().parse()
    {
        return Ok(run);
    }
    let run = Token::random();
    let written = fs::create_dir_all(&dir).and_then(|()| fs::write(&file, run.as_str()));
    written.map_err(|error| usage!("{}: {error}", file.display()))?;
    Ok(run)
}

/// Removes the bundles of sessions that were removed.
fn clean(bundles: &Path, store: &Store) {
    for entry in fs::read_dir(bundles).into_iter().flatten().flatten() {
        let path = entry.path();
        let session = path.file_stem().map(|name| name.to_string_lossy());
        let is_known = |session: &str| !matches!(store.session(session), Ok(None));
        if !session.is_some_and(|session| is_known(&session)) {
            let _ = fs::remove_file(&path); // tried again at the next start
        }
    }
}
