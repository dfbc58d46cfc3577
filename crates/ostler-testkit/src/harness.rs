//! Who is on stage: the real agent, the real agent with somebody who writes down what is said, or only what was written down.
//!
//! A scenario does not know. Whoever runs it says so for the thread ([`on`]); every [`crate::scenario::Place`] that is made
//! meanwhile puts the fake agent in front of, or in place of, the agent's program.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::{fake, transcript};

/// Who is on stage.
#[derive(Debug, Clone)]
pub enum Stage {
    /// The real agent; what it says and hears goes into this file.
    Recorded(PathBuf),
    /// The fake agent, with what was written into this file.
    Played(PathBuf),
}

/// What a scenario that came to its end has proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Every check was made.
    Whole,
    /// A recording was played: checks of the model, of tools or of the agent itself were left out.
    EventsOnly,
}

/// The program to start in place of the agent.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) program: PathBuf,
    /// Set if it plays a recording: whether a check was left out for that.
    pub(crate) played: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct Set {
    stage: Stage,
    /// Whether a check was left out because a recording is played.
    left_out: Arc<AtomicBool>,
    /// What the processes of the scenario write and count, one after the other.
    dir: tempfile::TempDir,
}

thread_local! {
    static SET: RefCell<Option<Set>> = const { RefCell::new(None) };
}

/// Runs a scenario on a stage and returns what it has proved. A recording is stored only if the
/// scenario succeeds.
///
/// # Panics
/// When the stage cannot be set, or there is nothing to keep.
pub fn on(stage: Stage, scenario: impl FnOnce()) -> Proof {
    let dir = tempfile::tempdir().expect("make a directory for the stage");
    if let Stage::Played(file) = &stage {
        assert!(
            file.is_file(),
            "no {}: record it with OSTLER_RECORD=1 (CONTRIBUTING.md)",
            file.display()
        );
    }
    SET.set(Some(Set {
        stage,
        left_out: Arc::default(),
        dir,
    }));
    scenario();
    let set = SET.take().expect("the stage is there to the end");
    if let Stage::Recorded(file) = set.stage {
        let parts = (1..)
            .map_while(|number| fs::read_to_string(transcript::part(set.dir.path(), number)).ok());
        let mut parts: Vec<String> = parts.collect();
        assert!(!parts.is_empty(), "the agent was never started");
        if let [only] = &mut parts[..] {
            // Nobody goes on with the session.
            let lines = only.lines().filter(|line| !line.starts_with("{\"kept\":"));
            *only = lines.flat_map(|line| [line, "\n"]).collect();
        }
        let text = parts.concat();
        fs::create_dir_all(file.parent().expect("a recording is in a folder"))
            .expect("make the folder");
        fs::write(&file, text).expect("keep the recording");
    }
    if set.left_out.load(Ordering::Relaxed) {
        Proof::EventsOnly
    } else {
        Proof::Whole
    }
}

/// Returns the program to start in place of this one, in the place whose root and whose model's
/// address are given.
pub(crate) fn stand_in(
    program: Option<fn() -> PathBuf>,
    root: &Path,
    model: &str,
) -> Option<StandIn> {
    let program = program?;
    SET.with_borrow(|set| {
        let Set {
            stage,
            left_out,
            dir,
        } = set.as_ref()?;
        let bin = root.join("stand-in");
        fs::create_dir(&bin).expect("make a directory for the stand-in");
        let link = bin.join("agent");
        let dir = dir.path();
        let mode = match stage {
            Stage::Recorded(_) => {
                json!({"record": dir, "program": program(), "root": root, "model": model})
            }
            Stage::Played(file) => json!({"play": file, "dir": dir, "root": root, "model": model}),
        };
        fs::write(bin.join("agent.mode"), mode.to_string())
            .expect("write what the stand-in is to do");
        std::os::unix::fs::symlink(fake::program(), &link).expect("link the fake agent");
        Some(StandIn {
            program: link,
            played: matches!(stage, Stage::Played(_)).then(|| left_out.clone()),
        })
    })
}
