//! Several processes at once, a killed process, a full disk. The test binary acts as the others.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_store::{Filter, Log, Store};

use crate::rig::{append, mode, new_session, texts};

/// Environment variable with the role of this process in another test, and the directory.
const ROLE: &str = "OSTLER_STORE_TEST_ROLE";

fn spawn_as(role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::another_process", "--nocapture"]);
    command
        .env(ROLE, format!("{role}:{}", dir.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Wraps a command in a shell that first changes the process, such as its umask.
fn in_shell(change: &str, other: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{change}; exec \"$@\""))
        .arg("sh")
        .arg(other.get_program())
        .args(other.get_args());
    shell.envs(
        other
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell
}

/// Not a test by itself: the entry point of the other processes.
#[test]
fn another_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (role, dir) = role.split_once(':').unwrap();
    let store = Store::open(Path::new(dir)).unwrap();
    match role {
        "endless" => write_until_killed(&store),
        "some" => write_some(&store),
        _ => write_until_full(&store),
    }
}

/// Writes three sessions in parallel, one to nine events at a time, and prints each completed
/// append.
fn write_until_killed(store: &Store) {
    std::thread::scope(|scope| {
        for n in 0..3 {
            scope.spawn(move || {
                let session = format!("{n}-{}", std::process::id());
                store.open(&new_session(&session, 1)).unwrap();
                let mut next = 1;
                loop {
                    let count = 1 + next % 9;
                    append(store, texts(&session, next, count)).unwrap();
                    next += count;
                    println!("stored {session} {}", next - 1);
                }
            });
        }
    });
}

fn write_some(store: &Store) {
    for n in 0..2 {
        let session = format!("{n}-{}", std::process::id());
        store.open(&new_session(&session, 1)).unwrap();
        for next in (1..=500).step_by(5) {
            append(store, texts(&session, next, 5)).unwrap();
        }
    }
}

/// Writes until an error, checks that later appends fail with the same one, and prints it.
fn write_until_full(store: &Store) {
    store.open(&new_session("full", 1)).unwrap();
    let mut next = 1;
    let error = loop {
        match append(store, texts("full", next, 50)) {
            Ok(()) => next += 50,
            Err(error) => break error,
        }
    };
    assert_eq!(append(store, texts("full", next, 1)).unwrap_err(), error);
    assert_eq!(
        store.read("full", 1, usize::MAX).unwrap().len() as u64,
        next - 1,
        "stored events can be read"
    );
    println!("after {next}: {error}");
}

/// Returns the number of events of each session, after checking that they have no gap.
fn counts(store: &Store) -> HashMap<String, u64> {
    let rows = store.sessions(&Filter::default()).unwrap();
    let count = |session: String| {
        let events = store.read(&session, 1, usize::MAX).unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        let want: Vec<u64> = (1..=seqs.len() as u64).collect();
        assert_eq!(seqs, want, "{session}");
        (session, want.len() as u64)
    };
    rows.into_iter().map(|row| count(row.session)).collect()
}

#[test]
fn several_processes_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // They also create the database at the same time.
    let mut others: Vec<_> = (0..4)
        .map(|_| {
            spawn_as("some", dir.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let store = Store::open(dir.path()).unwrap();
    store.open(&new_session("own", 1)).unwrap();
    for next in 1..=200 {
        append(&store, texts("own", next, 1)).unwrap();
        assert_eq!(store.read("own", next, 1).unwrap().len(), 1);
    }
    for other in &mut others {
        assert!(other.wait().unwrap().success());
    }
    let mut stored: Vec<u64> = counts(&store).into_values().collect();
    stored.sort_unstable();
    assert_eq!(stored, [200, 500, 500, 500, 500, 500, 500, 500, 500]);
}

#[test]
fn a_killed_process_leaves_whole_appends_and_loses_no_completed_one() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let mut other = spawn_as("endless", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(other.stdout.take().unwrap()).lines();
        let mut completed: HashMap<String, u64> = HashMap::new();
        let mut killed = false;
        for (at, line) in lines.map_while(Result::ok).enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["stored", session, seq] = words[..] {
                completed.insert(session.to_owned(), seq.parse().unwrap());
            }
            // Kill it in the middle, at another point each round. On a busy machine one of its
            // three threads can still be waiting for its first append then.
            if !killed && at >= 40 + round * 97 && completed.len() == 3 {
                killed = true;
                std::thread::sleep(Duration::from_micros(u64::from(
                    std::process::id() % 7 * 150,
                )));
                other.kill().unwrap();
            }
        }
        other.wait().unwrap();
        let stored = counts(&Store::open(dir.path()).unwrap());
        assert!(
            completed.len() == 3
                && completed
                    .iter()
                    .all(|(session, seq)| stored[session] >= *seq),
            "{completed:?} {stored:?}"
        );
        // Appends of n % 9 + 1 events are stored completely.
        for (session, count) in &stored {
            let mut whole_session = 0;
            while whole_session < *count {
                whole_session += 1 + (whole_session + 1) % 9;
            }
            assert_eq!(whole_session, *count, "{session}");
        }
    }
}

#[test]
fn a_full_disk_is_reported_and_nothing_hangs() {
    let dir = tempfile::tempdir().unwrap();
    // Limits the file size, and ignores the signal so that the write fails instead.
    let done = in_shell(
        "trap '' XFSZ; ulimit -f 2400",
        &spawn_as("full", dir.path()),
    )
    .output()
    .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{out}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let message = out.lines().find(|line| line.contains("after ")).unwrap();
    assert!(
        message.contains("sessions.db: ")
            && (message.contains("is full") || message.contains("I/O error")),
        "{message}"
    );
    let store = Store::open(dir.path()).unwrap();
    assert!(counts(&store)["full"] > 0, "{message}");
}

#[test]
fn file_modes_do_not_depend_on_the_umask() {
    for umask in ["000", "277"] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let done = in_shell(&format!("umask {umask}"), &spawn_as("some", &state))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{umask}: {}",
            String::from_utf8_lossy(&done.stdout)
        );
        let raw: Vec<_> = std::fs::read_dir(state.join("raw"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        assert_eq!(raw.len(), 2);
        for path in raw.into_iter().chain([state.join("sessions.db")]) {
            assert_eq!(mode(&path), 0o600, "{umask}: {}", path.display());
        }
        assert_eq!(
            (mode(&state), mode(&state.join("raw"))),
            (0o700, 0o700),
            "{umask}"
        );
    }
}
