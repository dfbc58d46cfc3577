//! Members of the suite. To add an agent, add an entry here and record it (CONTRIBUTING.md).

/// Invokes a macro for each agent or, as `table`, builds a list of all.
///
/// An entry has a group (`own`: part of Ostler, `real`: with the real agents, `heavy`: only with
/// `--all-agents`), its name in the suite, its subject in the testkit, its dialect, and the rows
/// that it lacks, each with the reason.
macro_rules! members {
    ($wanted:ident) => {
        $crate::conformance::members! { each $wanted
            {
                real claude CLAUDE "JSON lines on stdin and stdout, with control messages"
                []
            }
            {
                real codex CODEX "JSON-RPC on stdin and stdout (`codex app-server`)"
                [
                    big_prompt: "Codex accepts no message of more than 1,048,576 characters"
                ]
            }
            {
                real codex_exec CODEX_EXEC "JSON lines on stdout (`codex exec`), a process for each message"
                [
                    deltas: "codex exec prints a message only when it is complete"
                    denied_tool: "codex exec does not report a call that it denies"
                    permission_asked: "codex exec never asks for permission"
                    interrupt: "codex exec exits after the message, and accepts no interrupt"
                    bound_tool: "codex exec supports no tools of the caller"
                    big_prompt: "Codex accepts no message of more than 1,048,576 characters"
                ]
            }
            {
                real copilot COPILOT "JSON lines on stdout, a process per turn"
                [
                    permission_asked: "it cannot ask: calls that are not allowed are denied (over ACP it asks)"
                    structured_output: "it accepts no schema for its answer"
                    interrupt: "with one process per turn, an interrupt ends the process"
                    fork: "it can resume a session, but not fork one"
                    bound_tool: "it supports tools of the caller only over ACP"
                ]
            }
            {
                heavy openclaw OPENCLAW "one JSON document at the end (`openclaw agent exec`), a process per turn"
                [
                    deltas: "it prints nothing until it is done"
                    thinking: "its document has no thinking"
                    tool: "its tools run, but it only counts them"
                    denied_tool: "it does not report denied calls"
                    permission_asked: "it never asks for permission"
                    two_tools: "its tools run, but it only counts them"
                    structured_output: "it accepts no schema for its answer"
                    interrupt: "with one process per turn, an interrupt ends the process"
                    resume: "each run is a new session, even in the same state directory"
                    fork: "each run is a new session, even in the same state directory"
                    bound_tool: "it supports no tools of the caller"
                    big_prompt: "OpenClaw accepts no prompt of more than 4,194,304 bytes"
                ]
            }
            {
                real gemini GEMINI "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    fork: "it cannot fork sessions over ACP"
                    big_prompt: "it refuses a prompt that it estimates at more than a million tokens, whatever the model"
                ]
            }
            {
                real opencode OPENCODE "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    usage_exact: "it counts only the last model call, so a turn with tools has no usage"
                ]
            }
            {
                real copilot_acp COPILOT_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    fork: "it cannot fork sessions over ACP"
                ]
            }
            {
                heavy qwen QWEN "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    fork: "it cannot fork sessions over ACP"
                ]
            }
            {
                heavy goose GOOSE "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    usage_exact: "it counts only the last model call, so a turn with tools has no usage"
                    fork: "it cannot fork sessions over ACP"
                ]
            }
            {
                heavy claude_agent_acp CLAUDE_AGENT_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                ]
            }
            {
                heavy codex_acp CODEX_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "ACP has no structured output"
                    big_prompt: "Codex accepts no message of more than 1,048,576 characters"
                ]
            }
            {
                own openai_api OPENAI_API "HTTP: chat completions"
                [
                    died: "it is part of Ostler: there is no process that could die"
                ]
            }
        }
    };
    (each table $({
        $group:ident $id:ident $subject:ident $transport:literal
        [$($row:ident: $why:literal)*]
    })*) => {
        &[$(ostler_testkit::scenario::conformance::Member {
            id: stringify!($id),
            subject: &ostler_testkit::scenario::$subject,
            transport: $transport,
            group: $crate::conformance::members!(group $group),
            lacks: &[$((stringify!($row), $why)),*],
        }),*]
    };
    (each $wanted:ident $({ $($entry:tt)* })*) => {
        $($crate::conformance::member_tests! { $wanted $($entry)* })*
    };
    (group own) => { ostler_testkit::scenario::conformance::Group::Own };
    (group real) => { ostler_testkit::scenario::conformance::Group::Real };
    (group heavy) => { ostler_testkit::scenario::conformance::Group::Heavy };
}

pub(crate) use members;
