//! Markdown export: prompts as quotes, answers unchanged, tool calls in fences that their content
//! cannot close.

use super::Block;

pub(super) fn block(block: &Block<'_>) -> String {
    match block {
        Block::Head(head) => {
            let facts: String = head
                .facts
                .iter()
                .map(|(name, value)| format!("- {name}: {}\n", code(value)))
                .collect();
            format!("# {}\n\n{facts}", escape(&head.title))
        }
        Block::Turn { number, at, prompt } => {
            let quoted: String = prompt.iter().flat_map(|it| it.lines()).map(quote).collect();
            format!("\n## Turn {number}\n\n_{at}_\n\n{quoted}")
        }
        Block::Reply(text) => format!("\n{}\n", close_fence(text)),
        Block::Thinking(text) => {
            let quoted: String = text.trim().lines().map(quote).collect();
            format!("\n**Thinking**\n\n{quoted}")
        }
        Block::Tool {
            name,
            input,
            result,
        } => {
            let status = result
                .as_ref()
                .map_or("no result", |(status, _)| status.as_str());
            let output = result.as_ref().map_or("", |(_, output)| output);
            format!(
                "\n**Tool** {} ({status})\n{}{}",
                code(name),
                fenced(input),
                fenced(output)
            )
        }
        Block::Warning(text) => format!("\n**Warning:** {}\n", escape(text)),
        Block::TurnEnded(end) => format!("\n_{}_\n", escape(end)),
        Block::Ended(end) => format!("\n---\n\nEnded: {}\n", escape(end)),
        Block::Foot => String::new(),
    }
}

/// Returns a line of a quote, without any active markup.
fn quote(line: &str) -> String {
    format!("> {}\n", escape(line).trim_end())
}

/// Escapes every character that could start markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_list = at == 0 && matches!(c, '-' | '+' | '=' | '~');
        if is_list
            || matches!(
                c,
                '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '|' | '!'
            )
        {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Returns inline code, in more backticks than the text contains.
fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text, '`') + 1);
    // A space separates the text from backticks at either end.
    if text.contains('`') {
        format!("{ticks} {text} {ticks}")
    } else {
        format!("{ticks}{text}{ticks}")
    }
}

fn fenced(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let fence = "`".repeat((longest_run(text, '`') + 1).max(3));
    format!("\n{fence}\n{}\n{fence}\n", text.trim_end())
}

fn longest_run(text: &str, of: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Returns an answer, which is Markdown itself, with a closing fence if it left one open, so that
/// the rest of the page is not part of it.
pub(super) fn close_fence(text: &str) -> String {
    let text = text.trim();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim_start());
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else {
            continue;
        };
        let run: String = line.chars().take_while(|c| *c == mark).collect();
        match &open {
            Some(fence) if run.starts_with(fence.as_str()) && line.trim_end() == run => open = None,
            Some(_) => {}
            // A run followed by a backtick is inline code, and text indented further is code
            // without a fence.
            None if run.len() >= 3
                && indent <= 3
                && !(mark == '`' && line[run.len()..].contains('`')) =>
            {
                open = Some(run);
            }
            None => {}
        }
    }
    open.map_or_else(|| text.to_owned(), |fence| format!("{text}\n{fence}"))
}
