//! Conversion of a prompt in the protocol into text for an agent. Pure.

use serde::Deserialize;

use crate::wire::Failure;

/// A content block of a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContentBlock {
    r#type: String,
    text: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    resource: Option<Resource>,
}

/// An embedded resource.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    uri: String,
    text: Option<String>,
}

/// Returns the text of a prompt: links stay in place, and embedded resources are appended.
pub(crate) fn text(blocks: &[ContentBlock]) -> Result<String, Failure> {
    let (mut text, mut attachments) = (String::new(), String::new());
    for block in blocks {
        let ContentBlock { uri, resource, .. } = block;
        match (&*block.r#type, &block.text, uri, resource) {
            ("text", Some(words), ..) => text.push_str(words),
            ("resource_link", _, Some(uri), _) => {
                text.push_str(&link(block.name.as_ref().unwrap_or(uri), uri));
            }
            ("resource", _, _, Some(Resource { uri, text: words })) => {
                let Some(words) = words else {
                    return Err(Failure::params(format!("{uri} is not text")).hint(ONLY_TEXT));
                };
                text.push_str(&link(uri.rsplit('/').next().unwrap_or(uri), uri));
                attachments.push_str(&format!("\n\n<context uri=\"{uri}\">\n{words}\n</context>"));
            }
            (kind @ ("image" | "audio"), ..) => {
                let why = format!("{kind} content is not supported");
                return Err(Failure::params(why).hint(ONLY_TEXT));
            }
            (kind, ..) => {
                return Err(Failure::params(format!(
                    "content block of type {kind:?} is unknown or incomplete"
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

const ONLY_TEXT: &str = "send text, or a link to the file, which the agent can read";

/// Formats a link in Markdown. A file is named by its path.
fn link(name: &str, uri: &str) -> String {
    let target = uri
        .strip_prefix("file://")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(uri);
    format!("[{name}]({target})")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(blocks: &Value) -> Result<String, Failure> {
        let blocks: Vec<ContentBlock> = serde_json::from_value(blocks.clone()).unwrap();
        text(&blocks)
    }

    #[test]
    fn blocks_become_one_text() {
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
    fn unsupported_blocks_are_rejected() {
        let blob =
            json!({"type": "resource", "resource": {"uri": "file:///w/b.png", "blob": "AA=="}});
        for (block, part) in [
            (
                json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
                "image content is not supported",
            ),
            (
                json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
                "audio content is not supported",
            ),
            (blob, "is not text"),
            (json!({"type": "text"}), "incomplete"),
            (json!({"type": "film"}), "\"film\" is unknown"),
            (json!({"type": "text", "text": " "}), "empty"),
        ] {
            let error = of(&json!([block])).unwrap_err();
            assert!(error.message.contains(part), "{error:?}");
        }
        assert!(of(&json!([])).unwrap_err().message.contains("empty"));
    }
}
