//! The policy: rules in order, of which the first that matches decides.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::command::{self, Prefix, Segment};
use super::path::{Glob, Place};
use super::pattern::is_like;
use super::{Command, ToolKind, ToolUse};
use crate::clip::plain;

/// How many rules one file may have; and with how many of the earlier ones each is compared by [`Policy::lint`].
pub(super) const MOST_RULES: usize = 1_000;

/// How many paths of one tool use are looked at. Rules that allow do not match more, rules that deny or ask do.
const MOST_PATHS: usize = 1_000;

/// Rules in order. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Arc<[Arc<Rule>]>,
    trusted: Arc<[Glob]>,
    dropped: usize,
}

/// What a policy says about one tool use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What it says.
    pub ruled: Ruled,
    /// The rule that decided, in words for people.
    pub rule: Option<String>,
}

/// What a policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruled {
    /// It may run.
    Allow,
    /// It may not, and this is what the model is told.
    Deny(String),
    /// A person is asked.
    Ask,
    /// No rule matches.
    Undecided,
}

impl Ruled {
    /// The word for it, as in `do` of a rule.
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

/// How far a policy's file is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It says what the caller wants.
    Full,
    /// It came with the workspace, and anybody may have written it: it narrows and never widens. Its rules that allow are not
    /// taken, and where it asks, what comes after it may still deny.
    Project,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Allow,
    Deny,
    Ask,
}

/// What a rule is about: all that are given must hold, and of each list one.
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

/// One rule. It shows as the words for people, and serializes as what was written.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    pub(super) source: Arc<str>,
    pub(super) number: usize,
    #[serde(rename = "do")]
    pub(super) action: Action,
    #[serde(flatten)]
    pub(super) when: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip)]
    pub(super) trust: Trust,
    #[serde(skip)]
    pub(super) prefixes: Vec<Vec<String>>,
    /// The same, for rules that deny or ask.
    #[serde(skip)]
    pub(super) wide: Vec<Prefix>,
    #[serde(skip)]
    pub(super) globs: Vec<Glob>,
}

impl Policy {
    pub(super) fn new(rules: Vec<Rule>, trusted: Vec<Glob>) -> Self {
        Self {
            rules: rules.into_iter().map(Arc::new).collect(),
            trusted: trusted.into(),
            dropped: 0,
        }
    }

    /// These tools may run, and nothing else. `message` is what the model is told about everything else.
    #[must_use]
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
            Action::Deny,
            Conditions::default(),
            Some(message.to_owned()),
        );
        // A rule without tools would be about all of them. A tool of the agent's own may have the same name, but what it does
        // is known; of the caller's tools it is not.
        let theirs = |tool| Conditions {
            kind: vec![ToolKind::Other],
            tool,
            ..Conditions::default()
        };
        let allow = (!tools.is_empty()).then(|| rule(1, Action::Allow, theirs(tools), None));
        Self::new(allow.into_iter().chain([deny]).collect(), Vec::new())
    }

    /// Leaves out what a workspace's own file must not say.
    pub(super) fn narrowing(self) -> Self {
        let kept = |rule: &&Arc<Rule>| rule.trust == Trust::Full || rule.action != Action::Allow;
        let rules: Arc<[_]> = self.rules.iter().filter(kept).cloned().collect();
        Self {
            dropped: self.rules.len() - rules.len(),
            rules,
            trusted: self.trusted,
        }
    }

    /// These rules first, then `more`.
    #[must_use]
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

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|rule| &**rule)
    }

    /// How many rules were not taken, since they allow something and came with a workspace.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Whether `trusted_projects` names this directory, an absolute path.
    #[must_use]
    pub fn trusts(&self, project: &str) -> bool {
        let place = Place::of(project, "/");
        project.starts_with('/') && self.trusted.iter().any(|glob| glob.is_sure_of(&place))
    }

    /// What the rules say: the first that matches decides. `workspace` is an absolute path.
    ///
    /// Paths are compared by their letters: a symbolic link is not seen here.
    #[must_use]
    pub fn decide(&self, wants: &ToolUse, workspace: &str) -> Ruling {
        match self.decider(wants, workspace) {
            Some(rule) => Ruling {
                ruled: rule.ruled(),
                rule: Some(rule.to_string()),
            },
            None => Ruling {
                ruled: Ruled::Undecided,
                rule: None,
            },
        }
    }

    /// The rule that decides.
    pub(super) fn decider(&self, wants: &ToolUse, workspace: &str) -> Option<&Rule> {
        let seen = Seen::of(wants, workspace);
        let mut asked: Option<&Rule> = None;
        for rule in self.rules().filter(|rule| rule.matches(&seen)) {
            match (rule.trust, rule.action) {
                // A workspace's question is put only where nobody else denies.
                (Trust::Project, Action::Ask) => asked = asked.or(Some(rule)),
                // Of one file the first rule counts.
                (Trust::Project, _) if asked.is_some() => {}
                (Trust::Full, Action::Allow | Action::Ask) => return asked.or(Some(rule)),
                _ => return Some(rule),
            }
        }
        asked
    }

    /// Rules that never decide, since an earlier one takes everything that they match. Only what is obvious is found.
    #[must_use]
    pub fn lint(&self) -> Vec<String> {
        let idle = self.rules().enumerate().filter_map(|(at, late)| {
            let early = self
                .rules()
                .take(at.min(MOST_RULES))
                .find(|early| early.covers(late))?;
            Some(format!(
                "{late} never decides: {early} comes before it and takes all that it matches"
            ))
        });
        idle.collect()
    }
}

