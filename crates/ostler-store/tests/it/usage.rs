//! Tokens and costs: of one session with unknown parts, and summed up over many.

use ostler_core::event::{Ended, EventKind, Origin, Started, Timestamp, TurnEnded, TurnStarted};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{CostSource, Scope, Tokens, Usage};
use ostler_store::{Log, LogEntry, Store, UsageKey, UsageQuery};

use crate::rig::{append, entry, new_session};

const DAY: i64 = 86_400_000;

fn tokens(model: &str, input: u64, output: u64) -> Usage {
    Usage::for_turn(
        Some(model.into()),
        Tokens {
            input,
            output,
            ..Tokens::default()
        },
    )
}

/// Builder of a session's events: id, events, current turn.
struct SessionBuilder(&'static str, Vec<LogEntry>, u32);

impl SessionBuilder {
    fn open(store: &Store, session: &'static str, agent: &str, at: i64) -> Self {
        let mut new_session = new_session(session, at);
        new_session.agent = agent.into();
        new_session.dir = format!("/work/{agent}").into();
        store.open(&new_session).unwrap();
        Self(session, Vec::new(), 0)
    }

    fn push(&mut self, at: i64, kind: impl Into<EventKind>) {
        let mut entry = entry(self.0, self.1.len() as u64 + 1, kind);
        (entry.event.at, entry.event.turn) = (Timestamp(at), self.2);
        self.1.push(entry);
    }

    /// Adds a turn with interim usage reports and its total.
    fn turn(&mut self, at: i64, interim: &[Usage], usage: Option<Usage>) {
        self.2 += 1;
        self.push(
            at,
            TurnStarted {
                origin: Origin::Caller,
                prompt: Some("go".into()),
            },
        );
        interim.iter().for_each(|part| self.push(at, part.clone()));
        let outcome = Outcome::new(Cause::Completed, "done");
        self.push(
            at,
            TurnEnded {
                outcome,
                text: String::new(),
                structured: None,
                usage,
            },
        );
    }
}

// With one turn of unknown cost, the cost of the others is a lower bound.
#[test]
fn a_turn_without_a_cost_does_not_erase_the_cost_of_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut session = SessionBuilder::open(&store, "s-1", "one", 1);
    session.turn(1, &[], Some(tokens("m", 3, 4).reported(0.012)));
    append(&store, std::mem::take(&mut session.1)).unwrap();
    let cost = || {
        let row = store.session("s-1").unwrap().unwrap();
        (row.cost_usd, row.cost_source)
    };
    assert_eq!(cost(), (Some(0.012), CostSource::Reported));
    let next = |seq: u64, kind: EventKind| {
        let mut entry = entry("s-1", seq, kind);
        entry.event.turn = 2;
        entry
    };
    let outcome = Outcome::new(Cause::Interrupted, "stopped");
    let turn = TurnEnded {
        outcome: outcome.clone(),
        text: String::new(),
        structured: None,
        usage: Some(tokens("m", 5, 6)),
    };
    let began = TurnStarted {
        origin: Origin::Caller,
        prompt: None,
    };
    append(&store, vec![next(3, began.into()), next(4, turn.into())]).unwrap();
    assert_eq!(cost(), (Some(0.012), CostSource::Partial));
    let usage = Some(Usage {
        scope: Scope::Session,
        ..tokens("m", 8, 10).partial(0.012)
    });
    append(
        &store,
        vec![next(
            5,
            Ended {
                outcome,
                exit_code: None,
                signal: None,
                usage,
            }
            .into(),
        )],
    )
    .unwrap();
    assert_eq!(cost(), (Some(0.012), CostSource::Partial));
    assert_eq!(store.session("s-1").unwrap().unwrap().tokens, Some(18));
}

