//! Scripted fake agent: stands in for `claude` and misbehaves on demand.
//!
//! `FAKE_AGENT_SCRIPT` names the script; the default is `<argv 0>.script`. The verbs are listed in
//! `verb.rs`. If `<argv 0>.mode` exists, it stands in for a real agent (`stand_in.rs`).
//! `--version`, `auth status` and `--launcher` as first arguments work without a script.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it plays an agent: it is not part of the product and uses its standard streams"
)]

mod bridge;
mod dump;
mod lines;
mod offspring;
mod play;
mod record;
mod request;
mod stand_in;
mod verb;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a wrong or missing script: a bug in the test, not in the program under test.
const BAD_SCRIPT: u8 = 64;

fn main() -> ExitCode {
    let args: Vec<String> = env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    if let Some(mode) = args.first().and_then(|program| stand_in::mode(program)) {
        return stand_in::act(&mode, &args[1..]);
    }
    let words: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        ["--version", ..] => {
            let version = env::var("FAKE_AGENT_VERSION");
            println!(
                "{}",
                version.unwrap_or_else(|_| "2.1.325 (Claude Code)".to_owned())
            );
            ExitCode::SUCCESS
        }
        ["auth", "status", ..] => auth_status(),
        [offspring::LAUNCHER, ..] => offspring::launch(),
        [offspring::ORPHAN, pid_file @ ..] => offspring::leave_orphan(pid_file),
        [offspring::SLEEPER, pid_file @ ..] => offspring::sleep_apart(pid_file),
        ["record", file, "--", command @ ..] => stand_in::record_by_hand(file, command),
        ["bridge", socket] => bridge::run(socket),
        ["request", socket, method, path, file] => request::send(socket, method, path, file, None),
        ["request", socket, method, path, file, body] => {
            request::send(socket, method, path, file, Some(body))
        }
        ["play", file] => stand_in::play_by_hand(file),
        _ => play_script(&args),
    }
}

fn auth_status() -> ExitCode {
    let logged_in = env::var("FAKE_AGENT_LOGGED_IN").as_deref() != Ok("0");
    let method = if logged_in { "api_key" } else { "none" };
    println!(r#"{{"loggedIn":{logged_in},"authMethod":"{method}","apiProvider":"firstParty"}}"#);
    if logged_in {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn play_script(args: &[String]) -> ExitCode {
    let path = script_path(args.first().map_or("", String::as_str));
    let script = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read the script {}: {error}", path.display()))
        .and_then(|text| verb::parse(&text));
    match script {
        Ok(verbs) => play::play(&verbs, args),
        Err(error) => {
            eprintln!("fake-agent: {error}");
            ExitCode::from(BAD_SCRIPT)
        }
    }
}

// `<argv 0>.script` lets a test put a fake `claude` on the PATH of a program that filters the
// environment.
fn script_path(program: &str) -> PathBuf {
    if let Some(path) = env::var_os("FAKE_AGENT_SCRIPT") {
        return path.into();
    }
    let beside = |program: &Path| PathBuf::from(format!("{}.script", program.display()));
    // A program started by its path is not looked up in PATH and stays as it is.
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).map(|dir| beside(&dir.join(program)));
    places
        .into_iter()
        .find(|script| script.exists())
        .unwrap_or_else(|| beside(Path::new(program)))
}
