//! Conformance suite as data: the rows, when a row applies to an agent, and the event story that
//! all agents share.
//!
//! The tests are generated where sessions can be driven
//! (`crates/ostler/tests/it/conformance.rs`), for each transport in the manifests of agents. A row
//! that applies runs; one that does not is listed with its reason. Agents that do the same thing
//! emit the same kinds of event in the same order (S2-21).

use serde_json::Value;

use super::Subject;

/// A row of the suite: a scenario that runs with every capable agent.
#[derive(Debug)]
pub struct Row {
    /// Name of the row, of its test and of its recordings.
    pub name: &'static str,
    /// Short description of the scenario.
    pub about: &'static str,
    /// When the row applies.
    pub applies: Applies,
    /// Event story shared by all agents, as produced by [`super::Observed::normalized_story`]; if
    /// a row has several sessions, the story of each. `…` stands for text and tools that differ
    /// between agents. `partial reply` appears only for agents that stream.
    pub story: &'static str,
    /// What a recording of the agent verifies.
    pub recorded: ReplayCoverage,
}

/// What is verified of a row when a recording is replayed: the model is not called, and no tool
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayCoverage {
    /// Everything: every check is made.
    Full,
    /// Only the events. The rest, named here, is verified only by the agent itself.
    EventsOnly(&'static str),
    /// Nothing: the row is about what reaches the agent or the model. There is no recording.
    Never,
}

/// When a row applies to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// To every agent.
    Always,
    /// If the agent is a separate process.
    ToProcesses,
    /// If the agent has this capability.
    When(&'static str),
}

/// The story of a session with one turn: the events between start and end, and how it ends.
macro_rules! story {
    ($middle:literal, $end:literal) => {
        concat!(
            "starting, turn, started, working, ",
            $middle,
            "over ",
            $end,
            ", idle, stopping, ended, end ",
            $end
        )
    };
}

macro_rules! rows {
    ($($name:ident, $about:literal, $applies:expr, $story:expr, $recorded:expr;)*) => {
        /// All rows, in the order of the page.
        pub const ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            about: $about,
            applies: $applies,
            story: $story,
            recorded: $recorded,
        }),*];
    };
}

use Applies::{Always, ToProcesses, When};
use ReplayCoverage::{EventsOnly, Full, Never};

rows! {
    text, "a complete answer", Always, story!("reply, ", "completed"),
        EventsOnly("version, model, exit code, and that the prompt arrives");
    deltas, "a streamed answer", When("stream_text"), story!("reply, ", "completed"),
        Full;
    thinking, "thinking, separate from the answer", When("thinking"), story!("thinking, reply, ", "completed"),
        Full;
    tool, "an allowed tool", When("tells_tools"), story!("call, result ok, reply, ", "completed"),
        EventsOnly("that the tool runs and the model gets its result");
    denied_tool, "a denied tool", When("tells_denials"),
        story!("call, permission denied, result denied, reply, ", "denied"),
        EventsOnly("that the model gets the denial");
    permission_asked, "approval is requested and granted", When("ask"),
        story!("call, permission asked, permission allowed, result ok, reply, ", "completed"),
        EventsOnly("that the tool runs");
    two_tools, "two tools in one message, one fails", When("tells_tools"),
        story!("call, call, result failed, result ok, reply, ", "completed"),
        Full;
    structured_output, "an answer that follows a schema", When("structured"), story!("…, ", "completed"),
        EventsOnly("that the model gets the schema");
    auth_error, "the key is rejected", Always, story!("", "auth"),
        Full;
    rate_limit, "the account's rate limit is reached", Always, story!("", "rate_limit"),
        Full;
    interrupt, "interrupted in mid-answer, then another turn, then an interrupt without a turn", When("interrupt"),
        "starting, turn, started, working, reply, over interrupted, idle, turn, working, reply, over completed, idle, \
         refused, stopping, ended, end completed",
        Full;
    resume, "resumed twice", When("resume"), story!("reply, ", "completed"),
        EventsOnly("what the model is sent, and the ids");
    fork, "resumed as a copy", When("fork"), story!("reply, ", "completed"),
        EventsOnly("what the model is sent");
    limits, "the time limit is reached", Always,
        "starting, turn, started, working, partial reply, over wall_limit, stopping, ended, end wall_limit",
        Full;
    died, "killed by another process while a tool runs", ToProcesses,
        "starting, turn, started, working, call, result failed, over agent_died, ended, end agent_died",
        EventsOnly("that its command ends with it");
    bound_tool, "a tool provided by the caller", When("tools"), story!("call, result ok, reply, ", "completed"),
        EventsOnly("that the tool is offered and the model gets its result");
    usage_exact, "every token counted once", When("tells_usage"),
        story!("call, result ok, reply, usage turn, usage session, ", "completed"),
        Full;
    cwd, "its working directory", Always, story!("call, result ok, reply, ", "completed"),
        EventsOnly("that its tools run there");
    env, "its variables, without the host's secrets", Always,
        story!("call, result ok, reply, ", "completed"),
        Never;
    big_prompt, "a prompt of five megabytes", When("long_prompts"), story!("reply, ", "completed"),
        Never;
    unicode, "special characters arrive unchanged", Always, story!("reply, ", "completed"),
        Never;
    nothing_left_behind, "stopped while a tool runs, leaving no process", Always,
        "starting, turn, started, working, call, stopping, result failed, over stopped, ended, end stopped",
        EventsOnly("that its command ends with it");
}

