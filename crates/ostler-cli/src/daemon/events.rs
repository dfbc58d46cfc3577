//! Events of a session of the daemon. A task reads them, and connects again if the connection
//! breaks.

use std::time::Duration;

use ostler::event::SessionState;
use ostler::{Event, EventKind};
use ostler_daemon::client::{Client, ClientError, EventStream};
use tokio::sync::{broadcast, mpsc};

use crate::fault::{Fault, Result};

/// Maximum number of events between the task and the screen.
const CAPACITY: usize = 256;

/// How long to wait before connecting again.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// What happened to a session that is being followed.
#[derive(Debug)]
pub(crate) enum Update {
    Event(Event),
    /// This many earlier turns are not shown.
    Skipped(u32),
    /// Everything from now on is new.
    CaughtUp,
    /// A request for the session failed, as a sentence.
    RequestFailed(String),
    /// No event follows.
    End,
    /// The session cannot be followed any further.
    Failed(Fault),
}

/// What is shown of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    LastTurn,
    All,
}

/// The events of a session.
pub(crate) struct DaemonEvents {
    updates: mpsc::Receiver<Update>,
    failures: broadcast::Receiver<String>,
}

impl DaemonEvents {
    /// Starts to read.
    pub(super) fn read(
        client: Client,
        id: String,
        history: History,
        failures: broadcast::Receiver<String>,
    ) -> Self {
        let (to, updates) = mpsc::channel(CAPACITY);
        let reader = Reader {
            client,
            id,
            seq: 0,
            to: to.clone(),
            held: (history == History::LastTurn).then(LastTurn::default),
        };
        tokio::spawn(async move {
            let last = match reader.run().await {
                Ok(()) => Update::End,
                Err(fault) => Update::Failed(fault),
            };
            let _ = to.send(last).await; // the receiver may be gone
        });
        Self { updates, failures }
    }

    /// Waits for the next update. Cancel safe.
    pub(crate) async fn next(&mut self) -> Update {
        tokio::select! {
            update = self.updates.recv() => update.unwrap_or(Update::End),
            Ok(why) = self.failures.recv() => Update::RequestFailed(why),
        }
    }
}

struct Reader {
    client: Client,
    id: String,
    /// Number of the last event.
    seq: u64,
    to: mpsc::Sender<Update>,
    /// The past, until it is known which turn is the last.
    held: Option<LastTurn>,
}

/// The last turn of the past.
#[derive(Default)]
struct LastTurn {
    /// The `started` event, which the screen needs.
    started: Option<Event>,
    events: Vec<Event>,
    turns: u32,
}

impl LastTurn {
    fn push(&mut self, event: Event) {
        match &event.kind {
            EventKind::Started(_) => self.started = Some(event.clone()),
            EventKind::TurnStarted(_) => {
                self.turns += 1;
                self.events.clear();
            }
            _ => {}
        }
        self.events.push(event);
    }
}

impl Reader {
    async fn run(mut self) -> Result<()> {
        let mut stream = self.client.events(&self.id, 0).await?;
        loop {
            match self.connection(&mut stream).await {
                Ok(true) => return Ok(()),
                Ok(false) if self.is_over().await? => {
                    self.release().await;
                    return Err(Fault::internal(
                        "the session was cut off: it has no last event",
                    ));
                }
                Ok(false) | Err(ClientError::Connection(_) | ClientError::Silent) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
            let connected = self.client.events(&self.id, self.seq).await;
            stream = connected.map_err(|error| self.lost(error))?;
        }
    }

    /// Reads one connection. Returns true if its last event was that of the session.
    async fn connection(&mut self, stream: &mut EventStream) -> Result<bool, ClientError> {
        let unreadable = |error: serde_json::Error| ClientError::Response(error.to_string());
        while let Some(frame) = stream.next().await? {
            match frame.event.as_str() {
                "message" => {
                    let event = Event::from_json(&frame.data).map_err(unreadable)?;
                    let is_last = matches!(event.kind, EventKind::Ended(_));
                    self.seq = event.seq;
                    match &mut self.held {
                        Some(held) => held.push(event),
                        None => self.send(Update::Event(event)).await,
                    }
                    if is_last {
                        self.release().await;
                        return Ok(true);
                    }
                }
                "caught_up" => {
                    self.release().await;
                    self.send(Update::CaughtUp).await;
                }
                "problem" => {
                    let problem = serde_json::from_str(&frame.data).map_err(unreadable)?;
                    return Err(ClientError::Problem(problem));
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Sends the last turn of the past.
    async fn release(&mut self) {
        let Some(held) = self.held.take() else { return };
        if held.turns > 1 {
            self.send(Update::Skipped(held.turns - 1)).await;
        }
        let first = held.events.first().map_or(0, |event| event.seq);
        let started = held.started.filter(|started| started.seq < first);
        for event in started.into_iter().chain(held.events) {
            self.send(Update::Event(event)).await;
        }
    }

    /// Returns true if no process runs the session. It has no last event if the daemon was killed.
    async fn is_over(&self) -> Result<bool> {
        let session = self.client.session(&self.id).await;
        let session = session.map_err(|error| self.lost(error))?;
        Ok(session.state == SessionState::Ended)
    }

    async fn send(&self, update: Update) {
        let _ = self.to.send(update).await; // the receiver is gone if the program is exiting
    }

    /// The error if the daemon is gone.
    fn lost(&self, error: ClientError) -> Fault {
        if !matches!(error, ClientError::NotRunning { .. }) {
            return error.into();
        }
        let id = ostler::render::display::short_id(&self.id);
        Fault::unavailable("the daemon stopped").hint(format!(
            "`ostler sessions show {id}` shows the session; `ostler serve --detach` starts the \
             daemon again"
        ))
    }
}

#[cfg(test)]
mod tests {
    use ostler::event::{Origin, Timestamp, TurnStarted};

    use super::*;

    #[test]
    fn only_the_last_turn_of_the_past_is_held() {
        let started = |seq| Event {
            seq,
            at: Timestamp(0),
            session: "s".into(),
            turn: 1,
            kind: EventKind::TurnStarted(TurnStarted {
                origin: Origin::Caller,
                prompt: None,
            }),
        };
        let mut held = LastTurn::default();
        (1..=3).for_each(|seq| held.push(started(seq)));
        let seqs: Vec<u64> = held.events.iter().map(|event| event.seq).collect();
        assert_eq!((held.turns, seqs), (3, vec![3]));
    }
}
