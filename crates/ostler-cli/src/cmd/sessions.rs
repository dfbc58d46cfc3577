//! `ostler sessions`: lists, shows, searches, exports and removes stored sessions.

mod export;
mod fetch;
mod remove;
mod search;
mod watch;

use std::path::Path;

use ostler::EventKind;
use ostler::event::{CostSource, Timestamp};
use ostler::render::display;
use ostler_store::{Filter, PruneLimits, SessionRow, SessionStatus, Store};
use serde_json::{Value, json};

pub(crate) use self::fetch::bundles_dir;
pub(crate) use self::watch::watch;
use crate::args::{
    SessionsArgs, SessionsFilterArgs, SessionsListArgs, SessionsPruneArgs, SessionsShowArgs,
    SessionsVerb,
};
use crate::config::load_for;
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::style::{DIM, WARN};
use crate::output::{
    self, Align, View, counted, eprint_line, name, one_line, print_json, print_line,
};
use crate::store::{open_store_for_reading, pages, resolve};

/// Runs the subcommand.
pub(crate) fn run(args: SessionsArgs, runtime: &tokio::runtime::Runtime) -> Result<Code> {
    let store = open_store_for_reading()?;
    match args.verb {
        None => list(&store, args.list),
        Some(SessionsVerb::List(list_args)) => list(&store, list_args),
        Some(SessionsVerb::Show(args)) => show(&store, &args),
        Some(SessionsVerb::Search(args)) => search::run(&store, args),
        Some(SessionsVerb::Export(args)) => export::run(&store, &args),
        Some(SessionsVerb::Fetch(args)) => runtime.block_on(fetch::run(&store, &args)),
        Some(SessionsVerb::Rm(args)) => remove::run(&store, &args),
        Some(SessionsVerb::Prune(args)) => prune(&store, &args),
    }
}

fn list(store: &Store, args: SessionsListArgs) -> Result<Code> {
    let filter = Filter {
        live: args.live,
        without_failed_starts: !args.all,
        ..filter(args.filter)?
    };
    let rows = store.sessions(&filter)?;
    if args.json {
        print_json(&json!({ "sessions": rows.iter().map(as_json).collect::<Vec<_>>() }));
    } else if rows.is_empty() {
        eprint_line("No sessions found.");
        let any = Filter {
            limit: Some(1),
            ..Filter::default()
        };
        let is_any = store.sessions(&any).is_ok_and(|rows| !rows.is_empty());
        if filter.without_failed_starts && is_any {
            eprint_line("  hint: use `--all` to include failed starts");
        }
    } else {
        table(&rows);
    }
    Ok(exit::OK)
}

/// Returns the filter for the requested sessions.
fn filter(args: SessionsFilterArgs) -> Result<Filter> {
    Ok(Filter {
        agent: args.agent.map(own_name).transpose()?,
        dir: args.dir.as_deref().map(stored_dir).transpose()?,
        limit: Some(args.limit.get()),
        ..Filter::default()
    })
}

/// Returns the agent's own name, under which its sessions are stored.
fn own_name(name: String) -> Result<String> {
    let own = load_for(&name)?
        .agent(&name)
        .map(|agent| agent.about().name.to_owned());
    Ok(own.unwrap_or(name))
}

/// Returns a directory as it is stored in sessions.
fn stored_dir(dir: &Path) -> Result<std::path::PathBuf> {
    let here = environment::directory().map_err(Fault::internal)?;
    // A removed directory may have sessions too.
    Ok(dir.canonicalize().unwrap_or_else(|_| here.join(dir)))
}

/// Returns the display name of a session: its agent and short id.
fn display_name(row: &SessionRow) -> String {
    format!("{}-{}", row.agent, display::short_id(&row.session))
}

fn as_json(row: &SessionRow) -> Value {
    let held_by = match row.status {
        SessionStatus::Live(pid) => Some(pid),
        _ => None,
    };
    json!({
        "session": row.session,
        "name": display_name(row),
        "agent": row.agent,
        "agent_version": row.agent_version,
        "native_session": row.native_session,
        "dir": row.dir.to_string_lossy(),
        "model": row.model,
        "began_at": row.began_at,
        "ended_at": row.ended_at,
        "outcome": row.status.as_str(),
        "held_by": held_by,
        "started": row.started,
        "turns": row.turns,
        "tokens": row.tokens,
        "cost_usd": row.cost_usd,
        "cost_source": row.cost_source,
        "continues": row.continues,
        "prompt": row.prompt,
        "title": row.title(),
        "last_seq": row.last_seq,
        "pending_approvals": row.pending_approvals,
    })
}

fn table(rows: &[SessionRow]) {
    let now = environment::now();
    let cells = rows.iter().map(|row| {
        [
            short_id(&row.session),
            name(&row.agent),
            ago(now, row.began_at),
            row.turns.to_string(),
            shown_cost(row.cost_usd, row.cost_source),
            row.status.as_str().to_owned(),
            one_line(&shown_dir(&row.dir), 40),
            one_line(row.prompt.as_deref().unwrap_or("").trim_start(), 50),
        ]
    });
    let heads = [
        "session",
        "agent",
        "when",
        "turns",
        "cost",
        "outcome",
        "directory",
        "task",
    ];
    output::table(
        heads.map(|head| (head, Align::Left)),
        &cells.collect::<Vec<_>>(),
    );
}

