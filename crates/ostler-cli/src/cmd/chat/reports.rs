//! Output of `/usage`, `/status` and `/resume`.

use std::path::Path;

use ostler::render::display;
use ostler::session::SessionStatus;
use ostler::{Agent, Usage};
use ostler_store::{Filter, SessionRow, Store};

use crate::output::style::DIM;
use crate::output::{counted, name, one_line, thousands, usage_summary};

/// Maximum number of listed sessions.
const LISTED: usize = 10;

/// Formats tokens by kind and cost, of the last turn and of the session.
pub(super) fn usage(turn: Option<&Usage>, session: Option<&Usage>) -> Vec<String> {
    if turn.is_none() && session.is_none() {
        return vec!["  no usage reported yet".into()];
    }
    let mut lines = Vec::new();
    for (kind, usage) in [("last turn", turn), ("session", session)] {
        let Some(usage) = usage else { continue };
        let kinds = [
            ("input", usage.input),
            ("cache read", usage.cache_read),
            ("cache write", usage.cache_write),
            ("output", usage.output),
            ("reasoning", usage.reasoning),
        ];
        let kinds: Vec<String> = kinds
            .iter()
            .filter_map(|(kind, n)| n.map(|n| format!("{kind} {}", thousands(n))))
            .collect();
        lines.push(format!("  {kind:<10} {}", usage_summary(usage)));
        lines.push(format!("  {:<10} {DIM}{}{DIM:#}", "", kinds.join(" · ")));
    }
    lines
}

/// Formats the agent, its session and its state.
pub(super) fn status(
    agent: &dyn Agent,
    dir: &Path,
    status: &SessionStatus,
    id: &str,
) -> Vec<String> {
    let reported = |text: Option<&str>| text.map_or_else(|| "not reported yet".to_owned(), name);
    let state = serde_json::to_value(status.state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default();
    let pid = status.pid.map(|pid| pid.to_string());
    let rows = [
        ("agent", agent.about().name.to_owned()),
        ("model", reported(status.model.as_deref())),
        ("directory", one_line(&dir.to_string_lossy(), 200)),
        ("state", format!("{state}, turn {}", status.turn)),
        ("session", id.to_owned()),
        ("agent's id", reported(status.native_session.as_deref())),
        ("process", pid.unwrap_or_else(|| "none".to_owned())),
    ];
    rows.iter()
        .map(|(kind, value)| format!("  {kind:<10} {value}"))
        .collect()
}

/// Formats the latest sessions of a directory.
pub(super) fn sessions(store: &Store, dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let filter = Filter {
        dir: Some(dir),
        limit: Some(LISTED),
        without_failed_starts: true,
        ..Filter::default()
    };
    match store.sessions(&filter) {
        Err(error) => {
            let why = one_line(&error.to_string(), 200);
            vec![format!("  cannot read the sessions: {why}")]
        }
        Ok(rows) if rows.is_empty() => vec!["  no stored sessions in this directory".into()],
        Ok(rows) => {
            let hint = format!("  {DIM}/resume ID resumes one of them{DIM:#}");
            rows.iter().map(row).chain([hint]).collect()
        }
    }
}

fn row(row: &SessionRow) -> String {
    let turns = counted(row.turns.into(), "turn");
    let prompt = one_line(row.prompt.as_deref().unwrap_or_default(), 60);
    format!(
        "  {} {DIM}{} · {turns}{DIM:#} {prompt}",
        name(display::short_id(&row.session)),
        name(&row.agent)
    )
}
