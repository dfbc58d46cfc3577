//! The results page docs/agents/matrix.md: generated from the suite and compared with it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use ostler_testkit::real;
use ostler_testkit::scenario::conformance::{Applies, Group, Member, ROWS, Recorded, Row};
use serde::Deserialize;

use super::{MEMBERS, fixtures};

/// Last results of each agent by its name in the suite, as written by `cargo xtask test
/// --all-agents`.
type LastRun = BTreeMap<String, Results>;

#[derive(Debug, Default, Deserialize)]
struct Results {
    /// The day, in UTC.
    date: String,
    /// The tested version; empty for a part of Ostler.
    version: String,
    passed: Vec<String>,
    failed: Vec<String>,
}

const INTRO: &str = "\
<!-- Made by the conformance suite: UPDATE_GOLDEN=1 cargo nextest run -p ostler conformance::matrix -->
# What was tried with which agent

Each row is one scenario, written once and run with every agent that is capable of it, against the scripted model.
✓ means that it passed with the program itself in the last stored run of that agent, ✗ that it failed, and \"not run\" that the run has no result of it.
`cargo xtask test --all-agents` stores the results (`fixtures/conformance/last-full-run.json`); the agents that are tried \"always\" are also part of every `cargo xtask test`, which fails where they do.
– means that the row does not apply, and the number says why.
Agents that do the same thing emit the same kinds of event in the same order: the stories are below, with what a recording of the agent, played in every test run, does not show.
";

fn page(members: &[Member], last: &LastRun) -> String {
    let mut page = format!(
        "{INTRO}\n## Agents\n\n| column | agent | version | how it is spoken with | tried |\n|---|---|---|---|---|\n"
    );
    for member in members {
        let _ = writeln!(
            page,
            "| {} | `{}` | {} | {} | {} |",
            member.id,
            member.subject.name,
            version(member),
            member.transport,
            tried(member, last)
        );
    }
    let mut reasons: Vec<&str> = Vec::new();
    let names: Vec<&str> = members.iter().map(|member| member.id).collect();
    let _ = write!(
        page,
        "\n## Rows\n\n| | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for row in ROWS {
        let cells: Vec<String> = members
            .iter()
            .map(|member| cell(row, member, last, &mut reasons))
            .collect();
        let _ = writeln!(
            page,
            "| {}: {} | {} |",
            row.name.replace('_', " "),
            row.about,
            cells.join(" | ")
        );
    }
    for (reason, number) in reasons.iter().zip(1..) {
        let _ = write!(page, "\n{number}. {reason}");
    }
    page += "\n\n## Stories\n\nWhat every agent tells. Names of tools, notices, and whether a text comes in pieces are left out; tools of one message\nare done in any order. An agent that only counts its tools leaves them out. Half a reply is told by those who do not wait until it is complete.\n\n| row | applies | story | a recording does not show |\n|---|---|---|---|\n";
    for row in ROWS {
        let name = row.name.replace('_', " ");
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} |",
            applies(row),
            row.story,
            not_shown(row)
        );
    }
    page
}

fn version(member: &Member) -> &'static str {
    let pinned = real::ALL
        .iter()
        .find(|pinned| pinned.name == member.subject.name);
    pinned
        .map(|pinned| pinned.version)
        .or(member.subject.version)
        .unwrap_or("a part of Ostler")
}

fn tried(member: &Member, last: &LastRun) -> String {
    let when = if member.group == Group::Heavy {
        "with `--all-agents`"
    } else {
        "always"
    };
    match last.get(member.id) {
        Some(Results { date, version, .. }) if version.is_empty() => {
            format!("{when}; results of {date}")
        }
        Some(Results { date, version, .. }) => format!("{when}; results of {date} with {version}"),
        None => format!("{when}; no results yet"),
    }
}

fn not_shown(row: &Row) -> &'static str {
    match row.recorded {
        Recorded::Whole => "–",
        Recorded::Events(rest) => rest,
        Recorded::Never => "any of it: none is played",
    }
}

fn cell<'a>(row: &Row, member: &'a Member, last: &LastRun, reasons: &mut Vec<&'a str>) -> String {
    if let Some(reason) = member.lack(row.name) {
        let known = reasons.iter().position(|known| *known == reason);
        let number = known.unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        return format!("– ({})", number + 1);
    }
    let results = last.get(member.id);
    let has = |names: fn(&Results) -> &Vec<String>| {
        results.is_some_and(|it| names(it).iter().any(|it| it == row.name))
    };
    if has(|it| &it.passed) {
        "✓".to_owned()
    } else if has(|it| &it.failed) {
        "✗".to_owned()
    } else {
        "not run".to_owned()
    }
}

fn applies(row: &Row) -> String {
    match row.applies {
        Applies::Always => "always".to_owned(),
        Applies::ToProcesses => "to a process".to_owned(),
        Applies::When(name) => format!("with the capability `{name}`"),
    }
}

#[test]
fn the_page_is_what_the_suite_says() {
    let last = std::fs::read_to_string(fixtures().join("last-full-run.json")).unwrap();
    let made = page(MEMBERS, &serde_json::from_str(&last).unwrap());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents/matrix.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "the suite changed: UPDATE_GOLDEN=1 cargo nextest run -p ostler conformance::matrix, and read it"
    );
}

/// Every agent shows its last results, whenever it was tested: being listed is not a ✓. Missing
/// rows have numbered reasons.
#[test]
fn every_agent_shows_its_last_results() {
    let member = |id, group| Member {
        id,
        subject: &ostler_testkit::scenario::CLAUDE,
        transport: "pigeons",
        group,
        lacks: &[("fork", "it cannot"), ("resume", "it cannot")],
    };
    let results = Results {
        date: "2026-11-16".into(),
        version: "1.2".into(),
        passed: vec!["text".into()],
        failed: vec!["tool".into()],
    };
    let last = [("it".to_owned(), results)].into();
    let page = page(
        &[member("it", Group::Heavy), member("other", Group::Real)],
        &last,
    );
    for part in [
        "pigeons | with `--all-agents`; results of 2026-11-16 with 1.2 |",
        "pigeons | always; no results yet |",
        "| text: an answer, whole | ✓ | not run |",
        "| tool: a tool that may run | ✗ | not run |",
        "| cwd: its directory | not run | not run |",
        "| fork: gone on with in a copy | – (1) | – (1) |",
        "\n1. it cannot\n\n",
        "| any of it: none is played |",
    ] {
        assert!(page.contains(part), "{part:?} is missing: {page}");
    }
}