/// Returns the short form of a session id, for a line.
fn short_id(session: &str) -> String {
    name(display::short_id(session))
}

/// Formats a cost, or a dash if it is unknown.
pub(crate) fn shown_cost(cost: Option<f64>, source: CostSource) -> String {
    cost.map_or_else(|| "–".to_owned(), |cost| display::cost(cost, source))
}

/// Returns the time this long ago.
pub(crate) fn before(age: std::time::Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp(environment::now().0.saturating_sub(age))
}

/// Formats how long ago a time was, or its date if it was long ago.
pub(crate) fn ago(now: Timestamp, then: Timestamp) -> String {
    let seconds = (now.0 - then.0) / 1000;
    match seconds {
        ..5 => "just now".to_owned(), // also if the clock was set back
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..172_800 => "1 day ago".to_owned(),
        172_800..2_592_000 => format!("{} days ago", seconds / 86_400),
        _ => then.to_string().chars().take(10).collect(),
    }
}

/// Formats a number of seconds.
pub(crate) fn span(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a path, with `~` for the home directory.
pub(crate) fn shown_dir(dir: &Path) -> String {
    relative_to_home(dir, environment::home().as_deref())
}

fn relative_to_home(dir: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| dir.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => dir.display().to_string(),
    }
}

fn show(store: &Store, args: &SessionsShowArgs) -> Result<Code> {
    let row = resolve(store, &args.id)?;
    if args.json {
        print_json(&as_json(&row));
        return Ok(exit::OK);
    }
    if args.output == crate::args::Format::Human {
        head(&row);
    }
    let view = View {
        is_stored: true,
        shows_prompts: true,
        ..View::default()
    };
    let mut shown = output::open(args.output, view);
    let mut ended = false;
    for events in pages(store, &row.session) {
        let events = events?;
        let last = events.last().map(|last| &last.kind);
        ended = matches!(last, Some(EventKind::Ended(_)));
        let mut events = events.iter();
        let written = events.try_for_each(|event| shown.event(event));
        if let Err(error) = written.and_then(|()| shown.flush()) {
            return output::on_write_error(&error);
        }
    }
    drop(shown);
    if !ended {
        errln!(
            "{WARN}!{WARN:#} the session is incomplete: {}",
            row.status.as_str()
        );
    }
    Ok(exit::OK)
}

/// Prints the details of a session before its events.
fn head(row: &SessionRow) {
    let version = row.agent_version.as_deref();
    let version = version.map(|version| format!(" {}", name(version)));
    let agent = format!("{}{}", name(&row.agent), version.unwrap_or_default());
    let of_agent = |id: &String| (*id != row.session).then(|| name(id));
    let ago = ago(environment::now(), row.began_at);
    let rows = [
        ("session", Some(name(&row.session))),
        ("agent", Some(agent)),
        ("agent's id", row.native_session.as_ref().and_then(of_agent)),
        ("model", row.model.as_deref().map(name)),
        ("directory", Some(one_line(&shown_dir(&row.dir), 200))),
        ("began", Some(format!("{} ({ago})", row.began_at))),
        ("continues", row.continues.as_deref().map(short_id)),
    ];
    for (key, value) in rows {
        if let Some(value) = value {
            errln!("{DIM}{key:>12}{DIM:#}  {value}");
        }
    }
    eprint_line("");
}

fn prune(store: &Store, args: &SessionsPruneArgs) -> Result<Code> {
    let keep = PruneLimits {
        older_than: args.older_than.map(before),
        larger_than_bytes: args.larger_than.map(|size| size.0),
    };
    let pruned = store.prune(&keep, args.dry_run)?;
    if args.json {
        let report =
            json!({ "dry_run": args.dry_run, "sessions": pruned.sessions, "bytes": pruned.bytes });
        print_json(&report);
        return Ok(exit::OK);
    }
    if args.dry_run {
        pruned.sessions.iter().for_each(|id| print_line(&name(id)));
    }
    let sessions = counted(pruned.sessions.len() as u64, "session");
    let verb = if args.dry_run {
        "Would remove"
    } else {
        "Removed"
    };
    errln!("{verb} {sessions}, {}", size(pruned.bytes));
    Ok(exit::OK)
}

fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let size = bytes as f64;
    match size {
        ..1e3 => format!("{bytes} bytes"),
        ..1e6 => format!("{:.1} KB", size / 1e3),
        ..1e9 => format!("{:.1} MB", size / 1e6),
        _ => format!("{:.1} GB", size / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_paths_and_sizes_are_short() {
        let second = 1_000;
        for (seconds, want) in [
            (-9, "just now"),
            (4, "just now"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (7_200, "2 h ago"),
            (86_400, "1 day ago"),
            (172_800, "2 days ago"),
            (2_592_000, "1970-01-01"),
        ] {
            assert_eq!(
                ago(Timestamp(seconds * second), Timestamp(0)),
                want,
                "{seconds}"
            );
        }
        let home = Some(Path::new("/home/u"));
        for (dir, want) in [
            ("/home/u", "~"),
            ("/home/u/a", "~/a"),
            ("/home/user", "/home/user"),
            ("/", "/"),
        ] {
            assert_eq!(relative_to_home(Path::new(dir), home), want);
        }
        for (bytes, want) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_500, "1.5 KB"),
            (2_000_000_000, "2.0 GB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
