//! Recordings of the real Claude Code, played by a process: the same events as from the file,
//! however the output is split.

use std::path::PathBuf;

use ostler::event::EventKind;
use ostler::spec::AfterTurn;
use ostler::testing::Replay;
use ostler::{Cause, Spec};

use crate::rig::{Rig, Seen, check_stream, claude, finish_after, read_until};

/// The recordings, by scenario.
fn recordings() -> Vec<(String, PathBuf)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/claude");
    let scenario = |entry: std::fs::DirEntry| {
        let file = entry.path().join("stdout.jsonl");
        file.is_file()
            .then(|| (entry.file_name().into_string().unwrap(), file))
    };
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter_map(scenario)
        .collect();
    found.sort();
    assert!(found.len() > 20, "the recordings are missing");
    found
}

fn replayed(bytes: &[u8]) -> Seen {
    let mut replay = Replay::new(claude().dialect(), &Spec::default());
    let mut events = replay.push(bytes);
    events.extend(replay.finish());
    check_stream(&events);
    Seen(events)
}

/// Returns the agent's output and the outcomes of its turns; prompts and the exit status are not in
/// a recording.
fn agent_events(seen: &Seen) -> Vec<&EventKind> {
    let of_process = |kind: &EventKind| match kind {
        EventKind::State(_) | EventKind::Ended(_) | EventKind::TurnStarted(_) => true,
        EventKind::Notice(notice) => notice.code.as_str() == "agent_gone",
        EventKind::TurnEnded(turn) => turn.outcome.cause == Cause::AgentDied,
        _ => false,
    };
    seen.kinds().filter(|kind| !of_process(kind)).collect()
}

/// Runs the agent until its process has exited, then ends the session.
async fn played(rig: &Rig) -> Seen {
    let mut session = rig.start();
    let gone = |kind: &EventKind| match kind {
        EventKind::Notice(notice) => notice.code.as_str() == "agent_gone",
        EventKind::TurnEnded(turn) => turn.outcome.cause == Cause::AgentDied,
        _ => false,
    };
    let read = read_until(&mut session, gone).await;
    session.stop();
    finish_after(read, session).await
}

// P17, S4-17
#[tokio::test]
async fn process_emits_the_same_events_as_its_recording() {
    for (name, file) in recordings() {
        let bytes = std::fs::read(&file).unwrap();
        let mut rig = Rig::new(format!("read\nfile {}\nexit 0", file.display()));
        // As in a replay: a recording may contain several turns.
        rig.spec.after_turn = AfterTurn::Wait;
        rig.spec.raw_log = Some(rig.path("raw"));
        let (live, from_file) = (played(&rig).await, replayed(&bytes));
        assert_eq!(agent_events(&live), agent_events(&from_file), "{name}");
        assert!(rig.read("raw") == bytes, "{name}: the raw log differs");
    }
}

// P21: a message of several lines (a thought, a text, a tool call) repeats its tokens on each; only
// the result's count.
#[tokio::test]
async fn the_tokens_of_a_recording_are_those_of_its_result() {
    for (name, file) in recordings()
        .into_iter()
        .filter(|(name, _)| ["tool", "think", "partial"].contains(&name.as_str()))
    {
        let text = std::fs::read_to_string(&file).unwrap();
        let result: serde_json::Value = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .find(|line: &serde_json::Value| line["type"] == "result")
            .unwrap();
        let sum = |field: &str| {
            let models = result["modelUsage"].as_object().unwrap();
            models
                .values()
                .map(|model| model[field].as_u64().unwrap())
                .sum::<u64>()
        };
        let seen = Rig::new(format!("read\nfile {}\nread-until-eof", file.display()))
            .run()
            .await;
        for usage in [
            seen.turn().usage.as_ref().unwrap(),
            seen.ended().usage.as_ref().unwrap(),
        ] {
            let counted = [
                usage.input,
                usage.output,
                usage.cache_read,
                usage.cache_write,
            ];
            let fields = [
                "inputTokens",
                "outputTokens",
                "cacheReadInputTokens",
                "cacheCreationInputTokens",
            ];
            assert_eq!(counted, fields.map(|field| Some(sum(field))), "{name}");
            assert_eq!(usage.cost_usd, result["total_cost_usd"].as_f64(), "{name}");
        }
    }
}
