//! The conformance suite as data: which rows there are, when a row applies to an agent, and the story that all of them tell.
//!
//! The tests are made where sessions can be driven, from one list of agents (`crates/ostler/tests/it/conformance`). This is
//! what they are held against: a row that applies runs, one that does not is listed with its reason, and whoever does the
//! same thing tells the same kinds of event in the same order (S2-21).

use serde_json::Value;

use super::Subject;

/// A row of the suite: something that is done with every agent that can.
#[derive(Debug)]
pub struct Row {
    /// Its name, which is the name of its test and of its recordings.
    pub name: &'static str,
    /// What is done, in a few words.
    pub about: &'static str,
    /// When it applies.
    pub applies: Applies,
    /// What every agent tells, in the words of [`super::Seen::tale`]; where a row has several sessions, each of them.
    /// `…` stands for words and tools that an agent has its own way with, `half a reply` for what only an agent tells that does
    /// not wait until it is complete.
    pub story: &'static str,
    /// What a recording of the agent proves of it.
    pub recorded: Recorded,
}

/// What is proved of a row when a recording of the agent is played: the model is not called, and no
/// tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// All of it: every check is made.
    Whole,
    /// What the events say. The rest, named here, only the agent itself proves.
    Events(&'static str),
    /// Nothing: it is about what reaches the agent or the model. No recording is played.
    Never,
}

/// When a row applies to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// To every agent.
    Always,
    /// When the agent is a process of its own.
    ToProcesses,
    /// When the agent's capabilities, which are data, say so.
    When(&'static str),
}

/// The story of a session with one turn: what is between its beginning and its end, and how it ends.
macro_rules! told {
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
use Recorded::{Events, Never, Whole};

rows! {
    text, "an answer, whole", Always, told!("reply, ", "completed"),
        Events("version, model, exit code, and that the prompt arrives");
    deltas, "an answer as it is written", When("stream_text"), told!("reply, ", "completed"),
        Whole;
    thinking, "thoughts apart from the answer", When("thinking"), told!("thinking, reply, ", "completed"),
        Whole;
    tool, "a tool that may run", When("tells_tools"), told!("call, result ok, reply, ", "completed"),
        Events("that the tool runs and the model gets its result");
    denied_tool, "a tool that may not run", When("tells_denials"),
        told!("call, permission denied, result denied, reply, ", "denied"),
        Events("that the model is told");
    permission_asked, "somebody is asked, and allows it", When("ask"),
        told!("call, permission asked, permission allowed, result ok, reply, ", "completed"),
        Events("that the tool runs");
    two_tools, "two tools in one message, one fails", When("tells_tools"),
        told!("call, call, result failed, result ok, reply, ", "completed"),
        Whole;
    structured_output, "an answer by a schema", When("structured"), told!("…, ", "completed"),
        Events("that the model gets the schema");
    auth_error, "the key is rejected", Always, told!("", "auth"),
        Whole;
    rate_limit, "the account's limit is reached", Always, told!("", "rate_limit"),
        Whole;
    interrupt, "interrupted while it speaks, then the next turn, then when there is nothing to interrupt", When("interrupt"),
        "starting, turn, started, working, reply, over interrupted, idle, turn, working, reply, over completed, idle, \
         refused, stopping, ended, end completed",
        Whole;
    resume, "gone on with, twice", When("resume"), told!("reply, ", "completed"),
        Events("what the model is sent, and the ids");
    fork, "gone on with in a copy", When("fork"), told!("reply, ", "completed"),
        Events("what the model is sent");
    limits, "out of time", Always,
        "starting, turn, started, working, half a reply, over wall_limit, stopping, ended, end wall_limit",
        Whole;
    died, "killed from outside, in a tool", ToProcesses,
        "starting, turn, started, working, call, result failed, over agent_died, ended, end agent_died",
        Events("that its command ends with it");
    bound_tool, "a function of the caller's", When("tools"), told!("call, result ok, reply, ", "completed"),
        Events("that the function is offered and the model gets its result");
    usage_exact, "every token once", When("tells_usage"),
        told!("call, result ok, reply, usage turn, usage session, ", "completed"),
        Whole;
    cwd, "its directory", Always, told!("call, result ok, reply, ", "completed"),
        Events("that its tools work there");
    env, "its variables, and none of the host's secrets", Always,
        told!("call, result ok, reply, ", "completed"),
        Never;
    big_prompt, "a prompt of five megabytes", When("long_prompts"), told!("reply, ", "completed"),
        Never;
    unicode, "every awkward character arrives", Always, told!("reply, ", "completed"),
        Never;
    nothing_left_behind, "stopped in a tool, and nothing is left", Always,
        "starting, turn, started, working, call, stopping, result failed, over stopped, ended, end stopped",
        Events("that its command ends with it");
}

/// The row of a name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn row(name: &str) -> &'static Row {
    ROWS.iter()
        .find(|row| row.name == name)
        .unwrap_or_else(|| panic!("the suite has no row {name:?}"))
}

