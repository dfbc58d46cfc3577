//! Who is tried: what a scenario must know about an agent to be written once for all of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::model::{Answer, Request, Usage};

/// A setting and its value.
pub type Setting = (&'static str, &'static str);

/// An agent, as far as scenarios have to know it.
#[derive(Debug)]
pub struct Subject {
    /// What `--agent` takes.
    pub name: &'static str,
    /// What `started` says its version is; none: not looked at.
    pub version: Option<&'static str>,
    /// Its program; none for an agent that is a part of Ostler.
    pub program: Option<fn() -> PathBuf>,
    /// The environment in which Ostler runs, for a home and the address of the model.
    pub host: fn(&Path, &str) -> Vec<(String, String)>,
    /// Whether it says nothing until it is done, and only counts its tools.
    pub silent: bool,
    /// Makes a working directory ready.
    pub furnish: fn(&Path),
    /// Its tools.
    pub tools: Tools,
    /// Its settings.
    pub settings: Known,
    /// Its numbers.
    pub numbers: Numbers,
    /// Its words about what went wrong.
    pub words: Words,
    /// Its manner.
    pub manner: Manner,
}

/// The tools of an agent.
#[derive(Debug)]
pub struct Tools {
    /// The one that runs a command.
    pub command: &'static str,
    /// Its arguments to run a line of shell.
    pub shell: fn(&str) -> Value,
    /// What the caller gets when a command has printed this. The model gets as much, after a head of the agent's own.
    pub printed: fn(&str) -> String,
    /// A call that is denied to a task that trusts nobody: its tool, and its arguments.
    pub forbidden: fn() -> (&'static str, Value),
    /// Its call to read a file.
    pub read: fn(&str) -> (&'static str, Value),
    /// Its call to write a line into a file.
    pub write: fn(&str) -> (&'static str, Value),
    /// What its model has in front of the names of bound tools.
    pub bound: &'static str,
    /// Two others, in alphabetical order.
    pub others: [&'static str; 2],
}

/// The settings of an agent.
#[derive(Debug)]
pub struct Known {
    /// Those of every task: which of its languages is spoken, for an agent that has several.
    pub always: &'static [Setting],
    /// Those with which every tool runs.
    pub trust: &'static [Setting],
    /// Those with which a command can do its work once somebody has allowed it.
    pub asked: &'static [Setting],
    /// The one that says whether text comes in pieces; none: it always does.
    pub partial: Option<&'static str>,
    /// Whether what it says is told before it is complete.
    pub streams: bool,
    /// A model that is not the usual one.
    pub model: &'static str,
    /// Those with which a call is tried again only once.
    pub hasty: &'static [Setting],
    /// Those with which the cost is known.
    pub priced: &'static [Setting],
    /// Those with which a prompt of any length goes to the model, and a variable for it.
    pub roomy: (&'static [Setting], Option<Setting>),
    /// The one that tells the model something before all else; none: there is none.
    pub system: Option<&'static str>,
    /// The variable with the key, and the one with the model's address.
    pub variables: (&'static str, &'static str),
    /// The model's answer to a schema.
    pub structured: fn(&Value) -> Answer,
    /// The schema as the model gets it.
    pub schema: fn(&Request) -> Option<Value>,
}

/// What an agent counts, and what it takes its time for.
#[derive(Debug)]
pub struct Numbers {
    /// What it reports of the counts of one answer: input, written to the cache, read from it, output.
    pub tokens: fn(Usage) -> [u64; 4],
    /// What it says a million of each costs, with its usual model; none: it does not know costs.
    pub price: Option<[f64; 4]>,
    /// Where its costs come from when nothing is set.
    pub cost_source: &'static str,
    /// The status of an overloaded service.
    pub overloaded: u16,
    /// Errors of the provider that it tries again.
    pub retried: &'static [u16],
    /// The exit codes of a good and of a failed run; an agent that is no process has one too.
    pub exit_codes: [i32; 2],
    /// A limit on time that it certainly has begun to work in.
    pub soon: Duration,
    /// How long it may try again before it says that the service fails.
    pub persists: Duration,
}

/// Parts of the hints of an agent, and its codes.
#[derive(Debug)]
pub struct Words {
    /// When the key is wrong.
    pub auth: &'static str,
    /// When nobody is reached.
    pub network: &'static str,
    /// The code of the notice that a call is tried again.
    pub retry: &'static str,
}

/// Ways of an agent's own, which change nothing of what is promised.
#[derive(Debug)]
pub struct Manner {
    /// What `started` says of the model that the provider knows by this name; none: nothing.
    pub model: fn(&str) -> Option<String>,
    /// The name that events have for a tool of its model's.
    pub tool: fn(&'static str) -> &'static str,
    /// Whether its model gets a prompt with something of the agent's around it.
    pub wraps_prompts: bool,
    /// Whether the turn ends when a call is denied, so that the model never hears of it.
    pub ends_when_denied: bool,
    /// Whether thoughts lose the space around them.
    pub trims_thoughts: bool,
    /// What the provider says in an error of this status. Of some agents these words are all that is left of it.
    pub provider: fn(u16) -> &'static str,
    /// Whether the status of a provider's error is told.
    pub tells_status: bool,
    /// Those that it does not tell even so.
    pub untold: &'static [u16],
    /// A line of shell that prints 42 and writes it into the file `made`: some agents refuse some of them.
    pub sum: &'static str,
    /// A call that fails: its tool, its arguments, and a part of what is said about it.
    pub fails: fn(&Tools) -> (&'static str, Value, &'static str),
    /// The arguments with which its tool for commands is certain to be asked about, for a line of shell.
    pub asked: fn(&Tools, &str) -> Value,
    /// Whether the model gets what a command printed with something of the agent's around it.
    pub wraps_outputs: bool,
    /// Whether the caller is told what a command printed.
    pub tells_outputs: bool,
    /// Whether it takes an interrupt only when the model's next word comes.
    pub stops_between_words: bool,
    /// Whether it may stay after its last word for longer than it is given, and then is told to end.
    pub lingers: bool,
    /// What stands in the system prompt of calls of the model that are no part of the work.
    pub asides: &'static [&'static str],
}

impl Manner {
    /// Nothing out of the ordinary.
    pub const PLAIN: Self = Self {
        model: |name| Some(name.to_owned()),
        tool: |name| name,
        wraps_prompts: false,
        ends_when_denied: false,
        trims_thoughts: false,
        provider: |_| "the provider's words",
        tells_status: true,
        untold: &[],
        sum: "echo $((40 + 2)) | tee made",
        fails: |tools| (tools.command, (tools.shell)("echo two >&2; exit 3"), "two"),
        asked: |tools, line| (tools.shell)(line),
        wraps_outputs: false,
        tells_outputs: true,
        stops_between_words: false,
        lingers: false,
        asides: &[],
    };
}

impl Numbers {
    /// Reports all four counts.
    pub(super) const APART: fn(Usage) -> [u64; 4] =
        |of| [of.input, of.cache_creation, of.cache_read, of.output];

    /// Reports what was written to a cache as part of the input.
    pub(super) const READ_APART: fn(Usage) -> [u64; 4] =
        |of| [of.input + of.cache_creation, 0, of.cache_read, of.output];

    /// The sum of what it reports of some answers.
    #[must_use]
    pub fn sum(&self, answers: &[Usage]) -> [u64; 4] {
        let counts = answers.iter().map(|of| (self.tokens)(*of));
        counts.fold([0; 4], |sum, of| std::array::from_fn(|i| sum[i] + of[i]))
    }

    /// What it says that many tokens cost; none: it does not say.
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
    /// Whether this is what a command has printed, as the model and the caller get it.
    #[must_use]
    pub fn is_printed(&self, found: &str, text: &str) -> bool {
        found.ends_with(&(self.tools.printed)(text))
            || (self.manner.wraps_outputs && found.contains(text))
    }

    /// Whether the model got this prompt.
    #[must_use]
    pub fn heard(&self, arrived: &str, prompt: &str) -> bool {
        arrived == prompt || (self.manner.wraps_prompts && arrived.contains(prompt))
    }

    /// The model runs a line of shell.
    #[must_use]
    pub fn shell(&self, line: &str) -> Answer {
        Answer::tool(self.tools.command, (self.tools.shell)(line))
    }

    /// The model runs a line of shell that somebody is asked about.
    #[must_use]
    pub fn asked(&self, line: &str) -> Answer {
        Answer::tool(self.tools.command, (self.manner.asked)(&self.tools, line))
    }

    /// The model tries what is forbidden.
    #[must_use]
    pub fn forbidden(&self) -> Answer {
        let (tool, input) = (self.tools.forbidden)();
        Answer::tool(tool, input)
    }
}
