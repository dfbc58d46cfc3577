//! A cluster of three servers, whose nodes can be killed and restarted.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PATIENCE, free_port, start};

/// Number of nodes.
pub const NODES: usize = 3;

/// A running cluster. Dropping it kills its processes and removes its stores.
pub struct NatsCluster {
    nodes: Vec<Node>,
    _dir: tempfile::TempDir,
}

struct Node {
    child: Option<Child>,
    dir: PathBuf,
    /// Port for clients.
    port: u16,
    /// Port of the monitoring pages.
    monitor: u16,
}

impl NatsCluster {
    /// Starts three nodes and waits until they have a leader.
    ///
    /// # Panics
    /// If they do not start.
    #[must_use]
    pub fn start() -> Self {
        let begin = Instant::now();
        loop {
            let mut cluster = Self::configure();
            // Another process may have taken a port in between: then all of them are others.
            if (0..NODES).all(|number| cluster.spawn(number, begin)) {
                let _ = cluster.wait("a leader of the cluster", |cluster| cluster.meta_leader());
                return cluster;
            }
        }
    }

    /// Writes the configurations of three nodes on free ports.
    fn configure() -> Self {
        let dir = tempfile::tempdir().expect("create the cluster's directory");
        let routes: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
        let all: Vec<String> = routes
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        let all = all.join(", ");
        let nodes = routes.iter().enumerate().map(|(number, route)| {
            let node = Node {
                child: None,
                dir: dir.path().join(format!("n{number}")),
                port: free_port(),
                monitor: free_port(),
            };
            // Clients use the addresses that they were given: a test may put a proxy between.
            let text = format!(
                "server_name: n{number}\nlisten: \"127.0.0.1:{}\"\nhttp: \"127.0.0.1:{}\"\n\
                 jetstream {{ store_dir: {:?} }}\n\
                 cluster {{ name: test, listen: \"127.0.0.1:{route}\", no_advertise: true, \
                 routes: [{all}] }}\n",
                node.port,
                node.monitor,
                node.dir.join("store"),
            );
            fs::create_dir(&node.dir).expect("create a node's directory");
            fs::write(node.dir.join("server.conf"), text).expect("write a configuration");
            node
        });
        Self {
            nodes: nodes.collect(),
            _dir: dir,
        }
    }

    /// Returns the addresses of all nodes, separated by commas.
    #[must_use]
    pub fn url(&self) -> String {
        let urls = self.ports().map(|port| format!("nats://127.0.0.1:{port}"));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Returns the ports of all nodes.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.nodes.iter().map(|node| node.port)
    }

    /// Kills a node.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.nodes[number].child.take() {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
    }

    /// Starts a node that was killed, with the same store and ports, and waits until it is part of
    /// the cluster again.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        let begin = Instant::now();
        while !self.spawn(number, begin) {} // another process has its port for a moment
        self.wait("the node is healthy", |cluster| {
            let node = &cluster.nodes[number];
            get(node.monitor, "/healthz").filter(|reply| reply["status"] == "ok")
        });
    }

    /// Returns the node that leads a stream, if the stream exists and a running node leads it.
    #[must_use]
    pub fn leader(&self, stream: &str) -> Option<usize> {
        let reply = self.ask("/jsz?accounts=true&streams=true")?;
        let accounts = reply["account_details"].as_array()?.iter();
        let mut streams = accounts
            .filter_map(|it| it["stream_detail"].as_array())
            .flatten();
        let found = streams.find(|it| it["name"] == stream)?;
        let name = found["cluster"]["leader"].as_str()?;
        let number = name.strip_prefix('n')?.parse().ok()?;
        let node: &Node = self.nodes.get(number)?;
        node.child.is_some().then_some(number)
    }

    fn meta_leader(&self) -> Option<String> {
        let reply = self.ask("/jsz")?;
        let meta = &reply["meta_cluster"];
        let is_whole = meta["cluster_size"] == NODES;
        let leader = meta["leader"].as_str().filter(|name| !name.is_empty())?;
        is_whole.then(|| leader.to_owned())
    }

    /// Asks the first node that answers.
    fn ask(&self, page: &str) -> Option<Value> {
        let running = self.nodes.iter().filter(|node| node.child.is_some());
        running.filter_map(|node| get(node.monitor, page)).next()
    }

    /// Starts a node. Returns false if another process has one of its ports.
    fn spawn(&mut self, number: usize, begin: Instant) -> bool {
        let node = &mut self.nodes[number];
        node.child = start(&node.dir.join("server.conf"), &node.dir, node.port, begin);
        node.child.is_some()
    }

    fn wait<T>(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = holds(self) {
                return value;
            }
            assert!(start.elapsed() < PATIENCE, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for NatsCluster {
    fn drop(&mut self) {
        (0..NODES).for_each(|number| self.kill(number));
    }
}

/// Returns a monitoring page.
fn get(port: u16, page: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let limit = Some(Duration::from_secs(5));
    stream.set_read_timeout(limit).ok()?;
    let request = format!("GET {page} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let (_, body) = reply.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}
