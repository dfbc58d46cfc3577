//! Policy files: TOML with rules that carry their own examples.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::path::{Glob, PatternError};
use super::policy::{Conditions, MAX_RULES, Policy, Rule, RuleAction, Trust};
use super::{Command, ToolKind, ToolUse, UnknownKind};
use crate::matching::{Breadth, CommandPattern};

/// The workspace that examples are evaluated in.
const EXAMPLE_WORKSPACE: &str = "/workspace";

/// Maximum number of patterns, path components and examples in one file. Each pattern is compared
/// with each command and path.
const MAX_PATTERNS: usize = 5_000;

/// An error in a policy file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct PolicyError {
    /// Name of the file, as it was given.
    pub source_name: String,
    /// Line number, if it is known.
    pub line: Option<usize>,
    /// What is wrong, with the number of the rule.
    pub message: String,
}

/// What is wrong with a rule or its examples.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RuleError(String);

impl From<&str> for RuleError {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

impl From<PatternError> for RuleError {
    fn from(error: PatternError) -> Self {
        Self(error.to_string())
    }
}

impl From<UnknownKind> for RuleError {
    fn from(error: UnknownKind) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<RuleEntry>>,
    trusted_projects: Option<Vec<String>>,
}

/// A rule as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    #[serde(default)]
    kind: OneOrMany<String>,
    #[serde(default)]
    tool: OneOrMany<String>,
    #[serde(default)]
    command: OneOrMany<String>,
    #[serde(default)]
    path: OneOrMany<String>,
    #[serde(rename = "do")]
    action: String,
    message: Option<String>,
    #[serde(default)]
    examples: OneOrMany<Example>,
    #[serde(default)]
    not: OneOrMany<Example>,
}

/// One value or a list.
#[derive(Debug, Clone)]
struct OneOrMany<T>(Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The examples of one rule.
struct Examples {
    /// Line of the rule.
    line: Option<usize>,
    /// Uses that the rule decides.
    decided: Vec<Example>,
    /// Uses that it does not.
    others: Vec<Example>,
}

/// A tool use to test a rule with.
#[derive(Debug, Clone)]
enum Example {
    /// What the rule is about: a command, a path, or a tool.
    Short(String),
    Long(Box<LongExample>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LongExample {
    kind: Option<String>,
    tool: Option<String>,
    command: Option<String>,
    words: Option<Vec<String>>,
    path: OneOrMany<String>,
}

/// A rule of a stored policy: as in a file, with where it came from.
#[derive(Deserialize)]
struct StoredRule {
    source: Arc<str>,
    number: usize,
    #[serde(default)]
    trust: Trust,
    #[serde(flatten)]
    entry: RuleEntry,
}

/// Reads what serialization wrote. The result decides every use as the original did.
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Vec::<StoredRule>::deserialize(deserializer)?;
        let rules = stored.into_iter().map(|stored| {
            Ok(Rule {
                source: stored.source,
                number: stored.number,
                ..compile(stored.entry, stored.trust)?
            })
        });
        let rules = rules.collect::<Result<Vec<_>, RuleError>>();
        Ok(Self::new(rules.map_err(Error::custom)?, Vec::new()))
    }
}

impl Policy {
    /// Parses a policy and tests its examples. `source` is the file's name in messages.
    ///
    /// # Errors
    /// Names the line, the rule, and what to write instead.
    pub fn parse(text: &str, source: &str, trust: Trust) -> Result<Self, PolicyError> {
        let line_at = |at: usize| {
            text.get(..at)
                .map(|before| before.matches('\n').count() + 1)
        };
        let fail = |line, message| PolicyError {
            source_name: source.to_owned(),
            line,
            message,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| line_at(span.start));
            fail(line, error.message().replace('\n', " "))
        })?;
        if file.trusted_projects.is_some() && trust == Trust::Project {
            let why = "trusted_projects is only valid in your own policy, because a workspace \
                       cannot trust itself: remove it";
            return Err(fail(None, why.to_owned()));
        }
        check_complexity(&file).map_err(|error| fail(None, error.to_string()))?;
        let trusted = file.trusted_projects.unwrap_or_default();
        let trusted = trusted
            .iter()
            .map(|pattern| trusted_project(pattern))
            .collect::<Result<Vec<_>, _>>();
        let trusted = trusted.map_err(|why| fail(None, format!("trusted_projects: {why}")))?;
        let source: Arc<str> = source.into();
        let mut rules = Vec::new();
        let mut examples = Vec::new();
        for (at, entry) in file.rule.into_iter().enumerate() {
            let line = line_at(entry.span().start);
            let mut entry = entry.into_inner();
            examples.push(Examples {
                line,
                decided: std::mem::take(&mut entry.examples).0,
                others: std::mem::take(&mut entry.not).0,
            });
            let rule = check_conditions(&entry)
                .and_then(|()| compile(entry, trust))
                .map_err(|why| fail(line, format!("rule {}: {why}", at + 1)))?;
            rules.push(Rule {
                source: source.clone(),
                number: at + 1,
                ..rule
            });
        }
        let policy = Self::new(rules, trusted);
        for (rule, examples) in policy.rules().zip(examples) {
            check_examples(&policy, rule, &examples)
                .map_err(|why| fail(examples.line, format!("rule {}: {why}", rule.number)))?;
        }
        Ok(policy.narrowing())
    }
}

