//! The library with the real Codex, against the scripted model on loopback.

use ostler_testkit::scenario::{CODEX, CODEX_EXEC};

use crate::driver::Library;

mod app_server {
    use super::*;

    ostler_testkit::shared_scenarios!(Library(&CODEX));
    crate::sessions::live_scenarios!(ostler_testkit::scenario::CODEX);
}

mod exec {
    use super::*;

    ostler_testkit::shared_scenarios!(Library(&CODEX_EXEC));
}
