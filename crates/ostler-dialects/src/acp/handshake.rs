//! Handshake: protocol version, login, session, and the settings to apply before the first prompt.
//!
//! A process opens one session and loads at most one: loading again would leave behind whatever the
//! first load started.

use std::collections::VecDeque;

use ostler_core::dialect::{Launching, Outbox};
use ostler_core::event::{NoticeCode, Started};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::keys;
use serde_json::json;

use super::ask_mode::{self, Approver};
use super::conversation::{AcpConversation, Response};
use super::profile::AgentProfile;
use super::rpc::RequestKind;
use super::servers::{self, McpServer};
use super::settings::{AUTH_METHOD, FS};
use super::version::Version;
use super::wire::{InitializeResponse, Message, SessionResponse};
use super::{blame, options};
use crate::json_lines::without_nulls;
use crate::jsonrpc::Call;
use crate::lenient::{self, Object, Scalar};

/// Session parameters from the spec.
#[derive(Debug)]
pub(super) struct SessionStart {
    pub(super) cwd: String,
    pub(super) resume: Option<String>,
    fork: bool,
    servers: Vec<McpServer>,
    model: Option<String>,
    /// Model selected by a command-line argument.
    launch_model: Option<String>,
    mode: Option<String>,
    /// Who approves the agent's actions.
    pub(super) approver: Approver,
    pub(super) fs: bool,
    auth_method: Option<String>,
    /// Version that the agent reported.
    agent_version: Option<String>,
    /// Method that opens the session, chosen from the agent's capabilities.
    method: OpenMethod,
}

/// Method that opens a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum OpenMethod {
    #[default]
    New,
    Load,
    Resume,
    Fork,
}

