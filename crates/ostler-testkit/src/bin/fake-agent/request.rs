//! An HTTP request to a Unix socket, for agents that attack the daemon that runs them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Sends a request with a body of JSON, and writes the status of the response to a file; if the
/// body was given, also the response's body. The file appears complete: it is renamed.
pub(crate) fn send(
    socket: &str,
    method: &str,
    path: &str,
    file: &str,
    body: Option<&str>,
) -> ExitCode {
    let status = request(socket, method, path, body).unwrap_or_else(|error| error.to_string());
    let written = std::fs::write(format!("{file}.new"), status)
        .and_then(|()| std::fs::rename(format!("{file}.new"), file));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn request(socket: &str, method: &str, path: &str, given: Option<&str>) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    let body = given.unwrap_or(r#"{"decision":"allow"}"#);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    let status = response.split_ascii_whitespace().nth(1);
    let status = status.unwrap_or("no response");
    let text = response.split_once("\r\n\r\n").map_or("", |(_, text)| text);
    Ok(match given {
        Some(_) => format!("{status} {text}"),
        None => status.to_owned(),
    })
}
