//! The conformance suite: each row with each agent, once with the agent itself and once with a
//! recording of it.
//!
//! Rows and the expected event stories are data of the testkit (`scenario/conformance.rs`); the
//! agents are the transports of all manifests (`ostler-agents`). A row that an agent lacks has no
//! test, and is listed with its reason in docs/agents/matrix.md.

mod matrix;

use std::path::{Path, PathBuf};

use ostler::Spec;
use ostler::dialect::Dialect;
use ostler_testkit::harness::{self, AgentMode, Coverage};
use ostler_testkit::scenario::conformance::{self, ROWS, ReplayCoverage};
use ostler_testkit::scenario::{self, SUBJECTS, Subject, Task};
use serde_json::Value;

use crate::rig::Seen;

/// Tests of agents that are part of Ostler.
mod own {
    ostler_testkit::each_member!(crate::conformance::member_tests, own);
}

/// Tests with recordings: no agent is started, and none has to be installed.
mod played {
    ostler_testkit::each_member!(crate::conformance::member_tests, played);
}

/// Returns every agent of the suite.
fn members() -> impl Iterator<Item = &'static Subject> {
    let subjects = SUBJECTS
        .iter()
        .map(|subject| -> &'static Subject { subject });
    subjects.filter(|subject| subject.in_suite)
}

/// Generates the tests of a member. `real`, `own` and `heavy` run the agent, each in its own group;
/// `played` replays its recording.
macro_rules! member_tests {
    // An agent that is part of Ostler has no output that could be recorded.
    (played own $($rest:tt)*) => {};
    (played $group:ident $id:ident $($rest:tt)*) => {
        $crate::conformance::member_tests! { @ ($) play $id $($rest)* }
    };
    (own own $id:ident $($rest:tt)*) => {
        $crate::conformance::member_tests! { @ ($) perform $id $($rest)* }
    };
    (real real $id:ident $($rest:tt)*) => {
        $crate::conformance::member_tests! { @ ($) perform $id $($rest)* }
    };
    (heavy heavy $id:ident $($rest:tt)*) => {
        $crate::conformance::member_tests! { @ ($) perform $id $($rest)* }
    };
    ($wanted:ident $group:ident $id:ident $($rest:tt)*) => {};
    (@ ($d:tt) $how:ident $id:ident [$($lack:ident)*]) => {
        mod $id {
            fn subject() -> &'static ostler_testkit::scenario::Subject {
                $crate::conformance::member(stringify!($id))
            }

            macro_rules! unless_it_lacks {
                $(($lack $d($d test:item)*) => {};)*
                ($d row:ident $d($d test:item)*) => { $d($d test)* };
            }
            $crate::conformance::row_tests! { $how $id }
        }
    };
}

/// Maps scenarios to rows. `shared` scenarios run through any driver, `live` ones need a live
/// session, and a recording would prove nothing for `unrecorded` ones.
macro_rules! row_tests {
    (run unrecorded $group:ident $name:ident) => {
        $crate::conformance::row_tests!(run shared $group $name)
    };
    (run shared $group:ident $name:ident) => {
        ostler_testkit::scenario::$group::$name(&$crate::driver::Library(subject()))
    };
    (run live $group:ident $name:ident) => {
        $crate::driver::runtime().block_on($crate::sessions::$group::$name(subject()))
    };
    (one play unrecorded $($rest:tt)*) => {};
    (one $how:ident $kind:ident $id:ident $row:ident $group:ident $name:ident) => {
        unless_it_lacks! { $row
            #[test]
            fn $row() {
                $crate::conformance::$how(stringify!($id), stringify!($row), || {
                    $crate::conformance::row_tests!(run $kind $group $name);
                });
            }
        }
    };
    ($($how:ident)+) => { $crate::conformance::row_tests! { each $($how)+;
        text shared output::text,
        deltas shared output::partial_messages,
        thinking shared output::thinking,
        tool shared tools::tool_allowed,
        denied_tool shared tools::tool_denied,
        permission_asked live permissions::asked_and_allowed,
        two_tools shared tools::two_tools_at_once,
        structured_output shared output::structured_output,
        auth_error shared endings::unauthorized,
        rate_limit shared endings::rate_limited,
        interrupt live interrupts::in_mid_text,
        resume live resume::resumed,
        fork live resume::copied,
        limits shared endings::wall_limit,
        died shared endings::killed_from_outside,
        bound_tool live tools::a_bound_tool,
        usage_exact shared output::usage_exact,
        cwd shared surroundings::directory,
        env unrecorded surroundings::variables,
        big_prompt unrecorded prompts::five_megabytes,
        unicode unrecorded prompts::awkward_characters,
        nothing_left_behind shared endings::stopped,
    } };
    (each names; $($row:ident $kind:ident $group:ident::$name:ident,)*) => {
        &[$((stringify!($row), stringify!($kind))),*]
    };
    (each $how:ident $id:ident; $($row:ident $kind:ident $group:ident::$name:ident,)*) => {
        $($crate::conformance::row_tests! { one $how $kind $id $row $group $name })*
    };
}

