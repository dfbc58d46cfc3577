//! The real Gemini CLI over ACP.

use ostler_testkit::scenario::GEMINI;

super::smoke_tests! { GEMINI;
    text_and_usage asked_allowed_and_denied interrupted
    unauthorized unknown_session
}

/// Session files are named by the minute, and a session loaded within the minute it was created is
/// lost. Ostler waits. P57.
#[test]
fn resumed_at_once() {
    crate::driver::runtime().block_on(super::resumed(&GEMINI));
}
