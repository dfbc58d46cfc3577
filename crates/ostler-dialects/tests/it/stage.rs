//! What the tests share: fixtures, and a conversation driven line by line.

use std::path::{Path, PathBuf};

use ostler_core::dialect::{Conversation, Dialect, Out, Outbox, Say, hear};
use ostler_core::lines::Lines;
use ostler_core::spec::Spec;
use ostler_dialects::find;

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude")
}

/// Every scenario, with what the agent printed.
pub(crate) fn scenarios() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path().join("stdout.jsonl")).unwrap())
        })
        .collect();
    all.sort();
    assert!(all.len() > 30, "the fixtures are there");
    all
}

pub(crate) fn scenario(name: &str) -> String {
    std::fs::read_to_string(fixtures().join(name).join("stdout.jsonl")).unwrap()
}

pub(crate) fn claude() -> &'static dyn Dialect {
    find("claude").unwrap()
}

/// A conversation in which a message was said.
pub(crate) fn asked() -> Box<dyn Conversation> {
    let mut talk = claude().converse(&Spec::default());
    let mut out = Outbox::default();
    talk.open(&mut out);
    talk.say(Say::Prompt("hello".into()), &mut out);
    talk
}

/// Everything that comes of these chunks.
pub(crate) fn replay(chunks: &[&[u8]]) -> Vec<Out> {
    let (mut talk, mut out, mut lines) = (asked(), Outbox::default(), Lines::new());
    for chunk in chunks {
        lines.push(chunk, |line| hear(&mut *talk, line, &mut out));
    }
    lines.finish(|line| hear(&mut *talk, line, &mut out));
    out.drain().collect()
}
