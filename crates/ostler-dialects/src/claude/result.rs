//! `result`: the end of a turn.

use ostler_core::dialect::{FromConversation, Outbox, TurnOver};
use ostler_core::event::Level;
use ostler_core::outcome::Cause;
use ostler_core::raw_json::RawJson;

use super::blame::{self, Ending};
use super::conversation::{ClaudeConversation, Turn};
use super::wire::Line;
use crate::lenient::{Node, Scalar};

/// Reads a `result`.
pub(super) fn hear(talk: &mut ClaudeConversation, line: &Line<'_>, out: &mut Outbox) {
    let turn = std::mem::take(&mut talk.turn);
    talk.steers.release(out);
    talk.tasks.owed = talk.steers.any_queued();
    let outcome = blame::of_result(&ending(talk, line, &turn));
    let usage = talk.spend.of_result(line);
    // When the turn failed, `result` holds the error; what was said before it is the better text.
    let failed = line.is_error.is_true();
    let text = line
        .result
        .owned()
        .filter(|text| !failed && !text.is_empty());
    let structured = line
        .structured_output
        .filter(|raw| raw.get() != "null")
        .map(RawJson::keep);
    if talk.schema && structured.is_none() && outcome.is_success() {
        // Claude Code reminds the model once, then calls the turn a success without it.
        out.notice(
            Level::Warning,
            "no_structured_answer",
            "A structured answer was asked for, and none was given.",
        );
    }
    talk.tasks.report(out);
    match talk
        .waiting
        .take()
        .filter(|_| outcome.cause != Cause::Interrupted)
    {
        // This was the turn of a message that came too late for its own; the one that was asked for begins now.
        Some(prompt) => {
            usage.into_iter().for_each(|part| out.event(part));
            if !outcome.is_success() {
                out.notice(Level::Warning, "steer_failed", outcome.message);
            }
            talk.prompt(prompt, out);
        }
        None => out.push(FromConversation::TurnOver(TurnOver {
            outcome,
            text,
            structured,
            usage,
        })),
    }
}

fn ending<'a>(talk: &'a ClaudeConversation, line: &'a Line<'_>, turn: &'a Turn) -> Ending<'a> {
    let errors: Vec<&str> = line.errors.0.iter().filter_map(Scalar::text).collect();
    let mut denied: Vec<String> = line
        .permission_denials
        .0
        .iter()
        .filter_map(Node::map)
        .filter_map(|it| it.tool_name.text())
        .map(|it| talk.server.shown(it))
        .collect();
    denied.sort();
    denied.dedup();
    Ending {
        subtype: line.subtype.or_empty(),
        is_error: line.is_error.is_true(),
        terminal: line.terminal_reason.or_empty(),
        stop: line.stop_reason.or_empty(),
        status: line
            .api_error_status
            .count()
            .and_then(|status| u16::try_from(status).ok()),
        api_error: turn.api_error.as_deref().unwrap_or_default(),
        text: if errors.is_empty() {
            line.result.or_empty().to_owned()
        } else {
            errors.join("; ")
        },
        interrupted: turn.interrupted,
        denied,
        denials: talk.denials,
        is_ruled: talk.is_ruled,
        resets_at: talk.resets_at.clone(),
    }
}
