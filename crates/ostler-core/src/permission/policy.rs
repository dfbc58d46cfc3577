//! The policy: an ordered list of rules, of which the first match decides.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::command::{self, Segment};
use super::path::{Glob, PathInfo};
use super::{Command, ToolKind, ToolUse};
use crate::clip::sanitize;
use crate::matching::{CommandPattern, matches_wildcard};

/// Maximum number of rules in one file, and of earlier rules that [`Policy::lint`] compares each
/// rule with.
pub(super) const MAX_RULES: usize = 1_000;

/// Maximum number of paths of one tool use that are examined. Beyond it, allowing rules do not
/// match, and denying or asking rules do.
const MAX_PATHS: usize = 1_000;

/// An ordered list of rules. Cheap to clone.
#[must_use]
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Arc<[Arc<Rule>]>,
    trusted: Arc<[Glob]>,
    dropped: usize,
}

/// Decision of a policy on one tool use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    /// What to do.
    pub action: PolicyAction,
    /// The rule that decided, as text for a person.
    pub rule: Option<String>,
}

/// What a policy says about a tool use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyAction {
    /// It may run.
    Allow,
    /// It may not run, with the reason for the model.
    Deny(String),
    /// A person must decide.
    Ask,
    /// No rule matches.
    Undecided,
}

impl PolicyAction {
    /// Returns the name, as in `do` of a rule.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny(_) => "deny",
            Self::Ask => "ask",
            Self::Undecided => "undecided",
        }
    }
}

/// How far a policy file is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Fully: it expresses what the caller wants.
    #[default]
    Full,
    /// It came with the workspace, and anyone may have written it, so it can only restrict. Its
    /// allowing rules are dropped, and where it asks, later rules may still deny.
    Project,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RuleAction {
    Allow,
    Deny,
    Ask,
}

/// Conditions of a rule: every given one must hold, and of each list at least one entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Conditions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) kind: Vec<ToolKind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) path: Vec<String>,
}

/// One rule. `Display` describes it for a person; serialization gives its original form.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    pub(super) source: Arc<str>,
    pub(super) number: usize,
    #[serde(rename = "do")]
    pub(super) action: RuleAction,
    #[serde(flatten)]
    pub(super) when: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip)]
    pub(super) trust: Trust,
    #[serde(skip)]
    pub(super) prefixes: Vec<Vec<String>>,
    /// The prefixes in the form for denying and asking rules.
    #[serde(skip)]
    pub(super) wide: Vec<CommandPattern>,
    #[serde(skip)]
    pub(super) globs: Vec<Glob>,
}

/// Serializes the rules, for a session that is resumed later. `trusted_projects` is left out: it is
/// evaluated when a session is created.
impl Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct StoredRule<'a> {
            trust: Trust,
            #[serde(flatten)]
            rule: &'a Rule,
        }
        serializer.collect_seq(self.rules().map(|rule| StoredRule {
            trust: rule.trust,
            rule,
        }))
    }
}

impl Policy {
    pub(super) fn new(rules: Vec<Rule>, trusted: Vec<Glob>) -> Self {
        Self {
            rules: rules.into_iter().map(Arc::new).collect(),
            trusted: trusted.into(),
            dropped: 0,
        }
    }

