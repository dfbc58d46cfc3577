//! Shared by these tests: a directory with a scripted fake agent, its run as a list of events, and
//! the rules every run follows.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::event::{Ended, Notice, SessionState, TextKind, TurnEnded, Unreadable};
use ostler::{Agent, Agents, Event, EventKind, Host, Outcome, Session, Spec};
use ostler_testkit::{fake, processes};
use tempfile::TempDir;

/// PATH that lets the fake agent start `sleep` and `sh`.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Longer than any correct step takes on a loaded machine; a test that waits this long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A fake agent that is ready to be started, in its own directory.
pub(crate) struct Rig {
    dir: TempDir,
    pub(crate) spec: Spec,
    pub(crate) host: Host,
}

impl Rig {
    /// Creates an agent that plays `verbs`; `$DIR` in them is the directory.
    pub(crate) fn new(verbs: impl AsRef<str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = fake::script(
            dir.path(),
            &verbs.as_ref().replace("$DIR", dir.path().to_str().unwrap()),
        );
        let env = BTreeMap::from([(fake::SCRIPT.to_owned(), script.to_str().unwrap().to_owned())]);
        let mut spec = Spec::new("Do it.")
            .program(fake::program())
            .dir(dir.path().to_owned());
        spec.env = env;
        Self {
            dir,
            spec,
            host: host(&[("PATH", PATH)]),
        }
    }

    /// Sets the duration of every escalation step.
    pub(crate) fn grace_ms(mut self, ms: u64) -> Self {
        self.spec.limits.grace = Duration::from_millis(ms);
        self
    }

    /// Puts an executable file in front of the agent: `$FAKE` in it is the fake agent's program.
    pub(crate) fn behind(mut self, script: &str) -> Self {
        let program = self.path("wrapper");
        install(
            &program,
            &script.replace("$FAKE", fake::program().to_str().unwrap()),
        );
        self.spec.program = Some(program);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// Returns the pid that the script wrote to a file.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.text(name).trim().parse().unwrap()
    }

    pub(crate) fn start(&self) -> Session {
        claude().start(&self.host, self.spec.clone()).unwrap()
    }

    /// Runs the agent to its end.
    pub(crate) async fn run(&self) -> Seen {
        finish(self.start()).await
    }
}

pub(crate) fn claude() -> Arc<dyn Agent> {
    Agents::builtin().get("claude").unwrap()
}

pub(crate) fn host(env: &[(&str, &str)]) -> Host {
    Host::new(
        env.iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
    )
}

/// Writes an executable file through another process. If this process had the file open for writing
/// while another thread forks, it could not be executed.
pub(crate) fn install(path: &Path, text: &str) {
    let write = r#"printf %s "$1" > "$0" && chmod 755 "$0""#;
    let status = Command::new("/bin/sh")
        .args(["-c", write])
        .arg(path)
        .arg(text)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Waits for a condition without blocking the session.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads events until one matches, and returns all that were read.
pub(crate) async fn read_until(
    session: &mut Session,
    fits: impl Fn(&EventKind) -> bool,
) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(LONG, session.next())
            .await
            .expect("no event for a long time");
        let event = next.expect("the session ended before the event arrived");
        events.push(event);
        if events.last().is_some_and(|event| fits(&event.kind)) {
            return events;
        }
    }
}

/// Reads a session to its end.
pub(crate) async fn finish(session: Session) -> Seen {
    finish_after(Vec::new(), session).await
}

/// Reads a session to its end, and puts the events that were already read first.
pub(crate) async fn finish_after(mut events: Vec<Event>, mut session: Session) -> Seen {
    while let Some(event) = tokio::time::timeout(LONG, session.next())
        .await
        .expect("no event for a long time")
    {
        events.push(event);
    }
    let seen = Seen(events);
    check_stream(&seen.0);
    assert_nothing_left(session.id());
    seen
}

/// Returns the processes of a session, wherever they went.
pub(crate) fn left(session: &str) -> Vec<u32> {
    processes::marked(&format!("OSTLER_SESSION={session}"))
}

