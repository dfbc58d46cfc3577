//! How a turn ends: the answer to `session/prompt`.

use ostler_core::dialect::{FromConversation, Outbox, TurnOver};
use ostler_core::event::Level;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Denials;
use ostler_core::usage::{Scope, Usage};

use super::blame;
use super::conversation::AcpConversation;
use super::quirks::{Counts, Failures};
use super::wire::{Fault, Prompted};
use crate::lenient::Node;

/// Reads the answer to a prompt.
pub(super) fn prompted(
    talk: &mut AcpConversation,
    result: &str,
    fault: Option<&Fault<'_>>,
    out: &mut Outbox,
) {
    if !talk.turn.open || !talk.version.answer_ends_turn() {
        return;
    }
    // An agent that has dropped its session can do nothing more in this process: the next one
    // resumes the session.
    if let Some(lost) = fault
        .filter(|_| !talk.turn.interrupted)
        .and_then(|fault| blame::of_lost_session(talk, fault))
    {
        talk.turn.lost = Some(lost);
        return out.push(FromConversation::EndProcess);
    }
    let end: Node<'_, Prompted<'_>> = serde_json::from_str(result).unwrap_or_default();
    let empty = Prompted::default();
    let end = end.map().unwrap_or(&empty);
    let one_call = !talk.turn.used_tools;
    let mut usage = talk
        .spend
        .of_turn(&talk.quirks, end, (one_call, talk.options.model()));
    // Counters that did not move: no model has answered.
    let answered = usage
        .iter()
        .any(|part| part.output.is_some_and(|output| output > 0));
    let outcome = match fault {
        Some(_) if talk.turn.interrupted => interrupted(),
        Some(fault) => {
            let said = if talk.quirks.own_ids {
                talk.turn.told.was_error()
            } else {
                None
            };
            blame::of_turn(talk, fault, said)
        }
        None => stopped(talk, end.stop_reason.or_empty(), answered, out),
    };
    // The last call that was counted may be one of an earlier turn, and one that was cut off is not among those that were.
    let unsure = match talk.quirks.counts {
        Counts::LastRequest => !outcome.is_success(),
        Counts::Chunks => outcome.cause == Cause::Interrupted,
        _ => false,
    };
    if unsure {
        // What it cost is known all the same.
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
        .then(|| std::mem::take(&mut talk.turn.told.reply));
    talk.end(
        TurnOver {
            outcome,
            text,
            structured: None,
            usage,
        },
        out,
    );
}

fn interrupted() -> Outcome {
    Outcome::new(Cause::Interrupted, "The turn was interrupted.").with(|d| {
        d.acknowledged = Some(true);
        d.native = Some("cancelled".to_owned());
    })
}

/// What a stop reason means.
fn stopped(talk: &mut AcpConversation, reason: &str, answered: bool, out: &mut Outbox) -> Outcome {
    let native = |outcome: Outcome| outcome.with(|d| d.native = Some(reason.to_owned()));
    let was_cancelled = talk.turn.interrupted && talk.quirks.ends_cancelled;
    if reason == "end_turn"
        && !was_cancelled
        && let Some(why) = failed(talk, answered)
    {
        talk.turn.told.was_error();
        return why;
    }
    match reason {
        "cancelled" if talk.turn.interrupted => interrupted(),
        "end_turn" if was_cancelled => interrupted(),
        // With some agents a denied tool call is the end of the turn.
        "cancelled" | "end_turn" if !talk.turn.denied.is_empty() => denied(talk),
        "cancelled" => native(Outcome::new(
            Cause::Interrupted,
            "The agent ended the turn before it was done.",
        )),
        "refusal" => native(
            Outcome::new(Cause::Refused, "The model refused to answer.")
                .hint("Rephrase the request in a new session, or choose another model."),
        ),
        "max_tokens" if !answered && talk.turn.told.reply.is_empty() => native(
            Outcome::new(
                Cause::BadRequest,
                "The prompt is too long for the model, as the agent counts it.",
            )
            .hint("Give a shorter prompt, or choose a model with a larger window."),
        ),
        "max_tokens" => native(
            Outcome::new(
                Cause::OutputLimit,
                "The answer reached the model's limit on output.",
            )
            .hint("Ask for less at a time."),
        ),
        "max_turn_requests" => native(
            Outcome::new(
                Cause::TurnLimit,
                "The agent reached its limit on the steps of a turn.",
            )
            .hint("Raise the limit in the agent's own settings, or give a smaller task."),
        ),
        "end_turn" => Outcome::completed(),
        other => {
            let message = format!(
                "{} ended the turn with {other:?}, which Ostler does not know.",
                talk.entry.name
            );
            out.notice(Level::Warning, "unknown_stop_reason", message);
            native(Outcome::completed())
        }
    }
}

/// A turn that ends well and did not go well, with agents that are known to do so.
fn failed(talk: &AcpConversation, answered: bool) -> Option<Outcome> {
    let told = &talk.turn.told;
    if let Some(words) = &talk.turn.failure {
        return Some(blame::of_words(talk.entry, words, talk.turn.status));
    }
    match talk.quirks.failures {
        Failures::Errors => None,
        Failures::Text(wrote) if told.chunks == 1 => {
            blame::of_text(talk.entry, (&wrote, &told.reply), answered)
        }
        Failures::Text(_) => None,
        Failures::Silence => {
            (told.reply.is_empty() && !talk.turn.used_tools).then(|| blame::of_silence(talk.entry))
        }
    }
}

fn denied(talk: &AcpConversation) -> Outcome {
    if talk.denials == Denials::Tolerate {
        return Outcome::completed();
    }
    let tools = &talk.turn.denied;
    Outcome::new(Cause::Denied, format!("Tool calls were denied: {}.", tools.join(", ")))
        .hint("Allow the tools by a rule (--permissions, policy.toml), choose another --permission-mode, or pass --tolerate-denials if the answer is good without them.")
        .with(|d| d.denied_tools.clone_from(tools))
}
