//! Commands that a model may not run, in any spelling. Nothing is started here.

mod attacks;
mod path_arguments;
mod repositories;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ostler_tools::command::{ApprovedCommand, CommandContext, Commands};
use ostler_tools::{SandboxPolicy, ToolError, Workspace};

/// A workspace next to files that must not be touched. Stub programs replace those that may not be
/// installed.
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
            policy: policy.parse().unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Checks a call against the rules, with `path` as PATH.
    fn check_with_path(
        &self,
        path: &OsStr,
        command: &str,
        args: &[&str],
    ) -> Result<ApprovedCommand, ToolError> {
        let workspace = Workspace::open(&self.at("work"), &self.policy.files).unwrap();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let is_denied = |path: &Path| workspace.is_denied(path);
        let context = CommandContext {
            root: workspace.root(),
            path,
            is_denied: &is_denied,
        };
        Commands::new(&self.policy.commands)
            .unwrap()
            .check(command, &args, &context)
    }

    fn check(&self, command: &str, args: &[&str]) -> Result<ApprovedCommand, ToolError> {
        self.check_with_path(self.at("bin").as_os_str(), command, args)
    }

    /// Returns the code of a refusal.
    fn refused(&self, command: &str, args: &[&str]) -> &'static str {
        let result = self.check(command, args);
        assert!(
            result.is_err(),
            "{command} {:?} was allowed",
            args.get(..9).unwrap_or(args)
        );
        result.unwrap_err().code.as_str()
    }
}

fn program(path: &Path) {
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
