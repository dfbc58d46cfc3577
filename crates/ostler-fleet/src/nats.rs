//! The only door to the client library of NATS: connection, streams, requests and objects.

mod objects;
mod state;
mod streams;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;

pub use self::objects::{Announced, MAX_ARCHIVE_BYTES, ObjectError};
pub use self::state::{QueueState, StreamState};
pub use self::streams::{AppendError, Appended, Chunk, ItemMessage, StoredResult, WorkClass};
use crate::key::MemberKey;
use crate::subject::{Token, inbox_prefix};

/// Oldest server that the fleet works with.
const OLDEST_SERVER: (i64, i64, i64) = (2, 10, 0);

/// How a member connects.
#[derive(Debug)]
pub struct ConnectSettings {
    /// Addresses of servers, such as `nats://host:4222`, separated by commas.
    pub url: String,
    /// Name of the member, which its permissions depend on.
    pub member: Token,
    /// The member's key; `None` for a server without accounts.
    pub key: Option<MemberKey>,
    /// Credentials file, instead of a key.
    pub credentials: Option<PathBuf>,
    /// File with the certificate of the authority that signed the server's.
    pub authority: Option<PathBuf>,
    /// Whether a connection without TLS is refused, whatever the server says.
    pub require_tls: bool,
    /// Prefix of JetStream's API, if it is not the usual one.
    pub api: Option<String>,
}

/// A server that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// No connection.
    #[error("cannot connect to {url}: {why}")]
    Connect {
        /// The address.
        url: String,
        /// The reason.
        why: String,
    },
    /// The server is too old.
    #[error("{url} runs nats-server {version}, but 2.10 or newer is needed")]
    OldServer {
        /// The address.
        url: String,
        /// Its version.
        version: String,
    },
    /// A request to the server failed.
    #[error("{what} failed: {why}")]
    Server {
        /// What was asked for.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] crate::key::KeyError),
}

/// Adds what was asked for to an error of the client library.
trait During<T> {
    fn during(self, what: &'static str) -> Result<T, FleetError>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, what: &'static str) -> Result<T, FleetError> {
        self.map_err(|error| FleetError::Server {
            what,
            why: error.to_string(),
        })
    }
}

/// A connection to the server. It reconnects by itself.
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
    jetstream: jetstream::Context,
}

/// A message on a subject.
#[derive(Debug)]
pub struct Incoming {
    /// The subject.
    pub subject: String,
    /// The payload.
    pub payload: Bytes,
    /// Where a reply goes.
    pub reply: Option<String>,
}

/// Messages on a subject.
#[derive(Debug)]
pub struct Subscription(Subscriber);

impl Subscription {
    /// Waits for the next message; `None` once the connection is closed.
    pub async fn next(&mut self) -> Option<Incoming> {
        let message = self.0.next().await?;
        Some(Incoming {
            subject: message.subject.to_string(),
            payload: message.payload,
            reply: message.reply.map(|reply| reply.to_string()),
        })
    }
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// If no server answers, it refuses the key, or it is too old.
    pub async fn open(settings: &ConnectSettings) -> Result<Self, FleetError> {
        let url = settings.url.clone();
        let refused = |error: &dyn Display| FleetError::Connect {
            url: url.clone(),
            why: error.to_string(),
        };
        let mut options = async_nats::ConnectOptions::new()
            .name(format!("ostler {}", settings.member))
            .custom_inbox_prefix(inbox_prefix(&settings.member))
            .connection_timeout(Duration::from_secs(10))
            .request_timeout(Some(Duration::from_secs(5)));
        if let Some(key) = &settings.key {
            options = options.nkey(key.seed()?);
        }
        if let Some(file) = &settings.credentials {
            let read = options.credentials_file(file).await;
            options = read.map_err(|error| refused(&error))?;
        }
        if let Some(authority) = &settings.authority {
            options = options.add_root_certificates(authority.clone());
        }
        options = options.require_tls(settings.require_tls);
        let servers: Vec<&str> = url.split(',').map(str::trim).collect();
        let client = options
            .connect(servers)
            .await
            .map_err(|error| refused(&error))?;
        let (major, minor, patch) = OLDEST_SERVER;
        if !client.is_server_compatible(major, minor, patch) {
            let version = client.server_info().version;
            return Err(FleetError::OldServer { url, version });
        }
        let jetstream = match &settings.api {
            Some(prefix) => jetstream::with_prefix(client.clone(), prefix),
            None => jetstream::new(client.clone()),
        };
        Ok(Self { client, jetstream })
    }

    /// Subscribes to a subject, which may contain wildcards.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(&self, subject: String) -> Result<Subscription, FleetError> {
        let subscription = self.client.subscribe(subject).await;
        let subscription = subscription.during("the subscription")?;
        // The server must know it before anyone relies on it.
        let flushed = self.client.flush().await;
        flushed.during("the subscription")?;
        Ok(Subscription(subscription))
    }

    /// Publishes a message that is not stored.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn publish(&self, subject: String, payload: Vec<u8>) -> Result<(), FleetError> {
        let published = self.client.publish(subject, payload.into()).await;
        published.during("publishing")
    }

    /// Sends a request and waits for the reply; `None` if no one answers in time.
    pub async fn request(
        &self,
        subject: String,
        payload: Vec<u8>,
        timeout: Duration,
    ) -> Option<Bytes> {
        let request = async_nats::Request::new()
            .payload(payload.into())
            .timeout(Some(timeout));
        let reply = self.client.send_request(subject, request).await.ok()?;
        Some(reply.payload)
    }

    /// Sends everything that waits to be sent, as far as the connection allows.
    pub async fn flush(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.client.flush()).await;
    }

    /// Returns the largest payload that the server accepts, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// Returns true while the server can be reached.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}
