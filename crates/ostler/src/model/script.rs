//! A model that plays a script: for demonstrations, and for tests of programs that use Ostler,
//! without a network.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::StreamExt;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Tokens, Usage};
use ostler_model::runner_protocol::{Failed, FailedKind};
use ostler_model::{Call, Finish, Message, ModelRequest, Part, ToolRequest};
use serde::Deserialize;

use super::{Model, ModelFuture, ReplyItem, ReplyStream, failure};

/// Script of the agent `scripted`: a list of replies, each with the condition under which it is
/// given.
///
/// ```
/// let script = ostler::testing::Script::parse(r#"
///     [[reply]]
///     when = { prompt = "hello" }
///     text = "Hello! I look around first."
///     calls = [{ tool = "list_files" }]
///
///     [[reply]]
///     text = "That is what there is."
/// "#).unwrap();
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Displayed name of the model.
    #[serde(default)]
    model: Option<String>,
    /// Milliseconds between two words.
    #[serde(default)]
    pace_ms: u64,
    #[serde(default, rename = "reply")]
    replies: Vec<ScriptedReply>,
}

/// One reply.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptedReply {
    when: When,
    /// Whether the reply can be given more than once.
    repeat: bool,
    thinking: Option<String>,
    text: Option<String>,
    calls: Vec<ScriptedCall>,
    usage: Option<ScriptedUsage>,
    finish: Option<String>,
    error: Option<ScriptedError>,
    /// Whether the connection breaks after the text.
    cut: bool,
    /// Whether the answer hangs after the text.
    hang: bool,
    /// Outcome of the turn after the text, if not success.
    ending: Option<ScriptedEnding>,
}

/// Condition of a reply. All given parts must match.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct When {
    /// Text that the user's latest message contains, ignoring case.
    prompt: Option<String>,
    /// A tool that one of the latest results is from.
    result_of: Option<String>,
    /// Text that one of the latest tool results contains.
    result: Option<String>,
    /// Text that none of the latest tool results contains.
    result_without: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    #[serde(default)]
    input: toml::Table,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedUsage {
    input: u64,
    output: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    reasoning: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    status: u16,
    #[serde(default)]
    message: String,
}

/// Outcome of a turn that does not succeed. In its texts, `{result}` stands for the latest tool
/// result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedEnding {
    cause: Cause,
    #[serde(default)]
    message: String,
    hint: Option<String>,
}

/// The error of a script that cannot be played.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It is not TOML of the expected form.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// It has no reply.
    #[error("the script has no [[reply]]")]
    Empty,
    /// A reply ends the turn with an error that is none.
    #[error("`ending` with cause \"completed\": a reply without `ending` completes the turn")]
    CompletedEnding,
}

impl Script {
    /// Parses a script in TOML.
    ///
    /// # Errors
    /// Returns an error that names the first invalid line.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let script: Self = toml::from_str(text)?;
        if script.replies.is_empty() {
            return Err(ScriptError::Empty);
        }
        let completes = |ending: &ScriptedEnding| ending.cause == Cause::Completed;
        let mut endings = script.replies.iter().filter_map(|it| it.ending.as_ref());
        if endings.any(completes) {
            return Err(ScriptError::CompletedEnding);
        }
        Ok(script)
    }

    /// Returns the default script, which lists the directory and introduces itself.
    #[must_use]
    pub(crate) fn demo() -> Self {
        // The text is part of this program; a test parses it.
        Self::parse(include_str!("demo.toml")).unwrap_or_default()
    }
}