/// Limits the size of a file: one that came with a workspace may be crafted to be slow.
fn check_complexity(file: &File) -> Result<(), RuleError> {
    let rules = file.rule.len();
    if rules > MAX_RULES {
        return Err(RuleError(format!(
            "{rules} rules exceed the maximum of {MAX_RULES}: combine patterns into one rule"
        )));
    }
    let paths = |list: &[String]| {
        list.iter()
            .map(|path| 1 + path.matches('/').count())
            .sum::<usize>()
    };
    let weight = |rule: &Spanned<RuleEntry>| {
        let rule = rule.get_ref();
        let words = rule
            .command
            .0
            .iter()
            .map(|command| command.split(' ').count())
            .sum::<usize>();
        let examples = rule.examples.0.len() + rule.not.0.len();
        rule.kind.0.len() + rule.tool.0.len() + words + paths(&rule.path.0) + examples
    };
    let patterns = file.rule.iter().map(weight).sum::<usize>()
        + paths(file.trusted_projects.as_deref().unwrap_or(&[]));
    if patterns > MAX_PATTERNS {
        return Err(RuleError(format!(
            "{patterns} command words, path components, tools, kinds and examples exceed the \
             maximum of {MAX_PATTERNS}: use wider patterns"
        )));
    }
    Ok(())
}

fn trusted_project(pattern: &str) -> Result<Glob, PatternError> {
    match pattern.starts_with('/') {
        true => Glob::compile(pattern, Breadth::Exact),
        false => Err(PatternError::Relative(pattern.to_owned())),
    }
}

/// Rejects a rule without conditions, which is more likely a mistake than meant for every tool.
fn check_conditions(entry: &RuleEntry) -> Result<(), RuleError> {
    let lists = [&entry.kind, &entry.tool, &entry.command, &entry.path];
    if lists.iter().any(|list| !list.0.is_empty()) {
        return Ok(());
    }
    Err("it has no condition: add kind, tool, command or path; tool = \"*\" matches all".into())
}

fn compile(entry: RuleEntry, trust: Trust) -> Result<Rule, RuleError> {
    let action = match entry.action.as_str() {
        "allow" => RuleAction::Allow,
        "deny" => RuleAction::Deny,
        "ask" => RuleAction::Ask,
        other => {
            return Err(RuleError(format!(
                "do = {other:?}: expected \"allow\", \"deny\" or \"ask\""
            )));
        }
    };
    if entry.message.is_some() && action != RuleAction::Deny {
        return Err(
            "message is the denial reason for the model: remove it, or write do = \"deny\"".into(),
        );
    }
    let kind = entry
        .kind
        .0
        .iter()
        .map(|name| name.parse())
        .collect::<Result<Vec<_>, UnknownKind>>()?;
    let when = Conditions {
        kind,
        tool: entry.tool.0,
        command: entry.command.0,
        path: entry.path.0,
    };
    if when.tool.iter().any(String::is_empty) {
        return Err("tool = \"\" matches no tool: write \"*\" for all".into());
    }
    let prefixes = when
        .command
        .iter()
        .map(|text| prefix(text))
        .collect::<Result<Vec<_>, _>>()?;
    let wide = prefixes
        .iter()
        .map(|words| CommandPattern::new(words))
        .collect();
    let breadth = match action {
        RuleAction::Allow => Breadth::Exact,
        RuleAction::Deny | RuleAction::Ask => Breadth::AnyName,
    };
    let globs = when
        .path
        .iter()
        .map(|pattern| Glob::compile(pattern, breadth))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Rule {
        source: "".into(),
        number: 0,
        action,
        when,
        message: entry.message,
        trust,
        prefixes,
        wide,
        globs,
    })
}