/// P2: two seconds after the end, nothing of the session is left.
pub(crate) fn assert_nothing_left(session: &str) {
    let gone = processes::wait_until(Duration::from_secs(2), || left(session).is_empty());
    assert!(gone, "left behind: {:?}", left(session));
}

/// All events of a session.
#[derive(Debug)]
pub(crate) struct Seen(pub(crate) Vec<Event>);

impl Seen {
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &EventKind> {
        self.0.iter().map(|event| &event.kind)
    }

    pub(crate) fn ended(&self) -> &Ended {
        let Some(EventKind::Ended(ended)) = self.kinds().last() else {
            panic!("the last event is not ended")
        };
        ended
    }

    pub(crate) fn outcome(&self) -> &Outcome {
        &self.ended().outcome
    }

    pub(crate) fn turns(&self) -> Vec<&TurnEnded> {
        self.kinds()
            .filter_map(|kind| {
                if let EventKind::TurnEnded(turn) = kind {
                    Some(&**turn)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Returns the only turn.
    pub(crate) fn turn(&self) -> &TurnEnded {
        let [turn] = self.turns()[..] else {
            panic!("not one turn: {:#?}", self.turns())
        };
        turn
    }

    pub(crate) fn notices(&self, code: &str) -> Vec<&Notice> {
        let notices = self.kinds().filter_map(|kind| {
            if let EventKind::Notice(it) = kind {
                Some(it)
            } else {
                None
            }
        });
        notices
            .filter(|notice| notice.code.as_str() == code)
            .collect()
    }

    pub(crate) fn unreadable(&self) -> Vec<&Unreadable> {
        self.kinds()
            .filter_map(|kind| {
                if let EventKind::Unreadable(it) = kind {
                    Some(it)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Returns each piece of the answer.
    pub(crate) fn replies(&self) -> Vec<&str> {
        let replies = self.kinds().filter_map(|kind| match kind {
            EventKind::Text(text) if text.kind == TextKind::Reply => Some(text.text.as_str()),
            _ => None,
        });
        replies.collect()
    }

    /// Returns the events without times and session ids: what two runs of one script have in
    /// common.
    pub(crate) fn story(&self) -> Vec<(u64, u32, &EventKind)> {
        self.0
            .iter()
            .map(|event| (event.seq, event.turn, &event.kind))
            .collect()
    }
}

/// Checks the rules that every event stream follows, whatever the agent did.
pub(crate) fn check_stream(events: &[Event]) {
    let (mut turn_open, mut turns, mut state) = (false, 0, SessionState::Created);
    let mut tools = BTreeSet::new();
    let mut at = None;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1, "a gap before {event:?}");
        assert_eq!(event.session, events[0].session);
        assert!(at <= Some(event.at), "time went back at {event:?}");
        at = Some(event.at);
        match &event.kind {
            EventKind::State(it) => {
                assert_eq!(it.from, state, "a jump at {event:?}");
                state = it.to;
            }
            EventKind::TurnStarted(_) => {
                assert!(!turn_open, "a turn within a turn: {event:?}");
                (turn_open, turns) = (true, turns + 1);
            }
            EventKind::TurnEnded(_) => {
                assert!(turn_open, "an ending without a turn: {event:?}");
                assert!(tools.is_empty(), "calls without a result: {tools:?}");
                turn_open = false;
            }
            EventKind::ToolCall(call) => assert!(
                tools.insert(call.id.clone()),
                "the same call twice: {event:?}"
            ),
            EventKind::ToolResult(result) if result.name.is_some() => {
                assert!(tools.remove(&result.id), "a second result: {event:?}");
            }
            EventKind::Ended(_) => assert_eq!(index + 1, events.len(), "an event after the end"),
            _ => {}
        }
        assert_eq!(event.turn, turns, "the wrong turn: {event:?}");
        let json = event.to_json();
        // Reading a megabyte back proves nothing that a line does not.
        assert!(
            json.len() > 100_000 || Event::from_json(&json).is_ok_and(|back| back == *event),
            "{json}"
        );
    }
    assert!(!turn_open, "a turn did not end");
    assert!(
        matches!(events.last().map(|e| &e.kind), Some(EventKind::Ended(_))),
        "no end: {:?}",
        events.last()
    );
    assert_eq!(state, SessionState::Ended);
}