/// A setup step before the first prompt.
#[derive(Debug)]
pub(super) enum Step {
    Mode(String),
    /// Selects the mode in which the agent asks.
    AskMode(&'static str),
    Model(String),
    Barrier,
}

impl SessionStart {
    pub(super) fn new(profile: &AgentProfile, launching: &Launching<'_>) -> Self {
        let spec = launching.spec;
        let servers = servers::all(launching);
        Self {
            cwd: spec
                .dir
                .as_ref()
                .map_or_else(|| "/".to_owned(), |dir| dir.display().to_string()),
            resume: spec.resume.clone(),
            fork: spec.fork,
            servers: if profile.server_flag.is_some() {
                servers::split_stdio(servers).1
            } else {
                servers
            },
            // Already selected by an argument.
            model: spec.model.clone().filter(|_| profile.model_flag.is_none()),
            launch_model: spec.model.clone().filter(|_| profile.model_flag.is_some()),
            mode: spec
                .permission_mode
                .clone()
                .filter(|mode| profile.mode(mode).is_none()),
            approver: Approver::of(spec),
            fs: spec.is_on(FS),
            auth_method: spec.value(AUTH_METHOD),
            agent_version: None,
            method: OpenMethod::New,
        }
    }
}

/// Sends `initialize`.
pub(super) fn send_initialize(conversation: &mut AcpConversation, out: &mut Outbox) {
    let fs = conversation.start.fs;
    let call = Call {
        method: "initialize",
        params: json!({
            "protocolVersion": Version::WANTED,
            "clientCapabilities": {
                "fs": {"readTextFile": fs, "writeTextFile": fs},
                "terminal": false,
            },
            "clientInfo": {"name": "ostler", "version": env!("CARGO_PKG_VERSION")},
        }),
    };
    conversation.rpc.request(RequestKind::Initialize, call, out);
}

/// Handles the response to one of the requests that open a session.
pub(super) fn on_response(
    conversation: &mut AcpConversation,
    kind: &RequestKind,
    response: &Response<'_>,
    out: &mut Outbox,
) {
    if let Some(error) = &response.error {
        let why = match kind {
            RequestKind::Session(true) => blame::of_load(conversation, error),
            RequestKind::Setup(key) => blame::of_setup(conversation, key, error),
            // Any response will do.
            RequestKind::Barrier => return next_step(conversation, out),
            _ => blame::of_fault(conversation, error),
        };
        return conversation.fail(why, out);
    }
    match kind {
        RequestKind::Initialize => on_initialized(conversation, &response.parse(), out),
        RequestKind::Authenticate => open_session(conversation, out),
        RequestKind::Session(_) => on_opened(conversation, &response.parse(), out),
        RequestKind::Setup(_) => {
            options::apply_response(conversation, response);
            next_step(conversation, out);
        }
        _ => next_step(conversation, out),
    }
}

fn on_initialized(
    conversation: &mut AcpConversation,
    response: &InitializeResponse<'_>,
    out: &mut Outbox,
) {
    let number = response.protocol_version.count();
    let Some(version) = number.and_then(Version::of) else {
        return conversation.fail(blame::of_version(conversation.profile, number), out);
    };
    conversation.version = version;
    let info = response.agent_info.map();
    conversation.start.agent_version = info.and_then(|info| info.version.owned());
    match choose_method(conversation, response) {
        Err(why) => conversation.fail(why, out),
        Ok(method) => {
            conversation.start.method = method;
            match conversation.start.auth_method.take() {
                Some(method) => authenticate(conversation, &method, response, out),
                None => open_session(conversation, out),
            }
        }
    }
}

/// Chooses the method that opens the session, or returns why none will work.
fn choose_method(
    conversation: &AcpConversation,
    response: &InitializeResponse<'_>,
) -> Result<OpenMethod, Outcome> {
    let capabilities = &response.agent_capabilities;
    let sessions = &capabilities.session_capabilities;
    let announced = |raw: Option<&serde_json::value::RawValue>| {
        raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false"))
    };
    let mcp = &capabilities.mcp_capabilities;
    for server in &conversation.start.servers {
        let McpServer::Remote { r#type, name, .. } = server else {
            continue;
        };
        let supported = match r#type {
            servers::RemoteTransport::Http => mcp.http.is_true(),
            servers::RemoteTransport::Sse => mcp.sse.is_true(),
        };
        if !supported {
            let transport = r#type.as_str();
            let message = format!(
                "{} does not support MCP servers over {transport}, such as {name:?}.",
                conversation.profile.name
            );
            return Err(Outcome::new(Cause::BadRequest, message)
                .hint("Remove it from mcp_config, or use a server that is started as a program."));
        }
    }
    let unsupported = |kind: &str| {
        let message = format!("{} does not support {kind}.", conversation.profile.name);
        Err(Outcome::new(Cause::BadRequest, message)
            .hint("Start a new session, or use another agent."))
    };
    let loads = capabilities.load_session.is_true();
    match (&conversation.start.resume, conversation.start.fork) {
        (None, _) => Ok(OpenMethod::New),
        (Some(_), true) if announced(sessions.fork) => Ok(OpenMethod::Fork),
        (Some(_), true) => unsupported("copying sessions"),
        (Some(_), false) if loads && conversation.quirks.resumes_same_process_only => {
            Ok(OpenMethod::Load)
        }
        (Some(_), false) if announced(sessions.resume) => Ok(OpenMethod::Resume),
        (Some(_), false) if loads => Ok(OpenMethod::Load),
        (Some(_), false) => unsupported("resuming sessions"),
    }
}

fn authenticate(
    conversation: &mut AcpConversation,
    method: &str,
    response: &InitializeResponse<'_>,
    out: &mut Outbox,
) {
    let known = response.auth_methods.iter();
    let known: Vec<&str> = known.filter_map(|it| it.id.text()).collect();
    if known.contains(&method) {
        let call = Call {
            method: "authenticate",
            params: json!({"methodId": method}),
        };
        return conversation
            .rpc
            .request(RequestKind::Authenticate, call, out);
    }
    let message = format!(
        "{} has no login method {method:?}.",
        conversation.profile.name
    );
    let hint = format!("Set auth_method to one of: {}.", known.join(", "));
    conversation.fail(Outcome::new(Cause::BadRequest, message).hint(hint), out);
}

