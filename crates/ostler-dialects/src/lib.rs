//! Agent dialects: one folder per agent, each a pure translation between an agent's protocol and
//! Ostler's events.
//!
//! Nothing here starts a process, opens a file or reads a clock. A [`Dialect`] describes the
//! command to launch and creates a conversation; the conversation turns lines into events and
//! requests into bytes. To add an agent, add a folder and one line to [`all`].

mod extra;
mod inherits;
mod natives;
mod json_lines;
mod jsonrpc;
mod turn_process;
mod blame;
mod structured;
mod tools;
mod permissions;
mod settings;
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
pub mod pi;
pub mod tool_loop;
pub mod scripted;

use ostler_core::dialect::Dialect;
use ostler_core::{http_status, lenient, surrogates};

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
        &pi::Pi,
        &openai::OpenAi,
        &scripted::Scripted,
        &tool_loop::ToolLoop,
        &mock::Mock,
    ];
    ALL
}

/// Returns the paths where the agents store settings, credentials and sessions
/// ([`Launch::state`](ostler_core::dialect::Launch::state)). Unlike [`all`], it does not make the
/// program contain every dialect.
pub fn state_paths() -> impl Iterator<Item = &'static str> {
    static PATHS: &[&[&str]] = &[
        claude::STATE,
        codex::STATE,
        copilot::STATE,
        #[cfg(feature = "acp")]
        acp::GEMINI.0.state,
        #[cfg(feature = "acp")]
        acp::OPENCODE.0.state,
        openclaw::STATE,
        #[cfg(feature = "acp")]
        acp::QWEN.0.state,
        #[cfg(feature = "acp")]
        acp::GOOSE.0.state,
        #[cfg(feature = "acp")]
        acp::CLAUDE_AGENT_ACP.0.state,
        #[cfg(feature = "acp")]
        acp::CODEX_ACP.0.state,
        pi::STATE,
    ];
    PATHS.iter().copied().flatten().copied()
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
        .find(|dialect| (dialect.about().recognizes)(opening))
}

/// Returns the dialect with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Dialect> {
    all()
        .iter()
        .copied()
        .find(|dialect| dialect.about().name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ostler_core::dialect::Launching;
    use ostler_core::spec::Spec;

    use super::*;

    // S2-4: includes the four agents that the requirement names.
    #[test]
    fn names_are_unique_and_found() {
        for name in ["claude", "openclaw", "codex", "openai-api"] {
            assert!(find(name).is_some(), "{name}");
        }
        for dialect in all() {
            let name = dialect.about().name;
            assert_eq!(find(name).map(|found| found.about().name), Some(name));
        }
        let names: BTreeSet<&str> = all().iter().map(|dialect| dialect.about().name).collect();
        assert_eq!(names.len(), all().len());
        assert_eq!(find("gemini").is_some(), cfg!(feature = "acp"));
        assert!(find("no-such-agent").is_none());
    }

    #[test]
    fn state_paths_are_those_of_all_dialects() {
        let (spec, mut launched) = (Spec::default(), BTreeSet::new());
        for dialect in all() {
            if let Ok(launch) = dialect.launch(&Launching::new(&spec)) {
                launched.extend(launch.state.iter().copied());
            }
        }
        assert_eq!(state_paths().collect::<BTreeSet<_>>(), launched);
    }
}
