//! Commands that a model may not run, however it spells them; nothing is started here.

mod attacks;
mod places;
mod repositories;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ostler_tools::command::{Approved, Commands, Place};
use ostler_tools::{SandboxPolicy, ToolError, Workspace};

/// A workspace below a directory that holds what must not be touched; programs stand in for those that may not be installed.
struct Scene {
    dir: tempfile::TempDir,
    policy: SandboxPolicy,
}

impl Scene {
    fn new(policy: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work/src", "bin", "outside"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("outside/file"), "outside").unwrap();
        fs::write(dir.path().join("work/.env"), "SECRET=1").unwrap();
        for name in ["bin/git", "bin/just", "bin/cat"] {
            program(&dir.path().join(name));
        }
        Self {
            dir,
            policy: SandboxPolicy::parse(policy).unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// What the rules say, with `path` as PATH.
    fn ask(&self, path: &OsStr, command: &str, args: &[&str]) -> Result<Approved, ToolError> {
        let workspace = Workspace::open(&self.at("work"), &self.policy.files).unwrap();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let is_denied = |path: &Path| workspace.is_denied(path);
        let place = Place {
            root: workspace.root(),
            path,
            is_denied: &is_denied,
        };
        Commands::new(&self.policy.commands)
            .unwrap()
            .check(command, &args, &place)
    }

    fn check(&self, command: &str, args: &[&str]) -> Result<Approved, ToolError> {
        self.ask(self.at("bin").as_os_str(), command, args)
    }

    /// The code of a refusal.
    fn refused(&self, command: &str, args: &[&str]) -> &'static str {
        let said = self.check(command, args);
        assert!(
            said.is_err(),
            "{command} {:?} was let through",
            args.get(..9).unwrap_or(args)
        );
        said.unwrap_err().code.as_str()
    }
}

fn program(path: &Path) {
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
