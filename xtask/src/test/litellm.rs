//! LiteLLM's proxy, a third-party server for the tests: installed from PyPI into the target
//! directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::programs::{self, PYTHON};
use crate::workspace;

/// The version that the tests were written for.
const VERSION: &str = "1.106.2";

/// Environment variable with the path of the proxy's program.
pub(super) const PROGRAM_VARIABLE: &str = "OSTLER_TEST_LITELLM";

/// Installs the proxy unless it is installed, and returns the path of its program.
pub(super) fn install() -> Result<PathBuf> {
    let home = workspace::target_directory()?.join(format!("litellm-{VERSION}"));
    let program = home.join("bin/litellm");
    let installed = home.join("installed");
    if installed.exists() {
        return Ok(program);
    }
    if let Err(fix) = programs::ensure(&PYTHON) {
        bail!(fix);
    }
    if home.exists() {
        fs::remove_dir_all(&home).context("cannot remove an incomplete installation of LiteLLM")?;
    }
    run(Command::new(PYTHON.name).args(["-m", "venv"]).arg(&home))?;
    let requirement = format!("litellm[proxy]=={VERSION}");
    let pip = home.join("bin/pip");
    run(Command::new(pip).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &requirement,
    ]))?;
    // Written last, so that an interrupted installation does not look complete.
    fs::write(installed, VERSION).context("cannot mark the installation of LiteLLM as complete")?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let status = command
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} failed ({status}): check the network, or omit --with-litellm");
    }
    Ok(())
}
