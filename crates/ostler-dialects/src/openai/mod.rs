//! Any model behind OpenAI's chat-completions API, with Ostler's own tool loop.
//!
//! There is no program to start: a runner inside Ostler calls the model and runs the tools. All
//! decisions are made here, without I/O. The wire types are our own rather than a client library's:
//! a missing `index` or an unknown `finish_reason` must not lose an answer (pitfall P63;
//! docs/design/decisions.md).

mod usage;
mod blame;
mod calls;
mod chunk;
mod context;
mod conversation;
mod history;
mod config;
mod prices;
mod rebuild;
mod reply;
mod request;
mod structured;
mod system;
mod tool_use;

pub mod runner_protocol;
pub mod single;
pub mod sse;

pub use blame::{NO_SCRIPTED_REPLY, is_worth_retrying};
pub use history::{History, HistoryCall, Message};
pub use rebuild::AWAITING_APPROVAL;
pub(crate) use tool_use::tool_use;

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Inherits, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, ValueKind, keys};

use crate::settings::{Row, check, list};

/// The dialect of OpenAI-compatible servers.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi;

/// Base URL of OpenAI's own server.
pub const OFFICIAL: &str = "https://api.openai.com/v1";

/// Maximum length of a system prompt.
const PROMPT: usize = 2_000_000;

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $help:literal;)*) => {
        [$(Row { key: $key, kind: $kind, rule: $rule, secret: false, pass: (), help: $help },)*]
    };
}

/// Settings of the server.
const SERVER_SETTINGS: [Row<()>; 4] = rows! {
    "base_url", ValueKind::Word, Some(url), "Base URL of the server, without /chat/completions (default: OPENAI_BASE_URL, or OpenAI's server).";
    "api_key_env", ValueKind::Word, Some(variable), "Environment variable with the API key (default: OPENAI_API_KEY).";
    "organization", ValueKind::Word, None, "Organization to bill (default: OPENAI_ORG_ID).";
    "project", ValueKind::Word, None, "Project to bill (default: OPENAI_PROJECT_ID).";
};

/// Settings of the conversation.
const CONVERSATION_SETTINGS: [Row<()>; 18] = rows! {
    "retries", ValueKind::OneOf(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]), None, "Maximum number of retries for a call that failed before its first output (default: 3, or 0 for a script).";
    keys::MODEL, ValueKind::Word, None, "Model to use (default: OPENAI_MODEL, or the server's only model).";
    keys::SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, "Replace the system prompt, which describes the workspace, the tools and the limits.";
    keys::APPEND_SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, "Append text to the system prompt.";
    keys::TOOLS, ValueKind::ListOrNone, None, "Enable only these tools, one per value. An empty value disables all of them.";
    keys::DISALLOWED_TOOLS, ValueKind::List, None, "Disable a tool, one per value.";
    keys::JSON_SCHEMA, ValueKind::Object, Some(structured::check_schema), "JSON schema for the answer. Ostler validates it and asks the model to correct it at most twice.";
    keys::MAX_TURNS, ValueKind::Count, None, "Maximum number of model answers per turn (default: 100).";
    keys::MAX_BUDGET_USD, ValueKind::Amount, None, "Maximum cost in US dollars. Needs a price: built in for OpenAI's models, otherwise set with price.";
    "price", ValueKind::Word, Some(price), "Price in US dollars per million tokens: input/output or input/cached/output.";
    "max_tokens", ValueKind::Count, None, "Maximum number of output tokens per answer.";
    "temperature", ValueKind::Word, Some(number), "Sampling temperature, from 0 to 2.";
    "reasoning_effort", ValueKind::Word, None, "Reasoning effort, as named by the server: low, medium, high, …";
    "context_window", ValueKind::Count, None, "Context window of the model in tokens. Before it is full, old tool results are shortened and old messages summarized.";
    "stream_usage", ValueKind::Switch, None, "Request token counts in the stream (default: true). Set to false for servers that reject the option.";
    keys::RESUME, ValueKind::Word, None, "Id of the session to resume, from Ostler's session log.";
    keys::FORK, ValueKind::Switch, None, "Resume a copy of the session and leave the original unchanged.";
    "extra_body", ValueKind::Object, None, "Additional fields for each request, as a JSON object. They override Ostler's.";
};

/// Capabilities of every agent with this conversation.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    stream_text: true,
    thinking: true,
    interrupt: true,
    structured: true,
    cost: false,
    many_turns: true,
    resume: true,
    fork: true,
    steer: true,
    ask: true,
    tools: true,
    set_model: true,
    set_permission_mode: false,
    freeze: false,
    silent: false,
    tells_tools: true,
    tells_denials: true,
    tells_usage: true,
    long_prompts: true,
};

