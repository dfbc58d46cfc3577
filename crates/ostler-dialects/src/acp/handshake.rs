//! From the first line to a session: the version, the login, the session, and what the spec wants of it.
//!
//! A process opens one session and loads at most one: loading again would leave behind what the first load started.

use std::collections::VecDeque;

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Started};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Spec, keys};
use serde::{Deserialize, Serialize};

use super::ask_mode::{self, Counting};
use super::conversation::AcpConversation;
use super::entry::Entry;
use super::rpc::Wanted;
use super::servers::{self, Server};
use super::settings::{AUTH_METHOD, FS};
use super::version::Version;
use super::wire::{Fault, Initialized, Opened};
use super::{blame, options};
use crate::lenient::Node;

/// What the spec wants of the session.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) cwd: String,
    pub(super) resume: Option<String>,
    fork: bool,
    servers: Vec<Server>,
    model: Option<String>,
    /// The model that an argument chose.
    argued: Option<String>,
    mode: Option<String>,
    /// Who counts on it that the agent asks.
    pub(super) counting: Counting,
    pub(super) fs: bool,
    auth_method: Option<String>,
    /// What the agent said its version is.
    pub(super) agent_version: Option<String>,
    /// How the session is opened, once the agent has said what it can do.
    way: Way,
}

/// How a session is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    #[default]
    New,
    Load,
    Resume,
    Fork,
}

/// Something to be set before the first message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Mode(String),
    /// The mode in which the agent asks.
    Asking(&'static str),
    Model(String),
    Barrier,
}

impl Start {
    pub(super) fn new(entry: &Entry, spec: &Spec) -> Self {
        let last = |key: &str| spec.settings.last(key).map(str::to_owned);
        let servers = servers::all(&spec.settings, spec.bridge.as_ref());
        Self {
            cwd: spec
                .dir
                .as_ref()
                .map_or_else(|| "/".to_owned(), |dir| dir.display().to_string()),
            resume: last(keys::RESUME),
            fork: spec.settings.is_on(keys::FORK),
            servers: if entry.server_flag.is_some() {
                servers::parted(servers).1
            } else {
                servers
            },
            // Chosen by an argument already.
            model: last(keys::MODEL).filter(|_| entry.model_flag.is_none()),
            argued: last(keys::MODEL).filter(|_| entry.model_flag.is_some()),
            mode: last(keys::PERMISSION_MODE).filter(|word| entry.mode(word).is_none()),
            counting: Counting::of(spec),
            fs: spec.settings.is_on(FS),
            auth_method: last(AUTH_METHOD),
            agent_version: None,
            way: Way::New,
        }
    }
}

/// Says who we are.
pub(super) fn begin(talk: &mut AcpConversation, out: &mut Outbox) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Hello {
        protocol_version: u64,
        client_capabilities: Able,
        client_info: Info,
    }
    #[derive(Serialize)]
    struct Able {
        fs: Fs,
        terminal: bool,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Fs {
        read_text_file: bool,
        write_text_file: bool,
    }
    #[derive(Serialize)]
    struct Info {
        name: &'static str,
        version: &'static str,
    }
    let fs = Fs {
        read_text_file: talk.start.fs,
        write_text_file: talk.start.fs,
    };
    let hello = Hello {
        protocol_version: Version::WANTED,
        client_capabilities: Able {
            fs,
            terminal: false,
        },
        client_info: Info {
            name: "ostler",
            version: env!("CARGO_PKG_VERSION"),
        },
    };
    talk.rpc
        .request(Wanted::Initialize, ("initialize", hello), out);
}

