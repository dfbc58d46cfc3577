//! Markdown: prompts as quotations, answers as they are, tool calls in fences that their content cannot close.

use super::Block;

pub(super) fn block(block: &Block<'_>) -> String {
    match block {
        Block::Head(head) => {
            let facts: String = head
                .facts
                .iter()
                .map(|(name, value)| format!("- {name}: {}\n", code(value)))
                .collect();
            format!("# {}\n\n{facts}", words(&head.title))
        }
        Block::Turn { number, at, prompt } => {
            let quoted: String = prompt.iter().flat_map(|it| it.lines()).map(quote).collect();
            format!("\n## Turn {number}\n\n_{at}_\n\n{quoted}")
        }
        Block::Reply(text) => format!("\n{}\n", closed(text)),
        Block::Thinking(text) => {
            let quoted: String = text.trim().lines().map(quote).collect();
            format!("\n**Thinking**\n\n{quoted}")
        }
        Block::Tool {
            name,
            input,
            result,
        } => {
            let verdict = result
                .as_ref()
                .map_or("no result", |(verdict, _)| verdict.as_str());
            let output = result.as_ref().map_or("", |(_, output)| output);
            format!(
                "\n**Tool** {} ({verdict})\n{}{}",
                code(name),
                fenced(&input.text),
                fenced(output)
            )
        }
        Block::Warning(text) => format!("\n**Warning:** {}\n", words(text)),
        Block::TurnEnded(end) => format!("\n_{}_\n", words(end)),
        Block::Ended(end) => format!("\n---\n\nEnded: {}\n", words(end)),
        Block::Foot => String::new(),
    }
}

/// A line of a quotation, with nothing in it that Markdown obeys.
fn quote(line: &str) -> String {
    format!("> {}\n", words(line).trim_end())
}

/// Text that is no markup: every character that could begin some is escaped.
fn words(text: &str) -> String {
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

/// A value in the line, in backticks that it does not hold itself.
fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text, '`') + 1);
    // A space keeps a backtick at either end apart.
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

/// An answer, which is Markdown itself, with a fence closed that it left open: the rest of the page is not part of it.
pub(super) fn closed(text: &str) -> String {
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
            // A run with a backtick behind it is code in a line, and what is indented further is code without a fence.
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
