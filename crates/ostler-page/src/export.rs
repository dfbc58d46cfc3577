//! Self-contained documents: the page and its data in one HTML file that opens from disk.
//!
//! The document consists of the page's files ([`crate::assets`]): styles and scripts are inlined
//! and named by their hashes in its content security policy, so that nothing else runs, and nothing
//! is loaded. The data is JSON in the element `ostler-data`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ostler_core::event::{Event, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::assets::{self, Asset};
use crate::bundle::{self, BundleError};
use crate::changes::{ChangeLog, Changes};
use crate::markdown::escaped;
use crate::page::TranscriptPage;
use crate::timeline::{Timeline, TimelineLog};
use crate::tools::ToolContext;
use crate::transcript::Transcript;

/// Id of the element that contains the data of a document.
pub const DATA_ID: &str = "ostler-data";

/// Why a document cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file of the page is missing, or is not text.
    #[error("the page has no file {0:?}")]
    Missing(String),
    /// The page loads something that cannot be inlined.
    #[error("the page contains `{0}`, which cannot be part of a document")]
    External(String),
    /// A script of the page cannot be bundled.
    #[error("the page's script cannot be bundled: {0}")]
    Bundle(#[from] BundleError),
    /// The data cannot be serialized.
    #[error("the data cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A session as a document, built event by event.
#[derive(Debug)]
pub struct SessionDocument {
    transcript: Transcript,
    changes: ChangeLog,
    timeline: TimelineLog,
    last_seq: u64,
}

/// Data of a document that shows a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionData<S> {
    /// Always `session`.
    pub kind: &'static str,
    /// Version of Ostler that wrote the document.
    pub version: &'static str,
    /// When the document was written.
    pub exported_at: Timestamp,
    /// The session, as the API describes it.
    pub session: S,
    /// The whole transcript, as one page.
    pub transcript: TranscriptPage,
    /// The changed files.
    pub changes: Changes,
    /// The timeline.
    pub timeline: Timeline,
}

impl SessionDocument {
    /// Starts a document.
    #[must_use]
    pub fn new(tools: &ToolContext) -> Self {
        Self {
            transcript: Transcript::new(tools.clone()),
            changes: ChangeLog::new(tools.clone()),
            timeline: TimelineLog::new(tools.clone()),
            last_seq: 0,
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        self.transcript.push(event);
        self.changes.push(event);
        self.timeline.push(event);
        self.last_seq = event.seq;
    }

    /// Returns the data, with a description of the session.
    #[must_use]
    pub fn into_data<S>(mut self, session: S, exported_at: Timestamp) -> SessionData<S> {
        self.transcript.finish();
        let transcript = TranscriptPage {
            items: self.transcript.items(),
            first_seq: 1,
            last_seq: self.last_seq,
            complete_to: self.last_seq,
            has_before: false,
            has_after: false,
            total_events: self.last_seq,
        };
        SessionData {
            kind: "session",
            version: env!("CARGO_PKG_VERSION"),
            exported_at,
            session,
            transcript,
            changes: self.changes.changes(),
            timeline: self.timeline.timeline(),
        }
    }
}

/// Returns a document with this title and data.
///
/// # Errors
/// If the data cannot be serialized, or the page's files cannot be inlined.
pub fn html(title: &str, data: &impl Serialize) -> Result<String, ExportError> {
    let index = text("index.html")?;
    let data = json_in_html(&serde_json::to_string(data)?);
    Template::inline(index)?.write(title, &data)
}

/// Escapes JSON so that it can be the content of a `script` element: nothing in it ends the element
/// or starts a comment.
#[must_use]
pub fn json_in_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // These occur in strings only, where an escape means the same.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// The page with everything inlined, and the sources that its policy allows.
struct Template {
    html: String,
    scripts: Vec<String>,
    styles: Vec<String>,
}

impl Template {
    /// Inlines what the page loads.
    fn inline(index: &str) -> Result<Self, ExportError> {
        let mut template = Self {
            html: String::new(),
            scripts: Vec::new(),
            styles: Vec::new(),
        };
        let mut rest = index;
        while let Some(start) = next_tag(rest) {
            let (before, tag) = rest.split_at(start);
            template.html.push_str(before);
            let end = tag.find('>').map_or(tag.len(), |end| end + 1);
            let (tag, after) = tag.split_at(end);
            rest = after;
            if tag.starts_with("<script") {
                rest = after
                    .trim_start()
                    .strip_prefix("</script>")
                    .ok_or_else(|| {
                        ExportError::External(tag.to_owned()) // inline scripts have no hash
                    })?;
                template.script(tag)?;
            } else {
                template.link(tag)?;
            }
        }
        template.html.push_str(rest);
        Ok(template)
    }

