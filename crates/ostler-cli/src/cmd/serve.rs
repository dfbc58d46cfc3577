//! `ostler serve`: runs the daemon.

mod embedder;
mod fleet;
#[cfg(target_os = "linux")]
mod memory;
mod unit;
mod webhooks;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler::config::Config;
use ostler::detached::DetachedChild;
use ostler_daemon::client::Client;
use ostler_daemon::{
    Daemon, InstanceError, ManagerOptions, NotifyCommand, Options, ParallelLimits, ServeError,
    token_path,
};

use crate::args::ServeArgs;
use crate::daemon::socket;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_line;
use crate::signals::{SignalAction, Signals};
use crate::{config, environment, store};

/// How long to wait for a daemon in the background.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that stands for "never": a hundred years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Runs the daemon, or prints what a client needs.
pub(crate) async fn run(args: ServeArgs) -> Result<Code> {
    let socket = socket()?;
    if args.print_socket {
        print_line(&socket.display().to_string());
        return Ok(exit::OK);
    }
    if args.print_token {
        let path = token_path(&socket);
        let text = std::fs::read_to_string(&path).map_err(|_| {
            Fault::unavailable("there is no token")
                .hint("start the daemon with `ostler serve --listen 127.0.0.1:PORT`")
        })?;
        print_line(text.trim());
        return Ok(exit::OK);
    }
    if args.print_code {
        let code = Client::new(&socket).approval_code().await;
        print_line(&code?.code);
        return Ok(exit::OK);
    }
    if let Some(kind) = args.print_unit {
        let program = environment::own_program().map_err(Fault::internal)?;
        print_line(&unit::text(kind, &program, &args.unit_flags()));
        return Ok(exit::OK);
    }
    if args.detach {
        return detach(&socket).await;
    }
    serve(args, socket).await
}

async fn serve(args: ServeArgs, socket: PathBuf) -> Result<Code> {
    let store = store::open_store()?;
    let state_dir = environment::state_dir().unwrap_or_default();
    let time = |time: crate::args::Time| time.0.unwrap_or(NEVER);
    let manager = ManagerOptions {
        parallel: ParallelLimits {
            total: usize::try_from(args.max_sessions).unwrap_or(usize::MAX),
            per_agent: usize::try_from(args.max_sessions_per_agent).unwrap_or(usize::MAX),
        },
        approval_timeout: time(args.approval_timeout),
        drain: time(args.drain),
    };
    let fleet = match args.fleet {
        true => Some(fleet::open(&args, &state_dir, &store).await?),
        false => None,
    };
    let config = config::user(args.config)?;
    let notify = match &args.notify {
        Some(text) => Some(notify_command(text)?),
        None => configured_command(&config),
    };
    let options = Options {
        state_dir,
        socket: socket.clone(),
        listen: args.listen,
        store,
        embedder: Arc::new(embedder::Program::new(
            args.policy,
            args.config,
            args.sandbox,
            fleet.clone(),
        )),
        breakers: store::breakers(),
        webhooks: webhooks::of(&config)?,
        notify,
        manager,
    };
    let mut signals = Signals::listen()?;
    let daemon = Daemon::start(options).await.map_err(fault)?;
    if let Some(fleet) = fleet {
        fleet.recovered();
    }
    print_line(&socket.display().to_string());
    report(&daemon);
    #[cfg(target_os = "linux")]
    memory::release_program_pages();
    let mut interrupted = 0;
    let stop = async || {
        stop_signal(&mut signals).await;
        interrupted += 1;
        if interrupted == 1 {
            errln!("stopping: running turns may finish; signal again to end them now");
        }
    };
    daemon.serve(stop).await;
    Ok(exit::OK)
}

/// Returns the command in the user's file. A project's file cannot define one.
fn configured_command(config: &Config) -> Option<NotifyCommand> {
    let (program, args) = config.notify()?.split_first()?;
    Some(NotifyCommand {
        program: program.into(),
        args: args.to_vec(),
    })
}

/// Splits a command into its words. There is no shell.
fn notify_command(text: &str) -> Result<NotifyCommand> {
    let words = shlex::split(text).unwrap_or_default();
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| {
        usage!("--notify {text:?}: expected a program and its arguments").hint("check the quotes")
    })?;
    Ok(NotifyCommand {
        program: program.into(),
        args: words.collect(),
    })
}

