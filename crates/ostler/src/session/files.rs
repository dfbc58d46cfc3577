//! File access that an agent delegates to the session, under the rules of Ostler's own file tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ostler_core::dialect::{FileAccess, FileError, FileJob};
use ostler_core::permission::{Policy, PolicyAction, ToolKind, ToolUse};
use ostler_core::spec::{Sandbox, Spec};
use ostler_tools::{Code, Span, ToolError, Workspace};
use tokio::sync::Mutex;

use crate::command;
use crate::host::Host;

/// Reads and writes workspace files for an agent.
#[derive(Clone)]
pub(super) struct Files(Arc<Access>);

struct Access {
    host: Host,
    dir: PathBuf,
    added: Vec<PathBuf>,
    sandbox: Sandbox,
    policy: Option<Policy>,
    /// The workspace and its added directories, opened on first use: most agents never need them.
    roots: OnceLock<Result<Vec<Workspace>, ToolError>>,
    /// Runs jobs one at a time, in order: an agent may read what it has just written.
    order: Mutex<()>,
}

impl Files {
    pub(super) fn new(host: &Host, dir: &Path, spec: &Spec) -> Self {
        let added = spec.add_dirs.iter().map(|added| dir.join(added)).collect();
        let (sandbox, policy) = (spec.sandbox, spec.policy.clone());
        Self(Arc::new(Access {
            host: host.clone(),
            dir: dir.to_owned(),
            added,
            sandbox,
            policy,
            roots: OnceLock::new(),
            order: Mutex::new(()),
        }))
    }

    /// Runs a job on a blocking thread. If dropped, a job that has not started never starts.
    pub(super) async fn run(self, job: FileJob) -> Result<String, FileError> {
        let _order = self.0.order.lock().await;
        let access = self.0.clone();
        let task = AbortOnDrop(tokio::task::spawn_blocking(move || access.run(&job)));
        let panicked = |_| {
            let message = "the file tools panicked; this is a bug in Ostler";
            Err(ToolError::new(Code::Io, message))
        };
        let result = task.join().await.unwrap_or_else(panicked);
        result.map_err(|error| FileError {
            missing: error.code == Code::FileNotFound,
            why: error.message,
        })
    }
}

/// A task that is aborted on drop.
struct AbortOnDrop(tokio::task::JoinHandle<Result<String, ToolError>>);

impl AbortOnDrop {
    async fn join(mut self) -> Result<Result<String, ToolError>, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Access {
    fn run(&self, job: &FileJob) -> Result<String, ToolError> {
        self.check(job)?;
        let roots = self
            .roots
            .get_or_init(|| self.open())
            .as_ref()
            .map_err(Clone::clone)?;
        let (first, others) = roots
            .split_first()
            .ok_or_else(|| ToolError::new(Code::Io, "there is no workspace"))?;
        let mut result = access(first, job);
        // An absolute path outside the workspace may be in one of the added directories.
        for other in others.iter().filter(|_| Path::new(&job.path).is_absolute()) {
            if !result
                .as_ref()
                .is_err_and(|error| error.code == Code::PathOutsideWorkspace)
            {
                break;
            }
            result = access(other, job).or_else(|error| match error.code {
                Code::PathOutsideWorkspace => result,
                _ => Err(error),
            });
        }
        result
    }

    /// Checks the caller's policy, before the workspace's own rules apply.
    fn check(&self, job: &FileJob) -> Result<(), ToolError> {
        let (tool, kind) = match job.access {
            FileAccess::Read { .. } => ("read_file", ToolKind::Read),
            FileAccess::Write(_) => ("write_file", ToolKind::Edit),
        };
        if kind == ToolKind::Edit && self.sandbox == Sandbox::ReadOnly {
            let message = format!("the sandbox mode {} forbids writing", self.sandbox.as_str());
            return Err(ToolError::new(Code::DeniedByPolicy, message));
        }
        let Some(policy) = &self.policy else {
            return Ok(());
        };
        let tool_use = ToolUse {
            paths: vec![job.path.clone()],
            ..ToolUse::new(tool, kind)
        };
        // Where a rule asks, the agent has asked before it came here.
        match policy
            .decide(&tool_use, &self.dir.display().to_string())
            .action
        {
            PolicyAction::Deny(why) => Err(ToolError::new(Code::DeniedByPolicy, why)),
            PolicyAction::Allow | PolicyAction::Ask | PolicyAction::Undecided => Ok(()),
        }
    }

    fn open(&self) -> Result<Vec<Workspace>, ToolError> {
        let mut roots = vec![self.open_one(&self.dir)?];
        for dir in &self.added {
            // A directory that cannot be opened is skipped. Of two nested directories the first
            // wins, because the rules of one would override those of the other.
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

fn access(root: &Workspace, job: &FileJob) -> Result<String, ToolError> {
    match &job.access {
        FileAccess::Read { line, limit } => root.read_text(
            &job.path,
            Span {
                line: *line,
                limit: *limit,
            },
        ),
        FileAccess::Write(text) => root.write_text(&job.path, text).map(|()| String::new()),
    }
}
