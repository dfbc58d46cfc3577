//! Which answer a request gets: an ordered list of rules, the first that fits and is not used up wins.

use serde::Deserialize;

use super::answer::Answer;
use super::request::Request;

/// The rules of one server, in order.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    rules: Vec<Rule>,
    /// The models that the server says it has.
    #[serde(default)]
    models: Vec<String>,
    /// What stands in the system prompt of calls that an agent makes for itself.
    #[serde(default)]
    asides: Vec<String>,
}

/// One rule: a condition, how often it may be used, and the answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    when: When,
    /// `None`: without limit.
    times: Option<u32>,
    answer: Answer,
}

/// The condition of a rule; every part that is set must hold, and nothing set fits every request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The last user text contains this.
    pub text: Option<String>,
    /// It is the nth model call of this server, counted from 1.
    pub nth: Option<usize>,
    /// The last user message carries (or does not carry) a tool result.
    pub tool_result: Option<bool>,
    /// The text of one of the last tool results contains this.
    pub tool_result_text: Option<String>,
    /// The request offers (or does not offer) tools. Side requests of an agent, such as a title or a summary,
    /// offer none.
    pub tools: Option<bool>,
    /// The name of the model contains this.
    pub model: Option<String>,
    /// The system prompt contains this.
    pub system: Option<String>,
    /// Something sent since the model spoke last contains this, reminders of the agent included.
    pub news: Option<String>,
}

impl Script {
    /// A script without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A script that answers everything with one text.
    #[must_use]
    pub fn always(text: impl Into<String>) -> Self {
        Self::new().rule(Rule::any().answer(Answer::text(text)))
    }

    /// Adds a rule behind those already there.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets calls aside whose system prompt contains this: they get a word, and are not among the model calls.
    #[must_use]
    pub fn aside(mut self, part: impl Into<String>) -> Self {
        self.asides.push(part.into());
        self
    }

    /// Whether a call is one of those.
    pub(crate) fn sets_aside(&self, request: &Request) -> bool {
        !self.asides.is_empty()
            && self
                .asides
                .iter()
                .any(|part| request.system_text().contains(part.as_str()))
    }

    /// Adds a model to those that the server says it has; it answers for all others too.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.models.push(name.into());
        self
    }

    /// The models that the server says it has.
    pub(super) fn models(&self) -> &[String] {
        &self.models
    }

    /// Reads `{"rules":[{"when":{…},"times":n,"answer":{…}}]}`; the fields are those of [`When`] and [`Answer`].
    ///
    /// # Errors
    /// When the text is no JSON of that form; the sentence names the place.
    pub fn from_json(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| format!("not a model script: {error}"))
    }

    /// The answer to the nth model call, if a rule fits; uses the rule up by one.
    pub(super) fn answer(&mut self, request: &Request, nth: usize) -> Option<Answer> {
        let fits = |rule: &&mut Rule| rule.times != Some(0) && rule.when.fits(request, nth);
        let rule = self.rules.iter_mut().find(fits)?;
        rule.times = rule.times.map(|left| left - 1);
        Some(rule.answer.clone())
    }
}

impl Rule {
    /// A rule for every request.
    #[must_use]
    pub fn any() -> Self {
        Self::when(When::default())
    }

    /// A rule for requests that meet a condition.
    #[must_use]
    pub fn when(when: When) -> Self {
        Self {
            when,
            times: None,
            answer: Answer::default(),
        }
    }

    /// A rule for requests whose last user text contains `text`.
    #[must_use]
    pub fn on_text(text: impl Into<String>) -> Self {
        Self::when(When {
            text: Some(text.into()),
            ..When::default()
        })
    }

    /// A rule for the nth model call, counted from 1.
    #[must_use]
    pub fn on_call(nth: usize) -> Self {
        Self::when(When {
            nth: Some(nth),
            ..When::default()
        })
    }