/// Returns the row with this name.
///
/// # Panics
/// If it does not exist.
#[must_use]
pub fn row(name: &str) -> &'static Row {
    ROWS.iter()
        .find(|row| row.name == name)
        .unwrap_or_else(|| panic!("unknown row {name:?}"))
}

impl Subject {
    /// Returns why a row does not apply, or `None` if it applies.
    #[must_use]
    pub fn lack(&self, row: &str) -> Option<&str> {
        self.lacks.get(row).map(String::as_str)
    }

    /// Compares the missing rows with the agent's capabilities (as JSON) and returns the
    /// contradictions: an applicable row that does not run, one that runs but cannot, an unknown
    /// row.
    #[must_use]
    pub fn faults(&self, capabilities: &Value) -> Vec<String> {
        let unknown = self
            .lacks
            .keys()
            .filter(|name| !ROWS.iter().any(|row| row.name == *name));
        let unknown = unknown.map(|name| format!("{}: unknown row {name}", self.id));
        unknown
            .chain(ROWS.iter().filter_map(|row| self.fault(row, capabilities)))
            .collect()
    }

    fn fault(&self, row: &Row, capabilities: &Value) -> Option<String> {
        let lacks = self.lack(row.name);
        let (applies, because) = match row.applies {
            Always => (true, "it applies to every agent".to_owned()),
            ToProcesses => (
                self.pinned().is_some(),
                "it applies to processes only".to_owned(),
            ),
            When(name) => match capabilities[name].as_bool() {
                Some(can) => (can, format!("the capability {name} is {can}")),
                None => return Some(format!("{}: unknown capability {name}", row.name)),
            },
        };
        if lacks == Some("") {
            return Some(format!(
                "{}: {} is left out without a reason",
                self.id, row.name
            ));
        }
        let wrong = match (applies, lacks) {
            (true, Some(_)) => "is left out",
            (false, None) => "runs",
            _ => return None,
        };
        Some(format!("{}: {} {wrong}, but {because}", self.id, row.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn able() -> Value {
        let names = ROWS.iter().filter_map(|row| {
            if let When(name) = row.applies {
                Some(name)
            } else {
                None
            }
        });
        names
            .map(|name| (name.to_owned(), json!(true)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    #[test]
    fn missing_rows_match_capabilities() {
        let mut able = able();
        let faults = |id, lacks: &[(&str, &str)], able: &Value| {
            let owned = |(row, why): &(&str, &str)| ((*row).to_owned(), (*why).to_owned());
            let mut subject = Subject::load(id);
            subject.lacks = lacks.iter().map(owned).collect();
            subject.faults(able).join("; ")
        };
        assert_eq!(faults("claude", &[], &able), "");
        assert_eq!(
            faults("claude", &[("fork", "why not")], &able),
            "claude: fork is left out, but the capability fork is true"
        );
        assert_eq!(
            faults("claude", &[("text", "mute")], &able),
            "claude: text is left out, but it applies to every agent"
        );
        assert_eq!(
            faults("claude", &[("fork", "")], &able),
            "claude: fork is left out without a reason"
        );
        assert_eq!(
            faults("claude", &[("flying", "no wings")], &able),
            "claude: unknown row flying"
        );
        assert_eq!(
            faults("openai_api", &[], &able),
            "openai_api: died runs, but it applies to processes only"
        );
        able["fork"] = json!(false);
        assert_eq!(
            faults("claude", &[], &able),
            "claude: fork runs, but the capability fork is false"
        );
        assert_eq!(faults("claude", &[("fork", "it cannot")], &able), "");
        able["fork"] = Value::Null;
        assert_eq!(
            faults("claude", &[], &able),
            "fork: unknown capability fork"
        );
    }
}
