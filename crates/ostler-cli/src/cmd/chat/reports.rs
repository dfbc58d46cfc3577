//! Output of `/usage`, `/status` and `/resume`.

use std::path::Path;

use ostler::{Agent, SessionStatus, Usage, display};
use ostler_store::{Filter, SessionRow, Store};

use crate::output::style::DIM;
use crate::output::{name, one_line, thousands, usage_summary};

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
    let state = serde_json::to_value(status.state)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned));
    let pid = status
        .pid
        .map_or_else(|| "none".to_owned(), |pid| pid.to_string());
    let rows = [
        ("agent", agent.name().to_owned()),
        ("model", reported(status.model.as_deref())),
        ("directory", one_line(&dir.to_string_lossy(), 200)),
        (
            "state",
            format!("{}, turn {}", state.unwrap_or_default(), status.turn),
        ),
        ("session", id.to_owned()),
        ("agent's id", reported(status.native_session.as_deref())),
        ("process", pid),
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
    let rows = match store.sessions(&filter) {
        Err(error) => {
            return vec![format!(
                "  cannot read the sessions: {}",
                one_line(&error.to_string(), 200)
            )];
        }
        Ok(rows) => rows,
    };
    if rows.is_empty() {
        return vec!["  no stored sessions in this directory".into()];
    }
    let mut lines: Vec<String> = rows.iter().map(row).collect();
    lines.push(format!("  {DIM}/resume ID resumes one of them{DIM:#}"));
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
        .map_or_else(String::new, |prompt| one_line(prompt, 60));
    format!(
        "  {} {DIM}{} · {turns}{DIM:#} {prompt}",
        name(display::short_id(&row.session)),
        name(&row.agent)
    )
}
