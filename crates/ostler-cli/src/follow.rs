//! Showing a session to its end, while signals and limits are heeded whether anybody reads or not.

use std::io;
use std::time::Duration;

use ostler::{Event, Remote, Session, What};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{self, Batch, Output, Writer};
use crate::signals::{Caught, Signals};

/// How often the status line moves.
const TICK: Duration = Duration::from_millis(100);

/// For how many ticks a reader that takes nothing is waited for after a second signal.
const LAST_CHANCE: u32 = 10;

/// Shows a session to its end and turns its ending into an exit code.
pub(crate) async fn follow(mut session: Session, shown: Box<dyn Output>, mut signals: Signals) -> Result<Code, Fault> {
    let live = shown.is_live();
    let Writer { to, mut done } = Writer::start(shown).map_err(Fault::internal)?;
    let mut following = Following::new(session.remote(), to);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    while !following.is_over() {
        following.close_if_all_is_said();
        tokio::select! {
            event = session.next(), if following.wants_events() => following.hear(event),
            () = following.say(), if following.has_something_to_say() => {}
            // A writer that is gone without a word has panicked.
            result = &mut done, if following.end.is_none() => {
                following.written(result.unwrap_or_else(|_| Err(io::Error::other("the writer is gone"))));
            }
            caught = signals.next() => following.obey(caught),
            now = ticks.tick(), if live || following.in_a_hurry() => {
                following.tick(now - *began.get_or_insert(now));
            }
        }
    }
    match following.end {
        Some(End::Gone(error)) => output::gone(&error),
        _ => Ok(following.code),
    }
}

/// How the showing ended.
#[derive(Debug)]
enum End {
    /// All of it was written.
    Shown,
    /// It cannot be written.
    Gone(io::Error),
    /// It was not read, and somebody told us to end.
    Abandoned,
}

struct Following {
    remote: Remote,
    to: Option<mpsc::Sender<Batch>>,
    waiting: Batch,
    /// Whether the session is over: its agent is gone.
    over: bool,
    end: Option<End>,
    code: Code,
    signals: u32,
    stuck: u32,
}

impl Following {
    fn new(remote: Remote, to: mpsc::Sender<Batch>) -> Self {
        Self {
            remote,
            to: Some(to),
            waiting: Batch::default(),
            over: false,
            end: None,
            code: exit::INTERNAL,
            signals: 0,
            stuck: 0,
        }
    }

    /// The agent is always brought to its end, whatever became of the output.
    fn is_over(&self) -> bool {
        self.over && self.end.is_some()
    }

    fn wants_events(&self) -> bool {
        !self.over && self.waiting.has_room()
    }

    fn has_something_to_say(&self) -> bool {
        self.end.is_none() && !self.waiting.is_empty()
    }

    /// Hands over what waits, as soon as the writer takes it. It can be dropped without losing anything.
    async fn say(&mut self) {
        let Some(to) = &self.to else { return std::future::pending().await };
        if let Ok(permit) = to.reserve().await {
            permit.send(std::mem::take(&mut self.waiting));
            self.stuck = 0;
        } else {
            self.to = None; // the writer has stopped, and says why
        }
    }

    fn in_a_hurry(&self) -> bool {
        self.signals > 1 && self.end.is_none()
    }

    fn close_if_all_is_said(&mut self) {
        if self.over && self.waiting.is_empty() {
            self.to = None;
        }
    }

    fn hear(&mut self, event: Option<Event>) {
        let Some(event) = event else {
            self.over = true;
            return;
        };
        if let What::Ended(ended) = &event.what {
            self.code = exit::of(ended.outcome.cause);
        }
        if self.end.is_none() {
            self.waiting.push(event);
        }
    }

    fn written(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.remote.stop(); // nobody reads any more: the agent need not go on
            self.finish(End::Gone(error));
        } else {
            self.finish(End::Shown);
        }
    }

    fn finish(&mut self, end: End) {
        self.end = Some(end);
        self.waiting = Batch::default();
    }

    fn obey(&mut self, caught: Caught) {
        if self.over {
            // Only a reader was waited for.
            return self.finish(End::Abandoned);
        }
        self.signals += 1;
        match (caught, self.signals) {
            (Caught::Terminate, _) => self.remote.stop(),
            (Caught::Interrupt, 1) => {
                self.waiting.remark("interrupting; Ctrl-C again kills");
                self.remote.interrupt();
            }
            (Caught::Interrupt, _) => self.remote.kill(),
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        // Without room the line cannot move anyway.
        if let Some(to) = &self.to {
            let _ = to.try_send(Batch::tick(elapsed));
        }
        if !self.in_a_hurry() || (self.waiting.is_empty() && !self.over) {
            self.stuck = 0;
            return;
        }
        self.stuck += 1;
        if self.stuck > LAST_CHANCE {
            self.finish(End::Abandoned);
        }
    }
}
