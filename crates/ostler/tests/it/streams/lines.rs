//! Lines of every sort: torn, damaged, foreign, overlong. Unreadable lines are preserved, and
//! reading continues.

use ostler::Cause;
use ostler::event::EventKind;

use crate::rig::{Rig, Seen};

/// Runs an agent in which `verbs` come between the start and a successful end.
async fn between(verbs: &str) -> Seen {
    let seen = Rig::new(format!(
        "read\ninit\n{verbs}\ntext the end\nresult the end\nread-until-eof"
    ))
    .run()
    .await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "the end")
    );
    assert_eq!(
        seen.replies().last(),
        Some(&"the end"),
        "the line after it was lost"
    );
    seen
}

// P15: over the cap, so its head and its length are reported, and the next line is read.
#[tokio::test]
async fn a_line_over_the_cap_is_one_event() {
    const LENGTH: u64 = 65 * 1024 * 1024;
    let seen = between(&format!("long-line {LENGTH}")).await;
    let [line] = seen.unreadable()[..] else {
        panic!("{:?}", seen.unreadable().len())
    };
    assert_eq!(line.length, LENGTH - 1, "the length without the newline");
    assert!(
        line.raw.starts_with('{') && line.raw.ends_with("xxx") && line.raw.len() == 4096,
        "{}",
        line.raw
    );
    assert!(line.why.contains("cap") && !line.lossy);
}

// P15: below the cap, so it is read whole.
#[tokio::test]
async fn a_line_of_sixty_megabytes_is_read() {
    let seen = between(&format!("long-line {}", 60 * 1024 * 1024)).await;
    assert!(seen.unreadable().is_empty());
    let longest = seen.replies().iter().map(|text| text.len()).max().unwrap();
    assert!(longest > 60 * 1024 * 1024 - 1024, "{longest}");
}

/// Lines of one turn, with characters of two, three and four bytes, escapes, and white space at
/// word boundaries.
const TORN: &[&str] = &[
    r#"{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/w","tools":["Bash"]}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"thinking","thinking":" ümläut €  😀 \u00e9\n"}]}}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":" two  spaces \t and 😀😀 end "}]}}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls  \"ü\""}}]}}"#,
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a\n  b\n"}]}}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"result":" done 😀 ","total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":4}}"#,
];

async fn torn(verb: &str) -> Seen {
    let lines: Vec<String> = TORN.iter().map(|line| format!("{verb} {line}")).collect();
    Rig::new(format!("read\n{}\nread-until-eof", lines.join("\n")))
        .run()
        .await
}

// P17, P24: byte by byte, in uneven pieces, or all at once: the same events.
#[tokio::test]
async fn the_pieces_in_which_output_comes_make_no_difference() {
    let whole = torn("print").await;
    assert_eq!(
        (whole.outcome().cause, whole.turn().text.as_str()),
        (Cause::Completed, " done 😀 ")
    );
    assert!(
        whole.unreadable().is_empty()
            && whole
                .kinds()
                .any(|kind| matches!(kind, EventKind::ToolResult(_)))
    );
    for verb in ["chunks 1 0", "chunks 7 0", "chunks 61 1"] {
        assert_eq!(torn(verb).await.story(), whole.story(), "{verb}");
    }
}

// P24, S3-21: the caller makes requests while the line arrives byte by byte; nothing of the line is
// lost.
#[tokio::test]
async fn a_line_survives_whatever_else_happens_meanwhile() {
    let rig = Rig::new(format!(
        "read\ninit\nchunks 1 1 {}\ntext x\nresult hi\nread-until-eof",
        TORN[2]
    ));
    let mut session = rig.start();
    let remote = session.remote();
    let nagging = tokio::spawn(async move {
        loop {
            let _ = remote.send("more");
            tokio::time::sleep(std::time::Duration::from_micros(700)).await;
        }
    });
    let read =
        crate::rig::read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    nagging.abort();
    assert!(read.iter().any(
        |e| matches!(&e.kind, EventKind::Text(t) if t.text == " two  spaces \t and 😀😀 end ")
    ));
    session.remote().kill();
    let seen = crate::rig::finish_after(read, session).await;
    assert!(seen.unreadable().is_empty());
}

// P18: inside a string, and in a line that is not JSON at all.
#[tokio::test]
async fn invalid_utf8_is_shown_and_flagged() {
    let seen = between(concat!(
        "print-nonl {\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"a\n",
        "bytes ff\nprint b\"}]}}\nbytes 6e6f ff fe 0a",
    ))
    .await;
    assert!(
        seen.replies().contains(&"a\u{fffd}b"),
        "{:?}",
        seen.replies()
    );
    assert_eq!(seen.notices("invalid_utf8").len(), 2);
    let [line] = seen.unreadable()[..] else {
        panic!("{:?}", seen.unreadable())
    };
    assert_eq!(
        (line.raw.as_str(), line.lossy),
        ("no\u{fffd}\u{fffd}", true)
    );
}

// P19: a character across the edge of a preview causes no panic, and the line is reported whole.
#[tokio::test]
async fn a_character_at_the_edge_of_a_preview_breaks_nothing() {
    for length in [79, 80, 199, 200, 4095, 4096] {
        let line = format!("{}😀😀 no JSON", "a".repeat(length));
        assert_eq!(
            between(&format!("print {line}")).await.unreadable()[0].raw,
            line
        );
    }
}

