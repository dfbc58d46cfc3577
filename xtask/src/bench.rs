//! `cargo xtask bench`: Ostler and its peers side by side, as docs/performance.md shows them.

mod chart;
mod contenders;
mod crowd;
mod daemon;
mod docs;
mod growth;
mod inputs;
mod instructions;
mod machine;
mod readers;
mod report;
mod rounds;
mod rows;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use self::report::Report;
use crate::test::page;
use crate::workspace;

pub(crate) const ABOUT: &str =
    "measure Ostler and other SDKs (--quick, --check, --write-docs; see bench --help)";

const HELP: &str = "\
usage: cargo xtask bench [NAME…] [OPTION…]

Installs other SDKs, runs them and Ostler in random order over the same scripted agents, prints
medians, minima and ratios, and writes every sample to target/bench/report.json.

  --quick         fewer rounds: about three minutes after the build
  --profile NAME  cargo profile of Ostler's programs (release; dist is what packages have)
  --last          show the last report again, without measuring
  --write-docs    also rewrite the tables of docs/performance.md and docs/images/performance.svg
  --check         only count the instructions of the decode path and of `ostler --version`, and
                  compare them with xtask/bench/instructions.toml (needs valgrind)
  --update        with --check: accept the counts

Names select parts; without any, all of these run:
";

/// Benchmarks of one crate each, run only by name: name, crate and description.
const COMPONENTS: [(&str, &str, &str); 6] = [
    (
        "overhead",
        "ostler-cli",
        "`ostler run` against the bare real agent",
    ),
    (
        "eval",
        "ostler-eval",
        "the evaluation: adapter, normalized logs, memory, timeouts",
    ),
    ("read", "ostler-dialects", "parsers"),
    ("append", "ostler-store", "the store against files"),
    (
        "search",
        "ostler-store",
        "the search index, and lists of sessions",
    ),
    (
        "fleet",
        "ostler-fleet",
        "trials on workers: overhead, throughput, mirrored events",
    ),
];

/// The daemon and another server, measured only by name.
const DAEMON: &str = "daemon";
/// The page in a browser, run only by name, with its description.
const PAGE: (&str, &str) = ("page", "the page in Chromium: first paint, frames, a burst");

/// Parts that are not rows of the table.
const GROWTH: &str = "growth";
const READERS: &str = "readers";

/// What the command line asks for.
#[derive(Default)]
struct Options {
    is_quick: bool,
    is_last: bool,
    is_check: bool,
    is_update: bool,
    writes_docs: bool,
    profile: Option<String>,
    names: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.is_quick = true,
                "--last" => options.is_last = true,
                "--check" => options.is_check = true,
                "--update" => options.is_update = true,
                "--write-docs" => options.writes_docs = true,
                "--profile" => {
                    let name = arguments.next().context("--profile needs a name")?;
                    options.profile = Some(name.clone());
                }
                name if names().any(|(known, _)| known == name) => {
                    options.names.push(name.to_owned());
                }
                other => bail!("unknown argument {other:?}; see `cargo xtask bench --help`"),
            }
        }
        if options.is_update && !options.is_check {
            bail!("--update belongs to --check");
        }
        if options.writes_docs && !options.names.is_empty() {
            bail!("--write-docs needs all parts: leave out the names");
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.first().map(String::as_str) {
        Some("__latency") => {
            inputs::print_latency_lines()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some("--help" | "-h" | "help") => {
            print!("{}", help());
            return Ok(ExitCode::SUCCESS);
        }
        Some(DAEMON) => return daemon::run(&arguments[1..]),
        Some(name) if name == PAGE.0 => return page::measure(),
        Some(name) => {
            if let Some((name, package, _)) = COMPONENTS.iter().find(|it| it.0 == name) {
                return run_component(name, package, &arguments[1..]);
            }
        }
        None => {}
    }
    let options = Options::parse(arguments)?;
    if options.is_check {
        return instructions::check(&options);
    }
    let dir = directory()?;
    let path = dir.join("report.json");
    let report = if options.is_last {
        let text = std::fs::read_to_string(&path).context("no last report: run the benchmark")?;
        serde_json::from_str(&text)?
    } else {
        let report = measure(&options)?;
        std::fs::write(&path, serde_json::to_string(&report)?)?;
        report
    };
    println!(
        "{}\nAll samples: {}",
        table::markdown(&report),
        path.display()
    );
    if options.writes_docs {
        docs::write(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds and installs the contenders, and measures the chosen parts.
fn measure(options: &Options) -> Result<Report> {
    let mut report = Report::new(machine::facts(), options.is_quick);
    let dir = directory()?;
    inputs::write(&dir)?;
    let bench = contenders::prepare(dir, options.profile.as_deref(), &mut report)?;
    report.series = rounds::measure(&bench, options, &mut report.left_out)?;
    if options.wants(GROWTH) {
        report.growth = growth::measure(&bench, options.is_quick)?;
    }
    if options.wants(READERS) {
        report.readers = readers::check(&bench)?;
    }
    Ok(report)
}

/// Returns the folder of everything that the benchmark writes.
fn directory() -> Result<PathBuf> {
    let dir = workspace::target_directory()?.join("bench");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Runs the benchmark of one crate, and passes further arguments to it.
fn run_component(name: &str, package: &str, rest: &[String]) -> Result<ExitCode> {
    let mut helpers = workspace::cargo(); // includes the fake agent
    helpers.args(["build", "--quiet", "--release", "--package"]);
    contenders::succeed(helpers.args(["ostler-testkit", "--bins"]))?;
    let mut command = workspace::cargo();
    command.args(["bench", "--quiet", "--package", package]);
    command.args(["--bench", name, "--"]).args(rest);
    if !command.status()?.success() {
        bail!("the benchmark {name} failed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the names that select parts, with their descriptions.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = [
        (
            GROWTH,
            "time against events, turns, sessions, processes and stored sessions",
        ),
        (
            READERS,
            "500,000 events with 1, 8 and 64 readers: none may be lost",
        ),
    ];
    rows::measurements().chain(parts)
}

fn help() -> String {
    let mut text = HELP.to_owned();
    let line = |name, about| format!("  {name:<16}{about}\n");
    text.extend(names().map(|(name, about)| line(name, about)));
    text.push_str("\nThese run only by name, with their own arguments:\n");
    text.extend(COMPONENTS.iter().map(|(name, _, about)| line(name, about)));
    text.push_str(&line(DAEMON, "the daemon against sandbox-agent"));
    text.push_str(&line(PAGE.0, PAGE.1));
    text
}
