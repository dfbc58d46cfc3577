//! Starting a child without a guard: its own session, its group for signals, and on Linux the mark in its environment for
//! what left the group. If this process is killed, the direct child dies with it (Linux), but not what it started.

use std::future::Future;
use std::pin::Pin;
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::Command;

use super::{Child, Control, Ended, ExitStatus, LAST_LOOKS, PreparedCommand, SpawnError};

/// How often the processes of a confined child are counted.
#[cfg(target_os = "linux")]
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

pub(super) fn spawn(prepared: PreparedCommand) -> Result<Child, SpawnError> {
    let PreparedCommand {
        program,
        args,
        env,
        dir,
        mark,
        files,
        temp,
        confinement,
        remark,
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
    die_with_us(command.as_std_mut());
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
    let spawned = spawner::spawn(wrap);
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
    let mut child = spawned.map_err(|error| SpawnError::of(&program, error))?;
    let pid = child.id();
    Ok(Child {
        stdin: child.stdin().take().map(|s| Box::new(s) as _),
        stdout: child
            .stdout()
            .take()
            .map_or_else(|| Box::new(tokio::io::empty()) as _, |s| Box::new(s) as _),
        stderr: child.stderr().take().map(|s| Box::new(s) as _),
        pid,
        remark: remark.or_else(super::remark_on_system),
        control: Box::new(Direct {
            child,
            mark,
            group: pid,
            ended: None,
            was_killed: false,
            #[cfg(target_os = "linux")]
            crowd: super::confined::Crowd::of(
                confinement.as_ref(),
                held.as_ref(),
                reported.layers.unwrap_or_default(),
            ),
            overran: false,
            #[cfg(target_os = "linux")]
            tree: reported.tree,
            #[cfg(target_os = "linux")]
            held,
            _files: files,
            _temp: temp,
        }),
    })
}

/// Has the kernel kill the child when the thread that started it ends; see [`spawner`] for which thread that is.
#[cfg(target_os = "linux")]
pub(super) fn die_with_us(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    let set = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // If the parent went before the line above, nobody will send that signal any more.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        }
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to run code between fork and exec; it makes two system calls"
    )]
    // SAFETY: the closure only makes async-signal-safe system calls and allocates nothing.
    unsafe {
        command.pre_exec(set);
    }
}

/// The thread that starts children. The kernel's "kill me when my parent dies" looks at the *thread* that forked, so a
/// child started from a thread of a pool would die when the pool lets that thread go. This one lives as long as the process.
mod spawner {
    use std::io;
    use std::sync::{OnceLock, mpsc};

    use process_wrap::tokio::{ChildWrapper, CommandWrap};
    use tokio::runtime::Handle;

    type Reply = mpsc::Sender<io::Result<Box<dyn ChildWrapper>>>;
    type Order = (CommandWrap, Handle, Reply);

    static THREAD: OnceLock<mpsc::Sender<Order>> = OnceLock::new();

    pub(super) fn spawn(command: CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
        let gone = || io::Error::other("the thread that starts processes is gone");
        let (reply, answer) = mpsc::channel();
        THREAD
            .get_or_init(start)
            .send((command, Handle::current(), reply))
            .map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    fn start() -> mpsc::Sender<Order> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let work = move || {
            for (mut command, runtime, reply) in inbox {
                let _context = runtime.enter();
                let _ = reply.send(command.spawn());
            }
        };
        // If no thread can be had, the channel is closed and every start fails with an error that says so.
        let _ = std::thread::Builder::new()
            .name("ostler-spawner".into())
            .spawn(work);
        orders
    }
}

struct Direct {
    child: Box<dyn ChildWrapper>,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "processes are found by their mark on Linux only")
    )]
    mark: String,
    /// The group's number, kept because it cannot be asked for once its leader is gone.
    group: Option<u32>,
    /// Set once all is over: from then on the numbers may belong to somebody else.
    ended: Option<ExitStatus>,
    was_killed: bool,
    #[cfg(target_os = "linux")]
    crowd: Option<super::confined::Crowd>,
    overran: bool,
    #[cfg(target_os = "linux")]
    tree: Option<ostler_tools::confine::ProcessTree>,
    #[cfg(target_os = "linux")]
    held: Option<ostler_tools::confine::ConfinementHandle>,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<super::PrivateDirectory>,
}

