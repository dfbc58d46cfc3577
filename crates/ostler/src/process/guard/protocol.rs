//! What Ostler and a guard send each other.
//!
//! Ostler sends the four descriptors of a session to the guard server. Everything else goes over
//! the session's own socket, so that the server never reads what belongs to a session: first a
//! [`GuardRequest`], later single bytes ([`TERMINATE`], [`KILL`]). The guard answers with
//! [`Message`]s.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, absolute};

use ostler_tools::confine::Confinement;

use crate::process::{PreparedCommand, PrivateDirectory};

/// Number of descriptors of a session: its socket, and stdin, stdout and stderr of the agent.
pub(in crate::process) const DESCRIPTORS: usize = 4;

/// Command: terminate the agent.
pub(in crate::process) const TERMINATE: u8 = b'T';

/// Command: kill everything.
pub(in crate::process) const KILL: u8 = b'K';

/// A message of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Message {
    /// The guard's own process id.
    Guard(i32),
    /// Sandbox layers that the child has entered, as bits.
    Layers(u8),
    /// Process id of the agent.
    Started(i32),
    /// The agent could not be started: the error number.
    Failed(i32),
    /// The process limit was exceeded.
    Overran,
    /// The kernel killed a process for memory.
    OutOfMemory,
    /// The end of a process could not be confirmed.
    LeftOver,
    /// The agent exited with this code. Sent once nothing is left, like the next.
    Exited(i32),
    /// The agent was ended by this signal.
    Signalled(i32),
}

impl Message {
    /// Size of a message: a byte for its kind, and a number.
    pub(in crate::process) const BYTES: usize = 5;

    fn encode(self) -> [u8; Self::BYTES] {
        let (kind, number) = match self {
            Self::Guard(pid) => (b'g', pid),
            Self::Layers(bits) => (b'l', bits.into()),
            Self::Started(pid) => (b'p', pid),
            Self::Failed(errno) => (b'f', errno),
            Self::Overran => (b'o', 0),
            Self::OutOfMemory => (b'm', 0),
            Self::LeftOver => (b'r', 0),
            Self::Exited(code) => (b'e', code),
            Self::Signalled(signal) => (b's', signal),
        };
        let [a, b, c, d] = number.to_ne_bytes();
        [kind, a, b, c, d]
    }

    pub(in crate::process) fn decode([kind, a, b, c, d]: [u8; Self::BYTES]) -> Option<Self> {
        let number = i32::from_ne_bytes([a, b, c, d]);
        Some(match kind {
            b'g' => Self::Guard(number),
            b'l' => Self::Layers(u8::try_from(number).ok()?),
            b'p' => Self::Started(number),
            b'f' => Self::Failed(number),
            b'o' => Self::Overran,
            b'm' => Self::OutOfMemory,
            b'r' => Self::LeftOver,
            b'e' => Self::Exited(number),
            b's' => Self::Signalled(number),
            _ => return None,
        })
    }

    /// Sends messages to Ostler, which may have exited.
    pub(super) fn send(messages: &[Self], mut socket: &UnixStream) {
        let bytes: Vec<u8> = messages
            .iter()
            .flat_map(|message| message.encode())
            .collect();
        let _ = socket.write_all(&bytes);
    }
}

/// What a guard starts and what it removes.
#[derive(Debug)]
pub(in crate::process) struct GuardRequest {
    /// Files and directories to remove after the agent.
    pub(super) files: Vec<OsString>,
    pub(super) confinement: Option<Confinement>,
    pub(super) dir: OsString,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

/// Size of the length in front of a request.
const LENGTH_BYTES: usize = size_of::<u64>();

impl GuardRequest {
    /// Encodes the request for a command: its length, and strings that each end with a zero byte.
    pub(in crate::process) fn encode(prepared: &PreparedCommand) -> io::Result<Vec<u8>> {
        let files = prepared.files.iter().map(tempfile::NamedTempFile::path);
        let directories = prepared
            .temp
            .iter()
            .map(PrivateDirectory::path)
            .chain(prepared.bridge_dir.as_deref());
        let files: Vec<&Path> = files.chain(directories).collect();
        let confinement = prepared.confinement.as_ref().map(serde_json::to_string);
        // The guard has another working directory. Ours may have been removed.
        let dir = absolute(prepared.dir.as_deref().unwrap_or(Path::new(".")))
            .unwrap_or_else(|_| "/".into());

        let mut strings = Strings(vec![0; LENGTH_BYTES]);
        strings.push_count(files.len())?;
        for file in files {
            strings.push(absolute(file)?)?;
        }
        strings.push(confinement.transpose()?.unwrap_or_default())?;
        strings.push(dir)?;
        strings.push_count(prepared.env.len())?;
        for (name, value) in &prepared.env {
            strings.push(name)?;
            strings.push(value)?;
        }
        strings.push(&prepared.program)?;
        for arg in &prepared.args {
            strings.push(arg)?;
        }
        let mut bytes = strings.0;
        let length = (bytes.len() - LENGTH_BYTES) as u64;
        bytes[..LENGTH_BYTES].copy_from_slice(&length.to_ne_bytes());
        Ok(bytes)
    }

