//! Line parsing, and notifications that are not about the turn.

use ostler_core::dialect::Outbox;
use ostler_core::event::Level;
use serde::de::IgnoredAny;

use super::blame;
use super::items::report_unknown;
use super::wire::Params;
use crate::surrogates;

/// Parses a line, retrying once with repaired surrogates. Lines that are not JSON objects are
/// reported as `unreadable`.
pub(super) fn parse_line(
    raw: &str,
    dispatch: &mut dyn FnMut(&str, &mut Outbox) -> Option<serde_json::Error>,
    out: &mut Outbox,
) {
    // Checked first, because serde would read a list as the fields of a struct in their order.
    if !raw.trim_start().starts_with('{') {
        let json = serde_json::from_str::<IgnoredAny>(raw);
        out.unreadable(
            raw,
            &json.map_or_else(
                |e| format!("not JSON: {e}"),
                |_| "JSON, but not an object".into(),
            ),
        );
        return;
    }
    let Some(error) = dispatch(raw, out) else {
        return;
    };
    if dispatch(&surrogates::repair(raw), out).is_some() {
        let json = serde_json::from_str::<IgnoredAny>(raw).is_ok();
        let kind = if json { "not a message" } else { "not JSON" };
        out.unreadable(raw, &format!("{kind}: {error}"));
    }
}

/// Handles notifications that are not about the turn, including those that only show that Codex is
/// alive.
pub(super) fn on_other(method: &str, params: &Params<'_>, raw: &str, out: &mut Outbox) {
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
    let text = [&params.message, &params.summary]
        .into_iter()
        .find_map(|it| it.text())
        .unwrap_or_default();
    match method {
        "warning" | "guardianWarning" => out.notice(Level::Warning, "agent_warning", text),
        "configWarning" | "deprecationNotice" => {
            out.notice(Level::Debug, blame::code_of_warning(text), text);
        }
        "thread/compacted" => {
            out.notice(Level::Info, "compacted", "The conversation was compacted.");
        }
        "mcpServer/startupStatus/updated" if params.status.text() == Some("failed") => {
            let why = params.error.text().unwrap_or("no reason given");
            let message = format!("MCP server {} did not start: {why}", params.name.or_empty());
            out.notice(Level::Warning, "mcp_server", message);
        }
        _ if method.starts_with("mcpServer/") => {}
        _ if SILENT
            .iter()
            .chain(MORE)
            .any(|known| method.starts_with(known)) => {}
        other => report_unknown(raw, &format!("the notification {other:?}"), out),
    }
}
