//! Files of the workspace that an agent has read or written by its session, by the rules of Ostler's own file tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ostler_core::dialect::{FileAccess, FileFault, FileOrder};
use ostler_core::permission::{Policy, Ruled, ToolKind, ToolUse};
use ostler_core::spec::{Sandbox, Spec, keys};
use ostler_tools::{Code, Span, ToolError, Workspace};
use tokio::sync::Mutex;

use crate::command;
use crate::host::Host;

/// What an agent may have read and written.
#[derive(Clone)]
pub(super) struct Files(Arc<Ground>);

struct Ground {
    host: Host,
    dir: PathBuf,
    added: Vec<PathBuf>,
    sandbox: Sandbox,
    policy: Option<Policy>,
    /// The workspace and the directories added to it, opened when the first file is wanted: most agents want none.
    opened: OnceLock<Result<Vec<Workspace>, ToolError>>,
    /// One order after the other, as the agent gave them: it may read what it wrote just before.
    turn: Mutex<()>,
}

impl Files {
    pub(super) fn new(host: &Host, dir: &Path, spec: &Spec) -> Self {
        let added = spec
            .settings
            .get(keys::ADD_DIR)
            .unwrap_or_default()
            .iter()
            .map(|added| dir.join(added))
            .collect();
        let (sandbox, policy) = (spec.sandbox, spec.policy.clone());
        Self(Arc::new(Ground {
            host: host.clone(),
            dir: dir.to_owned(),
            added,
            sandbox,
            policy,
            opened: OnceLock::new(),
            turn: Mutex::new(()),
        }))
    }

    /// Does what is ordered, on a thread where it may take its time. Dropped, what has not begun does not begin.
    pub(super) async fn carry_out(self, order: FileOrder) -> Result<String, FileFault> {
        let _turn = self.0.turn.lock().await;
        let ground = self.0.clone();
        let jobs = Begun(tokio::task::spawn_blocking(move || {
            ground.carry_out(&order)
        }));
        let lost = |_| {
            Err(ToolError::new(
                Code::Io,
                "the file tools broke down; this is a fault in Ostler",
            ))
        };
        let result = jobs.finish().await.unwrap_or_else(lost);
        result.map_err(|error| FileFault {
            missing: error.code == Code::FileNotFound,
            why: error.message,
        })
    }
}

/// A piece of work that is not begun any more when nobody waits for it.
struct Begun(tokio::task::JoinHandle<Result<String, ToolError>>);

impl Begun {
    async fn finish(mut self) -> Result<Result<String, ToolError>, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ground {
    fn carry_out(&self, order: &FileOrder) -> Result<String, ToolError> {
        self.check(order)?;
        let roots = self
            .opened
            .get_or_init(|| self.open())
            .as_ref()
            .map_err(Clone::clone)?;
        let (first, others) = roots
            .split_first()
            .ok_or_else(|| ToolError::new(Code::Io, "there is no workspace"))?;
        let mut result = access(first, order);
        // What lies outside of the workspace may lie in a directory that was added to it; only a whole path says so.
        for other in others
            .iter()
            .filter(|_| Path::new(&order.path).is_absolute())
        {
            if !result
                .as_ref()
                .is_err_and(|error| error.code == Code::PathOutsideWorkspace)
            {
                break;
            }
            result = access(other, order).or_else(|error| match error.code {
                Code::PathOutsideWorkspace => result,
                _ => Err(error),
            });
        }
        result
    }

    /// What the caller's own rules say, before those of the workspace.
    fn check(&self, order: &FileOrder) -> Result<(), ToolError> {
        let (tool, kind) = match order.access {
            FileAccess::Read { .. } => ("read_file", ToolKind::Read),
            FileAccess::Write(_) => ("write_file", ToolKind::Edit),
        };
        if kind == ToolKind::Edit && self.sandbox == Sandbox::ReadOnly {
            let message = format!(
                "the sandbox is {}: nothing is written",
                self.sandbox.as_str()
            );
            return Err(ToolError::new(Code::DeniedByPolicy, message));
        }
        let Some(policy) = &self.policy else {
            return Ok(());
        };
        let wants = ToolUse {
            paths: vec![order.path.clone()],
            ..ToolUse::of(tool, kind)
        };
        // A rule that asks was the agent's to ask about, before it came here.
        match policy.decide(&wants, &self.dir.display().to_string()).ruled {
            Ruled::Deny(why) => Err(ToolError::new(Code::DeniedByPolicy, why)),
            Ruled::Allow | Ruled::Ask | Ruled::Undecided => Ok(()),
        }
    }

    fn open(&self) -> Result<Vec<Workspace>, ToolError> {
        let mut roots = vec![self.open_one(&self.dir)?];
        for dir in &self.added {
            // One that cannot be opened is as good as not added. Where two lie in each other, the rules of the one would stand
            // over the other's: the first counts.
            let Ok(root) = self.open_one(dir) else {
                continue;
            };
            let overlaps = |known: &Workspace| {
                known.root().starts_with(root.root()) || root.root().starts_with(known.root())
            };
            if !roots.iter().any(overlaps) {
                roots.push(root);
            }
        }
        Ok(roots)
    }

    fn open_one(&self, dir: &Path) -> Result<Workspace, ToolError> {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let decided = command::sandbox_policy(&self.host, &real)?;
        Workspace::open(dir, &decided.policy.files)
    }
}

fn access(root: &Workspace, order: &FileOrder) -> Result<String, ToolError> {
    match &order.access {
        FileAccess::Read { line, limit } => root.read_text(
            &order.path,
            Span {
                line: *line,
                limit: *limit,
            },
        ),
        FileAccess::Write(text) => root.write_text(&order.path, text).map(|()| String::new()),
    }
}