/// Reports what was recovered, and how to reach the daemon over TCP.
fn report(daemon: &Daemon) {
    let recovered = daemon.recovered;
    if recovered.closed > 0 {
        errln!(
            "{} sessions of an earlier daemon were closed, and {} processes were killed",
            recovered.closed,
            recovered.killed
        );
    }
    if recovered.rejoined > 0 {
        errln!(
            "{} sessions in the fleet are followed again",
            recovered.rejoined
        );
    }
    if recovered.failed > 0 {
        errln!(
            "{} sessions of an earlier daemon could not be closed",
            recovered.failed
        );
    }
    if recovered.queued > 0 {
        errln!(
            "{} sessions that were waiting are started",
            recovered.queued
        );
    }
    if let (Some(address), Some(code)) = (daemon.address, &daemon.approval_code) {
        errln!("listening on http://{address}; print the token with `ostler serve --print-token`");
        // A log file or a journal could be read by an agent.
        if std::io::stderr().is_terminal() {
            errln!("approval code: {} (to approve over TCP)", code.reveal());
        } else {
            errln!("print the code to approve over TCP with `ostler serve --print-code`");
        }
    }
}

/// Waits for a signal that stops the program. Cancel safe.
async fn stop_signal(signals: &mut Signals) {
    while signals.next().await == SignalAction::Continue {}
}

fn fault(error: ServeError) -> Fault {
    match error {
        ServeError::Instance(InstanceError::Running(_)) => Fault::unavailable(error.to_string())
            .hint("use it, or stop it first; `ostler sessions --watch` shows its sessions"),
        ServeError::Webhook(_) => Fault::usage(error.to_string())
            .hint("correct it in your ostler.toml; see docs/daemon.md"),
        ServeError::NotLoopback(_) => Fault::usage(error.to_string())
            .hint("use 127.0.0.1, and a tunnel such as `ssh -L` from other machines"),
        ServeError::Instance(InstanceError::PathTooLong(_)) => Fault::usage(error.to_string())
            .hint("set XDG_RUNTIME_DIR to a directory with a shorter path"),
        error => Fault::internal(error),
    }
}

/// Starts the daemon in the background and waits until it answers.
async fn detach(socket: &Path) -> Result<Code> {
    let client = Client::new(socket);
    if client.is_running().await {
        return Err(Fault::unavailable("a daemon is already running")
            .hint("`ostler sessions --watch` shows its sessions"));
    }
    let args = environment::args().skip(1);
    let args: Vec<OsString> = args.filter(|arg| arg != "--detach").collect();
    let (child, log) = start_in_background(&args)?;
    wait_until_ready(&client, child, &log).await?;
    print_line(&socket.display().to_string());
    Ok(exit::OK)
}

/// Starts a daemon in the background for another verb, and waits until it answers.
pub(super) async fn start(client: &Client) -> Result<()> {
    let (child, log) = start_in_background(&["serve".into()])?;
    wait_until_ready(client, child, &log).await
}

/// Starts this program with these arguments. Returns the process and its log file.
fn start_in_background(args: &[OsString]) -> Result<(DetachedChild, PathBuf)> {
    let dir = environment::state_dir().unwrap_or_default();
    let path = dir.join("daemon.log");
    store::open_store()?; // creates the directory
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let log = options.open(&path).map_err(Fault::internal)?;
    let program = environment::own_program().map_err(Fault::internal)?;
    let child = ostler::detached::spawn(&program, args, log).map_err(Fault::internal)?;
    Ok((child, path))
}

/// Waits until the daemon answers. Fails at once if it exits before.
async fn wait_until_ready(client: &Client, mut child: DetachedChild, log: &Path) -> Result<()> {
    let ready = async {
        while !client.is_running().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let is_ready = tokio::select! {
        ready = tokio::time::timeout(START_TIMEOUT, ready) => ready.is_ok(),
        // Another one may have been started at the same moment.
        _ = child.wait() => client.is_running().await,
    };
    if is_ready {
        return Ok(());
    }
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let why = ostler::render::clip::sanitize(text.trim());
    Err(
        Fault::unavailable(format!("the daemon did not start: {why}"))
            .hint(format!("its output is in {}", log.display())),
    )
}
