//! Arguments of `ostler acp`.

use clap::Args;

use super::StartArgs;

const ACP_HELP: &str = "\
This command is meant to be started by an editor, which talks to it over stdin and stdout. The \
editor chooses each session's directory and MCP servers; the flags given here apply to all \
sessions. Diagnostics go to stderr.

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

See docs/acp-server.md for what is supported.

Exit codes: 0 the editor closed stdin or stdout, 2 bad usage, 130 interrupted, 143 terminated.";

/// Ids of the flags that `AcpArgs::misplaced` rejects.
const PER_SESSION: [&str; 5] = ["dir", "continue_latest", "resume", "session_id", "fork"];

fn hide_per_session(arg: clap::Arg) -> clap::Arg {
    let is_rejected = PER_SESSION.contains(&arg.get_id().as_str());
    if is_rejected { arg.hide(true) } else { arg }
}

#[derive(Debug, Args)]
#[command(after_help = ACP_HELP)]
#[command(mut_args(hide_per_session))]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

impl AcpArgs {
    /// Returns the first flag that the editor decides per session, if one was given.
    pub(crate) fn misplaced(&self) -> Option<&'static str> {
        let (start, settings) = (&self.start, &self.start.agent_settings);
        let given = [
            ("--dir", start.dir.is_some()),
            ("--continue", start.continue_latest),
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
