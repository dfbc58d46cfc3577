//! One trial of an agent: a home, a directory and a scripted model of its own, and what the agent did there.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use ostler::event::{Notice, ToolResult, TurnEnded};
use ostler::permission::{Policy, Preset};
use ostler::{Cause, Event, EventKind, Host, Limits, PermissionAnswer, Session, Spec};
use ostler_standin::{ModelServer, Script};

use super::subject::Subject;
use crate::environment;

/// How long one run of an agent may take; the slowest known needs 15 s to start.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);

/// Where an agent is tried.
pub(super) struct Trial<'a> {
    subject: &'a Subject,
    pub(super) server: ModelServer,
    /// What makes the agent talk to the server.
    env: Vec<(String, String)>,
    host: Host,
    root: tempfile::TempDir,
    /// Whether somebody else than the server answered.
    used_other_model: Cell<bool>,
}

/// What is said of an agent that somebody else answered.
const USED_OTHER_MODEL: &str = "the agent did not talk to the scripted model: it answered, but that model was never asked. Nothing more \
    is tried, since all would be allowed to whoever answers; see what its program is, and what leads that to another model";

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct TrialRun {
    pub(super) events: Vec<Event>,
    pub(super) session: String,
}

/// A directory that only this user can enter.
fn private_directory() -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ostler-trial-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

impl<'a> Trial<'a> {
    /// A place where the model follows `script`.
    pub(super) fn new(subject: &'a Subject, script: Script) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no place to try it: {error}");
        let root = private_directory().map_err(failed)?;
        let (home, work) = (root.path().join("home"), root.path().join("work"));
        for directory in [&home, &work] {
            std::fs::create_dir(directory).map_err(failed)?;
        }
        let server = ModelServer::start(script);
        subject
            .offline
            .furnish(&home, &server.base_url())
            .map_err(failed)?;
        let env = subject.offline.env(&home, &server.base_url());
        let host = environment::host_of(env.clone());
        // The script alone says what is run, in a directory of its own.
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

    /// The directory that the agent works in.
    pub(super) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// What to run, with everything allowed.
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
            // Nobody knows which variables it reads, so none of the host's would reach it.
            spec.env.extend(self.env.clone());
        }
        if !self.subject.capabilities(&spec).ask {
            spec.policy = None; // it asks nobody, and does what it is told
        }
        spec
    }

    /// Whether somebody else than the scripted model answered.
    pub(super) fn used_other_model(&self) -> bool {
        self.used_other_model.get()
    }

    /// Runs it to its end.
    pub(super) async fn run(&self, spec: Spec) -> Result<TrialRun, String> {
        self.follow(spec, |_, _| ()).await
    }

    /// The same; `meanwhile` sees each event, and can ask things of the session.
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
        let is_unasked = || self.server.requests().len() == before;
        while let Some(event) = session.next().await {
            meanwhile(&event, &session);
            if matches!(event.kind, EventKind::ToolCall(_)) && is_unasked() {
                session.kill(); // the sooner the better: everything is allowed
            }
            run.events.push(event);
        }
        if run.is_answered() && is_unasked() {
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

    /// How the last turn ended.
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
        turn.ok_or_else(|| "it never ended a turn".to_owned())
    }

    /// Whether some model has answered.
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

    /// Fails unless it ended for this cause.
    pub(super) fn ended_with(&self, cause: Cause) -> Result<&TurnEnded, String> {
        let turn = self.turn()?;
        let why = &turn.outcome.message;
        (turn.outcome.cause == cause)
            .then_some(turn)
            .ok_or_else(|| {
                format!(
                    "it ended with {} instead of {cause}: {why}",
                    turn.outcome.cause
                )
            })
    }

    /// The agent's own name for the session.
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

    /// How many pieces of text came.
    pub(super) fn pieces(&self) -> usize {
        self.all(|kind| matches!(kind, EventKind::Text(text) if text.delta).then_some(()))
            .count()
    }

    /// The results of its tools.
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

    /// The tokens that it wrote, all turns together.
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

    /// What it said that Ostler does not know.
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
