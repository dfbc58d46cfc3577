//! Protocol server: routes requests to sessions, and handles those that do not belong to one.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use ostler::Spec;
use ostler::spec::{Denials, keys};
use ostler_store::{Filter, SessionRow};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, info};

use crate::Service;
use crate::editor_session::{ClosedSession, EditorSession, EditorState};
use crate::embedder::PreparedSession;
use crate::history::{self, Continuation, History};
use crate::pipes::InputLine;
use crate::prompt::{self, ContentBlock};
use crate::request::{self, Call, EditorRequest, RequestSender, SubmitError};
use crate::session_params::{ModelOption, Modes, SessionParams};
use crate::update::UpdateMapper;
use crate::wire::{self, Data, Failure, Id, Incoming};

/// Maximum number of sessions to list.
const LIST_LIMIT: usize = 100;

/// Maximum number of waiting responses before no more requests are read.
pub(crate) const QUEUE_LIMIT: usize = 256;

/// Server for one editor.
pub(crate) struct Server {
    service: Service,
    pub(crate) out: mpsc::Sender<String>,
    /// Lines to send to the editor.
    pub(crate) queue: VecDeque<String>,
    /// Open sessions, by the editor's session id.
    sessions: HashMap<String, RequestSender>,
    pub(crate) tasks: JoinSet<ClosedSession>,
    /// Background jobs; each returns a line to send.
    pub(crate) jobs: JoinSet<String>,
    /// Whether the editor shows notices.
    notices: bool,
}

/// Parameters of requests to a session.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SessionRequestParams {
    session_id: String,
    prompt: Vec<ContentBlock>,
    mode_id: String,
    config_id: String,
    value: Option<Box<RawValue>>,
}

/// Response to a request, or `None` if a session answers it.
type Handled = Result<Option<String>, Failure>;

impl Server {
    pub(crate) fn new(service: Service, out: mpsc::Sender<String>) -> Self {
        Self {
            service,
            out,
            queue: VecDeque::new(),
            sessions: HashMap::new(),
            tasks: JoinSet::new(),
            jobs: JoinSet::new(),
            notices: false,
        }
    }

    /// Sends a request to all sessions.
    pub(crate) fn broadcast(&self, request: fn() -> EditorRequest) {
        for session in self.sessions.values() {
            // An error means that the session already ended.
            session.submit(request()).unwrap_or_default();
        }
    }

    /// Handles a line from the editor.
    pub(crate) fn on_line(&mut self, line: InputLine) {
        let Some(line) = line else {
            let why = Failure::request("the line is too long");
            return self.queue.push_back(wire::failure(None, &why));
        };
        match wire::parse(&line) {
            Incoming::Request { id, method, params } => {
                debug!(method, "request");
                let handled = self.request(&id, &method, &params);
                let failed = |failure| Some(wire::failure(Some(&id), &failure));
                self.queue.extend(handled.unwrap_or_else(failed));
            }
            Incoming::Notification { method, params } if method == "session/cancel" => {
                debug!(method, "notification");
                if let Ok(SessionRequestParams { session_id, .. }) = wire::params(&params) {
                    self.forward(&session_id, EditorRequest::Cancel)
                        .unwrap_or_default(); // a notification has no response
                }
            }
            Incoming::Notification { .. } => {}
            Incoming::Reply { id, result } => {
                let (session, question) = id.rsplit_once('/').unwrap_or_default();
                if let Ok(question) = question.parse() {
                    self.forward(session, EditorRequest::Reply(question, result))
                        .unwrap_or_default();
                }
            }
            Incoming::Invalid(id, failure) => {
                self.queue.push_back(wire::failure(id.as_ref(), &failure));
            }
        }
    }

    /// Removes a closed session. Its id can be used again.
    pub(crate) fn on_closed(&mut self, closed: ClosedSession) {
        info!(session = closed.id, "session closed");
        self.sessions.remove(&closed.id);
        self.queue.extend(closed.lines);
    }

