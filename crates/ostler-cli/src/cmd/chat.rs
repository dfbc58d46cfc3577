//! `ostler chat`: a conversation of many turns in the terminal. The line editor and the agent's
//! output alternate on the screen.

mod command;
mod in_daemon;
mod reports;
mod conversation;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ostler::config::Config;
use ostler::spec::{AfterTurn, Attendance, Denials, keys as setting};
use ostler::{Host, Session};
use ostler_store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, Sleep};

use self::conversation::{ConversationState, Leaving, PendingResume};
use crate::args::{ChatArgs, ViewArgs};
use crate::ask::{self, Prompter};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::follow::TICK;
use crate::line_editor::{self, Gate, LineInput};
use crate::output::style::DIM;
use crate::output::{self, Dialects, View, name, one_line};
use crate::screen::{End, Screen, WriterResult};
use crate::signals::{SignalAction, Signals};
use crate::spec::{self, ChosenAgent, LaunchContext, RequestedSpec};
use crate::store::{self, OpenedProject};
use crate::waiting::or_pending;
use crate::{config, daemon, environment};

/// Time within which a second Ctrl-C quits.
const QUIT_WINDOW: Duration = Duration::from_secs(2);

/// Runs the conversation until the user quits or the session ends.
pub(crate) async fn run(args: ChatArgs) -> Result<Code> {
    let is_terminal = ask::attendance() == Attendance::Attended && io::stdout().is_terminal();
    let is_default = is_terminal && !args.no_daemon && daemon::is_default(&args.start).await?;
    if args.daemon || args.fleet.fleet || is_default {
        return in_daemon::run(args, is_terminal).await;
    }
    let (setup, session) = start(args).await?;
    let mut signals = Signals::listen()?;
    let (mut chat, mut done) = Chat::open(setup, &session)?;
    let mut session = session;
    loop {
        chat.converse(&mut session, &mut signals, &mut done).await;
        let Some(Leaving::Resume(next)) = chat.conversation.leaving.take() else {
            break;
        };
        session = chat.switch_session(*next);
    }
    chat.close(&mut signals, &mut done).await;
    if chat.input.is_up() && chat.setup.is_attended {
        line_editor::abandon();
    }
    match chat.screen.into_end() {
        Some(End::Gone(error)) => output::on_write_error(&error),
        _ => Ok(chat.conversation.code),
    }
}

/// Everything that is fixed for the whole chat.
struct ChatSetup {
    config: Config,
    chosen: ChosenAgent,
    host: Host,
    store: Option<Arc<Store>>,
    requested: RequestedSpec,
    dir: PathBuf,
    view: ViewArgs,
    /// Path of the input history, if it is stored.
    history: Option<PathBuf>,
    /// Whether a user types, rather than a script.
    is_attended: bool,
}

/// Validates the arguments and starts the agent.
async fn start(mut args: ChatArgs) -> Result<(ChatSetup, Session)> {
    let dir = config::directory(args.start.dir.as_deref())?;
    let is_attended = io::stdin().is_terminal();
    let attendance = if is_attended {
        ask::attendance()
    } else {
        Attendance::Unattended
    };
    let OpenedProject {
        project,
        config,
        host,
        store,
    } = store::open_project(&mut args.start, &dir, attendance)?;
    let chosen = spec::choose(&config, &args.start, &host, spec::Demo::Allowed).await?;
    let context = LaunchContext {
        prompt: args.prompt.unwrap_or_default(),
        dir: dir.clone(),
        project,
        streaming: true,
        after_turn: AfterTurn::Wait,
        attendance,
        verb: "chat",
        ..LaunchContext::default()
    };
    let history = environment::state_dir()
        .filter(|_| !args.start.no_store)
        .map(|dir| dir.join("chat_history"));
    let mut requested = spec::build(args.start, &config, context)?;
    if attendance == Attendance::Attended {
        requested.spec.denials = Denials::Tolerate; // a user's own denial is not a failure
    }
    let spec = requested.resolve(&config, &chosen)?;
    let session = chosen
        .agent
        .start(&host, spec)
        .map_err(|error| spec::spec_fault(&error, &*chosen.agent, "chat"))?;
    let setup = ChatSetup {
        config,
        chosen,
        host,
        store,
        requested,
        dir,
        view: args.view,
        history,
        is_attended,
    };
    Ok((setup, session))
}

