//! Installs the pinned real agents: `install-agents [--all] [target directory]`. `install-agents
//! --versions` only lists them. Called by `cargo xtask agents`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool, run by hand and from xtask"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use ostler_testkit::real;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == "--versions")
    {
        for agent in real::ALL {
            println!("{} {}", agent.name, agent.version);
        }
        return ExitCode::SUCCESS;
    }
    let (flags, named): (Vec<_>, Vec<_>) =
        std::env::args_os().skip(1).partition(|arg| arg == "--all");
    let Some(target) = named.first().map(PathBuf::from).or_else(real::target_dir) else {
        eprintln!("no target directory found; pass it: install-agents <target directory>");
        return ExitCode::FAILURE;
    };
    for agent in real::ALL
        .iter()
        .filter(|agent| !agent.heavy || !flags.is_empty())
    {
        match agent.install(&target) {
            Ok(program) => println!("{} {} {}", agent.name, agent.version, program.display()),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
