//! Normalized event stories: a run's events in terms that are the same for every agent, compared
//! with a row's story.

use serde_json::Value;

use super::Observed;
use super::conformance::row;

impl Observed {
    /// Returns the run's events, normalized. Leaves out what may differ between agents: tool
    /// names, deltas, notices, restarts of an agent with one process per turn, whether `started`
    /// comes before or after `working`, and the order of results of parallel tools. With `tokens`,
    /// usage is included at the end of a turn.
    #[must_use]
    pub fn normalized_story(&self, tokens: bool) -> String {
        let mut words: Vec<String> = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let usage = event["type"] == "usage";
            if usage && !(tokens && self.is_last_usage_of_turn(at)) {
                continue;
            }
            let Some(word) = word(event) else { continue };
            let again = matches!(word.as_str(), "starting" | "started") && words.contains(&word);
            let goes_on =
                matches!(word.as_str(), "reply" | "thinking") && words.last() == Some(&word);
            if !again && !goes_on {
                words.push(word);
            }
        }
        if let Some(at) = words
            .windows(2)
            .position(|pair| pair == ["working", "started"])
        {
            words.swap(at, at + 1);
        }
        for tools in words.chunk_by_mut(|a, b| is_tool_step(a) && is_tool_step(b)) {
            if tools.iter().filter(|word| *word == "call").count() > 1 {
                tools.sort();
            }
        }
        words.join(", ")
    }

    /// Fails unless the run matches the story of a row, as every agent does. S2-21.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_story(&self, name: &str) {
        let half = if self.subject.settings.streams {
            "reply, "
        } else {
            ""
        };
        let mut story = row(name).story.replace("partial reply, ", half);
        if self.subject.quirks.ends_when_denied {
            story = story.replace("result denied, reply,", "result denied,");
        }
        let normalized_story = self.normalized_story(story.contains("usage"));
        let normalized_story = if story.contains('…') {
            collapse_output(&normalized_story)
        } else {
            normalized_story
        };
        let story = if self.subject.silent {
            without_tools(&story)
        } else {
            story
        };
        assert_eq!(normalized_story, story, "{name}: {:#?}", self.story());
    }
}

/// Replaces text and tools before the end of a turn with one `…`.
fn collapse_output(normalized_story: &str) -> String {
    let own = |word: &str| is_tool_step(word) || matches!(word, "reply" | "thinking");
    let mut words: Vec<&str> = normalized_story
        .split(", ")
        .map(|word| if own(word) { "…" } else { word })
        .collect();
    words.dedup_by(|b, a| a == b && *a == "…");
    words.join(", ")
}

/// Returns the story of an agent that only counts its tools.
fn without_tools(story: &str) -> String {
    story
        .split(", ")
        .filter(|word| !is_tool_step(word))
        .collect::<Vec<_>>()
        .join(", ")
}

fn is_tool_step(word: &str) -> bool {
    ["call", "permission", "result"]
        .iter()
        .any(|kind| word.starts_with(kind))
}

/// Normalizes one event; `None` for optional ones.
fn word(event: &Value) -> Option<String> {
    let part = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    Some(match part("/type") {
        "notice" => return None,
        "state" => part("/to").to_owned(),
        "turn_started" => match part("/origin") {
            "caller" => "turn".to_owned(),
            origin => format!("turn of the {origin}"),
        },
        "text" => part("/kind").to_owned(),
        "tool_call" => "call".to_owned(),
        "tool_result" => match (event["ok"] == true, event["denied"] == true) {
            (true, _) => "result ok".to_owned(),
            (false, true) => "result denied".to_owned(),
            (false, false) => "result failed".to_owned(),
        },
        "permission" => format!("permission {}", part("/decision")),
        "usage" => format!("usage {}", part("/scope")),
        "turn_ended" => format!("over {}", part("/outcome/cause")),
        "ended" => format!("end {}", part("/outcome/cause")),
        kind => kind.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::CLAUDE;
    use serde_json::json;

    fn normalized_story(events: Value) -> String {
        let Value::Array(events) = events else {
            panic!("a list")
        };
        Observed {
            subject: &CLAUDE,
            events,
            exit: None,
            served: Vec::new(),
        }
        .normalized_story(false)
    }

    #[test]
    fn deltas_notices_and_restarts_are_ignored() {
        let piece = json!({"type": "text", "kind": "reply", "delta": true});
        let started = json!({"type": "started"});
        let notice = json!({"type": "notice", "code": "x"});
        let turn = json!({"type": "turn_started", "origin": "caller"});
        assert_eq!(
            normalized_story(json!([started, turn, piece, notice, piece, started, turn])),
            "started, turn, reply, turn"
        );
    }

    #[test]
    fn parallel_tools_finish_in_any_order() {
        let call = json!({"type": "tool_call"});
        let result = |ok: bool| json!({"type": "tool_result", "ok": ok});
        let story = "call, call, result failed, result ok";
        assert_eq!(
            normalized_story(json!([call, call, result(true), result(false)])),
            story
        );
        assert_eq!(
            normalized_story(json!([call, result(false), call, result(true)])),
            story
        );
        assert_eq!(
            normalized_story(json!([result(true), call])),
            "result ok, call"
        );
        let own = "started, call, result ok, reply, over completed";
        assert_eq!(collapse_output(own), "started, …, over completed");
        assert_eq!(without_tools(own), "started, reply, over completed");
    }
}
