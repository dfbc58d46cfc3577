//! Children without a guard.
//!
//! A child gets its own session and is signalled through its process group. On Linux, processes
//! that left the group are found by the mark in their environment. If this process is killed, the
//! direct child dies with it (Linux), but not what it started.

use std::future::Future;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::Command;

use super::{Child, Control, END_POLLS, ExitStatus, PreparedCommand, SpawnError, Teardown};

/// Interval at which the processes of a confined child are counted.
#[cfg(target_os = "linux")]
const COUNT_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

pub(super) fn spawn(prepared: PreparedCommand) -> Result<Child, SpawnError> {
    #[cfg(target_os = "linux")]
    if prepared.confinement.is_none() && super::vfork::is_supported() {
        return spawn_unconfined(prepared);
    }
    spawn_wrapped(prepared)
}

/// Spawns a child that enters no confinement, which is most of them.
#[cfg(target_os = "linux")]
fn spawn_unconfined(prepared: PreparedCommand) -> Result<Child, SpawnError> {
    use tokio::process::{ChildStderr, ChildStdout};

    use super::stdin_pipe::StdinPipe;
    use super::vfork;

    let PreparedCommand { program, .. } = &prepared;
    let error = |error| SpawnError::from_io(program, error);
    let since = super::recent_pids::LastPid::read();
    let image = vfork::Image::new(
        program.as_os_str(),
        &prepared.args,
        &prepared.env,
        prepared.dir.as_deref().map(std::path::Path::as_os_str),
    )
    .map_err(error)?;
    let spawned = super::spawner::run(move || vfork::spawn(&image)).map_err(error)?;
    let child = vfork::VforkChild::new(spawned.process).map_err(error)?;
    let pid = child.id();
    Ok(Child {
        stdin: Some(Box::new(StdinPipe::new(spawned.stdin).map_err(error)?)),
        stdout: Box::new(ChildStdout::from_std(spawned.stdout.into()).map_err(error)?),
        stderr: Some(Box::new(
            ChildStderr::from_std(spawned.stderr.into()).map_err(error)?,
        )),
        pid: Some(pid),
        notice: prepared.notice.or_else(super::missing_proc_notice),
        control: Box::new(Direct {
            child: Process::Unconfined(child),
            mark: prepared.mark,
            since: since.and_then(|since| super::recent_pids::SpawnSnapshot::new(since, pid)),
            group: Some(pid),
            ended: None,
            was_signalled: false,
            limit: None,
            exceeded_processes: false,
            tree: None,
            held: None,
            _files: prepared.files,
            _temp: prepared.temp,
        }),
    })
}

fn spawn_wrapped(prepared: PreparedCommand) -> Result<Child, SpawnError> {
    let PreparedCommand {
        program,
        args,
        env,
        dir,
        mark,
        files,
        temp,
        confinement,
        notice,
        ..
    } = prepared;
    let mut command = Command::new(&program);
    command
        .args(&args)
        .env_clear()
        .envs(&env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(dir) = &dir {
        command.current_dir(dir);
    }
    #[cfg(target_os = "linux")]
    die_with_parent(command.as_std_mut());
    #[cfg(not(target_os = "linux"))]
    let _ = confinement;
    let mut wrap = CommandWrap::from(command);
    wrap.wrap(KillOnDrop);
    #[cfg(unix)]
    wrap.wrap(process_wrap::tokio::ProcessSession);
    #[cfg(windows)]
    wrap.wrap(process_wrap::tokio::JobObject);
    #[cfg(target_os = "linux")]
    let held = match &confinement {
        Some(confinement) => {
            let prepared = ostler_tools::confine::prepare(confinement);
            let (ready, held) = prepared.map_err(|source| SpawnError::Other {
                program: program.clone(),
                source,
            })?;
            wrap.wrap(super::confined::Confine(Some(ready)));
            Some(held)
        }
        None => None,
    };
    #[cfg(target_os = "linux")]
    let since = super::recent_pids::LastPid::read();
    let runtime = tokio::runtime::Handle::current();
    let spawned = super::spawner::run(move || {
        let _context = runtime.enter();
        wrap.spawn()
    });
    #[cfg(target_os = "linux")]
    let reported = held
        .as_ref()
        .map(ostler_tools::confine::ConfinementHandle::read_report)
        .unwrap_or_default();
    #[cfg(target_os = "linux")]
    if let (Err(_), Some(confinement), Some(layers)) = (&spawned, &confinement, reported.layers)
        && let Some(error) = SpawnError::unconfined(confinement, layers)
    {
        return Err(error);
    }
    let mut child = spawned.map_err(|error| SpawnError::from_io(&program, error))?;
    let pid = child.id();
    Ok(Child {
        stdin: child.stdin().take().map(|s| Box::new(s) as _),
        stdout: child
            .stdout()
            .take()
            .map_or_else(|| Box::new(tokio::io::empty()) as _, |s| Box::new(s) as _),
        stderr: child.stderr().take().map(|s| Box::new(s) as _),
        pid,
        notice: notice.or_else(super::missing_proc_notice),
        control: Box::new(Direct {
            child: Process::Wrapped(child),
            mark,
            #[cfg(target_os = "linux")]
            since: since
                .and_then(|snapshot| super::recent_pids::SpawnSnapshot::new(snapshot, pid?)),
            group: pid,
            ended: None,
            was_signalled: false,
            #[cfg(target_os = "linux")]
            limit: super::confined::ProcessLimit::new(
                confinement.as_ref(),
                held.as_ref(),
                reported.layers.unwrap_or_default(),
            ),
            exceeded_processes: false,
            #[cfg(target_os = "linux")]
            tree: reported.tree,
            #[cfg(target_os = "linux")]
            held,
            _files: files,
            _temp: temp,
        }),
    })
}

/// Makes the kernel kill the child when the thread that spawned it ends; see
/// [`spawner`](super::spawner) for that thread.
#[cfg(target_os = "linux")]
pub(super) fn die_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    let set = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // If the parent ended before the call above, the signal will never be sent.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        }
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to run code between fork and exec"
    )]
    // SAFETY: the closure makes two async-signal-safe system calls and does not allocate.
    unsafe {
        command.pre_exec(set);
    }
}

