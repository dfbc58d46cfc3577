//! Report for people: one line per installed agent, or all details of one agent.

use anstyle::Style;
use ostler::render::clip::sanitize;

use super::drift;
use super::finding::{Finding, State};
use super::{Reason, RunChoice};
use crate::output::style::{BAD, DIM, GOOD, WARN};
use crate::output::{wrap_indented, wrap_lines};

/// States that get a line per agent, in display order.
const SHOWN: [State; 6] = [
    State::Ready,
    State::NotLoggedIn,
    State::UnknownLogin,
    State::TooOld,
    State::Broken,
    State::NotConfigured,
];

/// Returns true if an agent is merely not installed or not configured.
fn is_absent(f: &Finding) -> bool {
    f.state == State::Missing || (f.state == State::NotConfigured && !f.is_program)
}

/// Indentation of a hint.
const INDENT: usize = 4;

/// Formats the report on all agents, within one screen.
pub(super) fn overview(findings: &[Finding], choice: &RunChoice, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let real = || findings.iter().filter(|f| !f.built_in);
    let in_state = |state: State| real().filter(move |f| f.state == state && !is_absent(f));
    let shown: Vec<&Finding> = SHOWN.iter().flat_map(|state| in_state(*state)).collect();
    let names = shown
        .iter()
        .map(|f| f.agent.chars().count())
        .max()
        .unwrap_or(0);
    for finding in &shown {
        lines.push(row(finding, names));
        // An agent with an unknown login may well be ready; its details show how to log in.
        let hint = finding.hint.as_deref();
        if let Some(hint) = hint.filter(|_| finding.state != State::UnknownLogin) {
            lines.extend(wrap_indented(&sanitize(hint), INDENT, width));
        }
    }
    for state in [State::Missing, State::NotConfigured] {
        let names: Vec<&str> = real()
            .filter(|f| f.state == state && is_absent(f))
            .map(|f| f.agent.as_str())
            .collect();
        if !names.is_empty() {
            let line = format!("{}: {}", state.label(), names.join(", "));
            lines.extend(wrap_lines(&line, width, INDENT));
        }
    }
    lines.push(String::new());
    lines.extend(wrap_lines(&conclusion(findings, choice), width, 0));
    if choice.reason == Reason::NoneUsable
        && shown.is_empty()
        && let Some(hint) = real().find_map(|f| f.hint.as_deref())
    {
        lines.extend(wrap_lines(&sanitize(hint), width, 0));
    }
    let more = "Run `ostler doctor AGENT` for details and how to install or log in.";
    lines.extend(wrap_lines(more, width, 0));
    lines
}

/// Formats the line of one agent.
fn row(f: &Finding, names: usize) -> String {
    let (mark, paint) = mark(f.state);
    let note = match f.state {
        State::Ready => f.login.as_deref().map(sanitize),
        State::Broken => f.problem.as_deref().map(sanitize),
        State::TooOld => required(f),
        _ => None,
    };
    let is_newer = f.newer_than_tested.then(|| "newer than tested".to_owned());
    let drifts = !f.unknown_messages.is_empty();
    let drift = drifts.then(|| "sends unknown messages".to_owned());
    let notes: Vec<String> = [note, is_newer, drift].into_iter().flatten().collect();
    let version = sanitize(f.version.as_deref().unwrap_or(""));
    let state = f.state.label();
    let line = format!(
        "{paint}{mark}{paint:#} {:names$}  {state:<13}  {version:<9}  {}",
        f.agent,
        notes.join(" · ")
    );
    line.trim_end().to_owned()
}

fn mark(state: State) -> (&'static str, Style) {
    match state {
        State::Ready => ("✓", GOOD),
        State::UnknownLogin => ("?", WARN),
        _ => ("✗", BAD),
    }
}

fn required(f: &Finding) -> Option<String> {
    let need = f.minimum_version.as_ref();
    need.map(|need| format!("{need} or newer is required"))
}

/// Explains which agent a run uses, and why.
fn conclusion(findings: &[Finding], choice: &RunChoice) -> String {
    let agent = &choice.agent;
    let state = findings
        .iter()
        .find(|f| f.agent == choice.behind)
        .map(|f| f.state);
    let problem = match state {
        Some(state) if !state.is_usable() => format!("; it is {}", state_phrase(state)),
        _ => String::new(),
    };
    match choice.reason {
        Reason::Configured => {
            let by = sanitize(choice.configured_by.as_deref().unwrap_or_default());
            format!("`ostler run` uses {agent}, configured by {by}{problem}.")
        }
        Reason::OnlyInstalled => {
            format!("`ostler run` uses {agent}, the only installed agent{problem}.")
        }
        Reason::FirstUsable => {
            let login = if state == Some(State::UnknownLogin) {
                " if it is logged in"
            } else {
                ""
            };
            format!(
                "`ostler run` uses {agent}, the first usable agent{login}. Use `--agent NAME` to choose another."
            )
        }
        Reason::NoneUsable => {
            "No agent is ready. `ostler run \"…\"` plays a built-in demo instead.".into()
        }
    }
}

fn state_phrase(state: State) -> &'static str {
    match state {
        State::NotLoggedIn => "not logged in",
        state => state.label(),
    }
}

/// Formats all details of one agent.
pub(super) fn details(f: &Finding, width: usize) -> Vec<String> {
    let (_, paint) = mark(f.state);
    let state = if f.built_in {
        "built in, plays scripts"
    } else {
        f.state.label()
    };
    let mut lines = vec![format!("{}: {paint}{state}{paint:#}", f.agent)];
    let tested = f.tested_version.as_ref();
    let tested = tested.map(|tested| format!("tested with {tested}"));
    let versions = [f.version.clone(), required(f), tested];
    let versions: Vec<String> = versions.into_iter().flatten().collect();
    let login = match f.state {
        State::UnknownLogin => Some("unknown without a model call".to_owned()),
        _ => f.login.clone(),
    };
    let rows = [
        ("version", Some(versions.join("; "))),
        ("path", f.path.clone()),
        ("login", login),
        ("problem", f.problem.clone()),
        ("fix", f.hint.clone()),
        ("models", Some(f.models.join(", "))),
        ("docs", Some(f.docs.clone())),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    let newer_than = f.tested_version.as_deref().filter(|_| f.newer_than_tested);
    for (name, value) in rows.chain(drift::lines(newer_than, &f.unknown_messages)) {
        let mut parts = wrap_indented(&sanitize(&value), 11, width).into_iter();
        let first = parts.next().unwrap_or_default();
        lines.push(format!("  {DIM}{name:<7}{DIM:#}  {}", first.trim_start()));
        lines.extend(parts);
    }
    lines
}
