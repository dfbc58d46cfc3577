//! Notifications that are not about the turn.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode};

use super::wire::Params;
use super::{TITLE, blame};
use crate::json_lines::report_unknown;

/// A notification.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notification<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
    pub(super) raw: &'a str,
}

/// Handles notifications that are not about the turn, including those that only show that Codex is
/// alive.
pub(super) fn on_other(notification: &Notification<'_>, out: &mut Outbox) {
    const SILENT: &[&str] = &[
        "account/",
        "app/",
        "fs/",
        "hook/",
        "item/",
        "model/",
        "project/",
        "remoteControl/",
    ];
    const MORE: &[&str] = &[
        "skills/",
        "thread/",
        "turn/",
        "modelProvider/",
        "autoApprovalReview/",
        "externalAgentConfig/",
    ];
    let Notification {
        method,
        params,
        raw,
    } = *notification;
    let text = [&params.message, &params.summary]
        .into_iter()
        .find_map(|it| it.text())
        .unwrap_or_default();
    match method {
        "warning" | "guardianWarning" => out.warn(NoticeCode::AgentWarning, text),
        "configWarning" | "deprecationNotice" => {
            out.notice(Level::Debug, blame::code_of_warning(text), text);
        }
        "thread/compacted" => {
            out.notice(
                Level::Info,
                NoticeCode::Compacted,
                "The conversation was compacted.",
            );
        }
        "mcpServer/startupStatus/updated" if params.status.text() == Some("failed") => {
            let why = params.error.text().unwrap_or("no reason given");
            let message = format!("MCP server {} did not start: {why}", params.name.or_empty());
            out.warn(NoticeCode::McpServer, message);
        }
        _ if method.starts_with("mcpServer/") => {}
        _ if SILENT
            .iter()
            .chain(MORE)
            .any(|known| method.starts_with(known)) => {}
        other => report_unknown(TITLE, &format!("the notification {other:?}"), raw, out),
    }
}
