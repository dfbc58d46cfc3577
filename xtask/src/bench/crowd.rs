//! Many more processes on the machine, which end with this value, or with this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Sleeping processes in a group of their own. A shell that reads from this program leads it and
/// ends it when the pipe is closed, however this program ended.
pub(super) struct Crowd {
    leader: Child,
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
    /// Starts processes, and returns once all exist.
    pub(super) fn start(count: usize) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", &count.to_string()]);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = command.spawn().context("start a shell")?;
        let stdout = leader.stdout.take();
        let crowd = Self { leader };
        let mut ready = String::new();
        BufReader::new(stdout.context("the shell has no stdout")?).read_line(&mut ready)?;
        anyhow::ensure!(ready == "ready\n", "{count} processes do not start");
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.leader.stdin.take());
        let _ = self.leader.wait();
    }
}
