//! What the tests share: fixtures, and a conversation driven line by line.

use std::path::{Path, PathBuf};

use ostler_core::dialect::{
    Change, Conversation, Dialect, FromConversation, Outbox, ToAgent, deliver_line,
};
use ostler_core::lines::Lines;
use ostler_core::permission::{Otherwise, PermissionRequest, Policy, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Attendance, Settings, Spec, ToolOffer};
use ostler_dialects::find;

/// Where what an agent printed is kept.
pub(crate) fn fixtures(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(agent)
}

/// Every scenario of an agent, with what it printed.
pub(crate) fn recordings(agent: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(fixtures(agent))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read(entry.path().join("stdout.jsonl")).unwrap(),
            )
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
    talk.on_start(&mut out);
    talk.send(ToAgent::Prompt("hello".into()), &mut out);
    talk
}

/// Everything that comes of these chunks of Claude Code's.
pub(crate) fn replay(chunks: &[&[u8]]) -> Vec<FromConversation> {
    replay_as(claude(), chunks)
}

/// Everything that comes of these chunks.
pub(crate) fn replay_as(dialect: &dyn Dialect, chunks: &[&[u8]]) -> Vec<FromConversation> {
    let (mut talk, mut out, mut lines) = (asked_of(dialect), Outbox::default(), Lines::new());
    for chunk in chunks {
        lines.push(chunk, |line| deliver_line(&mut *talk, line, &mut out));
    }
    lines.finish(|line| deliver_line(&mut *talk, line, &mut out));
    out.drain().collect()
}

/// A tool of the caller's.
pub(crate) fn offer(name: &str, parameters: &str) -> ToolOffer {
    let parameters = RawJson::parse(parameters).unwrap();
    ToolOffer {
        name: name.to_owned(),
        description: "Adds.".to_owned(),
        parameters,
    }
}

/// What the scenario of a name was recorded with. `host_…`: somebody answers, or has tools, or has more to say; `exec_…`:
/// over the agent's other language.
fn scene(name: &str) -> Spec {
    let (hook, tool) = (name.starts_with("host_hook"), name.starts_with("host_tool"));
    let mut settings = Settings::default();
    if name.starts_with("exec_") {
        settings.set("transport", "exec");
    }
    Spec {
        settings,
        policy: hook.then(Policy::default),
        attendance: if name.starts_with("host_asked") || hook {
            Attendance::Attended
        } else {
            Attendance::Unattended
        },
        tools: if tool {
            vec![offer("add", "{}")]
        } else {
            Vec::new()
        },
        ..Spec::default()
    }
}

/// What was answered when a scenario was recorded: the command says it, and who is asked.
fn verdict(ask: &PermissionRequest) -> Verdict {
    let input = ask.input.as_ref().unwrap().get();
    match ask.otherwise {
        _ if input.contains("deny") => Verdict::Deny("a rule says so".to_owned()),
        Otherwise::Agent if !input.contains("allow") => Verdict::Undecided,
        _ => Verdict::Allow,
    }
}

/// What is said next in a scenario, after what the conversation wanted.
fn reaction(name: &str, out: &FromConversation, turns: usize) -> Vec<ToAgent> {
    match out {
        FromConversation::Ask(_) | FromConversation::Tool(_) if name.ends_with("cancelled") => {
            Vec::new()
        }
        FromConversation::Ask(ask) => vec![ToAgent::Verdict {
            id: ask.id.clone(),
            verdict: verdict(ask),
        }],
        FromConversation::Tool(order) => vec![ToAgent::ToolDone {
            id: order.id.clone(),
            ok: true,
            output: "5".to_owned(),
        }],
        FromConversation::TurnStarted if name == "host_steer_interrupted" => {
            vec![ToAgent::Steer("STEERED".to_owned()), ToAgent::Interrupt]
        }
        FromConversation::TurnStarted if name.starts_with("host_steer") && turns == 0 => {
            vec![ToAgent::Steer("STEERED".to_owned())]
        }
        FromConversation::TurnEnded(_) if name == "host_changes" && turns == 0 => {
            let changes = ["haiku", "no-such-model"].map(|model| Change::Model(model.to_owned()));
            let modes = ["acceptEdits", "bypassPermissions"]
                .map(|mode| Change::PermissionMode(mode.to_owned()));
            (1..)
                .zip(changes.into_iter().chain(modes))
                .map(|(id, change)| ToAgent::Change { id, change })
                .collect()
        }
        FromConversation::Changed { id: 4, .. } => vec![ToAgent::Prompt("again".to_owned())],
        _ => Vec::new(),
    }
}

/// Everything that comes of a recording when it is answered as it was then; what is said first included, where anything is.
pub(crate) fn replay_scene(
    dialect: &dyn Dialect,
    name: &str,
    stdout: &[u8],
) -> Vec<FromConversation> {
    let (mut all, mut out, mut lines, mut turns) = (Vec::new(), Outbox::default(), Lines::new(), 0);
    let spec = scene(name);
    let mut talk = dialect
        .select_transport(&spec)
        .unwrap_or(dialect)
        .converse(&spec);
    talk.on_start(&mut out);
    if !name.starts_with("host_") {
        out.drain().count();
    }
    talk.send(ToAgent::Prompt("hello".into()), &mut Outbox::default());
    let mut attend = |talk: &mut dyn Conversation, out: &mut Outbox| {
        while !out.is_empty() {
            for item in out.drain().collect::<Vec<_>>() {
                reaction(name, &item, turns)
                    .into_iter()
                    .for_each(|say| talk.send(say, out));
                turns += usize::from(matches!(item, FromConversation::TurnEnded(_)));
                all.push(item);
            }
        }
    };
    attend(&mut *talk, &mut out);
    let mut take = |line: ostler_core::lines::Line<'_>| {
        deliver_line(&mut *talk, line, &mut out);
        attend(&mut *talk, &mut out);
    };
    lines.push(stdout, &mut take);
    lines.finish(&mut take);
    all
}