// P20, S3-29: lines that are not messages are preserved, and blank lines are ignored.
#[tokio::test]
async fn text_scalars_and_foreign_objects_do_not_end_the_run() {
    let seen = between(concat!(
        "print Welcome to the agent!\nbytes 0a\nprint    \nbytes 0d0a\nprint \"string\"\nprint 42\nprint null\nprint []\n",
        "print \u{1b}[31mred\u{1b}[0m\nprint {\"level\":\"info\",\"msg\":\"a log line\"}\nprint {\"type\":42}\nprint {\"type\":\"assist",
    ))
    .await;
    let raws: Vec<&str> = seen
        .unreadable()
        .iter()
        .map(|line| line.raw.as_str())
        .collect();
    assert_eq!(
        raws,
        [
            "Welcome to the agent!",
            "\"string\"",
            "42",
            "null",
            "[]",
            "\u{1b}[31mred\u{1b}[0m",
            "{\"level\":\"info\",\"msg\":\"a log line\"}",
            "{\"type\":42}",
            "{\"type\":\"assist",
        ]
    );
    assert!(
        seen.unreadable()
            .iter()
            .all(|line| !line.why.is_empty() && !line.lossy)
    );
}

// P22, S3-30: at every position in the stream, even before the start and after the result.
#[tokio::test]
async fn unknown_types_survive_at_every_place() {
    let script = [
        "init",
        "thinking hm",
        "text one",
        "tool-use t1 Bash {}",
        "tool-result t1 ok",
        "text two",
        "result two",
    ];
    let run = async |lines: &[&str]| {
        let mut rig = Rig::new(format!("read\n{}\nread-until-eof", lines.join("\n")));
        rig.spec.dir = None; // the events contain it
        rig.run().await
    };
    let plain = run(&script).await;
    let kinds = |seen: &Seen| -> Vec<EventKind> {
        seen.kinds().filter(|w| !is_unknown(w)).cloned().collect()
    };
    let strange = [
        r#"print {"type":"brand_new","payload":{"deep":[1,2,{"x":null}]}}"#,
        r#"print {"type":"system","subtype":"brand_new"}"#,
        r#"print {"type":"stream_event","event":{"type":"brand_new"}}"#,
    ];
    for place in 0..=script.len() {
        let mut lines = script.to_vec();
        lines.splice(place..place, strange);
        let seen = run(&lines).await;
        let notices = seen.notices("unknown_message");
        assert!(
            notices.len() >= 2 && notices.iter().all(|notice| notice.raw.is_some()),
            "{place}: {notices:?}"
        );
        assert_eq!(seen.turn(), plain.turn(), "at place {place}");
        // The state may change one line earlier: any line shows that the agent is running.
        let without_states = |kinds: Vec<EventKind>| {
            kinds
                .into_iter()
                .filter(|w| !matches!(w, EventKind::State(_)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            without_states(kinds(&seen)),
            without_states(kinds(&plain)),
            "at place {place}"
        );
    }
}

fn is_unknown(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Notice(notice) if notice.code.as_str() == "unknown_message")
}

// S3-22: the last line counts although the agent died before its newline.
#[tokio::test]
async fn a_last_line_without_a_newline_counts() {
    let line = r#"{"type":"result","subtype":"success","is_error":false,"result":"hi"}"#;
    let seen = Rig::new(format!("read\ninit\nprint-nonl {line}\nexit 0"))
        .run()
        .await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "hi")
    );
    let seen = Rig::new("read\ninit\nprint-nonl {\"type\":\"assista\nexit 0")
        .run()
        .await;
    assert_eq!(seen.unreadable()[0].raw, "{\"type\":\"assista");
}

// S1-20, S1-26: output of another program, or a truncated result: each line is an event, and the
// turn is an invalid response.
#[tokio::test]
async fn output_that_is_not_in_the_protocol_is_an_invalid_response() {
    for (verbs, lines) in [
        (
            "print Usage: agent [options]\nprint   --help  print this\nexit 0",
            2,
        ),
        (
            "read\ninit\ntext half\nprint-nonl {\"type\":\"result\",\"subtype\":\"succ\nexit 0",
            1,
        ),
    ] {
        let seen = Rig::new(verbs).run().await;
        assert_eq!(seen.unreadable().len(), lines);
        let outcome = &seen.turn().outcome;
        assert_eq!(
            (outcome.cause, outcome.cause.seed_name()),
            (Cause::Protocol, Some("InvalidResponseError"))
        );
        assert!(
            outcome
                .message
                .contains(&seen.unreadable()[0].raw[..10].replace('"', "\\\"")),
            "{}",
            outcome.message
        );
        assert!(!seen.outcome().is_success() && outcome.hint.is_some());
    }
}

// S3-22: lines may have Windows line endings.
#[tokio::test]
async fn carriage_returns_are_no_part_of_a_line() {
    let line = "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"crlf\"}]}}";
    let seen = between(&format!("print-nonl {line}\nbytes 0d0a")).await;
    assert!(seen.replies().contains(&"crlf") && seen.unreadable().is_empty());
}