fn filled_store(dir: &std::path::Path) -> Store {
    let store = Store::open(dir).unwrap();
    let mut one = SessionBuilder::open(&store, "s-1", "one", 1);
    one.turn(
        2 * DAY,
        &[tokens("m", 1, 0)],
        Some(tokens("m", 10, 1).reported(0.5)),
    );
    // An interim report under a name that the final report does not have.
    let parts = [
        tokens("m-preview", 7, 0),
        tokens("m", 100, 2).reported(0.25),
        tokens("helper", 1_000, 3).reported(0.125),
    ];
    let mut sum = parts[1].clone();
    sum.add(&parts[2]);
    one.turn(3 * DAY, &parts, Some(sum));
    append(&store, one.1).unwrap();
    let mut failed = SessionBuilder::open(&store, "s-0", "none", 1);
    failed.turn(3 * DAY, &[], None);
    append(&store, failed.1).unwrap();
    let mut two = SessionBuilder::open(&store, "s-2", "two", 1);
    let started = Started {
        agent: "two".into(),
        agent_version: None,
        native_session: None,
        model: None,
        cwd: None,
        tools: Vec::new(),
    };
    two.push(1, started);
    two.turn(
        3 * DAY + 1,
        &[],
        Some(tokens("m", 20_000, 4).estimated(1.0)),
    );
    two.turn(3 * DAY + 2, &[], None);
    append(&store, two.1).unwrap();
    store
}

/// Key, sessions, turns, input tokens and cost of a group.
type Row = (
    Option<String>,
    u64,
    u64,
    Option<u64>,
    Option<f64>,
    CostSource,
);

#[test]
fn usage_is_summed_by_agent_model_day_and_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let report = |by, since| {
        let query = UsageQuery {
            since,
            ..UsageQuery::by(by)
        };
        store.usage(&query).unwrap()
    };
    let groups = |by, since| -> Vec<Row> {
        let groups = report(by, since).groups.into_iter();
        groups
            .map(|it| {
                (
                    it.key,
                    it.sessions,
                    it.turns,
                    it.usage.input,
                    it.usage.cost_usd,
                    it.usage.cost_source,
                )
            })
            .collect()
    };
    let key = |name: &str| Some(name.to_owned());
    use CostSource::{Partial, Reported};
    let two = (Some(20_000), Some(1.0), Partial);
    let one = (Some(1_110), Some(0.875), Reported);
    assert_eq!(
        groups(UsageKey::Agent, None),
        [
            (key("two"), 1, 2, two.0, two.1, two.2),
            (key("one"), 1, 2, one.0, one.1, one.2)
        ]
    );
    assert_eq!(
        groups(UsageKey::Dir, None),
        [
            (key("/work/two"), 1, 2, two.0, two.1, two.2),
            (key("/work/one"), 1, 2, one.0, one.1, one.2)
        ]
    );
    assert_eq!(
        groups(UsageKey::Model, None),
        [
            (
                key("m"),
                2,
                3,
                Some(20_110),
                Some(1.75),
                CostSource::Estimated
            ),
            (key("helper"), 1, 1, Some(1_000), Some(0.125), Reported),
            (None, 1, 1, None, None, CostSource::Unknown), // no usage was reported
        ]
    );
    assert_eq!(
        groups(UsageKey::Day, None),
        [
            (key("1970-01-03"), 1, 1, Some(10), Some(0.5), Reported),
            (key("1970-01-04"), 2, 3, Some(21_100), Some(1.375), Partial),
        ]
    );
    for by in [
        UsageKey::Agent,
        UsageKey::Model,
        UsageKey::Day,
        UsageKey::Dir,
    ] {
        let total = report(by, None).total;
        assert_eq!(
            (total.key, total.sessions, total.turns),
            (None, 2, 4),
            "{by:?}"
        );
        assert_eq!(
            (total.usage.total(), total.usage.cost_usd),
            (Some(21_120), Some(1.875)),
            "{by:?}"
        );
        assert_eq!(total.usage.cost_source, Partial);
    }
    let late = report(UsageKey::Agent, Some(Timestamp(3 * DAY + 1)));
    assert_eq!(
        (late.groups.len(), late.total.turns, late.total.usage.input),
        (1, 2, Some(20_000))
    );
    let none = report(UsageKey::Agent, Some(Timestamp(9 * DAY)));
    assert_eq!(
        (
            none.groups.len(),
            none.total.turns,
            none.total.usage.total()
        ),
        (0, 0, None)
    );
}

