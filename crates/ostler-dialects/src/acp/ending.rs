//! Turn endings: the response to `session/prompt`.

use ostler_core::dialect::{FromConversation, Outbox, TurnResult};
use ostler_core::event::NoticeCode;
use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::spec::Denials;
use ostler_core::usage::{Scope, Usage};

use super::blame;
use super::conversation::{AcpConversation, Response};
use super::quirks::{CountScope, FailureStyle};
use super::usage::TurnCalls;
use super::wire::PromptResponse;
use crate::blame as common;

/// Handles the response to a prompt.
pub(super) fn on_prompt_response(
    conversation: &mut AcpConversation,
    response: &Response<'_>,
    out: &mut Outbox,
) {
    if !conversation.turn.open || !conversation.version.response_ends_turn() {
        return;
    }
    let error = response.error.as_ref();
    // An agent that has dropped its session can do nothing more in this process. The next process
    // resumes the session.
    if let Some(lost) = error
        .filter(|_| !conversation.turn.interrupted)
        .and_then(|error| blame::of_lost_session(conversation, error))
    {
        conversation.turn.lost = Some(lost);
        return out.push(FromConversation::EndProcess);
    }
    let end: PromptResponse<'_> = response.parse();
    let calls = TurnCalls {
        one_call: !conversation.turn.used_tools,
        model: conversation.options.model(),
    };
    let mut usage = conversation
        .usage
        .turn_usage(&conversation.quirks, &end, calls);
    // Unchanged counters mean that no model has answered.
    let model_answered = usage
        .iter()
        .any(|part| part.output.is_some_and(|output| output > 0));
    let outcome = match error {
        Some(_) if conversation.turn.interrupted => interrupted(),
        Some(error) => {
            let said = if conversation.quirks.uuid_marks_own_text {
                conversation.turn.text.take_held_error()
            } else {
                None
            };
            blame::of_turn(conversation, error, said)
        }
        None => stopped(
            conversation,
            end.stop_reason.or_empty(),
            model_answered,
            out,
        ),
    };
    // The last counted call may belong to an earlier turn, and an interrupted call is not counted.
    let unsure = match conversation.quirks.counts {
        CountScope::LastRequest => !outcome.is_success(),
        CountScope::Chunks => outcome.cause == Cause::Interrupted,
        _ => false,
    };
    if unsure {
        // The cost is known nevertheless.
        usage.retain(|part| part.cost_usd.is_some());
        for part in &mut usage {
            *part = Usage {
                model: part.model.take(),
                cost_usd: part.cost_usd,
                cost_source: part.cost_source,
                ..Usage::unknown(Scope::Turn)
            };
        }
    }
    let text = outcome
        .is_success()
        .then(|| std::mem::take(&mut conversation.turn.text.reply));
    conversation.finish_turn(
        TurnResult {
            text,
            usage,
            ..TurnResult::new(outcome)
        },
        out,
    );
}

fn interrupted() -> Outcome {
    common::interrupted().with(|d| d.native = Some("cancelled".to_owned()))
}

/// Maps a stop reason to an outcome.
fn stopped(
    conversation: &mut AcpConversation,
    reason: &str,
    model_answered: bool,
    out: &mut Outbox,
) -> Outcome {
    let native = |outcome: Outcome| outcome.with(|d| d.native = Some(reason.to_owned()));
    let was_cancelled =
        conversation.turn.interrupted && conversation.quirks.cancel_ends_successfully;
    if reason == "end_turn"
        && !was_cancelled
        && let Some(why) = silent_failure(conversation, model_answered)
    {
        conversation.turn.text.take_held_error();
        return why;
    }
    match reason {
        "cancelled" if conversation.turn.interrupted => interrupted(),
        "end_turn" if was_cancelled => interrupted(),
        // With some agents a denied tool call ends the turn.
        "cancelled" | "end_turn" if !conversation.turn.denied.is_empty() => denied(conversation),
        "cancelled" => native(Outcome::new(
            Cause::Interrupted,
            "The agent cancelled the turn.",
        )),
        "refusal" => native(blame::with_hint(conversation.profile, common::refused())),
        "max_tokens" if !model_answered && conversation.turn.text.reply.is_empty() => native(
            Outcome::new(
                Cause::BadRequest,
                "The prompt is too long for the model, according to the agent.",
            )
            .hint("Shorten the prompt, or choose a model with a larger context window.")
            .with(|d| d.reason = Some(Reason::ContextTooLong)),
        ),
        "max_tokens" => native(blame::with_hint(
            conversation.profile,
            common::output_limit(),
        )),
        "max_turn_requests" => native(
            Outcome::new(
                Cause::TurnLimit,
                "The agent reached its limit of steps per turn.",
            )
            .hint("Raise the limit in the agent's own settings, or give a smaller task."),
        ),
        "end_turn" => Outcome::completed(),
        other => {
            let message = format!(
                "{} ended the turn with the unknown stop reason {other:?}.",
                conversation.profile.name
            );
            out.warn(NoticeCode::UnknownStopReason, message);
            native(Outcome::completed())
        }
    }
}

/// Returns the failure of a turn that the agent reports as successful, for agents known to do so.
fn silent_failure(conversation: &AcpConversation, model_answered: bool) -> Option<Outcome> {
    let text = &conversation.turn.text;
    if let Some(words) = &conversation.turn.failure {
        return Some(blame::of_failed_turn(
            conversation.profile,
            words,
            conversation.turn.status,
        ));
    }
    match conversation.quirks.failures {
        FailureStyle::Errors => None,
        FailureStyle::Text(error_text) if text.chunks == 1 => blame::of_text(
            conversation.profile,
            &error_text,
            &text.reply,
            model_answered,
        ),
        FailureStyle::Text(_) => None,
        FailureStyle::Silence => (text.reply.is_empty() && !conversation.turn.used_tools)
            .then(|| blame::of_silence(conversation.profile)),
    }
}

fn denied(conversation: &AcpConversation) -> Outcome {
    if conversation.denials == Denials::Tolerate {
        return Outcome::completed();
    }
    common::denied(conversation.turn.denied.clone()).hint(
        "Allow the tools by a rule (--permissions, policy.toml), choose another \
            --permission-mode, or pass --tolerate-denials to accept the answer anyway.",
    )
}
