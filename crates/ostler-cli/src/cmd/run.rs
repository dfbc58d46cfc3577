//! `ostler run`: runs one task with one agent, in this process or in the daemon.

mod in_daemon;

use crate::args::RunArgs;
use crate::ask::Prompter;
use crate::exit::Code;
use crate::fault::{Fault, Result};
use crate::follow::{StartedRun, follow};
use crate::output::{Dialects, View};
use crate::signals::Signals;
use crate::spec::{self, LaunchContext};
use crate::store::{self, OpenedProject};
use crate::{ask, config, daemon, prompt};

/// Runs one task.
pub(crate) async fn run(args: RunArgs) -> Result<Code> {
    let is_default = !args.no_daemon && daemon::is_default(&args.start).await?;
    if args.detach || args.daemon || args.fleet.fleet || is_default {
        return in_daemon::run(args).await;
    }
    if args.attended {
        return Err(Fault::usage("`--attended` needs the daemon")
            .hint("add `--daemon`; without it, requests are asked on the terminal or denied"));
    }
    let format = args.task.format();
    follow(format, begin(args).await).await
}

/// Validates the arguments and starts the agent.
async fn begin(mut args: RunArgs) -> Result<StartedRun> {
    let dir = config::directory(args.start.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "run")?;
    let format = args.task.format();
    let attendance = ask::attendance_for(format);
    let OpenedProject {
        project,
        config,
        host,
        store,
    } = store::open_project(&mut args.start, &dir, attendance)?;
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
    let prompter = Prompter::new(session.remote(), attendance);
    Ok(StartedRun::local(session, prompter, signals, view))
}