/// A tool use, looked at once for all rules.
struct Seen<'a> {
    wants: &'a ToolUse,
    /// The words of a command that is certainly only one.
    plain: Option<Vec<String>>,
    segments: Vec<Segment>,
    /// None when there are too many to be looked at.
    places: Option<Vec<Place>>,
}

impl<'a> Seen<'a> {
    fn of(wants: &'a ToolUse, workspace: &str) -> Self {
        let (plain, segments) = match &wants.command {
            Some(Command::Shell(line)) => (command::plain(line), command::segments(line)),
            Some(Command::Words(words)) => (
                Some(words.clone()).filter(|words| !command::is_long(words)),
                command::segments_of(words),
            ),
            None => (None, Vec::new()),
        };
        let few = Some(&wants.paths).filter(|paths| paths.len() <= MOST_PATHS);
        let places = few.map(|paths| {
            paths
                .iter()
                .map(|path| Place::of(path, workspace))
                .collect()
        });
        Self {
            wants,
            plain,
            segments,
            places,
        }
    }
}

impl Rule {
    /// What it says about what it matches.
    fn ruled(&self) -> Ruled {
        match self.action {
            Action::Allow => Ruled::Allow,
            Action::Ask => Ruled::Ask,
            Action::Deny => Ruled::Deny(
                self.message
                    .clone()
                    .unwrap_or_else(|| format!("Not allowed by {self}.")),
            ),
        }
    }

    /// The word of its `do`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.ruled().as_str()
    }

    /// What the model is told instead of the usual, when it denies.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn matches(&self, seen: &Seen<'_>) -> bool {
        let when = &self.when;
        let kind = when.kind.is_empty() || when.kind.contains(&seen.wants.kind);
        let tool =
            when.tool.is_empty() || when.tool.iter().any(|tool| is_like(tool, &seen.wants.tool));
        kind && tool && self.matches_command(seen) && self.matches_paths(seen)
    }

    fn matches_command(&self, seen: &Seen<'_>) -> bool {
        let begins = |words: &Vec<String>| {
            self.prefixes
                .iter()
                .any(|prefix| command::begins(words, prefix))
        };
        let could = |segment: &Segment| self.wide.iter().any(|prefix| segment.could_begin(prefix));
        self.prefixes.is_empty()
            || match self.action {
                Action::Allow => seen.plain.as_ref().is_some_and(begins),
                Action::Deny | Action::Ask => seen.segments.iter().any(could),
            }
    }

    fn matches_paths(&self, seen: &Seen<'_>) -> bool {
        if self.globs.is_empty() {
            return true;
        }
        let Some(places) = &seen.places else {
            return self.action != Action::Allow;
        };
        // An edit can move or delete a directory, and all that is below it.
        let is_edit = seen.wants.kind == ToolKind::Edit;
        match self.action {
            Action::Allow => {
                let is_covered = |place| self.globs.iter().any(|glob| glob.is_sure_of(place));
                !places.is_empty() && places.iter().all(is_covered)
            }
            Action::Deny | Action::Ask => places.iter().any(|place| {
                self.globs
                    .iter()
                    .any(|glob| glob.may_mean(place) || (is_edit && glob.may_be_below(place)))
            }),
        }
    }

    /// Whether it certainly takes all that a later rule matches.
    fn covers(&self, later: &Self) -> bool {
        let (mine, its) = (&self.when, &later.when);
        // For the same words a rule that allows sees less than one that denies or asks.
        let sees_less = self.action == Action::Allow && later.action != Action::Allow;
        if sees_less && !(mine.command.is_empty() && mine.path.is_empty()) {
            return false;
        }
        if self.trust == Trust::Project && self.action == Action::Ask && later.trust == Trust::Full
        {
            return false;
        }
        let any_tool = mine.tool.is_empty() || mine.tool.iter().any(|tool| tool == "*");
        let longer =
            |prefix: &Vec<String>| self.prefixes.iter().any(|mine| prefix.starts_with(mine));
        is_within(&its.kind, &mine.kind)
            && (any_tool || is_within(&its.tool, &mine.tool))
            && is_within(&its.path, &mine.path)
            && (self.prefixes.is_empty()
                || (!later.prefixes.is_empty() && later.prefixes.iter().all(longer)))
    }
}

/// Whether a condition holds only where another does; an empty one holds always.
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
            .map(|list| brief(list))
            .collect();
        let all = format!(
            "rule {} of {} ({})",
            self.number,
            self.source,
            words.join(" ")
        );
        f.write_str(&plain(&all).replace('\n', " "))
    }
}

/// The first few of a list.
fn brief(list: &[String]) -> String {
    match list {
        [first, second, _, rest @ ..] if !rest.is_empty() => format!("{first}|{second}|…"),
        short => short.join("|"),
    }
}
