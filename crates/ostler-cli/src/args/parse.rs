//! Parsing the command line.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use super::{Cli, LogArgs, RunArgs, Verb};

/// The program with one verb. Building the arguments of all verbs takes longer than anything else
/// at the start of a run.
#[derive(Debug, Parser)]
#[command(name = "ostler")]
struct RunCli {
    #[command(subcommand)]
    verb: RunVerb,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum RunVerb {
    Run(Box<RunArgs>),
}

impl Cli {
    /// Parses the arguments, the first of which is the program.
    ///
    /// # Errors
    /// If they are not valid, or ask for help or the version. The error has the text to show.
    pub(crate) fn parse_arguments(arguments: &[OsString]) -> Result<Self, clap::Error> {
        if arguments.get(1).is_some_and(|verb| verb == "run")
            && let Ok(RunCli { verb, log }) = RunCli::try_parse_from(arguments)
        {
            let RunVerb::Run(run) = verb;
            let verb = Verb::Run(run);
            return Ok(Self { verb, log });
        }
        // Help and errors show all verbs.
        Self::try_parse_from(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn result_is_that_of_all_verbs() {
        for line in [
            "ostler run hello",
            "ostler run --agent claude --output events --no-store hello",
            "ostler run --log debug --timeout 10m hello",
            "ostler run --resume 0f8fad5b --sandbox -- --x",
            "ostler --log debug run hello",
            "ostler version",
            "ostler run --timeout never hello",
            "ostler run --no-such-option",
            "ostler run --help",
            "ostler run --version",
            "ostler rum hello",
            "ostler",
        ] {
            let arguments = arguments(line);
            let shown = |parsed: Result<Cli, clap::Error>| match parsed {
                Ok(cli) => format!("{cli:?}"),
                Err(error) => error.to_string(),
            };
            let expected = shown(Cli::try_parse_from(&arguments));
            assert_eq!(shown(Cli::parse_arguments(&arguments)), expected, "{line}");
        }
    }

    #[test]
    fn run_alone_is_enough_for_a_run() {
        assert!(RunCli::try_parse_from(arguments("ostler run --log debug hello")).is_ok());
    }
}
