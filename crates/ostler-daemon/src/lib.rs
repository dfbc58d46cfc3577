//! Daemon: sessions that outlive their client, behind a local HTTP API.
//!
//! ```no_run
//! # async fn example(options: ostler_daemon::Options) -> Result<(), ostler_daemon::ServeError> {
//! let daemon = ostler_daemon::Daemon::start(options).await?;
//! let stop = async || drop(tokio::signal::ctrl_c().await);
//! daemon.serve(stop).await;
//! # Ok(()) }
//! ```
//!
//! A [`Daemon`] runs sessions for any number of clients. Their events are stored before a client
//! sees them, permission requests wait in the store until a client answers, and after a crash the
//! next daemon closes what was open. An agent cannot control the daemon that runs it, although it
//! runs as the same user: see [`scope`].
//!
//! The program around the daemon is an [`Embedder`]: configuration, policy and trust stay with it.
//! [`client`] is the other side of the API.
//!
//! Reading order: `api` are the types on the wire and `problem` the errors; `manager` runs
//! sessions, `feed` wakes their readers, `http` serves clients; `scope`, `peer`, `token` and
//! `browser` decide who may do what.

pub mod api;
mod approval;
mod browser;
pub mod client;
mod embedder;
mod feed;
mod granted;
mod http;
mod instance;
mod manager;
mod metrics;
mod notify;
pub mod openapi;
mod peer;
mod placement;
pub mod problem;
mod queue;
mod replaced;
pub mod scope;
mod token;
mod webhook;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ostler::agent::Breakers;
use ostler_store::Store;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;

use self::browser::Browsers;
pub use self::embedder::{AgentsFuture, Embedder, PrepareFuture, Prepared};
use self::http::{ACCEPT_DELAY, App, Channel, Listening, MAX_CONNECTIONS, Secrets};
pub use self::instance::InstanceError;
use self::instance::{InstanceLock, Socket};
use self::manager::{Manager, Shared};
pub use self::manager::{ManagerOptions, Recovered};
use self::notify::Notifier;
pub use self::notify::{NotifyCommand, Occasion};
pub use self::queue::ParallelLimits;
use self::scope::Caller;
pub use self::token::Secret;
use self::webhook::Webhooks;
pub use self::webhook::{Webhook, WebhookError};

/// What a daemon runs with.
pub struct Options {
    /// The state directory. At most one daemon uses it.
    pub state_dir: PathBuf,
    /// Path of the Unix socket. Its directory is created for its owner only.
    pub socket: PathBuf,
    /// A loopback address to listen on, besides the socket.
    pub listen: Option<SocketAddr>,
    /// The store in the state directory.
    pub store: Arc<Store>,
    /// The program around the daemon.
    pub embedder: Arc<dyn Embedder>,
    /// Circuit breakers, shared by all sessions.
    pub breakers: Breakers,
    /// Command to run when a session needs attention.
    pub notify: Option<NotifyCommand>,
    /// Where to send requests when a session needs attention.
    pub webhooks: Vec<Webhook>,
    /// Limits and times.
    pub manager: ManagerOptions,
}

/// Error of the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It could not start.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The address is not on this machine.
    #[error("{0} is not a loopback address: only this machine may connect")]
    NotLoopback(SocketAddr),
    /// A listener failed.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        error: io::Error,
    },
    /// The token could not be read or created.
    #[error("token: {0}")]
    Token(io::Error),
    /// A webhook cannot be used.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// What an earlier daemon left open could not be closed.
    #[error("recovery: {0}")]
    Recovery(problem::Problem),
}

/// A daemon that is ready to serve.
pub struct Daemon {
    app: App,
    socket: Socket,
    tcp: Option<TcpListener>,
    webhooks: Webhooks,
    /// What was recovered from an earlier daemon.
    pub recovered: Recovered,
    /// The address of the TCP listener.
    pub address: Option<SocketAddr>,
    /// The code without which a token cannot approve, if there is a listener. It exists only in
    /// memory.
    pub approval_code: Option<Secret>,
    _lock: InstanceLock,
}

/// Returns the file with the token, next to the socket.
#[must_use]
pub fn token_path(socket: &std::path::Path) -> PathBuf {
    socket.with_file_name("token")
}

