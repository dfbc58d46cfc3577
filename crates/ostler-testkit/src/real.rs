//! Real agents: pinned, installed once from npm into the build tree, and found there by tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler_agents::{Group, Install, Manifest};

/// A real agent, pinned to a version.
#[derive(Debug, Clone, Copy)]
pub struct Pinned {
    /// Its name in Ostler.
    pub name: &'static str,
    /// Whether it is so big or slow that only `--all-agents` runs it.
    pub heavy: bool,
    install: &'static Install,
}

/// Returns all pinned agents.
pub fn all() -> impl Iterator<Item = Pinned> {
    ostler_agents::all().iter().filter_map(Pinned::of)
}

/// Returns the pinned agent with this name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn pinned(name: &str) -> Pinned {
    all()
        .find(|pinned| pinned.name == name)
        .unwrap_or_else(|| panic!("no manifest of {name} says how to install it"))
}

impl Pinned {
    fn of(manifest: &'static Manifest) -> Option<Self> {
        Some(Self {
            name: manifest.name,
            heavy: manifest.group == Group::Heavy,
            install: manifest.install.as_ref()?,
        })
    }

    /// Returns the version of the npm package.
    #[must_use]
    pub fn version(self) -> &'static str {
        &self.install.version
    }

    /// Returns the version that the program reports: usually the same.
    #[must_use]
    pub fn reported_version(self) -> &'static str {
        self.install.reported_version()
    }

    /// Installs the agent under `<target>/agents` unless it is installed, and returns its program.
    ///
    /// Concurrent callers share one download: the first installs, the others wait.
    ///
    /// # Errors
    /// One sentence with the fix: npm is missing, npm failed, or this platform has no build.
    pub fn install(self, target: &Path) -> Result<PathBuf, String> {
        let home = self.home(target);
        if let Some(program) = self.program_in(&home) {
            return Ok(program);
        }
        let agents = target.join("agents");
        let failed = |kind: &str, error: std::io::Error| {
            format!("cannot {kind} in {}: {error}", agents.display())
        };
        fs::create_dir_all(&agents).map_err(|error| failed("create the directory", error))?;
        let lock = File::create(agents.join("install.lock"))
            .map_err(|error| failed("create a lock", error))?;
        lock.lock()
            .map_err(|error| failed("take the lock", error))?;
        if let Some(program) = self.program_in(&home) {
            return Ok(program);
        }
        // Installs into a temporary directory first: a killed install must not look complete.
        let fresh = tempfile::Builder::new()
            .prefix("installing-")
            .tempdir_in(&agents)
            .map_err(|error| failed("create a directory", error))?;
        let package = self.install.package(self.name).to_string();
        fs::write(fresh.path().join("package.json"), package)
            .map_err(|error| failed("write", error))?;
        fs::copy(self.lock_file(), fresh.path().join("package-lock.json"))
            .map_err(|error| failed("write", error))?;
        npm(fresh.path(), &["ci"])?;
        if self.program_in(fresh.path()).is_none() {
            let (os, arch, name) = (std::env::consts::OS, std::env::consts::ARCH, self.name);
            return Err(format!(
                "npm has no {name} for {os} on {arch}; run the other tests without it"
            ));
        }
        if home.exists() {
            fs::remove_dir_all(&home).map_err(|error| failed("clear a broken install", error))?;
        }
        fs::rename(fresh.keep(), &home).map_err(|error| failed("move the install", error))?;
        self.program_in(&home)
            .ok_or_else(|| format!("npm installed no program in {}", home.display()))
    }

    /// Resolves the packages of the manifest with npm, and writes the lock file beside it.
    ///
    /// # Errors
    /// One sentence with the fix: npm is missing or failed, or a file cannot be written.
    pub fn lock(self) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| format!("cannot lock {}: {error}", self.name);
        let dir = tempfile::tempdir().map_err(failed)?;
        let package = self.install.package(self.name).to_string();
        fs::write(dir.path().join("package.json"), package).map_err(failed)?;
        npm(
            dir.path(),
            &[
                "install",
                "--package-lock-only",
                "--omit-lockfile-registry-resolved",
            ],
        )?;
        let file = self.lock_file();
        fs::copy(dir.path().join("package-lock.json"), &file).map_err(failed)?;
        Ok(file)
    }

    /// Returns the program of the installed agent.
    ///
    /// # Panics
    /// If it is not installed; the message says how to install it.
    #[must_use]
    pub fn program(self) -> PathBuf {
        let home = self.home(&target_dir().expect("find the build's target directory"));
        self.program_in(&home).unwrap_or_else(|| {
            let more = if self.heavy { " --all" } else { "" };
            panic!(
                "{} is not installed in {}; run: cargo xtask agents{more}",
                self.name,
                home.display()
            )
        })
    }

    /// Returns its installation directory.
    #[must_use]
    pub fn home(self, target: &Path) -> PathBuf {
        target
            .join("agents")
            .join(format!("{}-{}", self.name, self.version()))
    }

    /// Returns the possible paths of its program in the npm directory.
    pub fn programs(self) -> impl Iterator<Item = String> {
        let programs = self.install.programs.iter();
        programs.map(|program| format!("node_modules/{program}"))
    }

    /// Returns the directories that come first in its `PATH`.
    pub fn path(self, target: &Path) -> impl Iterator<Item = PathBuf> {
        let modules = self.home(target).join("node_modules");
        let directories = self.install.path.iter().map(move |path| modules.join(path));
        directories.filter(|directory| directory.is_dir())
    }

    /// Returns the lock file that npm installs it from, with checksums.
    fn lock_file(self) -> PathBuf {
        let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ostler-agents/agents");
        agents.join(self.name).join("package-lock.json")
    }

    // npm installs only the package for this platform, so the one that exists is the right one.
    fn program_in(self, home: &Path) -> Option<PathBuf> {
        self.programs()
            .map(|program| home.join(program))
            .find(|program| program.is_file())
    }
}

