//! LiteLLM's proxy, as a server that is neither ours nor OpenAI's: installed from PyPI below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::programs::{self, PYTHON};
use crate::workspace;

/// The version that the tests were written with.
const VERSION: &str = "1.106.2";

/// The variable that tells the tests where the proxy's program is.
pub(super) const MARK: &str = "OSTLER_TEST_LITELLM";

/// Installs the proxy unless it is there, and returns its program.
pub(super) fn install() -> Result<PathBuf> {
    let home = workspace::target_directory()?.join(format!("litellm-{VERSION}"));
    let program = home.join("bin/litellm");
    let whole = home.join("installed");
    if whole.exists() {
        return Ok(program);
    }
    if let Err(fix) = programs::ensure(&PYTHON) {
        bail!(fix);
    }
    if home.exists() {
        fs::remove_dir_all(&home).context("cannot clear a broken install of LiteLLM")?;
    }
    succeed(Command::new(PYTHON.name).args(["-m", "venv"]).arg(&home))?;
    let wanted = format!("litellm[proxy]=={VERSION}");
    let pip = home.join("bin/pip");
    succeed(Command::new(pip).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &wanted,
    ]))?;
    // Written last: a killed install must not leave a half that looks whole.
    fs::write(whole, VERSION).context("cannot mark the install of LiteLLM as whole")?;
    Ok(program)
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let status = command
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} failed ({status}); check the network, or leave out --with-litellm");
    }
    Ok(())
}
