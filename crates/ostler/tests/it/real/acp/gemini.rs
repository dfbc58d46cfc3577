//! The real Gemini CLI over ACP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_testkit::scenario::GEMINI;

super::smoke_tests! { GEMINI; text_and_usage asked_allowed_and_denied interrupted unauthorized unknown_session }

/// Its sessions are files that are named by the minute, and one that is loaded in its own minute is lost. P57.
#[test]
fn resumed_in_another_minute() {
    let another_minute = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_secs(61 - now.as_secs() % 60));
    };
    crate::driver::runtime().block_on(super::resumed_after(&GEMINI, another_minute));
}
