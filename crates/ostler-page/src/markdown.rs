//! Markdown of agents and users as safe HTML.
//!
//! The text is untrusted. Three things make the result safe, each on its own: raw HTML is shown as
//! text, links get only known schemes, and the result passes an allow-list of elements and
//! attributes. It loads nothing, and has no style, script, identifier or image.
//!
//! Links that lead somewhere else than their text says show the host. Characters that are invisible
//! or change the direction of text are shown by their number.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ostler_core::clip::{is_deceptive, is_harmless_joiner};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use url::Url;

/// Maximum size of a text that is parsed, in bytes. A longer one is shown as it is.
const MAX_PARSED: usize = 256 * 1024;

/// Maximum depth of nested elements. The time of a parser of HTML grows with the square of it.
const MAX_DEPTH: usize = 40;

/// Maximum number of open links and images whose text is compared with their target.
const MAX_LINKS: usize = 8;

/// Elements of the result.
pub const ELEMENTS: &[&str] = &[
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

/// Attributes of the result, by element.
pub const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("a", &["href", "rel", "target"]),
    ("code", &["class"]),
    ("ol", &["start"]),
    ("span", &["class"]),
];

/// URL schemes of links.
pub const SCHEMES: &[&str] = &["http", "https", "mailto"];

/// Classes of `span`: a character shown by its number, and the host of a link.
pub const CLASSES: &[&str] = &["ctl", "host"];

/// Prefix of the class of a code block.
const LANGUAGE: &str = "language-";

/// Maximum length of the name of a language.
const MAX_LANGUAGE: usize = 32;

/// Converts Markdown into safe HTML.
#[must_use]
pub fn to_html(text: &str) -> String {
    if text.len() > MAX_PARSED {
        return format!("<pre>{}</pre>", escaped(text));
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        depth: 0,
        links: Vec::new(),
        events: Vec::new(),
    };
    for event in Parser::new_ext(text, options) {
        writer.push(event);
    }
    let mut out = String::with_capacity(text.len() * 2);
    html::push_html(&mut out, writer.events.into_iter());
    SANITIZER.clean(&out).to_string()
}

/// Converts text into safe HTML without any markup.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_hidden(before, c) => out.push_str(&visible(c)),
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// Returns true for a character that is not shown, or that changes how others are shown.
fn is_hidden(before: Option<char>, c: char) -> bool {
    let is_joiner = before.is_some_and(|before| is_harmless_joiner(before, c));
    let is_control = c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    is_control || (is_deceptive(c) && !is_joiner)
}

fn visible(c: char) -> String {
    format!("<span class=\"ctl\">U+{:04X}</span>", u32::from(c))
}

/// Rewrites the events of the parser, so that the HTML writer writes nothing unsafe.
struct Writer<'a> {
    /// Number of open elements, apart from links and images.
    depth: usize,
    /// Links and images that are open, the innermost last.
    links: Vec<OpenLink>,
    events: Vec<Event<'a>>,
}

struct OpenLink {
    /// The target, if it may be one.
    url: Option<Url>,
    /// The target as it was written.
    written: String,
    text: String,
}

impl<'a> Writer<'a> {
    fn push(&mut self, event: Event<'a>) {
        if self.is_too_deep(&event) {
            return;
        }
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.open_link(&dest_url);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => self.close_link(),
            Event::Start(Tag::HtmlBlock) => self.events.push(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => self.events.push(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let kind = CodeBlockKind::Fenced(language(&info).into());
                self.events.push(Event::Start(Tag::CodeBlock(kind)));
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.note(&text);
                let code = format!("<code>{}</code>", escaped(&text));
                self.events.push(Event::InlineHtml(code.into()));
            }
            Event::TaskListMarker(is_done) => {
                let mark = if is_done { "☑ " } else { "☐ " };
                self.events.push(Event::Text(CowStr::Borrowed(mark)));
            }
            other => self.events.push(other),
        }
    }

