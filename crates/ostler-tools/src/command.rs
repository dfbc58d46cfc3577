//! Which commands a model may run: rules that carry their own examples, and what they say about one call.
//!
//! A rule is the first line, not the last: an allowed command still runs under what [`crate::confine`] prepares. Where a
//! program's own way of reading its arguments cannot be known, the rules err on the side of "no".

mod arguments;
mod defaults;
mod git;
mod lookup;
mod matching;
mod preset;
pub mod project;
mod protected;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use self::arguments::Reach;
pub use self::preset::{CommandChoice, CommandPreset};
pub use self::protected::{Restored, Snapshot, protected_paths, protected_paths_with, remove_tree};
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
    /// Sub-commands that are only allowed with an option: the sub-command, then the options of which one must be given exactly
    /// as written, before `--`.
    pub needs: Vec<Vec<String>>,
    /// Hints for refusals: the sub-command, then a sentence that says what to use instead.
    pub instead: Vec<(String, String)>,
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
            return Err(format!(
                "command {name:?}: a name is one word without a slash, or ./ and a word"
            ));
        }
        if let Some(empty) = [&self.block, &self.text, &self.needs]
            .iter()
            .find(|list| list.iter().any(Vec::is_empty))
        {
            return Err(format!(
                "command {name:?}: an entry of {empty:?} has no words"
            ));
        }
        let expectations = [(&self.examples.allow, true), (&self.examples.deny, false)];
        for (example, expected) in expectations
            .iter()
            .flat_map(|(list, ok)| list.iter().map(move |e| (e, *ok)))
        {
            let said = self
                .try_example(example)
                .map_err(|why| format!("command {name:?}: example {example:?}: {why}"))?;
            match (said, expected) {
                (Ok(()), false) => {
                    return Err(format!(
                        "command {name:?}: the rule allows its example {example:?} of what it denies"
                    ));
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
        let place = Place {
            root: Path::new("/workspace"),
            path: OsStr::new(""),
            is_denied: &|_| false,
        };
        let judged = matching::judge(self, &args);
        Ok(judged.and_then(|()| {
            arguments::check(self, &args, &place, Reach::Workspace).map_err(|error| error.message)
        }))
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

impl Place<'_> {
    /// Returns true if a program for the command can be found.
    #[must_use]
    pub fn has(&self, command: &str) -> bool {
        lookup::find(command, self).is_ok()
    }
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

/// Every rule that holds in a workspace: the defaults, and on top of them those of its policy and of a preset.
#[derive(Debug, Clone)]
pub struct Commands {
    rules: BTreeMap<String, CommandRule>,
    /// Rules that a call must pass besides the one of its name.
    narrowing: Vec<CommandRule>,
    /// The names of the rules that do not come with Ostler.
    own: Vec<String>,
    preset: CommandPreset,
    /// Build and test tools of the project.
    builders: BTreeSet<String>,
    /// Tools that only read, with their rules.
    readers: BTreeMap<String, CommandRule>,
    /// Commands that are allowed as they stand.
    allowed: Vec<Vec<String>>,
}

impl Commands {
    /// The defaults with `rules` on top; a rule of the same name replaces the default.
    ///
    /// # Errors
    /// Names the rule that does not make sense, or its example that comes out otherwise.
    pub fn new(rules: &[CommandRule]) -> Result<Self, ToolError> {
        let bad = |why| ToolError::new(Code::BadArguments, why);
        let mut all: BTreeMap<_, _> = defaults::rules()
            .map_err(bad)?
            .into_iter()
            .map(|rule| (rule.name.clone(), rule))
            .collect();
        for rule in rules {
            rule.check().map_err(bad)?;
            all.insert(rule.name.clone(), rule.clone());
        }
        Ok(Self {
            rules: all,
            narrowing: Vec::new(),
            own: rules.iter().map(|rule| rule.name.clone()).collect(),
            preset: CommandPreset::Strict,
            builders: BTreeSet::new(),
            readers: BTreeMap::new(),
            allowed: Vec::new(),
        })
    }

    /// Adds the commands of a preset, for a project with files of these names.
    ///
    /// # Errors
    /// When the rules that come with Ostler cannot be read.
    pub fn with_preset<'a>(
        mut self,
        preset: CommandPreset,
        files: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ToolError> {
        self.preset = preset;
        if preset >= CommandPreset::Build {
            let rules =
                defaults::tool_rules().map_err(|why| ToolError::new(Code::BadArguments, why))?;
            let plain = |name: &str| CommandRule {
                name: name.to_owned(),
                ..CommandRule::default()
            };
            self.readers = project::readers()
                .map(|name| (name.to_owned(), plain(name)))
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

    /// Allows these commands as they stand, with any further arguments.
    #[must_use]
    pub fn allowing(mut self, commands: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.allowed
            .extend(commands.into_iter().filter(|words| !words.is_empty()));
        self
    }

    /// The same, where a call must also pass each of these rules that has its name. They add no command.
    #[must_use]
    pub fn narrowed_by(mut self, rules: &[CommandRule]) -> Self {
        self.narrowing.extend_from_slice(rules);
        self
    }

    /// The rule for a command.
    pub(crate) fn rule(&self, name: &str) -> Option<&CommandRule> {
        self.rules.get(name)
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

    /// The preset that holds.
    #[must_use]
    pub fn preset(&self) -> CommandPreset {
        self.preset
    }

    /// What the rules say to a call.
    ///
    /// # Errors
    /// Says which rule forbids it, or what is wrong with the call.
    pub fn check(
        &self,
        command: &str,
        args: &[String],
        place: &Place<'_>,
    ) -> Result<Approved, ToolError> {
        check_shape(command, args)?;
        for rule in self.narrowing.iter().filter(|rule| rule.name == command) {
            matching::judge(rule, args).map_err(|why| ToolError::new(Code::DeniedByPolicy, why))?;
        }
        let program = match self.allowed_words(command, args) {
            Some(words) => self.check_allowed((command, args), words, place)?,
            None => self.check_rules(command, args, place)?,
        };
        let env = if command == "git" {
            git::environment()
        } else {
            Vec::new()
        };
        Ok(Approved {
            name: command.to_owned(),
            program,
            args: args.to_vec(),
            env,
        })
    }

    /// How many words of a call are those of a command that is allowed as it stands; the most, if there are several.
    fn allowed_words(&self, command: &str, args: &[String]) -> Option<usize> {
        let begins = |words: &&Vec<String>| words[0] == command && args.starts_with(&words[1..]);
        self.allowed.iter().filter(begins).map(Vec::len).max()
    }

    /// What the policy blocks stays blocked; what it does not allow is allowed.
    fn check_allowed(
        &self,
        (command, args): (&str, &[String]),
        words: usize,
        place: &Place<'_>,
    ) -> Result<PathBuf, ToolError> {
        let own = self
            .rules
            .get(command)
            .filter(|rule| self.own.contains(&rule.name));
        if let Some(rule) = own {
            matching::blocked(rule, args)
                .map_err(|why| ToolError::new(Code::DeniedByPolicy, why))?;
        }
        let further = args.get(words - 1..).unwrap_or_default();
        let reach = if self.preset == CommandPreset::Strict {
            Reach::Workspace
        } else {
            Reach::Sandbox
        };
        arguments::check(&CommandRule::default(), further, place, reach)?;
        lookup::find_named(command, place)
    }

    fn check_rules(
        &self,
        command: &str,
        args: &[String],
        place: &Place<'_>,
    ) -> Result<PathBuf, ToolError> {
        let any = CommandRule::default();
        let (rule, reach) = match (self.rules.get(command), self.readers.get(command)) {
            (Some(rule), _) => (rule, Reach::Workspace),
            // Where every program may run, the options of one are no matter.
            (None, _) if self.is_any(command) => (&any, Reach::Sandbox),
            (None, Some(rule)) => (rule, Reach::Sandbox),
            (None, None) if self.builders.contains(command) => (&any, Reach::Sandbox),
            (None, None) => return Err(self.unknown(command)),
        };
        matching::judge(rule, args).map_err(|why| ToolError::new(Code::DeniedByPolicy, why))?;
        arguments::check(rule, args, place, reach)?;
        lookup::find(command, place)
    }

    fn is_any(&self, command: &str) -> bool {
        self.preset == CommandPreset::Any && is_bare(command.strip_prefix("./").unwrap_or(command))
    }

    fn unknown(&self, command: &str) -> ToolError {
        let hint = match command.split_whitespace().next() {
            Some(first) if first != command => " (command is one word; its arguments go into args)",
            _ => "",
        };
        let shown = ostler_core::clip::plain(command);
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
            "{shown:?} is not an allowed command{hint}. Allowed are: {}. Only the user can allow more: with --allow-command, \
             --commands, or a rule in {RULES_FILE}.",
            allowed.join(", "),
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
        let why =
            format!("at most {MOST_ARGS} arguments of {LONGEST_ARGS} bytes together can be passed");
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

/// What the tool does, with the commands that are allowed. Of a preset's commands, those that `is_installed` knows.
#[must_use]
pub fn describe(commands: &Commands, is_installed: &dyn Fn(&str) -> bool) -> String {
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
        "tools that only read",
        commands.readers.keys().filter(is_new).cloned().collect(),
    );
    let allowed = commands
        .allowed
        .iter()
        .map(|words| format!("{:?}", words.join(" ")));
    list("with any further arguments", allowed.collect());
    if commands.preset == CommandPreset::Any {
        text.push_str("\n- any other program on PATH, also sh -c and bash -c");
    }
    text
}

#[cfg(test)]
mod tests;