/// The process of a child.
enum Process {
    #[cfg(target_os = "linux")]
    Unconfined(super::vfork::VforkChild),
    Wrapped(Box<dyn ChildWrapper>),
}

impl Process {
    async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unconfined(child) => child.wait().await,
            Self::Wrapped(child) => child.wait().await,
        }
    }
}

/// Controls a child that has no guard.
struct Direct {
    child: Process,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "processes are found by their mark on Linux only")
    )]
    mark: String,
    /// A snapshot from before the child was spawned, and the child.
    #[cfg(target_os = "linux")]
    since: Option<super::recent_pids::SpawnSnapshot>,
    /// Id of the process group. It cannot be queried once the group leader has exited.
    group: Option<u32>,
    /// Set once everything has ended. From then on the process ids may be reused.
    ended: Option<ExitStatus>,
    was_signalled: bool,
    #[cfg(target_os = "linux")]
    limit: Option<super::confined::ProcessLimit>,
    exceeded_processes: bool,
    #[cfg(target_os = "linux")]
    tree: Option<ostler_tools::confine::ProcessTree>,
    #[cfg(target_os = "linux")]
    held: Option<ostler_tools::confine::ConfinementHandle>,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<super::PrivateDirectory>,
}

impl Direct {
    #[cfg(unix)]
    fn group_id(&self) -> Option<rustix::process::Pid> {
        let group = i32::try_from(self.group?).ok()?;
        rustix::process::Pid::from_raw(group)
    }