/// Returns the program of the installed Claude Code.
///
/// # Panics
/// If it is not installed; the message says how to install it.
#[must_use]
pub fn claude() -> PathBuf {
    pinned("claude").program()
}

/// Returns the complete environment that an agent needs to use a scripted model, and writes its
/// files into `home`.
///
/// # Panics
/// If a file cannot be written.
#[must_use]
pub fn offline_env(manifest: &'static Manifest, home: &Path, url: &str) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let target = target_dir().expect("find the build's target directory");
    let own = Pinned::of(manifest).into_iter();
    let own = own.flat_map(|pinned| pinned.path(&target));
    let path = own.fold(path, |path, first| format!("{}:{path}", first.display()));
    let mut env = vec![("PATH".to_owned(), path)];
    match &manifest.redirection {
        Some(redirection) => {
            redirection
                .write_files(home, url)
                .expect("write the agent's files");
            env.extend(redirection.env(home, url));
        }
        None => env.push(("HOME".to_owned(), home.display().to_string())),
    }
    env
}

/// Returns the build's target directory: above the running program, or as named by
/// `CARGO_TARGET_DIR`.
#[must_use]
pub fn target_dir() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Cargo puts the first file at the top of every target directory that it creates itself, and
    // the second one also where another program created it.
    let above = program
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file() || dir.join(".rustc_info.json").is_file());
    above
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
}

fn npm(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("npm");
    command.args(args).args([
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    let output = command
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!(
                "cannot start npm ({error}); install Node.js with npm, then run: cargo xtask agents"
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("no reason given");
    Err(format!(
        "npm {} failed ({reason}); check the network, then run: cargo xtask agents",
        args[0]
    ))
}

/// Returns a program of this workspace that was built beside the tests.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the running test");
    let dir = test
        .parent()
        .and_then(std::path::Path::parent)
        .expect("tests are built into target/…/deps");
    let program = dir.join(name);
    assert!(
        program.is_file(),
        "{} is not built; run: cargo build --workspace",
        program.display()
    );
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_file_has_the_pinned_version_checksums_and_no_download_address() {
        for agent in all() {
            let text = fs::read_to_string(agent.lock_file()).unwrap();
            let lock: serde_json::Value = serde_json::from_str(&text).unwrap();
            let package = agent.install.package(agent.name);
            let listed =
                ["dependencies", "optionalDependencies"].map(|kind| package[kind].as_object());
            let wanted: Vec<_> = listed.into_iter().flatten().flatten().collect();
            assert!(
                wanted
                    .iter()
                    .any(|(_, version)| version.as_str().unwrap().contains(agent.version())),
                "{}",
                agent.name
            );
            for (name, version) in wanted {
                let locked = &lock["packages"][format!("node_modules/{name}")];
                // npm omits packages that this platform cannot use.
                if locked.is_object() {
                    assert!(
                        version
                            .as_str()
                            .unwrap()
                            .ends_with(locked["version"].as_str().unwrap()),
                        "{name}"
                    );
                }
            }
            let packages = lock["packages"].as_object().unwrap();
            assert!(packages.len() > 1);
            // A bundled package is covered by the checksum of its parent.
            let own = |locked: &serde_json::Value| locked["inBundle"] != true;
            for (name, locked) in packages
                .iter()
                .filter(|(name, locked)| !name.is_empty() && own(locked))
            {
                assert!(
                    locked["integrity"]
                        .as_str()
                        .unwrap_or_default()
                        .starts_with("sha512-"),
                    "{name}"
                );
            }
            assert!(!text.contains("resolved"));
        }
    }
}
