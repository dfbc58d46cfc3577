//! Streams: work items, the records of attempts, and their results.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DirectGetErrorKind, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};

use super::{Connection, During, FleetError};
use crate::item::Needs;
use crate::subject::{
    EVENTS_STREAM, EVENTS_SUBJECTS, RESULTS_STREAM, RESULTS_SUBJECTS, Token, WORK_STREAM,
    WORK_SUBJECTS, class_consumer, work,
};

/// How long an item may go without a sign of its worker before it is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long records and results stay on the server.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the server recognizes a message that is published again.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Header with the position of a chunk in the record of its attempt.
const OFFSET: &str = "Ostler-Offset";
/// Key of a consumer's metadata with the needs of its class.
const NEEDS: &str = "ostler.needs";

/// A class of work items, and what they need.
#[derive(Debug, Clone)]
pub struct WorkClass {
    /// What its items need.
    pub needs: Needs,
    consumer: Consumer<pull::Config>,
}

/// A work item as it was delivered.
#[derive(Debug)]
pub struct ItemMessage {
    message: Message,
    /// Position in the stream.
    pub sequence: u64,
}

/// Part of the record of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Position of its first byte in the record.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Where the record of an attempt ends on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Length of the record in bytes.
    pub bytes: u64,
    /// Sequence number of the last message of its subject; 0 if there is none.
    pub sequence: u64,
}

/// A chunk that was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another message was appended in between.
    #[error("the subject has changed")]
    Stale,
    /// The server did not confirm it. It may have been stored.
    #[error("{0}")]
    Unconfirmed(String),
}

/// A result as it was stored.
#[derive(Debug, Clone)]
pub struct StoredResult {
    /// The subject.
    pub subject: String,
    /// The payload.
    pub payload: Bytes,
}

impl ItemMessage {
    /// Returns the sealed item.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    /// Reports that the item is being worked on.
    pub async fn in_progress(&self) {
        let _ = self.message.ack_with(AckKind::Progress).await; // repeated soon
    }

    /// Removes the item from the queue.
    pub async fn done(&self) {
        let _ = self.message.ack().await; // otherwise it is delivered again, and refused
    }

    /// Leaves the item to another worker, or to a later attempt.
    pub async fn hand_back(&self, delay: Duration) {
        let _ = self.message.ack_with(AckKind::Nak(Some(delay))).await; // `ACK_WAIT` ends too
    }
}

impl WorkClass {
    /// Waits for an item of the class for at most this long.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn pull(&self, wait: Duration) -> Result<Option<ItemMessage>, FleetError> {
        let batch = self.consumer.batch().max_messages(1).expires(wait);
        let mut batch = batch.messages().await.during("pulling work")?;
        // The server ends the request; this is for one that has gone.
        let deadline = wait + Duration::from_secs(5);
        let Ok(next) = tokio::time::timeout(deadline, batch.next()).await else {
            return Ok(None);
        };
        let Some(message) = next.transpose().during("pulling work")? else {
            return Ok(None);
        };
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        Ok(Some(ItemMessage { message, sequence }))
    }
}

