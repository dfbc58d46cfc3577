//! HTML export: one page with all text escaped, no script, and no external resources.

use super::{Block, CallInput, CallStatus};

/// Content security policy: nothing is loaded, and only the styles below apply.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --prompt: #4a90d922; }
body { margin: 2rem auto; max-width: 50rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin: 2.5rem 0 .5rem; color: var(--quiet); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dt, time, footer, .end { color: var(--quiet); }
dd { margin: 0; } .text, dd, pre { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.prompt { padding: .6rem .9rem; border-radius: .5rem; background: var(--prompt); }
.reply { margin: 1rem 0; } pre { font: 13px/1.45 ui-monospace, monospace; margin: .5rem 0; }
details { margin: .5rem 0; padding: .3rem .7rem; border: 1px solid var(--line); border-radius: .4rem; }
summary { cursor: pointer; } summary code { unicode-bidi: isolate; } .failed, .denied { color: #c33; } .ok { color: #383; }
.warning { color: #a60; } footer { margin-top: 2rem; border-top: 1px solid var(--line); }";

pub(super) fn block(block: &Block<'_>) -> String {
    match block {
        Block::Head(head) => {
            let title = escape(&head.title);
            let facts = head
                .facts
                .iter()
                .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)));
            format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n\
                 </head>\n<body>\n<h1>{title}</h1>\n<dl>\n{}</dl>\n",
                facts.collect::<String>()
            )
        }
        Block::Turn { number, at, prompt } => {
            let prompt = prompt
                .as_deref()
                .map(|it| text("prompt", it))
                .unwrap_or_default();
            format!("<h2>Turn {number} <time>{at}</time></h2>\n{prompt}")
        }
        Block::Reply(content) => text("reply", content),
        Block::Thinking(content) => {
            format!(
                "<details><summary>Thinking</summary>{}</details>\n",
                text("thinking", content)
            )
        }
        Block::Tool {
            name,
            input,
            result,
        } => tool(name, input, result.as_ref()),
        Block::Warning(content) => text("warning", content),
        Block::TurnEnded(end) => text("end", end),
        Block::Ended(end) => format!("<footer>Ended: {}</footer>\n", escape(end)),
        Block::Foot => "</body>\n</html>\n".to_owned(),
    }
}

fn text(class: &str, content: &str) -> String {
    format!(
        "<div class=\"text {class}\" dir=\"auto\">{}</div>\n",
        escape(content.trim())
    )
}

fn tool(name: &str, input: &CallInput, result: Option<&(CallStatus, String)>) -> String {
    let (status, output) = result.map_or(("no result", ""), |(status, output)| {
        (status.as_str(), output)
    });
    let class = if result.is_some() { status } else { "failed" };
    let pre = |text: &str| {
        let text = escape(text.trim_end());
        // The parser drops the first line break.
        if text.is_empty() {
            String::new()
        } else {
            format!("<pre>\n{text}</pre>")
        }
    };
    format!(
        "<details><summary><span class=\"{class}\">{status}</span> <b>{}</b> <code>{}</code></summary>{}{}</details>\n",
        escape(name),
        escape(&input.subject),
        pre(&input.text),
        pre(output)
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
