//! `ostler chat`: a conversation of many turns in the terminal. The line editor and the agent take turns on the screen.

mod command;
mod gate;
mod keys;
mod reports;
mod talk;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ostler::config::Config;
use ostler::{AfterTurn, Attendance, Denials, Host, Session, keys as setting};
use ostler_store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, Sleep};

use self::gate::Gate;
use self::keys::Keys;
use self::talk::{Leaving, Next, Talk};
use crate::args::{ChatArgs, ViewArgs};
use crate::ask::{self, Asking};
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::follow::TICK;
use crate::output::style::DIM;
use crate::output::{self, Dialects, Stored, View, name, word};
use crate::screen::{End, Screen};
use crate::signals::{Caught, Signals};
use crate::spec::{self, Chosen, Wanted, Way};
use crate::store::{self, Keeping};
use crate::{config, environment, trust_review};

/// Two Ctrl-C within this time leave.
const TWICE: Duration = Duration::from_secs(2);

/// Talks until one side has enough.
pub(crate) async fn run(args: ChatArgs) -> Result<Code, Fault> {
    let (scene, session) = begin(args).await?;
    let mut signals = Signals::listen()?;
    let (mut chat, mut done) = Chat::open(scene, &session)?;
    let mut session = session;
    loop {
        chat.converse(&mut session, &mut signals, &mut done).await;
        let Some(Leaving::Resume(next)) = chat.talk.leaving.take() else {
            break;
        };
        session = chat.renew(*next);
    }
    chat.close(&mut signals, &mut done).await;
    if chat.keys.is_up() && chat.scene.is_attended {
        keys::abandon();
    }
    match chat.screen.into_end() {
        Some(End::Gone(error)) => output::gone(&error),
        _ => Ok(chat.talk.code),
    }
}

/// With whom, where and how.
struct Scene {
    config: Config,
    chosen: Chosen,
    host: Host,
    store: Option<Arc<Store>>,
    wanted: Wanted,
    dir: PathBuf,
    view: ViewArgs,
    /// Where messages are remembered, if they are to be.
    history: Option<PathBuf>,
    /// Whether a person types, and not a script.
    is_attended: bool,
}

/// Everything that can be wrong before an agent is started.
async fn begin(mut args: ChatArgs) -> Result<(Scene, Session), Fault> {
    let dir = spec::directory(args.start.dir.as_deref())?;
    let is_attended = io::stdin().is_terminal();
    let attendance = if is_attended {
        ask::who()
    } else {
        Attendance::Unattended
    };
    let project = trust_review::open((args.start.config, &args.start.policy), &dir, attendance)?;
    let config = config::load(args.start.config, &project)?;
    let Keeping { host, store } = store::keeping(&mut args.start, &dir, &config)?;
    let host = trust_review::attach(host, &project, &config)?;
    let chosen = spec::choose(&config, &args.start, (&host, true)).await?;
    let prompt = args.prompt.unwrap_or_default();
    let (streaming, after_turn) = (true, AfterTurn::Wait);
    let way = Way {
        prompt,
        dir: dir.clone(),
        project,
        streaming,
        after_turn,
        attendance,
        ..Way::default()
    };
    let history = environment::state_dir()
        .filter(|_| !args.start.no_store)
        .map(|dir| dir.join("chat_history"));
    let mut wanted = spec::read(args.start, &config, way)?;
    if attendance == Attendance::Attended {
        wanted.spec.denials = Denials::Tolerate; // whoever said no need not be told that the turn failed
    }
    let spec = wanted.told(&config, &chosen)?;
    let session = chosen
        .agent
        .start(&host, spec)
        .map_err(|error| spec::wrong(&error, &*chosen.agent, "chat"))?;
    let view = args.view;
    Ok((
        Scene {
            config,
            chosen,
            host,
            store,
            wanted,
            dir,
            view,
            history,
            is_attended,
        },
        session,
    ))
}

