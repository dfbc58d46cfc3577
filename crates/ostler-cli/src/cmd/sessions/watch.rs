//! `ostler sessions --watch`: the sessions of the daemon as they change.

use std::collections::HashMap;
use std::time::Duration;

use ostler::event::{SessionState, Timestamp};
use ostler_daemon::api::SessionView;
use ostler_daemon::client::{Client, ClientError};
use tokio::sync::mpsc;

use super::{short_id, shown_cost, span};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::style::{BAD, DIM, GOOD, WARN};
use crate::output::{Align, LiveLines, counted, name, one_line, table_lines, thousands};
use crate::signals::{SignalAction, Signals};
use crate::{daemon, environment, output};

/// Minimum time between two redraws.
const REDRAW: Duration = Duration::from_millis(250);

/// How often the table is redrawn if nothing happens, because sessions age.
const AGING: Duration = Duration::from_secs(1);

/// Maximum number of sessions shown that have ended since the start.
const MAX_ENDED: usize = 10;

/// Shows the sessions until a signal arrives or the daemon stops.
pub(crate) async fn watch() -> Result<Code> {
    let client = daemon::client()?;
    let mut signals = Signals::listen()?;
    let mut changes = changes(&client).await?;
    let mut watched = Watched::default();
    let mut live = LiveLines::open();
    loop {
        watched.refresh(&client).await.map_err(stopped)?;
        let written = match &mut live {
            Some(live) => live.draw(&watched.table(environment::now())),
            None => output::print_bytes(watched.changes().as_bytes()),
        };
        if let Err(error) = written {
            return output::on_write_error(&error);
        }
        tokio::select! {
            changed = changes.recv() => if changed.is_none() {
                return Err(daemon_stopped());
            },
            () = tokio::time::sleep(AGING), if live.is_some() => {}
            () = stop_signal(&mut signals) => return Ok(exit::OK),
        }
        tokio::select! {
            () = tokio::time::sleep(REDRAW) => {}
            () = stop_signal(&mut signals) => return Ok(exit::OK),
        }
    }
}

/// Waits for a signal that ends the program. Cancel safe.
async fn stop_signal(signals: &mut Signals) {
    while signals.next().await == SignalAction::Continue {}
}

/// Returns a channel that has an item if something changed. It is closed if the daemon stops.
async fn changes(client: &Client) -> Result<mpsc::Receiver<()>> {
    let mut stream = client.all_events().await?;
    let (changed, changes) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok(Some(_)) = stream.next().await {
            let _ = changed.try_send(()); // one item is enough
        }
    });
    Ok(changes)
}

fn stopped(error: ClientError) -> Fault {
    match error {
        ClientError::NotRunning { .. } | ClientError::Connection(_) => daemon_stopped(),
        error => error.into(),
    }
}

fn daemon_stopped() -> Fault {
    Fault::unavailable("the daemon stopped").hint("start it with `ostler serve --detach`")
}

/// The sessions as they were last seen.
#[derive(Default)]
struct Watched {
    /// Running sessions: those that wait for approval first, then the newest.
    running: Vec<WatchedSession>,
    /// Sessions that have ended since the start, newest first.
    ended: Vec<WatchedSession>,
    /// What was printed last about each session.
    printed: HashMap<String, String>,
}

struct WatchedSession {
    view: SessionView,
    waits_for_approval: bool,
}

