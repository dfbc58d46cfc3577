//! High volume: many lines, much stderr, an answer over the cap. Limits count what they should, and
//! are reported.

use ostler::Cause;
use ostler_testkit::fake::{self, Script};

use crate::rig::Rig;

// P16: a hundred megabytes in lines that are each far below the cap.
#[tokio::test]
async fn ten_thousand_lines_of_ten_kilobytes_all_come() {
    let rig = Rig::new("read\ninit\nflood 102400000 10240\nresult done\nread-until-eof");
    let seen = rig.run().await;
    assert_eq!(
        (seen.outcome().cause, seen.replies().len()),
        (Cause::Completed, 10_000)
    );
    assert!(seen.unreadable().is_empty());
}

// P23: stderr is drained although it was not requested, before and while the agent prints; its head
// and tail are preserved.
#[tokio::test]
async fn ten_megabytes_of_stderr_do_not_block_the_agent() {
    let rig = Rig::new(
        "stderr first words\nstderr-flood 10000000\nread\ninit\nstderr-flood 1000000\nstderr last words\ndie-by 9",
    );
    let seen = rig.run().await;
    assert_eq!(seen.turn().outcome.cause, Cause::AgentDied);
    let stderr = seen
        .turn()
        .outcome
        .detail
        .as_ref()
        .unwrap()
        .stderr
        .clone()
        .unwrap();
    assert!(
        stderr.starts_with("first words") && stderr.ends_with("last words"),
        "{stderr}"
    );
    assert!(
        stderr.contains("bytes left out") && stderr.len() < 10_000,
        "{}",
        stderr.len()
    );
}

// P23: and such a run still succeeds.
#[tokio::test]
async fn a_noisy_agent_completes() {
    let seen = Rig::new("stderr-flood 10000000\nread\ninit\ntext hi\nresult hi\nread-until-eof")
        .run()
        .await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "hi")
    );
}

const CAP: usize = 10 * 1024 * 1024;

// S4-14, S4-29, S4-40
#[tokio::test]
async fn an_answer_over_the_cap_is_cut_and_marked() {
    let mut rig = Rig::new("");
    let answer = "0123456789abcde ".repeat(15_000_000 / 16);
    let script = Script::new()
        .read()
        .init()
        .text("x")
        .result(&answer)
        .read_until_eof();
    let script = script.write_to(rig.spec.dir.as_ref().unwrap());
    rig.spec
        .env
        .insert(fake::SCRIPT.into(), script.to_str().unwrap().into());
    let seen = rig.run().await;
    let text = &seen.turn().text;
    let (retained, marker) = text.split_once("\n[OUTPUT TRUNCATED").unwrap();
    assert!(retained == &answer[..CAP], "the first 10 MiB have changed");
    assert!(
        marker.contains(&answer.len().to_string()) && marker.ends_with(']'),
        "{marker}"
    );
    let [notice] = seen.notices("output_truncated")[..] else {
        panic!("not one notice")
    };
    assert!(
        notice.message.contains(&CAP.to_string()),
        "{}",
        notice.message
    );
    assert_eq!(seen.outcome().cause, Cause::Completed);
}

// S4-14: the same when it arrives in pieces and the agent does not repeat it; every piece is still
// an event.
#[tokio::test]
async fn an_answer_in_pieces_over_the_cap_is_cut_and_marked() {
    let seen = Rig::new("read\ninit\nflood 15000000 10000\nresult \nread-until-eof")
        .run()
        .await;
    assert_eq!(
        (seen.replies().len(), seen.notices("output_truncated").len()),
        (1500, 1)
    );
    let (retained, _) = seen.turn().text.split_once("\n[OUTPUT TRUNCATED").unwrap();
    assert_eq!(retained.len(), CAP);
}

// S4-13
#[tokio::test]
async fn an_answer_below_the_cap_is_whole() {
    let seen = Rig::new("read\ninit\nflood 9000000 10000\nresult \nread-until-eof")
        .run()
        .await;
    assert!(seen.notices("output_truncated").is_empty() && !seen.turn().text.contains("TRUNCATED"));
    assert_eq!(
        seen.turn().text.len(),
        seen.replies().iter().map(|text| text.len()).sum::<usize>()
    );
}
