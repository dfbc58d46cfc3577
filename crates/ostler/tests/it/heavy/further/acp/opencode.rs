//! The real opencode over ACP.

use ostler_testkit::scenario::OPENCODE;

super::smoke_tests! { OPENCODE;
    text_and_usage asked_allowed_and_denied interrupted
    unauthorized resumed unknown_session
}
