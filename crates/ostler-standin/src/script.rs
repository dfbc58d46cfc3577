//! Scripts: ordered lists of rules. The first rule that matches a request and is not used up gives
//! the answer.

use serde::Deserialize;

use super::answer::Answer;
use super::request::Request;

/// The rules of one server, in order.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Script {
    rules: Vec<Rule>,
    /// The models that the server lists.
    #[serde(default)]
    models: Vec<String>,
    /// Texts in the system prompts of side calls.
    #[serde(default)]
    asides: Vec<String>,
}

/// One rule: a condition, how often it may be used, and the answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Rule {
    #[serde(default)]
    when: When,
    /// Remaining uses; `None` for no limit.
    times: Option<u32>,
    answer: Answer,
}

/// Condition of a rule. Every part that is set must hold; an empty condition matches every request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The last user text contains this.
    pub text: Option<String>,
    /// The request is the nth model call of this server, counted from 1.
    pub nth: Option<usize>,
    /// The last user message carries (or does not carry) a tool result.
    pub tool_result: Option<bool>,
    /// The text of one of the last tool results contains this.
    pub tool_result_text: Option<String>,
    /// The request offers (or does not offer) tools. Side requests of an agent, such as for a title
    /// or a summary, offer none.
    pub tools: Option<bool>,
    /// The name of the model contains this.
    pub model: Option<String>,
    /// The system prompt contains this.
    pub system: Option<String>,
    /// A message since the model's last one contains this, including reminders of the agent.
    pub news: Option<String>,
}

/// Text that is not a script.
#[derive(Debug, thiserror::Error)]
#[error("not a model script: {0}")]
pub struct ScriptError(#[from] serde_json::Error);

impl Script {
    /// Creates a script without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a script that answers every request with one text.
    pub fn always(text: impl Into<String>) -> Self {
        Self::new().rule(Rule::any().answer(Answer::text(text)))
    }

    /// Appends a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Treats calls whose system prompt contains `part` as side calls: they get a fixed answer, and
    /// are not counted as model calls.
    pub fn side_calls(mut self, part: impl Into<String>) -> Self {
        self.asides.push(part.into());
        self
    }

    /// Returns true if the script treats the request as a side call.
    pub(crate) fn is_side_call(&self, request: &Request) -> bool {
        let mut parts = self.asides.iter();
        parts.any(|part| request.system_text().contains(part.as_str()))
    }

    /// Adds a model to the server's list. The server answers for all others, too.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.models.push(name.into());
        self
    }

    /// Returns the models that the server lists.
    pub(super) fn models(&self) -> &[String] {
        &self.models
    }

    /// Parses `{"rules":[{"when":{…},"times":n,"answer":{…}}]}`. The fields are those of [`When`]
    /// and [`Answer`].
    ///
    /// # Errors
    /// If the text is not JSON of that form. The message names the position.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Returns the answer to the nth model call, if a rule matches, and counts one use of the rule.
    pub(super) fn answer(&mut self, request: &Request, nth: usize) -> Option<Answer> {
        let matches = |rule: &&mut Rule| rule.times != Some(0) && rule.when.matches(request, nth);
        let rule = self.rules.iter_mut().find(matches)?;
        rule.times = rule.times.map(|left| left - 1);
        Some(rule.answer.clone())
    }
}

impl Rule {
    /// Creates a rule for every request.
    pub fn any() -> Self {
        Self::when(When::default())
    }

    /// Creates a rule for requests that meet a condition.
    pub fn when(when: When) -> Self {
        Self {
            when,
            times: None,
            answer: Answer::default(),
        }
    }

    /// Creates a rule for requests whose last user text contains `text`.
    pub fn on_text(text: impl Into<String>) -> Self {
        Self::when(When {
            text: Some(text.into()),
            ..When::default()
        })
    }

    /// Creates a rule for the nth model call, counted from 1.
    pub fn on_call(nth: usize) -> Self {
        Self::when(When {
            nth: Some(nth),
            ..When::default()
        })
    }

    /// Creates a rule for requests with a tool result.
    pub fn on_tool_result() -> Self {
        Self::when(When {
            tool_result: Some(true),
            ..When::default()
        })
    }

    /// Creates a rule for requests in which a new message contains `text`, including reminders and
    /// notifications of the agent.
    pub fn on_news(text: impl Into<String>) -> Self {
        Self::when(When {
            news: Some(text.into()),
            ..When::default()
        })
    }

    /// Creates a rule for side requests of the agent, which offer no tools.
    pub fn on_side_request() -> Self {
        Self::when(When {
            tools: Some(false),
            ..When::default()
        })
    }

