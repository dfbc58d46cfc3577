//! The line splitter: chunking makes no difference, nothing is lost, and no line exceeds the cap.

use ostler_core::lines::{HEAD, Line, Lines};

use super::harness::campaign;
use super::random::Random;

/// A stream, the cap, and the positions at which the stream is split.
#[derive(Debug)]
struct Stream {
    bytes: Vec<u8>,
    cap: usize,
    cuts: Vec<usize>,
}

fn stream(random: &mut Random) -> Stream {
    let mut bytes = Vec::new();
    for _ in 0..random.below(24) {
        match random.below(8) {
            0 => bytes.push(b'\n'),
            1 => bytes.extend_from_slice(b"\r\n"),
            2 => bytes.extend(std::iter::repeat_n(b'x', random.below(9000))),
            3 => bytes.extend_from_slice("é😀\u{2028}\u{feff}".as_bytes()),
            4 => bytes
                .extend((0..random.below(9)).map(|_| u8::try_from(random.next() % 256).unwrap())),
            5 => bytes.extend_from_slice(b"{\"type\":\"text\"}\n"),
            6 => bytes.extend_from_slice(&"😀".as_bytes()[..random.below(4)]),
            _ => bytes.extend_from_slice(b"\r"),
        }
    }
    let cap = *random.pick(&[&0, &1, &7, &80, &4095, &4096, &4097, &5000, &100_000]);
    let cuts = (0..random.below(12))
        .map(|_| random.below(bytes.len() + 1))
        .collect();
    Stream { bytes, cap, cuts }
}

type ObservedLine = (Option<String>, bool, u64, u64);

fn observe(line: Line<'_>, at: u64) -> ObservedLine {
    match line {
        Line::Text { text, lossy } => (Some(text.into_owned()), lossy, 0, at),
        Line::Oversize { head, length } => (Some(head), true, length, at),
    }
}

fn read<'a>(cap: usize, chunks: impl Iterator<Item = &'a [u8]>) -> Vec<ObservedLine> {
    let (mut lines, mut all) = (Lines::with_cap(cap), Vec::new());
    chunks.for_each(|chunk| lines.push_with_offset(chunk, |line, at| all.push(observe(line, at))));
    lines.finish_with_offset(|line, at| all.push(observe(line, at)));
    all
}

fn check(stream: &Stream) -> Result<(), String> {
    let Stream { bytes, cap, cuts } = stream;
    let whole = read(*cap, std::iter::once(&bytes[..]));
    let mut cuts: Vec<usize> = cuts.iter().copied().chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    let chunked = read(*cap, cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
    let bytewise = read(*cap, bytes.chunks(1));
    if whole != chunked || whole != bytewise {
        return Err("chunks make a difference".into());
    }
    // Compared with a trivial implementation.
    let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    expected.pop_if(|last| last.is_empty());
    if expected.len() != whole.len() {
        return Err(format!(
            "{} lines instead of {}",
            whole.len(),
            expected.len()
        ));
    }
    let mut at = 0;
    for (line, (text, _, length, start)) in expected.iter().zip(&whole) {
        let text = text.as_deref().unwrap_or_default();
        let is_oversize = line.len() > *cap;
        let is_correct = match is_oversize {
            // An invalid byte becomes a three-byte character.
            true => *length == line.len() as u64 && text.len() <= 3 * HEAD,
            false => {
                *length == 0
                    && String::from_utf8_lossy(line).trim_end_matches('\r')
                        == text.trim_end_matches('\r')
            }
        };
        if !is_correct || *start != at {
            return Err(format!(
                "the line at {at} is {text:?}, length {length}, at {start}"
            ));
        }
        at += line.len() as u64 + 1;
    }
    Ok(())
}

#[test]
fn chunks_make_no_difference() {
    campaign("lines", stream, check);
}