    fn script(&mut self, tag: &str) -> Result<(), ExportError> {
        let is_module = attribute(tag, "type") == Some("module");
        let name = attribute(tag, "src").filter(|_| is_module).map(file_name);
        let name = name.ok_or_else(|| ExportError::External(tag.to_owned()))?;
        let script = bundle::bundle(name, |name| assets::get(name)?.text())?;
        self.scripts.push(source(&script));
        // The mark for the data comes first: the script reads it.
        self.html.push_str(&format!(
            "{DATA_MARK}<script type=\"module\">{script}</script>"
        ));
        Ok(())
    }

    fn link(&mut self, tag: &str) -> Result<(), ExportError> {
        let external = || ExportError::External(tag.to_owned());
        let name = attribute(tag, "href").map(file_name).ok_or_else(external)?;
        match attribute(tag, "rel") {
            Some("stylesheet") => {
                let style = text(name)?;
                if style.to_ascii_lowercase().contains("</style") || style.contains("@import") {
                    return Err(external());
                }
                self.styles.push(source(style));
                self.html.push_str(&format!("<style>{style}</style>"));
            }
            Some("icon") => {
                let asset = asset(name)?;
                let (kind, data) = (asset.media_type(), BASE64_STANDARD.encode(asset.content));
                self.html.push_str(&format!(
                    "<link rel=\"icon\" href=\"data:{kind};base64,{data}\">"
                ));
            }
            // A document has all modules, and is not installed.
            Some("modulepreload" | "preload" | "manifest") => {}
            _ => return Err(external()),
        }
        Ok(())
    }

    fn write(&self, title: &str, data: &str) -> Result<String, ExportError> {
        let missing = |what: &str| ExportError::External(format!("no {what}"));
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; \
             form-action 'none'; require-trusted-types-for 'script'; trusted-types ostler",
            self.scripts.join(" "),
            self.styles.join(" "),
        );
        // Before anything that it applies to.
        let head = format!(
            "<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">"
        );
        let (before, after) = self
            .html
            .split_once("<head>")
            .ok_or_else(|| missing("<head>"))?;
        let (in_head, after) = after
            .split_once("<title>")
            .ok_or_else(|| missing("<title>"))?;
        let (_, after) = after
            .split_once("</title>")
            .ok_or_else(|| missing("</title>"))?;
        let (middle, after) = after
            .split_once(DATA_MARK)
            .ok_or_else(|| missing("<script>"))?;
        let title = escaped_title(title);
        Ok(format!(
            "{before}{head}{in_head}<title>{title}</title>{middle}\
             <script type=\"application/json\" id=\"{DATA_ID}\">{data}</script>\n{after}"
        ))
    }
}

/// Mark for the place of the data.
const DATA_MARK: &str = "<!--ostler-data-->";

/// Returns the start of the next `link` or `script`.
fn next_tag(html: &str) -> Option<usize> {
    let starts = ["<link", "<script"].map(|tag| html.find(tag));
    starts.into_iter().flatten().min()
}

/// Returns the value of an attribute in double quotes.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    value.split_once('"').map(|(value, _)| value)
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn asset(name: &str) -> Result<Asset, ExportError> {
    assets::get(name).ok_or_else(|| ExportError::Missing(name.to_owned()))
}

fn text(name: &str) -> Result<&'static str, ExportError> {
    let text = asset(name)?.text();
    text.ok_or_else(|| ExportError::Missing(name.to_owned()))
}

/// Returns the source expression of an inlined script or style: its hash.
fn source(content: &str) -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(content.as_bytes()));
    format!("'sha256-{hash}'")
}

/// A title cannot contain elements, so hidden characters are left out.
fn escaped_title(title: &str) -> String {
    escaped(&ostler_core::clip::sanitize(title).replace(['\n', '\t'], " "))
}
