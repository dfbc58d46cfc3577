//! Follows a session to its end: shows events, asks questions and handles signals, even if nothing
//! reads the output.

use std::time::Duration;

use ostler::{Event, EventKind, Remote, Session};
use tokio::time::MissedTickBehavior;

use crate::args::Format;
use crate::ask::Prompter;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, View};
use crate::screen::{End, Screen, WriterResult};
use crate::signals::{SignalAction, Signals};

/// Refresh interval of the status line.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Number of ticks to wait for a blocked reader after a second signal.
const FORCED_TICKS: u32 = 10;

/// A session that has started, and what belongs to it.
pub(crate) struct StartedRun {
    pub(crate) session: Session,
    pub(crate) prompter: Prompter,
    pub(crate) signals: Signals,
    pub(crate) view: View,
}

/// Shows a run to its end and returns its exit code. A run that could not start is reported in the
/// same format.
pub(crate) async fn follow(format: Format, begun: Result<StartedRun>) -> Result<Code> {
    let StartedRun {
        mut session,
        mut prompter,
        mut signals,
        view,
    } = output::reporting(format, begun)?;
    let shown = output::open(format, view);
    let live = shown.is_live();
    let (screen, mut done) = Screen::open(shown).map_err(Fault::internal)?;
    let mut follower = Follower::new(session.remote(), screen);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    while !follower.is_over() {
        follower.close_if_drained();
        prompter.ask_if_due(&mut follower.screen);
        tokio::select! {
            event = session.next(), if follower.wants_events() => {
                follower.on_event(event, &mut prompter);
            }
            sent = follower.screen.send(), if follower.screen.has_pending() => {
                follower.on_sent(sent);
            }
            // A writer that disappears without a result has panicked.
            result = &mut done, if follower.screen.end().is_none() => {
                follower.on_writer_done(result);
            }
            heard = prompter.next() => prompter.handle(heard, &mut follower.screen),
            caught = signals.next() => follower.on_signal(caught, &mut prompter),
            now = ticks.tick(), if live || follower.is_forced() => {
                follower.tick(now - *began.get_or_insert(now));
            }
        }
    }
    match follower.screen.into_end() {
        Some(End::Gone(error)) => output::on_write_error(&error),
        _ => Ok(follower.code),
    }
}

struct Follower {
    remote: Remote,
    screen: Screen,
    /// Whether the session has ended and its agent is gone.
    is_ended: bool,
    code: Code,
    signals: u32,
    stuck_ticks: u32,
}

impl Follower {
    fn new(remote: Remote, screen: Screen) -> Self {
        Self {
            remote,
            screen,
            is_ended: false,
            code: exit::INTERNAL,
            signals: 0,
            stuck_ticks: 0,
        }
    }

    /// The agent is always stopped, whatever happens to the output.
    fn is_over(&self) -> bool {
        self.is_ended && self.screen.end().is_some()
    }

    fn wants_events(&self) -> bool {
        !self.is_ended && self.screen.has_room()
    }

    fn on_sent(&mut self, taken: bool) {
        if taken {
            self.stuck_ticks = 0;
        }
    }

    fn is_forced(&self) -> bool {
        self.signals > 1 && self.screen.end().is_none()
    }

    fn close_if_drained(&mut self) {
        if self.is_ended {
            self.screen.close_if_drained();
        }
    }

    fn on_event(&mut self, event: Option<Event>, prompter: &mut Prompter) {
        let Some(event) = event else {
            self.is_ended = true;
            return;
        };
        if let EventKind::Ended(ended) = &event.kind {
            self.code = exit::of(ended.outcome.cause);
        }
        prompter.on_event(&event, &mut self.screen);
        self.screen.push(event);
    }

    fn on_writer_done(&mut self, result: WriterResult) {
        if !self.screen.on_writer_done(result) {
            self.remote.stop(); // the output has no reader, so the agent can stop
        }
    }

    fn on_signal(&mut self, caught: SignalAction, prompter: &mut Prompter) {
        if caught == SignalAction::Continue {
            return prompter.show_again(&mut self.screen);
        }
        if self.is_ended {
            // Only a blocked reader was left to wait for.
            return self.screen.finish(End::Abandoned);
        }
        self.signals += 1;
        prompter.drop_question(&mut self.screen);
        match (caught, self.signals) {
            (SignalAction::Interrupt, 1) => {
                self.screen
                    .remark("interrupting; press Ctrl-C again to kill the agent");
                self.remote.interrupt();
            }
            (SignalAction::Interrupt, _) => self.remote.kill(),
            _ => self.remote.stop(),
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        self.screen.tick(elapsed);
        if !self.is_forced() || (self.screen.is_clear() && !self.is_ended) {
            self.stuck_ticks = 0;
            return;
        }
        self.stuck_ticks += 1;
        if self.stuck_ticks > FORCED_TICKS {
            self.screen.finish(End::Abandoned);
        }
    }
}
