//! Follows a session to its end: shows events, asks questions and handles signals, even if nothing
//! reads the output.

use std::io;
use std::pin::pin;
use std::time::Duration;

use ostler::event::{Decision, SessionState};
use ostler::render::display::short_id;
use ostler::{Cause, Event, EventKind, Session};
use tokio::time::MissedTickBehavior;

use crate::args::Format;
use crate::ask::{Prompter, PrompterEvent};
use crate::composer::{AttachCommand, Composed, Composer};
use crate::control::Control;
use crate::daemon::{DaemonEvents, DaemonSession, History, Update};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::line_editor;
use crate::output::style::DIM;
use crate::output::{self, View, counted, name};
use crate::screen::{End, Screen, WriterResult};
use crate::signals::{SignalAction, Signals};
use crate::waiting::or_pending;

/// Refresh interval of the status line.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Number of ticks to wait for a blocked reader after a second signal.
const FORCED_TICKS: u32 = 10;

/// Events of a session that is being followed.
enum Source {
    Local(Box<Session>),
    Daemon(DaemonEvents),
}

impl Source {
    /// Waits for the next update. Cancel safe.
    async fn next(&mut self) -> Update {
        match self {
            Self::Local(session) => session.next().await.map_or(Update::End, Update::Event),
            Self::Daemon(events) => events.next().await,
        }
    }
}

/// A session that has started, and what belongs to it.
pub(crate) struct StartedRun {
    source: Source,
    control: Control,
    prompter: Prompter,
    signals: Signals,
    view: View,
    /// Whether this program only shows the session: Ctrl-C leaves it running.
    is_attached: bool,
    composer: Option<Composer>,
}

impl StartedRun {
    /// A session of this process.
    pub(crate) fn local(
        session: Session,
        prompter: Prompter,
        signals: Signals,
        view: View,
    ) -> Self {
        Self {
            control: session.remote().into(),
            source: Source::Local(Box::new(session)),
            prompter,
            signals,
            view,
            is_attached: false,
            composer: None,
        }
    }

    /// A session of the daemon that this program has started.
    pub(crate) fn in_daemon(
        session: &DaemonSession,
        history: History,
        prompter: Prompter,
        signals: Signals,
        view: View,
    ) -> Self {
        Self {
            source: Source::Daemon(session.events(history)),
            control: Control::Daemon(session.clone()),
            prompter,
            signals,
            view,
            is_attached: false,
            composer: None,
        }
    }

    /// Makes this program only show the session, and write messages with the composer.
    pub(crate) fn attached(self, composer: Option<Composer>) -> Self {
        Self {
            is_attached: true,
            composer,
            ..self
        }
    }
}

/// Shows a run to its end and returns its exit code. A run that could not start is reported in the
/// same format.
pub(crate) async fn follow(format: Format, begun: Result<StartedRun>) -> Result<Code> {
    let StartedRun {
        mut source,
        control,
        mut prompter,
        mut signals,
        view,
        is_attached,
        mut composer,
    } = output::reporting(format, begun)?;
    let shown = match &composer {
        Some(composer) => output::open_chat(view, |place| composer.writer(place)),
        None => output::open(format, view),
    };
    let live = shown.is_live();
    let (screen, mut done) = Screen::open(shown).map_err(Fault::internal)?;
    let mut follower = Follower::new(control, screen, format, is_attached);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    let mut reader_is_gone = pin!(output::reader_is_gone());
    while !follower.is_over() {
        follower.close_if_drained();
        follower.advance(&mut prompter, composer.as_mut());
        let is_typing = composer.as_ref().is_some_and(Composer::is_up);
        let has_status = live && follower.is_busy() && !is_typing;
        let composed = composer.as_mut().filter(|_| !follower.is_ended);
        tokio::select! {
            update = source.next(), if follower.wants_events() => {
                follower.on_update(update, &mut prompter, composer.as_mut());
            }
            sent = follower.screen.send(), if follower.screen.has_pending() => {
                follower.on_sent(sent);
            }
            // A writer that disappears without a result has panicked.
            result = &mut done, if follower.screen.end().is_none() => {
                follower.on_writer_done(result);
            }
            () = &mut reader_is_gone, if follower.screen.end().is_none() => {
                follower.on_writer_done(Ok(Err(io::ErrorKind::BrokenPipe.into())));
            }
            heard = prompter.next() => follower.on_answer(heard, &mut prompter),
            composed = or_pending(composed.map(Composer::next)) => {
                follower.on_composed(composed, &mut prompter, composer.as_mut());
            }
            caught = signals.next() => follower.on_signal(caught, &mut prompter),
            now = ticks.tick(), if has_status || follower.is_forced() => {
                follower.tick(now - *began.get_or_insert(now));
            }
        }
    }
    if composer.is_some_and(|composer| composer.is_up()) {
        line_editor::abandon();
    }
    output::reporting(format, follower.finish())
}

