//! Many more processes on the machine, which end with this value, or with this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// Sleeping processes in a group of their own. A shell that reads from this program leads it and
/// ends it when the pipe is closed, however this program ended.
pub(super) struct Crowd {
    leader: Child,
    /// Ids of the sleeping processes.
    members: Vec<String>,
}

const SCRIPT: &str = r#"
i=0
while [ $i -lt "$1" ]; do
    sleep 900 </dev/null >/dev/null 2>&1 &
    i=$((i + 1))
done
echo ready
read -r _
trap '' TERM
kill -TERM 0
"#;

impl Crowd {
    /// Starts processes, and returns once all of them sleep: until then they use the processor.
    pub(super) fn start(count: usize) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", &count.to_string()]);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = command.spawn().context("start a shell")?;
        let stdout = leader.stdout.take();
        let mut crowd = Self {
            leader,
            members: Vec::new(),
        };
        let mut ready = String::new();
        BufReader::new(stdout.context("the shell has no stdout")?).read_line(&mut ready)?;
        anyhow::ensure!(ready == "ready\n", "{count} processes do not start");
        let leader = crowd.leader.id();
        let children = std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"));
        let children = children.context("list the processes")?;
        crowd.members = children.split_whitespace().map(str::to_owned).collect();
        wait_until(|| crowd.members.iter().all(|pid| state(pid) == Some('S')))?;
        Ok(crowd)
    }
}

/// Returns the state of a process if it is the program `sleep`: `S` if it sleeps, `Z` if it has
/// ended and is not reaped.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.split_once("(sleep) ")?.1.chars().next()
}

/// Polls a condition, for at most a minute.
fn wait_until(mut condition: impl FnMut() -> bool) -> Result<()> {
    for _ in 0..6_000 {
        if condition() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("the processes of the crowd are busy for a minute")
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.leader.stdin.take());
        let _ = self.leader.wait();
        // Their end takes time that the next measurement would wait for.
        let has_ended = |pid: &String| matches!(state(pid), None | Some('Z' | 'X'));
        let _ = wait_until(|| self.members.iter().all(has_ended));
    }
}