impl Direct {
    #[cfg(unix)]
    fn signal_group(&self, signal: rustix::process::Signal) {
        if let Some(pid) = self
            .group
            .and_then(|g| i32::try_from(g).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// Stops all of it, or lets it go on: the group, and what left the group.
    #[cfg(unix)]
    fn halt(&self, signal: rustix::process::Signal) {
        if self.ended.is_none() {
            self.signal_group(signal);
            #[cfg(target_os = "linux")]
            super::sweep::signal(&super::sweep::marked(&self.mark), signal);
        }
    }

    /// Waits for the end of the process, and kills all of it when there is too much of it.
    async fn watch(&mut self) -> std::io::Result<std::process::ExitStatus> {
        #[cfg(target_os = "linux")]
        while let Some(crowd) = &mut self.crowd {
            if let Ok(status) = tokio::time::timeout(LOOK_EVERY, self.child.wait()).await {
                return status;
            }
            if crowd.is_too_large(|| super::sweep::marked(&self.mark).len()) {
                self.overran = true;
                self.kill();
            }
        }
        self.child.wait().await
    }

    /// Ends what is left once the agent itself is gone. Returns whether it is certain that nothing is.
    async fn sweep(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(tree) = &self.tree {
            // It is gone already, unless the process that waits for it was killed.
            tree.kill();
            for _ in 0..LAST_LOOKS {
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
            // A process that is just becoming another program has no environment for a moment: what was killed in the middle of
            // its work is gone when nothing of it was seen twice.
            let (mut quiet, enough) = (
                0,
                if self.held.is_some() || self.was_killed {
                    2
                } else {
                    1
                },
            );
            let mut rounds = 0;
            for _ in 0..300 {
                let left = super::sweep::marked(&self.mark);
                // One that is dying has no environment any more, but is there until its memory is given back. It is waited for,
                // but not for long: it may be somebody who only hides.
                rounds += u32::from(left.is_empty());
                let gone =
                    left.is_empty() && (rounds > 100 || !super::sweep::is_peopled(self.group));
                quiet = if gone { quiet + 1 } else { 0 };
                if quiet == enough {
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
        self.was_killed = true;
        #[cfg(unix)]
        self.signal_group(rustix::process::Signal::TERM);
        #[cfg(windows)]
        let _ = self.child.start_kill();
    }

    fn kill(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.was_killed = true;
        #[cfg(target_os = "linux")]
        if let Some(tree) = &self.tree {
            // Whoever waits for it ends once all of it is gone.
            tree.kill();
            return self.signal_group(rustix::process::Signal::CONT);
        }
        let _ = self.child.start_kill();
        #[cfg(target_os = "linux")]
        super::sweep::signal(
            &super::sweep::marked(&self.mark),
            rustix::process::Signal::KILL,
        );
    }

    #[cfg(unix)]
    fn freeze(&mut self) {
        self.halt(rustix::process::Signal::STOP);
    }

    #[cfg(unix)]
    fn thaw(&mut self) {
        self.halt(rustix::process::Signal::CONT);
    }

    #[cfg(target_os = "linux")]
    fn end(&mut self) -> Ended {
        self.kill();
        self.held
            .iter()
            .for_each(ostler_tools::confine::ConfinementHandle::clear);
        let mut quiet = 0;
        for _ in 0..LAST_LOOKS {
            let left = match &self.tree {
                Some(tree) if tree.is_gone() => return Ended::Confirmed,
                Some(_) => Vec::new(),
                None => super::sweep::marked(&self.mark),
            };
            quiet = if left.is_empty() && self.tree.is_none() {
                quiet + 1
            } else {
                0
            };
            if quiet == 2 {
                return Ended::Confirmed;
            }
            super::sweep::signal(&left, rustix::process::Signal::KILL);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ended::Unknown
    }

    fn overran(&self) -> bool {
        self.overran
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            if let Some(status) = self.ended {
                return status;
            }
            let mut status = self
                .watch()
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
            self.ended = Some(status);
            status
        })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // Whoever drops a session without ending it still leaves nothing behind.
        self.kill();
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
