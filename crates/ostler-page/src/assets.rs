//! Files of the page, embedded in the program. Scripts and styles are served without comments and
//! indentation, with the same line numbers as in the source.

use std::sync::LazyLock;

use include_dir::{Dir, File, include_dir};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/assets");

/// Made on first use, and never dropped.
static SERVED: LazyLock<Vec<Asset>> = LazyLock::new(|| FILES.files().filter_map(asset).collect());

/// Maximum size of all files together as they are served, in bytes.
pub const MAX_SIZE: usize = 150_000;

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its name, such as `app.js`.
    pub name: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

impl Asset {
    /// Returns the media type, for the header `Content-Type`.
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        let extension = self.name.rsplit_once('.').map_or("", |(_, end)| end);
        match extension {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "json" | "webmanifest" => "application/json",
            "png" => "image/png",
            _ => "application/octet-stream",
        }
    }

    /// Returns the content as text, or `None` if it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&'static str> {
        std::str::from_utf8(self.content).ok()
    }
}

/// Returns the file with this name.
#[must_use]
pub fn get(name: &str) -> Option<Asset> {
    all().find(|asset| asset.name == name)
}

/// Returns all files, in alphabetical order.
pub fn all() -> impl Iterator<Item = Asset> {
    SERVED.iter().copied()
}

fn asset(file: &'static File<'static>) -> Option<Asset> {
    let name = file.path().to_str()?;
    let comment = match name.rsplit_once('.')?.1 {
        "js" => ("//", ""),
        "css" => ("/*", "*/"),
        _ => {
            return Some(Asset {
                name,
                content: file.contents(),
            });
        }
    };
    let content = compact(file.contents_utf8()?, comment).leak();
    Some(Asset {
        name,
        content: content.as_bytes(),
    })
}

/// Words that mean something else to the bundler at the top level of a module. Lines that begin
/// with one keep a character of their indentation.
const TOP_LEVEL: [&str; 3] = ["await ", "export ", "import "];

/// Removes the indentation, and lines that are only a comment. No literal of the page spans lines.
fn compact(text: &str, (start, end): (&str, &str)) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let content = line.trim();
        if !(content.starts_with(start) && content.ends_with(end)) {
            let is_nested = line.starts_with('\t');
            if is_nested && TOP_LEVEL.iter().any(|word| content.starts_with(word)) {
                out.push('\t');
            }
            out.push_str(content);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indentation_are_removed_and_lines_stay() {
        let script = "// What it is.\nfunction f() {\n\t\t// Why.\n\t\tawait g();\n\t\treturn \"// no\"; // how\n}\n";
        assert_eq!(
            compact(script, ("//", "")),
            "\nfunction f() {\n\n\tawait g();\nreturn \"// no\"; // how\n}\n"
        );
        let style = "/* Calm. */\n:root{\n\t--a:1px; /* one */\n}\n";
        assert_eq!(
            compact(style, ("/*", "*/")),
            "\n:root{\n--a:1px; /* one */\n}\n"
        );
    }
}