    /// Follows the depth, and returns true for an element that is nested too deeply: only its
    /// content is shown.
    fn is_too_deep(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Start(Tag::Link { .. } | Tag::Image { .. })
            | Event::End(TagEnd::Link | TagEnd::Image) => false,
            Event::Start(_) => {
                self.depth += 1;
                self.depth > MAX_DEPTH
            }
            Event::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                self.depth >= MAX_DEPTH
            }
            _ => false,
        }
    }

    /// Writes text that contains no markup.
    fn text(&mut self, text: &str) {
        self.note(text);
        self.events.push(Event::InlineHtml(escaped(text).into()));
    }

    /// Remembers the text of the open links.
    fn note(&mut self, text: &str) {
        for link in self.links.iter_mut().rev().take(MAX_LINKS) {
            link.text.push_str(text);
        }
    }

    fn open_link(&mut self, target: &str) {
        let url = Url::parse(target).ok();
        let url = url.filter(|url| SCHEMES.contains(&url.scheme()));
        // A link inside a link is not valid HTML.
        let url = url.filter(|_| self.links.iter().all(|link| link.url.is_none()));
        if let Some(url) = &url {
            let start = format!("<a href=\"{}\">", escaped(url.as_str()));
            self.events.push(Event::InlineHtml(start.into()));
        }
        self.links.push(OpenLink {
            url,
            written: target.to_owned(),
            text: String::new(),
        });
    }

    fn close_link(&mut self) {
        let Some(link) = self.links.pop() else {
            return;
        };
        if let Some(url) = &link.url {
            if link.text.trim().is_empty() {
                self.text(url.as_str());
            }
            self.events.push(Event::InlineHtml("</a>".into()));
        }
        if let Some(target) = link.hidden_target() {
            let target = format!(" <span class=\"host\">({})</span>", escaped(&target));
            self.events.push(Event::InlineHtml(target.into()));
        }
    }
}

impl OpenLink {
    /// Returns the target if the text does not show it: the host of a link, or all of a target that
    /// is not a link.
    fn hidden_target(&self) -> Option<String> {
        let text = self.text.trim();
        let Some(url) = &self.url else {
            let is_shown = text == self.written || self.written.is_empty();
            return (!is_shown).then(|| self.written.clone());
        };
        if text.is_empty() {
            return None;
        }
        let Some(host) = url.host_str() else {
            // `mailto:`
            let is_shown = text == url.path() || text == url.as_str();
            return (!is_shown).then(|| url.path().to_owned());
        };
        let shown = Url::parse(text)
            .or_else(|_| Url::parse(&format!("{}://{text}", url.scheme())))
            .ok();
        let is_shown = shown.is_some_and(|shown| shown.host_str() == Some(host));
        (!is_shown).then(|| host.to_owned())
    }
}

/// Returns the language of a code block, or nothing if it is not the name of one.
fn language(info: &str) -> String {
    let name = info.split([' ', ',', '{']).next().unwrap_or_default();
    if is_language(name) {
        name.to_owned()
    } else {
        String::new()
    }
}

fn is_language(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '#' | '.' | '-');
    !name.is_empty() && name.len() <= MAX_LANGUAGE && name.chars().all(is_part)
}

/// Returns true if an attribute may have this value.
fn is_allowed(element: &str, attribute: &str, value: &str) -> bool {
    match (element, attribute) {
        ("code", "class") => value.strip_prefix(LANGUAGE).is_some_and(is_language),
        ("span", "class") => CLASSES.contains(&value),
        ("ol", "start") => value.len() <= 9 && value.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
    }
}

