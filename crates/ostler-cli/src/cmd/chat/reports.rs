//! What `/usage`, `/status` and `/resume` tell.

use std::path::Path;

use ostler::{Agent, SessionStatus, Usage, brief};
use ostler_store::{Filter, SessionRow, Store};

use crate::output::style::DIM;
use crate::output::{name, thousands, usage_summary, word};

/// How many sessions are listed.
const LISTED: usize = 10;

/// Tokens by kind and cost, of the last turn and of the session.
pub(super) fn usage(turn: Option<&Usage>, session: Option<&Usage>) -> Vec<String> {
    if turn.is_none() && session.is_none() {
        return vec!["  nothing was used yet, as far as the agent says".into()];
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

/// Who is there, and what it is doing.
pub(super) fn status(
    agent: &dyn Agent,
    dir: &Path,
    status: &SessionStatus,
    id: &str,
) -> Vec<String> {
    let said = |text: Option<&str>| text.map_or_else(|| "not said yet".to_owned(), name);
    let state = serde_json::to_value(status.state)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned));
    let pid = status
        .pid
        .map_or_else(|| "none".to_owned(), |pid| pid.to_string());
    let rows = [
        ("agent", agent.name().to_owned()),
        ("model", said(status.model.as_deref())),
        ("directory", word(&dir.to_string_lossy(), 200)),
        (
            "state",
            format!("{}, turn {}", state.unwrap_or_default(), status.turn),
        ),
        ("session", id.to_owned()),
        ("its own id", said(status.native_session.as_deref())),
        ("process", pid),
    ];
    rows.iter()
        .map(|(kind, value)| format!("  {kind:<10} {value}"))
        .collect()
}

/// The latest sessions of a directory.
pub(super) fn sessions(store: &Store, dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let filter = Filter {
        dir: Some(dir),
        limit: Some(LISTED),
        without_failed_starts: true,
        ..Filter::default()
    };
    let rows = match store.sessions(&filter) {
        Err(error) => {
            return vec![format!(
                "  the sessions cannot be read: {}",
                word(&error.to_string(), 200)
            )];
        }
        Ok(rows) => rows,
    };
    if rows.is_empty() {
        return vec!["  no session of this directory is kept".into()];
    }
    let mut lines: Vec<String> = rows.iter().map(row).collect();
    lines.push(format!("  {DIM}/resume ID continues one of them{DIM:#}"));
    lines
}

fn row(row: &SessionRow) -> String {
    let turns = format!(
        "{} turn{}",
        row.turns,
        if row.turns == 1 { "" } else { "s" }
    );
    let prompt = row
        .prompt
        .as_deref()
        .map_or_else(String::new, |prompt| word(prompt, 60));
    format!(
        "  {} {DIM}{} · {turns}{DIM:#} {prompt}",
        name(brief::short_id(&row.session)),
        name(&row.agent)
    )
}
