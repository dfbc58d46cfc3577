//! What can be typed to serve an agent to an editor.

use clap::Args;

use super::StartArgs;

const ACP_HELP: &str = "\
An editor starts this program and talks to it over stdin and stdout; nobody types it. The editor says where each session works and which MCP servers it has; what is given here holds for all sessions. Messages about what is going on go to stderr.

In Zed (settings.json):
  \"agent_servers\": {
    \"Claude by Ostler\": {
      \"command\": \"ostler\",
      \"args\": [\"acp\", \"--agent\", \"claude\"],
      \"env\": {}
    }
  }

Examples:
  ostler acp --agent claude --permissions workspace
  ostler acp --agent openai-api --model gpt-5.2
  ostler acp --agent scripted

docs/acp-server.md describes what is passed on and what is not. Exit codes: 0 the editor closed stdin or stdout, 2 bad usage, 130 interrupted, 143 terminated.";

#[derive(Debug, Args)]
#[command(after_help = ACP_HELP)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

impl AcpArgs {
    /// The first flag that is for the editor to say, session by session.
    pub(crate) fn misplaced(&self) -> Option<&'static str> {
        let (start, settings) = (&self.start, &self.start.agent_settings);
        let given = [
            ("--dir", start.dir.is_some()),
            ("--continue", start.go_on),
            ("--resume", settings.resume.is_some()),
            ("--session-id", settings.session_id.is_some()),
            ("--fork", settings.fork),
        ];
        given
            .into_iter()
            .find(|(_, is_given)| *is_given)
            .map(|(flag, _)| flag)
    }
}
