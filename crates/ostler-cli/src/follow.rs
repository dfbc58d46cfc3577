//! Showing a session to its end, while signals and limits are heeded whether anybody reads or not.

use std::io;
use std::time::Duration;

use ostler::{Event, EventKind, Remote, Session};
use tokio::time::MissedTickBehavior;

use crate::ask::Asking;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{self, Output};
use crate::screen::{End, Screen};
use crate::signals::{Caught, Signals};

/// How often the status line moves.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// For how many ticks a reader that takes nothing is waited for after a second signal.
const LAST_CHANCE: u32 = 10;

/// Shows a session to its end and turns its ending into an exit code.
pub(crate) async fn follow(
    (mut session, mut asking): (Session, Asking),
    shown: Box<dyn Output>,
    mut signals: Signals,
) -> Result<Code, Fault> {
    let live = shown.is_live();
    let (screen, mut done) = Screen::open(shown).map_err(Fault::internal)?;
    let mut following = Following::new(session.remote(), screen);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    while !following.is_over() {
        following.close_if_all_is_said();
        asking.ask_if_due(&mut following.screen);
        tokio::select! {
            event = session.next(), if following.wants_events() => following.hear(event, &mut asking),
            said = following.screen.say(), if following.screen.has_something_to_say() => following.said(said),
            // A writer that is gone without a word has panicked.
            result = &mut done, if following.screen.end().is_none() => {
                following.written(result.unwrap_or_else(|_| Err(io::Error::other("the writer is gone"))));
            }
            heard = asking.next() => asking.hear(heard, &mut following.screen),
            caught = signals.next() => following.obey(caught, &mut asking),
            now = ticks.tick(), if live || following.in_a_hurry() => {
                following.tick(now - *began.get_or_insert(now));
            }
        }
    }
    match following.screen.into_end() {
        Some(End::Gone(error)) => output::gone(&error),
        _ => Ok(following.code),
    }
}

struct Following {
    remote: Remote,
    screen: Screen,
    /// Whether the session is over: its agent is gone.
    over: bool,
    code: Code,
    signals: u32,
    stuck: u32,
}

impl Following {
    fn new(remote: Remote, screen: Screen) -> Self {
        Self {
            remote,
            screen,
            over: false,
            code: exit::INTERNAL,
            signals: 0,
            stuck: 0,
        }
    }

    /// The agent is always brought to its end, whatever became of the output.
    fn is_over(&self) -> bool {
        self.over && self.screen.end().is_some()
    }

    fn wants_events(&self) -> bool {
        !self.over && self.screen.has_room()
    }

    fn said(&mut self, taken: bool) {
        if taken {
            self.stuck = 0;
        }
    }

    fn in_a_hurry(&self) -> bool {
        self.signals > 1 && self.screen.end().is_none()
    }

    fn close_if_all_is_said(&mut self) {
        if self.over {
            self.screen.close_if_all_is_said();
        }
    }

    fn hear(&mut self, event: Option<Event>, asking: &mut Asking) {
        let Some(event) = event else {
            self.over = true;
            return;
        };
        if let EventKind::Ended(ended) = &event.kind {
            self.code = exit::of(ended.outcome.cause);
        }
        asking.note(&event, &mut self.screen);
        self.screen.push(event);
    }

    fn written(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.remote.stop(); // nobody reads any more: the agent need not go on
            self.screen.finish(End::Gone(error));
        } else {
            self.screen.finish(End::Shown);
        }
    }

    fn obey(&mut self, caught: Caught, asking: &mut Asking) {
        if caught == Caught::Continue {
            return asking.show_again(&mut self.screen); // it asks for nothing
        }
        if self.over {
            // Only a reader was waited for.
            return self.screen.finish(End::Abandoned);
        }
        self.signals += 1;
        asking.drop_question(&mut self.screen);
        match (caught, self.signals) {
            (Caught::Interrupt, 1) => {
                self.screen.remark("interrupting; Ctrl-C again kills");
                self.remote.interrupt();
            }
            (Caught::Interrupt, _) => self.remote.kill(),
            _ => self.remote.stop(),
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        self.screen.tick(elapsed);
        if !self.in_a_hurry() || (self.screen.is_clear() && !self.over) {
            self.stuck = 0;
            return;
        }
        self.stuck += 1;
        if self.stuck > LAST_CHANCE {
            self.screen.finish(End::Abandoned);
        }
    }
}
