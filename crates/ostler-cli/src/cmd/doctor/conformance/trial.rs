//! Trial of an agent with its own home, working directory and scripted model.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use ostler::event::{Notice, NoticeCode, ToolResult, TurnEnded};
use ostler::permission::{PermissionAnswer, Policy, Preset};
use ostler::spec::Limits;
use ostler::{Cause, Event, EventKind, Host, Outcome, Session, Spec};
use ostler_standin::{ModelServer, Script};

use super::subject::Subject;
use crate::environment;

/// Time limit for one run; the slowest known agent needs 15 s to start.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);

/// Environment in which an agent is tested.
pub(super) struct Trial<'a> {
    subject: &'a Subject,
    pub(super) server: ModelServer,
    /// Variables that point the agent at the server.
    env: Vec<(String, String)>,
    host: Host,
    root: tempfile::TempDir,
    /// The runs so far.
    runs: RefCell<Vec<Rc<TrialRun>>>,
}

/// The problem that a check found.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckFailed {
    #[error("{0}")]
    Problem(String),
    #[error(
        "the agent answered without a request to the scripted model, so another model was used. \
         The remaining checks are skipped, because they allow every tool call of whichever model \
         answers. Check which program was started and what points it at another model"
    )]
    OtherModel,
}

/// Result of a check or of a part of it.
pub(super) type Checked<T = ()> = Result<T, CheckFailed>;

impl CheckFailed {
    pub(super) fn new(problem: &str) -> Self {
        Self::Problem(problem.to_owned())
    }
}

/// Events of one run.
#[derive(Debug, Default)]
pub(super) struct TrialRun {
    pub(super) events: Vec<Event>,
    pub(super) session: String,
}

/// Creates a directory that only this user can enter.
fn private_directory() -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ostler-trial-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

impl<'a> Trial<'a> {
    /// Creates a trial whose model follows `script`.
    pub(super) fn new(subject: &'a Subject, script: Script) -> Checked<Self> {
        let failed = |error: std::io::Error| {
            CheckFailed::Problem(format!("cannot set up the trial: {error}"))
        };
        let root = private_directory().map_err(failed)?;
        let (home, work) = (root.path().join("home"), root.path().join("work"));
        for directory in [&home, &work] {
            std::fs::create_dir(directory).map_err(failed)?;
        }
        let server = ModelServer::start(script);
        subject
            .redirection
            .write_files(&home, &server.base_url())
            .map_err(failed)?;
        let env = subject.redirection.env(&home, &server.base_url());
        let host = environment::host_of(env.clone());
        // Only the script decides what runs, in a temporary directory.
        let host = host.with_permission_handler(|_| async { PermissionAnswer::Allow });
        Ok(Self {
            subject,
            server,
            env,
            host,
            root,
            runs: RefCell::default(),
        })
    }

    /// Returns the working directory of the agent.
    pub(super) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the spec for a prompt, with everything allowed.
    pub(super) fn spec(&self, prompt: &str) -> Spec {
        let limits = Limits::default().wall(RUN_TIMEOUT).idle(RUN_TIMEOUT);
        let given = self.subject.given.clone();
        let mut spec = given
            .dir(self.work())
            .limits(limits)
            .policy(Policy::preset(Preset::All));
        spec.prompt = prompt.to_owned();
        if self.subject.is_configured() {
            // Its variables are unknown, so none of the host's would reach it.
            spec.env.extend(self.env.clone());
        }
        if !self.subject.capabilities(&spec).ask {
            spec.policy = None; // it cannot ask for permission
        }
        spec
    }

    /// Returns the runs so far.
    pub(super) fn runs(&self) -> Vec<Rc<TrialRun>> {
        self.runs.borrow().clone()
    }

    /// Returns true if the scripted model received a prompt with this text.
    pub(super) fn was_asked(&self, text: &str) -> bool {
        let mut requests = self.server.requests().into_iter();
        requests.any(|request| request.last_user_text().contains(text))
    }

    /// Runs a spec to its end.
    pub(super) async fn run(&self, spec: Spec) -> Checked<Rc<TrialRun>> {
        self.follow(spec, |_, _| ()).await
    }

    /// Runs a prompt whose turn must complete.
    pub(super) async fn completed(&self, prompt: &str) -> Checked<Rc<TrialRun>> {
        let run = self.run(self.spec(prompt)).await?;
        run.ended_with(Cause::Completed)?;
        Ok(run)
    }

    /// Runs a spec to its end; `meanwhile` sees each event and can control the session.
    pub(super) async fn follow(
        &self,
        spec: Spec,
        mut meanwhile: impl FnMut(&Event, &Session),
    ) -> Checked<Rc<TrialRun>> {
        let mut session = self
            .subject
            .agent
            .start(&self.host, spec)
            .map_err(|error| CheckFailed::Problem(error.to_string()))?;
        let mut run = TrialRun {
            session: session.id().to_owned(),
            ..TrialRun::default()
        };
        let before = self.server.requests().len();
        let is_unused = || self.server.requests().len() == before;
        while let Some(event) = session.next().await {
            meanwhile(&event, &session);
            if matches!(event.kind, EventKind::ToolCall(_)) && is_unused() {
                session.kill(); // at once, because everything is allowed
            }
            run.events.push(event);
        }
        if run.is_answered() && is_unused() {
            return Err(CheckFailed::OtherModel);
        }
        let run = Rc::new(run);
        self.runs.borrow_mut().push(run.clone());
        Ok(run)
    }
}

/// Iterates over the events of one kind.
macro_rules! events {
    ($run:expr, $kind:ident) => {
        $run.events.iter().filter_map(|event| match &event.kind {
            EventKind::$kind(it) => Some(it),
            _ => None,
        })
    };
}

impl TrialRun {
    /// Returns the end of the last turn.
    pub(super) fn turn(&self) -> Checked<&TurnEnded> {
        let turn = events!(self, TurnEnded).last();
        turn.map(|turn| &**turn)
            .ok_or_else(|| CheckFailed::new("the agent never ended a turn"))
    }

    /// Returns true if a model answered.
    fn is_answered(&self) -> bool {
        let mut causes = events!(self, TurnEnded).map(|turn| turn.outcome.cause);
        causes.any(|cause| matches!(cause, Cause::Completed | Cause::Interrupted))
            || events!(self, ToolCall).next().is_some()
    }

    /// Returns the last turn, or an error unless it ended with this cause.
    pub(super) fn ended_with(&self, cause: Cause) -> Checked<&TurnEnded> {
        let turn = self.turn()?;
        let Outcome {
            cause: found,
            message,
            ..
        } = &turn.outcome;
        if *found == cause {
            return Ok(turn);
        }
        let problem = format!("the turn ended with {found} instead of {cause}: {message}");
        Err(CheckFailed::Problem(problem))
    }

    /// Returns the agent's own session id.
    pub(super) fn native(&self) -> Option<&str> {
        events!(self, Started)
            .filter_map(|started| started.native_session.as_deref())
            .next_back()
    }

    /// Returns the number of text deltas.
    pub(super) fn pieces(&self) -> usize {
        events!(self, Text).filter(|text| text.delta).count()
    }

    /// Returns the tool results.
    pub(super) fn results(&self) -> Vec<&ToolResult> {
        events!(self, ToolResult).collect()
    }

    /// Returns the number of output tokens, over all turns.
    pub(super) fn output_tokens(&self) -> Option<u64> {
        events!(self, Ended).last()?.usage.as_ref()?.output
    }

    /// Returns the notices about unknown messages.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &Notice> {
        events!(self, Notice).filter(|notice| notice.code == NoticeCode::UnknownMessage)
    }
}
