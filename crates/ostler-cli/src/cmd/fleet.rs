//! `ostler fleet`: sets up a fleet, and shows its status.

mod server;
mod status;
mod up;

use std::path::Path;

use ostler_fleet::setup::{FleetDir, NewFleet, SetupError};
use ostler_fleet::subject::Token;
use serde_json::json;

use crate::args::{
    FleetAddWorkerArgs, FleetArgs, FleetInitArgs, FleetPrepareArgs, FleetRemoveWorkerArgs,
    FleetVerb,
};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{counted, print_json};

pub(crate) async fn run(args: FleetArgs) -> Result<Code> {
    match args.verb {
        FleetVerb::Init(args) => init(&args),
        FleetVerb::AddWorker(args) => add_worker(&args),
        FleetVerb::RemoveWorker(args) => remove_worker(&args),
        FleetVerb::Prepare(args) => prepare(&args).await,
        FleetVerb::Status(args) => status::run(args).await,
        FleetVerb::Up(args) => up::run(*args).await,
    }
}

impl From<SetupError> for Fault {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Member(error) => error.into(),
            SetupError::Fleet(error) => error.into(),
            SetupError::Exists(_) => {
                usage!("{error}").hint("name a new directory, or use `ostler fleet add-worker`")
            }
            SetupError::NoFleet(_) => usage!("{error}")
                .hint("run `ostler fleet init`, or name its directory with `--dir`"),
            error => usage!("{error}"),
        }
    }
}

fn init(args: &FleetInitArgs) -> Result<Code> {
    let new = NewFleet {
        hosts: args.host.clone(),
        port: args.port,
        listen: args.listen.clone(),
        owners: args.owner.clone(),
        workers: args.worker.clone(),
        replicas: args.replicas,
    };
    let fleet = FleetDir::create(&args.dir, &new, environment::now())?;
    if args.json {
        print_json(&description(&fleet));
        return Ok(exit::OK);
    }
    let shown = args.dir.display();
    outln!("{shown} describes a fleet on {}.\n", fleet.fleet.url);
    outln!("1. Start the server on this machine:");
    outln!(
        "     nats-server --config {}",
        fleet.server_config().display()
    );
    outln!("2. Create its streams, once it runs:");
    outln!("     ostler fleet prepare --dir {shown}");
    outln!("3. Copy each member's files to its machine, as that machine's user:");
    for member in fleet.fleet.owners.keys().chain(fleet.fleet.workers.keys()) {
        print_copy(&fleet, member);
    }
    outln!("4. On each worker's machine:");
    outln!("     ostler worker");
    outln!("5. On an owner's machine:");
    outln!("     ostler fleet status");
    outln!("     ostler eval run SUITE --fleet");
    outln!("     ostler serve --fleet --detach && ostler run --fleet TASK");
    outln!("\nThe member files contain private keys. Remove the copies here once they are copied.");
    Ok(exit::OK)
}

/// Prints how a member's files get to its machine.
fn print_copy(fleet: &FleetDir, member: &Token) {
    let dir = fleet.member_dir(member);
    outln!("     ssh {member} mkdir -p .config/ostler");
    outln!("     scp {}/* {member}:.config/ostler/", dir.display());
}

/// Returns where everything is, without secrets.
fn description(fleet: &FleetDir) -> serde_json::Value {
    let members = |names: &mut dyn Iterator<Item = &Token>| -> serde_json::Value {
        names
            .map(|name| json!({"name": name, "dir": fleet.member_dir(name)}))
            .collect()
    };
    json!({
        "url": fleet.fleet.url,
        "server_config": fleet.server_config(),
        "server_log": fleet.log_file(),
        "owners": members(&mut fleet.fleet.owners.keys()),
        "workers": members(&mut fleet.fleet.workers.keys()),
    })
}

/// Prints how the running server takes over a changed configuration.
fn print_reload(fleet: &FleetDir, dir: &Path) {
    outln!("1. Reload the server's configuration twice; a new account needs the second reload:");
    for _ in 0..2 {
        outln!(
            "     nats-server --signal reload={}",
            fleet.pid_file().display()
        );
    }
    outln!("2. Create what is missing on the server:");
    outln!("     ostler fleet prepare --dir {}", dir.display());
}

fn add_worker(args: &FleetAddWorkerArgs) -> Result<Code> {
    let dir = &args.fleet.dir;
    let mut fleet = FleetDir::open(dir)?;
    let files = fleet.add_worker(&args.name)?;
    if args.fleet.json {
        print_json(&json!({"worker": args.name, "dir": files}));
        return Ok(exit::OK);
    }
    outln!("Added worker {} to the fleet.\n", args.name);
    print_reload(&fleet, dir);
    outln!("3. Copy its files to its machine, and start `ostler worker` there:");
    print_copy(&fleet, &args.name);
    Ok(exit::OK)
}

fn remove_worker(args: &FleetRemoveWorkerArgs) -> Result<Code> {
    let mut fleet = FleetDir::open(&args.fleet.dir)?;
    fleet.remove_worker(&args.name)?;
    if args.fleet.json {
        print_json(&json!({"worker": args.name}));
        return Ok(exit::OK);
    }
    outln!("Removed worker {} from the fleet.", args.name);
    outln!("Reload the server's configuration, which also ends its connection:");
    outln!(
        "  nats-server --signal reload={}",
        fleet.pid_file().display()
    );
    Ok(exit::OK)
}

async fn prepare(args: &FleetPrepareArgs) -> Result<Code> {
    let fleet = FleetDir::open(&args.fleet.dir)?;
    fleet.prepare().await?;
    let workers = u64::try_from(fleet.fleet.workers.len()).unwrap_or(u64::MAX);
    if args.fleet.json {
        print_json(&json!({"url": fleet.fleet.url, "workers": workers}));
    } else {
        let url = &fleet.fleet.url;
        outln!("{url} is ready for {}.", counted(workers, "worker"));
    }
    Ok(exit::OK)
}
