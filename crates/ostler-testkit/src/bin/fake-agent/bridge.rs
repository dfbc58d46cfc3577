//! Bridge to the caller's tools for library tests: forwards lines between an agent and a session's
//! socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Forwards lines in both directions until either side closes.
pub(crate) fn run(socket: &str) -> ExitCode {
    match forward(socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fake-agent: the bridge to {socket}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn forward(socket: &str) -> io::Result<()> {
    let mut session = UnixStream::connect(socket)?;
    let mut there = session.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut there);
        let _ = there.shutdown(Shutdown::Write);
    });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = session.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        io::stdout().write_all(&buffer[..n])?;
        io::stdout().flush()?;
    }
}
