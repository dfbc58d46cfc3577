//! Which commands a model may run: rules that carry their own examples, and what they say about one call.
//!
//! A rule is the first line, not the last: an allowed command still runs under what [`crate::confine`] prepares. Where a
//! program's own way of reading its arguments cannot be known, the rules err on the side of "no".

mod arguments;
mod defaults;
mod git;
mod lookup;
mod matching;
mod protected;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::protected::{Restored, Snapshot};
use crate::catalog::ToolInfo;
use crate::{Code, ToolError};

/// Where a workspace keeps its rules; the same file as the policy's.
const RULES_FILE: &str = ".ostler/sandbox.toml";

/// How many arguments one call may have.
const MOST_ARGS: usize = 4096;

/// How long all arguments of one call may be together.
const LONGEST_ARGS: usize = 512 * 1024;

/// What is allowed of one command.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandRule {
    /// The command, as it is found on PATH; or `./name` for a script of the workspace.
    pub name: String,
    /// The sub-commands that are allowed; any when absent.
    pub allow: Option<Vec<String>>,
    /// The options that may stand before the sub-command, when sub-commands are listed.
    pub before: Vec<String>,
    /// Words that must not come together, in whatever order and spelling: a sub-command and an option, for example.
    pub block: Vec<Vec<String>>,
    /// Arguments that must not come at all.
    pub block_args: Vec<String>,
    /// Options whose value is text and not a path, each after its sub-command.
    pub text: Vec<Vec<String>>,
    /// What the rule lets through and what not; checked when it is loaded.
    pub examples: Examples,
}

/// Calls, written as in a shell, and what a rule says to them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Examples {
    /// These go through.
    pub allow: Vec<String>,
    /// These do not.
    pub deny: Vec<String>,
}