/// A conversation on the terminal.
struct Chat {
    setup: ChatSetup,
    screen: Screen,
    prompter: Prompter,
    input: LineInput,
    conversation: ConversationState,
    /// Pending requests to the session; each returns a line to show, if any.
    jobs: JoinSet<Option<String>>,
    /// A session that is being resumed, until it is ready.
    next: Option<PendingResume>,
    /// Runs while another Ctrl-C would quit.
    quit_timer: Option<Pin<Box<Sleep>>>,
    /// Text at the prompt when it was last shown or interrupted.
    draft: String,
    /// Resolves when the screen is ready for the prompt.
    prompting: Option<oneshot::Receiver<()>>,
    is_live: bool,
    since: Option<Instant>,
}

type Done = oneshot::Receiver<io::Result<()>>;

impl Chat {
    fn open(setup: ChatSetup, session: &Session) -> Result<(Self, Done)> {
        let gate = Gate::default();
        let view = View {
            args: setup.view,
            dir: Some(setup.dir.clone()),
            dialects: Dialects::of(setup.config.agents()),
            is_live: true,
            is_stored: setup.store.is_some(),
            ..View::default()
        };
        let shown = output::open_chat(view, |place| gate.writer(place));
        let is_live = shown.is_live();
        let (mut screen, done) = Screen::open(shown).map_err(Fault::internal)?;
        let prompter = Prompter::new(session.remote(), setup.requested.spec.attendance);
        let input = if setup.is_attended {
            LineInput::editor(setup.history.clone(), gate, command::names().collect())?
        } else {
            LineInput::lines()?
        };
        if setup.is_attended {
            let dir = one_line(&setup.dir.to_string_lossy(), 200);
            let agent = name(&setup.chosen.name);
            screen.line(format!(
                "{DIM}{agent} in {dir} · /help for commands, Ctrl-D to quit{DIM:#}"
            ));
        }
        if let Some(terminal) = prompter.terminal() {
            terminal.hide_input();
        }
        let conversation =
            ConversationState::new(session.remote(), !setup.requested.spec.prompt.is_empty());
        let chat = Self {
            setup,
            screen,
            prompter,
            input,
            conversation,
            jobs: JoinSet::new(),
            next: None,
            quit_timer: None,
            draft: String::new(),
            prompting: None,
            is_live,
            since: None,
        };
        Ok((chat, done))
    }

    /// Switches to another session.
    fn switch_session(&mut self, next: PendingResume) -> Session {
        let PendingResume {
            session,
            chosen,
            heard,
            ..
        } = next;
        self.setup.chosen = chosen;
        self.prompter.rebind(session.remote());
        self.conversation = ConversationState::new(session.remote(), false);
        self.jobs = JoinSet::new();
        heard
            .into_iter()
            .for_each(|event| self.on_event(Some(event)));
        session
    }

