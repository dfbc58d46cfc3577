//! The real Copilot CLI over ACP.

use ostler_testkit::scenario::COPILOT_ACP;

super::smoke_tests! { COPILOT_ACP;
    text_and_usage asked_allowed_and_denied interrupted
    unauthorized resumed unknown_session
}
