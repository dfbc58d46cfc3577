//! The raw log: the agent's output, byte for byte, readable by this user alone. A failure to write
//! it does not fail the run.

use std::os::unix::fs::PermissionsExt;

use ostler::testing::Replay;
use ostler::{Agents, Cause};

use crate::rig::Rig;

/// An agent that prints these bytes.
fn printing(bytes: &[u8]) -> Rig {
    let rig = Rig::new("read\nfile $DIR/output\nread-until-eof");
    std::fs::write(rig.path("output"), bytes).unwrap();
    rig
}

/// Damaged, foreign and valid lines.
fn output() -> Vec<u8> {
    let mut bytes =
        b"banner\r\n\xff\xfe\x00 broken\n\n{\"type\":\"system\",\"subtype\":\"init\"}\n".to_vec();
    bytes.extend_from_slice(&[b'x'; 100_000]);
    bytes.extend_from_slice(
        b"\n{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"hi\"}\nno newline",
    );
    bytes
}

// S4-17
#[tokio::test]
async fn the_raw_log_is_what_the_agent_printed() {
    let mut rig = printing(&output());
    rig.spec.raw_log = Some(rig.path("raw"));
    std::fs::write(rig.path("raw"), "what an earlier run left ".repeat(10_000)).unwrap();
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    assert!(
        rig.read("raw") == output(),
        "the raw log differs from what was printed"
    );
}

// S4-17: no other user may read prompts and answers.
#[tokio::test]
async fn the_raw_log_is_private() {
    let mut rig = printing(&output());
    rig.spec.raw_log = Some(rig.path("raw"));
    rig.run().await;
    assert_eq!(
        std::fs::metadata(rig.path("raw"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

// S4-47: one notice, however much is printed, and the run continues.
#[tokio::test]
async fn a_raw_log_that_cannot_be_written_does_not_break_the_run() {
    for log in ["/nowhere/raw", "/dev/full", "/"] {
        let mut rig = printing(&output());
        rig.spec.raw_log = Some(log.into());
        let seen = rig.run().await;
        assert_eq!(
            (seen.outcome().cause, seen.turn().text.as_str()),
            (Cause::Completed, "hi"),
            "{log}"
        );
        assert_eq!(seen.notices("raw_log_failed").len(), 1, "{log}");
    }
}

// S4-17: a raw log can be replayed into the same turn.
#[tokio::test]
async fn a_raw_log_can_be_replayed() {
    let mut rig = Rig::new(
        "read\ninit\nthinking hm\ntext one\ntool-use t1 Bash {}\ntool-result t1 ok\nresult two\nread-until-eof",
    );
    rig.spec.raw_log = Some(rig.path("raw"));
    let seen = rig.run().await;
    let mut replay = Replay::new(
        Agents::builtin().get("claude").unwrap().dialect(),
        &rig.spec,
    );
    let mut events = Vec::new();
    for piece in rig.read("raw").chunks(13) {
        events.extend(replay.push(piece));
    }
    events.extend(replay.finish());
    crate::rig::check_stream(&events);
    let replayed = crate::rig::Seen(events);
    assert_eq!(replayed.turn(), seen.turn());
    assert_eq!(replayed.replies(), seen.replies());
}
