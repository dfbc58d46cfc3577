//! Any model behind OpenAI's chat-completions interface, with a tool loop of Ostler's own.
//!
//! There is no program to start: a body inside Ostler calls the model and runs the tools. Everything that needs thought is
//! here and pure. Types of our own, not those of a client library: one missing `index` or an unknown `finish_reason` must
//! not lose an answer (pitfall P63; docs/design/decisions.md).

mod usage;
mod blame;
mod calls;
mod chunk;
mod context;
mod conversation;
mod history;
mod plan;
mod prices;
mod rebuild;
mod reply;
mod request;
mod structured;
mod system;
mod tool_use;

pub mod orders;
pub mod single;
pub mod sse;

pub use blame::{SCRIPT, is_worth_retrying};
pub use history::{Called, History, Message};
pub use rebuild::WAITS;
pub(crate) use tool_use::tool_use;

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Inherits, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Kind, Spec, SpecError, keys};

use crate::settings::{Row, check, listed};

/// The dialect of OpenAI-compatible servers.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi;

/// Where OpenAI's own server is.
pub const OFFICIAL: &str = "https://api.openai.com/v1";

/// How long a system prompt may be.
const PROMPT: usize = 2_000_000;

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $help:literal;)*) => {
        [$(Row { key: $key, kind: $kind, rule: $rule, secret: false, pass: (), help: $help },)*]
    };
}

/// What the server is told.
const SERVER: [Row<()>; 4] = rows! {
    "base_url", Kind::Word, Some(url), "Where the server is: what comes before /chat/completions. Else OPENAI_BASE_URL, else OpenAI's own.";
    "api_key_env", Kind::Word, Some(variable), "The name of the variable that holds the key; else OPENAI_API_KEY.";
    "organization", Kind::Word, None, "The organization to bill; else OPENAI_ORG_ID.";
    "project", Kind::Word, None, "The project to bill; else OPENAI_PROJECT_ID.";
};

/// What the conversation keeps to.
const TALK: [Row<()>; 18] = rows! {
    "retries", Kind::OneOf(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]), None, "How often a call that failed before its first word is tried again; else 3, and 0 for a script.";
    keys::MODEL, Kind::Word, None, "The model; else OPENAI_MODEL, else the only one that the server has.";
    keys::SYSTEM_PROMPT, Kind::Text(PROMPT), None, "Replaces the system prompt, which describes the workspace, the tools and the limits.";
    keys::APPEND_SYSTEM_PROMPT, Kind::Text(PROMPT), None, "Is added to the system prompt.";
    keys::TOOLS, Kind::ListOrNone, None, "The tools that exist, one per value; a single empty value: none at all.";
    keys::DISALLOWED_TOOLS, Kind::List, None, "Tools that do not exist, one per value.";
    keys::JSON_SCHEMA, Kind::Object, Some(structured::check_schema), "The JSON schema of the answer. It is checked here too, and sent back at most twice.";
    keys::MAX_TURNS, Kind::Count, None, "At most so many answers of the model in a turn; else 100.";
    keys::MAX_BUDGET_USD, Kind::Amount, None, "At most so much money. Needs a price: OpenAI's own models have one, others by price=….";
    "price", Kind::Word, Some(price), "Dollars per million tokens: input/output or input/cached/output.";
    "max_tokens", Kind::Count, None, "At most so many tokens in one answer.";
    "temperature", Kind::Word, Some(number), "How freely the model chooses its words, from 0 to 2.";
    "reasoning_effort", Kind::Word, None, "How hard a reasoning model thinks, in the server's own words: low, medium, high, …";
    "context_window", Kind::Count, None, "How many tokens the model takes in. Before it is full, old tool results are shortened and old messages summarised.";
    "stream_usage", Kind::Switch, None, "Whether to ask for token counts in the stream (true); false for servers that refuse the question.";
    keys::RESUME, Kind::Word, None, "The id of a session that Ostler kept: this one goes on where it ended.";
    keys::FORK, Kind::Switch, None, "Go on with a copy: the session that is resumed stays as it is.";
    "extra_body", Kind::Object, None, "Further fields of each request: a JSON object. They win over Ostler's.";
};

/// What an agent can do that has this conversation.
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

/// The settings of the conversation, and then those of a dialect's own.
pub(crate) fn table(own: impl IntoIterator<Item = Row<()>>) -> Vec<Row<()>> {
    TALK.into_iter().chain(own).collect()
}

/// Checks a spec for an agent that has this conversation.
pub(crate) fn launch(
    spec: &Spec,
    table: &[Row<()>],
    program: &'static str,
) -> Result<Launch, SpecError> {
    check(table, &spec.settings)?;
    if let Some(arg) = spec.extra_args.first() {
        let why = format!("{program} is no program: there is nothing to pass them to");
        return Err(SpecError::new("extra args", arg, why));
    }
    if spec.settings.is_on(keys::FORK) && spec.settings.last(keys::RESUME).is_none() {
        return Err(SpecError::new(
            keys::FORK,
            "true",
            "needs resume: a copy of which session?",
        ));
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

/// Opens a conversation for an agent that has this one.
pub(crate) fn converse(spec: &Spec, dialect: &dyn Dialect) -> Box<dyn Conversation> {
    Box::new(conversation::ModelConversation::new(
        plan::Plan::of(spec, dialect, 1),
        &spec.past,
    ))
}

/// The same for a loop, in which a failure is not the end.
pub(crate) fn converse_on(spec: &Spec, dialect: &dyn Dialect) -> Box<dyn Conversation> {
    Box::new(conversation::ModelConversation::new(
        plan::Plan::of(spec, dialect, 3),
        &spec.past,
    ))
}

const NAME: &str = "openai-api";

fn own() -> impl IntoIterator<Item = Row<()>> {
    let help = "A further header for the server, as Name: value; repeatable.";
    // Its value may be a key.
    let header = Row {
        key: "header",
        kind: Kind::List,
        rule: Some(header),
        help,
        secret: true,
        pass: (),
    };
    SERVER.into_iter().chain([header])
}

/// The introduction at the beginning of a recording of this conversation.
pub(crate) fn introduced(opening: &str) -> Option<orders::Ready> {
    crate::recording::lines::<orders::Line>(opening).find_map(|line| match line.ostler {
        orders::Word::Ready(ready) => Some(ready),
        _ => None,
    })
}

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn goes_on_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        listed(&table(own()))
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        introduced(opening).is_some_and(|ready| !ready.uncounted && ready.looping.is_none())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch(spec, &table(own()), NAME)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        converse(spec, self)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use(tool, input)
    }
}

/// Whether a text can be the base URL of a server. The text is not in the error: it may hold a password.
///
/// # Errors
/// What is wrong with it.
pub fn url(value: &str) -> Result<(), String> {
    let known = value.starts_with("http://") || value.starts_with("https://");
    let credentials = value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|h| h.contains('@')));
    if !known {
        Err("expected a URL that begins with http:// or https://".into())
    } else if credentials {
        Err("no user or password in the URL, please: keys go into OPENAI_API_KEY or header".into())
    } else if value.contains(['?', '#']) {
        Err("expected what comes before /chat/completions, without ? and #; extra fields go into header or extra_body"
            .into())
    } else {
        Ok(())
    }
}

fn variable(value: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if value.chars().all(good) {
        Ok(())
    } else {
        Err("expected the name of a variable, not a key".into())
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
