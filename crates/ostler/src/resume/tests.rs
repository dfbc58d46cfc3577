//! Tests of the checks before a resume.

use std::fs;

use ostler_core::dialect::transcript::{OpenMarkers, SessionHolder};

use super::*;

const ID: &str = "7";

/// An agent with transcripts `<slug>/<id>.log` that contain `cwd|version`, and notes with `pid
/// start id`.
const TRANSCRIPTS: Transcripts = Transcripts {
    roots: &["$STATE", "~/.state"],
    folder: "sessions",
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
    open: Some(OpenMarkers {
        folder: "open",
        suffix: ".note",
        read: note,
    }),
    resumes_anywhere: false,
};

fn note(text: &str) -> Option<SessionHolder> {
    let [pid, start, id] = text.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some(SessionHolder {
        pid: pid.parse().ok()?,
        start: start.into(),
        id: id.into(),
    })
}

/// A state directory, a working directory and another directory.
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

    /// Writes a transcript of a session that was started in `dir`, after some unrelated lines.
    fn write_session(&self, dir: &Path, version: &str) -> &Self {
        let folder = self
            .root
            .join("sessions")
            .join((TRANSCRIPTS.slug)(dir.to_str().unwrap()));
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

    fn request(&self) -> ResumeRequest<'_> {
        ResumeRequest {
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

fn codes(scene: &Scene, transcripts: &Transcripts) -> Vec<String> {
    check(transcripts, &scene.request(), None)
        .unwrap()
        .notices
        .into_iter()
        .map(|notice| notice.code.to_string())
        .collect()
}

// P53: each problem has its own error and a hint.
#[test]
fn each_problem_has_its_own_error() {
    let unknown = Scene::new();
    let elsewhere = Scene::new();
    elsewhere.write_session(&elsewhere.there, "2.1.0");
    let gone = Scene::new();
    gone.write_session(&gone.there, "2.1.0");
    fs::remove_dir(&gone.there).unwrap();
    let replaced = Scene::new();
    replaced.write_session(&replaced.there, "2.1.0");
    fs::remove_dir(&replaced.there).unwrap();
    fs::write(&replaced.there, "a file").unwrap();
    let id = || ID.to_owned();
    let cases = [
        (
            &unknown,
            ResumeProblem::UnknownId {
                agent: "one".into(),
                id: id(),
                root: unknown.root.join("sessions"),
            },
            "No such session".to_owned(),
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
        let found = check(&TRANSCRIPTS, &scene.request(), None).unwrap_err();
        assert_eq!(found, problem);
        let outcome = found.outcome();
        assert_eq!(outcome.cause, Cause::BadRequest);
        assert!(
            outcome.message.contains(ID) && outcome.hint.unwrap().contains(&hint),
            "{problem:?}"
        );
    }
    // An agent that can resume anywhere does so, with a notice.
    let anywhere = Transcripts {
        resumes_anywhere: true,
        ..TRANSCRIPTS
    };
    for scene in [&elsewhere, &gone] {
        assert_eq!(codes(scene, &anywhere), ["resumed_elsewhere"]);
    }
}

#[test]
fn existing_or_undetermined_session_is_accepted() {
    let scene = Scene::new();
    assert_eq!(
        check(
            &TRANSCRIPTS,
            &ResumeRequest {
                id: "a title",
                ..scene.request()
            },
            None
        ),
        Ok(ResumeCheck::default())
    );
    scene.write_session(&scene.here, "2.1.9");
    assert_eq!(codes(&scene, &TRANSCRIPTS), [""; 0]);
    // Two directories may share a slug: the agent finds whatever is where it looks.
    let shared = Scene::new();
    shared.write_session(&shared.here, "2.1.9");
    let file = shared
        .root
        .join("sessions")
        .join((TRANSCRIPTS.slug)(shared.here.to_str().unwrap()))
        .join("7.log");
    fs::write(&file, format!("{}|2.1.9", shared.there.display())).unwrap();
    assert_eq!(codes(&shared, &TRANSCRIPTS), [""; 0]);
    // The directory counts, even under another name through a link.
    let linked = Scene::new();
    let link = linked.root.join("link");
    std::os::unix::fs::symlink(&linked.here, &link).unwrap();
    linked.write_session(&link, "2.1.9");
    assert_eq!(codes(&linked, &TRANSCRIPTS), [""; 0]);
    // A transcript without a directory.
    fs::write(&file, "prompt\n").unwrap();
    assert_eq!(codes(&shared, &TRANSCRIPTS), [""; 0]);
}

#[test]
fn newer_version_is_a_warning() {
    let cases = [
        ("2.1.325", None),
        ("2.0.99", None),
        ("2.2.0", Some("2.2.0")),
        ("3.0.0", Some("3.0.0")),
        ("?", None),
    ];
    for (version, warned) in cases {
        let scene = Scene::new();
        scene.write_session(&scene.here, version);
        let written_by = check(&TRANSCRIPTS, &scene.request(), None)
            .unwrap()
            .written_by;
        assert_eq!(written_by, Version::find(version));
        let notice = written_by
            .and_then(|written_by| newer_version_notice(ID, written_by, "2.1.9 (An Agent)"));
        let reported = notice.iter().map(|notice| {
            (
                notice.code.as_str(),
                notice.message.contains(warned.unwrap_or("-")),
            )
        });
        assert!(
            reported.eq(warned.map(|_| ("newer_transcript", true))),
            "{version}: {notice:?}"
        );
        assert_eq!(
            written_by.and_then(|written_by| newer_version_notice(ID, written_by, "unknown")),
            None
        );
    }
}

// P55: the holder is identified by pid and start time. A stale note, or one with a reused pid, is
// ignored.
#[test]
fn session_in_use_names_its_holder() {
    let scene = Scene::new();
    scene.write_session(&scene.here, "2.1.9");
    let pid = std::process::id();
    let start = start_time(pid).unwrap();
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
        (format!("4194305 {start} 7"), Ok(())), // above the largest pid
        ("nonsense".to_owned(), Ok(())),
    ];
    for (text, result) in cases {
        scene.note(&text);
        assert_eq!(
            check(&TRANSCRIPTS, &scene.request(), None).map(|_| ()),
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
            check(&TRANSCRIPTS, &scene.request(), Some(&known)).map(|_| ()),
            result,
            "{known:?}"
        );
    }
    // A copy does not conflict.
    scene.note(&format!("{pid} {start} 7"));
    let copy = ResumeRequest {
        fork: true,
        ..scene.request()
    };
    assert_eq!(
        check(&TRANSCRIPTS, &copy, Some(&known(ID, Some(pid)))).map(|_| ()),
        Ok(())
    );
    let outcome = check(&TRANSCRIPTS, &scene.request(), None)
        .unwrap_err()
        .outcome();
    assert!(outcome.message.contains(&pid.to_string()) && outcome.hint.unwrap().contains("--fork"));
}

// P55: a zombie has nothing open.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test needs a process that has exited"
)]
fn zombie_holds_no_session() {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let mut child = std::process::Command::new("true").spawn().unwrap();
    // Wait until it has exited, without reaping it.
    waitid(
        WaitId::Pid(Pid::from_child(&child)),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .unwrap();
    assert!(Path::new(&format!("/proc/{}/stat", child.id())).exists());
    assert_eq!(start_time(child.id()), None);
    child.wait().unwrap();
}

#[test]
fn first_root_that_the_environment_determines_wins() {
    let of = |vars: &[(&str, &str)]| {
        root(
            TRANSCRIPTS.roots,
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

/// A session created in this minute waits for the next one. One of another minute or id does not.
/// P57
#[test]
fn session_created_in_this_minute_waits_for_the_next() {
    let rule = ResumeDelay {
        roots: &["~/"],
        folder: "state",
        file: |id, minute| Some(format!("chats/{}-{id}", minute.replace(':', "-"))),
    };
    let home = tempfile::tempdir().unwrap();
    let chats = home.path().join("state/project/chats");
    std::fs::create_dir_all(&chats).unwrap();
    std::fs::write(chats.join("2026-11-16T07-23-one"), "").unwrap();
    let delay = |id: &str, at: &str| delay(&rule, home.path(), id, at.parse().unwrap());
    assert_eq!(
        delay("one", "2026-11-16T07:23:00Z"),
        Some(Duration::from_secs(60))
    );
    assert_eq!(
        delay("one", "2026-11-16T07:23:59.750Z"),
        Some(Duration::from_millis(250))
    );
    assert_eq!(delay("one", "2026-11-16T07:24:00Z"), None);
    assert_eq!(delay("one", "2026-11-16T08:23:30Z"), None);
    assert_eq!(delay("two", "2026-11-16T07:23:30Z"), None);
    let notice = delay_notice("one", Duration::from_millis(4_250));
    assert!(
        notice.code.as_str() == "waiting_to_resume" && notice.message.contains("in 5 s"),
        "{notice:?}"
    );
}
