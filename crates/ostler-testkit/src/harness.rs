//! Recording and replaying agents: scenarios run with the real agent, with the real agent
//! recorded, or with a replayed recording.
//!
//! A scenario does not know which. The caller chooses the mode for the current thread
//! ([`run_in`]). Every [`crate::scenario::TestEnv`] created during the run puts the fake agent in
//! front of the agent's program, or in its place.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::real::Pinned;
use crate::{fake, transcript};

/// How the agent of a scenario is run.
#[derive(Debug, Clone)]
pub enum AgentMode {
    /// Runs the real agent and records its input and output to this file.
    Record(PathBuf),
    /// Runs the fake agent, which replays this recording.
    Replay(PathBuf),
}

/// What a finished scenario has verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every check was made.
    Full,
    /// A recording was replayed: checks of the model, of tools or of the agent itself were
    /// skipped.
    EventsOnly,
}

/// Program to start in place of the agent.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) program: PathBuf,
    /// Set when replaying: whether a check was skipped because of it.
    pub(crate) replay: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct Setup {
    mode: AgentMode,
    /// Whether a check was skipped because a recording is replayed.
    skipped_checks: Arc<AtomicBool>,
    /// Working directory of the scenario's processes: their recordings and their count.
    dir: tempfile::TempDir,
}

thread_local! {
    static CURRENT: RefCell<Option<Setup>> = const { RefCell::new(None) };
}

/// Runs a scenario in a mode and returns what it has verified. A recording is stored only if the
/// scenario succeeds.
///
/// # Panics
/// If the mode cannot be set up, or nothing was recorded.
pub fn run_in(mode: AgentMode, scenario: impl FnOnce()) -> Coverage {
    let dir = tempfile::tempdir().expect("create the harness directory");
    if let AgentMode::Replay(file) = &mode {
        assert!(
            file.is_file(),
            "no {}: record it with OSTLER_RECORD=1 (CONTRIBUTING.md)",
            file.display()
        );
    }
    CURRENT.set(Some(Setup {
        mode,
        skipped_checks: Arc::default(),
        dir,
    }));
    scenario();
    let set = CURRENT.take().expect("the mode is set until the end");
    if let AgentMode::Record(file) = set.mode {
        let parts = (1..)
            .map_while(|number| fs::read_to_string(transcript::part(set.dir.path(), number)).ok());
        let mut parts: Vec<String> = parts.collect();
        assert!(!parts.is_empty(), "the agent was never started");
        if let [only] = &mut parts[..] {
            // A single process: no later one resumes the session.
            let lines = only.lines().filter(|line| !line.starts_with("{\"kept\":"));
            *only = lines.flat_map(|line| [line, "\n"]).collect();
        }
        let text = parts.concat();
        fs::create_dir_all(file.parent().expect("a recording has a parent directory"))
            .expect("create the directory");
        fs::write(&file, text).expect("store the recording");
    }
    if set.skipped_checks.load(Ordering::Relaxed) {
        Coverage::EventsOnly
    } else {
        Coverage::Full
    }
}

/// Returns the program to start instead of the agent, for the test environment with this root and
/// model address.
pub(crate) fn stand_in(pinned: Option<Pinned>, root: &Path, model: &str) -> Option<StandIn> {
    let pinned = pinned?;
    CURRENT.with_borrow(|set| {
        let Setup {
            mode,
            skipped_checks,
            dir,
        } = set.as_ref()?;
        let bin = root.join("stand-in");
        fs::create_dir(&bin).expect("create the stand-in's directory");
        let link = bin.join("agent");
        let dir = dir.path();
        let mode_file = match mode {
            AgentMode::Record(_) => {
                json!({"record": dir, "program": pinned.program(), "root": root, "model": model})
            }
            AgentMode::Replay(file) => {
                json!({"play": file, "dir": dir, "root": root, "model": model})
            }
        };
        fs::write(bin.join("agent.mode"), mode_file.to_string()).expect("write the mode file");
        std::os::unix::fs::symlink(fake::program(), &link).expect("link the fake agent");
        Some(StandIn {
            program: link,
            replay: matches!(mode, AgentMode::Replay(_)).then(|| skipped_checks.clone()),
        })
    })
}
