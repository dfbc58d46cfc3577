//! Normalized logs from text transcripts, by the patterns of source document 004 (CR-3.6 to
//! CR-3.9).
//!
//! | line | meaning |
//! |---|---|
//! | `Model: NAME` | the model |
//! | `Version: X`, `Claude Code v1.2.3` | the agent's version |
//! | `User: …`, `Assistant: …`, `System: …` | the start of a message |
//! | `[TOOL: name] arguments` | a tool call |
//! | `Input tokens: N`, `Output tokens: N` | usage |
//!
//! Everything else continues the current message, or is one of the assistant.

use std::str::Chars;

use super::{
    ExecutionFacts, LogMessage, LogToolCall, LogUsage, MessageRole, NormalizedLog, complete, empty,
};

/// Builds the log of a transcript.
#[must_use]
pub fn from_text(execution: &ExecutionFacts, transcript: &str) -> NormalizedLog {
    let mut log = empty(execution);
    let (mut input, mut output) = (None, None);
    let mut current: Option<LogMessage> = None;
    for line in strip_control_sequences(transcript).lines() {
        let line = line.trim_end();
        if let Some(version) = agent_version(line) {
            log.agent_info.version = version.to_owned();
        } else if let Some(model) = field(line, "Model") {
            log.model_info.name = Some(model.to_owned());
        } else if let Some(tokens) = field(line, "Input tokens").and_then(number) {
            input = Some(tokens);
        } else if let Some(tokens) = field(line, "Output tokens").and_then(number) {
            output = Some(tokens);
        } else if let Some((name, arguments)) = tool_call(line) {
            let id = format!("call_{}", log.tool_calls.len() + 1);
            let message = current.get_or_insert_with(|| message(MessageRole::Assistant, ""));
            message.tool_call_ids.push(id.clone());
            log.tool_calls.push(LogToolCall {
                id,
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                result: None,
                ok: None,
                timestamp: None,
            });
        } else if let Some((role, text)) = speaker(line) {
            finish(&mut log, current.replace(message(role, text)));
        } else {
            let message = current.get_or_insert_with(|| message(MessageRole::Assistant, ""));
            if !message.content.is_empty() {
                message.content.push('\n');
            }
            message.content.push_str(line);
        }
    }
    finish(&mut log, current);
    if input.is_some() || output.is_some() {
        log.usage = Some(LogUsage {
            input_tokens: input,
            cached_input_tokens: None,
            output_tokens: output,
            reasoning_tokens: None,
            total_tokens: input
                .zip(output)
                .map(|(input, output)| input.saturating_add(output)),
            cost_usd: None,
            cost_source: "unknown".to_owned(),
        });
    }
    complete(log)
}

fn finish(log: &mut NormalizedLog, message: Option<LogMessage>) {
    let Some(mut message) = message else { return };
    let text = message.content.trim_matches('\n');
    if text.len() != message.content.len() {
        message.content = text.to_owned();
    }
    if !message.content.is_empty() || !message.tool_call_ids.is_empty() {
        log.messages.push(message);
    }
}

fn message(role: MessageRole, text: &str) -> LogMessage {
    LogMessage {
        role,
        content: text.to_owned(),
        timestamp: None,
        tool_call_ids: Vec::new(),
        tool_call_id: None,
    }
}

/// Returns the value of `Name: value`, ignoring case.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let line = line.trim_start();
    let head = line.get(..name.len())?;
    if !head.eq_ignore_ascii_case(name) {
        return None;
    }
    let value = line[name.len()..].trim_start().strip_prefix(':')?.trim();
    (!value.is_empty()).then_some(value)
}

/// Parses a count, with or without thousands separators.
fn number(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// Parses `[TOOL: name] arguments`.
fn tool_call(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('[')?;
    let head = rest.get(..5)?;
    if !head.eq_ignore_ascii_case("TOOL:") {
        return None;
    }
    let (name, arguments) = rest[5..].split_once(']')?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name, arguments.trim()))
}

/// Parses the start of a message.
fn speaker(line: &str) -> Option<(MessageRole, &str)> {
    let roles = [
        ("User", MessageRole::User),
        ("Human", MessageRole::User),
        ("Assistant", MessageRole::Assistant),
        ("System", MessageRole::System),
    ];
    roles.into_iter().find_map(|(name, role)| {
        let rest = line.get(..name.len())?;
        if !rest.eq_ignore_ascii_case(name) {
            return None;
        }
        let text = line[name.len()..].strip_prefix(':')?;
        Some((role, text.trim_start()))
    })
}

/// Parses a line that is nothing but the agent's version: `Version: 1.2.3`, `Some Agent v1.2.3`.
fn agent_version(line: &str) -> Option<&str> {
    if let Some(version) = field(line, "Version") {
        return is_version(version).then_some(version);
    }
    let (name, last) = line.trim_end().rsplit_once(char::is_whitespace)?;
    let version = last.strip_prefix('v').filter(|it| is_version(it))?;
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let words = name.split_whitespace();
    let count = words.clone().count();
    ((1..=3).contains(&count) && words.clone().all(is_name)).then_some(version)
}

fn is_version(text: &str) -> bool {
    let mut parts = text.split('.');
    let numeric = |part: &str| {
        part.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit())
    };
    parts.clone().count() >= 2 && parts.all(numeric)
}

/// Removes ANSI escape sequences and control characters other than line breaks and tabs.
pub(super) fn strip_control_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(plain) = rest.bytes().position(is_control) {
        out.push_str(&rest[..plain]);
        let mut chars = rest[plain..].chars();
        match chars.next() {
            Some('\u{1b}') => skip_escape_sequence(&mut chars),
            Some('\r') if !chars.as_str().starts_with('\n') => out.push('\n'),
            Some(c) if !c.is_control() => out.push(c),
            _ => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// Skips what follows the escape character.
fn skip_escape_sequence(rest: &mut Chars<'_>) {
    match rest.next() {
        // CSI: parameters and intermediates, up to a final byte.
        Some('[') => {
            let _ = rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        // A character set and the like: intermediates, up to a final byte.
        Some(' '..='/') => {
            let _ = rest.find(|c| ('0'..='~').contains(c));
        }
        // OSC and other strings: up to BEL or ST.
        Some(']' | 'P' | '_' | '^') => {
            while let Some(c) = rest.next() {
                if c == '\u{7}' {
                    break;
                }
                if c == '\u{1b}'
                    && let Some(after) = rest.as_str().strip_prefix('\\')
                {
                    *rest = after.chars();
                    break;
                }
            }
        }
        _ => {}
    }
}

/// Whether a byte of UTF-8 text begins a control character that is removed or replaced, or may:
/// C2 begins U+0080 to U+00BF.
fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2
}