/// A conversation on the screen.
struct Chat {
    scene: Scene,
    screen: Screen,
    asking: Asking,
    keys: Keys,
    talk: Talk,
    /// What was asked of the session and is under way; each gives a line to show, or none.
    errands: JoinSet<Option<String>>,
    /// A session that is to be gone on with, until it is clear that it can be.
    next: Option<Next>,
    /// Runs while another Ctrl-C would leave.
    twice: Option<Pin<Box<Sleep>>>,
    /// The text at the prompt when it was last shown or interrupted.
    draft: String,
    /// Resolves when the screen is ready for the prompt.
    prompting: Option<oneshot::Receiver<()>>,
    is_live: bool,
    since: Option<Instant>,
}

type Done = oneshot::Receiver<io::Result<()>>;

impl Chat {
    fn open(scene: Scene, session: &Session) -> Result<(Self, Done), Fault> {
        let gate = Gate::default();
        let dialects = Dialects::of(scene.config.agents());
        let stored = Stored::of(scene.store.as_ref());
        let view = View {
            args: scene.view,
            dir: Some(scene.dir.clone()),
            dialects,
            stored,
        };
        let shown = output::open_chat(view, |place| gate.writer(place));
        let is_live = shown.is_live();
        let (mut screen, done) = Screen::open(shown).map_err(Fault::internal)?;
        let asking = Asking::new(session.remote(), scene.wanted.spec.attendance);
        let keys = if scene.is_attended {
            Keys::editor(scene.history.clone(), gate)?
        } else {
            Keys::lines()?
        };
        if scene.is_attended {
            let dir = word(&scene.dir.to_string_lossy(), 200);
            let agent = name(&scene.chosen.name);
            screen.line(format!(
                "{DIM}{agent} in {dir} · /help lists the commands, Ctrl-D leaves{DIM:#}"
            ));
        }
        if let Some(terminal) = asking.terminal() {
            terminal.quiet();
        }
        let talk = Talk::new(session.remote(), !scene.wanted.spec.prompt.is_empty());
        let (errands, next, twice, prompting, since) = (JoinSet::new(), None, None, None, None);
        let draft = String::new();
        Ok((
            Self {
                scene,
                screen,
                asking,
                keys,
                talk,
                errands,
                next,
                twice,
                draft,
                prompting,
                is_live,
                since,
            },
            done,
        ))
    }

    /// The same with another session.
    fn renew(&mut self, next: Next) -> Session {
        let Next {
            session,
            chosen,
            heard,
            ..
        } = next;
        self.scene.chosen = chosen;
        self.asking.renew(session.remote());
        self.talk = Talk::new(session.remote(), false);
        self.errands = JoinSet::new();
        heard.into_iter().for_each(|event| self.hear(Some(event)));
        session
    }

