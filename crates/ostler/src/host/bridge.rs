//! Bridge: a program that an agent starts to reach the caller's tools, and the socket it connects
//! to.
//!
//! Some agents only use external tools through servers that they start themselves and talk to over
//! stdin and stdout. Such an agent is given this bridge as its server. The bridge connects to a
//! socket of the agent's session and forwards lines in both directions without interpreting them.
//! The socket is in a directory that only this user can enter and exists as long as the agent runs.
//! It accepts only processes of this user.
//!
//! ```
//! use ostler::Host;
//! use ostler::host::BridgeProgram;
//!
//! let host = Host::default().with_bridge(BridgeProgram {
//!     program: std::env::current_exe().unwrap(),
//!     args: vec!["bridge".into()], // `main` calls `ostler::host::bridge::run` for this argument
//! });
//! ```
//!
//! A program that embeds the library chooses an argument for this, calls [`run`] at the start of
//! its `main` when that is its first argument, and names itself and the argument in
//! [`crate::host::BridgeProgram`].

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;

/// How long to wait for the last replies after the agent has closed its end.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// Maximum length of a socket path: the smallest limit of any system, without the terminator.
const MAX_PATH: usize = 100;

/// Parent directory of the socket if the path of the usual one is too long.
const FALLBACK_DIR: &str = "/tmp";

/// Copies `input` to the session and the session's lines to `output`, until either side ends.
///
/// `args` are the arguments after the one that selects the bridge; they are private to this
/// library. A thread may still be waiting for `input` when this returns, so exit the process then.
///
/// # Errors
/// If the session's socket cannot be reached, or `output` cannot be written.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> io::Result<()> {
    let [socket] = &args.into_iter().collect::<Vec<_>>()[..] else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the bridge is started by agents, with the path of a socket",
        ));
    };
    let mut session = UnixStream::connect(socket)?;
    let mut sink = session.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut input, &mut sink); // if either end failed, nothing is left to copy
        let _ = sink.shutdown(Shutdown::Write);
        std::thread::sleep(REPLY_GRACE);
        let _ = sink.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = match session.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The session has ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        output.write_all(&buffer[..n])?;
        output.flush()?;
    }
}

/// The socket that bridges connect to. Dropping it removes the socket and its directory.
#[derive(Debug)]
pub(crate) struct BridgeSocket {
    pub(crate) listener: UnixListener,
    /// Path of the socket.
    pub(crate) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl BridgeSocket {
    /// Binds a socket in a new private directory below `temp`, or below `/tmp` if that path is too
    /// long.
    pub(crate) fn open(temp: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder
            .prefix("ostler-")
            .rand_bytes(12)
            .permissions(std::fs::Permissions::from_mode(0o700));
        let is_short = |parent: &Path| {
            parent
                .to_str()
                .is_some_and(|text| text.len() + "/ostler-123456789012/s".len() <= MAX_PATH)
        };
        let dir = builder.tempdir_in(if is_short(temp) && temp.is_absolute() {
            temp
        } else {
            Path::new(FALLBACK_DIR)
        })?;
        let metadata = dir.path().metadata()?;
        if metadata.mode() & 0o077 != 0 || metadata.uid() != current_uid() {
            let why = format!("{} is not private", dir.path().display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        Ok(Self {
            listener,
            path,
            _dir: dir,
        })
    }
}

/// Returns the effective user id of this process.
pub(crate) fn current_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bridge_socket_is_private_has_a_short_path_and_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("d".repeat(90));
        std::fs::create_dir(&deep).unwrap();
        for (parent, expected) in [(temp.path(), temp.path()), (&deep, Path::new(FALLBACK_DIR))] {
            let socket = BridgeSocket::open(parent).unwrap();
            let dir = socket.path.parent().unwrap().to_owned();
            assert!(
                dir.parent() == Some(expected) && socket.path.as_os_str().len() <= MAX_PATH,
                "{}",
                dir.display()
            );
            assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
            assert_eq!(socket.path.metadata().unwrap().mode() & 0o777, 0o600);
            drop(socket);
            assert!(!dir.exists());
        }
        assert!(BridgeSocket::open(&temp.path().join("nowhere")).is_err());
    }

    #[test]
    fn bridge_without_a_session_fails() {
        let none = run([], io::empty(), io::sink()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        let gone = run(["/nowhere/s".into()], io::empty(), io::sink()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