/// Splits the first words of a command.
fn prefix(text: &str) -> Result<Vec<String>, RuleError> {
    if let Some(odd) = text.chars().find(|c| ";|&$()<>`'\"\\\n".contains(*c)) {
        return Err(RuleError(format!(
            "command = {text:?} must be the first words of one command, without {odd:?}"
        )));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        Err("command = \"\" has no words: write \"*\" for any command".into())
    } else {
        Ok(words)
    }
}

/// Tests that each example is decided as stated.
fn check_examples(policy: &Policy, rule: &Rule, examples: &Examples) -> Result<(), RuleError> {
    let decided = examples.decided.iter().map(|one| (one, true));
    let others = examples.others.iter().map(|one| (one, false));
    for (example, expected) in decided.chain(others) {
        let wants = tool_use(rule, example)
            .map_err(|why| RuleError(format!("the example {example}: {why}")))?;
        let decider = policy.decider(&wants, EXAMPLE_WORKSPACE);
        let is_this = decider.is_some_and(|decider| decider.number == rule.number);
        if is_this == expected {
            continue;
        }
        let decided = decider.map_or("no rule".to_owned(), Rule::to_string);
        return Err(RuleError(match expected {
            true => format!(
                "its example {example} is decided by {decided}: change the rule, the order or the example"
            ),
            false => format!(
                "it matches {example}, which is listed under `not`: change the rule or the example"
            ),
        }));
    }
    Ok(())
}

/// Returns the tool use that an example describes. Missing parts are taken from its rule.
fn tool_use(rule: &Rule, example: &Example) -> Result<ToolUse, RuleError> {
    let when = &rule.when;
    let long = match example {
        Example::Long(long) => (**long).clone(),
        Example::Short(text) => {
            let text = text.clone();
            match (when.command.is_empty(), when.path.is_empty()) {
                (false, false) => {
                    return Err("write it as { command = \"…\", path = \"…\" }".into());
                }
                (false, true) => LongExample {
                    command: Some(text),
                    ..LongExample::default()
                },
                (true, false) => LongExample {
                    path: OneOrMany(vec![text]),
                    ..LongExample::default()
                },
                (true, true) => LongExample {
                    tool: Some(text),
                    ..LongExample::default()
                },
            }
        }
    };
    let command = match (long.command, long.words) {
        (Some(_), Some(_)) => return Err("give command or words, not both".into()),
        (Some(line), None) => Some(Command::Shell(line)),
        (None, words) => words.map(Command::Words),
    };
    let default_kind = if command.is_some() {
        ToolKind::Execute
    } else {
        ToolKind::Other
    };
    let kind = match &long.kind {
        Some(name) => name.parse()?,
        None => when.kind.first().copied().unwrap_or(default_kind),
    };
    let tool = long
        .tool
        .or_else(|| when.tool.first().map(|tool| tool.replace('*', "x")));
    Ok(ToolUse {
        tool: tool.unwrap_or_else(|| "x".to_owned()),
        kind,
        command,
        paths: long.path.0,
    })
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = match self {
            Self::Short(text) => return write!(f, "{text:?}"),
            Self::Long(long) => long,
        };
        let one = |key: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("{key} = {text:?}"))
        };
        let words = long
            .words
            .as_ref()
            .map(|words| format!("words = {words:?}"));
        let path = (!long.path.0.is_empty()).then(|| format!("path = {:?}", long.path.0));
        let parts = [
            one("kind", &long.kind),
            one("tool", &long.tool),
            one("command", &long.command),
            words,
            path,
        ];
        write!(
            f,
            "{{ {} }}",
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        )
    }
}

impl<'de> Deserialize<'de> for Example {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Example;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a table with kind, tool, command, words, path")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Example, E> {
                Ok(Example::Short(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Example, A::Error> {
                let long = LongExample::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Example::Long(Box::new(long)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany)
            }
        }
        deserializer.deserialize_any(OneOrMore(PhantomData))
    }
}
