//! Where attempts run: on this machine, or on others.
//!
//! The runner claims trials and records their results; a [`Place`] runs one attempt. [`Here`] is
//! this machine. A fleet is another place, with its own capacity.

use std::collections::BTreeSet;
use std::pin::Pin;

use tokio::sync::watch;

use crate::case::{Case, Contender, Isolation};
use crate::run_trial::{Attempt, TrialHooks, TrialOptions, TrialRequest, TrialServices, run_trial};

/// An attempt to run.
pub struct Placement<'a> {
    /// The attempt.
    pub request: &'a TrialRequest,
    /// What all trials share on this machine.
    pub services: &'a TrialServices,
    /// How the runner follows it.
    pub hooks: TrialHooks<'a>,
    /// The ledger's record of where it runs.
    pub record: &'a dyn PlacementRecord,
}

/// The ledger's record of where an attempt runs. An attempt on this machine does not need it.
pub trait PlacementRecord: Send + Sync {
    /// Returns the worker that had the attempt when this process started, if it was claimed by an
    /// earlier one.
    fn adopted_from(&self) -> Option<&Adopted>;

    /// Assigns the attempt to a worker. Returns false if another one has it, or it has ended.
    fn assign(&self, worker: &str) -> bool;

    /// Marks the attempt as lost: its trial is claimed again, and its result will be late.
    fn lose(&self);
}

/// An attempt that an earlier process claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The worker that it was assigned to, if any.
    pub worker: Option<String>,
    /// Whether it was lost.
    pub is_lost: bool,
}

/// A future that resolves to the end of an attempt.
pub type AttemptFuture<'a> = Pin<Box<dyn Future<Output = Attempt> + Send + 'a>>;

/// What a trial needs of the machine that it runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialNeeds {
    /// The agent.
    pub agent: String,
    /// The isolation; any if there is none.
    pub isolation: Option<Isolation>,
}

impl TrialNeeds {
    /// Returns the needs of a case with a contender.
    #[must_use]
    pub fn of(case: &Case, contender: &Contender, options: &TrialOptions) -> Self {
        Self {
            agent: contender.agent.clone(),
            isolation: match case.mounts {
                Some(_) => Some(Isolation::PrivateRoot),
                None => options.isolation,
            },
        }
    }
}

/// Somewhere to run attempts.
pub trait Place: Send + Sync {
    /// Called before anything runs, with the needs of the trials that are left.
    fn on_start(&self, _needs: BTreeSet<TrialNeeds>) {}

    /// Returns why trials have to wait, while no machine of the place can run them.
    fn shortage(&self) -> Option<watch::Receiver<Option<String>>> {
        None
    }

    /// Called once the end of an attempt is in the ledger.
    fn on_recorded(&self, _request: &TrialRequest) {}

    /// Returns how many attempts it can run at once; the runner decides if it does not say.
    fn capacity(&self) -> Option<watch::Receiver<u32>> {
        None
    }

    /// Returns true if attempts survive the process that claimed them, so that another process can
    /// adopt them.
    fn is_remote(&self) -> bool {
        false
    }

    /// Called once all attempts of earlier processes have been adopted.
    fn on_adopted(&self) {}

    /// Runs an attempt. It never fails: whatever happens is in its result.
    fn run<'a>(&'a self, placement: Placement<'a>) -> AttemptFuture<'a>;
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here;

impl Place for Here {
    fn run<'a>(&'a self, placement: Placement<'a>) -> AttemptFuture<'a> {
        let Placement {
            request,
            services,
            hooks,
            record: _,
        } = placement;
        Box::pin(run_trial(request, services, hooks))
    }
}