/// Returns the settings of the conversation, followed by the dialect's own.
pub(crate) fn table(extra: impl IntoIterator<Item = Row<()>>) -> Vec<Row<()>> {
    CONVERSATION_SETTINGS.into_iter().chain(extra).collect()
}

/// Checks the spec of an agent with this conversation.
pub(crate) fn launch(
    spec: &Spec,
    table: &[Row<()>],
    program: &'static str,
) -> Result<Launch, SpecError> {
    check(table, &spec.settings)?;
    if let Some(arg) = spec.extra_args.first() {
        let why = format!("{program} is not an external program and takes no arguments");
        return Err(SpecError::new("extra args", arg, why));
    }
    if spec.settings.is_on(keys::FORK) && spec.settings.last(keys::RESUME).is_none() {
        return Err(SpecError::new(keys::FORK, "true", "needs resume"));
    }
    Ok(Launch {
        program,
        natives: &[],
        args: Vec::new(),
        env: Vec::new(),
        inherits: Inherits::default(),
        needs: &[],
        state: &[],
    })
}

/// Creates the conversation of an agent.
pub(crate) fn converse(spec: &Spec, dialect: &dyn Dialect) -> Box<dyn Conversation> {
    Box::new(conversation::ModelConversation::new(
        config::LoopConfig::of(spec, dialect, 1),
        &spec.past,
    ))
}

/// Creates the conversation of a loop, which continues after a failure.
pub(crate) fn converse_in_loop(spec: &Spec, dialect: &dyn Dialect) -> Box<dyn Conversation> {
    Box::new(conversation::ModelConversation::new(
        config::LoopConfig::of(spec, dialect, 3),
        &spec.past,
    ))
}

const NAME: &str = "openai-api";

fn extra() -> impl IntoIterator<Item = Row<()>> {
    let help = "Additional HTTP header, as Name: value. Repeatable.";
    // The value may be an API key.
    let header = Row {
        key: "header",
        kind: ValueKind::List,
        rule: Some(header),
        help,
        secret: true,
        pass: (),
    };
    SERVER_SETTINGS.into_iter().chain([header])
}

/// Finds the `ready` line at the beginning of a recording.
pub(crate) fn find_ready(opening: &str) -> Option<runner_protocol::Ready> {
    crate::recording::lines::<runner_protocol::RunnerLine>(opening).find_map(|line| {
        match line.ostler {
            runner_protocol::RunnerEvent::Ready(ready) => Some(ready),
            _ => None,
        }
    })
}

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resumes_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        list(&table(extra()))
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        find_ready(opening).is_some_and(|ready| !ready.uncounted && ready.looping.is_none())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch(spec, &table(extra()), NAME)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        converse(spec, self)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use(tool, input)
    }
}

/// Checks that a text can be the base URL of a server. The error does not repeat the text, which
/// may contain a password.
///
/// # Errors
/// Returns what is wrong with the URL.
pub fn url(value: &str) -> Result<(), String> {
    let known = value.starts_with("http://") || value.starts_with("https://");
    let credentials = value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|h| h.contains('@')));
    if !known {
        Err("expected a URL that begins with http:// or https://".into())
    } else if credentials {
        Err(
            "the URL must not contain a user or password; put keys into OPENAI_API_KEY or header"
                .into(),
        )
    } else if value.contains(['?', '#']) {
        Err(
            "expected the part before /chat/completions, without ? and #; put extra fields into \
            header or extra_body"
                .into(),
        )
    } else {
        Ok(())
    }
}

fn variable(value: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if value.chars().all(good) {
        Ok(())
    } else {
        Err("expected the name of an environment variable, not a key".into())
    }
}

fn header(value: &str) -> Result<(), String> {
    let name = value
        .split_once(':')
        .map(|(name, _)| name.trim())
        .filter(|name| !name.is_empty());
    let good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_some_and(|name| name.chars().all(good)) && !value.contains(['\r', '\n', '\0']) {
        Ok(())
    } else {
        Err("expected Name: value".into())
    }
}

fn price(value: &str) -> Result<(), String> {
    prices::Price::parse(value).map(|_| ())
}

fn number(value: &str) -> Result<(), String> {
    let good = value.parse::<f64>().is_ok_and(|n| (0.0..=2.0).contains(&n));
    if good && serde_json::from_str::<f64>(value).is_ok() {
        Ok(())
    } else {
        Err("expected a number from 0 to 2".into())
    }
}
