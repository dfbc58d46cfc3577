//! Every case of a resume has an answer of its own.

use std::fs;

use ostler_core::dialect::transcript::{Holder, OpenNotes};

use super::*;

const ID: &str = "7";

/// An agent that keeps `<slug>/<id>.log` with `cwd|version` in a line, and notes with `pid start id`.
const PLACES: Transcripts = Transcripts {
    roots: &["$STATE", "~/.state"],
    folder: "kept",
    slug: |dir| dir.replace('/', "_"),
    file: |id| format!("{id}.log"),
    is_id: |text| text.parse::<u32>().is_ok(),
    read_head: |line| {
        let (cwd, version) = line.trim_end().split_once('|')?;
        Some(Head {
            cwd: cwd.into(),
            version: Version::find(version),
        })
    },
    open: Some(OpenNotes {
        folder: "open",
        suffix: ".note",
        read: note,
    }),
    goes_anywhere: false,
};

fn note(text: &str) -> Option<Holder> {
    let [pid, start, id] = text.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some(Holder {
        pid: pid.parse().ok()?,
        start: start.into(),
        id: id.into(),
    })
}

/// A root, a directory to work in and another one.
struct Scene {
    _temp: tempfile::TempDir,
    root: PathBuf,
    here: PathBuf,
    there: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let [root, here, there] = ["root", "here", "the re"].map(|name| base.join(name));
        for dir in [&root, &here, &there] {
            fs::create_dir_all(dir).unwrap();
        }
        Self {
            _temp: temp,
            root,
            here,
            there,
        }
    }

    /// Has a session that began in `dir`, after lines that do not say so.
    fn keep(&self, dir: &Path, version: &str) -> &Self {
        let folder = self
            .root
            .join("kept")
            .join((PLACES.slug)(dir.to_str().unwrap()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("7.log"),
            format!(
                "prompt\n\u{fffd}\n{}|{version}\nelse|9.9.9\n",
                dir.display()
            ),
        )
        .unwrap();
        self
    }

    fn note(&self, text: &str) -> &Self {
        fs::create_dir_all(self.root.join("open")).unwrap();
        fs::write(self.root.join("open/1.note"), text).unwrap();
        fs::write(self.root.join("open/1.key"), text).unwrap();
        self
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            agent: "one",
            root: &self.root,
            dir: &self.here,
            id: ID,
            fork: false,
        }
    }
}

fn known(native: &str, held_by: Option<u32>) -> SessionRecord {
    SessionRecord {
        session: "ours".into(),
        agent: "tester".into(),
        agent_version: None,
        native_session: Some(native.into()),
        dir: PathBuf::new(),
        continues: None,
        held_by,
    }
}

fn codes(scene: &Scene, places: &Transcripts) -> Vec<String> {
    check(places, &scene.asked(), None)
        .unwrap()
        .notices
        .into_iter()
        .map(|notice| notice.code)
        .collect()
}

