//! Native executables behind the launcher scripts on PATH, for agents that are launched in more
//! than one way.

/// Paths of Copilot's executable below the package that npm installs. The script on PATH does not
/// forward signals.
pub(crate) const COPILOT: &[&str] = &[
    "../copilot-linux-x64/copilot",
    "../copilot-linux-arm64/copilot",
    "../copilot-darwin-arm64/copilot",
    "../copilot-darwin-x64/copilot",
    "node_modules/@github/copilot-linux-x64/copilot",
    "node_modules/@github/copilot-linux-arm64/copilot",
    "node_modules/@github/copilot-darwin-arm64/copilot",
    "node_modules/@github/copilot-darwin-x64/copilot",
];
