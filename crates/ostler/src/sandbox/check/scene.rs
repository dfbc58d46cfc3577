//! A workspace for the attempts and its surroundings: a home with a key, other files, and listening
//! services.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_core::spec::Sandbox;
use ostler_tools::confine::Required;
use ostler_tools::{SandboxPolicy, ToolError, Workspace};

use super::{Finding, Verdict};
use crate::command::CommandRunner;
use crate::host::{GuardProgram, Host};
use crate::process::{self, Child, PreparedCommand};

const SECRET: &str = "canary";

/// Tokens that agents store in a home directory: the attempt to read one, its description, and its
/// path.
pub(super) const TOKENS: [(&str, &str, &str); 8] = [
    (
        "agent_claude_token",
        "read Claude Code's token",
        ".claude/.credentials.json",
    ),
    (
        "agent_codex_token",
        "read Codex's token",
        ".codex/auth.json",
    ),
    (
        "agent_copilot_token",
        "read Copilot's token",
        ".config/github-copilot/apps.json",
    ),
    (
        "agent_gemini_token",
        "read Gemini's token",
        ".gemini/oauth_creds.json",
    ),
    (
        "agent_opencode_token",
        "read opencode's token",
        ".local/share/opencode/auth.json",
    ),
    (
        "agent_goose_token",
        "read goose's token",
        ".config/goose/secrets.yaml",
    ),
    (
        "agent_qwen_token",
        "read Qwen Code's token",
        ".qwen/oauth_creds.json",
    ),
    (
        "agent_ostler",
        "read Ostler's own configuration",
        ".config/ostler/policy.toml",
    ),
];
/// Number of entries in the home directory.
const HOME_ENTRIES: usize = 8;
const POLICY: &str = "# untouched\n";

pub(super) struct Scene {
    dir: tempfile::TempDir,
    root: PathBuf,
    host: Host,
    tcp: TcpListener,
    udp: UdpSocket,
    local: UnixListener,
    hidden: UnixListener,
    datagrams: UnixDatagram,
    bystander: Option<Child>,
}

impl Scene {
    pub(super) fn new(host: &Host) -> Result<Self, ToolError> {
        let make = || -> io::Result<Self> {
            let dir = tempfile::Builder::new()
                .prefix("ostler-check-")
                .tempdir_in(host.temp_dir())?;
            let root = dir.path().canonicalize()?;
            lay_out(&root)?;
            let hidden = SocketAddr::from_abstract_name(name_of(&root))?;
            let scene = Self {
                host: host
                    .clone()
                    .with("HOME", root.join("home"))
                    .with("CANARY_API_KEY", SECRET),
                tcp: TcpListener::bind("127.0.0.1:0")?,
                udp: UdpSocket::bind("127.0.0.1:0")?,
                local: UnixListener::bind(root.join("work/socket"))?,
                hidden: UnixListener::bind_addr(&hidden)?,
                datagrams: UnixDatagram::bind(root.join("work/datagrams"))?,
                bystander: None,
                dir,
                root,
            };
            scene.tcp.set_nonblocking(true)?;
            scene.udp.set_nonblocking(true)?;
            scene.local.set_nonblocking(true)?;
            scene.hidden.set_nonblocking(true)?;
            scene.datagrams.set_nonblocking(true)?;
            Ok(scene)
        };
        make().map_err(|error| failed(format!("the attempts cannot be set up: {error}")))
    }

    /// Creates a runner for the workspace.
    pub(super) fn runner(&self, policy: &SandboxPolicy) -> Result<CommandRunner, ToolError> {
        let workspace = Arc::new(Workspace::open(&self.root.join("work"), &policy.files)?);
        CommandRunner::new(&self.host, policy, workspace, &self.session())
    }