impl Connection {
    /// Creates the streams that do not exist yet.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create_streams(&self, replicas: usize) -> Result<(), FleetError> {
        let config = |name: &str, subjects: &str| Config {
            name: name.to_owned(),
            subjects: vec![subjects.to_owned()],
            num_replicas: replicas,
            duplicate_window: DUPLICATE_WINDOW,
            max_age: RETENTION,
            allow_direct: true,
            discard: DiscardPolicy::New,
            ..Config::default()
        };
        let work = Config {
            retention: RetentionPolicy::WorkQueue,
            ..config(WORK_STREAM, WORK_SUBJECTS)
        };
        let events = config(EVENTS_STREAM, EVENTS_SUBJECTS);
        let results = config(RESULTS_STREAM, RESULTS_SUBJECTS);
        for stream in [work, events, results] {
            let created = self.jetstream.get_or_create_stream(stream).await;
            created.during("creating a stream")?;
        }
        self.create_workspaces(replicas).await
    }

    /// Creates the queue of a class.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create_class(&self, needs: &Needs) -> Result<(), FleetError> {
        let class = needs.class();
        let text = serde_json::to_string(needs).during("creating a class of work")?;
        let config = pull::Config {
            durable_name: Some(class_consumer(&class)),
            filter_subject: work(&class),
            ack_wait: ACK_WAIT,
            max_ack_pending: 100_000,
            metadata: HashMap::from([(NEEDS.to_owned(), text)]),
            inactive_threshold: RETENTION,
            ..pull::Config::default()
        };
        let stream = self.jetstream.get_stream_no_info(WORK_STREAM).await;
        let stream = stream.during("finding the queue")?;
        stream
            .create_consumer(config)
            .await
            .during("creating a class of work")?;
        Ok(())
    }

    /// Returns all classes of work.
    ///
    /// # Errors
    /// If the server does not answer, or no owner has created the queue.
    pub async fn classes(&self) -> Result<Vec<WorkClass>, FleetError> {
        let stream = self.jetstream.get_stream(WORK_STREAM).await;
        let stream = stream.during("finding the queue")?;
        let all: Vec<_> = stream
            .consumers()
            .try_collect()
            .await
            .during("listing the classes of work")?;
        let mut classes = Vec::new();
        for info in all {
            let Some(needs) = needs_of(&info.config.metadata) else {
                continue;
            };
            let consumer = stream
                .get_consumer(&info.name)
                .await
                .during("listing the classes of work")?;
            classes.push(WorkClass { needs, consumer });
        }
        Ok(classes)
    }

    /// Publishes a sealed item. Returns its position in the stream.
    ///
    /// # Errors
    /// If the server does not store it.
    pub async fn publish_item(
        &self,
        class: &Token,
        id: &str,
        sealed: Vec<u8>,
    ) -> Result<u64, FleetError> {
        let message = PublishMessage::build()
            .payload(sealed.into())
            .message_id(id);
        let sent = self.jetstream.send_publish(work(class), message).await;
        let ack = sent
            .during("publishing work")?
            .await
            .during("publishing work")?;
        Ok(ack.sequence)
    }

    /// Removes an item that is not needed any more.
    pub async fn remove_item(&self, sequence: u64) {
        if let Ok(stream) = self.jetstream.get_stream_no_info(WORK_STREAM).await {
            let _ = stream.delete_message(sequence).await; // a worker may have taken it
        }
    }

    /// Appends bytes to the record of an attempt, if it ends where the caller thinks.
    ///
    /// # Errors
    /// If it does not, or the server does not confirm.
    pub async fn append(
        &self,
        subject: &str,
        at: Appended,
        bytes: Bytes,
    ) -> Result<Appended, AppendError> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let message = PublishMessage::build()
            .payload(bytes)
            .header(OFFSET, at.bytes.to_string().as_str())
            // The sequence alone decides. With a message id, a replicated stream would confirm a
            // longer chunk at the same place as a duplicate, without storing it.
            .expected_last_subject_sequence(at.sequence);
        let sequence = self.store(subject, message).await?;
        Ok(Appended {
            bytes: at.bytes + length,
            sequence,
        })
    }

    /// Stores the result of an attempt behind an earlier one, which has this sequence number; 0 if
    /// there is none.
    ///
    /// # Errors
    /// If there is another one, or the server does not confirm.
    pub async fn store_result(
        &self,
        subject: &str,
        behind: u64,
        payload: Vec<u8>,
    ) -> Result<(), AppendError> {
        let message = PublishMessage::build()
            .payload(payload.into())
            .expected_last_subject_sequence(behind);
        self.store(subject, message).await.map(drop)
    }

    /// Returns the last result of an attempt and its sequence number, if it has one.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn last_result(&self, subject: &str) -> Result<Option<(u64, Bytes)>, FleetError> {
        let stream = self.jetstream.get_stream_no_info(RESULTS_STREAM).await;
        let stream = stream.during("reading a result")?;
        match stream.direct_get_last_for_subject(subject).await {
            Ok(last) => Ok(Some((last.sequence, last.payload))),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).during("reading a result"),
        }
    }

    async fn store(&self, subject: &str, message: PublishMessage) -> Result<u64, AppendError> {
        let classify = |error: async_nats::jetstream::context::PublishError| match error.kind() {
            PublishErrorKind::WrongLastSequence => AppendError::Stale,
            _ => AppendError::Unconfirmed(error.to_string()),
        };
        let sent = self
            .jetstream
            .send_publish(subject.to_owned(), message)
            .await;
        let ack = sent.map_err(classify)?.await.map_err(classify)?;
        match ack.duplicate {
            true => Err(AppendError::Stale), // it was not stored
            false => Ok(ack.sequence),
        }
    }

    /// Removes the record and the result of an attempt that the owner has recorded. What is left
    /// expires.
    pub async fn forget_attempt(&self, events: &str, result: &str) {
        for (stream, subject) in [(EVENTS_STREAM, events), (RESULTS_STREAM, result)] {
            if let Ok(stream) = self.jetstream.get_stream_no_info(stream).await {
                let _ = stream.purge().filter(subject).await;
            }
        }
    }

    /// Returns where the record of an attempt ends.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn end_of_record(&self, subject: &str) -> Result<Appended, FleetError> {
        let stream = self.jetstream.get_stream_no_info(EVENTS_STREAM).await;
        let stream = stream.during("reading the end of a record")?;
        match stream.direct_get_last_for_subject(subject).await {
            Ok(last) => {
                let length = u64::try_from(last.payload.len()).unwrap_or(u64::MAX);
                Ok(Appended {
                    bytes: offset(&last.headers) + length,
                    sequence: last.sequence,
                })
            }
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(Appended::default()),
            Err(error) => Err(error).during("reading the end of a record"),
        }
    }

    /// Follows the record of an attempt from its beginning.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn follow_record(
        &self,
        subject: &str,
    ) -> Result<impl futures_util::Stream<Item = Chunk> + Send + Unpin + use<>, FleetError> {
        let messages = self.ordered(EVENTS_STREAM, subject).await?;
        Ok(messages.filter_map(|message| {
            let chunk = message.ok().map(|message| Chunk {
                offset: message.headers.as_ref().map_or(0, offset),
                bytes: message.payload.clone(),
            });
            std::future::ready(chunk)
        }))
    }

    /// Follows results from the first one on the server.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn follow_results(
        &self,
        subject: &str,
    ) -> Result<impl futures_util::Stream<Item = StoredResult> + Send + Unpin + use<>, FleetError>
    {
        let messages = self.ordered(RESULTS_STREAM, subject).await?;
        Ok(messages.filter_map(|message| {
            let result = message.ok().map(|message| StoredResult {
                subject: message.subject.to_string(),
                payload: message.payload.clone(),
            });
            std::future::ready(result)
        }))
    }

    async fn ordered(&self, stream: &str, subject: &str) -> Result<pull::Ordered, FleetError> {
        let stream = self.jetstream.get_stream(stream).await;
        let stream = stream.during("finding a stream")?;
        let config = pull::OrderedConfig {
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::All,
            ..pull::OrderedConfig::default()
        };
        let consumer = stream
            .create_consumer(config)
            .await
            .during("following a stream")?;
        consumer.messages().await.during("following a stream")
    }
}

/// Returns the needs of a class from the metadata of its consumer.
pub(super) fn needs_of(metadata: &HashMap<String, String>) -> Option<Needs> {
    serde_json::from_str(metadata.get(NEEDS)?).ok()
}

/// Returns the position of a chunk.
fn offset(headers: &HeaderMap) -> u64 {
    let text = headers.get(OFFSET).map(async_nats::HeaderValue::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
