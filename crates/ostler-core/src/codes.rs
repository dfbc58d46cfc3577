//! Codes on which programs branch: of notices, refusals, requests, outcomes and failed starts.
//!
//! Each code is a snake_case string on the wire. A string that this version does not know becomes
//! `Other`, so that logs of newer versions can be read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Reads a code without copying the string, unless it is unknown.
struct CodeVisitor<T>(PhantomData<T>);

impl<T: for<'a> From<&'a str>> Visitor<'_> for CodeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(text.into())
    }
}

/// Declares enums of codes with their names on the wire.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $code:ident = $text:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $code,)*
            /// A name that this version does not define.
            Other(String),
        }

        impl $name {
            /// Every name that this version defines.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Returns the name on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$code => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$code,)*
                    _ => Self::Other(text.to_owned()),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(CodeVisitor(PhantomData))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    )*};
}

codes! {
    /// The code of a notice: one of Ostler's, or the agent's own.
    NoticeCode {
        /// The agent's process ended between two turns; the next message restarts it.
        AgentGone = "agent_gone",
        /// The agent printed information for its user.
        AgentInfo = "agent_info",
        /// A process of the session reported something through the daemon.
        AgentReport = "agent_report",
        /// The agent printed a warning for its user.
        AgentWarning = "agent_warning",
        /// A reply of the model failed, and the loop asks again.
        AnswerFailed = "answer_failed",
        /// The agent reported an error of its model API.
        ApiError = "api_error",
        /// The agent retries a call of its model API.
        ApiRetry = "api_retry",
        /// A process of the session tried to use the daemon that runs it, and was refused.
        ControlDenied = "control_denied",
        /// Background tasks did not end in time, or the agent exited before them.
        BackgroundCut = "background_cut",
        /// A program that leads to the caller's tools was disconnected.
        BridgeDropped = "bridge_dropped",
        /// A program that leads to the caller's tools was not admitted.
        BridgeRefused = "bridge_refused",
        /// Most of a budget is spent.
        BudgetNear = "budget_near",
        /// The agent compacted its conversation.
        Compacted = "compacted",
        /// Old messages could not be summarised.
        ContextNotSummarised = "context_not_summarised",
        /// Old tool results were shortened.
        ContextShortened = "context_shortened",
        /// Old messages were replaced by a summary, which is the raw value.
        ContextSummarised = "context_summarised",
        /// The agent rejected a control request.
        ControlError = "control_error",
        /// The agent sent a control request that cannot be answered.
        ControlMalformed = "control_malformed",
        /// The agent sent a control request that Ostler does not support.
        ControlUnsupported = "control_unsupported",
        /// The agent is in a mode in which it does not ask, although something is to decide.
        DoesNotAsk = "does_not_ask",
        /// The model replied with nothing.
        EmptyAnswer = "empty_answer",
        /// The agent was restarted without any memory of the session.
        FreshStart = "fresh_start",
        /// An agent opened no session while no turn was under way.
        HandshakeFailed = "handshake_failed",
        /// A hook returned a message for the model, which is the raw value.
        HookSaid = "hook_said",
        /// The agent printed information for its user.
        Informational = "informational",
        /// The agent added a message to the conversation by itself.
        Injected = "injected",
        /// The agent runs but does not read its input.
        InputLost = "input_lost",
        /// A line held invalid UTF-8.
        InvalidUtf8 = "invalid_utf8",
        /// The model is called once more.
        Iteration = "iteration",
        /// The agent ended a turn that was over already.
        LateResult = "late_result",
        /// A tool call got a second result, or one after its turn.
        LateToolResult = "late_tool_result",
        /// The session's events reached their limit.
        LogFull = "log_full",
        /// An MCP server of the agent did not start.
        McpServer = "mcp_server",
        /// The session was switched to a mode in which the agent asks.
        ModeChanged = "mode_changed",
        /// A call of the agent's model failed.
        ModelCallFailed = "model_call_failed",
        /// The model was changed on request.
        ModelChanged = "model_changed",
        /// The agent switched to another model by itself.
        ModelFallback = "model_fallback",
        /// A request for something that is never granted was left out.
        NeverGranted = "never_granted",
        /// The resumed session was written by a newer version of the agent.
        NewerTranscript = "newer_transcript",
        /// The agent cannot reach the caller's tools.
        NoBridge = "no_bridge",
        /// There is no `/proc`, so processes that leave their group cannot be found.
        NoProc = "no_proc",
        /// The reply does not contain the structured answer.
        NoStructuredAnswer = "no_structured_answer",
        /// The agent did not compact its conversation.
        NotCompacted = "not_compacted",
        /// The agent's output is not JSON, and is taken as text.
        NotJson = "not_json",
        /// The result failed verification.
        NotVerified = "not_verified",
        /// The agent is reached through another of its transports.
        OtherTransport = "other_transport",
        /// The answer was longer than the limit.
        OutputTruncated = "output_truncated",
        /// The agent reported work while no turn was under way.
        OutsideTurn = "outside_turn",
        /// The permission mode was changed on request.
        PermissionModeChanged = "permission_mode_changed",
        /// The agent's plan, which is the raw value.
        Plan = "plan",
        /// A tool ran although the policy does not allow it.
        PolicyBypass = "policy_bypass",
        /// A process did not end although it was killed.
        ProcessLeft = "process_left",
        /// Files that decide what runs later were changed, and restored.
        ProtectedFiles = "protected_files",
        /// A question of the agent was declined.
        QuestionDeclined = "question_declined",
        /// The state of the account's rate limit.
        RateLimit = "rate_limit",
        /// The stored raw output reached its limit.
        RawDropped = "raw_dropped",
        /// The raw log cannot be written.
        RawLogFailed = "raw_log_failed",
        /// The model's reasoning is encrypted.
        RedactedThinking = "redacted_thinking",
        /// The model refused the request.
        Refusal = "refusal",
        /// The session was resumed in another directory.
        ResumedElsewhere = "resumed_elsewhere",
        /// A model call is retried.
        Retrying = "retrying",
        /// The agent runs in a sandbox.
        Sandbox = "sandbox",
        /// Commands that the sandbox lets run.
        SandboxCommands = "sandbox_commands",
        /// A layer of the sandbox is missing.
        SandboxGap = "sandbox_gap",
        /// A sandbox policy opened something.
        SandboxPolicy = "sandbox_policy",
        /// The agent's own sandbox does not work.
        SandboxWarning = "sandbox_warning",
        /// The answer does not match the schema.
        SchemaNotKept = "schema_not_kept",
        /// The agent prints nothing before the end of a turn.
        SilentUntilDone = "silent_until_done",
        /// The agent did not add a message to the current turn.
        SteerDropped = "steer_dropped",
        /// A message that was added to the current turn failed.
        SteerFailed = "steer_failed",
        /// A message for the current turn is kept for the next one.
        SteerKept = "steer_kept",
        /// The messages for the current turn are in the next request.
        SteerTaken = "steer_taken",
        /// A message was added to the current turn; it is the notice's message.
        Steered = "steered",
        /// The turn is still in progress.
        StillWorking = "still_working",
        /// The agent printed a line that is not part of its protocol.
        StdoutNoise = "stdout_noise",
        /// The session cannot be stored.
        StoreFailed = "store_failed",
        /// Another process held the store's lock, and events were stored late.
        StoreDelayed = "store_delayed",
        /// A background task of the agent ended.
        TaskEnded = "task_ended",
        /// A background task of the agent started.
        TaskStarted = "task_started",
        /// A tool of the caller reports its progress.
        ToolProgress = "tool_progress",
        /// The agent has none of the caller's tools.
        ToolsUnreached = "tools_unreached",
        /// The tools that the agent used.
        ToolsUsed = "tools_used",
        /// The agent sent a message of an unknown kind.
        UnknownMessage = "unknown_message",
        /// The agent ended a turn for an unknown reason.
        UnknownStopReason = "unknown_stop_reason",
        /// The model does not report its usage.
        UsageMissing = "usage_missing",
        /// The result passed verification.
        Verified = "verified",
        /// The result is being verified.
        Verifying = "verifying",
        /// The agent starts in the next minute, because it would lose the session otherwise.
        WaitingToResume = "waiting_to_resume",
        /// The worker of a fleet that runs the session, or what went wrong between it and here.
        Worker = "worker",
        /// The agent runs commands in another directory than the session's.
        WorksElsewhere = "works_elsewhere",
        /// Requests of a workspace that is not trusted were left out.
        WorkspaceUntrusted = "workspace_untrusted",
    }

    /// Why a request was refused.
    RefusalCode {
        /// The session is ending.
        Ending = "ending",
        /// No turn is under way.
        NoTurn = "no_turn",
        /// A turn is under way.
        Busy = "busy",
        /// The agent does not support it.
        Unsupported = "unsupported",
        /// The agent rejected it.
        Rejected = "rejected",
        /// The agent did not reply in time.
        Timeout = "timeout",
        /// There is no such permission request or tool call.
        Unknown = "unknown",
        /// The permission request or tool call was decided before.
        Decided = "decided",
        /// A budget is used up.
        Budget = "budget",
    }

    /// A request of the caller.
    RequestKind {
        /// Send a message.
        Send = "send",
        /// Interrupt the turn.
        Interrupt = "interrupt",
        /// Answer a permission request.
        Answer = "answer",
        /// Change the model.
        SetModel = "set_model",
        /// Change the permission mode.
        SetPermissionMode = "set_permission_mode",
        /// Hold back messages.
        Pause = "pause",
        /// Suspend the agent's processes.
        Freeze = "freeze",
        /// Submit results of tools.
        SubmitToolResults = "submit_tool_results",
    }

    /// Why a turn or session ended, in more detail than its cause.
    Reason {
        /// The loop waits for the approval of tool calls.
        Approval = "approval",
        /// The prompt is too long for the model.
        ContextTooLong = "context_too_long",
        /// The loop reached its limit on cost.
        Cost = "cost",
        /// The daemon that ran the session ended without ending it.
        DaemonRestarted = "daemon_restarted",
        /// The directory of the session to resume does not exist.
        DirectoryGone = "directory_gone",
        /// The loop reached its limit on consecutive failed steps.
        Errors = "errors",
        /// A hook stopped the loop.
        Hook = "hook",
        /// The loop reached its limit on input tokens.
        InputTokens = "input_tokens",
        /// The model failed, and no limit of the loop was reached.
        Model = "model",
        /// The session to resume was written by a newer version of the agent.
        NewerTranscript = "newer_transcript",
        /// The session to resume belongs to another directory.
        OtherDirectory = "other_directory",
        /// The loop reached its limit on output tokens.
        OutputTokens = "output_tokens",
        /// An agent that serves as a model used its own tool.
        OwnTool = "own_tool",
        /// The loop waits for the answer to a question.
        Question = "question",
        /// The session to resume is in use.
        SessionInUse = "session_in_use",
        /// The loop reached its limit on tool calls.
        ToolCalls = "tool_calls",
        /// The session to resume does not exist.
        UnknownSession = "unknown_session",
        /// The worker that ran the session gave no sign of life for too long.
        WorkerLost = "worker_lost",
    }

    /// Why a process could not be started.
    SpawnFailure {
        /// There is no such program.
        Missing = "missing",
        /// The file is not executable.
        NotExecutable = "not_executable",
        /// The file is not a program for this machine.
        BadFormat = "bad_format",
        /// The working directory cannot be used.
        BadDirectory = "bad_directory",
        /// The command line or the environment is too long.
        TooLong = "too_long",
        /// The program did not start in time.
        TooSlow = "too_slow",
        /// The caller stopped the session before the program started.
        CalledOff = "called_off",
        /// The machine cannot enforce the sandbox.
        Unconfined = "unconfined",
        /// The circuit breaker is open.
        BreakerOpen = "breaker_open",
        /// Another error of the system, which is in the message.
        SystemError = "other",
    }
}

