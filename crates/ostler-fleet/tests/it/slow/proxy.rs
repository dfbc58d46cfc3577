//! A proxy between a worker and its servers, which can drop the traffic.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A proxy. Dropping it closes its port.
pub(super) struct Proxy {
    address: SocketAddr,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on an address of this machine, and forwards connections to the first of these ports
    /// of loopback that accepts one.
    pub(super) async fn start(address: &str, ports: Vec<u16>) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, watched) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, ports.clone(), watched.clone()));
            }
        });
        Self {
            address,
            is_cut,
            task,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Holds the traffic back, as a network does that drops every packet.
    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets the traffic pass again: packets are sent again.
    pub(super) fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(client: TcpStream, ports: Vec<u16>, is_cut: watch::Receiver<bool>) {
    let Some(server) = connect(&ports).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // If one side closes, both do.
    tokio::select! {
        _ = copy(from_client, to_server, is_cut.clone()) => {}
        _ = copy(from_server, to_client, is_cut) => {}
    }
}

async fn connect(ports: &[u16]) -> Option<TcpStream> {
    for port in ports {
        if let Ok(server) = TcpStream::connect(("127.0.0.1", *port)).await {
            return Some(server);
        }
    }
    None
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_cut: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if is_cut.wait_for(|is_cut| !is_cut).await.is_err() {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
