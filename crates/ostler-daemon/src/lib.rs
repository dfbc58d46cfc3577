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
//! sessions, `feed` wakes their readers, `http` serves clients; `scope`, `peer` and `token` decide
//! who may do what.

pub mod api;
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
pub mod problem;
mod queue;
pub mod scope;
mod token;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ostler::agent::Breakers;
use ostler_store::Store;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use self::embedder::{AgentsFuture, Embedder, PrepareFuture, Prepared};
use self::http::{App, Channel, Secrets};
pub use self::instance::InstanceError;
use self::instance::InstanceLock;
use self::manager::{Manager, Shared};
pub use self::manager::{ManagerOptions, Recovered};
use self::notify::Notifier;
pub use self::notify::NotifyCommand;
pub use self::queue::ParallelLimits;
use self::scope::Caller;
pub use self::token::Secret;

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
    /// What an earlier daemon left open could not be closed.
    #[error("recovery: {0}")]
    Recovery(problem::Problem),
}

/// A daemon that is ready to serve.
pub struct Daemon {
    app: App,
    socket: tokio::net::UnixListener,
    tcp: Option<TcpListener>,
    socket_path: PathBuf,
    /// What was recovered from an earlier daemon.
    pub recovered: Recovered,
    /// The address of the TCP listener.
    pub address: Option<SocketAddr>,
    /// The code without which a token cannot approve. It exists only in memory.
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
        let (store, embedder) = (options.store, options.embedder);
        let shared = Shared {
            breakers: options.breakers,
            notifier: Notifier::new(options.notify),
        };
        let manager = Manager::new(store, embedder, shared, options.manager);
        let (tcp, secrets) = match options.listen {
            None => (None, None),
            Some(address) => {
                let (listener, secrets) = listen(address, &options.socket).await?;
                (Some(listener), Some(Arc::new(secrets)))
            }
        };
        let recovered = manager.recover().await.map_err(ServeError::Recovery)?;
        let socket = instance::bind(&options.socket)?;
        manager.start_waiting().await;
        Ok(Self {
            address: tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()),
            approval_code: secrets.as_ref().map(|secrets| secrets.code.clone()),
            app: App { manager, secrets },
            socket,
            tcp,
            socket_path: options.socket,
            recovered,
            _lock: lock,
        })
    }

    /// Serves until `stop` resolves, then lets running turns finish. If `stop` resolves once more
    /// meanwhile, all sessions are killed.
    pub async fn serve(self, mut stop: impl AsyncFnMut()) {
        let manager = self.app.manager.clone();
        let reaper = tokio::spawn(peer::reap_orphans());
        let sockets = tokio::spawn(accept_socket(self.app.clone(), self.socket));
        let tcp = self.tcp.map(|tcp| tokio::spawn(accept_tcp(self.app, tcp)));
        stop().await;
        tracing::info!("shutting down");
        tokio::select! {
            () = manager.shut_down() => {}
            () = stop() => {
                manager.kill_all();
                manager.shut_down().await;
            }
        }
        sockets.abort();
        reaper.abort();
        if let Some(tcp) = tcp {
            tcp.abort();
        }
        manager.store.flush();
        let _ = std::fs::remove_file(&self.socket_path);
    }
}

/// Opens the TCP listener and its secrets.
async fn listen(
    address: SocketAddr,
    socket: &std::path::Path,
) -> Result<(TcpListener, Secrets), ServeError> {
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
    let code = Secret::code();
    Ok((listener, Secrets { token, code }))
}

/// How long to wait after a connection could not be accepted, such as for lack of descriptors.
const ACCEPT_DELAY: std::time::Duration = std::time::Duration::from_millis(50);

/// Maximum number of connections of all agents, and over TCP. They must not use up what a user
/// needs to reach the daemon.
const MAX_CONNECTIONS: usize = 128;

async fn accept_socket(app: App, listener: tokio::net::UnixListener) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
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
                let channel = Channel::Socket(caller);
                let serve = http::serve_connection(app.clone(), channel, stream);
                tokio::spawn(async move {
                    serve.await;
                    drop(place);
                });
            }
            // The connection is closed: who cannot be identified gets nothing.
            Err(error) => tracing::warn!(%error, "connection refused"),
        }
    }
}

async fn accept_tcp(app: App, listener: TcpListener) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_DELAY).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue; // closes the connection
        };
        let _ = stream.set_nodelay(true);
        let serve = http::serve_connection(app.clone(), Channel::Tcp(port), stream);
        tokio::spawn(async move {
            serve.await;
            drop(place);
        });
    }
}