    /// Restricts the rule to requests that offer tools: the agent's main loop and its subagents.
    pub fn with_tools(mut self) -> Self {
        self.when.tools = Some(true);
        self
    }

    /// Restricts the rule to models whose name contains `part`.
    pub fn for_model(mut self, part: impl Into<String>) -> Self {
        self.when.model = Some(part.into());
        self
    }

    /// Limits how often the rule is used.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Limits the rule to one use.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Sets the answer.
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// Sets the answer to one text.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.answer(Answer::text(text))
    }
}

impl When {
    fn matches(&self, request: &Request, nth: usize) -> bool {
        let contains = |part: &Option<String>, whole: &str| {
            part.as_ref()
                .is_none_or(|part| whole.contains(part.as_str()))
        };
        let results = request.last_tool_results();
        let has_text = |part: &String| results.iter().any(|result| result.text.contains(part));
        let (has_results, has_tools) = (!results.is_empty(), !request.tool_names().is_empty());
        self.nth.is_none_or(|wanted| wanted == nth)
            && self.tool_result.is_none_or(|wanted| wanted == has_results)
            && self.tools.is_none_or(|wanted| wanted == has_tools)
            && self.tool_result_text.as_ref().is_none_or(has_text)
            && contains(&self.model, request.model())
            && contains(&self.text, &request.last_user_text())
            && contains(&self.system, &request.system_text())
            && contains(&self.news, &request.news())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Rule, Script};
    use crate::{Answer, Block, Ending, Request};

    fn request(content: &Value) -> Request {
        Request {
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            headers: Vec::new(),
            body: json!({"model": "claude-opus", "tools": [{"name": "Bash"}],
                "messages": [{"role": "user", "content": content}]}),
        }
    }

    fn text_of(answer: Option<Answer>) -> String {
        match answer.map(|answer| answer.blocks).as_deref() {
            Some([Block::Text { text, .. }]) => text.clone(),
            None => "(none)".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_first_matching_rule_wins_until_it_is_used_up() {
        let mut script = Script::new()
            .rule(Rule::on_text("hello").once().text("first"))
            .rule(Rule::on_text("hello").text("second"))
            .rule(Rule::any().text("other"));
        let hello = request(&json!("say hello"));
        assert_eq!(text_of(script.answer(&hello, 1)), "first");
        assert_eq!(text_of(script.answer(&hello, 2)), "second");
        assert_eq!(text_of(script.answer(&hello, 3)), "second");
        assert_eq!(text_of(script.answer(&request(&json!("bye")), 4)), "other");
    }

    #[test]
    fn rules_for_tool_results_and_prompts_do_not_match_each_other() {
        let mut script = Script::new()
            .rule(Rule::on_tool_result().text("after"))
            .rule(Rule::on_text("run").text("prompt"));
        let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "run"}]);
        assert_eq!(text_of(script.answer(&request(&json!("run")), 1)), "prompt");
        assert_eq!(text_of(script.answer(&request(&result), 2)), "after");
    }

    #[test]
    fn rules_distinguish_calls_side_requests_and_models() {
        let mut script = Script::new()
            .rule(Rule::on_side_request().text("side"))
            .rule(Rule::on_call(2).text("two"))
            .rule(Rule::any().for_model("opus").with_tools().text("opus"));
        let main = request(&json!("x"));
        let mut side = main.clone();
        side.body["tools"] = json!([]);
        let mut other = main.clone();
        other.body["model"] = json!("haiku");
        assert_eq!(text_of(script.answer(&main, 1)), "opus");
        assert_eq!(text_of(script.answer(&main, 2)), "two");
        assert_eq!(text_of(script.answer(&side, 2)), "side");
        assert_eq!(text_of(script.answer(&other, 3)), "(none)");
    }

    #[test]
    fn a_script_can_be_written_in_json() {
        let json = r#"{"rules":[{"when":{"text":"x"},"times":1,"answer":{"ending":{"cut_after":2},"blocks":[
            {"type":"thinking","thinking":"hm"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}]}"#;
        let mut script = Script::from_json(json).unwrap();
        let answer = script.answer(&request(&json!("x")), 1).unwrap();
        assert_eq!(answer.ending, Ending::CutAfter(2));
        assert_eq!(answer.effective_stop_reason(), "tool_use");
        assert!(script.answer(&request(&json!("x")), 2).is_none());
        let error = Script::from_json(r#"{"rules":[{"wen":{}}]}"#).unwrap_err();
        assert!(error.to_string().contains("wen"), "{error}");
    }
}
