//! Runs the scripted model server by hand:
//! `cargo run -p ostler-testkit --example model-server -- script.json`.
//!
//! Prints its base URL, then each request as a JSON line, until interrupted.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program to use by hand"
)]

use std::process::ExitCode;
use std::time::Duration;

use ostler_testkit::model::{ModelServer, Script};

fn main() -> ExitCode {
    let script = match std::env::args().nth(1) {
        None => Ok(Script::always("Hello from the scripted model.")),
        Some(path) => std::fs::read_to_string(&path)
            .map_err(|error| format!("{path}: {error}"))
            .and_then(|json| Script::from_json(&json).map_err(|error| error.to_string())),
    };
    let server = match script {
        Ok(script) => ModelServer::start(script),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", server.base_url());
    let mut shown = 0;
    loop {
        let requests = server.all_requests();
        for request in &requests[shown..] {
            println!("{} {} {}", request.method, request.path, request.body);
        }
        shown = requests.len();
        std::thread::sleep(Duration::from_millis(50));
    }
}