/// When an agent is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It is a part of Ostler: always.
    Own,
    /// A real program that is quickly installed and started: with the real agents.
    Real,
    /// One that is neither: only for those who ask for all agents. The page keeps its last full result.
    Heavy,
}

/// An agent of the suite, in one of its languages: a column of the page.
#[derive(Debug)]
pub struct Member {
    /// Its name in the suite, and of its folder of recordings.
    pub id: &'static str,
    /// Who is tried.
    pub subject: &'static Subject,
    /// How it is spoken with.
    pub transport: &'static str,
    /// When it is tried.
    pub group: Group,
    /// The rows that do not apply, each with the reason.
    pub lacks: &'static [(&'static str, &'static str)],
}

impl Member {
    /// Why a row does not apply; none: it does.
    #[must_use]
    pub fn lack(&self, row: &str) -> Option<&'static str> {
        self.lacks
            .iter()
            .find(|(name, _)| *name == row)
            .map(|(_, why)| *why)
    }

    /// What is wrong with what this member lacks, held against its capabilities (as JSON): a row that applies and does not
    /// run, one that runs and cannot, a row that nobody knows.
    #[must_use]
    pub fn faults(&self, capabilities: &Value) -> Vec<String> {
        let unknown = self
            .lacks
            .iter()
            .filter(|(name, _)| !ROWS.iter().any(|row| row.name == *name));
        let unknown = unknown.map(|(name, _)| format!("{}: there is no row {name}", self.id));
        unknown
            .chain(ROWS.iter().filter_map(|row| self.fault(row, capabilities)))
            .collect()
    }

    fn fault(&self, row: &Row, capabilities: &Value) -> Option<String> {
        let lacks = self.lack(row.name);
        let (applies, because) = match row.applies {
            Always => (true, "it applies to every agent".to_owned()),
            ToProcesses => (
                self.subject.program.is_some(),
                "it is about processes".to_owned(),
            ),
            When(name) => match capabilities[name].as_bool() {
                Some(can) => (can, format!("the capability {name} is {can}")),
                None => return Some(format!("{}: no capability is called {name}", row.name)),
            },
        };
        if lacks == Some("") {
            return Some(format!("{}: why no {}?", self.id, row.name));
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
    use crate::scenario::{CLAUDE, OPENAI_API};
    use serde_json::json;

    fn member(subject: &'static Subject, lacks: &'static [(&'static str, &'static str)]) -> Member {
        Member {
            id: "it",
            subject,
            transport: "",
            group: Group::Own,
            lacks,
        }
    }

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
    fn what_an_agent_lacks_has_a_cause() {
        let mut able = able();
        assert_eq!(member(&CLAUDE, &[]).faults(&able), [""; 0]);
        let faults = |subject, lacks, able: &Value| member(subject, lacks).faults(able).join("; ");
        assert_eq!(
            faults(&CLAUDE, &[("fork", "why not")], &able),
            "it: fork is left out, but the capability fork is true"
        );
        assert_eq!(
            faults(&CLAUDE, &[("text", "mute")], &able),
            "it: text is left out, but it applies to every agent"
        );
        assert_eq!(faults(&CLAUDE, &[("fork", "")], &able), "it: why no fork?");
        assert_eq!(
            faults(&CLAUDE, &[("flying", "no wings")], &able),
            "it: there is no row flying"
        );
        assert_eq!(
            faults(&OPENAI_API, &[], &able),
            "it: died runs, but it is about processes"
        );
        able["fork"] = json!(false);
        assert_eq!(
            faults(&CLAUDE, &[], &able),
            "it: fork runs, but the capability fork is false"
        );
        assert_eq!(faults(&CLAUDE, &[("fork", "it cannot")], &able), "");
        able["fork"] = Value::Null;
        assert_eq!(
            faults(&CLAUDE, &[], &able),
            "fork: no capability is called fork"
        );
    }
}
