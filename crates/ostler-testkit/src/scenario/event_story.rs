//! Normalized event stories: a run's events in terms that are the same for every agent, compared
//! with a row's story.

use serde_json::Value;

use super::Seen;
use super::conformance::row;

impl Seen {
    /// Returns the run's events, normalized. Leaves out what may differ between agents: tool
    /// names, deltas, notices, restarts of an agent with one process per turn, whether `started`
    /// comes before or after `working`, and the order of results of parallel tools. With `tokens`,
    /// usage is included at the end of a turn.
    #[must_use]
    pub fn tale(&self, tokens: bool) -> String {
        let mut words: Vec<String> = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let usage = event["type"] == "usage";
            if usage && !(tokens && self.is_the_last_count(at)) {
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
        for tools in words.chunk_by_mut(|a, b| of_a_tool(a) && of_a_tool(b)) {
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
    pub fn tells(&self, name: &str) {
        let half = if self.subject.settings.streams {
            "reply, "
        } else {
            ""
        };
        let mut story = row(name).story.replace("half a reply, ", half);
        if self.subject.manner.ends_when_denied {
            story = story.replace("result denied, reply,", "result denied,");
        }
        let tale = self.tale(story.contains("usage"));
        let tale = if story.contains('…') {
            its_own_way(&tale)
        } else {
            tale
        };
        let story = if self.subject.silent {
            without_tools(&story)
        } else {
            story
        };
        assert_eq!(tale, story, "{name}: {:#?}", self.story());
    }
}

/// Replaces text and tools before the end of a turn with one `…`.
fn its_own_way(tale: &str) -> String {
    let own = |word: &str| of_a_tool(word) || matches!(word, "reply" | "thinking");
    let mut words: Vec<&str> = tale
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
        .filter(|word| !of_a_tool(word))
        .collect::<Vec<_>>()
        .join(", ")
}

fn of_a_tool(word: &str) -> bool {
    ["call", "permission", "result"]
        .iter()
        .any(|kind| word.starts_with(kind))
}

/// Normalizes one event; `None` for optional ones.
fn word(event: &Value) -> Option<String> {
    let part = |place: &str| {
        event
            .pointer(place)
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

    fn tale(events: Value) -> String {
        let Value::Array(events) = events else {
            panic!("a list")
        };
        Seen {
            subject: &CLAUDE,
            events,
            exit: None,
            served: Vec::new(),
        }
        .tale(false)
    }

    #[test]
    fn pieces_notices_and_a_second_start_do_not_count() {
        let piece = json!({"type": "text", "kind": "reply", "delta": true});
        let started = json!({"type": "started"});
        let notice = json!({"type": "notice", "code": "x"});
        let turn = json!({"type": "turn_started", "origin": "caller"});
        assert_eq!(
            tale(json!([started, turn, piece, notice, piece, started, turn])),
            "started, turn, reply, turn"
        );
    }

    #[test]
    fn tools_of_one_message_are_done_in_any_order_but_one_tool_is_not() {
        let call = json!({"type": "tool_call"});
        let result = |ok: bool| json!({"type": "tool_result", "ok": ok});
        let story = "call, call, result failed, result ok";
        assert_eq!(
            tale(json!([call, call, result(true), result(false)])),
            story
        );
        assert_eq!(
            tale(json!([call, result(false), call, result(true)])),
            story
        );
        assert_eq!(tale(json!([result(true), call])), "result ok, call");
        let own = "started, call, result ok, reply, over completed";
        assert_eq!(its_own_way(own), "started, …, over completed");
        assert_eq!(without_tools(own), "started, reply, over completed");
    }
}
