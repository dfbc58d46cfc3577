//! `ostler acp`: serves an agent to an editor over the Agent Client Protocol on stdin and stdout.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler::Host;
use ostler::render::clip::sanitize;
use ostler::spec::{AfterTurn, Attendance};
use ostler_acp::{Embedder, Pipes, PrepareError, PreparedSession, ServeEnd, ServeError, Service};

use crate::args::{AcpArgs, StartArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::signals::{SignalAction, Signals};
use crate::spec::{ChosenAgent, LaunchContext};
use crate::store::{self, SessionStorage};
use crate::{config, output, spec, trust_review};

/// Serves until the editor closes stdin or stdout, or a signal arrives.
pub(crate) async fn run(mut args: AcpArgs) -> Result<Code> {
    if let Some(flag) = args.misplaced() {
        return Err(usage!(
            "{flag} cannot be used with `ostler acp`: the editor sets it for each session"
        )
        .hint("see docs/acp-server.md"));
    }
    let here = config::directory(None)?;
    let project = trust_review::open(
        args.start.config,
        &args.start.policy,
        &here,
        Attendance::Unattended,
    )?;
    let config = config::load(args.start.config, &project)?;
    output::warn(&config::ignored_warnings(&config, &project));
    let SessionStorage { host, store } = store::prepare_storage(&mut args.start, &here, &config)?;
    let chosen = spec::choose(&config, &args.start, &host, spec::Demo::Refused).await?;
    let service = Service {
        agent: chosen.agent.clone(),
        dialect: spec::likely_dialect(&args.start, &config, &chosen),
        host: host.clone(),
        store,
        settings_hint: spec::settings_hint(&*chosen.agent, "acp"),
        embedder: Arc::new(Sessions {
            args: args.start,
            chosen,
            host,
        }),
    };
    let pipes = Pipes {
        input: io::stdin(),
        output: output::TerminalFilter::stdout(),
    };
    let mut signals = Signals::listen()?;
    let mut code = None;
    let stop = async || {
        let signalled = stop_signal(&mut signals).await;
        code.get_or_insert(signalled);
    };
    match ostler_acp::serve(service, pipes, stop).await {
        Ok(ServeEnd::Disconnected) => Ok(exit::OK),
        Ok(ServeEnd::Stopped) => Ok(code.unwrap_or(exit::OK)),
        Err(ServeError::Write(error)) => output::on_write_error(&error),
        Err(error) => Err(Fault::internal(error)),
    }
}

/// Waits for a signal that stops the program, and returns its exit code. Cancel safe.
async fn stop_signal(signals: &mut Signals) -> Code {
    loop {
        match signals.next().await {
            SignalAction::Interrupt => return Code(130),
            SignalAction::Terminate => return Code(143),
            SignalAction::Continue => {}
        }
    }
}

/// Source of the specs of all sessions.
struct Sessions {
    args: StartArgs,
    chosen: ChosenAgent,
    host: Host,
}

impl Sessions {
    fn prepare(&self, dir: &Path) -> Result<PreparedSession> {
        let args = self.args.clone();
        let project = trust_review::open(args.config, &args.policy, dir, Attendance::Unattended)?;
        let config = config::load(args.config, &project)?;
        let host = trust_review::attach(self.host.clone(), &project, &config)?;
        let context = LaunchContext {
            dir: dir.to_owned(),
            project,
            streaming: true,
            after_turn: AfterTurn::Wait,
            attendance: Attendance::Attended,
            verb: "acp",
            ..LaunchContext::default()
        };
        let spec = spec::build(args, &config, context)?.resolve(&config, &self.chosen)?;
        Ok(PreparedSession { host, spec })
    }
}

impl Embedder for Sessions {
    fn prepare(&self, dir: &Path) -> Result<PreparedSession, PrepareError> {
        Sessions::prepare(self, dir).map_err(|fault| {
            let outcome = fault.outcome();
            PrepareError {
                message: outcome.message,
                hint: outcome.hint,
            }
        })
    }

    fn warn(&self, warning: &str) {
        output::eprint_line(&sanitize(warning));
    }
}
