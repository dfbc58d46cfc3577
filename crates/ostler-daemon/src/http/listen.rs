//! TCP listeners on the loopback interface: one for clients with a token, or one that is opened
//! for the first browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::AbortHandle;

use super::{App, Channel, Endpoint, serve_connection};
use crate::peer;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

/// How long to wait after a connection could not be accepted, such as for lack of descriptors.
pub(crate) const ACCEPT_DELAY: Duration = Duration::from_millis(50);

/// Maximum number of connections of all agents, and over TCP. They must not use up what a user
/// needs to reach the daemon.
pub(crate) const MAX_CONNECTIONS: usize = 128;

/// The daemon's TCP listener, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Listening(Mutex<Option<(SocketAddr, AbortHandle)>>);

impl Listening {
    /// Serves a listener until the daemon stops.
    pub(crate) async fn serve(&self, app: App, listener: TcpListener) {
        let Ok(address) = listener.local_addr() else {
            return;
        };
        let task = tokio::spawn(accept(app, listener, Endpoint { address }));
        *self.0.lock().await = Some((address, task.abort_handle()));
    }

    /// Returns the address of the listener, and opens one if there is none.
    pub(crate) async fn address(&self, app: &App) -> Result<SocketAddr, Problem> {
        let mut listening = self.0.lock().await;
        if let Some((address, _)) = &*listening {
            return Ok(*address);
        }
        let fail = |error: std::io::Error| {
            let why = format!("cannot listen on 127.0.0.1: {error}");
            Problem::new(ProblemKind::Unavailable, why)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let task = tokio::spawn(accept(app.clone(), listener, Endpoint { address }));
        *listening = Some((address, task.abort_handle()));
        tracing::info!(%address, "listening for a browser");
        Ok(address)
    }

    /// Closes the listener.
    pub(crate) async fn close(&self) {
        if let Some((_, task)) = self.0.lock().await.take() {
            task.abort();
        }
    }
}

async fn accept(app: App, listener: TcpListener, endpoint: Endpoint) {
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
        let app = app.clone();
        tokio::spawn(async move {
            let agent = agent_behind(&app, &stream).await;
            serve_connection(app, Channel::Tcp(endpoint, agent), stream).await;
            drop(place);
        });
    }
}

/// Returns the agent at the other end of a connection, if it is one.
async fn agent_behind(app: &App, stream: &TcpStream) -> Option<Caller> {
    let (client, server) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    let look = || {
        let manager = app.manager.clone();
        let found = tokio::task::spawn_blocking(move || {
            peer::agent_behind(client, server, |pids| manager.session_of(pids))
        });
        async { found.await.ok().flatten() }
    };
    let found = look().await;
    if !found.as_ref().is_some_and(Caller::is_unknown_agent) {
        return found;
    }
    app.manager.wait_for_agents().await;
    look().await.or(found)
}
