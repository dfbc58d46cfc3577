//! `ostler run`: runs one task with one agent.

use ostler::Session;
use ostler::spec::Attendance;

use crate::args::RunArgs;
use crate::ask::Prompter;
use crate::exit::Code;
use crate::fault::Result;
use crate::follow::follow;
use crate::output::{self, Dialects, View};
use crate::signals::Signals;
use crate::spec::{self, LaunchContext};
use crate::store::{self, SessionStorage};
use crate::{ask, config, prompt, trust_review};

/// Runs one task.
pub(crate) async fn run(args: RunArgs) -> Result<Code> {
    let format = args.task.format();
    let StartedRun {
        session,
        signals,
        attendance,
        view,
    } = output::reporting(format, begin(args).await)?;
    let prompter = Prompter::new(session.remote(), attendance);
    follow(session, prompter, output::open(format, view), signals).await
}

/// A run that has started.
struct StartedRun {
    session: Session,
    signals: Signals,
    attendance: Attendance,
    view: View,
}

/// Validates the arguments and starts the agent.
async fn begin(mut args: RunArgs) -> Result<StartedRun> {
    let dir = config::directory(args.start.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "run")?;
    let format = args.task.format();
    let attendance = ask::attendance_for(format);
    let project = trust_review::open(args.start.config, &args.start.policy, &dir, attendance)?;
    let config = config::load(args.start.config, &project)?;
    let SessionStorage { host, store } = store::prepare_storage(&mut args.start, &dir, &config)?;
    let host = trust_review::attach(host, &project, &config)?;
    let streaming = format.is_streaming();
    let demo = if streaming {
        spec::Demo::Allowed
    } else {
        spec::Demo::Refused
    };
    let chosen = spec::choose(&config, &args.start, &host, demo).await?;
    let view = View {
        args: args.task.view,
        dir: Some(dir.clone()),
        dialects: Dialects::of(config.agents()),
        is_live: true,
        is_stored: store.is_some(),
        ..View::default()
    };
    let context = LaunchContext {
        prompt: task,
        dir,
        project,
        streaming,
        attendance,
        verb: "run",
        ..LaunchContext::default()
    };
    let spec = spec::build(args.start, &config, context)?.resolve(&config, &chosen)?;
    let agent = chosen.agent;
    let signals = Signals::listen()?;
    let session = agent
        .start(&host, spec)
        .map_err(|e| spec::spec_fault(&e, &*agent, "run"))?;
    Ok(StartedRun {
        session,
        signals,
        attendance,
        view,
    })
}