pub(crate) use {member_tests, row_tests};

/// Runs the agent itself, and records its output if requested.
pub(crate) fn perform(id: &str, row: &str, scenario: impl FnOnce()) {
    let wanted = std::env::var_os("OSTLER_RECORD").is_some_and(|wanted| wanted == "1");
    if wanted
        && member(id).pinned().is_some()
        && conformance::row(row).recorded != ReplayCoverage::Never
    {
        harness::run_in(AgentMode::Record(recording(id, row)), scenario);
    } else {
        scenario();
    }
}

/// Replays the agent's recorded output, and checks that the row claims no more than was proved.
pub(crate) fn play(id: &str, row: &str, scenario: impl FnOnce()) {
    let proof = harness::run_in(AgentMode::Replay(recording(id, row)), scenario);
    let claimed = match conformance::row(row).recorded {
        ReplayCoverage::Full => Coverage::Full,
        ReplayCoverage::EventsOnly(_) => Coverage::EventsOnly,
        ReplayCoverage::Never => panic!("no recording of {row} proves anything"),
    };
    assert_eq!(
        proof, claimed,
        "coverage of recordings of {row} that ROWS in the testkit claims"
    );
}

/// Returns the agent with this name in the suite.
pub(crate) fn member(id: &str) -> &'static Subject {
    members().find(|member| member.id == id).unwrap()
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/conformance")
}

fn recording(id: &str, row: &str) -> PathBuf {
    fixtures().join(id).join(format!("{row}.jsonl"))
}

/// Fails unless a live session matches the story of a row.
pub(crate) fn assert_story(subject: &'static Subject, row: &str, seen: &Seen) {
    let events = seen
        .0
        .iter()
        .map(|event| serde_json::from_str(&event.to_json()).unwrap())
        .collect();
    scenario::Observed {
        subject,
        events,
        exit: None,
        served: Vec::new(),
    }
    .assert_story(row);
}

/// Returns the dialect that an agent's settings select.
fn dialect(subject: &'static Subject) -> &'static dyn Dialect {
    let mut spec = Spec::default();
    let settings = Task::new("").settings_for(subject);
    spec.apply(&settings.into_iter().collect()).unwrap();
    let dialect = ostler_dialects::find(subject.name).unwrap();
    dialect.select_transport(&spec).unwrap_or(dialect)
}

/// An applicable row has a test, any other row has a reason, and no reason contradicts the
/// capabilities. S2-20, S2-3, S2-4, S2-15
#[test]
fn every_row_of_every_agent_runs_or_says_why_not() {
    let names: Vec<(&str, bool)> = ROWS
        .iter()
        .map(|row| (row.name, row.recorded == ReplayCoverage::Never))
        .collect();
    let tests: &[(&str, &str)] = row_tests!(names);
    let tests: Vec<(&str, bool)> = tests
        .iter()
        .map(|(name, kind)| (*name, *kind == "unrecorded"))
        .collect();
    assert_eq!(
        tests, names,
        "the rows here and in the testkit differ, in order or in whether they are replayed"
    );
    let able = |member| serde_json::to_value(dialect(member).about().capabilities).unwrap();
    let faults: Vec<String> = members()
        .flat_map(|member| member.faults(&able(member)))
        .collect();
    assert_eq!(faults, [""; 0]);
}

/// Every recording is played: one that no test plays belongs to a row that was forgotten or
/// renamed.
#[test]
fn every_recording_is_played() {
    let mut count = 0;
    for member in members() {
        let Ok(entries) = std::fs::read_dir(fixtures().join(member.id)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().unwrap();
            let row = name.strip_suffix(".jsonl").unwrap_or(&name);
            let played = |known: &&conformance::Row| {
                known.name == row && known.recorded != ReplayCoverage::Never
            };
            let known = ROWS.iter().any(|known| played(&known)) && member.lack(row).is_none();
            assert!(
                known,
                "{} has a recording {name} that no test plays",
                member.id
            );
            count += 1;
        }
    }
    assert!(count > 150, "only {count} recordings were found");
}

/// Returns the agent's output from a recording of both directions.
fn printed(recording: &Path) -> String {
    let text = std::fs::read_to_string(recording).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let printed = lines.filter_map(|line| match (&line["out"], &line["out_text"]) {
        (Value::Null, Value::String(text)) => Some(text.clone()),
        (Value::Null, _) => None,
        (out, _) => Some(out.to_string()),
    });
    printed.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_transport_is_recognized() {
    for member in members().filter(|member| member.pinned().is_some()) {
        let found = ostler_dialects::recognize(&printed(&recording(member.id, "text")));
        let identity = |dialect: &dyn Dialect| {
            let about = dialect.about();
            (about.name, about.capabilities.many_turns)
        };
        assert_eq!(
            found.map(identity),
            Some(identity(dialect(member))),
            "{}",
            member.id
        );
    }
}
