//! What agents do differently although they speak the same protocol: data, each with its name.
//!
//! The numbers are those of the list of differences that was measured; the page `docs/agents/acp.md` shows who has which.

/// How one agent differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quirks {
    /// 1. How a failure of the model's service shows.
    pub(crate) failures: Failures,
    /// 2. What the counters of a turn's end cover.
    pub(crate) counts: Counts,
    /// 2. Whether cached tokens are a part of the input, and thoughts of the output, where the sum does not tell.
    pub(crate) inside: bool,
    /// 2. Whether it tells what came from caches; if not, they are a part of the input.
    pub(crate) caches: bool,
    /// 2. Whether what it says about money is the cost of the session so far.
    pub(crate) money: bool,
    /// 3. Where the name of a tool is.
    pub(crate) names: Names,
    /// 3. What a tool of a kind is called that has no name yet: kinds, each with the name.
    pub(crate) kind_names: &'static [(&'static str, &'static str)],
    /// 3. A tool call is announced before its arguments are known; they come with the next word about it.
    pub(crate) input_follows: bool,
    /// 3. Arguments are not told; the title of a call that runs a command is that command.
    pub(crate) title_is_command: bool,
    /// 3. What a call is said to have given before it is over describes it, and one that was cancelled is called completed.
    pub(crate) describes_calls: bool,
    /// 3. The content of a call's result is dressed up for a screen; as it was, it is the raw output.
    pub(crate) dresses_outputs: bool,
    /// 3. A call by this name is of no tool: the agent makes the conversation shorter.
    pub(crate) compacts_as: Option<&'static str>,
    /// 3. What a command printed is in the raw output; elsewhere it is wrapped in words for the model.
    pub(crate) prints_raw: bool,
    /// 3. Of several answers that allow once, these are meant.
    pub(crate) allow_ids: &'static [&'static str],
    /// 4. A turn that was cancelled is said to have ended well.
    pub(crate) ends_cancelled: bool,
    /// 5. The history of a loaded session can still come after the answer to the load.
    pub(crate) replay_trails: bool,
    /// 5. `session/resume` knows only what this very process has opened; `session/load` knows every session.
    pub(crate) resumes_own: bool,
    /// Where it works whatever directory the session has, in words; it is told.
    pub(crate) works_in: Option<&'static str>,
    /// What comes as text although it is only the echo of a change of the mode begins with this.
    pub(crate) mode_echo: Option<&'static str>,
    /// 1. What comes with a message id that is a UUID are the program's own words: those of an error, if one follows.
    pub(crate) own_ids: bool,
    /// 1. What comes without a message id are the program's own words: a warning, or those of its failure.
    pub(crate) unnamed_words: bool,
    /// What stands before a thought that has no heading.
    pub(crate) thought_head: &'static str,
    /// Each chunk repeats the whole message so far.
    pub(crate) cumulative_text: bool,
    /// It takes a tool's text that is JSON for a structured result, and fails when that is no object.
    pub(crate) reads_json: bool,
    /// The `_meta` of the caller's tools, as JSON.
    pub(crate) tool_meta: Option<&'static str>,
    /// 6. Every error means an unreadable file to it, so that it would create none: a missing file reads as empty.
    pub(crate) missing_reads_empty: bool,
    /// 7. Requests and notifications of its own that change nothing here; a request it can do without.
    pub(crate) declined: &'static [&'static str],
    /// What the names of bound tools look like, `{}` standing for the caller's.
    pub(crate) bound_names: &'static [&'static str],
}

/// How a failure of the model's service shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failures {
    /// As an error of the request.
    Errors,
    /// As the last text of a turn that ends well.
    Text(Wrote),
    /// As a turn that ends well and without a word.
    Silence,
}

/// What an agent writes in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrote {
    /// What it begins with.
    pub(crate) head: &'static str,
    /// What it ends with, if that is always the same: then it can also come after an answer.
    pub(crate) tail: &'static str,
    /// What only the agent itself begins with.
    pub(crate) certain: &'static str,
}

/// What the counters of a turn's end cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The turn.
    Turn,
    /// The session, since the process began.
    Session,
    /// Only the last call of the model: the turn, if there was no other.
    LastRequest,
    /// Each call of the model, in the notes on a piece of text; the turn is their sum.
    Chunks,
    /// The turn, in `_meta.quota`.
    Quota,
    /// Nobody knows.
    Unknown,
}

impl Counts {
    /// Whether every token of a turn is counted.
    pub(crate) const fn is_whole(self) -> bool {
        !matches!(self, Self::LastRequest | Self::Unknown)
    }
}

/// Where the name of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Nowhere: what kind of tool it is has to do.
    Kind,
    /// In the notes on the call; a question may leave it out.
    Notes,
    /// In the first title.
    Title,
    /// In the id of the call, up to two underscores.
    CallId,
}

/// An agent of which nothing is known but that it speaks ACP.
pub(crate) const PLAIN: Quirks = Quirks {
    failures: Failures::Errors,
    counts: Counts::Unknown,
    inside: true,
    caches: true,
    money: true,
    names: Names::Kind,
    kind_names: &[],
    input_follows: false,
    title_is_command: false,
    describes_calls: false,
    dresses_outputs: false,
    compacts_as: None,
    prints_raw: false,
    allow_ids: &[],
    ends_cancelled: false,
    replay_trails: false,
    resumes_own: false,
    works_in: None,
    mode_echo: None,
    own_ids: false,
    unnamed_words: false,
    thought_head: "",
    cumulative_text: false,
    reads_json: false,
    tool_meta: None,
    missing_reads_empty: false,
    declined: &[],
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