// P53: each case gives its own error, and says what to do.
#[test]
fn each_case_has_its_own_error() {
    let unknown = Scene::new();
    let elsewhere = Scene::new();
    elsewhere.keep(&elsewhere.there, "2.1.0");
    let gone = Scene::new();
    gone.keep(&gone.there, "2.1.0");
    fs::remove_dir(&gone.there).unwrap();
    let replaced = Scene::new();
    replaced.keep(&replaced.there, "2.1.0");
    fs::remove_dir(&replaced.there).unwrap();
    fs::write(&replaced.there, "a file").unwrap();
    let id = || ID.to_owned();
    let cases = [
        (
            &unknown,
            ResumeProblem::UnknownId {
                agent: "one".into(),
                id: id(),
                root: unknown.root.join("kept"),
            },
            "no such session".to_owned(),
        ),
        (
            &elsewhere,
            ResumeProblem::OtherDirectory {
                id: id(),
                there: elsewhere.there.clone(),
            },
            format!("--dir '{}'.", elsewhere.there.display()),
        ),
        (
            &gone,
            ResumeProblem::DirectoryGone {
                id: id(),
                there: gone.there.clone(),
            },
            "mkdir -p '".to_owned(),
        ),
        (
            &replaced,
            ResumeProblem::DirectoryGone {
                id: id(),
                there: replaced.there.clone(),
            },
            "mkdir".to_owned(),
        ),
    ];
    for (scene, problem, hint) in cases {
        let found = check(&PLACES, &scene.asked(), None).unwrap_err();
        assert_eq!(found, problem);
        let outcome = found.outcome();
        assert_eq!(outcome.cause, Cause::BadRequest);
        assert!(
            outcome.message.contains(ID) && outcome.hint.unwrap().contains(&hint),
            "{problem:?}"
        );
    }
    // An agent that goes on anywhere does so, and it is said.
    let anywhere = Transcripts {
        goes_anywhere: true,
        ..PLACES
    };
    for scene in [&elsewhere, &gone] {
        assert_eq!(codes(scene, &anywhere), ["resumed_elsewhere"]);
    }
}

#[test]
fn what_is_there_or_cannot_be_told_goes_on() {
    let scene = Scene::new();
    assert_eq!(
        check(
            &PLACES,
            &Asked {
                id: "a title",
                ..scene.asked()
            },
            None
        ),
        Ok(Checked::default())
    );
    scene.keep(&scene.here, "2.1.9");
    assert_eq!(codes(&scene, &PLACES), [""; 0]);
    // Two directories may share a name: what is where the agent looks, it finds.
    let shared = Scene::new();
    shared.keep(&shared.here, "2.1.9");
    let file = shared
        .root
        .join("kept")
        .join((PLACES.slug)(shared.here.to_str().unwrap()))
        .join("7.log");
    fs::write(&file, format!("{}|2.1.9", shared.there.display())).unwrap();
    assert_eq!(codes(&shared, &PLACES), [""; 0]);
    // Under another name, and by a link: the directory counts.
    let linked = Scene::new();
    let link = linked.root.join("link");
    std::os::unix::fs::symlink(&linked.here, &link).unwrap();
    linked.keep(&link, "2.1.9");
    assert_eq!(codes(&linked, &PLACES), [""; 0]);
    // Nothing in it that says where it was.
    fs::write(&file, "prompt\n").unwrap();
    assert_eq!(codes(&shared, &PLACES), [""; 0]);
}

#[test]
fn a_newer_version_is_a_warning() {
    let cases = [
        ("2.1.325", None),
        ("2.0.99", None),
        ("2.2.0", Some("2.2.0")),
        ("3.0.0", Some("3.0.0")),
        ("?", None),
    ];
    for (version, warned) in cases {
        let scene = Scene::new();
        scene.keep(&scene.here, version);
        let written_by = check(&PLACES, &scene.asked(), None).unwrap().written_by;
        assert_eq!(written_by, Version::find(version));
        let notice = written_by.and_then(|written_by| newer(ID, written_by, "2.1.9 (An Agent)"));
        let said = notice.iter().map(|notice| {
            (
                notice.code.as_str(),
                notice.message.contains(warned.unwrap_or("-")),
            )
        });
        assert!(
            said.eq(warned.map(|_| ("newer_transcript", true))),
            "{version}: {notice:?}"
        );
        assert_eq!(
            written_by.and_then(|written_by| newer(ID, written_by, "unknown")),
            None
        );
    }
}

