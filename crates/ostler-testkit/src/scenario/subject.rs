//! The agent under test: everything a scenario needs to know so that it can be written once for
//! all agents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::model::{Answer, Request, Usage};

/// A setting and its value.
pub type Setting = (&'static str, &'static str);

/// An agent under test, as far as scenarios need to know it.
#[derive(Debug)]
pub struct Subject {
    /// Value of `--agent`.
    pub name: &'static str,
    /// Version that `started` reports; `None`: not checked.
    pub version: Option<&'static str>,
    /// Its program; `None` for an agent that is part of Ostler.
    pub program: Option<fn() -> PathBuf>,
    /// Returns the environment in which Ostler runs, for a home and the model's address.
    pub host: fn(&Path, &str) -> Vec<(String, String)>,
    /// Whether it reports nothing until it is done, and only counts its tools.
    pub silent: bool,
    /// Prepares a working directory.
    pub prepare_workdir: fn(&Path),
    /// Its tools.
    pub tools: Tools,
    /// Its settings.
    pub settings: SubjectSettings,
    /// Its counts, prices and durations.
    pub numbers: Numbers,
    /// Expected hints.
    pub hints: ExpectedHints,
    /// Its quirks.
    pub quirks: Quirks,
}

/// The tools of an agent.
#[derive(Debug)]
pub struct Tools {
    /// The tool that runs a command.
    pub command: &'static str,
    /// Returns its arguments to run a shell command.
    pub shell: fn(&str) -> Value,
    /// Returns what the caller gets when a command has printed this. The model gets the same,
    /// after a prefix of the agent.
    pub printed: fn(&str) -> String,
    /// Returns a call that is denied to a task without trust: the tool and its arguments.
    pub forbidden: fn() -> (&'static str, Value),
    /// Returns the call that reads a file.
    pub read: fn(&str) -> (&'static str, Value),
    /// Returns the call that writes a line to a file.
    pub write: fn(&str) -> (&'static str, Value),
    /// Prefix of bound tool names, as the model sees them.
    pub bound: &'static str,
    /// Two other tools, in alphabetical order.
    pub others: [&'static str; 2],
}

/// The settings of an agent.
#[derive(Debug)]
pub struct SubjectSettings {
    /// For every task: selects the transport of an agent that has several.
    pub always: &'static [Setting],
    /// Lets every tool run.
    pub trust: &'static [Setting],
    /// Lets a command do its work once it was approved.
    pub after_approval: &'static [Setting],
    /// Key of the setting that enables deltas; `None`: they are always on.
    pub partial: Option<&'static str>,
    /// Whether text is emitted before it is complete.
    pub streams: bool,
    /// A model other than the default.
    pub model: &'static str,
    /// Limits a call to one retry.
    pub one_retry: &'static [Setting],
    /// Makes the cost known.
    pub priced: &'static [Setting],
    /// Sends a prompt of any length to the model: settings, and a variable.
    pub long_prompts: (&'static [Setting], Option<Setting>),
    /// Key of the system prompt setting, if there is one.
    pub system: Option<&'static str>,
    /// The variables for the key and for the model's address.
    pub variables: (&'static str, &'static str),
    /// Returns the model's answer to a schema.
    pub structured: fn(&Value) -> Answer,
    /// Returns the schema as the model gets it.
    pub schema: fn(&Request) -> Option<Value>,
}

/// Token counts, prices and durations of an agent.
#[derive(Debug)]
pub struct Numbers {
    /// What it reports of one answer's counts: input, cache writes, cache reads, output.
    pub tokens: fn(Usage) -> [u64; 4],
    /// Price of a million of each with its default model; `None`: it does not know costs.
    pub price: Option<[f64; 4]>,
    /// Source of its costs when nothing is configured.
    pub cost_source: &'static str,
    /// Status of an overloaded service.
    pub overloaded: u16,
    /// Provider errors that it retries.
    pub retried: &'static [u16],
    /// Exit codes of a successful and of a failed run, also for an agent without a process.
    pub exit_codes: [i32; 2],
    /// Time limit within which it has certainly started to work.
    pub soon: Duration,
    /// How long it may retry before it reports a service failure.
    pub retries_for: Duration,
}

/// Expected parts of an agent's hints, and notice codes.
#[derive(Debug)]
pub struct ExpectedHints {
    /// If the key is wrong.
    pub auth: &'static str,
    /// If the service is unreachable.
    pub network: &'static str,
    /// Code of the retry notice.
    pub retry: &'static str,
}

/// Quirks of an agent that do not affect any guarantee.
#[derive(Debug)]
pub struct Quirks {
    /// What `started` reports for a model with this provider name, if anything.
    pub model: fn(&str) -> Option<String>,
    /// Returns the name in events of one of the model's tools.
    pub tool: fn(&'static str) -> &'static str,
    /// Whether the agent adds text around the prompt.
    pub wraps_prompts: bool,
    /// Whether a denied call ends the turn, so that the model never gets the denial.
    pub ends_when_denied: bool,
    /// Whether surrounding whitespace of thoughts is trimmed.
    pub trims_thoughts: bool,
    /// Message of the provider's error with this status. Some agents report nothing else of it.
    pub provider: fn(u16) -> &'static str,
    /// Whether the status of a provider error is reported.
    pub reports_status: bool,
    /// Statuses that are not reported even so.
    pub unreported_statuses: &'static [u16],
    /// A shell command that prints 42 and writes it to the file `made`: some agents refuse certain
    /// forms.
    pub sum: &'static str,
    /// A call that fails: its tool, its arguments, and a part of the error.
    pub fails: fn(&Tools) -> (&'static str, Value, &'static str),
    /// Arguments with which its command tool always asks for permission, for a shell command.
    pub requiring_permission: fn(&Tools, &str) -> Value,
    /// Whether the agent adds text around a command's output for the model.
    pub wraps_outputs: bool,
    /// Whether the caller gets a command's output.
    pub reports_outputs: bool,
    /// Whether an interrupt takes effect only with the model's next output.
    pub stops_at_next_output: bool,
    /// Whether it may take longer to exit than it is given, and then gets a signal.
    pub lingers: bool,
    /// Text in the system prompt of model calls that are not part of the work.
    pub side_requests: &'static [&'static str],
}

impl Quirks {
    /// No quirks.
    pub const PLAIN: Self = Self {
        model: |name| Some(name.to_owned()),
        tool: |name| name,
        wraps_prompts: false,
        ends_when_denied: false,
        trims_thoughts: false,
        provider: |_| "the provider's words",
        reports_status: true,
        unreported_statuses: &[],
        sum: "echo $((40 + 2)) | tee made",
        fails: |tools| (tools.command, (tools.shell)("echo two >&2; exit 3"), "two"),
        requiring_permission: |tools, line| (tools.shell)(line),
        wraps_outputs: false,
        reports_outputs: true,
        stops_at_next_output: false,
        lingers: false,
        side_requests: &[],
    };
}

impl Numbers {
    /// Reports all four counts.
    pub(super) const APART: fn(Usage) -> [u64; 4] =
        |of| [of.input, of.cache_creation, of.cache_read, of.output];

    /// Reports cache writes as part of the input.
    pub(super) const READ_APART: fn(Usage) -> [u64; 4] =
        |of| [of.input + of.cache_creation, 0, of.cache_read, of.output];

    /// Returns the sum of what it reports for some answers.
    #[must_use]
    pub fn sum(&self, answers: &[Usage]) -> [u64; 4] {
        let counts = answers.iter().map(|of| (self.tokens)(*of));
        counts.fold([0; 4], |sum, of| std::array::from_fn(|i| sum[i] + of[i]))
    }

    /// Returns the cost that it reports for these tokens, if any.
    #[must_use]
    pub fn cost(&self, tokens: [u64; 4]) -> Option<f64> {
        let price = self.price?;
        Some(
            tokens
                .iter()
                .zip(price)
                .map(|(count, price)| *count as f64 * price)
                .sum::<f64>()
                / 1e6,
        )
    }
}

impl Subject {
    /// Returns true if this is the output of a command, as the model and the caller get it.
    #[must_use]
    pub fn is_printed(&self, found: &str, text: &str) -> bool {
        found.ends_with(&(self.tools.printed)(text))
            || (self.quirks.wraps_outputs && found.contains(text))
    }

    /// Returns true if the model got this prompt.
    #[must_use]
    pub fn prompt_arrived(&self, arrived: &str, prompt: &str) -> bool {
        arrived == prompt || (self.quirks.wraps_prompts && arrived.contains(prompt))
    }

    /// The model runs a shell command.
    #[must_use]
    pub fn shell(&self, line: &str) -> Answer {
        Answer::tool(self.tools.command, (self.tools.shell)(line))
    }

    /// The model runs a shell command that requires permission.
    #[must_use]
    pub fn shell_with_permission(&self, line: &str) -> Answer {
        Answer::tool(
            self.tools.command,
            (self.quirks.requiring_permission)(&self.tools, line),
        )
    }

    /// The model tries a forbidden call.
    #[must_use]
    pub fn forbidden(&self) -> Answer {
        let (tool, input) = (self.tools.forbidden)();
        Answer::tool(tool, input)
    }
}
