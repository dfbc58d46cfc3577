//! Development commands, run as `cargo xtask <command>`: one file per command.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to the terminal"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "commands start programs, read the environment and the clock; none is shipped"
)]

mod agents;
mod bench;
mod fuzz;
mod programs;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// A subcommand. `run` gets the arguments after the name.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        about: test::ABOUT,
        run: test::run,
    },
    Command {
        name: "tidy",
        about: tidy::ABOUT,
        run: tidy::run,
    },
    Command {
        name: "size",
        about: tidy::SIZE_ABOUT,
        run: tidy::run_size,
    },
    Command {
        name: "agents",
        about: agents::ABOUT,
        run: agents::run,
    },
    Command {
        name: "bench",
        about: bench::ABOUT,
        run: bench::run,
    },
    Command {
        name: "fuzz",
        about: fuzz::ABOUT,
        run: fuzz::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("xtask: unknown command {name:?}\n\n{}", usage());
        return ExitCode::from(2);
    };
    (command.run)(rest).unwrap_or_else(|error| {
        eprintln!("xtask {name}: {error:#}");
        ExitCode::FAILURE
    })
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:8}{}\n", command.name, command.about));
    }
    text
}
