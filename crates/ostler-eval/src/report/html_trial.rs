//! The section of one trial in the HTML report.

use std::fmt::Write as _;

use ostler_core::clip::sanitize;
use serde_json::Value;

use super::format::{dollars, duration, one_line, outcome, reason};
use crate::normalized::{MessageRole, NormalizedLog};
use crate::trial::{Evaluation, TrialResult, Verdict};

/// Maximum number of bytes of a diff or log in the report.
const MAX_TEXT: usize = 200_000;

/// HTML that its author escaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeHtml(String);

impl SafeHtml {
    /// Wraps HTML whose author has escaped everything that comes from an agent or a repository.
    #[must_use]
    pub fn from_escaped(html: String) -> Self {
        Self(html)
    }

    /// Escapes a text.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(escape(text))
    }
}

/// Returns a conversation as HTML: messages, tool calls and their results, everything escaped.
#[must_use]
pub fn conversation(log: &NormalizedLog) -> SafeHtml {
    let mut html = String::new();
    for message in &log.messages {
        let role = match message.role {
            MessageRole::System => "system",
            MessageRole::User => "prompt",
            MessageRole::Assistant => "agent",
            MessageRole::Tool => "result",
        };
        let _ = write!(html, "<div class=\"message {role}\"><h4>{role}</h4>");
        if !message.content.is_empty() {
            let _ = write!(html, "<pre>{}</pre>", marked(&message.content));
        }
        for id in &message.tool_call_ids {
            if let Some(call) = log.tool_calls.iter().find(|call| call.id == *id) {
                let _ = write!(
                    html,
                    "<p><strong>{}</strong> <code>{}</code></p>",
                    escape(&one_line(&call.name)),
                    marked(&call.arguments)
                );
            }
        }
        html.push_str("</div>\n");
    }
    SafeHtml(html)
}

/// What the section of a trial shows besides its result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrialDetail {
    /// The diff against the base commit.
    pub diff: Option<String>,
    /// The conversation.
    pub conversation: Option<SafeHtml>,
    /// Names and texts of logs.
    pub logs: Vec<(String, String)>,
}

/// Escapes a text for HTML, and removes control characters.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in sanitize(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Returns the section of a trial. The target of links lies inside of it, so that a browser opens
/// the section when a link leads there.
pub(super) fn section(index: usize, trial: &TrialResult, detail: &TrialDetail) -> String {
    let key = &trial.key;
    let mut text = format!(
        "<details class=\"trial\">\n<summary><span class=\"badge {}\">{}</span> <strong>{}</strong> \
         <span>{}</span> <span class=\"muted\">#{}</span><span class=\"end muted\">{} · \
         {}</span></summary>\n<div class=\"body\" id=\"trial-{index}\">\n",
        badge(trial.verdict),
        outcome(trial),
        escape(&one_line(&key.case)),
        escape(&one_line(&key.contender)),
        key.repetition,
        duration(Some(trial.agent_ms as f64)),
        dollars(trial.usage.cost_usd),
    );
    if let Some(why) = reason(trial) {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(&why));
    }
    text.push_str(&evaluations(&trial.evaluations));
    if let Some(diff) = detail.diff.as_deref().filter(|diff| !diff.is_empty()) {
        let _ = write!(
            text,
            "<h3>Changes</h3>\n<details{}><summary>{}</summary>{}</details>\n",
            if diff.len() < 4000 { " open" } else { "" },
            match trial.diff_files {
                1 => "1 file".to_owned(),
                files => format!("{files} files"),
            },
            diff_html(diff)
        );
    }
    if let Some(SafeHtml(conversation)) = &detail.conversation {
        let _ = write!(
            text,
            "<h3>Conversation</h3>\n<details><summary>Show the conversation</summary>\n\
             {conversation}\n</details>\n"
        );
    }
    for (name, log) in &detail.logs {
        let _ = writeln!(
            text,
            "<details><summary>Log: {}</summary><pre>{}</pre></details>",
            escape(name),
            marked(log)
        );
    }
    text.push_str(&facts(trial));
    text.push_str("</div>\n</details>\n");
    text
}

