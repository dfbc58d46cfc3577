//! `result` lines: the end of a turn.

use ostler_core::dialect::{Outbox, TurnResult};
use ostler_core::event::NoticeCode;
use ostler_core::outcome::Cause;
use ostler_core::raw_json::RawJson;

use super::blame::{self, Ending};
use super::conversation::{ClaudeConversation, Turn};
use super::wire::ClaudeLine;
use crate::lenient::Scalar;
use crate::structured;

/// Handles a `result`.
pub(super) fn on_line(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    out: &mut Outbox,
) {
    let turn = std::mem::take(&mut conversation.turn);
    conversation.steers.release(out);
    conversation.tasks.owes_turn = conversation.steers.any_queued();
    let outcome = blame::of_result(&ending(conversation, line, &turn));
    let usage = conversation.usage.of_result(line);
    // If the turn failed, `result` contains the error; the text before it is more useful.
    let failed = line.is_error.is_true();
    let text = line
        .result
        .owned()
        .filter(|text| !failed && !text.is_empty());
    let structured = line
        .structured_output
        .filter(|raw| raw.get() != "null")
        .map(RawJson::from_raw);
    if conversation.wants_structured {
        // Claude Code reminds the model once, then reports a success without the structured answer.
        structured::warn_if_missing(structured.as_ref(), &outcome, out);
    }
    conversation.tasks.report(out);
    match conversation
        .held_prompt
        .take()
        .filter(|_| outcome.cause != Cause::Interrupted)
    {
        // This was the separate turn of a steering message; the caller's turn starts now.
        Some(prompt) => {
            out.events(usage);
            if !outcome.is_success() {
                out.warn(NoticeCode::SteerFailed, outcome.message);
            }
            conversation.prompt(prompt, out);
        }
        None => out.push(TurnResult {
            outcome,
            text,
            structured,
            usage,
        }),
    }
}

fn ending<'a>(
    conversation: &'a ClaudeConversation,
    line: &'a ClaudeLine<'_>,
    turn: &'a Turn,
) -> Ending<'a> {
    let errors: Vec<&str> = line.errors.0.iter().filter_map(Scalar::text).collect();
    let mut denied: Vec<String> = line
        .permission_denials
        .iter()
        .filter_map(|it| it.tool_name.text())
        .map(|it| conversation.server.display_name(it))
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
        denials: conversation.denials,
        has_policy: conversation.has_policy,
        resets_at: conversation.resets_at.clone(),
    }
}
