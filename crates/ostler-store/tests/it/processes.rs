//! Several processes at once, a process that is killed, a disk that is full. The test program plays the other processes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_store::{Filter, Log, Store};

use crate::rig::{append, mode, opening, texts};

/// Names the part that this process plays for another test, and the directory.
const PART: &str = "OSTLER_STORE_TEST_PART";

fn play(part: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::another_process", "--nocapture"]);
    command
        .env(PART, format!("{part}:{}", dir.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The same after a shell has changed something of the process.
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

/// No test by itself: what the other processes do.
#[test]
fn another_process() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let (part, dir) = part.split_once(':').unwrap();
    let store = Store::open(Path::new(dir)).unwrap();
    match part {
        "endless" => write_until_killed(&store),
        "some" => write_some(&store),
        _ => write_until_full(&store),
    }
}

/// Three sessions at a time, in appends of one to nine, and each is told on stdout when it is kept.
fn write_until_killed(store: &Store) {
    std::thread::scope(|scope| {
        for n in 0..3 {
            scope.spawn(move || {
                let session = format!("{n}-{}", std::process::id());
                store.open(&opening(&session, 1)).unwrap();
                let mut next = 1;
                loop {
                    let count = 1 + next % 9;
                    append(store, texts(&session, next, count)).unwrap();
                    next += count;
                    println!("kept {session} {}", next - 1);
                }
            });
        }
    });
}

fn write_some(store: &Store) {
    for n in 0..2 {
        let session = format!("{n}-{}", std::process::id());
        store.open(&opening(&session, 1)).unwrap();
        for next in (1..=500).step_by(5) {
            append(store, texts(&session, next, 5)).unwrap();
        }
    }
}

/// Prints the error; and that everything that comes after it fails too, at once.
fn write_until_full(store: &Store) {
    store.open(&opening("full", 1)).unwrap();
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
        "what was kept can be read"
    );
    println!("after {next}: {error}");
}

/// How many events each session has; they are 1, 2, 3 … without a gap.
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
    // They even make the database at the same time.
    let mut others: Vec<_> = (0..4)
        .map(|_| {
            play("some", dir.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let store = Store::open(dir.path()).unwrap();
    store.open(&opening("own", 1)).unwrap();
    for next in 1..=200 {
        append(&store, texts("own", next, 1)).unwrap();
        assert_eq!(store.read("own", next, 1).unwrap().len(), 1);
    }
    for other in &mut others {
        assert!(other.wait().unwrap().success());
    }
    let mut kept: Vec<u64> = counts(&store).into_values().collect();
    kept.sort_unstable();
    assert_eq!(kept, [200, 500, 500, 500, 500, 500, 500, 500, 500]);
}

#[test]
fn a_killed_process_leaves_whole_appends_and_keeps_its_promises() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let mut other = play("endless", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(other.stdout.take().unwrap()).lines();
        let mut told: HashMap<String, u64> = HashMap::new();
        for (at, line) in lines.map_while(Result::ok).enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["kept", session, seq] = words[..] {
                told.insert(session.to_owned(), seq.parse().unwrap());
            }
            // Somewhere in the middle, another place each round.
            if at == 40 + round * 97 {
                std::thread::sleep(Duration::from_micros(u64::from(
                    std::process::id() % 7 * 150,
                )));
                other.kill().unwrap();
            }
        }
        other.wait().unwrap();
        let kept = counts(&Store::open(dir.path()).unwrap());
        assert!(
            told.len() == 3 && told.iter().all(|(session, seq)| kept[session] >= *seq),
            "{told:?} {kept:?}"
        );
        // Appends of n % 9 + 1 events are there whole.
        for (session, count) in &kept {
            let mut whole = 0;
            while whole < *count {
                whole += 1 + (whole + 1) % 9;
            }
            assert_eq!(whole, *count, "{session}");
        }
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_hangs() {
    let dir = tempfile::tempdir().unwrap();
    // No file may grow beyond this; the signal that goes with it is ignored, so that the write fails.
    let done = in_shell("trap '' XFSZ; ulimit -f 600", &play("full", dir.path()))
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{out}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let said = out.lines().find(|line| line.contains("after ")).unwrap();
    assert!(
        said.contains("sessions.db: ") && (said.contains("is full") || said.contains("I/O error")),
        "{said}"
    );
    let store = Store::open(dir.path()).unwrap();
    assert!(counts(&store)["full"] > 0, "{said}");
}

#[test]
fn no_umask_opens_or_closes_the_files() {
    for umask in ["000", "277"] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let done = in_shell(&format!("umask {umask}"), &play("some", &state))
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
