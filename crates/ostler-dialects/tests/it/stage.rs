//! What the tests share: fixtures, and a conversation driven line by line.

use std::path::{Path, PathBuf};

use ostler_core::dialect::{Conversation, Dialect, Out, Outbox, Say, hear};
use ostler_core::lines::Lines;
use ostler_core::spec::Spec;
use ostler_dialects::find;

/// Where what an agent printed is kept.
pub(crate) fn fixtures(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(agent)
}

/// Every scenario of an agent, with what it printed.
pub(crate) fn recordings(agent: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(fixtures(agent))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path().join("stdout.jsonl")).unwrap())
        })
        .collect();
    all.sort();
    assert!(all.len() > 10, "the fixtures are there");
    all
}

/// Every scenario of Claude Code.
pub(crate) fn scenarios() -> Vec<(String, Vec<u8>)> {
    recordings("claude")
}

pub(crate) fn scenario(name: &str) -> String {
    std::fs::read_to_string(fixtures("claude").join(name).join("stdout.jsonl")).unwrap()
}

pub(crate) fn claude() -> &'static dyn Dialect {
    find("claude").unwrap()
}

/// A conversation with Claude Code in which a message was said.
pub(crate) fn asked() -> Box<dyn Conversation> {
    asked_of(claude())
}

fn asked_of(dialect: &dyn Dialect) -> Box<dyn Conversation> {
    let mut talk = dialect.converse(&Spec::default());
    let mut out = Outbox::default();
    talk.open(&mut out);
    talk.say(Say::Prompt("hello".into()), &mut out);
    talk
}

/// Everything that comes of these chunks of Claude Code's.
pub(crate) fn replay(chunks: &[&[u8]]) -> Vec<Out> {
    replay_as(claude(), chunks)
}

/// Everything that comes of these chunks.
pub(crate) fn replay_as(dialect: &dyn Dialect, chunks: &[&[u8]]) -> Vec<Out> {
    let (mut talk, mut out, mut lines) = (asked_of(dialect), Outbox::default(), Lines::new());
    for chunk in chunks {
        lines.push(chunk, |line| hear(&mut *talk, line, &mut out));
    }
    lines.finish(|line| hear(&mut *talk, line, &mut out));
    out.drain().collect()
}
