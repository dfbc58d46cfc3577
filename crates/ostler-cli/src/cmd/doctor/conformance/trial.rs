//! Trial of an agent with its own home, working directory and scripted model.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use ostler::event::{Notice, ToolResult, TurnEnded};
use ostler::permission::{Policy, Preset};
use ostler::{Cause, Event, EventKind, Host, Limits, PermissionAnswer, Session, Spec};
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
    /// Whether a model other than the scripted one answered.
    used_other_model: Cell<bool>,
}

/// Problem reported if another model answered.
const USED_OTHER_MODEL: &str = "the agent answered without a request to the scripted model, so \
    another model was used. The remaining checks are skipped, because they allow every tool call \
    of whichever model answers. Check which program was started and what points it at another model";

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
    pub(super) fn new(subject: &'a Subject, script: Script) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot set up the trial: {error}");
        let root = private_directory().map_err(failed)?;
        let (home, work) = (root.path().join("home"), root.path().join("work"));
        for directory in [&home, &work] {
            std::fs::create_dir(directory).map_err(failed)?;
        }
        let server = ModelServer::start(script);
        subject
            .offline
            .write_files(&home, &server.base_url())
            .map_err(failed)?;
        let env = subject.offline.env(&home, &server.base_url());
        let host = environment::host_of(env.clone());
        // Only the script decides what runs, in a temporary directory.
        let host = host.with_permission_handler(|_| async { PermissionAnswer::Allow });
        Ok(Self {
            subject,
            server,
            env,
            host,
            root,
            used_other_model: Cell::new(false),
        })
    }

    /// Returns the working directory of the agent.
    pub(super) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the spec for a prompt, with everything allowed.
    pub(super) fn spec(&self, prompt: &str) -> Spec {
        let limits = Limits {
            wall: Some(RUN_TIMEOUT),
            idle: Some(RUN_TIMEOUT),
            ..Limits::default()
        };
        let policy = Some(Policy::preset(Preset::All));
        let given = self.subject.given.clone();
        let mut spec = Spec {
            prompt: prompt.to_owned(),
            dir: Some(self.work()),
            limits,
            policy,
            ..given
        };
        for (key, value) in self.subject.offline.settings {
            spec.settings.set(key, *value);
        }
        if self.subject.is_configured() {
            // Its variables are unknown, so none of the host's would reach it.
            spec.env.extend(self.env.clone());
        }
        if !self.subject.capabilities(&spec).ask {
            spec.policy = None; // it cannot ask for permission
        }
        spec
    }

    /// Returns true if a model other than the scripted one answered.
    pub(super) fn used_other_model(&self) -> bool {
        self.used_other_model.get()
    }

    /// Runs a spec to its end.
    pub(super) async fn run(&self, spec: Spec) -> Result<TrialRun, String> {
        self.follow(spec, |_, _| ()).await
    }

    /// Runs a spec to its end; `meanwhile` sees each event and can control the session.
    pub(super) async fn follow(
        &self,
        spec: Spec,
        mut meanwhile: impl FnMut(&Event, &Session),
    ) -> Result<TrialRun, String> {
        let mut session = self
            .subject
            .agent
            .start(&self.host, spec)
            .map_err(|error| error.to_string())?;
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
            self.used_other_model.set(true);
            return Err(USED_OTHER_MODEL.to_owned());
        }
        Ok(run)
    }
}

impl TrialRun {
    fn all<'a, T>(
        &'a self,
        pick: impl Fn(&'a EventKind) -> Option<T> + 'a,
    ) -> impl Iterator<Item = T> + 'a {
        self.events
            .iter()
            .filter_map(move |event| pick(&event.kind))
    }

    /// Returns the end of the last turn.
    pub(super) fn turn(&self) -> Result<&TurnEnded, String> {
        let turn = self
            .all(|kind| {
                if let EventKind::TurnEnded(turn) = kind {
                    Some(turn)
                } else {
                    None
                }
            })
            .last();
        turn.ok_or_else(|| "the agent never ended a turn".to_owned())
    }

    /// Returns true if a model answered.
    fn is_answered(&self) -> bool {
        self.all(|kind| match kind {
            EventKind::TurnEnded(turn) => {
                matches!(turn.outcome.cause, Cause::Completed | Cause::Interrupted).then_some(())
            }
            kind => matches!(kind, EventKind::ToolCall(_)).then_some(()),
        })
        .next()
        .is_some()
    }

    /// Returns the last turn, or an error unless it ended with this cause.
    pub(super) fn ended_with(&self, cause: Cause) -> Result<&TurnEnded, String> {
        let turn = self.turn()?;
        let why = &turn.outcome.message;
        (turn.outcome.cause == cause)
            .then_some(turn)
            .ok_or_else(|| {
                format!(
                    "the turn ended with {} instead of {cause}: {why}",
                    turn.outcome.cause
                )
            })
    }

    /// Returns the agent's own session id.
    pub(super) fn native(&self) -> Option<&str> {
        let started = self.all(|kind| {
            if let EventKind::Started(started) = kind {
                Some(started)
            } else {
                None
            }
        });
        started
            .filter_map(|started| started.native_session.as_deref())
            .last()
    }

    /// Returns the number of text deltas.
    pub(super) fn pieces(&self) -> usize {
        self.all(|kind| matches!(kind, EventKind::Text(text) if text.delta).then_some(()))
            .count()
    }

    /// Returns the tool results.
    pub(super) fn results(&self) -> Vec<&ToolResult> {
        self.all(|kind| {
            if let EventKind::ToolResult(result) = kind {
                Some(result)
            } else {
                None
            }
        })
        .collect()
    }

    /// Returns the number of output tokens, over all turns.
    pub(super) fn output_tokens(&self) -> Option<u64> {
        let ended = self
            .all(|kind| {
                if let EventKind::Ended(ended) = kind {
                    Some(ended)
                } else {
                    None
                }
            })
            .last()?;
        ended.usage.as_ref()?.output
    }

    /// Returns the notices about unknown messages.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &Notice> {
        self.all(|kind| {
            if let EventKind::Notice(notice) = kind {
                Some(notice)
            } else {
                None
            }
        })
        .filter(|notice| notice.code == "unknown_message")
    }
}