    fn request(&mut self, id: &Id, method: &str, params: &RawValue) -> Handled {
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" => self.authenticate(id.clone()),
            "session/new" => self.open(id, params),
            "session/load" if self.can_load() => self.load(id, params),
            "session/resume" if self.can_load() => self.load_without_history(id, params),
            "session/list" if self.service.store.is_some() => self.list(id, params),
            "session/prompt"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/close" => self.session_request(id, method, params),
            "session/load" | "session/resume" | "session/list" => {
                let why = if self.service.store.is_some() {
                    "this agent cannot resume sessions"
                } else {
                    "sessions are not stored"
                };
                Err(Failure {
                    message: format!("Method not found: {method}: {why}"),
                    ..Failure::method(method)
                })
            }
            _ => Err(Failure::method(method)),
        }
    }

    fn session_request(&mut self, id: &Id, method: &str, params: &RawValue) -> Handled {
        let named: SessionRequestParams = wire::params(params)?;
        let call = match method {
            "session/prompt" => Call::Prompt(prompt::text(&named.prompt)?),
            "session/set_mode" => Call::SetMode(named.mode_id),
            "session/set_config_option" => {
                let value = named
                    .value
                    .and_then(|value| serde_json::from_str(value.get()).ok());
                Call::SetOption {
                    option: named.config_id,
                    value: value.ok_or_else(|| Failure::params("`value` is not a string"))?,
                }
            }
            _ => Call::Close,
        };
        self.forward(&named.session_id, EditorRequest::Call(id.clone(), call))?;
        Ok(None)
    }

    /// Forwards a request to a session.
    fn forward(&self, session: &str, request: EditorRequest) -> Result<(), Failure> {
        let unknown = || {
            let why = format!("no session {session:?}");
            Failure::unknown(why)
                .hint("start one with session/new, or resume one with session/load")
        };
        let editor_session = self.sessions.get(session).ok_or_else(unknown)?;
        editor_session.submit(request).map_err(|error| match error {
            SubmitError::Full => Failure::request("too many requests are waiting for this session"),
            SubmitError::Closed => unknown(),
        })
    }

    fn can_load(&self) -> bool {
        self.service.store.is_some() && self.service.dialect.about().capabilities.resume
    }

    fn initialize(&mut self, id: &Id, params: &RawValue) -> Handled {
        // Capabilities of an unexpected shape are ignored.
        let asked: Value = wire::params(params).unwrap_or_default();
        self.notices = !asked["clientCapabilities"]["session"]["notices"].is_null();
        let about = self.service.dialect.about();
        let (name, servers) = (about.name, about.accepts(keys::MCP_CONFIG));
        let able = [
            ("close", true),
            ("list", self.service.store.is_some()),
            ("resume", self.can_load()),
            ("additionalDirectories", about.accepts(keys::ADD_DIR)),
        ];
        let able = able.into_iter().filter(|(_, can)| *can);
        let sessions: Value = able.map(|(kind, _)| (kind, json!({}))).collect();
        let answer = json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self.can_load(),
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": servers, "sse": servers },
                "sessionCapabilities": sessions,
            },
            "authMethods": [{
                "id": "agent",
                "name": format!("Log in with {name}"),
                "description": "Ostler uses the agent's own login. Run `ostler doctor` to see how to log in.",
            }],
            "agentInfo": {
                "name": format!("ostler-{name}"),
                "title": format!("{name} by Ostler"),
                "version": env!("CARGO_PKG_VERSION"),
            },
        });
        Ok(Some(wire::response(id, &answer)))
    }

    /// Checks whether the user has logged in; Ostler has no login of its own.
    fn authenticate(&mut self, id: Id) -> Handled {
        let (agent, host) = (self.service.agent.clone(), self.service.host.clone());
        self.jobs.spawn(async move {
            let probed = agent.probe(&host, &Spec::default()).await;
            let Some((message, hint)) = probed.problem(agent.about().name) else {
                return wire::done(&id);
            };
            let data = Data {
                cause: Some("auth"),
                message: Some(message),
                hint: Some(hint.to_owned()),
                text: None,
            };
            wire::failure(Some(&id), &Failure::auth(data))
        });
        Ok(None)
    }

    fn open(&mut self, id: &Id, params: &RawValue) -> Handled {
        let session_params: SessionParams = wire::params(params)?;
        let mut editor_session = self.begin(&session_params, None)?;
        let line = wire::response(id, &editor_session.opened());
        editor_session.first(line);
        self.spawn_session(editor_session)
    }

    fn load(&mut self, id: &Id, params: &RawValue) -> Handled {
        let (mut editor_session, history) = self.resume(params)?;
        editor_session.history = Some((id.clone(), history));
        self.spawn_session(editor_session)
    }

    fn load_without_history(&mut self, id: &Id, params: &RawValue) -> Handled {
        let (mut editor_session, _) = self.resume(params)?;
        let line = wire::response(id, &editor_session.reopened());
        editor_session.first(line);
        self.spawn_session(editor_session)
    }

    fn resume(&mut self, params: &RawValue) -> Result<(EditorSession, History), Failure> {
        let session_params: SessionParams = wire::params(params)?;
        let id = session_params.session_id.clone().unwrap_or_default();
        if self.sessions.contains_key(&id) {
            return Err(Failure::request(format!("session {id} is already open")));
        }
        let store = self
            .service
            .store
            .as_ref()
            .ok_or_else(|| Failure::method("session/load"))?;
        let earlier = history::find(store, &id, self.service.agent.about().name)?;
        let mut editor_session = self.begin(&session_params, Some(earlier.continuation))?;
        editor_session.id = id;
        Ok((editor_session, earlier.history))
    }

    /// Starts the agent for a session.
    fn begin(
        &mut self,
        session_params: &SessionParams,
        from: Option<Continuation>,
    ) -> Result<EditorSession, Failure> {
        session_params.check()?;
        let dir = session_params.cwd.clone();
        let Service {
            agent, embedder, ..
        } = &self.service;
        // Each session may be in another project, with its own configuration.
        let PreparedSession { host, mut spec } = embedder.prepare(&dir).map_err(|error| {
            let failure = Failure::params(&error.message);
            match error.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        match from {
            Some(Continuation::Resumed(id)) => spec.resume = Some(id),
            Some(Continuation::Empty(id)) => spec.follows = Some(id),
            None => {}
        }
        spec.denials = Denials::Tolerate; // a user's own denial is not a failure
        let dialect = agent.dialect();
        let dialect = dialect.select_transport(&spec).unwrap_or(dialect);
        if let Some(warning) = session_params.add_to(&mut spec, dialect)? {
            embedder.warn(&warning);
        }
        let (modes, model) = (Modes::of(dialect, &spec), ModelOption::of(dialect, &spec));
        let updates = UpdateMapper::new(dialect, dir, self.notices);
        let session = agent
            .start(&host, spec)
            .map_err(|error| Failure::params(error).hint(&*self.service.settings_hint))?;
        Ok(EditorSession {
            id: session.id().to_owned(),
            session,
            out: self.out.clone(),
            embedder: embedder.clone(),
            updates,
            modes,
            model,
            history: None,
            state: EditorState::default(),
        })
    }

    fn spawn_session(&mut self, editor_session: EditorSession) -> Handled {
        info!(session = editor_session.id, "session opened");
        let (requests, inbox) = request::channel();
        self.sessions.insert(editor_session.id.clone(), requests);
        self.tasks.spawn(editor_session.serve(inbox));
        Ok(None)
    }

    fn list(&self, id: &Id, params: &RawValue) -> Handled {
        #[derive(Serialize)]
        struct List {
            sessions: Vec<Listed>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Listed {
            session_id: String,
            cwd: PathBuf,
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<String>,
            updated_at: String,
        }
        let asked: Value = wire::params(params).unwrap_or_default();
        let dir = asked["cwd"].as_str().map(PathBuf::from);
        let dir = dir.map(|dir| dir.canonicalize().unwrap_or(dir));
        let filter = Filter {
            agent: Some(self.service.agent.about().name.to_owned()),
            dir,
            limit: Some(LIST_LIMIT),
            ..Filter::default()
        };
        let store = self.service.store.as_ref();
        let rows = store.map(|store| store.sessions(&filter)).transpose()?;
        let rows = rows.unwrap_or_default();
        let listed = |row: &SessionRow| {
            // The session that has the first turn: the session itself, or its continuation.
            let first_turn = match row.turns {
                0 => history::continuation_of(row, &rows)?,
                _ => row,
            };
            let updated_at = first_turn.ended_at.unwrap_or(first_turn.began_at);
            Some(Listed {
                session_id: row.session.clone(),
                cwd: row.dir.clone(),
                title: first_turn.prompt.clone(),
                updated_at: updated_at.to_string(),
            })
        };
        // Continuations are reached through the session they continue.
        let first = rows.iter().filter(|row| row.continues.is_none());
        let sessions = first.filter_map(listed).collect();
        Ok(Some(wire::response(id, &List { sessions })))
    }
}
