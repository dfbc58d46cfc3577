//! Shared test helpers: fixtures, and a conversation driven line by line.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ostler_core::dialect::{
    Action, Change, Conversation, Dialect, FromConversation, Launching, Outbox, ToAgent,
    deliver_line,
};
use ostler_core::lines::Lines;
use ostler_core::permission::{Fallback, PermissionRequest, Policy, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Attendance, Settings, Spec, ToolOffer};
use ostler_dialects::find;
use ostler_model::openai::RequestOptions;
use ostler_model::runner_protocol::RunnerCommand;

/// Returns the directory of an agent's recordings.
pub(crate) fn fixtures(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(agent)
}

/// Returns every recorded scenario of an agent, with its stdout.
pub(crate) fn recordings(agent: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(fixtures(agent))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read(entry.path().join("stdout.jsonl")).unwrap(),
            )
        })
        .collect();
    all.sort();
    assert!(all.len() > 10, "the fixtures exist");
    all
}

/// Returns a request to a model as its server gets it, and any other line unchanged.
pub(crate) fn on_the_wire(line: &[u8]) -> Cow<'_, [u8]> {
    match serde_json::from_slice(line) {
        Ok(RunnerCommand::Call(request)) => {
            let body = RequestOptions::default().encode(&request);
            Cow::Owned(format!("{{\"call\":{}}}\n", body.get()).into_bytes())
        }
        _ => Cow::Borrowed(line),
    }
}

/// Returns every recorded scenario of Claude Code.
pub(crate) fn scenarios() -> Vec<(String, Vec<u8>)> {
    recordings("claude")
}

pub(crate) fn scenario(name: &str) -> String {
    std::fs::read_to_string(fixtures("claude").join(name).join("stdout.jsonl")).unwrap()
}

pub(crate) fn claude() -> &'static dyn Dialect {
    find("claude").unwrap()
}

/// Returns a conversation with Claude Code that has been sent a prompt.
pub(crate) fn asked() -> Box<dyn Conversation> {
    asked_of(claude())
}

fn asked_of(dialect: &dyn Dialect) -> Box<dyn Conversation> {
    let mut conversation = dialect.converse(&Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.on_start(&mut out);
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    conversation
}

/// Returns the output of Claude Code's conversation for these chunks.
pub(crate) fn replay(chunks: &[&[u8]]) -> Vec<FromConversation> {
    replay_as(claude(), chunks)
}

/// Returns the output of a conversation for these chunks.
pub(crate) fn replay_as(dialect: &dyn Dialect, chunks: &[&[u8]]) -> Vec<FromConversation> {
    let (mut conversation, mut out, mut lines) =
        (asked_of(dialect), Outbox::default(), Lines::new());
    for chunk in chunks {
        lines.push(chunk, |line| {
            deliver_line(&mut *conversation, line, &mut out);
        });
    }
    lines.finish(|line| deliver_line(&mut *conversation, line, &mut out));
    out.drain().collect()
}

/// Returns an offer of one of the caller's tools.
pub(crate) fn offer(name: &str, parameters: &str) -> ToolOffer {
    let parameters = RawJson::parse(parameters).unwrap();
    ToolOffer {
        name: name.to_owned(),
        description: "Adds.".to_owned(),
        parameters,
    }
}

/// Returns the spec that a scenario was recorded with. `host_…`: attended, with tools, or with
/// further messages; `exec_…`: over the agent's other transport.
fn recorded_spec(name: &str) -> Spec {
    let (hook, tool) = (name.starts_with("host_hook"), name.starts_with("host_tool"));
    let mut settings = Settings::default();
    if name.starts_with("exec_") {
        settings.set("transport", "exec");
    }
    let mut spec = Spec::default()
        .attendance(if name.starts_with("host_asked") || hook {
            Attendance::Attended
        } else {
            Attendance::Unattended
        })
        .bound_tools(if tool {
            vec![offer("add", "{}")]
        } else {
            Vec::new()
        });
    spec.apply(&settings).unwrap();
    spec.policy(hook.then(Policy::default))
}

/// Returns the verdict given when a scenario was recorded: the command and the kind of request
/// determine it.
fn verdict(ask: &PermissionRequest) -> Verdict {
    let input = ask.input.as_ref().unwrap().get();
    match ask.fallback {
        _ if input.contains("deny") => Verdict::Deny("a rule says so".to_owned()),
        Fallback::Agent if !input.contains("allow") => Verdict::Undecided,
        _ => Verdict::Allow,
    }
}

/// Returns what the host sends in a scenario in reaction to an output of the conversation.
fn reaction(name: &str, out: &FromConversation, turns: usize) -> Vec<ToAgent> {
    match out {
        FromConversation::AskPermission(_) | FromConversation::Do(Action::RunTool(_))
            if name.ends_with("cancelled") =>
        {
            Vec::new()
        }
        FromConversation::AskPermission(ask) => vec![ToAgent::Verdict {
            id: ask.id.clone(),
            verdict: verdict(ask),
        }],
        FromConversation::Do(Action::RunTool(order)) => vec![ToAgent::ToolDone {
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

/// Replays a recording with the reactions it was recorded with, and returns all output of the
/// conversation. For `host_…` scenarios this includes what is sent at the start.
pub(crate) fn replay_scene(
    dialect: &dyn Dialect,
    name: &str,
    stdout: &[u8],
) -> Vec<FromConversation> {
    let (mut all, mut out, mut lines, mut turns) = (Vec::new(), Outbox::default(), Lines::new(), 0);
    let spec = recorded_spec(name);
    let mut conversation = dialect
        .select_transport(&spec)
        .unwrap_or(dialect)
        .converse(&Launching::new(&spec));
    conversation.on_start(&mut out);
    if !name.starts_with("host_") {
        out.drain().count();
    }
    conversation.send(ToAgent::Prompt("hello".into()), &mut Outbox::default());
    let mut attend = |conversation: &mut dyn Conversation, out: &mut Outbox| {
        while !out.is_empty() {
            for item in out.drain().collect::<Vec<_>>() {
                reaction(name, &item, turns)
                    .into_iter()
                    .for_each(|say| conversation.send(say, out));
                turns += usize::from(matches!(item, FromConversation::TurnEnded(_)));
                all.push(item);
            }
        }
    };
    attend(&mut *conversation, &mut out);
    let mut take = |line: ostler_core::lines::Line<'_>| {
        deliver_line(&mut *conversation, line, &mut out);
        attend(&mut *conversation, &mut out);
    };
    lines.push(stdout, &mut take);
    lines.finish(&mut take);
    all
}
