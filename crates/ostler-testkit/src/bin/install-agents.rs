//! Installs the real agents that the tests drive: `install-agents [target directory]`; `cargo xtask agents` calls it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program to use by hand and from xtask")]

use std::path::PathBuf;
use std::process::ExitCode;

use ostler_testkit::real;

fn main() -> ExitCode {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(target) = named.or_else(real::target_dir) else {
        eprintln!("no target directory found; name it: install-agents <target directory>");
        return ExitCode::FAILURE;
    };
    match real::install(&target) {
        Ok(program) => {
            println!("claude {} {}", real::CLAUDE_VERSION, program.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
