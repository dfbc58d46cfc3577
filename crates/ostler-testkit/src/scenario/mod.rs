//! Scenarios: behaviour of an agent, written once and run through both the library and the
//! program.
//!
//! A scenario is a function that takes a [`Driver`], which knows the [`Subject`] under test. The
//! two test crates provide a driver each. [`crate::shared_scenarios`] generates a test for each
//! scenario that every agent passes; [`crate::every_scenario`] also for those that only Claude
//! Code supports, so that none is forgotten. Events are compared as JSON: library and program have
//! it in common, and it is what users see.

pub mod api;
pub mod conformance;
pub mod endings;
pub mod prompts;
pub mod sessions;
pub mod surroundings;
pub mod tools;
pub mod output;

mod test_env;
mod progress;
pub mod preset;
mod observed;
mod subject;
mod event_story;

use std::sync::LazyLock;
use std::time::Duration;

pub use observed::Observed;
pub use ostler_agents::{Group, KEY};
pub use progress::Progress;
pub use subject::{
    ExpectedHints, LongPrompts, Numbers, Pairs, Quirks, Subject, SubjectSettings, Tools, Variables,
};
pub use test_env::{Signal, TestEnv, signal};

use crate::machine::{self, Need};
use crate::model::Script;
use crate::processes::marked;

include!(concat!(env!("OUT_DIR"), "/subjects.rs"));

/// Content of a file in the working directory that must never be read.
pub const SECRET: &str = "a-secret-of-the-testkit";

/// Timeout for conditions that should hold soon. Generous: a busy machine is not a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A task in terms that the library's spec and the program's arguments share.
#[derive(Debug, Clone)]
pub struct Task {
    /// The prompt.
    pub prompt: String,
    /// Settings by key, such as `model`; a key can occur several times.
    settings: Vec<(&'static str, String)>,
    /// Whether every tool may run.
    trusting: bool,
    /// Variables added to the agent's environment.
    pub env: Vec<(&'static str, String)>,
    /// Time limit of the turn.
    pub wall: Duration,
    /// Idle limit.
    pub idle: Duration,
    /// Whether a turn with a denied tool call can still succeed.
    pub tolerate_denials: bool,
}

impl Task {
    /// Creates a task with only a prompt.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            settings: Vec::new(),
            trusting: false,
            env: Vec::new(),
            wall: PATIENCE * 2,
            idle: PATIENCE,
            tolerate_denials: false,
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn set(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((key, value.into()));
        self
    }

    /// Adds settings of a subject.
    #[must_use]
    pub fn with(self, settings: &'static Pairs) -> Self {
        settings
            .iter()
            .fold(self, |task, (key, value)| task.set(key, value))
    }

    /// Allows every tool to run.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.trusting = true;
        self
    }

    /// Returns the settings for an agent.
    #[must_use]
    pub fn settings_for(&self, subject: &'static Subject) -> Vec<(&'static str, String)> {
        let trust = subject.settings.trust.iter().filter(|_| self.trusting);
        let own = subject
            .settings
            .always
            .iter()
            .chain(trust)
            .map(|(key, value)| (key.as_str(), value.clone()));
        self.settings.iter().cloned().chain(own).collect()
    }

    /// Adds a variable to the agent's environment.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Limits the turn's time.
    #[must_use]
    pub fn wall(mut self, limit: Duration) -> Self {
        self.wall = limit;
        self
    }

    /// Limits the agent's idle time.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = limit;
        self
    }
}

/// A way to run a task with an agent.
pub trait Driver {
    /// Returns the agent under test.
    fn subject(&self) -> &'static Subject;

    /// Runs a task to its end, with `meanwhile` on another thread.
    fn run(
        &self,
        env: &TestEnv,
        task: &Task,
        meanwhile: &(dyn Fn(&dyn Running) + Sync),
    ) -> Observed;
}

impl dyn Driver + '_ {
    /// Creates a test environment for the agent in which the model follows `script`.
    #[must_use]
    pub fn test_env(&self, script: Script) -> TestEnv {
        TestEnv::new(self.subject(), script)
    }
}

/// A run in progress.
pub trait Running {
    /// Waits until the run has emitted an event of this kind.
    fn wait_for(&self, kind: &str);

    /// Interrupts the turn, as Ctrl-C does.
    fn interrupt(&self);

    /// Stops the session gracefully, as SIGTERM does.
    fn stop(&self);
}

/// Runs a task and checks what holds for every run: a valid stream, and nothing left behind.
pub fn run(driver: &dyn Driver, env: &TestEnv, task: &Task) -> Observed {
    run_with(driver, env, task, &|_| ())
}

/// The same, with `meanwhile` running concurrently.
pub fn run_with(
    driver: &dyn Driver,
    env: &TestEnv,
    task: &Task,
    meanwhile: &(dyn Fn(&dyn Running) + Sync),
) -> Observed {
    let seen = run_with_unreadable_lines(driver, env, task, meanwhile);
    seen.check_understood();
    seen
}

