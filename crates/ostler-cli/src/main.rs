//! The program `ostler`: drives coding agents from the command line.

#[macro_use]
mod macros;

mod args;
mod ask;
mod cmd;
mod commands;
mod composer;
mod config;
mod control;
mod daemon;
mod environment;
mod exit;
mod fault;
mod files;
mod follow;
mod line_editor;
mod logging;
mod output;
mod policy;
mod prompt;
mod screen;
mod signals;
mod spec;
mod store;
mod suggestions;
mod trust;
mod trust_review;
mod user;
mod waiting;

use std::process::ExitCode;

use crate::args::{Cli, SandboxVerb, Verb};
use crate::fault::{Fault, Result};

/// Verbs that always start agents.
const STARTS_AGENTS: [&str; 4] = ["run", "loop", "chat", "acp"];

fn main() -> ExitCode {
    ostler::host::return_large_buffers();
    #[cfg(unix)]
    if let Some(code) = hidden_role() {
        return code;
    }
    if let Some(shell) = environment::completing() {
        return finish(cmd::completions::answer(&shell));
    }
    let verb = environment::args().nth(1);
    if verb.is_some_and(|verb| STARTS_AGENTS.iter().any(|one| verb == *one))
        && let Some(code) = environment::fork_guard()
    {
        return guard_exit(code);
    }
    let arguments: Vec<_> = environment::args().collect();
    let cli = match Cli::parse_arguments(&arguments) {
        Ok(cli) => cli,
        Err(mut error) => {
            suggestions::add(&mut error);
            // Help and version go to stdout; anything else is a usage error.
            let text = error.render().ansi().to_string();
            let (code, print): (_, fn(&str)) = if error.use_stderr() {
                (exit::USAGE, output::eprint_line)
            } else {
                (exit::OK, output::print_line)
            };
            print(text.trim_end_matches('\n'));
            return code.into();
        }
    };
    finish(dispatch(cli))
}

fn finish(ended: Result<exit::Code>) -> ExitCode {
    match ended {
        Ok(code) => code.into(),
        Err(fault) => {
            output::print_fault(&fault);
            fault.code().into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<exit::Code> {
    logging::start(cli.log, &cli.verb)?;
    // One thread is enough for one run and starts faster.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Fault::internal)?;
    match cli.verb {
        Verb::Run(args) => runtime.block_on(cmd::run::run(*args)),
        Verb::Loop(args) => runtime.block_on(cmd::r#loop::run(*args)),
        Verb::Chat(args) => runtime.block_on(cmd::chat::run(*args)),
        Verb::Acp(args) => runtime.block_on(cmd::acp::run(*args)),
        Verb::Serve(args) => runtime.block_on(cmd::serve::run(*args)),
        Verb::Open(args) => runtime.block_on(cmd::open::run(args)),
        Verb::Attach(args) => runtime.block_on(cmd::attach::run(args)),
        Verb::Send(args) => runtime.block_on(cmd::send::run(args)),
        Verb::Interrupt(args) => runtime.block_on(cmd::interrupt::run(args)),
        Verb::Stop(args) => runtime.block_on(cmd::stop::run(args)),
        Verb::Pause(args) => runtime.block_on(cmd::pause::run(args)),
        Verb::Resume(args) => runtime.block_on(cmd::resume::run(args)),
        Verb::Restart(args) => runtime.block_on(cmd::restart::run(args)),
        Verb::Fork(args) => runtime.block_on(cmd::fork::run(args)),
        Verb::Approvals(args) => runtime.block_on(cmd::approvals::run(args)),
        Verb::Eval(args) => runtime.block_on(cmd::eval::run(*args)),
        Verb::Worker(args) => runtime.block_on(cmd::worker::run(*args)),
        Verb::Fleet(args) => runtime.block_on(cmd::fleet::run(args)),
        Verb::Doctor(args) => runtime.block_on(cmd::doctor::run(args)),
        Verb::Replay(args) => cmd::replay::run(&args),
        Verb::Sessions(args) if args.watches() => runtime.block_on(cmd::sessions::watch()),
        Verb::Sessions(args) => cmd::sessions::run(args, &runtime),
        Verb::Usage(args) => cmd::usage::run(&args),
        Verb::Sandbox(SandboxVerb::Check(args)) => runtime.block_on(cmd::sandbox::check(args)),
        Verb::Policy(verb) => cmd::policy::run(&verb),
        Verb::Config(verb) => cmd::config::run(&verb),
        Verb::Trust(args) => cmd::trust::run(&args),
        Verb::Schema { kind } => cmd::schema::run(kind),
        Verb::Completions { shell } => cmd::completions::script(shell),
        Verb::Man { dir } => cmd::man::run(dir.as_deref()),
        Verb::Version => cmd::version::run(),
    }
}

/// Runs a hidden role of this program: the guard of an agent's processes (`ostler::guard`), the
/// bridge from an agent to the caller's tools (`ostler::host::bridge`), or an escape attempt from
/// the sandbox (`ostler::sandbox::check`).
#[cfg(unix)]
fn hidden_role() -> Option<ExitCode> {
    let mut args = environment::args().skip(1);
    let role = args.next()?;
    if role == environment::BRIDGE_ROLE {
        return Some(bridge(args).into());
    }
    #[cfg(target_os = "linux")]
    if role == environment::GUARD_ROLE {
        return Some(guard_exit(ostler::guard::run(args)));
    }
    #[cfg(target_os = "linux")]
    if role == environment::ATTEMPT_ROLE {
        return Some(cmd::sandbox::attempt(args));
    }
    None
}

fn guard_exit(code: i32) -> ExitCode {
    u8::try_from(code).unwrap_or(exit::INTERNAL.0).into()
}

/// Runs the bridge. Stdout belongs to the agent, so errors go to stderr.
#[cfg(unix)]
fn bridge(args: impl Iterator<Item = std::ffi::OsString>) -> exit::Code {
    match ostler::host::bridge::run(args, std::io::stdin(), std::io::stdout()) {
        Ok(()) => exit::OK,
        Err(error) => {
            errln!("error: cannot connect to the session: {error}");
            exit::UNAVAILABLE
        }
    }
}