static SANITIZER: LazyLock<ammonia::Builder<'static>> = LazyLock::new(|| {
    // `rel` and `target` are set, not accepted.
    let accepted = |names: &&'static str| !matches!(*names, "rel" | "target");
    let attributes: HashMap<&str, HashSet<&str>> = ATTRIBUTES
        .iter()
        .map(|(element, names)| (*element, names.iter().copied().filter(accepted).collect()))
        .collect();
    let mut builder = ammonia::Builder::empty();
    builder
        .tags(ELEMENTS.iter().copied().collect())
        .clean_content_tags(HashSet::new())
        .tag_attributes(attributes)
        .url_schemes(SCHEMES.iter().copied().collect())
        .url_relative(ammonia::UrlRelative::Deny)
        .link_rel(Some("noreferrer noopener"))
        .set_tag_attribute_value("a", "target", "_blank")
        .attribute_filter(|element, attribute, value| {
            is_allowed(element, attribute, value).then_some(Cow::Borrowed(value))
        });
    builder
});

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        to_html(text).trim().to_owned()
    }

    #[test]
    fn markdown_becomes_html() {
        let link = |href: &str, text: &str| {
            format!("<a href=\"{href}\" target=\"_blank\" rel=\"noreferrer noopener\">{text}</a>")
        };
        let table = [
            ("# A *b*", "<h1>A <em>b</em></h1>".to_owned()),
            ("a\nb", "<p>a\nb</p>".to_owned()),
            (
                "```rust ignore\nlet x = \"<b>\";\n```",
                "<pre><code class=\"language-rust\">let x = \"&lt;b&gt;\";\n</code></pre>"
                    .to_owned(),
            ),
            ("```a\"b\nx\n```", "<pre><code>x\n</code></pre>".to_owned()),
            ("`<i>`", "<p><code>&lt;i&gt;</code></p>".to_owned()),
            ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>".to_owned()),
            (
                "<script>alert(1)</script>",
                "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>".to_owned(),
            ),
            ("3. x", "<ol start=\"3\">\n<li>x</li>\n</ol>".to_owned()),
            ("- [x] y", "<ul>\n<li>☑ y</li>\n</ul>".to_owned()),
            ("~~x~~", "<p><del>x</del></p>".to_owned()),
            (
                "|a|\n|:-:|\n|b|",
                "<table><thead><tr><th>a</th></tr></thead><tbody>\n<tr><td>b</td></tr>\n\
                 </tbody></table>"
                    .to_owned(),
            ),
            (
                "<https://x.org/a>",
                format!("<p>{}</p>", link("https://x.org/a", "https://x.org/a")),
            ),
            (
                "[x.org](https://x.org/a)",
                format!("<p>{}</p>", link("https://x.org/a", "x.org")),
            ),
        ];
        for (text, want) in table {
            assert_eq!(html(text), want, "{text}");
        }
    }

    #[test]
    fn links_show_where_they_lead() {
        let host = |text: &str, host: &str| {
            let html = html(text);
            let shown = format!("<span class=\"host\">({host})</span>");
            assert!(html.contains(&shown), "{text}: {html}");
        };
        host("[here](https://x.org/a)", "x.org");
        host("[bank.com](https://evil.org)", "evil.org");
        host("[https://bank.com](https://bank.com@evil.org/)", "evil.org");
        host("[bank.com](https://bank.com.evil.org)", "bank.com.evil.org");
        host("[x](https://bаnk.com)", "xn--bnk-6cd.com");
        host("![cat](https://x.org/cat.png)", "x.org");
        host("[me](mailto:a@b.c)", "a@b.c");
        // Anything else is not a link, and shows its target.
        for text in [
            "[x](javascript:alert(1))",
            "[x](file:///etc/passwd)",
            "[x](src/a.rs)",
        ] {
            let html = html(text);
            assert!(
                !html.contains("<a ") && html.contains("class=\"host\""),
                "{html}"
            );
        }
        assert_eq!(html("[a.rs](a.rs)"), "<p>a.rs</p>");
        let nested = html("[a ![b](https://b.org) c](https://a.org)");
        assert_eq!(nested.matches("<a ").count(), 1, "{nested}");
        assert!(
            nested.contains("(https://b.org)") && nested.contains("(a.org)"),
            "{nested}"
        );
    }

    #[test]
    fn hidden_characters_are_shown() {
        let ctl = |code: &str| format!("<span class=\"ctl\">U+{code}</span>");
        assert_eq!(html("a\u{202e}b"), format!("<p>a{}b</p>", ctl("202E")));
        assert_eq!(
            html("`\u{200b}`"),
            format!("<p><code>{}</code></p>", ctl("200B"))
        );
        assert_eq!(html("\u{1b}[2J"), format!("<p>{}[2J</p>", ctl("001B")));
        let code = html("```\n\u{2066}x\n```");
        assert_eq!(code, format!("<pre><code>{}x\n</code></pre>", ctl("2066")));
        // Joiners within an emoji are not hidden.
        assert_eq!(html("👩\u{200d}🚀"), "<p>👩\u{200d}🚀</p>");
    }

    #[test]
    fn a_very_long_text_is_shown_as_it_is() {
        let text = "# <b>\n".repeat(MAX_PARSED / 5);
        let html = html(&text);
        assert!(html.starts_with("<pre># &lt;b&gt;\n"), "{}", &html[..40]);
        assert_eq!(html.matches("&lt;b&gt;").count(), MAX_PARSED / 5);
    }

    #[test]
    fn deep_nesting_is_harmless() {
        for (text, closes) in [
            (">", ""),
            ("- ", ""),
            ("[", "]"),
            ("*a", ""),
            ("![", "](x)"),
        ] {
            let deep = format!("{}x{}", text.repeat(5_000), closes.repeat(5_000));
            let html = html(&deep);
            assert!(html.contains('x'));
            assert!(html.matches("<blockquote>").count() <= MAX_DEPTH);
        }
    }
}
