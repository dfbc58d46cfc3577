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
                    big_prompt: "Codex takes no message of more than 1,048,576 characters"
                ]
            }
            {
                real codex_exec CODEX_EXEC "JSON lines on stdout (`codex exec`), a process for each message"
                [
                    deltas: "codex exec tells a message when it is complete"
                    denied_tool: "codex exec says nothing about a call that it denies"
                    permission_asked: "codex exec asks nobody"
                    interrupt: "codex exec ends with the message, and takes no interrupt"
                    bound_tool: "codex exec takes no functions of the caller's"
                    big_prompt: "Codex takes no message of more than 1,048,576 characters"
                ]
            }
            {
                real copilot COPILOT "JSON lines on stdout, a process per turn"
                [
                    permission_asked: "it can ask nobody: what is not allowed is denied (over ACP it asks)"
                    structured_output: "it takes no schema for its answer"
                    interrupt: "a process per turn takes no interrupt that the session outlives"
                    fork: "it can go on with a session, but has no copies of one"
                    bound_tool: "it takes functions of the caller's only over ACP"
                ]
            }
            {
                heavy openclaw OPENCLAW "one JSON document at the end (`openclaw agent exec`), a process per turn"
                [
                    deltas: "it says nothing until it is done"
                    thinking: "its document has no thoughts"
                    tool: "its tools run, but it only counts them"
                    denied_tool: "it does not tell what it does not allow"
                    permission_asked: "it asks nobody"
                    two_tools: "its tools run, but it only counts them"
                    structured_output: "it takes no schema for its answer"
                    interrupt: "a process per turn takes no interrupt that the session outlives"
                    resume: "each run is a session of its own, also in the same state directory"
                    fork: "each run is a session of its own, also in the same state directory"
                    bound_tool: "it takes no functions of the caller's"
                    big_prompt: "OpenClaw takes no prompt of more than 4,194,304 bytes"
                ]
            }
            {
                real gemini GEMINI "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    fork: "over ACP it makes no copies of sessions"
                    big_prompt: "it refuses a prompt that it takes for more than a million tokens, whatever the model"
                ]
            }
            {
                real opencode OPENCODE "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    usage_exact: "it counts the last call of the model only, so that a turn with tools has no numbers"
                ]
            }
            {
                real copilot_acp COPILOT_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    fork: "over ACP it makes no copies of sessions"
                ]
            }
            {
                heavy qwen QWEN "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    fork: "over ACP it makes no copies of sessions"
                ]
            }
            {
                heavy goose GOOSE "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    usage_exact: "it counts the last call of the model only, so that a turn with tools has no numbers"
                    fork: "over ACP it makes no copies of sessions"
                ]
            }
            {
                heavy claude_agent_acp CLAUDE_AGENT_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                ]
            }
            {
                heavy codex_acp CODEX_ACP "ACP: JSON-RPC lines on stdin and stdout"
                [
                    structured_output: "the protocol, ACP, has no answers by a schema"
                    big_prompt: "Codex takes no message of more than 1,048,576 characters"
                ]
            }
            {
                own openai_api OPENAI_API "HTTP: chat completions"
                [
                    died: "it is a part of Ostler: there is no process that could die"
                ]
            }
        }
    };
    (each table $({ $group:ident $id:ident $subject:ident $transport:literal [$($row:ident: $why:literal)*] })*) => {
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
