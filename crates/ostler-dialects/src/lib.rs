//! Agent dialects: one folder per agent, each a pure translation between an agent's protocol and
//! Ostler's events.
//!
//! Nothing here starts a process, opens a file or reads a clock. A [`Dialect`] describes the
//! command to launch and creates a conversation; the conversation turns lines into events and
//! requests into bytes. To add an agent, add a folder and one line to [`all`].

mod extra;
mod inherits;
mod natives;
mod lenient;
mod surrogates;
mod settings;
mod http_status;
mod mcp;
mod recording;

#[cfg(feature = "acp")]
pub mod acp;
pub mod claude;
pub mod codex;
pub mod copilot;
pub mod mock;
pub mod openai;
pub mod openclaw;
pub mod tool_loop;
pub mod plain;
pub mod scripted;

use ostler_core::dialect::Dialect;

/// Returns every dialect, in the order in which agents are detected.
#[must_use]
pub fn all() -> &'static [&'static dyn Dialect] {
    static ALL: &[&dyn Dialect] = &[
        &claude::Claude,
        &codex::Codex,
        &copilot::Copilot,
        #[cfg(feature = "acp")]
        &acp::GEMINI,
        #[cfg(feature = "acp")]
        &acp::OPENCODE,
        &openclaw::OpenClaw,
        #[cfg(feature = "acp")]
        &acp::QWEN,
        #[cfg(feature = "acp")]
        &acp::GOOSE,
        #[cfg(feature = "acp")]
        &acp::CLAUDE_AGENT_ACP,
        #[cfg(feature = "acp")]
        &acp::CODEX_ACP,
        &openai::OpenAi,
        &scripted::Scripted,
        &tool_loop::ToolLoop,
        &mock::Mock,
    ];
    ALL
}

/// Returns the dialect of a recording that begins with this text, or `None` if the text is not
/// agent output. The text may end in the middle of a line.
#[must_use]
pub fn recognize(opening: &str) -> Option<&'static dyn Dialect> {
    // Protocols that an agent speaks over its second transport.
    let alternatives: &[&'static dyn Dialect] = &[
        &codex::CodexExec,
        #[cfg(feature = "acp")]
        &acp::COPILOT,
    ];
    all()
        .iter()
        .chain(alternatives)
        .copied()
        .find(|dialect| dialect.recognizes(opening))
}

/// Returns the dialect with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Dialect> {
    all().iter().copied().find(|dialect| dialect.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-4: includes the four agents that the requirement names.
    #[test]
    fn names_are_unique_and_found() {
        for name in ["claude", "openclaw", "codex", "openai-api"] {
            assert!(find(name).is_some(), "{name}");
        }
        for dialect in all() {
            assert_eq!(
                find(dialect.name()).map(Dialect::name),
                Some(dialect.name())
            );
        }
        assert_eq!(all().len(), if cfg!(feature = "acp") { 14 } else { 8 });
        assert!(find("no-such-agent").is_none());
    }
}
