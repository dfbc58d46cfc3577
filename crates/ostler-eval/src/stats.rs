//! Statistics of trials: success rates with intervals, comparisons, and sums of cost and time.
//!
//! A task is a cluster: repetitions of the same case are not independent. Intervals say so.

mod compare;
mod distribution;
mod paired;
mod rate;
mod summary;
mod tally;

pub use compare::{Comparison, Flip, compare};
pub use distribution::{inverse_normal, student_t_quantile};
pub use paired::{Paired, bootstrap, mcnemar_exact, minimum_detectable_effect, paired_difference};
pub use rate::{Estimate, TaskCount, cluster_interval, pass_at_k, pass_hat_k, wilson};
pub use summary::{ContenderSummary, Figures, TokenFigures, summarize};
pub use tally::{Denominators, counts, flaky_tasks, tally};
