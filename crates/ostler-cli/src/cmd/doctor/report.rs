//! Report for people: one line per installed agent, or all details of one agent.

use ostler::clip::sanitize;

use super::drift;
use super::finding::{Finding, State};
use super::{Reason, RunChoice};
use crate::output::{style, wrap_lines};

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
        if let Some(hint) = finding
            .hint
            .as_deref()
            .filter(|_| finding.state != State::UnknownLogin)
        {
            lines.extend(indented(hint, INDENT, width));
        }
    }
    for state in [State::Missing, State::NotConfigured] {
        let names: Vec<&str> = real()
            .filter(|f| f.state == state && is_absent(f))
            .map(|f| f.agent.as_str())
            .collect();
        if !names.is_empty() {
            lines.extend(wrap_lines(
                &format!("{}: {}", state.label(), names.join(", ")),
                width,
                INDENT,
            ));
        }
    }
    lines.push(String::new());
    lines.extend(wrap_lines(&conclusion(findings, choice), width, 0));
    if choice.reason == Reason::NoneUsable
        && let Some(hint) = shown
            .is_empty()
            .then(|| real().find_map(|f| f.hint.as_deref()))
            .flatten()
    {
        lines.extend(wrap_lines(&sanitize(hint), width, 0));
    }
    lines.extend(wrap_lines(
        "Run `ostler doctor AGENT` for details and how to install or log in.",
        width,
        0,
    ));
    lines
}

/// Formats the line of one agent.
fn row(f: &Finding, names: usize) -> String {
    let (mark, paint) = match f.state {
        State::Ready => ("✓", style::GOOD),
        State::UnknownLogin => ("?", style::WARN),
        _ => ("✗", style::BAD),
    };
    let mut notes: Vec<String> = Vec::new();
    match f.state {
        State::Ready => notes.extend(f.login.as_deref().map(sanitize)),
        State::Broken => notes.extend(f.problem.as_deref().map(sanitize)),
        State::TooOld => notes.extend(
            f.minimum_version
                .as_ref()
                .map(|need| format!("{need} or newer is required")),
        ),
        _ => {}
    }
    if f.newer_than_tested {
        notes.push("newer than tested".to_owned());
    }
    if !f.unknown_messages.is_empty() {
        notes.push("sends unknown messages".to_owned());
    }
    let (state, version) = (
        f.state.label(),
        sanitize(f.version.as_deref().unwrap_or("")),
    );
    let line = format!(
        "{paint}{mark}{paint:#} {:names$}  {state:<13}  {version:<9}  {}",
        f.agent,
        notes.join(" · ")
    );
    line.trim_end().to_owned()
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
            let by = choice
                .configured_by
                .as_deref()
                .map(sanitize)
                .unwrap_or_default();
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
    let paint = match f.state {
        State::Ready => style::GOOD,
        State::UnknownLogin => style::WARN,
        _ => style::BAD,
    };
    let state = if f.built_in {
        "built in, plays scripts"
    } else {
        f.state.label()
    };
    let mut lines = vec![format!("{}: {paint}{state}{paint:#}", f.agent)];
    let known = |text: &Option<String>| text.clone();
    let versions = [
        known(&f.version),
        f.minimum_version
            .as_ref()
            .map(|minimum| format!("{minimum} or newer is required")),
        f.tested_version
            .as_ref()
            .map(|tested| format!("tested with {tested}")),
    ];
    let versions: Vec<String> = versions.into_iter().flatten().collect();
    let login = match f.state {
        State::UnknownLogin => Some("unknown without a model call".to_owned()),
        _ => known(&f.login),
    };
    let rows = [
        (
            "version",
            Some(versions.join("; ")).filter(|text| !text.is_empty()),
        ),
        ("path", known(&f.path)),
        ("login", login),
        ("problem", known(&f.problem)),
        ("fix", known(&f.hint)),
        (
            "models",
            Some(f.models.join(", ")).filter(|text| !text.is_empty()),
        ),
        ("docs", Some(f.docs.clone())),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let newer_than = f.tested_version.as_deref().filter(|_| f.newer_than_tested);
    for (name, value) in rows.chain(drift::lines(newer_than, &f.unknown_messages)) {
        let mut parts = indented(&sanitize(&value), 11, width).into_iter();
        let first = parts.next().unwrap_or_default();
        let dim = style::DIM;
        lines.push(format!("  {dim}{name:<7}{dim:#}  {}", first.trim_start()));
        lines.extend(parts);
    }
    lines
}

/// Wraps a text into indented lines.
fn indented(text: &str, indent: usize, width: usize) -> Vec<String> {
    let lines = wrap_lines(&sanitize(text), width.saturating_sub(indent), 0);
    lines
        .into_iter()
        .map(|line| format!("{:indent$}{line}", ""))
        .collect()
}
