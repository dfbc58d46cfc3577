//! A workspace for the attempts, and what lies around it: a home with a key, files of others, services that listen.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_tools::{Code, Policy, ToolError, Workspace};

use super::{Finding, Verdict};
use crate::command::{CommandOutput, CommandRunner};
use crate::host::Host;

const SECRET: &str = "canary";
const POLICY: &str = "# untouched\n";

pub(super) struct Scene {
    dir: tempfile::TempDir,
    root: PathBuf,
    host: Host,
    tcp: TcpListener,
    udp: UdpSocket,
    local: UnixListener,
    hidden: UnixListener,
}

impl Scene {
    pub(super) fn new(host: &Host) -> Result<Self, ToolError> {
        let make = || -> io::Result<Self> {
            let dir = tempfile::Builder::new().prefix("ostler-check-").tempdir_in(host.temp_dir())?;
            let root = dir.path().canonicalize()?;
            for name in ["work/.ostler", "work/.git/hooks", "home/.ssh", "outside"] {
                std::fs::create_dir_all(root.join(name))?;
            }
            for name in ["home/.ssh/id_ed25519", "home/notes", "outside/file", "work/inside"] {
                std::fs::write(root.join(name), SECRET)?;
            }
            std::fs::write(root.join("work/.ostler/sandbox.toml"), POLICY)?;
            let hidden = SocketAddr::from_abstract_name(name_of(&root))?;
            let scene = Self {
                host: host.clone().with("HOME", root.join("home")).with("CANARY_API_KEY", SECRET),
                tcp: TcpListener::bind("127.0.0.1:0")?,
                udp: UdpSocket::bind("127.0.0.1:0")?,
                local: UnixListener::bind(root.join("work/socket"))?,
                hidden: UnixListener::bind_addr(&hidden)?,
                dir,
                root,
            };
            scene.tcp.set_nonblocking(true)?;
            scene.udp.set_nonblocking(true)?;
            scene.local.set_nonblocking(true)?;
            scene.hidden.set_nonblocking(true)?;
            Ok(scene)
        };
        make().map_err(|error| ToolError::new(Code::Io, format!("the attempts cannot be set up: {error}")))
    }

    /// A runner for the workspace.
    pub(super) fn runner(&self, policy: &Policy) -> Result<CommandRunner, ToolError> {
        let workspace = Arc::new(Workspace::open(&self.root.join("work"), &policy.files)?);
        CommandRunner::new(&self.host, policy, workspace, &name_of(self.dir.path()))
    }

    pub(super) fn at(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    pub(super) fn tcp_port(&self) -> String {
        self.tcp.local_addr().map_or_else(|_| String::new(), |to| to.port().to_string())
    }

    pub(super) fn udp_port(&self) -> String {
        self.udp.local_addr().map_or_else(|_| String::new(), |to| to.port().to_string())
    }

    pub(super) fn abstract_name(&self) -> String {
        name_of(&self.root)
    }

    /// Whether anything around the workspace shows that somebody was there, whatever the attempt itself says.
    pub(super) fn is_touched(&self) -> bool {
        let nobody = |error: io::Error| error.kind() == ErrorKind::WouldBlock;
        let came = !self.tcp.accept().is_err_and(nobody)
            || !self.udp.recv(&mut [0; 8]).is_err_and(nobody)
            || !self.local.accept().is_err_and(nobody)
            || !self.hidden.accept().is_err_and(nobody);
        let count = |dir: &str| std::fs::read_dir(self.root.join(dir)).map_or(0, Iterator::count);
        let holds = |file: &str| std::fs::read_to_string(self.root.join(file)).is_ok_and(|text| text == SECRET);
        came || count(".") != 3 || count("outside") != 1 || count("home") != 2 || !holds("outside/file")
    }

    /// Whether what an attempt did is gone again.
    pub(super) fn is_undone(&self, output: &CommandOutput) -> bool {
        let policy = std::fs::read_to_string(self.root.join("work/.ostler/sandbox.toml"));
        let left = output.stdout.trim().parse().is_ok_and(is_alive);
        policy.is_ok_and(|text| text == POLICY) && !self.root.join("work/.git/hooks/pre-commit").exists() && !left
    }

    /// The file tools, asked for what is outside.
    pub(super) fn file_tools(&self) -> Vec<Finding> {
        let outside = self.at("outside/file");
        let _ = std::os::unix::fs::symlink(&outside, self.root.join("work/tool-link"));
        let ask = |path: &str| -> (Verdict, String) {
            let workspace = match Workspace::open(&self.root.join("work"), &Policy::default().files) {
                Ok(workspace) => workspace,
                Err(error) => return (Verdict::Untried, error.message),
            };
            match workspace.call("read_file", &serde_json::json!({ "path": path }).to_string()) {
                Ok(_) => (Verdict::Leaked, String::new()),
                Err(error) if error.code.is_denial() => (Verdict::Held, error.message),
                Err(error) => (Verdict::Untried, error.message),
            }
        };
        let table = [
            ("tool_climb", "read a file outside with a file tool, by ..", "../outside/file"),
            ("tool_absolute", "read it by its whole path", outside.as_str()),
            ("tool_link", "read it through a link", "tool-link"),
        ];
        let finding = |(name, what, path)| {
            let (result, detail) = ask(path);
            Finding { name, what, layer: "file tools", result, detail }
        };
        table.map(finding).into()
    }
}

/// Whether a process runs; one that has ended and only waits to be counted does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