    /// Reads a request. Fails if Ostler exits meanwhile.
    pub(super) fn read(mut socket: impl Read) -> io::Result<Self> {
        let mut length = [0; LENGTH_BYTES];
        socket.read_exact(&mut length)?;
        let length = u64::from_ne_bytes(length);
        let mut bytes = Vec::new();
        socket.take(length).read_to_end(&mut bytes)?;
        let is_complete = bytes.len() as u64 == length && bytes.pop() == Some(0);
        is_complete
            .then(|| Self::parse(&bytes))
            .flatten()
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut strings = bytes
            .split(|byte| *byte == 0)
            .map(|string| OsString::from_vec(string.to_owned()));
        let count = |string: OsString| string.to_str()?.parse::<usize>().ok();
        let files = count(strings.next()?)?;
        let files = strings.by_ref().take(files).collect();
        let confinement = match strings.next()?.to_str()? {
            "" => None,
            text => Some(serde_json::from_str(text).ok()?),
        };
        let dir = strings.next()?;
        let mut env = Vec::new();
        for _ in 0..count(strings.next()?)? {
            env.push((strings.next()?, strings.next()?));
        }
        Some(Self {
            files,
            confinement,
            dir,
            env,
            program: strings.next()?,
            args: strings.collect(),
        })
    }
}

/// Strings, each of which ends with a zero byte.
struct Strings(Vec<u8>);

impl Strings {
    fn push(&mut self, string: impl AsRef<OsStr>) -> io::Result<()> {
        let bytes = string.as_ref().as_bytes();
        if bytes.contains(&0) {
            let message = "a zero byte in an argument or a variable";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.0.extend(bytes);
        self.0.push(0);
        Ok(())
    }

    fn push_count(&mut self, count: usize) -> io::Result<()> {
        self.push(count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    fn prepared(args: &[&str]) -> PreparedCommand {
        PreparedCommand::query(&Host::default(), Path::new("/bin/sh"), args, "s").unwrap()
    }

    // What was created for an agent is removed with it even if Ostler was killed, so the guard must
    // know all of it.
    #[test]
    fn guard_request_includes_the_bridge_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut prepared = prepared(&["-c", ""]);
        prepared.bridge_dir = Some(dir.path().to_owned());
        let bytes = GuardRequest::encode(&prepared).unwrap();
        let request = GuardRequest::read(bytes.as_slice()).unwrap();
        assert_eq!(request.files, [dir.path().as_os_str()]);
        assert_eq!(
            (request.program.to_str(), request.args),
            (Some("/bin/sh"), vec!["-c".into(), "".into()])
        );
        assert_eq!(request.env, [("OSTLER_SESSION".into(), "s".into())]);
        assert!(Path::new(&request.dir).is_absolute());
    }

    // If Ostler exits while it sends a request, no agent is started.
    #[test]
    fn a_request_that_is_cut_off_is_an_error() {
        let bytes = GuardRequest::encode(&prepared(&["-c", "exit"])).unwrap();
        for length in 0..bytes.len() {
            assert!(GuardRequest::read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn an_argument_with_a_zero_byte_is_an_error() {
        let error = GuardRequest::encode(&prepared(&["a\0b"])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn every_message_is_decoded_as_it_was_encoded() {
        use Message::*;
        let all = [
            Guard(1),
            Layers(2),
            Started(3),
            Failed(4),
            Overran,
            OutOfMemory,
            LeftOver,
            Exited(-5),
            Signalled(6),
        ];
        for message in all {
            assert_eq!(Message::decode(message.encode()), Some(message));
        }
        assert_eq!(Message::decode(*b"?1234"), None);
    }
}
