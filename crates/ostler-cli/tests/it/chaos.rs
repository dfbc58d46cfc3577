//! The daemon is killed at random moments under load, and its log is checked each time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_daemon::api::{CreateSession, SendMessage, WhenBusy};
use ostler_daemon::client::Client;
use ostler_testkit::fake;
use serde_json::Value;

use crate::rig::Rig;
use crate::serve::{Served, block_on, block_on_patiently, check_log};

/// Number of times that the daemon is killed.
const ROUNDS: u32 = 50;

/// Maximum time until the daemon is killed, in milliseconds.
const LONGEST: u64 = 150;

/// Pseudo-random numbers (xorshift64).
struct Random(u64);

impl Random {
    /// Takes the seed from `OSTLER_CHAOS_SEED`, or a new one, and prints it.
    #[expect(clippy::print_stderr, reason = "a failure is repeated with the seed")]
    fn new() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let given = std::env::var("OSTLER_CHAOS_SEED").ok();
        let new = || std::hash::RandomState::new().build_hasher().finish();
        let seed = given.map_or_else(new, |seed| seed.parse().unwrap());
        eprintln!("seed: OSTLER_CHAOS_SEED={seed}");
        Self(seed.max(1))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Number of turns that must have been open when the daemon was killed, of all rounds.
const MIN_OPEN: usize = ROUNDS as usize / 4;

/// Ids of sessions that the daemon accepted.
type Accepted = Arc<Mutex<Vec<String>>>;

/// Number of turns that are open, as far as their readers know.
type OpenTurns = Arc<AtomicUsize>;

/// Creates sessions, writes to them and reads them, until the daemon is gone.
async fn load(client: Client, request: CreateSession, accepted: Accepted, open: OpenTurns) {
    let message = SendMessage {
        text: "more".to_owned(),
        when_busy: WhenBusy::Queue,
    };
    for _ in 0..4 {
        let Ok(session) = client.create(&request).await else {
            return;
        };
        accepted.lock().unwrap().push(session.id.clone());
        let reader = client.clone();
        let (id, message, open) = (session.id, message.clone(), open.clone());
        tokio::spawn(async move {
            let Ok(mut events) = reader.events(&id, 0).await else {
                return;
            };
            while let Ok(Some(frame)) = events.next().await {
                if frame.data.contains("\"turn_started\"") {
                    open.fetch_add(1, Ordering::Relaxed);
                }
                if frame.data.contains("\"turn_ended\"") {
                    open.fetch_sub(1, Ordering::Relaxed);
                    let _ = reader.send(&id, &message).await;
                }
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Returns the events of a session that are stored now.
async fn stored(client: &Client, id: &str) -> Vec<Value> {
    let mut stream = client.events(id, 0).await.unwrap();
    let mut events = Vec::new();
    while let Some(frame) = stream.next().await.unwrap() {
        match frame.event.as_str() {
            "caught_up" => break,
            _ => events.push(serde_json::from_str(&frame.data).unwrap()),
        }
    }
    events
}

/// Checks a log that may still grow: no gap, nothing after the end, and no turn that ends twice.
fn check_prefix(events: &[Value]) {
    let mut open = 0;
    for (seq, event) in (1_u64..).zip(events) {
        assert_eq!(event["seq"], seq, "{event}");
        match event["type"].as_str() {
            Some("turn_started") => open += 1,
            Some("turn_ended") => open -= 1,
            Some("ended") => assert_eq!(events.len() as u64, seq, "the end is the last event"),
            _ => {}
        }
        assert!(open == 0 || open == 1, "{event}");
    }
}

/// Checks every session after a restart. `ended` has the lengths of those that have ended.
async fn check(client: &Client, ids: &[String], ended: &mut BTreeMap<String, usize>) {
    for id in ids {
        let view = client.session(id).await.unwrap(); // what was accepted is not lost
        let events = stored(client, id).await;
        check_prefix(&events);
        if let Some(length) = ended.get(id) {
            assert_eq!(events.len(), *length, "{id} changed after its end");
        } else if view.state.as_str() == "ended" {
            check_log(&events);
            ended.insert(id.clone(), events.len());
        }
    }
}

/// Returns true if the daemon was killed during a turn of this session.
fn was_cut_off(events: &[Value]) -> bool {
    events.iter().any(|event| {
        let reason = &event["outcome"]["detail"]["reason"];
        event["type"] == "turn_ended" && reason == "daemon_restarted"
    })
}

/// Kills the daemon at random moments, in every other round during a turn.
pub(crate) fn run() {
    let mut random = Random::new();
    let rig = Rig::new();
    let script =
        "loop 100\nread-user\ninit\nloop 40\ndelta x\nend\nsleep 20\ntext hi\nresult hi\nend";
    let _ = fake::install_as(rig.dir(), "claude", script);
    let request = CreateSession {
        agent: Some("claude".to_owned()),
        dir: rig.dir().to_owned(),
        prompt: Some("go".to_owned()),
        ..CreateSession::default()
    };
    let (accepted, mut ended) = (Accepted::default(), BTreeMap::new());
    for round in 0..ROUNDS {
        let served = Served::start(&rig);
        let time = Duration::from_millis(random.below(LONGEST));
        let client = served.client.clone();
        let open = OpenTurns::default();
        let load = load(client, request.clone(), accepted.clone(), open.clone());
        let moment = async {
            tokio::time::sleep(time).await;
            while round % 2 == 0 && open.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        block_on(async {
            tokio::select! {
                () = load => panic!("the daemon refused a session"),
                () = moment => {}
            }
        });
        served.kill();
        let served = Served::start(&rig);
        let ids = accepted.lock().unwrap().clone();
        block_on_patiently(check(&served.client, &ids, &mut ended));
        served.kill();
    }
    // Sessions that were accepted but never started run now, and wait for messages.
    let served = Served::start(&rig);
    let ids = accepted.lock().unwrap().clone();
    block_on_patiently(async {
        for id in &ids {
            served.client.stop(id).await.unwrap();
        }
    });
    let is_ended = |id: &String| {
        block_on(served.client.session(id))
            .unwrap()
            .ended_at
            .is_some()
    };
    let all_ended = || ids.iter().all(is_ended);
    assert!(ostler_testkit::processes::wait_until(
        crate::rig::PATIENCE,
        all_ended
    ));
    block_on_patiently(check(&served.client, &ids, &mut ended));
    assert_eq!(ended.len(), ids.len());
    assert!(ids.len() >= ROUNDS as usize, "{} sessions", ids.len());
    let mut open = 0;
    for id in &ids {
        open += usize::from(was_cut_off(&block_on(stored(&served.client, id))));
    }
    assert!(open >= MIN_OPEN, "killed during {open} turns only");
    served.stop();
}