// P55: the holder is found by identity. A note that was left behind, or whose number is another's now, holds nothing.
#[test]
fn a_session_in_use_names_its_holder() {
    let scene = Scene::new();
    scene.keep(&scene.here, "2.1.9");
    let pid = std::process::id();
    let start = start_of(pid).unwrap();
    let held = |session: Option<&str>| {
        Err(ResumeProblem::InUse {
            id: ID.into(),
            pid,
            session: session.map(Into::into),
        })
    };
    let cases = [
        (format!("{pid} {start} 7"), held(None)),
        (format!("{pid} {start} 8"), Ok(())),
        (format!("{pid} {start}0 7"), Ok(())),
        (format!("4194305 {start} 7"), Ok(())), // above the largest number
        ("nonsense".to_owned(), Ok(())),
    ];
    for (text, result) in cases {
        scene.note(&text);
        assert_eq!(
            check(&PLACES, &scene.asked(), None).map(|_| ()),
            result,
            "{text}"
        );
    }
    let logged = [
        (known(ID, Some(pid)), held(Some("ours"))),
        (known(ID, None), Ok(())),
        (known("8", Some(pid)), Ok(())),
    ];
    for (known, result) in logged {
        assert_eq!(
            check(&PLACES, &scene.asked(), Some(&known)).map(|_| ()),
            result,
            "{known:?}"
        );
    }
    // A copy disturbs nobody.
    scene.note(&format!("{pid} {start} 7"));
    let copy = Asked {
        fork: true,
        ..scene.asked()
    };
    assert_eq!(
        check(&PLACES, &copy, Some(&known(ID, Some(pid)))).map(|_| ()),
        Ok(())
    );
    let outcome = check(&PLACES, &scene.asked(), None).unwrap_err().outcome();
    assert!(outcome.message.contains(&pid.to_string()) && outcome.hint.unwrap().contains("--fork"));
}

// P55: a process that has ended and was not waited for yet has nothing open.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process that has ended is what this is about"
)]
fn the_dead_hold_nothing() {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let mut child = std::process::Command::new("true").spawn().unwrap();
    // Until it has ended, and without taking it away.
    waitid(
        WaitId::Pid(Pid::from_child(&child)),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .unwrap();
    assert!(Path::new(&format!("/proc/{}/stat", child.id())).exists());
    assert_eq!(start_of(child.id()), None);
    child.wait().unwrap();
}

#[test]
fn the_first_place_that_the_environment_names_counts() {
    let of = |vars: &[(&str, &str)]| {
        root(
            PLACES.roots,
            &vars
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
        )
    };
    assert_eq!(of(&[("HOME", "/h"), ("STATE", "/s")]), Some("/s".into()));
    assert_eq!(
        of(&[("HOME", "/h"), ("STATE", "")]),
        Some("/h/.state".into())
    );
    assert_eq!(of(&[]), None);
}

/// A session that was made in this minute waits for the next one; one of another minute, of another id, or none does not. P57
#[test]
fn a_session_of_this_minute_is_left_alone_until_the_next() {
    let kept = ByMinute {
        roots: &["~/"],
        folder: "state",
        file: |id, minute| Some(format!("chats/{}-{id}", minute.replace(':', "-"))),
    };
    let home = tempfile::tempdir().unwrap();
    let chats = home.path().join("state/project/chats");
    std::fs::create_dir_all(&chats).unwrap();
    std::fs::write(chats.join("2026-11-16T07-23-one"), "").unwrap();
    let wait = |id: &str, at: &str| wait(&kept, home.path(), id, at.parse().unwrap());
    assert_eq!(
        wait("one", "2026-11-16T07:23:00Z"),
        Some(Duration::from_secs(60))
    );
    assert_eq!(
        wait("one", "2026-11-16T07:23:59.750Z"),
        Some(Duration::from_millis(250))
    );
    assert_eq!(wait("one", "2026-11-16T07:24:00Z"), None);
    assert_eq!(wait("one", "2026-11-16T08:23:30Z"), None);
    assert_eq!(wait("two", "2026-11-16T07:23:30Z"), None);
    let told = waiting("one", Duration::from_millis(4_250));
    assert!(
        told.code == "waiting_to_resume" && told.message.contains("in 5 s"),
        "{told:?}"
    );
}
