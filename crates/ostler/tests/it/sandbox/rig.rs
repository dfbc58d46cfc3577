//! A workspace with an attack in it, a home with a secret next to it, and a policy that lets the
//! attack run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::Host;
use ostler::sandbox::{CommandRunner, KilledFor, SandboxPolicy};
use ostler::tools::confine::Report;
use ostler::tools::{Code, ToolError, Workspace};
use ostler_testkit::machine::{self, Need};
use serde_json::{Value, json};

/// The secret that no command may read.
pub(super) const SECRET: &str = "canary-7f3a";

/// A workspace, a home and a directory outside both.
pub(super) struct Scene {
    dir: tempfile::TempDir,
    vars: Vec<(String, String)>,
    policy: String,
}

/// Result of a command.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) text: String,
    pub(super) json: Value,
}

impl Scene {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["work", "home/.ssh", "outside"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("home/.ssh/id_ed25519"), SECRET).unwrap();
        fs::write(at("home/notes"), SECRET).unwrap();
        fs::write(at("outside/file"), SECRET).unwrap();
        let home = at("home").into_os_string().into_string().unwrap();
        let vars = vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), home),
        ];
        Self {
            dir,
            vars,
            policy: "[[command]]\nname = \"./attack\"\n".to_owned(),
        }
    }

    /// Adds settings to the `[sandbox]` section of the policy.
    pub(super) fn sandbox(mut self, settings: &str) -> Self {
        self.policy = format!("[sandbox]\n{settings}\n{}", self.policy);
        self
    }

    pub(super) fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the unique name of this scene's session.
    pub(super) fn session(&self) -> String {
        format!("session-{}", self.dir.path().file_name().unwrap().display())
    }

    /// Returns the processes of this scene, wherever they went.
    pub(super) fn left(&self) -> Vec<u32> {
        ostler_testkit::processes::marked(&format!("OSTLER_SESSION={}", self.session()))
    }

    /// Returns a unique duration for `sleep`, which identifies processes that a command left
    /// behind.
    pub(super) fn nap(&self) -> String {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        format!(
            "300.{}",
            BuildHasherDefault::<DefaultHasher>::default().hash_one(self.session())
        )
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(super) fn work(&self) -> PathBuf {
        self.at("work")
    }

    /// Puts the script `./attack` into the workspace.
    pub(super) fn attack(&self, script: &str) -> &Self {
        program(&self.work().join("attack"), script);
        self
    }

    pub(super) fn runner(&self) -> CommandRunner {
        let policy: SandboxPolicy = self.policy.parse().unwrap();
        let workspace = Arc::new(Workspace::open(&self.work(), &policy.files).unwrap());
        let vars = self
            .vars
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        CommandRunner::new(&Host::new(vars), &policy, workspace, &self.session()).unwrap()
    }

    pub(super) async fn call(&self, command: &str, args: &[&str]) -> Result<Done, ToolError> {
        let input = json!({ "command": command, "args": args }).to_string();
        let output = self.runner().execute(&input).await?;
        if output.killed_for == Some(KilledFor::Time) {
            return Err(ToolError::new(Code::TimedOut, output.text()));
        }
        Ok(Done {
            text: output.text(),
            json: serde_json::to_value(&output).unwrap(),
        })
    }

    /// Runs the attack, and checks that everything outside is unchanged.
    pub(super) async fn run(&self) -> Done {
        let done = self.call("./attack", &[]).await.unwrap();
        self.assert_outside_unchanged();
        done
    }

    pub(super) fn assert_outside_unchanged(&self) {
        let names = |dir: &str| {
            let mut all: Vec<String> = fs::read_dir(self.at(dir))
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            all.sort();
            all
        };
        assert_eq!(names("outside"), ["file"]);
        assert_eq!(names("home"), [".ssh", "notes"]);
        assert_eq!(names("home/.ssh"), ["id_ed25519"]);
        for file in ["outside/file", "home/notes", "home/.ssh/id_ed25519"] {
            assert_eq!(fs::read_to_string(self.at(file)).unwrap(), SECRET);
        }
    }
}

impl Done {
    pub(super) fn code(&self) -> Option<i64> {
        self.json["exit_code"].as_i64()
    }

    pub(super) fn stdout(&self) -> &str {
        self.json["stdout"].as_str().unwrap()
    }

    /// Fails if the secret appears anywhere in the result.
    pub(super) fn assert_no_secret(&self) {
        assert!(!self.text.contains(SECRET), "{}", self.text);
    }
}

/// Writes a program.
pub(super) fn program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns true if the machine enforces a layer that a test needs. Where CI is set, a missing layer
/// fails the test.
pub(super) fn has(report: &Report, layer: &str, test: &str) -> bool {
    let is_there = report
        .layers
        .iter()
        .any(|known| known.name == layer && known.enforced);
    machine::can_run(
        test,
        &Need::of(is_there, || {
            format!("this machine does not enforce {layer}")
        }),
    )
}

/// Returns true if a program that a test needs is installed. Where CI is set, a missing one fails
/// the test.
pub(super) fn installed(name: &str, test: &str) -> bool {
    machine::can_run(test, &Need::program(name))
}
