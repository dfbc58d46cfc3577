//! Mapping from the outcome of a turn to the protocol: a stop reason, or a failure with a hint.
//! Pure.

use ostler::{Cause, Outcome, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::{Data, Failure};

/// Response to a prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptResponse {
    stop_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Tokens>,
    /// Extension data that the protocol does not define: the cost and its source.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

/// Tokens of a turn, as the protocol counts them.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_write_tokens: Option<u64>,
}

/// Returns the response for a cancelled turn.
pub(crate) fn cancelled(usage: Option<Usage>) -> PromptResponse {
    stopped("cancelled", usage)
}

fn stopped(stop_reason: &'static str, usage: Option<Usage>) -> PromptResponse {
    PromptResponse {
        stop_reason,
        usage: usage.as_ref().and_then(tokens),
        meta: usage.map(|usage| json!({"ostler": {"usage": usage}})),
    }
}

/// Returns the token counts, if they are known.
fn tokens(usage: &Usage) -> Option<Tokens> {
    Some(Tokens {
        total_tokens: usage.total()?,
        input_tokens: usage.input?,
        output_tokens: usage.output?,
        thought_tokens: usage.reasoning,
        cached_read_tokens: usage.cache_read,
        cached_write_tokens: usage.cache_write,
    })
}

/// Returns the stop reason for a cause, or `None` for a failure.
fn reason(cause: Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::Completed | Cause::Denied | Cause::NeedsInput => "end_turn",
        Cause::Interrupted | Cause::Stopped => "cancelled",
        Cause::Refused => "refusal",
        Cause::TurnLimit => "max_turn_requests",
        Cause::OutputLimit => "max_tokens",
        _ => return None,
    })
}

/// Returns the response to a prompt whose turn ended with this outcome; `text` is the answer so
/// far.
pub(crate) fn response(
    outcome: &Outcome,
    text: &str,
    usage: Option<Usage>,
) -> Result<PromptResponse, Failure> {
    let reason = reason(outcome.cause).ok_or_else(|| failed(outcome, text))?;
    Ok(stopped(reason, usage))
}

/// Returns the failure for an outcome, whatever its cause.
pub(crate) fn failed(outcome: &Outcome, text: &str) -> Failure {
    let data = Data {
        cause: Some(outcome.cause.as_str()),
        message: Some(outcome.message.clone()),
        hint: outcome.hint.clone(),
        text: Some(text.to_owned()).filter(|text| !text.is_empty()),
    };
    match (outcome.cause, &outcome.hint) {
        (Cause::Auth, _) => Failure::auth(data),
        // Editors may show only the message.
        (_, Some(hint)) => Failure::internal(format!("{} {hint}", outcome.message)).data(data),
        (_, None) => Failure::internal(&*outcome.message).data(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_maps_to_a_reason_or_a_failure() {
        let of = |cause: Cause| match response(&Outcome::new(cause, "m"), "so far", None) {
            Ok(stopped) => stopped.stop_reason.to_owned(),
            Err(failure) => failure.code.to_string(),
        };
        let mappings: Vec<String> = Cause::ALL
            .iter()
            .map(|cause| format!("{cause}={}", of(*cause)))
            .collect();
        assert_eq!(
            mappings.join(" "),
            "completed=end_turn auth=-32000 rate_limit=-32603 overloaded=-32603 server_error=-32603 network=-32603 \
             budget=-32603 turn_limit=max_turn_requests wall_limit=-32603 idle_limit=-32603 startup_limit=-32603 \
             output_limit=max_tokens denied=end_turn refused=refusal interrupted=cancelled agent_died=-32603 \
             protocol=-32603 bad_request=-32603 unavailable=-32603 needs_input=end_turn stopped=cancelled"
        );
    }

    #[test]
    fn failures_carry_cause_and_hint() {
        let outcome = Outcome::new(Cause::Auth, "Not logged in.").hint("Log in.");
        let failure = serde_json::to_value(response(&outcome, "Hel", None).unwrap_err()).unwrap();
        let data =
            json!({"cause": "auth", "message": "Not logged in.", "hint": "Log in.", "text": "Hel"});
        assert_eq!(
            failure,
            json!({"code": -32000, "message": "Authentication required", "data": data})
        );
        let outcome = Outcome::new(Cause::Network, "No line.").hint("Try again.");
        assert_eq!(
            response(&outcome, "", None).unwrap_err().message,
            "No line. Try again."
        );
    }

    #[test]
    fn known_tokens_are_reported() {
        let mut usage = Usage::unknown(ostler::event::Scope::Turn);
        assert_eq!(cancelled(Some(usage.clone())).usage, None);
        (usage.input, usage.output, usage.cache_read) = (Some(1), Some(2), Some(4));
        let response = serde_json::to_value(cancelled(Some(usage))).unwrap();
        let tokens =
            json!({"totalTokens": 7, "inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 4});
        assert_eq!(
            (&response["stopReason"], &response["usage"]),
            (&json!("cancelled"), &tokens)
        );
    }
}