impl Default for RefusalCode {
    /// Returns the code of a refusal in a log that has none.
    fn default() -> Self {
        Self::Other(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Returns the names in the first column of every table with that heading.
    fn documented(heading: &str) -> Vec<String> {
        let page = include_str!("../../../docs/events.md");
        let begin = format!("| {heading} |");
        let mut rows = page.lines();
        let mut names = Vec::new();
        while rows.any(|line| line.starts_with(&begin)) {
            for row in rows.by_ref().skip(1).take_while(|row| row.starts_with('|')) {
                let cell = row.split('|').nth(1).unwrap_or_default();
                names.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
            }
        }
        names.sort();
        names
    }

    /// Checks that each name is read as its variant, and that the page lists each name once.
    fn check<T>(all: &[T], as_str: fn(&T) -> &str, documented: &[String])
    where
        T: for<'a> From<&'a str> + serde::Serialize + for<'de> Deserialize<'de> + PartialEq + Debug,
    {
        let mut names: Vec<&str> = all.iter().map(as_str).collect();
        for (code, name) in all.iter().zip(&names) {
            assert_eq!(T::from(name), *code);
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *code);
        }
        names.sort_unstable();
        assert_eq!(documented, names, "docs/events.md lists each code once");
    }

    #[test]
    fn the_page_of_events_lists_every_code_once() {
        check(NoticeCode::ALL, NoticeCode::as_str, &documented("code"));
        check(
            RefusalCode::ALL,
            RefusalCode::as_str,
            &documented("refusal"),
        );
        check(
            RequestKind::ALL,
            RequestKind::as_str,
            &documented("request"),
        );
        check(Reason::ALL, Reason::as_str, &documented("reason"));
        check(
            SpawnFailure::ALL,
            SpawnFailure::as_str,
            &documented("spawn"),
        );
    }

    #[test]
    fn a_name_of_a_newer_version_is_read_and_written_as_it_is() {
        let code: NoticeCode = serde_json::from_str("\"brand\\u005fnew\"").unwrap();
        assert_eq!(code, NoticeCode::Other("brand_new".into()));
        assert_eq!(serde_json::to_string(&code).unwrap(), "\"brand_new\"");
        assert_eq!(format!("{code:>10}"), " brand_new");
        assert_eq!("steered".parse(), Ok(NoticeCode::Steered));
    }
}