/// The same, for a model server that sends unreadable lines.
pub fn run_with_unreadable_lines(
    driver: &dyn Driver,
    env: &TestEnv,
    task: &Task,
    meanwhile: &(dyn Fn(&dyn Running) + Sync),
) -> Observed {
    let seen = driver.run(env, task, meanwhile);
    seen.check();
    assert_eq!(
        marked(&format!("OSTLER_SESSION={}", seen.session())),
        [0; 0],
        "processes of the session are left"
    );
    assert_eq!(env.processes(), [], "processes of the run are left");
    let unmatched: Vec<String> = env
        .server
        .unmatched()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    assert_eq!(unmatched, [""; 0], "calls without a rule in the script");
    seen
}

/// Fails unless loopback is the only network. `cargo xtask test` guarantees that
/// (`OSTLER_TEST_NETNS=1`); without the guarantee the test is skipped.
pub fn network_is_loopback_only() {
    let is_promised = std::env::var_os("OSTLER_TEST_NETNS").is_some_and(|promised| promised == "1");
    let missing = || {
        "it does not run in a network namespace (cargo xtask test --step real creates one)"
            .to_owned()
    };
    if !machine::can_run("network_is_loopback_only", &Need::of(is_promised, missing)) {
        return;
    }
    // Not /sys/class/net: a sysfs mount shows the network namespace in which it was mounted.
    let devices =
        std::fs::read_to_string("/proc/self/net/dev").expect("read the list of network devices");
    let names: Vec<&str> = devices
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .collect();
    assert_eq!(names, ["lo"]);
}

/// Generates a test for each scenario that every agent passes, run by the given driver.
#[macro_export]
macro_rules! shared_scenarios {
    ($driver:expr) => {
        // For the library, these are rows of the conformance suite.
        $crate::tests_of_scenarios! { $driver;
            output::text output::partial_messages output::thinking
            output::structured_output output::usage_exact
            tools::tool_allowed tools::tool_denied tools::two_tools_at_once
            endings::unauthorized endings::rate_limited endings::wall_limit endings::stopped
            prompts::five_megabytes prompts::awkward_characters surroundings::directory
        }
        $crate::further_scenarios!($driver);
    };
}

/// Generates a test for each scenario that every agent passes and that is not a row of the
/// conformance suite.
#[macro_export]
macro_rules! further_scenarios {
    ($driver:expr) => {
        $crate::tests_of_scenarios! { $driver;
            output::model
            tools::tool_denied_and_tolerated tools::tools_limit_what_exists
            tools::no_tools_at_all tools::disallowed_tools_are_gone
            endings::overloaded endings::unreachable endings::broken_off
            endings::refused endings::output_limit endings::budget endings::max_turns
            endings::wall_limit_in_a_tool endings::idle_limit endings::a_silent_tool_is_not_idle
            endings::interrupted endings::interrupted_at_once endings::interrupted_in_mid_stream
            endings::interrupted_in_a_tool
            prompts::a_leading_dash prompts::system_prompts
        }
    };
}

/// Generates a test for each scenario, including those that only Claude Code supports.
#[macro_export]
macro_rules! every_scenario {
    ($driver:expr) => {
        $crate::shared_scenarios!($driver);
        $crate::tests_of_scenarios! { $driver;
            endings::killed_from_outside surroundings::variables
        }
        $crate::claude_only_scenarios!($driver);
    };
}

/// Generates a test for each scenario that only Claude Code supports and that is not a row of the
/// conformance suite.
#[macro_export]
macro_rules! claude_only_scenarios {
    ($driver:expr) => {
        $crate::tests_of_scenarios! { $driver;
            tools::allowed_tools_allow_nothing_else tools::unattended_permission_request_is_denied
            tools::a_sub_agent_counts tools::an_mcp_server_and_no_other
            tools::a_background_task_is_waited_for tools::an_endless_background_task_is_cut_off
            sessions::resume_remembers sessions::fork_is_another_session
            sessions::unknown_resume_id sessions::session_id_in_use
            endings::not_logged_in endings::server_error
            prompts::too_long_for_the_model
            preset::file_tools_and_nothing_else
            surroundings::environment
        }

        /// Tests of real agents run where only loopback can be reached.
        #[test]
        fn network_is_loopback_only() {
            $crate::scenario::network_is_loopback_only();
        }
    };
}

/// Generates a test for each named scenario.
#[macro_export]
macro_rules! tests_of_scenarios {
    ($driver:expr; $($group:ident :: $name:ident $(:: $inner:ident)?)*) => {
        $($crate::tests_of_scenarios!(@one $driver; $group $name $($inner)?);)*
    };
    (@one $driver:expr; $group:ident $name:ident) => {
        #[test] fn $name() { $crate::scenario::$group::$name(&$driver); }
    };
    (@one $driver:expr; $group:ident $name:ident $inner:ident) => {
        #[test] fn $inner() { $crate::scenario::$group::$name::$inner(&$driver); }
    };
}
