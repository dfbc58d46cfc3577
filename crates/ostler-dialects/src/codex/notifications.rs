//! What is the same for every line, and what Codex tells besides the work.

use ostler_core::dialect::Outbox;
use ostler_core::event::Level;
use serde::de::IgnoredAny;

use super::blame;
use super::items::unknown;
use super::wire::Params;
use crate::surrogates;

/// Hands a line to a reader: as it is, and mended when it cannot be read like that. What is no object is told as it is.
pub(super) fn read(
    raw: &str,
    heard: &mut dyn FnMut(&str, &mut Outbox) -> Option<serde_json::Error>,
    out: &mut Outbox,
) {
    // Asked first, because serde would read a list as the fields of a struct in their order.
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
    let Some(error) = heard(raw, out) else { return };
    if heard(&surrogates::mend(raw), out).is_some() {
        let json = serde_json::from_str::<IgnoredAny>(raw).is_ok();
        let kind = if json { "not a message" } else { "not JSON" };
        out.unreadable(raw, &format!("{kind}: {error}"));
    }
}

/// What Codex tells besides the work, and what it only says to show that it is alive.
pub(super) fn remark(method: &str, params: &Params<'_>, raw: &str, out: &mut Outbox) {
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
    let told = [&params.message, &params.summary]
        .into_iter()
        .find_map(|it| it.text())
        .unwrap_or_default();
    match method {
        "warning" | "guardianWarning" => out.notice(Level::Warning, "agent_warning", told),
        "configWarning" | "deprecationNotice" => {
            out.notice(Level::Debug, blame::code_of_warning(told), told)
        }
        "thread/compacted" => out.notice(
            Level::Info,
            "compacted",
            "The conversation was made shorter.",
        ),
        "mcpServer/startupStatus/updated" if params.status.text() == Some("failed") => {
            let why = params.error.text().unwrap_or("no reason given");
            let message = format!(
                "The MCP server {} did not start: {why}",
                params.name.or_empty()
            );
            out.notice(Level::Warning, "mcp_server", message);
        }
        _ if method.starts_with("mcpServer/") => {}
        _ if SILENT
            .iter()
            .chain(MORE)
            .any(|known| method.starts_with(known)) => {}
        other => unknown(raw, &format!("a note {other:?}"), out),
    }
}