    #[cfg(unix)]
    fn signal_group(&self, signal: rustix::process::Signal) {
        if let Some(group) = self.group_id() {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Returns true if a process of the group has not ended yet.
    #[cfg(target_os = "linux")]
    fn has_live_group(&self) -> bool {
        let exists =
            |group| rustix::process::test_kill_process_group(group) != Err(rustix::io::Errno::SRCH);
        // What exists may be a zombie that init has not reaped.
        self.group_id().is_some_and(exists) && super::sweep::has_live_process(self.group)
    }

    /// Signals the group and everything that left it.
    #[cfg(unix)]
    fn signal_all(&self, signal: rustix::process::Signal) {
        if self.ended.is_none() {
            self.signal_group(signal);
            #[cfg(target_os = "linux")]
            super::sweep::signal(&super::marked::find_by_mark(&self.mark), signal);
        }
    }

    /// Kills the group. Returns true if processes that left it may still be running.
    fn kill_group(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.was_signalled = true;
        super::trace_stop(self.group, "kill");
        #[cfg(target_os = "linux")]
        if let Some(tree) = &self.tree {
            // The process that waits for it exits once all of it has ended.
            tree.kill();
            self.signal_group(rustix::process::Signal::CONT);
            return false;
        }
        match &mut self.child {
            #[cfg(target_os = "linux")]
            Process::Unconfined(_) => self.signal_group(rustix::process::Signal::KILL),
            Process::Wrapped(child) => drop(child.start_kill()),
        }
        true
    }

    #[cfg(target_os = "linux")]
    fn query(&self) -> super::marked::Query {
        super::marked::Query {
            mark: self.mark.clone(),
            session: self.group,
            since: self.since,
        }
    }

    /// Waits for the process to exit, and kills everything if the process limit is exceeded.
    async fn wait_within_limit(&mut self) -> std::io::Result<std::process::ExitStatus> {
        #[cfg(target_os = "linux")]
        while let Some(limit) = &mut self.limit {
            if let Ok(status) = tokio::time::timeout(COUNT_INTERVAL, self.child.wait()).await {
                return status;
            }
            if limit.is_exceeded(|| super::marked::find_by_mark(&self.mark).len()) {
                self.exceeded_processes = true;
                self.kill();
            }
        }
        self.child.wait().await
    }

    /// Kills what is left after the child has exited. Returns true if nothing is left for certain.
    async fn sweep(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(tree) = &self.tree {
            // It has ended already, unless the process that waits for it was killed.
            tree.kill();
            for _ in 0..END_POLLS {
                if tree.is_gone() {
                    return true;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            return false;
        }
        #[cfg(unix)]
        self.signal_group(rustix::process::Signal::KILL);
        #[cfg(target_os = "linux")]
        {
            self.held
                .iter()
                .for_each(ostler_tools::confine::ConfinementHandle::clear);
            // A process has no environment for a moment during exec. After a kill, two scans in a
            // row must find nothing.
            let required = if self.held.is_some() || self.was_signalled {
                2
            } else {
                1
            };
            let (mut quiet, mut empty_scans) = (0, 0);
            for _ in 0..300 {
                let Some(found) = super::marked::find(self.query()).await else {
                    return false;
                };
                let left = found.marked;
                // A dying process no longer has an environment, but exists until its memory is
                // released. Wait for it, but not for long: it may be a live process that only hides
                // its environment.
                empty_scans += u32::from(left.is_empty());
                let is_gone = left.is_empty()
                    && (empty_scans > 100 || !(found.has_exiting || self.has_live_group()));
                quiet = if is_gone { quiet + 1 } else { 0 };
                if quiet == required {
                    return true;
                }
                super::sweep::signal(&left, rustix::process::Signal::KILL);
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            false
        }
        #[cfg(not(target_os = "linux"))]
        true
    }
}

impl Control for Direct {
    fn terminate(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.was_signalled = true;
        super::trace_stop(self.group, "terminate");
        #[cfg(unix)]
        self.signal_group(rustix::process::Signal::TERM);
        #[cfg(windows)]
        {
            let Process::Wrapped(child) = &mut self.child;
            let _ = child.start_kill();
        }
    }

    fn kill(&mut self) {
        if self.kill_group() {
            #[cfg(target_os = "linux")]
            super::marked::kill(self.query());
        }
    }

    fn abandon(&mut self) {
        if self.kill_group() {
            #[cfg(target_os = "linux")]
            super::sweep::signal(
                &super::marked::find_by_mark(&self.mark),
                rustix::process::Signal::KILL,
            );
        }
    }

    #[cfg(unix)]
    fn freeze(&mut self) {
        self.signal_all(rustix::process::Signal::STOP);
    }

    #[cfg(unix)]
    fn thaw(&mut self) {
        self.signal_all(rustix::process::Signal::CONT);
    }

    #[cfg(target_os = "linux")]
    fn end(&mut self) -> Teardown {
        self.abandon();
        self.held
            .iter()
            .for_each(ostler_tools::confine::ConfinementHandle::clear);
        let mut quiet = 0;
        for _ in 0..END_POLLS {
            let left = match &self.tree {
                Some(tree) if tree.is_gone() => return Teardown::Confirmed,
                Some(_) => Vec::new(),
                None => super::marked::find_by_mark(&self.mark),
            };
            quiet = if left.is_empty() && self.tree.is_none() {
                quiet + 1
            } else {
                0
            };
            if quiet == 2 {
                return Teardown::Confirmed;
            }
            super::sweep::signal(&left, rustix::process::Signal::KILL);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Teardown::Unknown
    }

    fn exceeded_processes(&self) -> bool {
        self.exceeded_processes
    }

    #[cfg(target_os = "linux")]
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.child {
            Process::Unconfined(child) if self.limit.is_none() && self.ended.is_none() => {
                child.poll_exit(cx)
            }
            _ => Poll::Ready(()),
        }
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            if let Some(status) = self.ended {
                return status;
            }
            let mut status = self
                .wait_within_limit()
                .await
                .map_or_else(|_| ExitStatus::default(), exit_status);
            status.left_over = !self.sweep().await;
            #[cfg(target_os = "linux")]
            {
                status.out_of_memory = self
                    .held
                    .as_ref()
                    .is_some_and(ostler_tools::confine::ConfinementHandle::ran_out_of_memory);
            }
            super::trace_exit(self.group, &status);
            self.ended = Some(status);
            status
        })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // Leave nothing behind if the session is dropped without being ended.
        self.abandon();
    }
}

fn exit_status(status: std::process::ExitStatus) -> ExitStatus {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    ExitStatus {
        code: status.code(),
        signal,
        ..ExitStatus::default()
    }
}
