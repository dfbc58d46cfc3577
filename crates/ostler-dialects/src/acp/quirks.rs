//! Quirks: deviations of agents that speak the same protocol, as named data.
//!
//! The numbers refer to the list of measured differences; `docs/agents/acp.md` shows which agent
//! has which.

/// Deviations of one agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quirks {
    /// 1. How failures of the model API appear.
    pub(crate) failures: FailureStyle,
    /// 2. What the token counts at the end of a turn cover.
    pub(crate) counts: CountScope,
    /// 2. Whether the input count includes cached tokens, and the output count thoughts, if the
    ///    total does not settle it.
    pub(crate) counts_overlap: bool,
    /// 2. Whether it reports cached tokens. If not, they are part of the input.
    pub(crate) reports_caches: bool,
    /// 2. Whether the cost it reports is that of the session so far.
    pub(crate) reports_cost: bool,
    /// 3. Where the name of a tool is.
    pub(crate) names: NameSource,
    /// 3. Names of tools without a reported name, by kind.
    pub(crate) kind_names: &'static [(&'static str, &'static str)],
    /// 3. Tool calls are announced before their arguments are known; these follow with the next
    ///    update.
    pub(crate) input_follows: bool,
    /// 3. Arguments are not reported; the title of a call that runs a command is that command.
    pub(crate) title_is_command: bool,
    /// 3. Content before the end of a call describes the call, and cancelled calls are reported as
    ///    completed.
    pub(crate) describes_calls: bool,
    /// 3. The content of a result is formatted for display; the raw output has it unchanged.
    pub(crate) formats_outputs: bool,
    /// 3. Calls with this name are not tool calls but compactions of the conversation.
    pub(crate) compacts_as: Option<&'static str>,
    /// 3. The raw output is what a command printed; the content wraps it in text for the model.
    pub(crate) raw_output_is_stdout: bool,
    /// 3. Ids of the options to prefer among several that allow once.
    pub(crate) allow_ids: &'static [&'static str],
    /// 4. Cancelled turns are reported as successful.
    pub(crate) cancel_ends_successfully: bool,
    /// 5. The history of a loaded session can continue after the response to the load.
    pub(crate) replay_trails: bool,
    /// 5. `session/resume` finds only sessions opened by the same process; `session/load` finds
    ///    all.
    pub(crate) resumes_same_process_only: bool,
    /// Where it works regardless of the session's directory, in words for a notice.
    pub(crate) fixed_workspace: Option<&'static str>,
    /// Prefix of text that merely echoes a change of mode.
    pub(crate) mode_echo: Option<&'static str>,
    /// 1. Text whose message id is a UUID comes from the program itself: an error text, if an error
    ///    follows.
    pub(crate) uuid_marks_own_text: bool,
    /// 1. Text without a message id comes from the program itself: a warning, or the reason of its
    ///    failure.
    pub(crate) missing_id_marks_own_text: bool,
    /// Prefix of thoughts without a heading.
    pub(crate) thought_prefix: &'static str,
    /// Each chunk repeats the whole message so far.
    pub(crate) cumulative_text: bool,
    /// It parses a tool's text that is JSON as a structured result, and fails if that is not an
    /// object.
    pub(crate) reads_json: bool,
    /// `_meta` of the caller's tools, as JSON.
    pub(crate) tool_meta: Option<&'static str>,
    /// 6. It takes every error for an unreadable file and would never create one, so a missing file
    ///    reads as empty.
    pub(crate) missing_reads_empty: bool,
    /// 7. Its own requests and notifications that can be ignored. It can do without the requests.
    pub(crate) ignored_methods: &'static [&'static str],
    /// Patterns of its names for bound tools; `{}` stands for the caller's name.
    pub(crate) bound_names: &'static [&'static str],
}

/// How failures of the model API appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureStyle {
    /// As an error response.
    Errors,
    /// As the last text of a turn reported as successful.
    Text(ErrorText),
    /// As a turn reported as successful, without any text.
    Silence,
}

/// Text that an agent writes in place of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorText {
    /// Prefix.
    pub(crate) prefix: &'static str,
    /// Suffix, if it is always the same: then the text can also follow a reply.
    pub(crate) suffix: &'static str,
    /// Prefix that only the agent itself writes.
    pub(crate) certain_prefix: &'static str,
}

/// What the token counts at the end of a turn cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountScope {
    /// The turn.
    Turn,
    /// The session, since the process began.
    Session,
    /// Only the last model call: the turn, if there was no other.
    LastRequest,
    /// Each model call, in the `_meta` of a text chunk; the turn is their sum.
    Chunks,
    /// The turn, in `_meta.quota`.
    Quota,
    /// Unknown.
    Unknown,
}

impl CountScope {
    /// Returns true if every token of a turn is counted.
    pub(crate) const fn is_whole(self) -> bool {
        !matches!(self, Self::LastRequest | Self::Unknown)
    }
}

/// Where the name of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameSource {
    /// Nowhere: the tool's kind has to do.
    ValueKind,
    /// In the `_meta` of the call; a permission request may omit it.
    Meta,
    /// In the first title.
    Title,
    /// In the id of the call, up to two underscores.
    CallId,
}

/// Quirks assumed for an agent that is only known to speak ACP.
pub(crate) const DEFAULT_QUIRKS: Quirks = Quirks {
    failures: FailureStyle::Errors,
    counts: CountScope::Unknown,
    counts_overlap: true,
    reports_caches: true,
    reports_cost: true,
    names: NameSource::ValueKind,
    kind_names: &[],
    input_follows: false,
    title_is_command: false,
    describes_calls: false,
    formats_outputs: false,
    compacts_as: None,
    raw_output_is_stdout: false,
    allow_ids: &[],
    cancel_ends_successfully: false,
    replay_trails: false,
    resumes_same_process_only: false,
    fixed_workspace: None,
    mode_echo: None,
    uuid_marks_own_text: false,
    missing_id_marks_own_text: false,
    thought_prefix: "",
    cumulative_text: false,
    reads_json: false,
    tool_meta: None,
    missing_reads_empty: false,
    ignored_methods: &[],
    bound_names: &[
        "ostler_{}",
        "ostler__{}",
        "ostler-{}",
        "mcp__ostler__{}",
        "mcp_ostler_{}",
        "ostler/{}",
        "{} (ostler MCP Server)",
    ],
};
