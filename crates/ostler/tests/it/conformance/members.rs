//! Who is in the suite: to add an agent is to add an entry here, and to record it (CONTRIBUTING.md).

/// Calls for each agent, or, as `table`, makes a list of all.
///
/// An entry is its group (`own`: a part of Ostler, `real`: with the real agents, `heavy`: only with `--all-agents`), its name
/// in the suite, its subject in the testkit, how it is spoken with, and the rows that it lacks, each with the reason.
macro_rules! members {
    ($wanted:ident) => {
        $crate::conformance::members! { each $wanted
            {
                real claude CLAUDE "JSON lines on stdin and stdout, with control messages"
                []
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
                own openai_api OPENAI_API "HTTP: chat completions"
                [
                    died: "it is a part of Ostler: there is no process that could die"
                    env: "its commands get an environment of their own, which a variable of the session does not reach"
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