/// A model that plays a script.
pub(crate) struct Scripted {
    script: Script,
    used: Mutex<Vec<bool>>,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        let used = Mutex::new(vec![false; script.replies.len()]);
        Self { script, used }
    }

    /// Returns the first matching reply that was not given yet.
    fn choose(&self, seen: &SeenConversation) -> Option<&ScriptedReply> {
        let mut used = self
            .used
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let fits = |(n, reply): &(usize, &ScriptedReply)| {
            (reply.repeat || !used[*n]) && reply.when.fits(seen)
        };
        let (n, reply) = self.script.replies.iter().enumerate().find(fits)?;
        used[n] = true;
        Some(reply)
    }

    fn reply(&self, request: &ModelRequest) -> Result<ReplyStream, Failed> {
        let seen = SeenConversation::of(request);
        let Some(reply) = self.choose(&seen) else {
            return Err(seen.no_reply().into());
        };
        if let Some(ScriptedError { status, message }) = &reply.error {
            return Err(Failed {
                kind: FailedKind::Status,
                status: Some(*status),
                body: message.clone(),
                ..Failed::default()
            });
        }
        let pause = Duration::from_millis(self.script.pace_ms);
        let fails = |failed: Failed| futures_util::stream::iter([Err(failed)]).boxed();
        let end = match (&reply.ending, reply.cut, reply.hang) {
            (Some(ending), _, _) => fails(ending.outcome(&seen).into()),
            (None, _, true) => futures_util::stream::pending().boxed(),
            (None, true, false) => fails(failure(
                FailedKind::Cut,
                "The answer was cut off, as the script says.",
            )),
            (None, false, false) => {
                futures_util::stream::iter([Ok(ReplyItem::Parts(vec![Part::Done]))]).boxed()
            }
        };
        let parts = futures_util::stream::iter(reply.parts(&seen.prompt));
        let paced = parts.then(move |part| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Ok(ReplyItem::Parts(vec![part]))
        });
        Ok(Box::pin(paced.chain(end)))
    }
}

/// Maximum number of characters of a tool result in the message of an ending.
const RESULT: usize = 300;

/// Default name of the model.
const NAME: &str = "scripted";

impl Model for Scripted {
    fn call<'a>(&'a self, request: &'a ModelRequest) -> ModelFuture<'a, ReplyStream> {
        Box::pin(async move { self.reply(request) })
    }

    /// True only if the script has counts. Tokens are never guessed.
    fn reports_usage(&self) -> bool {
        false
    }

    fn name(&self) -> ModelFuture<'_, String> {
        Box::pin(async move { Ok(self.script.model.clone().unwrap_or_else(|| NAME.to_owned())) })
    }
}

/// The parts of a request that conditions refer to.
struct SeenConversation {
    prompt: String,
    /// Tool and result of each call since the model's last reply.
    results: Vec<(String, String)>,
}

impl SeenConversation {
    fn of(request: &ModelRequest) -> Self {
        let text = |message: &Message| message.content().as_text().into_owned();
        let is_user = |m: &&Message| matches!(m, Message::User { .. } | Message::Other { .. });
        let calls = |message: &'_ Message| match message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls.clone()),
            _ => None,
        };
        let latest = || request.messages.iter().rev();
        let calls: Vec<ToolRequest> = latest().find_map(calls).unwrap_or_default();
        let result = |message: &Message| match message {
            Message::Tool { tool_call_id, .. } => {
                let call = calls.iter().find(|call| call.id == *tool_call_id);
                let tool = call.map(|call| call.name.clone()).unwrap_or_default();
                Some((tool, text(message)))
            }
            _ => None,
        };
        Self {
            prompt: latest().find(is_user).map(text).unwrap_or_default(),
            results: latest().map_while(result).collect(),
        }
    }

    /// Returns the outcome if no reply matches.
    fn no_reply(&self) -> Outcome {
        let message = format!("The server answered with status 400: {}", self.describe());
        Outcome::new(Cause::BadRequest, message)
            .hint("Add a reply for it; see docs/agents/scripted.md.")
            .with(|detail| {
                detail.http_status = Some(400);
                detail.native = Some("script_has_no_reply".to_owned());
            })
    }

    fn describe(&self) -> String {
        let tools: Vec<&str> = self.results.iter().map(|(tool, _)| tool.as_str()).collect();
        let after = if tools.is_empty() {
            String::new()
        } else {
            format!(", after results of {}", tools.join(", "))
        };
        let prompt: String = self.prompt.chars().take(80).collect();
        format!("no remaining reply in the script matches: the user said {prompt:?}{after}")
    }
}

impl ScriptedEnding {
    fn outcome(&self, seen: &SeenConversation) -> Outcome {
        let latest = seen
            .results
            .first()
            .map(|(_, text)| text.split_whitespace().collect::<Vec<_>>().join(" "));
        let latest = latest.unwrap_or_else(|| "no tool was called".to_owned());
        let latest: String = latest.chars().take(RESULT).collect();
        let filled = |text: &String| text.replace("{result}", &latest);
        let outcome = Outcome::new(self.cause, filled(&self.message));
        match &self.hint {
            Some(hint) => outcome.hint(filled(hint)),
            None => outcome,
        }
    }
}

