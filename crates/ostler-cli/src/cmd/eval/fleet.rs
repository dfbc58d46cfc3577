//! `ostler eval run --fleet`: the trials of a run on the workers of a fleet.

use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::runner::Runner;
use ostler_fleet::nats::Connection;
use ostler_fleet::owner::{FleetPlace, OwnerOptions};
use ostler_store::Worker;

use crate::args::EvalRunArgs;
use crate::cmd::worker::read_member;
use crate::environment;
use crate::fault::{Fault, Result};

/// Default lease.
const LEASE: Duration = Duration::from_secs(60);
/// How long to wait at the end of a run for results of lost attempts.
const LATE_GRACE: Duration = Duration::from_secs(5);
/// Name of attempts in the ledger that no worker has taken.
const QUEUED: &str = "fleet";

/// Makes a runner use the fleet. The run has no other owner while the returned file is open.
pub(super) async fn use_fleet(runner: &mut Runner, args: &EvalRunArgs) -> Result<File> {
    let lock = runner.artifacts.join("owner.lock");
    let file = File::create(&lock).map_err(|error| usage!("{}: {error}", lock.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let run = &runner.run;
            return Err(Fault::unavailable(format!(
                "another process is the owner of the run {run}"
            )));
        }
        Err(TryLockError::Error(error)) => return Err(usage!("{}: {error}", lock.display())),
    }
    let (path, member) = read_member(&args.member)?;
    let connection = Connection::open(&member.connect_settings(None, &path)?).await?;
    let run = runner.run.parse().map_err(Fault::internal)?;
    let lease = args.lease.and_then(|lease| lease.0).unwrap_or(LEASE);
    let options = OwnerOptions {
        name: member.name.clone(),
        key: Arc::new(member.member_key().map_err(Fault::internal)?),
        run,
        lease,
        labels: args.needs_label.iter().cloned().collect(),
        replicas: member.replicas,
    };
    let store = runner.store.clone();
    let place = FleetPlace::open(connection, options, store, environment::now).await?;
    runner.place = Arc::new(place);
    runner.options.worker = Worker {
        name: QUEUED.to_owned(),
        pid: None,
    };
    // The ledger's lease covers a restart of this process; the workers' are kept in memory.
    runner.options.lease = runner.options.lease.max(lease);
    runner.options.late_grace = LATE_GRACE;
    runner.options.jobs = args.jobs.unwrap_or(u32::MAX);
    Ok(file)
}
