//! The store of sessions, where the environment says that it is.

use std::sync::Arc;

use ostler_store::{Store, StoreError};

use crate::environment;
use crate::fault::Fault;

/// Opens the store of this user, made if need be.
pub(crate) fn open_store() -> Result<Arc<Store>, Fault> {
    let dir = environment::state_dir().ok_or_else(|| {
        Fault::usage("there is no place to keep sessions: HOME is not set").hint("OSTLER_STATE_DIR names a directory")
    })?;
    Store::open(&dir).map(Arc::new).map_err(|error| fault(&error))
}

/// The same for people.
pub(crate) fn fault(error: &StoreError) -> Fault {
    match error {
        StoreError::Ambiguous { .. } => Fault::usage(error.to_string()).hint("give more of it"),
        StoreError::Place { .. } => Fault::internal(error).hint("OSTLER_STATE_DIR names another directory"),
        _ => Fault::internal(error),
    }
}
