//! Programs behind a script on PATH, where an agent is started in more than one way.

/// Where Copilot's program itself is below what npm installs: the script on PATH does not pass signals on.
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