    /// Starts a process as the target of attempts: Ostler itself must survive one that succeeds.
    pub(super) async fn start_bystander(
        &mut self,
        attempter: &GuardProgram,
    ) -> Result<(), ToolError> {
        let child = process::spawn(Box::new(self.attempt(attempter, "idle", "")?)).await;
        self.bystander = Some(child.map_err(failed)?);
        Ok(())
    }

    /// Fills in the places of an argument: the pid of that process, the addresses of services, and
    /// the directory of the scene.
    pub(super) fn fill(&self, about: &str) -> String {
        let pid = self.bystander.as_ref().and_then(|child| child.pid);
        let port = |address: io::Result<std::net::SocketAddr>| {
            address.map_or_else(|_| String::new(), |to| to.port().to_string())
        };
        about
            .replace(
                "{process}",
                &pid.map_or_else(String::new, |pid| pid.to_string()),
            )
            .replace("{tcp}", &port(self.tcp.local_addr()))
            .replace("{udp}", &port(self.udp.local_addr()))
            .replace("{abstract}", &name_of(&self.root))
            .replace("{root}", &self.root.display().to_string())
    }

    /// Returns an attempt that is not confined yet.
    pub(super) fn attempt(
        &self,
        attempter: &GuardProgram,
        name: &str,
        about: &str,
    ) -> Result<PreparedCommand, ToolError> {
        let program = attempter.program.to_string_lossy().into_owned();
        let words = [vec![program], arguments(attempter, name, about)].concat();
        let mut prepared =
            PreparedCommand::user_command(&self.host, &words, &self.root.join("work"))
                .map_err(failed)?;
        prepared.guard = self.host.guard().cloned();
        Ok(prepared)
    }

    /// Returns an attempt that is confined like an agent that may write to its workspace.
    pub(super) fn agent(
        &self,
        attempter: &GuardProgram,
        name: &str,
        about: &str,
    ) -> Result<PreparedCommand, ToolError> {
        let mut prepared = self.attempt(attempter, name, about)?;
        let dir = self.root.join("work");
        let wanted = process::SandboxRequest {
            sandbox: Sandbox::WorkspaceWrite,
            dir: &dir,
            added: &[],
            state: &[],
            required: Required::Nothing,
        };
        process::confine_agent(&mut prepared, &self.host, &wanted).map_err(failed)?;
        Ok(prepared)
    }

