//! Any model behind OpenAI's chat-completions API, with Ostler's own tool loop.
//!
//! There is no program to start: a runner inside Ostler calls the model and runs the tools. All
//! decisions are made here, without I/O. The wire types are our own rather than a client library's:
//! a missing `index` or an unknown `finish_reason` must not lose an answer (pitfall P63;
//! docs/design/decisions.md).

use std::sync::LazyLock;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{InvalidValue, Spec, SpecError, keys};

use ostler_model::runner_protocol::{Ready, RunnerEvent, RunnerLine};
use ostler_model::{LoopAgent, LoopConfig, ModelConversation, Price, check_schema, tool_use};

use crate::settings::{check, rows};

/// The dialect of OpenAI-compatible servers.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi;

/// Base URL of OpenAI's own server.
pub const OFFICIAL: &str = "https://api.openai.com/v1";

/// Maximum length of a system prompt.
const PROMPT: usize = 2_000_000;

/// Settings of the server.
const SERVER_SETTINGS: [Setting; 5] = rows! {
    "base_url", Word if url, "Base URL of the server, without /chat/completions (default: OPENAI_BASE_URL, or OpenAI's server).";
    "api_key_env", Word if variable, "Environment variable with the API key (default: OPENAI_API_KEY).";
    "organization", Word, "Organization to bill (default: OPENAI_ORG_ID).";
    "project", Word, "Project to bill (default: OPENAI_PROJECT_ID).";
    "header", List if header => Secret, "Additional HTTP header, as Name: value. Repeatable.";
};

/// Settings of the conversation.
const CONVERSATION_SETTINGS: [Setting; 18] = rows! {
    "retries", OneOf(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]), "Maximum number of retries for a call that failed before its first output (default: 3, or 0 for a script).";
    keys::MODEL, Word, "Model to use (default: OPENAI_MODEL, or the server's only model).";
    keys::SYSTEM_PROMPT, Text(PROMPT), "Replace the system prompt, which describes the workspace, the tools and the limits.";
    keys::APPEND_SYSTEM_PROMPT, Text(PROMPT), "Append text to the system prompt.";
    keys::TOOLS, ListOrNone, "Enable only these tools, one per value. An empty value disables all of them.";
    keys::DISALLOWED_TOOLS, List, "Disable a tool, one per value.";
    keys::JSON_SCHEMA, Object if schema, "JSON schema for the answer. Ostler validates it and asks the model to correct it at most twice.";
    keys::MAX_TURNS, Count, "Maximum number of model answers per turn (default: 100).";
    keys::MAX_BUDGET_USD, Amount, "Maximum cost in US dollars. Needs a price: built in for OpenAI's models, otherwise set with price.";
    "price", Word if price, "Price in US dollars per million tokens: input/output or input/cached/output.";
    "max_tokens", Count, "Maximum number of output tokens per answer.";
    "temperature", Word if number, "Sampling temperature, from 0 to 2.";
    "reasoning_effort", Word, "Reasoning effort, as named by the server: low, medium, high, …";
    "context_window", Count, "Context window of the model in tokens. Before it is full, old tool results are shortened and old messages summarized.";
    "stream_usage", Switch, "Request token counts in the stream (default: true). Set to false for servers that reject the option.";
    keys::RESUME, Word, "Id of the session to resume, from Ostler's session log.";
    keys::FORK, Switch, "Resume a copy of the session and leave the original unchanged.";
    "extra_body", Object, "Additional fields for each request, as a JSON object. They override Ostler's.";
};

/// Returns the capabilities of every agent with this conversation.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        stream_text: true,
        thinking: true,
        interrupt: true,
        structured: true,
        many_turns: true,
        resume: true,
        fork: true,
        steer: true,
        ask: true,
        tools: true,
        set_model: true,
        tells_tools: true,
        tells_denials: true,
        tells_usage: true,
        long_prompts: true,
        resumes_from_events: true,
        ..Capabilities::default()
    }
}

/// Returns the settings of the conversation, followed by the dialect's own.
pub(crate) fn table(extra: impl IntoIterator<Item = Setting>) -> Vec<Setting> {
    CONVERSATION_SETTINGS.into_iter().chain(extra).collect()
}

/// Checks the spec of an agent with this conversation.
pub(crate) fn launch(
    spec: &Spec,
    table: &[Setting],
    program: &'static str,
) -> Result<Launch, SpecError> {
    check(table, &spec.to_settings())?;
    if let Some(arg) = spec.extra_args.first() {
        let why = format!("{program} is not an external program and takes no arguments");
        return Err(SpecError::new("extra args", arg, why));
    }
    Ok(Launch {
        program,
        ..Launch::default()
    })
}

/// Creates the conversation of an agent. `max_errors` is its default limit of consecutive failed
/// steps.
pub(crate) fn converse(
    launching: &Launching<'_>,
    dialect: &dyn Dialect,
    max_errors: u32,
) -> Box<dyn Conversation> {
    let agent = LoopAgent {
        name: dialect.about().name,
        set_model: dialect.about().capabilities.set_model,
        max_errors,
    };
    Box::new(ModelConversation::new(
        LoopConfig::of(launching.spec, agent),
        launching.past,
    ))
}

const NAME: &str = "openai-api";

/// The settings of this agent.
static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| table(SERVER_SETTINGS));

/// Finds the `ready` line at the beginning of a recording.
pub(crate) fn find_ready(opening: &str) -> Option<Ready> {
    crate::recording::lines::<RunnerLine>(opening).find_map(|line| match line.ostler {
        RunnerEvent::Ready(ready) => Some(ready),
        _ => None,
    })
}

impl Dialect for OpenAi {
    fn about(&self) -> About {
        About {
            capabilities: capabilities(),
            settings: &TABLE,
            recognizes: |opening| {
                find_ready(opening).is_some_and(|ready| !ready.uncounted && ready.looping.is_none())
            },
            ..About::new(NAME)
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch(launching.spec, &TABLE, NAME)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        converse(launching, self, 1)
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
pub fn url(value: &str) -> Result<(), InvalidValue> {
    let (scheme, rest) = value.split_once("://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    InvalidValue::unless(
        matches!(scheme, "http" | "https"),
        "expected a URL that begins with http:// or https://",
    )?;
    InvalidValue::unless(
        !host.contains('@'),
        "the URL must not contain a user or password; put keys into OPENAI_API_KEY or header",
    )?;
    InvalidValue::unless(
        !value.contains(['?', '#']),
        "expected the part before /chat/completions, without ? and #; put extra fields into \
        header or extra_body",
    )
}

fn variable(value: &str) -> Result<(), InvalidValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    InvalidValue::unless(
        value.chars().all(allowed),
        "expected the name of an environment variable, not a key",
    )
}

fn header(value: &str) -> Result<(), InvalidValue> {
    let name = value.split_once(':').map(|(name, _)| name.trim());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(allowed);
    InvalidValue::unless(
        name.is_some_and(is_name) && !value.contains(['\r', '\n', '\0']),
        "expected Name: value",
    )
}

fn price(value: &str) -> Result<(), InvalidValue> {
    Price::parse(value).map(|_| ())
}

fn schema(value: &str) -> Result<(), InvalidValue> {
    check_schema(value).map_err(|error| InvalidValue::from_error(&error))
}

fn number(value: &str) -> Result<(), InvalidValue> {
    let is_json = serde_json::from_str::<f64>(value).is_ok();
    let number = value.parse().ok().filter(|_| is_json);
    InvalidValue::unless(
        number.is_some_and(|number: f64| (0.0..=2.0).contains(&number)),
        "expected a number from 0 to 2",
    )
}
