//! One folder per agent: pure translation between an agent's words and Ostler's events.
//!
//! Nothing here starts a process, opens a file or reads a clock. A [`Dialect`] says what to start and opens a
//! conversation; the conversation turns lines into events and requests into bytes. To add an agent, add a folder and one
//! line to [`all`].

mod extra;
mod inherits;
mod lenient;
mod surrogates;
mod settings;
mod service;
mod mcp;

pub mod acp;
pub mod claude;
pub mod codex;
pub mod copilot;
pub mod mock;
pub mod openai;
pub mod openclaw;
pub mod outer;
pub mod plain;
pub mod scripted;

use ostler_core::dialect::Dialect;

/// Every dialect, in the order in which agents are looked for.
#[must_use]
pub fn all() -> &'static [&'static dyn Dialect] {
    static ALL: [&dyn Dialect; 14] = [
        &claude::Claude,
        &codex::Codex,
        &copilot::Copilot,
        &acp::GEMINI,
        &acp::OPENCODE,
        &openclaw::OpenClaw,
        &acp::QWEN,
        &acp::GOOSE,
        &acp::CLAUDE_AGENT_ACP,
        &acp::CODEX_ACP,
        &openai::OpenAi,
        &scripted::Scripted,
        &outer::Outer,
        &mock::Mock,
    ];
    &ALL
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
            assert_eq!(find(dialect.name()).map(Dialect::name), Some(dialect.name()));
        }
        assert_eq!(all().len(), 14);
        assert!(find("nobody").is_none());
    }
}
