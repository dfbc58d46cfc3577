//! The real Gemini CLI over ACP.

use ostler_testkit::scenario::GEMINI;

super::smoke_tests! { GEMINI; text_and_usage asked_allowed_and_denied interrupted unauthorized unknown_session }

/// Its sessions are files that are named by the minute, and one that is loaded in its own minute is lost: it is waited. P57.
#[test]
fn resumed_at_once() {
    crate::driver::runtime().block_on(super::resumed(&GEMINI));
}
