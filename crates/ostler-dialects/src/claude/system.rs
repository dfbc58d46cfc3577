//! `system` and `rate_limit_event` lines: identity, status and background tasks of the agent.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{DecidedBy, Level, NoticeCode, Permission, Started, Timestamp};

use super::TITLE;
use super::conversation::ClaudeConversation;
use super::wire::ClaudeLine;
use crate::json_lines::report_unknown;
use crate::lenient::Scalar;
use crate::permissions::denied;

/// Identity of the agent. A change is reported as a new start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    session: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
}

/// Handles a `system` line.
pub(super) fn on_line(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    match line.subtype.or_empty() {
        "init" => init(conversation, line, out),
        "permission_denied" => permission_denied(conversation, line, raw, out),
        "api_retry" => api_retry(line, out),
        "task_started" | "task_notification" | "task_updated" | "background_tasks_changed" => {
            conversation.tasks.on_line(line, out);
        }
        "compact_boundary" => {
            let compaction = &line.compact_metadata;
            let trigger = compaction.trigger.text().unwrap_or("unknown");
            let tokens = compaction.pre_tokens.count().unwrap_or(0);
            let message =
                format!("The conversation was compacted ({trigger}; it had {tokens} tokens).");
            out.notice(Level::Info, NoticeCode::Compacted, message);
        }
        "informational" | "notification" if !line.content.or_empty().is_empty() => {
            let level = match line.level.or_empty() {
                "warning" => Level::Warning,
                "error" => Level::Error,
                _ => Level::Info,
            };
            out.notice(level, NoticeCode::Informational, line.content.or_empty());
        }
        "model_fallback" | "model_refusal_fallback" => {
            out.warn(NoticeCode::ModelFallback, line.content.or_empty());
        }
        "model_refusal_no_fallback" => {
            out.warn(
                NoticeCode::Refusal,
                "The model's safeguards blocked the answer.",
            );
        }
        // Only heartbeats, and progress that other lines report in more detail.
        "status"
        | "thinking_tokens"
        | "task_progress"
        | "session_state_changed"
        | "hook_started"
        | "hook_progress"
        | "hook_response"
        | "turn_duration"
        | "commands_changed"
        | "ui_invalidate" => {}
        other => report_unknown(
            TITLE,
            &format!("type \"system\", subtype {other:?}"),
            raw,
            out,
        ),
    }
}

/// Handles `init`, which begins every turn. Only changes are emitted.
fn init(conversation: &mut ClaudeConversation, line: &ClaudeLine<'_>, out: &mut Outbox) {
    let identity = Identity {
        session: line.session_id.owned(),
        model: line.model.owned(),
        cwd: line.cwd.owned(),
    };
    if conversation.identity.as_ref() != Some(&identity) {
        out.event(Started {
            agent: "claude".to_owned(),
            agent_version: line.claude_code_version.owned(),
            native_session: identity.session.clone(),
            model: identity.model.clone(),
            cwd: identity.cwd.clone(),
            tools: line
                .tools
                .0
                .iter()
                .filter_map(Scalar::text)
                .map(|tool| conversation.server.display_name(tool))
                .collect(),
        });
        conversation.usage.set_model(identity.model.as_deref());
        conversation.identity = Some(identity);
    }
    conversation.turn.open = true;
    conversation.steers.turn_began(line);
    out.push(FromConversation::TurnStarted);
    conversation.tasks.turn_began(out);
}

fn permission_denied(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    let Some(id) = line.tool_use_id.owned() else {
        report_unknown(TITLE, "a permission_denied without a tool call", raw, out);
        return;
    };
    conversation.turn.denied.insert(id.clone());
    let tool = conversation.server.display_name(line.tool_name.or_empty());
    out.event(Permission {
        message: line.message.text().map(str::to_owned),
        ..denied(DecidedBy::Agent, id, tool)
    });
}

fn api_retry(line: &ClaudeLine<'_>, out: &mut Outbox) {
    let count = |it: &Scalar<'_>| it.count().map_or_else(|| "?".to_owned(), |n| n.to_string());
    let status = line
        .error_status
        .count()
        .map(|status| format!(" with status {status}"))
        .unwrap_or_default();
    let message = format!(
        "The model API failed{status} ({}); retry {} of {} in {} ms.",
        line.error.text().unwrap_or("unknown"),
        count(&line.attempt),
        count(&line.max_retries),
        line.retry_delay_ms.amount().unwrap_or(0.0).round(),
    );
    out.warn(NoticeCode::ApiRetry, message);
}

/// Handles a `rate_limit_event`: stores the reset time for the outcome and emits a notice.
pub(super) fn rate_limit(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    out: &mut Outbox,
) {
    let Some(info) = line.rate_limit_info.map() else {
        return;
    };
    let status = info.status.text().unwrap_or("unknown");
    // Seconds since the Unix epoch.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast from a float saturates"
    )]
    let resets = info
        .resets_at
        .amount()
        .map(|seconds| Timestamp((seconds * 1000.0) as i64).to_string());
    if status == "rejected" {
        conversation.resets_at = resets.clone();
    }
    let level = match status {
        "allowed" => Level::Debug,
        _ => Level::Warning,
    };
    let which = info
        .rate_limit_type
        .text()
        .map(|it| format!(" ({it})"))
        .unwrap_or_default();
    let until = resets
        .map(|at| format!("; it resets at {at}"))
        .unwrap_or_default();
    out.notice(
        level,
        NoticeCode::RateLimit,
        format!("Rate limit{which}: {status}{until}."),
    );
}
