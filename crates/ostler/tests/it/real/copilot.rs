//! The library with the real Copilot CLI, one process per turn: it has no row for interrupts,
//! because they end the process.

use ostler_testkit::scenario::COPILOT;

use crate::driver::Library;

ostler_testkit::tests_of_scenarios! { Library(&COPILOT);
    endings::interrupted_at_once endings::interrupted_in_a_tool
}