    /// Runs a session to its end.
    async fn converse(&mut self, session: &mut Session, signals: &mut Signals, done: &mut Done) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !self.conversation.is_over {
            self.advance();
            tokio::select! {
                event = session.next(), if self.screen.has_room() => self.on_event(event),
                _ = self.screen.send(), if self.screen.has_pending() => {}
                result = &mut *done, if self.screen.end().is_none() => self.written(result),
                event = conversation::next_event(&mut self.next) => self.try_next(event),
                typed = self.input.next() => self.on_input(typed),
                heard = self.prompter.next() => self.prompter.handle(heard, &mut self.screen),
                Some(line) = self.jobs.join_next() => {
                    line.into_iter().flatten().for_each(|line| self.screen.line(line));
                }
                () = or_pending(self.quit_timer.as_mut()) => self.quit_timer = None,
                // Errors of the writer are handled elsewhere.
                _ = or_pending(self.prompting.as_mut()) => self.prompt(),
                caught = signals.next() => self.on_signal(caught),
                now = ticks.tick(), if self.is_live && self.is_busy() => {
                    self.screen.tick(now - *self.since.get_or_insert(now));
                }
            }
        }
    }

    /// Waits until all output is on the screen. A signal ends the wait.
    async fn close(&mut self, signals: &mut Signals, done: &mut Done) {
        while self.screen.end().is_none() {
            self.screen.close_if_drained();
            tokio::select! {
                _ = self.screen.send(), if self.screen.has_pending() => {}
                result = &mut *done => self.written(result),
                caught = signals.next() => match caught {
                    SignalAction::Continue => {}
                    SignalAction::Interrupt | SignalAction::Terminate => {
                        self.screen.finish(End::Abandoned);
                    }
                },
            }
        }
    }

    /// Returns true if a turn is running and the prompt is not shown.
    fn is_busy(&self) -> bool {
        self.conversation.is_busy() && !self.input.is_up()
    }

    /// Shows the next question, or the prompt if the agent is idle.
    fn advance(&mut self) {
        self.prompter.ask_if_due(&mut self.screen);
        if !self.conversation.is_busy() {
            self.since = None;
        }
        let is_idle = !self.conversation.is_busy() && self.conversation.leaving.is_none();
        let is_idle = is_idle && self.next.is_none() && self.jobs.is_empty();
        if is_idle && self.screen.end().is_none() && !self.input.is_up() && self.prompting.is_none()
        {
            self.prompting = Some(self.screen.shown());
        }
    }

    fn prompt(&mut self) {
        self.prompting = None;
        self.draft.push_str(&self.prompter.typeahead());
        self.input.ask(self.draft.clone());
    }

    /// Handles the end of the writer.
    fn written(&mut self, result: WriterResult) {
        if !self.screen.on_writer_done(result) {
            self.leave(self.conversation.code); // the output has no reader
        }
    }

    fn on_signal(&mut self, caught: SignalAction) {
        match caught {
            SignalAction::Interrupt => {
                let has_typed = self.prompter.save_typeahead();
                self.interrupt(has_typed);
            }
            SignalAction::Terminate => self.leave(Code(143)),
            SignalAction::Continue => self.prompter.show_again(&mut self.screen),
        }
    }

    /// Stops the session gracefully and quits.
    fn leave(&mut self, code: Code) {
        self.conversation.code = code;
        self.conversation.leaving.get_or_insert(Leaving::Quit);
        self.next = None;
        self.prompter.drop_question(&mut self.screen);
        self.conversation.remote.stop();
    }

    /// Handles Ctrl-C at the prompt, which is shown again with the same draft.
    fn interrupt_prompt(&mut self, draft: String) {
        let has_typed = draft != self.draft;
        self.draft = draft;
        self.interrupt(has_typed);
    }

    /// Handles Ctrl-C: the first ends the turn, the second quits, the third kills the agent. If
    /// `has_typed` is true, the user typed since the last one and does not want to quit.
    fn interrupt(&mut self, has_typed: bool) {
        if self.conversation.leaving.is_some() {
            return self.conversation.remote.kill();
        }
        let window = Box::pin(tokio::time::sleep(QUIT_WINDOW));
        if self.quit_timer.replace(window).is_some() && !has_typed {
            if !self.conversation.is_busy() {
                return self.leave(exit::OK);
            }
            self.screen
                .remark("quitting; press Ctrl-C again to kill the agent");
            return self.leave(Code(130));
        }
        self.prompter.drop_question(&mut self.screen);
        if self.next.take().is_some() {
            return self
                .screen
                .remark("resume cancelled; staying in this session");
        }
        if !self.conversation.is_busy() {
            let how = if self.draft.is_empty() {
                "press Ctrl-C again or Ctrl-D to quit"
            } else {
                "press Ctrl-C again to quit, or Ctrl-U to clear the line"
            };
            return self.screen.line(format!("{DIM}{how}{DIM:#}"));
        }
        self.screen
            .remark("interrupting; press Ctrl-C again to quit");
        self.jobs.spawn(conversation::interrupted(
            self.conversation.remote.interrupt(),
        ));
    }
}

/// Settings that apply to one session only.
const PER_SESSION_SETTINGS: [&str; 3] = [setting::SESSION_ID, setting::FORK, setting::RESUME];