struct Follower {
    control: Control,
    screen: Screen,
    format: Format,
    /// Whether this program only shows the session.
    is_attached: bool,
    /// Whether the session has ended and its agent is gone, or this program has detached from it.
    is_ended: bool,
    /// Whether everything from now on is new.
    is_caught_up: bool,
    /// Whether the agent is starting or working. Always true for a run of one turn.
    is_working: bool,
    code: Code,
    fault: Option<Fault>,
    signals: u32,
    stuck_ticks: u32,
}

impl Follower {
    fn new(control: Control, screen: Screen, format: Format, is_attached: bool) -> Self {
        Self {
            is_caught_up: matches!(control, Control::Local(_)),
            control,
            screen,
            format,
            is_attached,
            is_ended: false,
            is_working: true,
            code: exit::INTERNAL,
            fault: None,
            signals: 0,
            stuck_ticks: 0,
        }
    }

    /// The agent is always stopped, whatever happens to the output.
    fn is_over(&self) -> bool {
        self.is_ended && self.screen.end().is_some()
    }

    fn finish(self) -> Result<Code> {
        match (self.fault, self.screen.into_end()) {
            (Some(fault), _) => Err(fault),
            (None, Some(End::Gone(error))) => output::on_write_error(&error),
            (None, _) => Ok(self.code),
        }
    }

