//! The bridge: a program that an agent starts to reach the caller's tools, and the door that it comes to.
//!
//! Some agents know tools of others only as servers that they start themselves and talk to over stdin and stdout. The server
//! that such an agent is given is this bridge: it connects to a socket of the session that the agent belongs to, and passes
//! lines on in both directions. What they mean is for the session to know. The socket is in a directory that only this user
//! can enter, it is there as long as the agent is, and only processes of this user are let in.
//!
//! A program that embeds the library calls [`run`] at the start of its `main` when its first argument is one that it chose, and
//! names itself and that argument in [`crate::BridgeProgram`].

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;

/// How long the last answers are awaited once the agent has nothing more to say.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// The longest path of a socket: the shortest limit of a system, less its end.
const LONGEST: usize = 100;

/// Where the socket is when the usual place has too long a name.
const SHORT: &str = "/tmp";

/// Passes on what comes in from `input` to the session, and what the session says to `output`, until either has ended.
///
/// `args` is what follows the argument by which the embedding program knows that it is to be the bridge; their meaning is this
/// library's own. A thread is left waiting for `input`: end the process when this returns.
///
/// # Errors
/// When there is no session to talk to, or `output` takes nothing any more.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> io::Result<()> {
    let [socket] = &args.into_iter().collect::<Vec<_>>()[..] else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is started by agents, with the path of a socket",
        ));
    };
    let mut session = UnixStream::connect(socket)?;
    let mut there = session.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut input, &mut there); // whichever end broke: there is nothing more to pass on
        let _ = there.shutdown(Shutdown::Write);
        std::thread::sleep(LAST_ANSWERS);
        let _ = there.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = match session.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()), // the session went
            Err(error) => return Err(error),
        };
        output.write_all(&buffer[..n])?;
        output.flush()?;
    }
}

/// Where bridges come to. Dropped, it is gone, and its directory too.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: UnixListener,
    /// The socket.
    pub(crate) path: PathBuf,
    _place: tempfile::TempDir,
}

impl Door {
    /// Opens one in a new directory below `temp`, or where paths are short.
    pub(crate) fn open(temp: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder
            .prefix("ostler-")
            .rand_bytes(12)
            .permissions(std::fs::Permissions::from_mode(0o700));
        let is_fit = |place: &Path| {
            place
                .to_str()
                .is_some_and(|text| text.len() + "/ostler-123456789012/s".len() <= LONGEST)
        };
        let place = builder.tempdir_in(if is_fit(temp) && temp.is_absolute() {
            temp
        } else {
            Path::new(SHORT)
        })?;
        let about = place.path().metadata()?;
        if about.mode() & 0o077 != 0 || about.uid() != own() {
            let why = format!("{} does not stay private", place.path().display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let path = place.path().join("s");
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        Ok(Self {
            listener,
            path,
            _place: place,
        })
    }
}

/// The user that this process belongs to.
pub(crate) fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_is_private_has_a_short_path_and_goes() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("d".repeat(90));
        std::fs::create_dir(&deep).unwrap();
        for (place, expected) in [(temp.path(), temp.path()), (&deep, Path::new(SHORT))] {
            let door = Door::open(place).unwrap();
            let dir = door.path.parent().unwrap().to_owned();
            assert!(
                dir.parent() == Some(expected) && door.path.as_os_str().len() <= LONGEST,
                "{}",
                dir.display()
            );
            assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
            assert_eq!(door.path.metadata().unwrap().mode() & 0o777, 0o600);
            drop(door);
            assert!(!dir.exists());
        }
        assert!(Door::open(&temp.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_bridge_without_a_session_says_so() {
        let none = run([], io::empty(), io::sink()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        let gone = run(["/nowhere/s".into()], io::empty(), io::sink()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