    pub(super) fn at(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    /// Whether anything around the workspace shows traces of an attempt, whatever the attempt
    /// itself reports.
    pub(super) fn is_touched(&self) -> bool {
        let is_idle = |error: io::Error| error.kind() == ErrorKind::WouldBlock;
        let was_reached = !self.tcp.accept().is_err_and(is_idle)
            || !self.udp.recv(&mut [0; 8]).is_err_and(is_idle)
            || !self.local.accept().is_err_and(is_idle)
            || !self.hidden.accept().is_err_and(is_idle)
            || !self.datagrams.recv(&mut [0; 8]).is_err_and(is_idle);
        let count = |dir: &str| std::fs::read_dir(self.root.join(dir)).map_or(0, Iterator::count);
        let holds = |file: &str| {
            std::fs::read_to_string(self.root.join(file)).is_ok_and(|text| text == SECRET)
        };
        was_reached
            || count(".") != 3
            || count("outside") != 1
            || count("home") != HOME_ENTRIES
            || !holds("outside/file")
    }

    /// Whether the changes of an attempt were undone.
    pub(super) fn is_undone(&self) -> bool {
        let policy = std::fs::read_to_string(self.root.join("work/.ostler/sandbox.toml"));
        let planted = ["work/.git/hooks/pre-commit", "work/ostler.toml"]
            .iter()
            .any(|file| self.root.join(file).exists());
        policy.is_ok_and(|text| text == POLICY)
            && !planted
            && !process::is_anything_left(&self.session())
    }

    /// Restores everything, in case an attempt succeeded: attempts must not affect each other.
    pub(super) fn put_back(&self) {
        for name in [
            "outside",
            "home",
            "work/.git",
            "work/.ostler",
            "tmp-of-others",
            "work/ostler.toml",
            "work/lib",
        ] {
            let path = self.root.join(name);
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
        let _ = lay_out(&self.root);
        let _ = self.is_touched(); // drains the sockets
    }

    /// Returns the session id of the attempts.
    fn session(&self) -> String {
        name_of(self.dir.path())
    }

    /// Makes the attempts that rules stop, in a workspace with a repository that has more files
    /// that git obeys.
    pub(super) fn rules(&self) -> Result<Vec<Finding>, ToolError> {
        let work = self.root.join("work");
        let lay_out = || -> io::Result<()> {
            for dir in [
                "bare/objects",
                "bare/refs",
                ".githooks",
                ".git/objects",
                ".git/refs",
                ".git/worktrees/x",
            ] {
                std::fs::create_dir_all(work.join(dir))?;
            }
            for (file, text) in [
                ("bare/HEAD", "ref: refs/heads/main\n"),
                (".git/HEAD", "ref: refs/heads/main\n"),
                (
                    ".git/config",
                    "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ../included\n",
                ),
            ] {
                std::fs::write(work.join(file), text)?;
            }
            Ok(())
        };
        lay_out().map_err(failed)?;
        let workspace = Workspace::open(&work, &SandboxPolicy::default().files)?;
        let write = |path: &str| {
            let input = serde_json::json!({ "path": path, "content": "x" }).to_string();
            workspace.call("write_file", &input).map(drop)
        };
        let runner = self.runner(&SandboxPolicy::default())?;
        Ok(super::rules::findings(&write, &runner))
    }

    /// Uses the file tools on paths outside the workspace.
    pub(super) fn file_tools(&self) -> Vec<Finding> {
        let outside = self.at("outside/file");
        let _ = std::os::unix::fs::symlink(&outside, self.root.join("work/tool-link"));
        let ask = |path: &str| -> (Verdict, String) {
            let input = serde_json::json!({ "path": path }).to_string();
            let workspace =
                Workspace::open(&self.root.join("work"), &SandboxPolicy::default().files);
            match workspace.and_then(|workspace| workspace.call("read_file", &input)) {
                Ok(_) => (Verdict::Leaked, String::new()),
                Err(error) if error.code.is_denial() => (Verdict::Held, error.message),
                Err(error) => (Verdict::Untried, error.message),
            }
        };
        let table = [
            (
                "tool_climb",
                "read a file outside with a file tool, through ..",
                "../outside/file",
            ),
            (
                "tool_absolute",
                "read it by its absolute path",
                outside.as_str(),
            ),
            ("tool_link", "read it through a link", "tool-link"),
        ];
        let finding = |(name, what, path)| {
            let (result, detail) = ask(path);
            Finding {
                name,
                what,
                layer: "file tools",
                result,
                detail,
            }
        };
        table.map(finding).into()
    }
}

/// Returns the arguments with which a program makes an attempt.
pub(super) fn arguments(attempter: &GuardProgram, name: &str, about: &str) -> Vec<String> {
    let own = attempter.args.iter().map(|arg| arg.to_string_lossy());
    own.chain([name.into(), about.into()])
        .map(Cow::into_owned)
        .collect()
}

fn lay_out(root: &Path) -> io::Result<()> {
    for name in ["work/.ostler", "work/.git/hooks", "home/.ssh", "outside"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    for name in [
        "home/.ssh/id_ed25519",
        "home/notes",
        "outside/file",
        "work/inside",
    ] {
        std::fs::write(root.join(name), SECRET)?;
    }
    for name in TOKENS.map(|(_, _, name)| root.join("home").join(name)) {
        std::fs::create_dir_all(name.parent().unwrap_or(root))?;
        std::fs::write(name, SECRET)?;
    }
    std::fs::write(root.join("work/.ostler/sandbox.toml"), POLICY)
}

fn failed(error: impl std::fmt::Display) -> ToolError {
    ToolError::io(error.to_string())
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
