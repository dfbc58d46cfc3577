//! Protocol server: routes requests to sessions, and handles those that do not belong to one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ostler::{AfterTurn, Agent, Attendance, Denials, Dialect, Host, Probed, Session, keys};
use ostler_store::{Filter, SessionRow, Store};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::editor_session::{ClosedSession, EditorSession, EditorState, EmptyResponse};
use super::history::{self, Continuation, History};
use super::pipes::InputLine;
use super::prompt::{self, ContentBlock};
use super::request::{self, EditorRequest, RequestSender, SubmitError};
use super::session_params::{ModelOption, Modes, SessionParams};
use super::update::UpdateMapper;
use super::wire::{self, Data, Failure, Id, Incoming};
use crate::args::StartArgs;
use crate::fault::Fault;
use crate::spec::{self, ChosenAgent, LaunchContext};
use crate::{config, output, store, trust_review};

/// Maximum number of sessions to list.
const LIST_LIMIT: usize = 100;

/// Maximum number of waiting responses before no more requests are read.
pub(super) const QUEUE_LIMIT: usize = 256;

/// Server for one editor.
pub(super) struct Server {
    /// Name the agent was chosen by.
    pub(super) name: String,
    pub(super) agent: Arc<dyn Agent>,
    /// Dialect of the agent, unless a project configures another.
    pub(super) dialect: &'static dyn Dialect,
    pub(super) host: Host,
    pub(super) store: Option<Arc<Store>>,
    pub(super) args: StartArgs,
    pub(super) out: mpsc::Sender<String>,
    /// Lines to send to the editor.
    pub(super) queue: VecDeque<String>,
    /// Open sessions, by the editor's session id.
    pub(super) sessions: HashMap<String, RequestSender>,
    pub(super) tasks: JoinSet<ClosedSession>,
    /// Background jobs; each returns a line to send.
    pub(super) jobs: JoinSet<String>,
    /// Whether the editor shows notices.
    pub(super) notices: bool,
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
    /// Handles a line from the editor.
    pub(super) fn on_line(&mut self, line: InputLine) {
        let Some(line) = line else {
            let why = Failure::request("the line is too long");
            return self.queue.push_back(wire::failure(None, &why));
        };
        match wire::parse(&line) {
            Incoming::Request { id, method, params } => {
                let line = match self.request(&id, &method, &params) {
                    Ok(line) => line,
                    Err(failure) => Some(wire::failure(Some(&id), &failure)),
                };
                self.queue.extend(line);
            }
            Incoming::Notification { method, params } if method == "session/cancel" => {
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
    pub(super) fn on_closed(&mut self, closed: ClosedSession) {
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
            "session/list" if self.store.is_some() => self.list(id, params),
            "session/prompt"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/close" => self.session_request(id, method, params),
            "session/load" | "session/resume" | "session/list" => {
                let why = if self.store.is_some() {
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
        let id = id.clone();
        let request = match method {
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
        self.forward(&named.session_id, request)?;
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
        self.store.is_some() && self.dialect.capabilities().resume
    }

    fn initialize(&mut self, id: &Id, params: &RawValue) -> Handled {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct InitializeParams {
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
        // Capabilities of an unexpected shape are ignored.
        let asked: InitializeParams = wire::params(params).unwrap_or_default();
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
        let (agent, host) = (self.agent.clone(), self.host.clone());
        self.jobs.spawn(async move {
            let (message, hint) = match agent.probe(&host).await {
                Probed::Ready { .. } | Probed::LoginUnknown { .. } => {
                    return wire::response(&id, &EmptyResponse {});
                }
                Probed::Missing { hint, .. } => ("the agent is not installed".to_owned(), hint),
                Probed::NotConfigured { hint } => ("the agent is not configured".to_owned(), hint),
                Probed::Broken { why, hint, .. } => (why, hint),
                Probed::TooOld {
                    version,
                    need,
                    hint,
                    ..
                } => (
                    format!(
                        "the agent is too old: version {version}, but {need} or newer is required"
                    ),
                    hint,
                ),
                Probed::NotLoggedIn { hint, .. } => ("not logged in".to_owned(), hint),
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
            .store
            .as_ref()
            .ok_or_else(|| Failure::method("session/load"))?;
        let earlier = history::find(store, &id, self.agent.name())?;
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
        let mut args = self.args.clone();
        let follows = match from {
            Some(Continuation::Resumed(id)) => {
                args.agent_settings.resume = Some(id);
                None
            }
            Some(Continuation::Empty(id)) => Some(id),
            None => None,
        };
        let context = LaunchContext {
            prompt: String::new(),
            dir: dir.clone(),
            streaming: true,
            after_turn: AfterTurn::Wait,
            attendance: Attendance::Attended,
            ..LaunchContext::default()
        };
        // Each session may be in another project, with its own configuration.
        let resolved = || {
            let project = trust_review::open(
                (args.config, &args.policy),
                &context.dir,
                Attendance::Unattended,
            )?;
            let config = config::load(args.config, &project)?;
            let chosen = ChosenAgent {
                name: self.name.clone(),
                agent: self.agent.clone(),
            };
            let host = trust_review::attach(self.host.clone(), &project, &config)?;
            let context = LaunchContext { project, ..context };
            Ok((
                spec::build(args, &config, context)?.resolve(&config, &chosen)?,
                host,
            ))
        };
        let (mut spec, host) = resolved().map_err(|fault: Fault| start_failure(&fault))?;
        spec.follows = follows;
        spec.denials = Denials::Tolerate; // a user's own denial is not a failure
        let dialect = spec::dialect_for(&*self.agent, &spec);
        if let Some(warning) = session_params.add_to(&mut spec.settings, dialect)? {
            output::eprint_line(&warning);
        }
        let (modes, model) = (
            Modes::of(dialect, &spec.settings),
            ModelOption::of(dialect, &spec.settings),
        );
        let updates = UpdateMapper::new(dialect, dir, self.notices);
        let started = self.agent.start(&host, spec);
        let session: Session = started
            .map_err(|error| start_failure(&spec::spec_fault(&error, &*self.agent, "acp")))?;
        let (_, inbox) = request::channel(); // replaced by `spawn_session`
        let (id, out) = (session.id().to_owned(), self.out.clone());
        Ok(EditorSession {
            id,
            session,
            out,
            inbox,
            updates,
            modes,
            model,
            history: None,
            state: EditorState::default(),
        })
    }

    fn spawn_session(&mut self, mut editor_session: EditorSession) -> Handled {
        let (requests, inbox) = request::channel();
        editor_session.inbox = inbox;
        self.sessions.insert(editor_session.id.clone(), requests);
        self.tasks.spawn(editor_session.serve());
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
            cwd: std::path::PathBuf,
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<String>,
            updated_at: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ListParams {
            cwd: Option<std::path::PathBuf>,
        }
        let ListParams { cwd } = wire::params(params).unwrap_or_default();
        let dir = cwd.map(|dir| dir.canonicalize().unwrap_or(dir));
        let filter = Filter {
            agent: Some(self.agent.name().to_owned()),
            dir,
            limit: Some(LIST_LIMIT),
            ..Filter::default()
        };
        let rows = self
            .store
            .as_ref()
            .map(|store| store.sessions(&filter))
            .transpose();
        let rows = rows
            .map_err(|error| start_failure(&store::fault(&error)))?
            .unwrap_or_default();
        // The session that has the first turn: the session itself, or its continuation.
        let first_turn = |row: &SessionRow| match row.turns {
            0 => rows
                .iter()
                .find(|next| next.turns > 0 && next.continues.as_deref() == Some(&*row.session))
                .cloned(),
            _ => Some(row.clone()),
        };
        let listed = |row: &SessionRow| {
            let first_turn = first_turn(row)?;
            Some(Listed {
                updated_at: first_turn
                    .ended_at
                    .unwrap_or(first_turn.began_at)
                    .to_string(),
                session_id: row.session.clone(),
                cwd: row.dir.clone(),
                title: first_turn.prompt,
            })
        };
        // Continuations are reached through the session they continue.
        let first = rows.iter().filter(|row| row.continues.is_none());
        Ok(Some(wire::response(
            id,
            &List {
                sessions: first.filter_map(listed).collect(),
            },
        )))
    }
}

/// Converts an error to start a session into a failure.
fn start_failure(fault: &Fault) -> Failure {
    let outcome = fault.outcome();
    let failure = Failure::params(&outcome.message);
    match outcome.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