impl When {
    fn fits(&self, seen: &SeenConversation) -> bool {
        let any = |part: &str| seen.results.iter().any(|(_, text)| text.contains(part));
        let is_prompted = |part: &str| seen.prompt.to_lowercase().contains(&part.to_lowercase());
        let is_from = |tool: &str| seen.results.iter().any(|(known, _)| known == tool);
        let is_without = |part: &str| !seen.results.is_empty() && !any(part);
        self.prompt.as_deref().is_none_or(is_prompted)
            && self.result_of.as_deref().is_none_or(is_from)
            && self.result.as_deref().is_none_or(any)
            && self.result_without.as_deref().is_none_or(is_without)
    }
}

impl ScriptedReply {
    /// Returns the parts of the reply, the text word by word.
    fn parts(&self, prompt: &str) -> Vec<Part> {
        let first = prompt.lines().next().unwrap_or_default();
        let short: String = first.chars().take(60).collect();
        let words = |text: &Option<String>, part: fn(String) -> Part| -> Vec<Part> {
            let text = text
                .as_deref()
                .unwrap_or_default()
                .replace("{prompt}", &short);
            text.split_inclusive(' ')
                .map(|word| part(word.to_owned()))
                .collect()
        };
        let mut parts = words(&self.thinking, Part::Thinking);
        parts.extend(words(&self.text, Part::Text));
        parts.extend(self.calls.iter().zip(0..).map(|(call, index)| {
            Part::Call(Call {
                index: Some(index),
                name: call.tool.clone(),
                arguments: serde_json::to_string(&call.input).unwrap_or_default(),
                ..Call::default()
            })
        }));
        if !self.cut && !self.hang && self.ending.is_none() {
            let usual = if self.calls.is_empty() {
                Finish::Stop
            } else {
                Finish::ToolCalls
            };
            let finish = self.finish.clone().map_or(usual, Finish::from);
            parts.push(Part::Finish(finish));
        }
        parts.extend(self.usage.as_ref().map(|usage| {
            let tokens = Tokens {
                input: usage.input,
                cache_read: usage.cached,
                cache_write: 0,
                output: usage.output,
                reasoning: Some(usage.reasoning),
            };
            Part::Usage(Usage::for_turn(None, tokens))
        }));
        parts
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::raw_json::RawJson;

    use super::*;

    #[test]
    fn the_demonstration_is_a_script() {
        assert!(
            !Script::parse(include_str!("demo.toml"))
                .unwrap()
                .replies
                .is_empty()
        );
    }

    #[test]
    fn a_wrong_script_is_named() {
        for (text, why) in [
            ("", "no [[reply]]"),
            ("[[reply]]\nsay = 1", "say"),
            ("[[reply]]\nwhen = { step = 1 }", "step"),
        ] {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn replies_are_given_once_and_where_they_fit() {
        let text = "
            [[reply]]
            when = { prompt = \"HELLO\" }
            text = \"hi\"
            [[reply]]
            when = { result_of = \"read_file\", result = \"bug\" }
            text = \"found\"
            [[reply]]
            repeat = true
            text = \"else\"";
        let model = Scripted::new(Script::parse(text).unwrap());
        let said = |request: &ModelRequest| {
            model
                .choose(&SeenConversation::of(request))
                .and_then(|reply| reply.text.clone())
                .unwrap_or_default()
        };
        let request = |messages: Vec<Message>| ModelRequest {
            messages,
            ..ModelRequest::default()
        };
        let call = ToolRequest {
            id: "1".into(),
            name: "read_file".into(),
            args: RawJson::empty_object(),
        };
        let hello = request(vec![Message::user("say hello")]);
        let result = request(vec![
            Message::user("x"),
            Message::Assistant {
                content: "".into(),
                tool_calls: vec![call],
            },
            Message::tool("1", "a bug"),
        ]);
        assert_eq!(
            [&hello, &hello, &result, &result].map(said),
            ["hi", "else", "found", "else"]
        );
    }
}
