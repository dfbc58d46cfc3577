//! Requests that Schemathesis derives from the daemon's description: none causes a server error.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::rig::Rig;
use crate::serve::command;

/// Streams that have no end.
const STREAMS: [&str; 2] = ["/v1/events", "/v1/sessions/{id}/events"];

#[test]
fn no_request_is_the_daemons_fault() {
    let program = std::env::var_os("OSTLER_TEST_SCHEMATHESIS")
        .expect("run `cargo xtask test --with-schemathesis`");
    let rig = Rig::new();
    let mut serve = command(&rig, &["serve", "--listen", "127.0.0.1:0"]);
    let mut daemon = serve.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once("listening on ")?;
        Some(rest.split(';').next()?.to_owned())
    });
    let address = address.unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    let token = crate::rig::finish(&mut command(&rig, &["serve", "--print-token"])).stdout;
    let code = crate::rig::finish(&mut command(&rig, &["serve", "--print-code"])).stdout;
    let mut run = Command::new(program);
    run.arg("run")
        .arg(format!("{address}/openapi.json"))
        .args(["--url", &address])
        .args([
            "--header",
            &format!("Authorization: Bearer {}", token.trim()),
        ])
        .args([
            "--header",
            &format!("Ostler-Approval-Code: {}", code.trim()),
        ])
        .args(["--checks", "not_a_server_error", "--max-examples", "30"])
        .args(["--request-timeout", "60", "--seed", "1"])
        .current_dir(rig.dir());
    for stream in STREAMS {
        run.args(["--exclude-path", stream]);
    }
    let done = run.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let _ = daemon.kill();
    let _ = daemon.wait();
    assert!(
        done.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