/// Reads the answer to one of the requests that lead to a session.
pub(super) fn answered(
    talk: &mut AcpConversation,
    wanted: &Wanted,
    (result, fault): (&str, Option<&Fault<'_>>),
    out: &mut Outbox,
) {
    if let Some(fault) = fault {
        let why = match wanted {
            Wanted::Session(true) => blame::of_load(talk, fault),
            Wanted::Setup(key) => blame::of_setup(talk, key, fault),
            // It only had to be answered.
            Wanted::Barrier => return next(talk, out),
            _ => blame::of_fault(talk, fault),
        };
        return talk.broken(why, out);
    }
    match wanted {
        Wanted::Initialize => initialized(talk, result, out),
        Wanted::Authenticate => open(talk, out),
        Wanted::Session(_) => opened(talk, result, out),
        Wanted::Setup(_) => {
            options::settled(talk, result);
            next(talk, out);
        }
        _ => next(talk, out),
    }
}

fn initialized(talk: &mut AcpConversation, result: &str, out: &mut Outbox) {
    let hello: Node<'_, Initialized<'_>> = serde_json::from_str(result).unwrap_or_default();
    let empty = Initialized::default();
    let hello = hello.map().unwrap_or(&empty);
    let number = hello.protocol_version.count();
    let Some(version) = number.and_then(Version::of) else {
        return talk.broken(blame::of_version(talk.entry, number), out);
    };
    talk.version = version;
    talk.start.agent_version = hello.agent_info.map().and_then(|info| info.version.owned());
    match plan(talk, hello) {
        Err(why) => talk.broken(why, out),
        Ok(way) => {
            talk.start.way = way;
            match talk.start.auth_method.take() {
                Some(method) => log_in(talk, &method, hello, out),
                None => open(talk, out),
            }
        }
    }
}

/// How the session is going to be opened, or why it cannot be.
fn plan(talk: &AcpConversation, hello: &Initialized<'_>) -> Result<Way, Outcome> {
    let able = hello.agent_capabilities.map();
    let sessions = able.and_then(|able| able.session_capabilities.map());
    let yes = |raw: Option<&serde_json::value::RawValue>| {
        raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false"))
    };
    let mcp = able.and_then(|able| able.mcp_capabilities.map());
    for server in &talk.start.servers {
        let Server::Remote { r#type, name, .. } = server else {
            continue;
        };
        let takes = mcp.is_some_and(|mcp| match r#type {
            servers::Reach::Http => mcp.http.is_true(),
            servers::Reach::Sse => mcp.sse.is_true(),
        });
        if !takes {
            let reach = r#type.as_str();
            let message = format!(
                "{} takes no MCP servers over {reach}, such as {name:?}.",
                talk.entry.name
            );
            return Err(Outcome::new(Cause::BadRequest, message)
                .hint("Leave it out of mcp_config, or use one that is started as a program."));
        }
    }
    let cannot = |kind: &str| {
        let message = format!(
            "{} cannot {kind}: it does not announce it.",
            talk.entry.name
        );
        Err(Outcome::new(Cause::BadRequest, message)
            .hint("Begin a new session, or use another agent."))
    };
    let loads = able.is_some_and(|able| able.load_session.is_true());
    match (&talk.start.resume, talk.start.fork) {
        (None, _) => Ok(Way::New),
        (Some(_), true) if sessions.is_some_and(|it| yes(it.fork)) => Ok(Way::Fork),
        (Some(_), true) => cannot("make a copy of a session"),
        (Some(_), false) if loads && talk.quirks.resumes_own => Ok(Way::Load),
        (Some(_), false) if sessions.is_some_and(|it| yes(it.resume)) => Ok(Way::Resume),
        (Some(_), false) if loads => Ok(Way::Load),
        (Some(_), false) => cannot("go on with a session"),
    }
}

fn log_in(talk: &mut AcpConversation, method: &str, hello: &Initialized<'_>, out: &mut Outbox) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct LogIn<'a> {
        method_id: &'a str,
    }
    let known: Vec<&str> = hello
        .auth_methods
        .0
        .iter()
        .filter_map(|it| it.map()?.id.text())
        .collect();
    if known.contains(&method) {
        return talk.rpc.request(
            Wanted::Authenticate,
            ("authenticate", LogIn { method_id: method }),
            out,
        );
    }
    let message = format!(
        "{} has no way to log in of the name {method:?}.",
        talk.entry.name
    );
    let hint = format!("Set auth_method to one of: {}.", known.join(", "));
    talk.broken(Outcome::new(Cause::BadRequest, message).hint(hint), out);
}

/// Opens the session.
fn open(talk: &mut AcpConversation, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Open<'a> {
        #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
        session: Option<&'a str>,
        cwd: &'a str,
        #[serde(rename = "mcpServers")]
        servers: &'a [Server],
    }
    let start = &talk.start;
    let method = match start.way {
        Way::New => "session/new",
        Way::Load => "session/load",
        Way::Resume => "session/resume",
        Way::Fork => "session/fork",
    };
    let open = Open {
        session: start.resume.as_deref(),
        cwd: &start.cwd,
        servers: &start.servers,
    };
    talk.replaying = start.way != Way::New;
    talk.rpc
        .request(Wanted::Session(start.way != Way::New), (method, open), out);
}