fn badge(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Errored => "errored",
        Verdict::Skipped => "skipped",
    }
}

fn evaluations(evaluations: &[Evaluation]) -> String {
    if evaluations.is_empty() {
        return "<p class=\"muted\">No evaluator ran.</p>\n".to_owned();
    }
    let mut text = String::from(
        "<h3>Evaluators</h3>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>evaluator</th>\
         <th>verdict</th><th class=\"num\">score</th><th>reason and figures</th>\
         <th class=\"num\">time</th></tr></thead><tbody>\n",
    );
    for it in evaluations {
        let optional = if it.required {
            ""
        } else {
            " <span class=\"muted\">optional</span>"
        };
        let score = it
            .score
            .map_or("–".to_owned(), |score| format!("{score:.2}"));
        let _ = writeln!(
            text,
            "<tr><td class=\"label\">{}{optional}</td><td><span class=\"badge {}\">{}</span></td>\
             <td class=\"num\">{score}</td><td>{}<br><span class=\"muted\">{}</span></td>\
             <td class=\"num\">{}</td></tr>",
            escape(&one_line(&it.name)),
            badge(it.verdict),
            badge(it.verdict),
            escape(it.reason.as_deref().unwrap_or_default()),
            escape(&figures(it)),
            duration(Some(it.duration_ms as f64)),
        );
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// The metrics of an evaluation in one line.
fn figures(evaluation: &Evaluation) -> String {
    let shown = evaluation
        .metrics
        .iter()
        .take(12)
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name} {}", one_line(text)),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => format!("{name} {float:.3}"),
                _ => format!("{name} {number}"),
            },
            other => format!("{name} {other}"),
        });
    super::table::clip(&shown.collect::<Vec<_>>().join(" · "), 300)
}

fn facts(trial: &TrialResult) -> String {
    let identity = &trial.identity;
    let usage = &trial.usage;
    let count = |value: Option<u64>| value.map_or("unknown".to_owned(), |it| it.to_string());
    let unknown = || "unknown".to_owned();
    let rows = [
        (
            "agent",
            format!(
                "{} {}",
                identity.agent,
                identity.agent_version.clone().unwrap_or_default()
            ),
        ),
        ("model", identity.model.clone().unwrap_or_else(unknown)),
        (
            "reported model",
            identity.reported_model.clone().unwrap_or_else(unknown),
        ),
        (
            "ended as",
            trial
                .cause
                .map_or_else(unknown, |cause| cause.as_str().to_owned()),
        ),
        (
            "tokens",
            format!(
                "{} in, {} from cache, {} out",
                count(usage.input),
                count(usage.cache_read),
                count(usage.output)
            ),
        ),
        ("attempts", trial.attempts.to_string()),
        ("commit", identity.commit.clone()),
        ("isolation", identity.isolation.as_str().to_owned()),
        ("session", trial.session.clone().unwrap_or_else(unknown)),
        ("artifacts", trial.artifacts.display().to_string()),
        ("started", trial.started_at.clone()),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escape(value.trim())))
        .collect();
    format!("<h3>Facts</h3>\n<dl>{rows}</dl>\n")
}

/// A diff with its lines coloured.
fn diff_html(diff: &str) -> String {
    let lines: String = clip(diff)
        .lines()
        .map(|line| {
            let class = if line.starts_with("+++") || line.starts_with("---") {
                "muted"
            } else if line.starts_with('+') {
                "add"
            } else if line.starts_with('-') {
                "del"
            } else if line.starts_with("@@") || line.starts_with("diff ") {
                "hunk"
            } else {
                return escape(line) + "\n";
            };
            format!("<span class=\"{class}\">{}</span>\n", escape(line))
        })
        .collect();
    format!("<pre>{lines}{}</pre>", cut(diff))
}

/// Escapes a text up to the maximum, with a mark if more is missing.
fn marked(text: &str) -> String {
    escape(clip(text)) + cut(text)
}

/// The mark of a text that is not shown as a whole.
fn cut(text: &str) -> &'static str {
    if text.len() > MAX_TEXT {
        "\n… (cut; the artifacts have the rest)"
    } else {
        ""
    }
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT.min(text.len()))]
}
