//! One folder per agent: pure translation between an agent's words and Ostler's events.
//!
//! Nothing here starts a process, opens a file or reads a clock. A [`Dialect`] says what to start and opens a
//! conversation; the conversation turns lines into events and requests into bytes. To add an agent, add a folder and one
//! line to [`all`].

mod extra;
mod inherits;
mod natives;
mod lenient;
mod surrogates;
mod settings;
mod service;
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

/// Every dialect, in the order in which agents are looked for.
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
        &tool_loop::Outer,
        &mock::Mock,
    ];
    ALL
}

/// The dialect of a recording that begins with this text, which may end in the middle of a line. `None` if the text is not an
/// agent's output.
#[must_use]
pub fn recognize(opening: &str) -> Option<&'static dyn Dialect> {
    // Languages that an agent speaks over another transport.
    let others: &[&'static dyn Dialect] = &[
        &codex::CodexExec,
        #[cfg(feature = "acp")]
        &acp::COPILOT,
    ];
    all()
        .iter()
        .chain(others)
        .copied()
        .find(|dialect| dialect.recognizes(opening))
}

/// The dialect of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Dialect> {
    all().iter().copied().find(|dialect| dialect.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-4: the four of the document are among them.
    #[test]
    fn names_are_distinct_and_found() {
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
        assert!(find("nobody").is_none());
    }
}
