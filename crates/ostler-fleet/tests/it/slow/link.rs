//! The connection of the worker that is cut off: a pair of virtual interfaces between two network
//! namespaces where this process may create them, and a proxy on loopback otherwise.
//!
//! A namespace exists as long as its processes, and its interfaces with it. Nothing is left,
//! however the test ends, and no address of the machine itself changes.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::proxy::Proxy;
use crate::rig::PATIENCE;

/// Variable that says that this process is in a namespace of its own.
const IN_NAMESPACE: &str = "FLEET_CHAOS_IN_NAMESPACE";
/// Interface and address on the side of the servers. The addresses are for documentation.
const NEAR: (&str, &str) = ("near", "192.0.2.1");
/// Interface and address on the side of the worker.
const FAR: (&str, &str) = ("far", "192.0.2.2");

/// Runs a test of this binary in a network namespace, if this process may create one and is not in
/// it yet.
pub(super) fn run_in_namespace(test: &str) -> Option<ExitStatus> {
    if is_in_namespace() {
        return None;
    }
    if !can_create() {
        assert!(
            std::env::var_os("CI").is_none(),
            "this process cannot create network namespaces"
        );
        return None;
    }
    let status = Command::new("unshare")
        .args(["--net", "--", "sh", "-c"])
        .arg("ip link set lo up && exec \"$@\"")
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(IN_NAMESPACE, "1")
        .status();
    Some(status.unwrap())
}

fn is_in_namespace() -> bool {
    std::env::var_os(IN_NAMESPACE).is_some()
}

/// Tries in a namespace of its own what a link needs.
fn can_create() -> bool {
    let tried = Command::new("unshare")
        .args(["--net", "--", "sh", "-c"])
        .arg("ip link add near type veth peer name far && nsenter --net=/proc/self/ns/net true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// The connection. Dropping it ends it.
pub(super) struct Link {
    proxy: Proxy,
    namespace: Option<WorkerNamespace>,
}

impl Link {
    /// Connects a worker with the first of these ports of loopback that accepts a connection.
    pub(super) async fn start(ports: Vec<u16>) -> Self {
        let namespace = is_in_namespace().then(WorkerNamespace::create);
        let address = match namespace {
            Some(_) => NEAR.1,
            None => "127.0.0.1",
        };
        Self {
            proxy: Proxy::start(address, ports).await,
            namespace,
        }
    }

    /// Returns what is cut.
    pub(super) fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "the link of its network namespace",
            None => "a proxy, because this process cannot create network namespaces",
        }
    }

    pub(super) fn url(&self) -> String {
        self.proxy.url()
    }

    /// Returns the command that runs another one on the side of the worker.
    pub(super) fn enter(&self) -> Vec<String> {
        let namespace = self.namespace.as_ref();
        namespace.map_or_else(Vec::new, WorkerNamespace::enter)
    }

    pub(super) fn cut(&self) {
        match &self.namespace {
            Some(_) => set(NEAR.0, "down"),
            None => self.proxy.cut(),
        }
    }

    pub(super) fn restore(&self) {
        match &self.namespace {
            Some(_) => set(NEAR.0, "up"),
            None => self.proxy.restore(),
        }
    }
}

/// Namespace of a worker. A process that ends with this one keeps it.
struct WorkerNamespace(Child);

impl WorkerNamespace {
    /// Creates a namespace, and connects it with that of this process.
    fn create() -> Self {
        let keeper = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let namespace = Self(keeper.unwrap());
        let pid = namespace.0.id();
        let file = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        let begin = Instant::now();
        while file(&pid.to_string()) == file("self") {
            assert!(begin.elapsed() < PATIENCE, "no namespace");
            std::thread::sleep(Duration::from_millis(5));
        }
        let peer = ["peer", "name", FAR.0, "netns", &pid.to_string()];
        run(&[&["ip", "link", "add", NEAR.0, "type", "veth"], &peer[..]].concat());
        let address = |side: (&str, &str)| format!("{}/24", side.1);
        run(&["ip", "address", "add", &address(NEAR), "dev", NEAR.0]);
        set(NEAR.0, "up");
        let enter = namespace.enter();
        let enter: Vec<&str> = enter.iter().map(String::as_str).collect();
        let far = address(FAR);
        for args in [
            &["ip", "address", "add", &far, "dev", FAR.0][..],
            &["ip", "link", "set", FAR.0, "up"],
            &["ip", "link", "set", "lo", "up"],
        ] {
            run(&[&enter, args].concat());
        }
        namespace
    }

    fn enter(&self) -> Vec<String> {
        let file = format!("--net=/proc/{}/ns/net", self.0.id());
        vec!["nsenter".to_owned(), file, "--".to_owned()]
    }
}

impl Drop for WorkerNamespace {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

fn set(interface: &str, state: &str) {
    run(&["ip", "link", "set", interface, state]);
}

fn run(args: &[&str]) {
    let status = Command::new(args[0]).args(&args[1..]).status();
    assert!(status.unwrap().success(), "{args:?}");
}