impl Watched {
    async fn refresh(&mut self, client: &Client) -> Result<(), ClientError> {
        let pending = client.approvals("state=pending").await?.approvals;
        let views = client.sessions("limit=500").await?.sessions;
        let session = |view: SessionView| WatchedSession {
            waits_for_approval: pending.iter().any(|it| it.session == view.id),
            view,
        };
        let mut running: Vec<WatchedSession> = views.into_iter().map(session).collect();
        running.sort_by_key(|session| !session.waits_for_approval);
        for earlier in std::mem::replace(&mut self.running, running) {
            let is_same = |now: &WatchedSession| now.view.id == earlier.view.id;
            // A session that cannot be found was deleted.
            if !self.running.iter().any(is_same)
                && let Ok(view) = client.session(&earlier.view.id).await
            {
                let ended = WatchedSession {
                    view,
                    waits_for_approval: false,
                };
                self.ended.insert(0, ended);
            }
        }
        self.ended.truncate(MAX_ENDED);
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &WatchedSession> {
        self.running.iter().chain(&self.ended)
    }

    /// Returns the lines of the table, for a terminal.
    fn table(&self, now: Timestamp) -> Vec<String> {
        let waiting = self
            .running
            .iter()
            .filter(|it| it.waits_for_approval)
            .count();
        let mut head = counted(self.running.len() as u64, "running session");
        if waiting > 0 {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            head.push_str(&format!(
                " · {WARN}{waiting} {verb} for approval{WARN:#}: answer with `ostler approvals`"
            ));
        }
        let mut lines = vec![format!("{head} {DIM}· Ctrl-C to quit{DIM:#}")];
        if self.all().next().is_none() {
            return lines;
        }
        let rows: Vec<_> = self.all().map(|session| session.cells(now)).collect();
        let heads = [
            ("session", Align::Left),
            ("state", Align::Left),
            ("agent", Align::Left),
            ("model", Align::Left),
            ("turns", Align::Right),
            ("tokens", Align::Right),
            ("cost", Align::Right),
            ("age", Align::Right),
            ("task", Align::Left),
        ];
        let mut table = table_lines(heads, &rows).into_iter();
        lines.extend(table.next().map(|head| format!("{DIM}{head}{DIM:#}")));
        let styles = self.all().map(WatchedSession::style);
        lines.extend(
            table
                .zip(styles)
                .map(|(line, style)| format!("{style}{line}{style:#}")),
        );
        lines
    }

    /// Returns one line for each session that changed, for a pipe.
    fn changes(&mut self) -> String {
        let mut lines = String::new();
        let mut printed = std::mem::take(&mut self.printed);
        for session in self.all() {
            let line = session.line();
            if printed.get(&session.view.id) != Some(&line) {
                lines.push_str(&line);
                lines.push('\n');
                printed.insert(session.view.id.clone(), line);
            }
        }
        self.printed = printed;
        lines
    }
}

impl WatchedSession {
    /// Returns the state, or how the session ended.
    fn state(&self) -> &str {
        match (&self.view.outcome, self.waits_for_approval) {
            (_, true) => "approval",
            (Some(outcome), false) => outcome.cause.as_str(),
            (None, false) => self.view.state.as_str(),
        }
    }

    fn style(&self) -> anstyle::Style {
        match self.view.state {
            _ if self.waits_for_approval => WARN,
            SessionState::Ended if self.view.status == "FAILED" => BAD,
            SessionState::Ended => DIM,
            SessionState::Working => GOOD,
            _ => anstyle::Style::new(),
        }
    }

    fn prompt(&self) -> &str {
        self.view.prompt.as_deref().unwrap_or_default().trim_start()
    }

    /// Returns the task, after the name if the user chose one.
    fn task(&self) -> String {
        let (view, prompt) = (&self.view, self.prompt());
        let default = format!("{}-{}", view.agent, short_id(&view.id));
        if view.name == default {
            one_line(prompt, 60)
        } else {
            one_line(&format!("{}: {prompt}", view.name), 60)
        }
    }

    fn cells(&self, now: Timestamp) -> [String; 9] {
        let view = &self.view;
        let tokens = view.usage.tokens.map_or_else(|| "–".to_owned(), thousands);
        let age = view
            .created_at
            .parse()
            .map(|began: Timestamp| (now.0 - began.0) / 1000);
        [
            short_id(&view.id),
            self.state().to_owned(),
            name(&view.agent),
            view.model
                .as_deref()
                .map_or_else(|| "–".to_owned(), |model| one_line(model, 24)),
            view.turns.to_string(),
            tokens,
            shown_cost(view.usage.cost_usd, view.usage.cost_source),
            age.map_or_else(|_| String::new(), |age| span(age.max(0))),
            self.task(),
        ]
    }

    fn line(&self) -> String {
        let turns = counted(self.view.turns.into(), "turn");
        format!(
            "{}  {}  {}  {turns}  {}",
            short_id(&self.view.id),
            name(&self.view.name),
            self.state(),
            one_line(self.prompt(), 60)
        )
        .trim_end()
        .to_owned()
    }
}
