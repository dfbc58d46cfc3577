//! Command rules: which commands a model may run, with examples that each rule is checked against.
//!
//! A rule is the first line of defense, not the last: an allowed command still runs under the
//! confinement that [`crate::confine`] prepares. Where a program's handling of its arguments is
//! unknown, the rules refuse.

mod arguments;
mod defaults;
mod git;
mod lookup;
mod matching;
mod preset;
pub mod project;
mod protected;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use self::arguments::PathScope;
pub use self::preset::{CommandChoice, CommandPreset, UnknownCommandPreset};
pub use self::protected::{Restored, Snapshot, protected_paths, protected_paths_with, remove_tree};
use crate::catalog::ToolInfo;
use crate::{Code, RuleError, ToolError};

/// Path of the rules in a workspace; the same file as the policy.
const RULES_FILE: &str = ".ostler/sandbox.toml";

/// Maximum number of arguments of one call.
const MAX_ARGS: usize = 4096;

/// Maximum length of all arguments of one call, in bytes.
const MAX_ARGS_BYTES: usize = 512 * 1024;

/// The rule for one command.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandRule {
    /// Command name, as found on PATH, or `./name` for a script of the workspace.
    pub name: String,
    /// Allowed sub-commands; any if absent.
    pub allow: Option<Vec<String>>,
    /// Options allowed before the sub-command, if sub-commands are listed.
    pub before: Vec<String>,
    /// Words that must not occur together, in any order and spelling, such as a sub-command and an
    /// option.
    pub block: Vec<Vec<String>>,
    /// Sub-commands that require an option: the sub-command, then the options of which one must be
    /// given exactly as written, before `--`.
    pub needs: Vec<Vec<String>>,
    /// Hints for refusals: the sub-command, then a sentence about the alternative.
    pub instead: Vec<(String, String)>,
    /// Arguments that must not occur at all.
    pub block_args: Vec<String>,
    /// Options whose value is text rather than a path, each after its sub-command.
    pub text: Vec<Vec<String>>,
    /// Calls that the rule allows and denies; checked when it is loaded.
    pub examples: Examples,
}

/// Example calls of a rule, written as in a shell.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Examples {
    /// Calls that the rule allows.
    pub allow: Vec<String>,
    /// Calls that the rule denies.
    pub deny: Vec<String>,
}