    /// A rule for requests that bring back a tool result.
    #[must_use]
    pub fn on_tool_result() -> Self {
        Self::when(When {
            tool_result: Some(true),
            ..When::default()
        })
    }

    /// A rule for requests in which something new contains `text`, also a reminder or notification of the agent.
    #[must_use]
    pub fn on_news(text: impl Into<String>) -> Self {
        Self::when(When {
            news: Some(text.into()),
            ..When::default()
        })
    }

    /// A rule for side requests of the agent, which offer no tools.
    #[must_use]
    pub fn on_side_request() -> Self {
        Self::when(When {
            tools: Some(false),
            ..When::default()
        })
    }

    /// Only for requests that offer tools: the agent's main loop and its subagents.
    #[must_use]
    pub fn with_tools(mut self) -> Self {
        self.when.tools = Some(true);
        self
    }

    /// Only for models whose name contains `part`.
    #[must_use]
    pub fn for_model(mut self, part: impl Into<String>) -> Self {
        self.when.model = Some(part.into());
        self
    }

    /// Limits how often the rule is used.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Limits the rule to one use.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Sets the answer.
    #[must_use]
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// Sets an answer of one text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.answer(Answer::text(text))
    }
}

impl When {
    fn fits(&self, request: &Request, nth: usize) -> bool {
        let contains = |part: &Option<String>, whole: &str| {
            part.as_ref()
                .is_none_or(|part| whole.contains(part.as_str()))
        };
        let results = request.last_tool_results();
        let result_text_fits = self.tool_result_text.as_ref().is_none_or(|part| {
            results
                .iter()
                .any(|result| result.text.contains(part.as_str()))
        });
        self.nth.is_none_or(|wanted| wanted == nth)
            && self
                .tool_result
                .is_none_or(|wanted| wanted != results.is_empty())
            && self
                .tools
                .is_none_or(|wanted| wanted != request.tool_names().is_empty())
            && result_text_fits
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

    fn said(answer: Option<Answer>) -> String {
        match answer.map(|answer| answer.blocks).as_deref() {
            Some([Block::Text { text, .. }]) => text.clone(),
            None => "(none)".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_first_fitting_rule_wins_until_it_is_used_up() {
        let mut script = Script::new()
            .rule(Rule::on_text("hello").once().text("first"))
            .rule(Rule::on_text("hello").text("second"))
            .rule(Rule::any().text("other"));
        let hello = request(&json!("say hello"));
        assert_eq!(said(script.answer(&hello, 1)), "first");
        assert_eq!(said(script.answer(&hello, 2)), "second");
        assert_eq!(said(script.answer(&hello, 3)), "second");
        assert_eq!(said(script.answer(&request(&json!("bye")), 4)), "other");
    }

    #[test]
    fn a_rule_for_a_tool_result_does_not_fit_a_prompt_nor_the_other_way_round() {
        let mut script = Script::new()
            .rule(Rule::on_tool_result().text("after"))
            .rule(Rule::on_text("run").text("prompt"));
        let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "run"}]);
        assert_eq!(said(script.answer(&request(&json!("run")), 1)), "prompt");
        assert_eq!(said(script.answer(&request(&result), 2)), "after");
    }

    #[test]
    fn calls_side_requests_and_models_are_told_apart() {
        let mut script = Script::new()
            .rule(Rule::on_side_request().text("side"))
            .rule(Rule::on_call(2).text("two"))
            .rule(Rule::any().for_model("opus").with_tools().text("opus"));
        let main = request(&json!("x"));
        let mut side = main.clone();
        side.body["tools"] = json!([]);
        let mut other = main.clone();
        other.body["model"] = json!("haiku");
        assert_eq!(said(script.answer(&main, 1)), "opus");
        assert_eq!(said(script.answer(&main, 2)), "two");
        assert_eq!(said(script.answer(&side, 2)), "side");
        assert_eq!(said(script.answer(&other, 3)), "(none)");
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
        assert!(error.contains("wen"), "{error}");
    }
}
