//! The side of the connection that an editor talks to: which request is for whom, and what does not belong to a session.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ostler::{AfterTurn, Agent, Attendance, Denials, Dialect, Host, Probed, Session, keys};
use ostler_store::{Filter, SessionRow, Store};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::editor_session::{Done, Editor, EditorSession, Left};
use super::history::{self, Continuation, History};
use super::opening::{Choice, Modes, Opening};
use super::pipes::Line;
use super::prompt::{self, Piece};
use super::request::{self, Asking, EditorRequest, NotAsked};
use super::update::Telling;
use super::wire::{self, Data, Failure, Heard, Id};
use crate::args::StartArgs;
use crate::fault::Fault;
use crate::spec::{self, Chosen, Way};
use crate::{config, output, store, trust_review};

/// How many sessions are listed.
const LISTED: usize = 100;

/// How many answers may wait before no more requests are taken.
pub(super) const CROWDED: usize = 256;

/// What serves an editor.
pub(super) struct Server {
    /// The name that the agent goes by.
    pub(super) name: String,
    pub(super) agent: Arc<dyn Agent>,
    /// The language that is spoken with it, as far as no project says otherwise.
    pub(super) dialect: &'static dyn Dialect,
    pub(super) host: Host,
    pub(super) store: Option<Arc<Store>>,
    pub(super) args: StartArgs,
    pub(super) out: mpsc::Sender<String>,
    /// Answers on their way to the editor.
    pub(super) queue: VecDeque<String>,
    /// Sessions by the names that the editor has for them.
    pub(super) seats: HashMap<String, Asking>,
    pub(super) tasks: JoinSet<Left>,
    /// What takes a moment; each gives a line.
    pub(super) errands: JoinSet<String>,
    /// Whether the editor shows notices.
    pub(super) notices: bool,
}

/// What goes with a request for a session.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    session_id: String,
    prompt: Vec<Piece>,
    mode_id: String,
    config_id: String,
    value: Option<Box<RawValue>>,
}

/// A request that is answered, or left to a session.
type Answered = Result<Option<String>, Failure>;

impl Server {
    /// Takes a line of the editor's.
    pub(super) fn hear(&mut self, line: Line) {
        let Some(line) = line else {
            let why = Failure::request("the line is too long");
            return self.queue.push_back(wire::failure(None, &why));
        };
        match wire::read(&line) {
            Heard::Request { id, method, params } => {
                let line = match self.request(&id, &method, &params) {
                    Ok(line) => line,
                    Err(failure) => Some(wire::failure(Some(&id), &failure)),
                };
                self.queue.extend(line);
            }
            Heard::Notice { method, params } if method == "session/cancel" => {
                if let Ok(Named { session_id, .. }) = wire::params(&params) {
                    self.wish(&session_id, EditorRequest::Cancel)
                        .unwrap_or_default(); // nobody waits for an answer
                }
            }
            Heard::Notice { .. } => {}
            Heard::Reply { id, result } => {
                let (session, question) = id.rsplit_once('/').unwrap_or_default();
                if let Ok(question) = question.parse() {
                    self.wish(session, EditorRequest::Reply(question, result))
                        .unwrap_or_default();
                }
            }
            Heard::Wrong(id, failure) => self.queue.push_back(wire::failure(id.as_ref(), &failure)),
        }
    }

    /// A session is gone. Only now is it closed: its name is free.
    pub(super) fn left(&mut self, left: Left) {
        self.seats.remove(&left.id);
        self.queue.extend(left.lines);
    }