impl CommandRule {
    /// Checks that the rule is valid and that its examples hold.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let name = &self.name;
        if name.is_empty() {
            return Err(RuleError::new("a [[command]] has no name"));
        }
        let invalid = |why: String| RuleError::new(format!("command {name:?}: {why}"));
        if !is_command_name(name.strip_prefix("./").unwrap_or(name)) {
            let why = "a name is one word without a slash, optionally after ./";
            return Err(invalid(why.to_owned()));
        }
        if let Some(empty) = [&self.block, &self.text, &self.needs]
            .iter()
            .find(|list| list.iter().any(Vec::is_empty))
        {
            return Err(invalid(format!("an entry of {empty:?} has no words")));
        }
        let expectations = [(&self.examples.allow, true), (&self.examples.deny, false)];
        for (example, expected) in expectations
            .iter()
            .flat_map(|(list, ok)| list.iter().map(move |e| (e, *ok)))
        {
            let denial = self
                .denial_of_example(example)
                .map_err(|why| invalid(format!("example {example:?}: {why}")))?;
            match (denial, expected) {
                (None, false) => {
                    return Err(invalid(format!(
                        "the rule allows {example:?}, its example of a denied call"
                    )));
                }
                (Some(denial), true) => {
                    return Err(invalid(format!(
                        "the rule denies {example:?}, its example of an allowed call: {}",
                        denial.message
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns why the rule denies an example, if it does. The error means that the example itself
    /// is invalid.
    fn denial_of_example(&self, example: &str) -> Result<Option<ToolError>, RuleError> {
        let words = shlex::split(example);
        let mut words = words.ok_or_else(|| RuleError::new("a quote is not closed"))?;
        if words.first() != Some(&self.name) {
            let why = format!("it does not begin with {}", self.name);
            return Err(RuleError::new(why));
        }
        let args = words.split_off(1);
        let context = CommandContext {
            root: Path::new("/workspace"),
            path: OsStr::new(""),
            is_denied: &|_| false,
        };
        let checked = matching::judge(self, &args)
            .and_then(|()| arguments::check(self, &args, &context, PathScope::Workspace));
        Ok(checked.err())
    }
}

/// The environment a command would run in.
#[derive(Clone, Copy)]
pub struct CommandContext<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// PATH of the command, on which it is also looked up.
    pub path: &'a OsStr,
    /// Returns true if the file rules deny a path, relative to the workspace, to the model.
    pub is_denied: &'a dyn Fn(&Path) -> bool,
}

impl CommandContext<'_> {
    /// Returns true if a program for the command can be found.
    #[must_use]
    pub fn has(&self, command: &str) -> bool {
        lookup::find(command, self).is_ok()
    }
}

/// A call that the rules allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedCommand {
    /// Command as the model named it.
    pub name: String,
    /// Program found for it.
    pub program: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Variables it gets in addition to the filtered environment.
    pub env: Vec<(String, String)>,
}

/// All rules in effect in a workspace: the defaults, and on top those of its policy and of a
/// preset.
#[derive(Debug, Clone)]
pub struct Commands {
    rules: BTreeMap<String, CommandRule>,
    /// Rules that a call must pass in addition to the one of its name.
    narrowing: Vec<CommandRule>,
    /// Names of the rules that do not come with Ostler.
    policy_names: Vec<String>,
    preset: CommandPreset,
    /// Build and test tools of the project.
    builders: BTreeSet<String>,
    /// Read-only tools, with their rules.
    readers: BTreeMap<String, CommandRule>,
    /// Commands allowed as given, with any further arguments.
    allowed: Vec<Vec<String>>,
}

impl Commands {
    /// Creates the defaults with `rules` on top; a rule of the same name replaces the default.
    ///
    /// # Errors
    /// Names the invalid rule, or the example that does not hold.
    pub fn new(rules: &[CommandRule]) -> Result<Self, ToolError> {
        let mut all: BTreeMap<_, _> = defaults::rules()?
            .into_iter()
            .map(|rule| (rule.name.clone(), rule))
            .collect();
        for rule in rules {
            rule.check()?;
            all.insert(rule.name.clone(), rule.clone());
        }
        Ok(Self {
            rules: all,
            narrowing: Vec::new(),
            policy_names: rules.iter().map(|rule| rule.name.clone()).collect(),
            preset: CommandPreset::Strict,
            builders: BTreeSet::new(),
            readers: BTreeMap::new(),
            allowed: Vec::new(),
        })
    }

    /// Adds the commands of a preset, for a project with files of these names.
    ///
    /// # Errors
    /// The rules that come with Ostler cannot be parsed.
    pub fn with_preset<'a>(
        mut self,
        preset: CommandPreset,
        files: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ToolError> {
        self.preset = preset;
        if preset >= CommandPreset::Build {
            let rules = defaults::tool_rules()?;
            let unrestricted = |name: &str| CommandRule {
                name: name.to_owned(),
                ..CommandRule::default()
            };
            self.readers = project::readers()
                .map(|name| (name.to_owned(), unrestricted(name)))
                .collect();
            self.readers
                .extend(rules.into_iter().map(|rule| (rule.name.clone(), rule)));
            self.builders = project::tools(files)
                .into_iter()
                .map(str::to_owned)
                .collect();
        }
        Ok(self)
    }

    /// Allows these commands as given, with any further arguments.
    #[must_use]
    pub fn allowing(mut self, commands: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.allowed
            .extend(commands.into_iter().filter(|words| !words.is_empty()));
        self
    }

    /// Adds rules that a call of the same name must also pass. They allow no further command.
    #[must_use]
    pub fn narrowed_by(mut self, rules: &[CommandRule]) -> Self {
        self.narrowing.extend_from_slice(rules);
        self
    }

    /// Returns the rule for a command.
    pub(crate) fn rule(&self, name: &str) -> Option<&CommandRule> {
        self.rules.get(name)
    }

    /// Returns the commands that have rules.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }

    /// Returns the commands whose rules the workspace's policy added or replaced.
    #[must_use]
    pub fn added(&self) -> &[String] {
        &self.policy_names
    }

    /// Returns the preset in effect.
    #[must_use]
    pub fn preset(&self) -> CommandPreset {
        self.preset
    }

    /// Checks a call against the rules.
    ///
    /// # Errors
    /// Names the rule that forbids the call, or what is wrong with it.
    pub fn check(
        &self,
        command: &str,
        args: &[String],
        context: &CommandContext<'_>,
    ) -> Result<ApprovedCommand, ToolError> {
        check_shape(command, args)?;
        for rule in self.narrowing.iter().filter(|rule| rule.name == command) {
            matching::judge(rule, args)?;
        }
        let program = match self.allowed_words(command, args) {
            Some(words) => {
                let further = args.get(words - 1..).unwrap_or_default();
                self.check_blocks(command, args)?;
                self.check_further(further, context)?;
                lookup::find_named(command, context)?
            }
            None => self.check_rules(command, args, context)?,
        };
        let env = if command == "git" {
            git::environment()
        } else {
            Vec::new()
        };
        Ok(ApprovedCommand {
            name: command.to_owned(),
            program,
            args: args.to_vec(),
            env,
        })
    }

    /// Returns the number of words of the longest allowed command that the call starts with.
    fn allowed_words(&self, command: &str, args: &[String]) -> Option<usize> {
        let begins = |words: &&Vec<String>| words[0] == command && args.starts_with(&words[1..]);
        self.allowed.iter().filter(begins).map(Vec::len).max()
    }

    /// Checks a call of an allowed command: anything the policy blocks stays blocked.
    fn check_blocks(&self, command: &str, args: &[String]) -> Result<(), ToolError> {
        let is_policy = |rule: &&CommandRule| self.policy_names.contains(&rule.name);
        let rule = self.rules.get(command).filter(is_policy);
        rule.map_or(Ok(()), |rule| matching::blocked(rule, args))
    }

    /// Checks the paths among the further arguments of an allowed command.
    fn check_further(
        &self,
        further: &[String],
        context: &CommandContext<'_>,
    ) -> Result<(), ToolError> {
        let scope = if self.preset == CommandPreset::Strict {
            PathScope::Workspace
        } else {
            PathScope::Sandbox
        };
        arguments::check(&CommandRule::default(), further, context, scope)
    }

    fn check_rules(
        &self,
        command: &str,
        args: &[String],
        context: &CommandContext<'_>,
    ) -> Result<PathBuf, ToolError> {
        let any = CommandRule::default();
        let (rule, scope) = match (self.rules.get(command), self.readers.get(command)) {
            (Some(rule), _) => (rule, PathScope::Workspace),
            // Where every program may run, restricting its options is pointless.
            (None, _) if self.allows_any(command) => (&any, PathScope::Sandbox),
            (None, Some(rule)) => (rule, PathScope::Sandbox),
            (None, None) if self.builders.contains(command) => (&any, PathScope::Sandbox),
            (None, None) => return Err(self.unknown(command)),
        };
        matching::judge(rule, args)?;
        arguments::check(rule, args, context, scope)?;
        lookup::find(command, context)
    }

    fn allows_any(&self, command: &str) -> bool {
        self.preset == CommandPreset::Any
            && is_command_name(command.strip_prefix("./").unwrap_or(command))
    }

    fn unknown(&self, command: &str) -> ToolError {
        let hint = match command.split_whitespace().next() {
            Some(first) if first != command => " (command is one word; its arguments go into args)",
            _ => "",
        };
        let display = ostler_core::clip::sanitize(command);
        let names = self
            .names()
            .chain(self.builders.iter().map(String::as_str))
            .chain(self.readers.keys().map(String::as_str));
        let allowed: Vec<String> = names
            .map(str::to_owned)
            .chain(
                self.allowed
                    .iter()
                    .map(|words| format!("{:?}", words.join(" "))),
            )
            .collect();
        let message = format!(
            "{display:?} is not an allowed command{hint}. Allowed commands: {}. Only the user can \
             allow more: with --allow-command, --commands, or a rule in {RULES_FILE}.",
            allowed.join(", "),
        );
        ToolError::denied(message)
    }
}

/// Checks the call itself, independent of any rule.
fn check_shape(command: &str, args: &[String]) -> Result<(), ToolError> {
    let bad = |why: String| Err(ToolError::bad_arguments(why));
    if command.is_empty() {
        return bad("command is empty".into());
    }
    if command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
        return bad("a NUL character cannot be passed to a program".into());
    }
    let length: usize = args.iter().map(|arg| arg.len() + 1).sum();
    if args.len() > MAX_ARGS || length > MAX_ARGS_BYTES {
        let why = format!(
            "at most {MAX_ARGS} arguments of {MAX_ARGS_BYTES} bytes together can be passed"
        );
        return Err(ToolError::new(Code::TooLarge, why));
    }
    Ok(())
}

/// Returns true if a name is a single word that can only be a command name.
fn is_command_name(name: &str) -> bool {
    let strange = |c: char| c == '/' || c == '\\' || c.is_whitespace() || c.is_control();
    !name.is_empty() && !name.starts_with(['-', '.']) && !name.contains(strange)
}

/// The arguments of `run_command`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCommand {
    /// The command: one word, such as git.
    pub command: String,
    /// Its arguments, one per entry. There is no shell: no quotes, pipes, redirects or variables.
    #[serde(default)]
    pub args: Vec<String>,
    /// Time limit in seconds; at most the limit of the workspace.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// The tool as a model sees it; [`describe`] returns the full description.
pub const RUN_COMMAND: ToolInfo = ToolInfo {
    name: "run_command",
    description: "Run a command in the workspace, without a shell.",
    only_reads: false,
    schema: || schemars::schema_for!(RunCommand).as_value().to_string(),
};

/// Returns the description of the tool with the allowed commands. A preset's commands are listed if
/// `is_installed` returns true.
#[must_use]
pub fn describe(commands: &Commands, is_installed: &dyn Fn(&str) -> bool) -> String {
    let mut text = String::from(
        "Run a command in the workspace's root directory and get its exit code and output. There \
         is no shell: command is one word, and each argument is one entry of args. It can access \
         the files of the workspace, and no network unless the workspace's policy allows it. \
         Allowed commands:",
    );
    for (name, rule) in &commands.rules {
        text.push_str("\n- ");
        text.push_str(name);
        if let Some(allow) = &rule.allow {
            text.push_str(": ");
            text.push_str(&allow.join(", "));
        }
        let blocked: Vec<String> = rule
            .block
            .iter()
            .map(|words| words.join(" "))
            .take(12)
            .collect();
        if !blocked.is_empty() {
            text.push_str("; not: ");
            text.push_str(&blocked.join(", "));
        }
    }
    let mut list = |title: &str, names: Vec<String>| {
        if !names.is_empty() {
            text.push_str(&format!("\n- {title}: {}", names.join(", ")));
        }
    };
    let is_new = |name: &&String| !commands.rules.contains_key(*name) && is_installed(name);
    list(
        "build and test tools",
        commands.builders.iter().filter(is_new).cloned().collect(),
    );
    list(
        "read-only tools",
        commands.readers.keys().filter(is_new).cloned().collect(),
    );
    let allowed = commands
        .allowed
        .iter()
        .map(|words| format!("{:?}", words.join(" ")));
    list("with any further arguments", allowed.collect());
    if commands.preset == CommandPreset::Any {
        text.push_str("\n- any other program on PATH, including sh -c and bash -c");
    }
    text
}

#[cfg(test)]
mod tests;