    /// Creates a policy that allows these tools and denies everything else, with `message` as the
    /// reason for the model.
    pub fn only<'a>(tools: impl IntoIterator<Item = &'a str>, message: &str) -> Self {
        let rule = |number, action, when, message| Rule {
            source: "a plain model".into(),
            number,
            action,
            when,
            message,
            trust: Trust::Full,
            prefixes: Vec::new(),
            wide: Vec::new(),
            globs: Vec::new(),
        };
        let tools: Vec<String> = tools.into_iter().map(str::to_owned).collect();
        let deny = rule(
            2,
            RuleAction::Deny,
            Conditions::default(),
            Some(message.to_owned()),
        );
        // A rule without tools would match all of them. One of the agent's own tools may have the
        // same name, but its kind is known; that of the caller's tools is not.
        let callers_tools = |tool| Conditions {
            kind: vec![ToolKind::Other],
            tool,
            ..Conditions::default()
        };
        let allow =
            (!tools.is_empty()).then(|| rule(1, RuleAction::Allow, callers_tools(tools), None));
        Self::new(allow.into_iter().chain([deny]).collect(), Vec::new())
    }

    /// Drops the rules that a workspace's own file must not contain.
    pub(super) fn narrowing(self) -> Self {
        let is_retained =
            |rule: &&Arc<Rule>| rule.trust == Trust::Full || rule.action != RuleAction::Allow;
        let rules: Arc<[_]> = self.rules.iter().filter(is_retained).cloned().collect();
        Self {
            dropped: self.rules.len() - rules.len(),
            rules,
            trusted: self.trusted,
        }
    }

    /// Returns the rules that deny, which another policy can follow without undoing them.
    pub fn denials(&self) -> Self {
        let denies = |rule: &&Arc<Rule>| rule.action == RuleAction::Deny;
        Self {
            rules: self.rules.iter().filter(denies).cloned().collect(),
            trusted: Arc::default(),
            dropped: 0,
        }
    }

    /// Appends the rules of `more`.
    pub fn then(self, more: Self) -> Self {
        let Self {
            rules,
            trusted,
            dropped,
        } = more;
        Self {
            rules: self.rules.iter().chain(&*rules).cloned().collect(),
            trusted: self.trusted.iter().chain(&*trusted).cloned().collect(),
            dropped: self.dropped + dropped,
        }
    }

    /// Returns true if there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|rule| &**rule)
    }

    /// Returns the number of rules that were dropped because they came with a workspace and allow
    /// something.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Returns true if `trusted_projects` lists this directory, an absolute path.
    #[must_use]
    pub fn trusts(&self, project: &str) -> bool {
        let path = PathInfo::of(project, "/");
        project.starts_with('/')
            && self
                .trusted
                .iter()
                .any(|glob| glob.certainly_matches(&path))
    }

    /// Decides on a tool use: the first matching rule wins. `workspace` is an absolute path.
    ///
    /// Paths are compared as text; symbolic links are not resolved.
    #[must_use]
    pub fn decide(&self, wants: &ToolUse, workspace: &str) -> PolicyDecision {
        match self.decider(wants, workspace) {
            Some(rule) => PolicyDecision {
                action: rule.decision(),
                rule: Some(rule.to_string()),
            },
            None => PolicyDecision {
                action: PolicyAction::Undecided,
                rule: None,
            },
        }
    }

    /// Returns the rule that decides.
    pub(super) fn decider(&self, wants: &ToolUse, workspace: &str) -> Option<&Rule> {
        let analyzed = AnalyzedUse::of(wants, workspace);
        let mut asked: Option<&Rule> = None;
        for rule in self.rules().filter(|rule| rule.matches(&analyzed)) {
            match (rule.trust, rule.action) {
                // A workspace's rule asks only if no other rule denies.
                (Trust::Project, RuleAction::Ask) => asked = asked.or(Some(rule)),
                // Within one file, the first rule counts.
                (Trust::Project, _) if asked.is_some() => {}
                (Trust::Full, RuleAction::Allow | RuleAction::Ask) => return asked.or(Some(rule)),
                _ => return Some(rule),
            }
        }
        asked
    }

    /// Returns a message for each rule that never applies, because an earlier one matches
    /// everything it does. Only obvious cases are found.
    #[must_use]
    pub fn lint(&self) -> Vec<String> {
        let unused = self.rules().enumerate().filter_map(|(at, late)| {
            let early = self
                .rules()
                .take(at.min(MAX_RULES))
                .find(|early| early.covers(late))?;
            Some(format!(
                "{late} never applies: {early} precedes it and matches everything it does"
            ))
        });
        unused.collect()
    }
}

/// A tool use, analyzed once for all rules.
struct AnalyzedUse<'a> {
    wants: &'a ToolUse,
    /// The words of the command, if it is certainly a single one.
    plain: Option<Vec<String>>,
    segments: Vec<Segment>,
    /// `None` if there are too many to examine.
    paths: Option<Vec<PathInfo>>,
}

impl<'a> AnalyzedUse<'a> {
    fn of(wants: &'a ToolUse, workspace: &str) -> Self {
        let (plain, segments) = match &wants.command {
            Some(Command::Shell(line)) => (command::plain(line), command::segments(line)),
            Some(Command::Words(words)) => (
                Some(words.clone()).filter(|words| !command::is_long(words)),
                command::segments_of(words),
            ),
            None => (None, Vec::new()),
        };
        let few = Some(&wants.paths).filter(|paths| paths.len() <= MAX_PATHS);
        let paths = few.map(|paths| {
            paths
                .iter()
                .map(|path| PathInfo::of(path, workspace))
                .collect()
        });
        Self {
            wants,
            plain,
            segments,
            paths,
        }
    }
}

impl Rule {
    /// Returns the decision on a matching tool use.
    fn decision(&self) -> PolicyAction {
        match self.action {
            RuleAction::Allow => PolicyAction::Allow,
            RuleAction::Ask => PolicyAction::Ask,
            RuleAction::Deny => PolicyAction::Deny(
                self.message
                    .clone()
                    .unwrap_or_else(|| format!("Not allowed by {self}.")),
            ),
        }
    }

