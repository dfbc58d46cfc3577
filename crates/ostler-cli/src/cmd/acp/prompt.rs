//! A prompt as the protocol sends it, as the text that an agent gets. Pure.

use serde::Deserialize;

use super::wire::Failure;

/// A piece of a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentBlock {
    r#type: String,
    text: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    resource: Option<Resource>,
}

/// What is sent along within a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    uri: String,
    text: Option<String>,
}

/// The text of a prompt: links stand where they were, and what was sent along follows behind.
pub(super) fn text(blocks: &[ContentBlock]) -> Result<String, Failure> {
    let (mut text, mut attachments) = (String::new(), String::new());
    for block in blocks {
        match (&*block.r#type, block) {
            (
                "text",
                ContentBlock {
                    text: Some(words), ..
                },
            ) => text.push_str(words),
            (
                "resource_link",
                ContentBlock {
                    uri: Some(uri),
                    name,
                    ..
                },
            ) => {
                text.push_str(&link(name.as_deref().unwrap_or(uri), uri));
            }
            (
                "resource",
                ContentBlock {
                    resource:
                        Some(Resource {
                            uri,
                            text: Some(words),
                        }),
                    ..
                },
            ) => {
                text.push_str(&link(uri.rsplit('/').next().unwrap_or(uri), uri));
                attachments.push_str(&format!("\n\n<context uri=\"{uri}\">\n{words}\n</context>"));
            }
            (
                "resource",
                ContentBlock {
                    resource: Some(Resource { uri, .. }),
                    ..
                },
            ) => {
                return Err(Failure::params(format!("{uri} is not text")).hint(ONLY_TEXT));
            }
            (kind @ ("image" | "audio"), _) => {
                return Err(
                    Failure::params(format!("an agent gets no {kind} from Ostler")).hint(ONLY_TEXT),
                );
            }
            (kind, _) => {
                return Err(Failure::params(format!(
                    "a piece of type {kind:?} is unknown, or not whole"
                )));
            }
        }
    }
    text.push_str(&attachments);
    if text.trim().is_empty() {
        return Err(Failure::params("the prompt is empty"));
    }
    Ok(text)
}

const ONLY_TEXT: &str = "Send text, or a link to the file: the agent can read it itself.";

/// A link as agents know it. A file is named by its path.
fn link(name: &str, uri: &str) -> String {
    let place = uri
        .strip_prefix("file://")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(uri);
    format!("[{name}]({place})")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(blocks: &Value) -> Result<String, String> {
        let blocks: Vec<ContentBlock> = serde_json::from_value(blocks.clone()).unwrap();
        text(&blocks).map_err(|failure| failure.message)
    }

    #[test]
    fn pieces_become_one_text() {
        let word = |text: &str| json!({"type": "text", "text": text});
        let file = json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs", "mimeType": "text/x-rust"});
        let context =
            json!({"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}});
        assert_eq!(of(&json!([word("hello")])).unwrap(), "hello");
        assert_eq!(
            of(&json!([word("see "), file, word(" now")])).unwrap(),
            "see [a.rs](/w/a.rs) now"
        );
        assert_eq!(
            of(&json!([context, word(" is wrong")])).unwrap(),
            "[b.rs](/w/b.rs) is wrong\n\n<context uri=\"file:///w/b.rs\">\nfn b() {}\n</context>"
        );
        let web = json!({"type": "resource_link", "uri": "https://x.org/a"});
        assert_eq!(
            of(&json!([web])).unwrap(),
            "[https://x.org/a](https://x.org/a)"
        );
    }

    #[test]
    fn what_cannot_be_passed_on_is_refused() {
        let blob =
            json!({"type": "resource", "resource": {"uri": "file:///w/b.png", "blob": "AA=="}});
        for (block, part) in [
            (
                json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
                "no image",
            ),
            (
                json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
                "no audio",
            ),
            (blob, "is not text"),
            (json!({"type": "text"}), "not whole"),
            (json!({"type": "film"}), "\"film\" is unknown"),
            (json!({"type": "text", "text": " "}), "empty"),
        ] {
            let error = of(&json!([block])).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(of(&json!([])).unwrap_err().contains("empty"));
    }
}