fn opened(talk: &mut AcpConversation, result: &str, out: &mut Outbox) {
    let opened: Node<'_, Opened<'_>> = serde_json::from_str(result).unwrap_or_default();
    let empty = Opened::default();
    let opened = opened.map().unwrap_or(&empty);
    let kept = talk
        .start
        .resume
        .clone()
        .filter(|_| talk.start.way != Way::Fork);
    let Some(session) = opened
        .session_id
        .owned()
        .or(kept)
        .filter(|id| !id.is_empty())
    else {
        let message = format!(
            "{} opened a session and did not say its name.",
            talk.entry.name
        );
        return talk.broken(Outcome::new(Cause::Protocol, message), out);
    };
    talk.session = session;
    talk.options.opened(opened);
    let mut steps = VecDeque::new();
    // A mode that the caller chose is checked when it is set.
    match talk.start.mode.take() {
        Some(mode) => steps.push_back(Step::Mode(mode)),
        None => match ask_mode::step(talk, out) {
            Ok(step) => steps.extend(step),
            Err(why) => return talk.broken(why, out),
        },
    }
    steps.extend(talk.start.model.take().map(Step::Model));
    if talk.start.way == Way::Load && talk.quirks.replay_trails {
        steps.push_back(Step::Barrier);
    }
    talk.steps = steps;
    next(talk, out);
}

/// Takes the next step; after the last one the agent is ready.
fn next(talk: &mut AcpConversation, out: &mut Outbox) {
    let Some(step) = talk.steps.pop_front() else {
        out.event(Started {
            agent: talk.entry.name.to_owned(),
            agent_version: talk.start.agent_version.clone(),
            native_session: Some(talk.session.clone()),
            model: talk.options.model().or_else(|| talk.start.argued.clone()),
            cwd: talk
                .quirks
                .works_in
                .is_none()
                .then(|| talk.start.cwd.clone()),
            tools: Vec::new(),
        });
        if let Some(place) = talk.quirks.works_in {
            let (name, cwd) = (talk.entry.name, &talk.start.cwd);
            let message = format!(
                "{name} runs commands in {place}, not in {cwd}, which it only reads about."
            );
            out.notice(Level::Warning, "works_elsewhere", message);
        }
        return talk.ready(out);
    };
    let (key, wish) = match &step {
        Step::Mode(mode) => (keys::PERMISSION_MODE, options::wish_first_mode(talk, mode)),
        Step::Asking(mode) => (keys::PERMISSION_MODE, options::wish_asking(talk, mode)),
        Step::Model(model) => (keys::MODEL, options::wish_first_model(talk, model)),
        Step::Barrier => {
            return match options::same_mode(talk) {
                Some((method, params)) => talk.rpc.request(Wanted::Barrier, (method, params), out),
                None => next(talk, out),
            };
        }
    };
    match wish {
        Ok((method, params)) => talk.rpc.request(Wanted::Setup(key), (method, params), out),
        Err(why) => talk.broken(
            Outcome::new(Cause::BadRequest, why.message).hint(why.hint),
            out,
        ),
    }
}

/// Returns true if a recording that begins with this text is of this agent.
pub(super) fn is_recorded(entry: &Entry, opening: &str) -> bool {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: Initialized<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        #[serde(rename = "protocolVersion")]
        _protocol: serde::de::IgnoredAny,
        #[serde(borrow)]
        agent_info: Option<Named<'a>>,
        #[serde(borrow, default)]
        auth_methods: Vec<Method<'a>>,
    }
    #[derive(Deserialize)]
    struct Named<'a> {
        name: &'a str,
    }
    #[derive(Deserialize)]
    struct Method<'a> {
        id: &'a str,
    }
    let is_signed = |response: Response<'_>| match response.result.agent_info {
        Some(info) => info.name == entry.signature,
        None => response
            .result
            .auth_methods
            .iter()
            .any(|method| method.id == entry.signature),
    };
    !entry.signature.is_empty() && crate::recording::lines(opening).any(is_signed)
}