    /// Returns the value of `do`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.decision().as_str()
    }

    /// Returns the denial reason for the model that replaces the default.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn matches(&self, analyzed: &AnalyzedUse<'_>) -> bool {
        let when = &self.when;
        let kind = when.kind.is_empty() || when.kind.contains(&analyzed.wants.kind);
        let tool = when.tool.is_empty()
            || when
                .tool
                .iter()
                .any(|tool| matches_wildcard(tool, &analyzed.wants.tool));
        kind && tool && self.matches_command(analyzed) && self.matches_paths(analyzed)
    }

    fn matches_command(&self, analyzed: &AnalyzedUse<'_>) -> bool {
        let begins = |words: &Vec<String>| {
            self.prefixes
                .iter()
                .any(|prefix| command::begins(words, prefix))
        };
        let could = |segment: &Segment| self.wide.iter().any(|prefix| segment.could_begin(prefix));
        self.prefixes.is_empty()
            || match self.action {
                RuleAction::Allow => analyzed.plain.as_ref().is_some_and(begins),
                RuleAction::Deny | RuleAction::Ask => analyzed.segments.iter().any(could),
            }
    }

    fn matches_paths(&self, analyzed: &AnalyzedUse<'_>) -> bool {
        if self.globs.is_empty() {
            return true;
        }
        let Some(paths) = &analyzed.paths else {
            return self.action != RuleAction::Allow;
        };
        // An edit can move or delete a directory with everything below it.
        let is_edit = analyzed.wants.kind == ToolKind::Edit;
        match self.action {
            RuleAction::Allow => {
                let is_covered = |path| self.globs.iter().any(|glob| glob.certainly_matches(path));
                !paths.is_empty() && paths.iter().all(is_covered)
            }
            RuleAction::Deny | RuleAction::Ask => paths.iter().any(|path| {
                self.globs
                    .iter()
                    .any(|glob| glob.may_match(path) || (is_edit && glob.may_match_below(path)))
            }),
        }
    }

    /// Returns true if this rule certainly matches everything that a later one does.
    fn covers(&self, later: &Self) -> bool {
        let (conditions, later_conditions) = (&self.when, &later.when);
        // For the same conditions, an allowing rule matches less than a denying or asking one.
        let matches_less = self.action == RuleAction::Allow && later.action != RuleAction::Allow;
        if matches_less && !(conditions.command.is_empty() && conditions.path.is_empty()) {
            return false;
        }
        if self.trust == Trust::Project
            && self.action == RuleAction::Ask
            && later.trust == Trust::Full
        {
            return false;
        }
        let any_tool = conditions.tool.is_empty() || conditions.tool.iter().any(|tool| tool == "*");
        let longer = |prefix: &Vec<String>| self.prefixes.iter().any(|own| prefix.starts_with(own));
        is_within(&later_conditions.kind, &conditions.kind)
            && (any_tool || is_within(&later_conditions.tool, &conditions.tool))
            && is_within(&later_conditions.path, &conditions.path)
            && (self.prefixes.is_empty()
                || (!later.prefixes.is_empty() && later.prefixes.iter().all(longer)))
    }
}

/// Returns true if one condition implies the other. An empty condition always holds.
fn is_within<T: PartialEq>(narrow: &[T], wide: &[T]) -> bool {
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|one| wide.contains(one)))
}

/// `rule 3 of ~/.config/ostler/policy.toml (execute "git push")`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |texts: &[String]| {
            texts
                .iter()
                .map(|text| format!("{text:?}"))
                .collect::<Vec<_>>()
        };
        let kinds: Vec<String> = self
            .when
            .kind
            .iter()
            .map(|kind| kind.as_str().to_owned())
            .collect();
        let lists = [
            kinds,
            self.when.tool.clone(),
            quoted(&self.when.command),
            quoted(&self.when.path),
        ];
        let words: Vec<String> = lists
            .iter()
            .filter(|list| !list.is_empty())
            .map(|list| join_first(list))
            .collect();
        let all = format!(
            "rule {} of {} ({})",
            self.number,
            self.source,
            words.join(" ")
        );
        f.write_str(&sanitize(&all).replace('\n', " "))
    }
}

/// Joins the first entries of a list.
fn join_first(list: &[String]) -> String {
    match list {
        [first, second, _, rest @ ..] if !rest.is_empty() => format!("{first}|{second}|…"),
        short => short.join("|"),
    }
}