// Turns of an earlier format have a total, and the model of their session.
#[test]
fn turns_of_an_old_database_count_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute_batch(include_str!("../../../../fixtures/store/v1.sql"))
        .unwrap();
    drop(db);
    let store = Store::open(dir.path()).unwrap();
    let report = store.usage(&UsageQuery::by(UsageKey::Model)).unwrap();
    assert_eq!(
        (report.groups.len(), report.groups[0].key.as_deref()),
        (1, Some("m"))
    );
    assert_eq!(
        (report.total.usage.total(), report.total.usage.cost_usd),
        (Some(7), Some(0.25))
    );
}

/// Key, turns and input tokens of a part.
type Part = (Option<String>, u64, Option<u64>);

#[test]
fn groups_are_split() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let parts = |by, split| -> Vec<(Option<String>, Vec<Part>)> {
        let query = UsageQuery {
            split: Some(split),
            ..UsageQuery::by(by)
        };
        let report = store.usage(&query).unwrap();
        let plain = store.usage(&UsageQuery::by(by)).unwrap();
        assert_eq!(report.total, plain.total);
        let groups = report.groups.into_iter();
        groups
            .zip(plain.groups)
            .map(|(group, plain)| {
                assert_eq!((&group.key, &group.usage), (&plain.key, &plain.usage));
                let parts = group.parts.into_iter();
                let parts = parts.map(|it| (it.key, it.turns, it.usage.input));
                (group.key, parts.collect())
            })
            .collect()
    };
    let key = |name: &str| Some(name.to_owned());
    assert_eq!(
        parts(UsageKey::Day, UsageKey::Model),
        [
            (key("1970-01-03"), vec![(key("m"), 1, Some(10))]),
            (
                key("1970-01-04"),
                vec![
                    (key("m"), 2, Some(20_100)),
                    (key("helper"), 1, Some(1_000)),
                    (None, 1, None)
                ]
            ),
        ]
    );
    assert_eq!(
        parts(UsageKey::Agent, UsageKey::Day),
        [
            (key("two"), vec![(key("1970-01-04"), 2, Some(20_000))]),
            (
                key("one"),
                vec![
                    (key("1970-01-03"), 1, Some(10)),
                    (key("1970-01-04"), 1, Some(1_100))
                ]
            ),
        ]
    );
}

#[test]
fn turns_are_selected_by_time_and_days_by_offset() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let query = UsageQuery {
        since: Some(Timestamp(2 * DAY)),
        until: Some(Timestamp(3 * DAY + 2)),
        ..UsageQuery::by(UsageKey::Day)
    };
    assert_eq!(
        store.usage(&query).unwrap().total.turns,
        3,
        "until is excluded"
    );
    let days = |offset: &str| -> Vec<(String, u64)> {
        let query = UsageQuery {
            offset: offset.parse().unwrap(),
            ..UsageQuery::by(UsageKey::Day)
        };
        let groups = store.usage(&query).unwrap().groups.into_iter();
        groups.map(|it| (it.key.unwrap(), it.turns)).collect()
    };
    let day = |name: &str, turns| (name.to_owned(), turns);
    assert_eq!(days("Z"), [day("1970-01-03", 1), day("1970-01-04", 3)]);
    assert_eq!(days("+14:00"), [day("1970-01-03", 1), day("1970-01-04", 3)]);
    assert_eq!(days("-00:01"), [day("1970-01-02", 1), day("1970-01-03", 3)]);
}