impl CommandRule {
    /// Whether the rule makes sense and its examples come out as they say.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if name.is_empty() {
            return Err("a [[command]] has no name".to_owned());
        }
        if !is_bare(name.strip_prefix("./").unwrap_or(name)) {
            return Err(format!("command {name:?}: a name is one word without a slash, or ./ and a word"));
        }
        if let Some(empty) = [&self.block, &self.text].iter().find(|list| list.iter().any(Vec::is_empty)) {
            return Err(format!("command {name:?}: an entry of {empty:?} has no words"));
        }
        let expectations = [(&self.examples.allow, true), (&self.examples.deny, false)];
        for (example, expected) in expectations.iter().flat_map(|(list, ok)| list.iter().map(move |e| (e, *ok))) {
            let said =
                self.try_example(example).map_err(|why| format!("command {name:?}: example {example:?}: {why}"))?;
            match (said, expected) {
                (Ok(()), false) => {
                    return Err(format!("command {name:?}: the rule allows its example {example:?} of what it denies"));
                }
                (Err(why), true) => {
                    return Err(format!(
                        "command {name:?}: the rule denies its example {example:?} of what it allows: {why}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the rule says to an example: the outer error when the example itself is not right.
    fn try_example(&self, example: &str) -> Result<Result<(), String>, String> {
        let mut words = words::split(example)?;
        if words.first() != Some(&self.name) {
            return Err(format!("it does not begin with {}", self.name));
        }
        let args = words.split_off(1);
        let place = Place { root: Path::new("/workspace"), path: OsStr::new(""), is_denied: &|_| false };
        let judged = matching::judge(self, &args);
        Ok(judged.and_then(|()| arguments::check(self, &args, &place).map_err(|error| error.message)))
    }
}

/// Where a command would run.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The PATH that the command gets, and on which it is looked up.
    pub path: &'a OsStr,
    /// Whether the rules about files keep a path, relative to the workspace, from the model.
    pub is_denied: &'a dyn Fn(&Path) -> bool,
}

/// A call that the rules let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The command as the model named it.
    pub name: String,
    /// The program that was found for it.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it gets besides the filtered environment.
    pub env: Vec<(String, String)>,
}

/// Every rule that holds in a workspace: the defaults, and on top of them those of its policy.
#[derive(Debug, Clone)]
pub struct Commands {
    rules: BTreeMap<String, CommandRule>,
    /// The names of the rules that do not come with Ostler.
    own: Vec<String>,
}

impl Commands {
    /// The defaults with `rules` on top; a rule of the same name replaces the default.
    ///
    /// # Errors
    /// Names the rule that does not make sense, or its example that comes out otherwise.
    pub fn new(rules: &[CommandRule]) -> Result<Self, ToolError> {
        let bad = |why| ToolError::new(Code::BadArguments, why);
        let mut all: BTreeMap<_, _> =
            defaults::rules().map_err(bad)?.into_iter().map(|rule| (rule.name.clone(), rule)).collect();
        for rule in rules {
            rule.check().map_err(bad)?;
            all.insert(rule.name.clone(), rule.clone());
        }
        Ok(Self { rules: all, own: rules.iter().map(|rule| rule.name.clone()).collect() })
    }

    /// The commands there are rules for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }

    /// Those of them that the workspace's own policy brought, or changed.
    #[must_use]
    pub fn added(&self) -> &[String] {
        &self.own
    }

    /// What the rules say to a call.
    ///
    /// # Errors
    /// Says which rule forbids it, or what is wrong with the call.
    pub fn check(&self, command: &str, args: &[String], place: &Place<'_>) -> Result<Approved, ToolError> {
        check_shape(command, args)?;
        let rule = self.rules.get(command).ok_or_else(|| self.unknown(command))?;
        matching::judge(rule, args).map_err(|why| ToolError::new(Code::DeniedByPolicy, why))?;
        arguments::check(rule, args, place)?;
        let program = lookup::find(command, place)?;
        let env = if command == "git" { git::environment() } else { Vec::new() };
        Ok(Approved { name: command.to_owned(), program, args: args.to_vec(), env })
    }

    fn unknown(&self, command: &str) -> ToolError {
        let known: Vec<&str> = self.names().collect();
        let hint = match command.split_whitespace().next() {
            Some(first) if first != command && self.rules.contains_key(first) => {
                " (command is one word; its arguments go into args)"
            }
            _ => "",
        };
        let message = format!(
            "{:?} is not an allowed command{hint}. Allowed are: {}. {RULES_FILE} can allow more.",
            ostler_core::clip::plain(command),
            known.join(", "),
        );
        ToolError::new(Code::DeniedByPolicy, message)
    }
}

/// What no rule can make right.
fn check_shape(command: &str, args: &[String]) -> Result<(), ToolError> {
    let bad = |why: String| Err(ToolError::new(Code::BadArguments, why));
    if command.is_empty() {
        return bad("command is empty".into());
    }
    if command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
        return bad("a NUL character cannot be passed to a program".into());
    }
    let length: usize = args.iter().map(|arg| arg.len() + 1).sum();
    if args.len() > MOST_ARGS || length > LONGEST_ARGS {
        let why = format!("at most {MOST_ARGS} arguments of {LONGEST_ARGS} bytes together can be passed");
        return Err(ToolError::new(Code::TooLarge, why));
    }
    Ok(())
}

/// Whether a name is one word that can only be meant as a name.
fn is_bare(name: &str) -> bool {
    let strange = |c: char| c == '/' || c == '\\' || c.is_whitespace() || c.is_control();
    !name.is_empty() && !name.starts_with(['-', '.']) && !name.contains(strange)
}

/// The arguments of `run_command`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCommand {
    /// The command: one word, such as git.
    pub command: String,
    /// Its arguments, one per entry. There is no shell: no quotes, pipes, redirections or variables.
    #[serde(default)]
    pub args: Vec<String>,
    /// The longest it may take; at most the limit of the workspace.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// The tool as a model sees it; [`describe`] says more.
pub const RUN_COMMAND: ToolInfo = ToolInfo {
    name: "run_command",
    description: "Run a command in the workspace, without a shell.",
    only_reads: false,
    schema: || schemars::schema_for!(RunCommand).as_value().to_string(),
};

/// What the tool does, with the commands that are allowed.
#[must_use]
pub fn describe(commands: &Commands) -> String {
    let mut text = String::from(
        "Run a command in the workspace's root directory and get its exit code and output. There is no shell: command is one \
         word, and each argument is one entry of args. Its files are those of the workspace; it has no network unless the \
         workspace's policy says otherwise. Allowed commands:",
    );
    for (name, rule) in &commands.rules {
        text.push_str("\n- ");
        text.push_str(name);
        if let Some(allow) = &rule.allow {
            text.push_str(": ");
            text.push_str(&allow.join(", "));
        }
        let blocked: Vec<String> = rule.block.iter().map(|words| words.join(" ")).take(12).collect();
        if !blocked.is_empty() {
            text.push_str("; not: ");
            text.push_str(&blocked.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests;