    /// Follows a session to its end.
    async fn converse(&mut self, session: &mut Session, signals: &mut Signals, done: &mut Done) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !self.talk.is_over {
            self.advance();
            tokio::select! {
                event = session.next(), if self.screen.has_room() => self.hear(event),
                _ = self.screen.say(), if self.screen.has_something_to_say() => {}
                result = &mut *done, if self.screen.end().is_none() => self.written(result),
                event = talk::heard(&mut self.next) => self.try_next(event),
                typed = self.keys.next() => self.typed(typed),
                heard = self.asking.next() => self.asking.hear(heard, &mut self.screen),
                Some(line) = self.errands.join_next() => self.run_errand(line.ok().flatten()),
                () = over(&mut self.twice) => self.twice = None,
                () = shown(&mut self.prompting) => self.prompt(),
                caught = signals.next() => self.obey(caught),
                now = ticks.tick(), if self.is_live && self.is_busy() => {
                    self.screen.tick(now - *self.since.get_or_insert(now));
                }
            }
        }
    }

    /// Waits until everything is on the screen. A signal means that nobody looks.
    async fn close(&mut self, signals: &mut Signals, done: &mut Done) {
        while self.screen.end().is_none() {
            self.screen.close_if_all_is_said();
            tokio::select! {
                _ = self.screen.say(), if self.screen.has_something_to_say() => {}
                result = &mut *done => self.written(result),
                caught = signals.next() => match caught {
                    Caught::Continue => {}
                    Caught::Interrupt | Caught::Terminate => self.screen.finish(End::Abandoned),
                },
            }
        }
    }

    /// A turn is under way, and nothing else stands on the screen.
    fn is_busy(&self) -> bool {
        self.talk.is_busy() && !self.keys.is_up()
    }

    /// Does what is due: a question, or the prompt when the agent has nothing to do.
    fn advance(&mut self) {
        self.asking.ask_if_due(&mut self.screen);
        if !self.talk.is_busy() {
            self.since = None;
        }
        let is_idle = !self.talk.is_busy() && self.talk.leaving.is_none();
        let is_idle = is_idle && self.next.is_none() && self.errands.is_empty();
        if is_idle && self.screen.end().is_none() && !self.keys.is_up() && self.prompting.is_none()
        {
            self.prompting = Some(self.screen.shown());
        }
    }

    fn prompt(&mut self) {
        self.prompting = None;
        self.draft.push_str(&self.asking.ahead());
        self.keys.ask(self.draft.clone());
    }

    fn written(&mut self, result: Result<io::Result<()>, oneshot::error::RecvError>) {
        match result.unwrap_or_else(|_| Err(io::Error::other("the writer is gone"))) {
            Err(error) => {
                self.screen.finish(End::Gone(error));
                self.leave(self.talk.code); // nobody reads any more
            }
            Ok(()) => self.screen.finish(End::Shown),
        }
    }

    fn run_errand(&mut self, line: Option<String>) {
        if let Some(line) = line {
            self.screen.line(line);
        }
    }

    fn obey(&mut self, caught: Caught) {
        match caught {
            Caught::Interrupt => {
                let has_typed = self.asking.keep_typed();
                self.interrupt(has_typed);
            }
            Caught::Terminate => self.leave(Code(143)),
            Caught::Continue => self.asking.show_again(&mut self.screen),
        }
    }

    /// Ends the session in good order.
    fn leave(&mut self, code: Code) {
        self.talk.code = code;
        self.talk.leaving.get_or_insert(Leaving::Quit);
        self.next = None;
        self.asking.drop_question(&mut self.screen);
        self.talk.remote.stop();
    }

    /// Handles Ctrl-C at the prompt, which comes again with the same draft.
    fn interrupt_prompt(&mut self, draft: String) {
        let has_typed = draft != self.draft;
        self.draft = draft;
        self.interrupt(has_typed);
    }

    /// Handles Ctrl-C: the first one ends the turn, a second one leaves, a third one kills. `has_typed` says that keys came
    /// since the last one: whoever types does not want to leave.
    fn interrupt(&mut self, has_typed: bool) {
        if self.talk.leaving.is_some() {
            return self.talk.remote.kill();
        }
        if self
            .twice
            .replace(Box::pin(tokio::time::sleep(TWICE)))
            .is_some()
            && !has_typed
        {
            if self.talk.is_busy() {
                self.screen.remark("leaving; Ctrl-C again kills");
            }
            let code = if self.talk.is_busy() {
                Code(130)
            } else {
                exit::OK
            };
            return self.leave(code);
        }
        self.asking.drop_question(&mut self.screen);
        if self.next.take().is_some() {
            return self.screen.remark("this session goes on");
        }
        if !self.talk.is_busy() {
            let how = if self.draft.is_empty() {
                "Ctrl-C again, or Ctrl-D, leaves"
            } else {
                "Ctrl-C again leaves, Ctrl-U clears the line"
            };
            return self.screen.line(format!("{DIM}{how}{DIM:#}"));
        }
        self.screen.remark("interrupting; Ctrl-C again leaves");
        self.errands
            .spawn(talk::interrupted(self.talk.remote.interrupt()));
    }
}

async fn over(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}

async fn shown(prompting: &mut Option<oneshot::Receiver<()>>) {
    match prompting {
        Some(shown) => drop(shown.await), // a writer that is gone is told elsewhere
        None => std::future::pending().await,
    }
}

/// Settings that belong to one session and not to the next.
const OF_ONE_SESSION: [&str; 3] = [setting::SESSION_ID, setting::FORK, setting::RESUME];
