//! Time limits: how long a turn, a silence and a start may take, and what does not count.

use std::time::Duration;

use ostler::Cause;
use ostler::event::EventKind;
use ostler::outcome::Status;

use crate::rig::{Rig, Seen};

/// Runs into a limit, and checks what all such runs have in common.
async fn reached(rig: &Rig, cause: Cause, limit: Duration) -> Seen {
    let seen = rig.run().await;
    let outcome = &seen.turn().outcome;
    assert_eq!(
        (outcome.cause, outcome.status, seen.outcome().cause),
        (cause, Status::Timeout, cause)
    );
    let reported = outcome.detail.as_ref().and_then(|detail| detail.limit_ms);
    assert_eq!(reported.map(Duration::from_millis), Some(limit));
    assert!(outcome.hint.is_some());
    seen
}

// S4-8, S4-37: the agent keeps printing until its time is up; its text so far is preserved.
#[tokio::test]
async fn the_wall_limit_ends_a_turn() {
    let limit = Duration::from_millis(600);
    let mut rig = Rig::new("read\ninit\nloop forever\ntext more\nsleep 20\nend").grace_ms(200);
    rig.spec.limits.wall = Some(limit);
    let seen = reached(&rig, Cause::WallLimit, limit).await;
    assert!(seen.turn().text.starts_with("more"));
}

// S4-8: an agent that obeys the interrupt is not killed; its turn still ended by the limit.
#[tokio::test]
async fn an_agent_that_heeds_the_limit_ends_well() {
    let limit = Duration::from_millis(400);
    let mut rig = Rig::new("read\ninit\ntext half\nanswer-interrupt\nread-until-eof");
    rig.spec.limits.wall = Some(limit);
    let seen = reached(&rig, Cause::WallLimit, limit).await;
    assert_eq!(
        (seen.turn().text.as_str(), seen.ended().exit_code),
        ("half", Some(0))
    );
}

// P39: the agent printed something, then fell silent; no tool is running.
#[tokio::test]
async fn the_idle_limit_ends_a_silence() {
    let limit = Duration::from_millis(500);
    let mut rig = Rig::new("read\ninit\ntext half\nhang").grace_ms(200);
    rig.spec.limits.idle = Some(limit);
    reached(&rig, Cause::IdleLimit, limit).await;
}

// P40: a running tool may be silent for longer than the idle limit.
#[tokio::test]
async fn a_silent_tool_is_not_idle() {
    let mut rig = Rig::new(
        "read\ninit\ntool-use t1 Bash {\"command\":\"sleep\"}\nsleep 4500\ntool-result t1 slept\ntext done\nresult done\nread-until-eof",
    );
    rig.spec.limits.idle = Some(Duration::from_secs(4));
    let seen = rig.run().await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "done")
    );
}

// P40: silence after the tool counts as the model's.
#[tokio::test]
async fn a_silence_after_a_tool_is_idle() {
    let limit = Duration::from_millis(800);
    let mut rig = Rig::new("read\ninit\ntool-use t1 Bash {}\nsleep 100\ntool-result t1 ok\nhang")
        .grace_ms(200);
    rig.spec.limits.idle = Some(limit);
    let seen = reached(&rig, Cause::IdleLimit, limit).await;
    assert!(
        seen.kinds()
            .any(|kind| matches!(kind, EventKind::ToolResult(result) if result.ok))
    );
}

// P40: lines that mean nothing to the caller still show that the agent is alive.
#[tokio::test]
async fn a_sign_of_life_is_no_silence() {
    let mut rig = Rig::new(
        "read\ninit\nloop 21\nsleep 200\nprint {\"type\":\"keep_alive\"}\nend\nresult done\nread-until-eof",
    );
    rig.spec.limits.idle = Some(Duration::from_secs(4));
    assert_eq!(rig.run().await.outcome().cause, Cause::Completed);
}

// P39: a tool that never ends is ended with its turn, and its call gets a result.
#[tokio::test]
async fn a_tool_that_never_ends_is_cut_by_the_wall_limit() {
    let limit = Duration::from_millis(600);
    let mut rig = Rig::new("read\ninit\ntool-use t1 Bash {}\nhang").grace_ms(200);
    (rig.spec.limits.wall, rig.spec.limits.idle) = (Some(limit), Some(Duration::from_millis(200)));
    let seen = reached(&rig, Cause::WallLimit, limit).await;
    let cut = seen.kinds().find_map(|kind| {
        if let EventKind::ToolResult(result) = kind {
            Some(result)
        } else {
            None
        }
    });
    assert!(
        cut.is_some_and(|result| !result.ok && result.output.contains("no result: the turn ended"))
    );
}

// P14: an agent that starts and prints nothing on stdout.
#[tokio::test]
async fn the_startup_limit_ends_a_mute_agent() {
    let limit = Duration::from_millis(500);
    let mut rig = Rig::new("stderr waiting for a browser\nhang").grace_ms(200);
    rig.spec.limits.startup = Some(limit);
    reached(&rig, Cause::StartupLimit, limit).await;
}
