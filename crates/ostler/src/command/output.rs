//! Result of a command, as data and as text for a model.

use ostler_tools::catalog::ToolOutput;
use ostler_tools::{Code, ToolError};
use serde::Serialize;

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Head and tail of its standard output.
    pub stdout: String,
    /// Head and tail of its standard error.
    pub stderr: String,
    /// Whether output is missing between head and tail.
    pub truncated: bool,
    /// The limit for which it was killed.
    pub killed_for: Option<KilledFor>,
    /// Protected files that it changed, and that were restored.
    pub put_back: Vec<String>,
    /// Time limit in seconds.
    #[serde(skip)]
    pub(super) limit_seconds: u64,
}

/// A limit for which a command was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KilledFor {
    /// It ran too long.
    Time,
    /// It used too much CPU time.
    CpuTime,
    /// It wrote too large a file.
    FileSize,
    /// It started too many processes.
    Processes,
    /// It used too much memory.
    Memory,
}

impl KilledFor {
    /// Returns the limit's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::CpuTime => "computing time",
            Self::FileSize => "length of files",
            Self::Processes => "number of processes",
            Self::Memory => "memory",
        }
    }
}

impl CommandOutput {
    /// Returns the tool output for a model. A command that failed or timed out is a tool error.
    pub(super) fn reply(&self) -> Result<ToolOutput, ToolError> {
        let text = self.text();
        match (self.killed_for, self.exit_code) {
            (Some(KilledFor::Time), _) => return Err(ToolError::new(Code::TimedOut, text)),
            (None, Some(0)) => {}
            _ => return Err(ToolError::new(Code::CommandFailed, text)),
        }
        let json = serde_json::to_string(self).map_err(|error| ToolError::io(error.to_string()))?;
        Ok(ToolOutput { text, json })
    }

    /// Describes the result for a model.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = vec![self.ending()];
        match (self.stdout.is_empty(), self.stderr.is_empty()) {
            (true, true) => parts.push("(no output)".to_owned()),
            (false, true) => parts.push(self.stdout.clone()),
            (true, false) => parts.push(format!("stderr:\n{}", self.stderr)),
            (false, false) => parts.push(format!(
                "stdout:\n{}\nstderr:\n{}",
                self.stdout, self.stderr
            )),
        }
        if !self.put_back.is_empty() {
            parts.push(format!(
                "These files are protected; what the command did to them was undone: {}",
                self.put_back.join(", ")
            ));
        }
        parts.join("\n")
    }

    fn ending(&self) -> String {
        let killed = match self.killed_for {
            Some(KilledFor::Time) => {
                Some(format!("it was ended after {} seconds", self.limit_seconds))
            }
            Some(KilledFor::CpuTime) => Some("it was ended: it computed for too long".to_owned()),
            Some(KilledFor::FileSize) => Some("it was ended: it wrote too long a file".to_owned()),
            Some(KilledFor::Processes) => {
                Some("it was ended: it started too many processes".to_owned())
            }
            Some(KilledFor::Memory) => Some("it was killed: it used too much memory".to_owned()),
            None => None,
        };
        match (killed, self.exit_code, self.signal) {
            (Some(why), ..) => why,
            (None, Some(code), _) => format!("exit code {code}"),
            (None, None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None, None) => "ended in an unknown way".to_owned(),
        }
    }
}
