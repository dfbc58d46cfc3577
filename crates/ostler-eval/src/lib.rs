//! Evaluation: which agent, model, prompt or `AGENTS.md` is better on a repository.
//!
//! A [`case::Case`] is a repository at a commit, a prompt, limits and evaluators. A
//! [`case::Suite`] combines cases, agents and repetitions into trials. Each trial runs in a fresh
//! checkout; its evaluators judge copies of what the agent left, and a [`trial::TrialResult`]
//! records the verdict.
//!
//! Reading order: `case` and `trial` are the types; everything else produces or consumes them.

pub mod adapter;
pub mod atif;
pub mod case;
mod case_files;
pub mod embedder;
pub mod evaluator;
pub mod evaluators;
pub mod event_log;
mod file_names;
pub mod gate;
pub mod git;
pub mod harbor_evaluator;
pub mod harbor_job;
pub mod identity;
pub mod init;
pub mod load;
pub mod new_case;
pub mod normalized;
pub mod patch;
pub mod place;
pub mod plan;
mod private_root;
pub mod registry;
pub mod report;
pub mod run_trial;
pub mod runner;
pub mod stats;
pub mod test_counts;
mod tree;
pub mod trial;
pub mod workspace;
