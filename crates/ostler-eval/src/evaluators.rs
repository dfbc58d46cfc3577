//! The built-in evaluators, one module each.

mod command;
mod config;
mod expected_diff;
mod files;
mod git_diff;
pub mod judge;
mod script;
mod swebench;
mod trajectory;

pub use self::command::CommandEvaluator;
pub(crate) use self::config::Judgement;
pub use self::expected_diff::ExpectedDiff;
pub use self::files::FilesEvaluator;
pub use self::git_diff::GitDiff;
pub use self::judge::Judge;
pub use self::script::ScriptEvaluator;
pub use self::swebench::{SWE_BENCH, SweBench};
pub use self::trajectory::TrajectoryRules;
