//! A small program that drives one agent, as a cold run of `cargo xtask bench` measures it: whole
//! process, from its start to its exit.
//!
//! It is built without the features that an agent's own program does not need
//! (docs/library-features.md). `cold cold DIR RUNS OPTION` runs the agent `DIR/short` once.
//! Options: `guard` starts it under a guard, which is this same program; `floor` only reads what it
//! prints.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark starts processes and stops at the first error"
)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use ostler::agent::dialects::claude::Claude;
use ostler::agent::{Agent, ProcessAgent};
use ostler::host::GuardProgram;
use ostler::{EventKind, Host, Spec};

/// The argument that makes this program the guard server.
const GUARD_ROLE: &str = "__guard";

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let row = arguments.next();
    if row.as_ref().is_some_and(|row| row == GUARD_ROLE) {
        std::process::exit(ostler::guard::run(arguments));
    }
    let (Some(dir), Some(_), option) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return; // `cargo bench` without arguments
    };
    let agent = Path::new(&dir).join("short");
    match option.as_ref().and_then(|option| option.to_str()) {
        Some("floor") => read(&agent),
        Some("guard") => {
            let guard = GuardProgram {
                program: std::env::current_exe().unwrap(),
                args: vec![GUARD_ROLE.into()],
            };
            if let Some(code) = ostler::guard::fork_server(&guard) {
                std::process::exit(code);
            }
            run(&Host::new(std::env::vars_os()).with_guard(guard), &agent);
        }
        _ => run(&Host::new(std::env::vars_os()), &agent),
    }
}

/// Runs the agent to its end, and checks every event.
fn run(host: &Host, agent: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let claude = ProcessAgent::new(&Claude);
        let spec = Spec::new("hello")
            .program(agent)
            .dir(agent.parent().unwrap());
        let mut session = claude.start(host, spec).unwrap();
        let (mut last, mut is_ok) = (0, false);
        while let Some(event) = session.next().await {
            assert_eq!(event.seq, last + 1);
            last = event.seq;
            if let EventKind::Ended(ended) = &event.kind {
                is_ok = ended.outcome.is_success();
            }
        }
        assert!(is_ok, "the agent failed");
    });
}

/// The least that any program has to do: start the agent, write the prompt, read what it prints.
fn read(agent: &Path) {
    let mut child = Command::new(agent)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let prompt = std::fs::read(agent.with_file_name("prompt.jsonl")).unwrap();
    child.stdin.take().unwrap().write_all(&prompt).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut chunk = vec![0; 64 * 1024];
    while stdout.read(&mut chunk).unwrap() > 0 {}
    assert!(child.wait().unwrap().success());
}