impl Daemon {
    /// Takes the lock, recovers what an earlier daemon left open, and opens the listeners.
    ///
    /// # Errors
    /// If a daemon is running, a listener cannot be opened, or the store fails.
    pub async fn start(options: Options) -> Result<Self, ServeError> {
        let lock = InstanceLock::take(&options.state_dir)?;
        if let Some(dir) = options.socket.parent() {
            instance::prepare_runtime_dir(dir)?;
        }
        peer::become_subreaper();
        peer::raise_descriptor_limit();
        let webhooks = Webhooks::new(options.webhooks)?;
        let (store, embedder) = (options.store, options.embedder);
        store.set_lock_retries(LOCK_RETRIES);
        let shared = Shared {
            breakers: options.breakers,
            notifier: Notifier::new(options.notify),
        };
        let manager = Manager::new(store, embedder, shared, options.manager);
        let (tcp, token) = match options.listen {
            None => (None, None),
            Some(address) => {
                let (listener, token) = listen(address, &options.socket).await?;
                (Some(listener), Some(token))
            }
        };
        let code = Secret::code();
        let recovered = manager.recover().await.map_err(ServeError::Recovery)?;
        let socket = Socket::bind(options.socket)?;
        manager.start_waiting().await;
        Ok(Self {
            address: tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()),
            approval_code: tcp.as_ref().map(|_| code.clone()),
            app: App {
                manager,
                secrets: Arc::new(Secrets { token, code }),
                browsers: Arc::new(Browsers::default()),
                listening: Arc::new(Listening::default()),
            },
            socket,
            tcp,
            webhooks,
            recovered,
            _lock: lock,
        })
    }

    /// Serves until `stop` resolves, then lets running turns finish. If `stop` resolves once more
    /// meanwhile, all sessions are killed.
    pub async fn serve(self, mut stop: impl AsyncFnMut()) {
        let manager = self.app.manager.clone();
        let reaper = tokio::spawn(peer::reap_orphans());
        let indexer = tokio::spawn(index_events(manager.clone()));
        let deliveries = match self.webhooks.start(&manager).await {
            Ok(deliveries) => Some(deliveries),
            Err(problem) => {
                tracing::warn!(%problem, "webhooks are off");
                None
            }
        };
        let socket_path = self.socket.path.clone();
        let sockets = tokio::spawn(accept_socket(self.app.clone(), self.socket));
        let listening = self.app.listening.clone();
        if let Some(tcp) = self.tcp {
            listening.serve(self.app, tcp).await;
        }
        stop().await;
        tracing::info!("shutting down");
        manager.store.set_lock_retries(1); // a locked store must not hold up the end
        tokio::select! {
            () = manager.shut_down() => {}
            () = stop() => {
                manager.kill_all();
                manager.shut_down().await;
            }
        }
        sockets.abort();
        reaper.abort();
        indexer.abort();
        listening.close().await;
        if let Some(deliveries) = deliveries {
            deliveries.stop(&manager).await;
        }
        manager.store.flush();
        let _ = std::fs::remove_file(&socket_path);
    }
}

/// How often events are indexed, so that a search need not index many.
const INDEX_INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// Adds new events to the index of the search, now and then.
async fn index_events(manager: Arc<Manager>) {
    let mut interval = tokio::time::interval(INDEX_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        // Each step is a transaction of its own, between which others write.
        while let Ok(true) = manager.with_store(ostler_store::Store::index_some).await {
            tokio::task::yield_now().await;
        }
    }
}

/// Opens the TCP listener, and reads or creates its token.
async fn listen(
    address: SocketAddr,
    socket: &std::path::Path,
) -> Result<(TcpListener, Secret), ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let token = Secret::load_or_create(&token_path(socket)).map_err(ServeError::Token)?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| ServeError::Listen {
            address: address.to_string(),
            error,
        })?;
    Ok((listener, token))
}

/// How often to try again, 30 seconds each, if another process holds the store's lock.
const LOCK_RETRIES: u32 = 20;

async fn accept_socket(app: App, mut socket: Socket) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(stream) = socket.accept().await else {
            tokio::time::sleep(ACCEPT_DELAY).await;
            continue;
        };
        match peer::identify(&stream, |pids| app.manager.session_of(pids)) {
            Ok(caller) => {
                let is_agent = matches!(caller, Caller::Agent { .. });
                let place = places.clone().try_acquire_owned().ok();
                if is_agent && place.is_none() {
                    continue; // closes the connection
                }
                let place = place.filter(|_| is_agent);
                let app = app.clone();
                tokio::spawn(async move {
                    let caller = identify_again(&app, caller, &stream).await;
                    http::serve_connection(app, Channel::Socket(caller), stream).await;
                    drop(place);
                });
            }
            // The connection is closed: who cannot be identified gets nothing.
            Err(error) => tracing::warn!(%error, "connection refused"),
        }
    }
}

/// Identifies an agent of unknown session again, once the sessions that are being started know
/// their processes: an agent may connect before.
async fn identify_again(app: &App, caller: Caller, stream: &UnixStream) -> Caller {
    if !caller.is_unknown_agent() {
        return caller;
    }
    app.manager.wait_for_agents().await;
    // If it has exited meanwhile, it remains what it was.
    peer::identify(stream, |pids| app.manager.session_of(pids)).unwrap_or(caller)
}
