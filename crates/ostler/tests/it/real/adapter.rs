//! Real agents as plain models.

/// Generates a test of each scene for each agent.
macro_rules! scenes {
    ($($agent:ident $subject:ident: $($scene:ident)*;)*) => {
        $(mod $agent {
            $(#[test]
            fn $scene() {
                let scene = crate::adapter::scenes::$scene(&ostler_testkit::scenario::$subject);
                crate::driver::runtime().block_on(scene);
            })*
        })*
    };
}

scenes! {
    claude CLAUDE: plain_text a_tool_block several_calls invalid_json native_calls two_native_calls
        an_own_tool too_late too_long missing in_a_loop in_a_loop_with_a_budget;
    codex CODEX: plain_text a_tool_block several_calls invalid_json native_calls two_native_calls
        an_own_command an_own_patch no_command too_late too_long missing
        in_a_loop in_a_loop_with_a_budget;
    codex_exec CODEX_EXEC: plain_text;
    gemini GEMINI: plain_text native_calls;
    opencode OPENCODE: plain_text;
    copilot COPILOT_ACP: plain_text;
}