    /// Returns true if the status line is shown.
    fn is_busy(&self) -> bool {
        self.is_caught_up && self.is_working && !self.is_ended
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

    /// Shows the next question, or the prompt for a message if the agent is idle.
    fn advance(&mut self, prompter: &mut Prompter, composer: Option<&mut Composer>) {
        // A question of the past may have been answered.
        if self.is_ended || !self.is_caught_up {
            return;
        }
        match composer {
            Some(composer) if composer.is_up() => {
                if prompter.has_waiting() {
                    composer.announce_question(&mut self.screen);
                }
            }
            Some(composer) if !self.is_working => composer.show(&mut self.screen),
            _ => prompter.ask_if_due(&mut self.screen),
        }
    }

    fn on_update(
        &mut self,
        update: Update,
        prompter: &mut Prompter,
        composer: Option<&mut Composer>,
    ) {
        match update {
            Update::Event(event) => self.on_event(event, prompter, composer),
            Update::CaughtUp => self.is_caught_up = true,
            Update::RequestFailed(why) => self.remark(why),
            Update::Skipped(turns) => {
                let turns = counted(turns.into(), "earlier turn");
                self.screen.line(format!(
                    "{DIM}· {turns} not shown; `--all` shows them{DIM:#}"
                ));
            }
            Update::End => self.is_ended = true,
            Update::Failed(fault) => {
                self.fault = Some(fault);
                self.is_ended = true;
                prompter.drop_question(&mut self.screen);
            }
        }
    }

    fn on_event(
        &mut self,
        mut event: Event,
        prompter: &mut Prompter,
        composer: Option<&mut Composer>,
    ) {
        match &event.kind {
            EventKind::Ended(ended) => self.code = exit::of(ended.outcome.cause),
            EventKind::TurnStarted(_) => self.is_working = true,
            EventKind::TurnEnded(_) if self.is_attached => self.is_working = false,
            EventKind::State(state) if self.is_attached => {
                self.is_working = !matches!(state.to, SessionState::Idle | SessionState::Paused);
            }
            EventKind::Permission(permission)
                if permission.decision == Decision::Asked && !prompter.is_attended() =>
            {
                self.announce_request(&permission.tool);
            }
            _ => {}
        }
        prompter.on_event(&event, &mut self.screen);
        if let Some(composer) = composer {
            composer.on_event(&mut event);
        }
        self.screen.push(event);
    }

    /// Says that a request of the daemon waits for an answer, which this program cannot ask for.
    fn announce_request(&mut self, tool: &str) {
        if !self.is_caught_up || matches!(self.control, Control::Local(_)) {
            return;
        }
        let text = format!(
            "{} waits for approval: answer with `ostler approvals`",
            name(tool)
        );
        self.remark(text);
    }

    /// Shows a sentence that is no event.
    fn remark(&mut self, text: String) {
        match self.format {
            Format::Human => self.screen.remark(text),
            Format::Text | Format::Json | Format::Events => errln!("{text}"),
        }
    }

    fn on_writer_done(&mut self, result: WriterResult) {
        if self.screen.on_writer_done(result) {
            return;
        }
        match &self.control {
            // The output has no reader, so the agent can stop.
            Control::Local(remote) => remote.stop(),
            Control::Daemon(_) => self.is_ended = true,
        }
    }

    fn on_answer(&mut self, heard: PrompterEvent, prompter: &mut Prompter) {
        // The request still waits for an answer.
        if self.is_attached && heard.is_end() {
            return self.detach(exit::OK, prompter);
        }
        prompter.handle(heard, &mut self.screen);
    }

    fn on_composed(
        &mut self,
        composed: Composed,
        prompter: &mut Prompter,
        composer: Option<&mut Composer>,
    ) {
        let Some(composer) = composer else { return };
        match composed {
            Composed::Ready => composer.read(&prompter.typeahead()),
            Composed::Message(message) => composer.send(message),
            Composed::Command(command) => self.on_command(command, prompter),
            Composed::NotSent(fault) => self.screen.remark(fault.outcome().message),
            Composed::Nothing => {}
            Composed::Leave => self.detach(exit::OK, prompter),
        }
    }

    fn on_command(&mut self, command: AttachCommand, prompter: &mut Prompter) {
        match command {
            AttachCommand::Help => self.screen.remark(AttachCommand::HELP),
            AttachCommand::Detach => self.detach(exit::OK, prompter),
            AttachCommand::Interrupt => self.control.interrupt(),
            AttachCommand::Stop => self.control.stop(),
            AttachCommand::Unknown(command) => {
                let command = name(&command);
                let help = AttachCommand::HELP;
                self.screen
                    .remark(format!("unknown command {command}: {help}"));
            }
        }
    }

    /// Stops showing the session, which continues.
    fn detach(&mut self, code: Code, prompter: &mut Prompter) {
        prompter.drop_question(&mut self.screen);
        (self.is_ended, self.code) = (true, code);
        let Control::Daemon(session) = &self.control else {
            return;
        };
        let id = short_id(session.id());
        for line in [
            format!("{DIM}detached; the session continues{DIM:#}"),
            format!("  {DIM}attach again with: ostler attach {id}{DIM:#}"),
        ] {
            match self.format {
                Format::Human => self.screen.line(line),
                Format::Text | Format::Json | Format::Events => errln!("{line}"),
            }
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
        if self.is_attached && caught == SignalAction::Interrupt {
            return self.detach(exit::OK, prompter);
        }
        if caught == SignalAction::Terminate && matches!(self.control, Control::Daemon(_)) {
            return self.detach(exit::of(Cause::Stopped), prompter);
        }
        self.signals += 1;
        prompter.drop_question(&mut self.screen);
        match (caught, self.signals) {
            (SignalAction::Interrupt, 1) => {
                let what = match self.control {
                    Control::Local(_) => "kill the agent",
                    Control::Daemon(_) => "stop the session",
                };
                self.screen
                    .remark(format!("interrupting; press Ctrl-C again to {what}"));
                self.control.interrupt();
            }
            (SignalAction::Interrupt, _) => self.control.kill(),
            _ => self.control.stop(),
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
