//! Installs the pinned real agents: `install-agents [--all] [target directory]`. `install-agents
//! --versions` only lists them, and `install-agents --lock NAME` writes the lock file of one.
//! Called by `cargo xtask agents`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool, run by hand and from xtask"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use ostler_testkit::real;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &arguments[..]
        && flag == "--lock"
    {
        return match real::pinned(name).lock() {
            Ok(file) => {
                println!("{}", file.display());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if arguments == ["--versions"] {
        for agent in real::all() {
            println!("{} {}", agent.name, agent.version());
        }
        return ExitCode::SUCCESS;
    }
    let (flags, named): (Vec<_>, Vec<_>) = arguments.iter().partition(|arg| *arg == "--all");
    let Some(target) = named.first().map(PathBuf::from).or_else(real::target_dir) else {
        eprintln!("no target directory found; pass it: install-agents <target directory>");
        return ExitCode::FAILURE;
    };
    for agent in real::all().filter(|agent| !agent.heavy || !flags.is_empty()) {
        match agent.install(&target) {
            Ok(program) => println!("{} {} {}", agent.name, agent.version(), program.display()),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
