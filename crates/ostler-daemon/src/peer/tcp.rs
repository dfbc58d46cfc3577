//! TCP connections on this machine, as the kernel lists them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Returns the inode of the socket at the client's end of a connection.
pub(super) fn inode(client: SocketAddr, server: SocketAddr) -> Option<u64> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    tables.into_iter().find_map(|path| {
        let table = std::fs::read_to_string(path).ok()?;
        inode_in(&table, client, server)
    })
}

fn inode_in(table: &str, client: SocketAddr, server: SocketAddr) -> Option<u64> {
    let ends = (canonical(client), canonical(server));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, remote) = (fields.get(1)?, fields.get(2)?);
        let is_same = (address(local)?, address(remote)?) == ends;
        let inode = fields.get(9)?.parse().ok();
        inode.filter(|inode| is_same && *inode != 0)
    })
}

/// Parses an address and port: hexadecimal words in the byte order of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    if !matches!(ip.len(), 8 | 32) {
        return None;
    }
    let words = ip.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<[u8; 4]>>>()?.concat();
    let ip: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        _ => <[u8; 16]>::try_from(bytes).ok()?.into(),
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Returns an IPv4 address that is written as an IPv6 address in its own form.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a process has a socket open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Yes,
    No,
    /// Its open files cannot be read. A process can hide them from its own user.
    Unreadable,
}

/// Returns whether a process has this socket open.
pub(super) fn held(pid: i32, socket: &str) -> Held {
    held_in(Path::new(&format!("/proc/{pid}")), socket)
}

/// Returns whether any thread of a process has this socket open. A thread can have files of its
/// own, and the first one can have exited.
pub(super) fn held_by_threads(pid: i32, socket: &str) -> Held {
    let threads = match std::fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => threads,
        Err(error) => return of_error(&error),
    };
    let threads = threads.flatten();
    let held = threads.map(|thread| held_in(&thread.path(), socket));
    held.fold(Held::No, |all, one| match (all, one) {
        (Held::Yes, _) | (_, Held::Yes) => Held::Yes,
        (Held::Unreadable, _) | (_, Held::Unreadable) => Held::Unreadable,
        _ => Held::No,
    })
}

fn held_in(dir: &Path, socket: &str) -> Held {
    let files = match std::fs::read_dir(dir.join("fd")) {
        Ok(files) => files,
        // Those of one that has exited are closed.
        Err(_) if is_zombie(dir) => return Held::No,
        Err(error) => return of_error(&error),
    };
    let mut held = Held::No;
    for file in files.flatten() {
        match std::fs::read_link(file.path()) {
            Ok(target) if target.as_os_str() == socket => return Held::Yes,
            Ok(_) => {}
            Err(error) if of_error(&error) == Held::Unreadable => held = Held::Unreadable,
            Err(_) => {} // closed meanwhile
        }
    }
    held
}

/// Returns what a failed attempt to read open files means.
fn of_error(error: &io::Error) -> Held {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Held::Unreadable,
        _ => Held::No, // it has exited
    }
}

fn is_zombie(dir: &Path) -> bool {
    let stat = std::fs::read_to_string(dir.join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_parsed() {
        if cfg!(target_endian = "big") {
            return; // the texts are those of other machines
        }
        for (text, expected) in [
            ("0100007F:1F90", "127.0.0.1:8080"),
            ("0000000000000000FFFF00000100007F:0050", "127.0.0.1:80"),
            ("00000000000000000000000001000000:0050", "[::1]:80"),
        ] {
            assert_eq!(address(text), expected.parse().ok(), "{text}");
        }
        for wrong in ["", "0100007F", "01:1", "0100007F:x", "xyz:1"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_holder_of_a_connection_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(server).unwrap();
        let address = client.local_addr().unwrap();
        let inode = inode(address, server).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let socket = format!("socket:[{inode}]");
        for held in [held, held_by_threads] {
            assert_eq!(held(own, &socket), Held::Yes);
            assert_eq!(held(own, "socket:[0]"), Held::No);
            assert_eq!(held(i32::MAX, "socket:[0]"), Held::No);
        }
        assert_eq!(super::inode(server, server), None);
    }

    #[test]
    fn files_that_may_not_be_read_are_not_closed_files() {
        for (errno, expected) in [
            (rustix::io::Errno::ACCESS, Held::Unreadable),
            (rustix::io::Errno::PERM, Held::Unreadable),
            (rustix::io::Errno::NOENT, Held::No),
            (rustix::io::Errno::SRCH, Held::No),
        ] {
            assert_eq!(of_error(&errno.into()), expected, "{errno}");
        }
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test needs a child that has exited"
    )]
    fn a_process_that_has_exited_holds_nothing() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dir = format!("/proc/{}", child.id());
        while !is_zombie(Path::new(&dir)) {
            std::thread::yield_now();
        }
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(held(pid, "socket:[0]"), Held::No);
        assert_eq!(held_by_threads(pid, "socket:[0]"), Held::No);
        child.wait().unwrap();
        assert!(!is_zombie(Path::new(&dir)));
    }
}