    fn request(&mut self, id: &Id, method: &str, params: &RawValue) -> Answered {
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" => self.authenticate(id.clone()),
            "session/new" => self.open(id, params),
            "session/load" if self.can_load() => self.load(id, params),
            "session/resume" if self.can_load() => self.load_quietly(id, params),
            "session/list" if self.store.is_some() => self.list(id, params),
            "session/prompt"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/close" => self.of_session(id, method, params),
            "session/load" | "session/resume" | "session/list" => {
                let why = if self.store.is_some() {
                    "this agent cannot go on"
                } else {
                    "no sessions are kept"
                };
                Err(Failure {
                    message: format!("Method not found: {method}: {why}"),
                    ..Failure::method(method)
                })
            }
            _ => Err(Failure::method(method)),
        }
    }

    fn of_session(&mut self, id: &Id, method: &str, params: &RawValue) -> Answered {
        let named: Named = wire::params(params)?;
        let id = id.clone();
        let wish = match method {
            "session/prompt" => EditorRequest::Prompt(id, prompt::text(&named.prompt)?),
            "session/set_mode" => EditorRequest::SetMode(id, named.mode_id),
            "session/set_config_option" => {
                let value = named
                    .value
                    .and_then(|value| serde_json::from_str(value.get()).ok());
                let value = value.ok_or_else(|| Failure::params("`value` is not a string"))?;
                EditorRequest::SetOption(id, named.config_id, value)
            }
            _ => EditorRequest::Close(id),
        };
        self.wish(&named.session_id, wish)?;
        Ok(None)
    }

    /// Passes something on to a session.
    fn wish(&self, session: &str, wish: EditorRequest) -> Result<(), Failure> {
        let unknown = || {
            let why = format!("There is no session {session:?} here.");
            Failure::unknown(why)
                .hint("session/new begins one, session/load goes on with an earlier one.")
        };
        let seat = self.seats.get(session).ok_or_else(unknown)?;
        seat.ask(wish).map_err(|error| match error {
            NotAsked::Crowded => Failure::request("too many requests wait for this session"),
            NotAsked::Gone => unknown(),
        })
    }

    fn can_load(&self) -> bool {
        self.store.is_some() && self.dialect.capabilities().resume
    }

    fn initialize(&mut self, id: &Id, params: &RawValue) -> Answered {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Asked {
            client_capabilities: Client,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Client {
            session: Option<Sessions>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Sessions {
            notices: Option<serde::de::IgnoredAny>,
        }
        // An editor with capabilities of another shape has none that are used here.
        let asked: Asked = wire::params(params).unwrap_or_default();
        self.notices = asked
            .client_capabilities
            .session
            .is_some_and(|session| session.notices.is_some());
        let known = self.dialect.settings();
        let takes = |key: &str| known.iter().any(|setting| setting.key == key);
        let (name, servers) = (self.agent.name(), takes(keys::MCP_CONFIG));
        let empty = || serde_json::json!({});
        let mut sessions = serde_json::Map::from_iter([("close".to_owned(), empty())]);
        let more = [
            ("list", self.store.is_some()),
            ("resume", self.can_load()),
            ("additionalDirectories", takes(keys::ADD_DIR)),
        ];
        sessions.extend(
            more.into_iter()
                .filter(|(_, can)| *can)
                .map(|(kind, _)| (kind.to_owned(), empty())),
        );
        let answer = serde_json::json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self.can_load(),
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": servers, "sse": servers },
                "sessionCapabilities": sessions,
            },
            "authMethods": [{
                "id": "agent",
                "name": format!("Log in with {name} itself"),
                "description": "Ostler has no login of its own. `ostler doctor` says what to do.",
            }],
            "agentInfo": {
                "name": format!("ostler-{name}"),
                "title": format!("{name} by Ostler"),
                "version": env!("CARGO_PKG_VERSION"),
            },
        });
        Ok(Some(wire::response(id, &answer)))
    }

    /// There is nothing to do but to look whether somebody has logged in meanwhile.
    fn authenticate(&mut self, id: Id) -> Answered {
        let (agent, host) = (self.agent.clone(), self.host.clone());
        self.errands.spawn(async move {
            let (message, hint) = match agent.probe(&host).await {
                Probed::Ready { .. } | Probed::LoginUnknown { .. } => {
                    return wire::response(&id, &Done {});
                }
                Probed::Missing { hint, .. } => ("The agent is not installed.".to_owned(), hint),
                Probed::NotConfigured { hint } => ("The agent is not configured.".to_owned(), hint),
                Probed::Broken { why, hint, .. } => (why, hint),
                Probed::TooOld {
                    version,
                    need,
                    hint,
                    ..
                } => (
                    format!("The agent is too old: {version}, {need} is needed."),
                    hint,
                ),
                Probed::NotLoggedIn { hint, .. } => ("Nobody is logged in.".to_owned(), hint),
            };
            let data = Data {
                cause: Some("auth"),
                message: Some(message),
                hint: Some(hint),
                text: None,
            };
            wire::failure(Some(&id), &Failure::auth(data))
        });
        Ok(None)
    }

    fn open(&mut self, id: &Id, params: &RawValue) -> Answered {
        let opening: Opening = wire::params(params)?;
        let mut seat = self.begin(&opening, None)?;
        let line = wire::response(id, &seat.opened());
        seat.first(line);
        self.take_seat(seat)
    }

    fn load(&mut self, id: &Id, params: &RawValue) -> Answered {
        let (mut seat, history) = self.go_on(params)?;
        seat.history = Some((id.clone(), history));
        self.take_seat(seat)
    }

    fn load_quietly(&mut self, id: &Id, params: &RawValue) -> Answered {
        let (mut seat, _) = self.go_on(params)?;
        let line = wire::response(id, &seat.reopened());
        seat.first(line);
        self.take_seat(seat)
    }

    fn go_on(&mut self, params: &RawValue) -> Result<(EditorSession, History), Failure> {
        let opening: Opening = wire::params(params)?;
        let id = opening.session_id.clone().unwrap_or_default();
        if self.seats.contains_key(&id) {
            return Err(Failure::request(format!(
                "the session {id} is open here already"
            )));
        }
        let store = self
            .store
            .as_ref()
            .ok_or_else(|| Failure::method("session/load"))?;
        let earlier = history::find(store, &id, self.agent.name())?;
        let mut seat = self.begin(&opening, Some(earlier.continuation))?;
        seat.id = id;
        Ok((seat, earlier.history))
    }

    /// Starts the agent for a session.
    fn begin(
        &mut self,
        opening: &Opening,
        from: Option<Continuation>,
    ) -> Result<EditorSession, Failure> {
        opening.check()?;
        let dir = opening.cwd.clone();
        let mut args = self.args.clone();
        let follows = match from {
            Some(Continuation::Resumed(id)) => {
                args.agent_settings.resume = Some(id);
                None
            }
            Some(Continuation::Empty(id)) => Some(id),
            None => None,
        };
        let way = Way {
            prompt: String::new(),
            dir: dir.clone(),
            streaming: true,
            after_turn: AfterTurn::Wait,
            attendance: Attendance::Attended,
            ..Way::default()
        };
        // A project says things about the agent too, and each session may be in another.
        let told = || {
            let project = trust_review::open(
                (args.config, &args.policy),
                &way.dir,
                Attendance::Unattended,
            )?;
            let config = config::load(args.config, &project)?;
            let chosen = Chosen {
                name: self.name.clone(),
                agent: self.agent.clone(),
            };
            let host = trust_review::attach(self.host.clone(), &project, &config)?;
            let way = Way { project, ..way };
            Ok((
                spec::read(args, &config, way)?.told(&config, &chosen)?,
                host,
            ))
        };
        let (mut spec, host) = told().map_err(|fault: Fault| refused(&fault))?;
        spec.follows = follows;
        spec.denials = Denials::Tolerate; // whoever said no need not be told that the turn failed
        let dialect = spec::language(&*self.agent, &spec);
        if let Some(remark) = opening.add_to(&mut spec.settings, dialect)? {
            output::tell(&remark);
        }
        let (modes, model) = (
            Modes::of(dialect, &spec.settings),
            Choice::of(dialect, &spec.settings),
        );
        let telling = Telling::new(dialect, dir, self.notices);
        let started = self.agent.start(&host, spec);
        let session: Session =
            started.map_err(|error| refused(&spec::wrong(&error, &*self.agent, "acp")))?;
        let (_, inbox) = request::way(); // it gets its own when it takes its seat
        let (id, out) = (session.id().to_owned(), self.out.clone());
        Ok(EditorSession {
            id,
            session,
            out,
            inbox,
            telling,
            modes,
            model,
            history: None,
            desk: Editor::default(),
        })
    }

    fn take_seat(&mut self, mut seat: EditorSession) -> Answered {
        let (asking, inbox) = request::way();
        seat.inbox = inbox;
        self.seats.insert(seat.id.clone(), asking);
        self.tasks.spawn(seat.serve());
        Ok(None)
    }

    fn list(&self, id: &Id, params: &RawValue) -> Answered {
        #[derive(Serialize)]
        struct List {
            sessions: Vec<Listed>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Listed {
            session_id: String,
            cwd: std::path::PathBuf,
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<String>,
            updated_at: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Asked {
            cwd: Option<std::path::PathBuf>,
        }
        let Asked { cwd } = wire::params(params).unwrap_or_default();
        let dir = cwd.map(|dir| dir.canonicalize().unwrap_or(dir));
        let filter = Filter {
            agent: Some(self.agent.name().to_owned()),
            dir,
            limit: Some(LISTED),
            ..Filter::default()
        };
        let rows = self
            .store
            .as_ref()
            .map(|store| store.sessions(&filter))
            .transpose();
        let rows = rows
            .map_err(|error| refused(&store::fault(&error)))?
            .unwrap_or_default();
        // The session in which its first words were said: itself, or the one that follows it.
        let begun = |row: &SessionRow| match row.turns {
            0 => rows
                .iter()
                .find(|next| next.turns > 0 && next.continues.as_deref() == Some(&*row.session))
                .cloned(),
            _ => Some(row.clone()),
        };
        let listed = |row: &SessionRow| {
            let begun = begun(row)?;
            Some(Listed {
                updated_at: begun.ended_at.unwrap_or(begun.began_at).to_string(),
                session_id: row.session.clone(),
                cwd: row.dir.clone(),
                title: begun.prompt,
            })
        };
        // A continuation is found by the id of the session that it continues.
        let first = rows.iter().filter(|row| row.continues.is_none());
        Ok(Some(wire::response(
            id,
            &List {
                sessions: first.filter_map(listed).collect(),
            },
        )))
    }
}

/// A session that could not be begun.
fn refused(fault: &Fault) -> Failure {
    let outcome = fault.outcome();
    let failure = Failure::params(&outcome.message);
    match outcome.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
