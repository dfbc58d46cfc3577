//! State of the server for people: queued work, and what owners have not read yet.

use futures_util::TryStreamExt;

use super::streams::needs_of;
use super::{Connection, During, FleetError};
use crate::item::Needs;
use crate::subject::{EVENTS_STREAM, RESULTS_STREAM, WORK_STREAM};

/// The queue of a class of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    /// What its items need.
    pub needs: Needs,
    /// Items that no worker has taken.
    pub queued: u64,
    /// Items that a worker has, or has had.
    pub taken: u64,
}

/// A stream of what workers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamState {
    /// Messages on the server.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Messages that an owner follows and has not read yet.
    pub lag: u64,
}

impl Connection {
    /// Returns the queues.
    ///
    /// # Errors
    /// If the server does not answer, or no owner has created the streams.
    pub async fn queues(&self) -> Result<Vec<QueueState>, FleetError> {
        let stream = self.jetstream.get_stream(WORK_STREAM).await;
        let stream = stream.during("finding the queue")?;
        let all: Vec<_> = stream
            .consumers()
            .try_collect()
            .await
            .during("listing the queues")?;
        let queues = all.into_iter().filter_map(|info| {
            Some(QueueState {
                needs: needs_of(&info.config.metadata)?,
                queued: info.num_pending,
                taken: u64::try_from(info.num_ack_pending).unwrap_or(u64::MAX),
            })
        });
        Ok(queues.collect())
    }

    /// Returns the state of the records and of the results.
    ///
    /// # Errors
    /// If the server does not answer, or no owner has created the streams.
    pub async fn sent(&self) -> Result<(StreamState, StreamState), FleetError> {
        let events = self.stream_state(EVENTS_STREAM).await?;
        Ok((events, self.stream_state(RESULTS_STREAM).await?))
    }

    async fn stream_state(&self, name: &str) -> Result<StreamState, FleetError> {
        let stream = self.jetstream.get_stream(name).await;
        let stream = stream.during("finding a stream")?;
        let consumers: Vec<_> = stream
            .consumers()
            .try_collect()
            .await
            .during("listing consumers")?;
        let state = &stream.cached_info().state;
        let pending = consumers.iter().map(|info| info.num_pending);
        Ok(StreamState {
            messages: state.messages,
            bytes: state.bytes,
            lag: pending.fold(0, u64::saturating_add),
        })
    }
}
