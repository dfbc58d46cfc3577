//! Benchmark of the path from an agent's output to events: bytes, lines, typed parsing, events,
//! compared with other parsers in the same run.
//!
//! `cargo bench -p ostler-dialects --bench read` prints a Markdown table. The input is synthetic:
//! deltas as they arrive while a model writes, large tool results, and a mix.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and panics on errors"
)]

use std::hint::black_box;
use std::time::Instant;

use ostler_core::dialect::{self, Launching, Outbox};
use ostler_core::lines::{Line, Lines};
use ostler_core::spec::Spec;

const SIZE: usize = 64 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

type Reader = fn(&[u8]) -> usize;

fn main() {
    let inputs = [
        ("deltas", fill(&[delta()])),
        ("tool results", fill(&[result()])),
        ("mixed", fill(&mixed())),
    ];
    let readers: [(&str, Reader); 4] = [
        ("lines only", lines_only),
        ("**Ostler, to events**", to_events),
        ("serde_json::Value", to_value),
        ("syntax only", syntax),
    ];
    println!(
        "| reader (MB/s) | {} |",
        inputs.each_ref().map(|(name, _)| *name).join(" | ")
    );
    println!("|---|---|---|---|");
    for (name, reader) in readers {
        let speeds = inputs
            .each_ref()
            .map(|(_, input)| format!("{:.0}", speed(reader, input)));
        println!("| {name} | {} |", speeds.join(" | "));
    }
}

/// Best of five runs, because the machine is shared.
fn speed(reader: Reader, input: &[u8]) -> f64 {
    let once = || {
        let begin = Instant::now();
        black_box(reader(black_box(input)));
        input.len() as f64 / 1e6 / begin.elapsed().as_secs_f64()
    };
    (0..5).map(|_| once()).fold(0.0, f64::max)
}

fn each_line(input: &[u8], mut each: impl FnMut(Line<'_>)) {
    let mut lines = Lines::new();
    for chunk in input.chunks(CHUNK) {
        lines.push(chunk, &mut each);
    }
    lines.finish(&mut each);
}

fn lines_only(input: &[u8]) -> usize {
    let mut count = 0;
    each_line(input, |_| count += 1);
    count
}

fn to_events(input: &[u8]) -> usize {
    let mut conversation = ostler_dialects::find("claude")
        .unwrap()
        .converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    let mut count = 0;
    each_line(input, |line| {
        dialect::deliver_line(&mut *conversation, line, &mut out);
        count += out.drain().map(black_box).count();
    });
    count
}

fn to_value(input: &[u8]) -> usize {
    let mut count = 0;
    each_line(input, |line| {
        if let Line::Text { text, .. } = line {
            count += usize::from(
                serde_json::from_str::<serde_json::Value>(&text)
                    .unwrap()
                    .is_object(),
            );
        }
    });
    count
}

fn syntax(input: &[u8]) -> usize {
    let mut count = 0;
    each_line(input, |line| {
        if let Line::Text { text, .. } = line {
            count += usize::from(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        }
    });
    count
}

fn fill(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE + 1024 * 1024);
    for line in lines.iter().cycle() {
        if bytes.len() >= SIZE {
            break;
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

fn delta() -> String {
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words, "}},"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","parent_tool_use_id":null,"uuid":"2fea2793-8ced-486b-8b00-bd29b87626a6","api_message_id":"msg_75a7faa327b442ef95bc"}"#.into()
}

fn result() -> String {
    let text = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(2000);
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_1","type":"tool_result","content":"{text}","is_error":false}}]}},"parent_tool_use_id":null,"session_id":"s","uuid":"u","tool_use_result":{{"stdout":"{text}","stderr":"","interrupted":false}}}}"#
    )
}

fn mixed() -> Vec<String> {
    let mut lines = vec![delta(); 200];
    lines.push(result());
    lines
}
