//! A model that plays a script: for demonstrations, and for tests of programs that use Ostler,
//! without a network.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::StreamExt;
use ostler_core::outcome::{Cause, Outcome};
use ostler_dialects::openai;
use ostler_dialects::openai::runner_protocol::{Failed, FailedKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AnswerPiece, AnswerStream, Model};

/// Script of the agent `scripted`: a list of replies, each with the condition under which it is
/// given.
///
/// ```
/// let script = ostler::Script::parse(r#"
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

impl Script {
    /// Parses a script in TOML.
    ///
    /// # Errors
    /// Returns an error that names the first invalid line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let script: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if script.replies.is_empty() {
            return Err("the script has no [[reply]]".into());
        }
        let endings = script
            .replies
            .iter()
            .filter_map(|reply| reply.ending.as_ref());
        if endings
            .into_iter()
            .any(|ending| ending.cause == Cause::Completed)
        {
            return Err(
                "`ending` with cause \"completed\": a reply without `ending` completes the turn"
                    .into(),
            );
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

    fn answer(&self, request: &str) -> Result<AnswerStream, Failed> {
        let seen = SeenConversation::of(request);
        let reply = self.choose(&seen).ok_or_else(|| Failed {
            kind: FailedKind::Status,
            status: Some(400),
            message: "no reply in the script matches".to_owned(),
            body: json!({"error": {"message": seen.describe(), "code": openai::NO_SCRIPTED_REPLY}})
                .to_string(),
            ..Failed::default()
        })?;
        if let Some(ScriptedError { status, message }) = &reply.error {
            let body = json!({"error": {"message": message}}).to_string();
            return Err(Failed {
                kind: FailedKind::Status,
                status: Some(*status),
                body,
                ..Failed::default()
            });
        }
        let pause = Duration::from_millis(self.script.pace_ms);
        let model = self.script.model.as_deref().unwrap_or(NAME);
        let pieces = reply.pieces(model, &seen.prompt);
        let fails = |failed: Failed| futures_util::stream::iter([Err(failed)]).boxed();
        let end = match (&reply.ending, reply.cut, reply.hang) {
            (Some(ending), _, _) => {
                let outcome = ending.outcome(&seen);
                fails(Failed {
                    message: outcome.message.clone(),
                    ended: Some(outcome.into()),
                    ..Failed::default()
                })
            }
            (None, _, true) => futures_util::stream::pending().boxed(),
            (None, true, false) => fails(Failed {
                kind: FailedKind::Cut,
                message: "The answer was cut off, as the script says.".to_owned(),
                ..Failed::default()
            }),
            (None, false, false) => {
                futures_util::stream::iter([Ok(AnswerPiece::Payload("[DONE]".to_owned()))]).boxed()
            }
        };
        let paced = futures_util::stream::iter(pieces).then(move |piece| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Ok(AnswerPiece::Payload(piece))
        });
        Ok(Box::pin(paced.chain(end)))
    }
}

/// Maximum number of characters of a tool result in the message of an ending.
const RESULT: usize = 300;

/// Default name of the model.
const NAME: &str = "scripted";

impl Model for Scripted {
    fn call<'a>(
        &'a self,
        request: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<AnswerStream, Failed>> + Send + 'a>> {
        Box::pin(async move { self.answer(request) })
    }

    /// True only if the script has counts. Tokens are never guessed.
    fn reports_usage(&self) -> bool {
        false
    }

    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>> {
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
    fn of(request: &str) -> Self {
        let body: Value = serde_json::from_str(request).unwrap_or_default();
        let messages = body["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
        let prompt = messages
            .iter()
            .rev()
            .find(|m| m["role"] == "user")
            .map(text)
            .unwrap_or_default();
        let calls = messages
            .iter()
            .rev()
            .find(|m| m["role"] == "assistant")
            .map(|m| &m["tool_calls"]);
        let tool = |id: &Value| {
            let calls = calls
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let call = calls.iter().find(|call| call["id"] == *id);
            call.and_then(|call| call["function"]["name"].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let latest = messages.iter().rev().take_while(|m| m["role"] == "tool");
        let results = latest
            .map(|m| (tool(&m["tool_call_id"]), text(m)))
            .collect();
        Self { prompt, results }
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
        self.prompt
            .as_ref()
            .is_none_or(|part| seen.prompt.to_lowercase().contains(&part.to_lowercase()))
            && self
                .result_of
                .as_ref()
                .is_none_or(|tool| seen.results.iter().any(|(known, _)| known == tool))
            && self.result.as_ref().is_none_or(|part| any(part))
            && self
                .result_without
                .as_ref()
                .is_none_or(|part| !seen.results.is_empty() && !any(part))
    }
}

impl ScriptedReply {
    /// Renders the reply as a server would stream it.
    fn pieces(&self, model: &str, prompt: &str) -> Vec<String> {
        let chunk = |delta: Value, finish: Option<&str>| {
            json!({"object": "chat.completion.chunk", "model": model,
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            .to_string()
        };
        let first = prompt.lines().next().unwrap_or_default();
        let short: String = first.chars().take(60).collect();
        let filled = |text: &String| text.replace("{prompt}", &short);
        let mut all = Vec::new();
        for (field, text) in [
            ("reasoning_content", &self.thinking),
            ("content", &self.text),
        ] {
            let text = text.as_ref().map(filled).unwrap_or_default();
            all.extend(
                text.split_inclusive(' ')
                    .map(|word| chunk(json!({field: word}), None)),
            );
        }
        for (index, call) in self.calls.iter().enumerate() {
            let arguments = serde_json::to_string(&call.input).unwrap_or_default();
            let function = json!({"name": call.tool, "arguments": arguments});
            all.push(chunk(
                json!({"tool_calls": [{"index": index, "function": function}]}),
                None,
            ));
        }
        if !self.cut && !self.hang && self.ending.is_none() {
            let usual = if self.calls.is_empty() {
                "stop"
            } else {
                "tool_calls"
            };
            all.push(chunk(
                json!({}),
                Some(self.finish.as_deref().unwrap_or(usual)),
            ));
        }
        if let Some(usage) = &self.usage {
            all.push(
                json!({"choices": [], "model": model, "usage": {
                    "prompt_tokens": usage.input + usage.cached, "completion_tokens": usage.output,
                    "prompt_tokens_details": {"cached_tokens": usage.cached},
                    "completion_tokens_details": {"reasoning_tokens": usage.reasoning}}})
                .to_string(),
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
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
            let error = Script::parse(text).unwrap_err();
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
        let said = |request: &Value| {
            let seen = SeenConversation::of(&request.to_string());
            model
                .choose(&seen)
                .and_then(|reply| reply.text.clone())
                .unwrap_or_default()
        };
        let hello = json!({"messages": [{"role": "user", "content": "say hello"}]});
        let result = json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "read_file"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "a bug"}]});
        assert_eq!(
            [&hello, &hello, &result, &result].map(said),
            ["hi", "else", "found", "else"]
        );
    }
}