/// Requests the session.
fn open_session(conversation: &mut AcpConversation, out: &mut Outbox) {
    let start = &conversation.start;
    let method = match start.method {
        OpenMethod::New => "session/new",
        OpenMethod::Load => "session/load",
        OpenMethod::Resume => "session/resume",
        OpenMethod::Fork => "session/fork",
    };
    let params = without_nulls(json!({
        "sessionId": start.resume,
        "cwd": start.cwd,
        "mcpServers": start.servers,
    }));
    let is_known = start.method != OpenMethod::New;
    conversation.replaying = is_known;
    let kind = RequestKind::Session(is_known);
    conversation.rpc.request(kind, Call { method, params }, out);
}

fn on_opened(conversation: &mut AcpConversation, opened: &SessionResponse<'_>, out: &mut Outbox) {
    let resumed = conversation
        .start
        .resume
        .clone()
        .filter(|_| conversation.start.method != OpenMethod::Fork);
    let Some(session) = opened
        .session_id
        .owned()
        .or(resumed)
        .filter(|id| !id.is_empty())
    else {
        let message = format!(
            "{} opened a session without reporting its id.",
            conversation.profile.name
        );
        return conversation.fail(Outcome::new(Cause::Protocol, message), out);
    };
    conversation.session = session;
    conversation.options.on_session_opened(opened);
    let mut steps = VecDeque::new();
    // A mode that the caller chose is checked when it is set.
    match conversation.start.mode.take() {
        Some(mode) => steps.push_back(Step::Mode(mode)),
        None => match ask_mode::required_step(conversation, out) {
            Ok(step) => steps.extend(step),
            Err(why) => return conversation.fail(why, out),
        },
    }
    steps.extend(conversation.start.model.take().map(Step::Model));
    if conversation.start.method == OpenMethod::Load && conversation.quirks.replay_trails {
        steps.push_back(Step::Barrier);
    }
    conversation.steps = steps;
    next_step(conversation, out);
}

/// Runs the next setup step. After the last one the agent is ready.
fn next_step(conversation: &mut AcpConversation, out: &mut Outbox) {
    let Some(step) = conversation.steps.pop_front() else {
        out.event(Started {
            agent: conversation.profile.name.to_owned(),
            agent_version: conversation.start.agent_version.clone(),
            native_session: Some(conversation.session.clone()),
            model: conversation
                .options
                .model()
                .or_else(|| conversation.start.launch_model.clone()),
            cwd: conversation
                .quirks
                .fixed_workspace
                .is_none()
                .then(|| conversation.start.cwd.clone()),
            tools: Vec::new(),
        });
        if let Some(place) = conversation.quirks.fixed_workspace {
            let (name, cwd) = (conversation.profile.name, &conversation.start.cwd);
            let message = format!(
                "{name} runs commands in {place}, not in {cwd}, which only its prompt mentions."
            );
            out.warn(NoticeCode::WorksElsewhere, message);
        }
        return conversation.on_session_ready(out);
    };
    let (key, request) = match &step {
        Step::Mode(mode) => (
            keys::PERMISSION_MODE,
            options::mode_request(conversation, mode),
        ),
        Step::AskMode(mode) => (
            keys::PERMISSION_MODE,
            options::ask_mode_request(conversation, mode),
        ),
        Step::Model(model) => (keys::MODEL, options::model_request(conversation, model)),
        Step::Barrier => {
            return match options::current_mode_request(conversation) {
                Some(call) => conversation.rpc.request(RequestKind::Barrier, call, out),
                None => next_step(conversation, out),
            };
        }
    };
    match request {
        Ok(call) => {
            conversation.options.remember(&call);
            conversation.rpc.request(RequestKind::Setup(key), call, out);
        }
        Err(why) => conversation.fail(
            Outcome::new(Cause::BadRequest, why.message).hint(why.hint),
            out,
        ),
    }
}

/// Returns true if a recording that begins with this text is of this agent.
pub(super) fn recognizes(signature: &str, opening: &str) -> bool {
    let is_signed = |message: Message<'_>| {
        let response: Object<InitializeResponse<'_>> = lenient::parse(message.result);
        let names = |name: &Scalar<'_>| name.text() == Some(signature);
        response.protocol_version != Scalar::None
            && match response.agent_info.map() {
                Some(info) => names(&info.name),
                None => response.auth_methods.iter().any(|method| names(&method.id)),
            }
    };
    crate::recording::lines(opening).any(is_signed)
}
