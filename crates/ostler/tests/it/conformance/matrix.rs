//! The page that says what was tried with whom: docs/agents/matrix.md, made from the suite and compared with it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use ostler_testkit::real;
use ostler_testkit::scenario::conformance::{Applies, Group, Member, ROWS, Row};
use serde::Deserialize;

use super::{MEMBERS, fixtures};

/// The last run with all agents, as `cargo xtask test --all-agents` wrote it down.
#[derive(Debug, Default, Deserialize)]
struct LastRun {
    /// The day, in UTC; empty when there was none yet.
    date: String,
    /// By the agent's name.
    versions: BTreeMap<String, String>,
    /// By the agent's name in the suite.
    agents: BTreeMap<String, Results>,
}

#[derive(Debug, Default, Deserialize)]
struct Results {
    passed: Vec<String>,
    failed: Vec<String>,
}

const INTRO: &str = "\
<!-- Made by the conformance suite: UPDATE_GOLDEN=1 cargo nextest run -p ostler conformance::matrix -->
# What was tried with which agent

Each row is one scenario, written once and run with every agent that is capable of it, against the scripted model; ✓ means
that its test is part of the suite and passes, with the program itself and with a recording of it (`openai_api` is no program
and has no recording: Ostler itself talks to the scripted model). – means that the row does not apply, and the number says
why. Whoever does the same thing tells the same kinds of event in the same order: the stories are below.
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
    let _ = write!(page, "\n## Rows\n\n| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for row in ROWS {
        let cells: Vec<String> = members.iter().map(|member| cell(row, member, last, &mut reasons)).collect();
        let _ = writeln!(page, "| {}: {} | {} |", row.name.replace('_', " "), row.about, cells.join(" | "));
    }
    for (reason, number) in reasons.iter().zip(1..) {
        let _ = write!(page, "\n{number}. {reason}");
    }
    page += "\n\n## Stories\n\nWhat every agent tells. Names of tools, notices, and whether a text comes in pieces are left out; tools of one message\nare done in any order. An agent that only counts its tools leaves them out. Half a reply is told by those who do not wait until it is complete.\n\n| row | applies | story |\n|---|---|---|\n";
    for row in ROWS {
        let _ = writeln!(page, "| {} | {} | {} |", row.name.replace('_', " "), applies(row), row.story);
    }
    page
}

fn version(member: &Member) -> &'static str {
    let pinned = real::ALL.iter().find(|pinned| pinned.name == member.subject.name);
    pinned.map(|pinned| pinned.version).or(member.subject.version).unwrap_or("a part of Ostler")
}

fn tried(member: &Member, last: &LastRun) -> String {
    match (member.group, last.versions.get(member.subject.name).filter(|_| last.agents.contains_key(member.id))) {
        (Group::Heavy, Some(version)) => format!("with `--all-agents`, last on {} with {version}", last.date),
        (Group::Heavy, None) => "with `--all-agents`, not yet".to_owned(),
        _ => "always".to_owned(),
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
    if member.group != Group::Heavy {
        return "✓".to_owned();
    }
    let results = last.agents.get(member.id);
    let has = |names: fn(&Results) -> &Vec<String>| results.is_some_and(|it| names(it).iter().any(|it| it == row.name));
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

/// An agent that is only tried by those who ask for it shows its last results, and what it lacks is numbered.
#[test]
fn a_heavy_agent_shows_its_last_results() {
    let heavy = Member {
        id: "it",
        subject: &ostler_testkit::scenario::CLAUDE,
        transport: "pigeons",
        group: Group::Heavy,
        lacks: &[("fork", "it cannot"), ("resume", "it cannot")],
    };
    let results = Results { passed: vec!["text".into()], failed: vec!["tool".into()] };
    let versions = [("claude".to_owned(), "1.2".to_owned())].into();
    let last = LastRun { date: "2026-11-16".into(), versions, agents: [("it".to_owned(), results)].into() };
    let page = page(&[heavy], &last);
    for part in [
        "pigeons | with `--all-agents`, last on 2026-11-16 with 1.2 |",
        "| text: an answer, whole | ✓ |",
        "| tool: a tool that may run | ✗ |",
        "| cwd: its directory | not run |",
        "| fork: gone on with in a copy | – (1) |",
        "\n1. it cannot\n\n",
    ] {
        assert!(page.contains(part), "{part:?} is missing: {page}");
    }
}
