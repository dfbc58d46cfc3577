//! The library with the real Copilot CLI, against the scripted model on loopback.

use ostler_testkit::scenario::COPILOT;
use ostler_testkit::shared_scenarios;

use crate::driver::Library;

shared_scenarios!(Library(&COPILOT));
