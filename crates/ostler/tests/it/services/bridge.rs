//! The bridge to the caller's tools, played by the tests: who may connect, what gets through, and
//! that nothing is left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ostler::event::EventKind;
use ostler::host::BridgeProgram;
use ostler::spec::{AfterTurn, Sandbox, ToolOffer};
use ostler::tools::{Code, ToolError};
use ostler::{Event, Session};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::start;
use crate::rig::{LONG, Rig, Seen, finish_after, install, read_until, until};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// An agent that waits, with a tool that adds numbers and a bridge program.
fn rig(verbs: &str) -> Rig {
    let mut rig = Rig::new(verbs).grace_ms(500);
    rig.host = rig.host.with_tool(ostler::tool(
        "add",
        "Adds.",
        |Add { a, b }: Add| async move {
            a.checked_add(b)
                .map(|sum| sum.to_string())
                .ok_or_else(|| ToolError::new(Code::BadArguments, "too much"))
        },
    ));
    rig.host = rig.host.with_bridge(BridgeProgram {
        program: "/opt/bridge".into(),
        args: vec!["__play".into()],
    });
    rig.spec.after_turn = AfterTurn::Wait;
    rig
}

const WAITS: &str = "read-user\ninit\nread-until-eof\nexit 0";

/// A session, the events read so far, and the path of its socket.
struct Open {
    session: Session,
    read: Vec<Event>,
    socket: PathBuf,
}

impl Open {
    async fn new(rig: &Rig) -> Self {
        let mut session = start(rig);
        let (read, socket) = socket(&mut session).await;
        Self {
            session,
            read,
            socket,
        }
    }

    async fn connect(&self) -> Peer {
        let (reading, writing) = UnixStream::connect(&self.socket)
            .await
            .unwrap()
            .into_split();
        Peer {
            reading: BufReader::new(reading),
            writing,
        }
    }

    async fn notice(&mut self, code: &str) -> String {
        let fits = |kind: &EventKind| {
            matches!(kind,
            EventKind::Notice(notice) if notice.code.as_str() == code)
        };
        self.read.extend(read_until(&mut self.session, fits).await);
        let EventKind::Notice(notice) = &self.read.last().unwrap().kind else {
            unreachable!()
        };
        notice.message.clone()
    }

    async fn end(self) -> Seen {
        self.session.stop();
        let place = self.socket.parent().unwrap().to_owned();
        let seen = finish_after(self.read, self.session).await;
        assert!(
            !place.exists(),
            "the socket's directory is left: {}",
            place.display()
        );
        seen
    }
}

async fn socket(session: &mut Session) -> (Vec<Event>, PathBuf) {
    let read = read_until(
        session,
        |kind| matches!(kind, EventKind::Notice(it) if it.code.as_str() == "bridge_at"),
    )
    .await;
    let EventKind::Notice(notice) = &read.last().unwrap().kind else {
        unreachable!()
    };
    let words: Vec<&str> = notice.message.split(' ').collect();
    assert_eq!(words[..2], ["/opt/bridge", "__play"]);
    let socket = PathBuf::from(words[2]);
    (read, socket)
}

struct Peer {
    reading: BufReader<tokio::net::unix::OwnedReadHalf>,
    writing: tokio::net::unix::OwnedWriteHalf,
}

impl Peer {
    async fn say(&mut self, line: &str) {
        self.writing.write_all(line.as_bytes()).await.unwrap();
        self.writing.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let mut line = String::new();
        tokio::time::timeout(LONG, self.reading.read_line(&mut line))
            .await
            .expect("no answer")
            .unwrap();
        line.trim_end().to_owned()
    }

    /// Returns true if the session has closed the connection.
    async fn is_sent_away(&mut self) -> bool {
        let mut rest = Vec::new();
        tokio::time::timeout(LONG, self.reading.read_to_end(&mut rest))
            .await
            .is_ok()
    }
}

#[tokio::test]
async fn tools_are_called_through_several_bridges_at_once() {
    let mut rig = rig(WAITS);
    rig.spec.raw_log = Some(rig.path("raw"));
    let open = Open::new(&rig).await;
    let (mut one, mut two) = (open.connect().await, open.connect().await);
    one.say("hello").await;
    assert_eq!(one.hear().await, "1 hello");
    two.say("hello").await;
    assert_eq!(two.hear().await, "2 hello");
    two.say(r#"call add {"a":19,"b":23}"#).await;
    assert_eq!(two.hear().await, "2:1 ok 42");
    one.say(r#"call add {"a":1,"b":"x"}"#).await;
    let failed = one.hear().await;
    assert!(
        failed.starts_with("1:2 failed") && failed.contains("expected i64"),
        "{failed}"
    );
    // A bridge that disconnects does not affect the other, and its number is not reused.
    drop(two);
    one.say("still there").await;
    assert_eq!(one.hear().await, "1 still there");
    let mut three = open.connect().await;
    three.say("hello").await;
    assert_eq!(three.hear().await, "3 hello");
    let seen = open.end().await;
    assert!(one.is_sent_away().await && three.is_sent_away().await);
    assert!(
        !rig.text("raw").contains("hello"),
        "the agent did not send that"
    );
    assert!(
        ["no_bridge", "bridge_dropped", "bridge_refused"]
            .iter()
            .all(|code| seen.notices(code).is_empty())
    );
}

// The caller submits the result of a tool it runs itself, as with every agent.
#[tokio::test]
async fn result_of_an_offered_tool_is_submitted() {
    let mut rig = rig(WAITS);
    rig.spec.bound_tools.push(ToolOffer {
        name: "lookup".into(),
        description: "Looks up.".into(),
        parameters: ostler::event::RawJson::parse(r#"{"type":"object"}"#).unwrap(),
    });
    let open = Open::new(&rig).await;
    let mut peer = open.connect().await;
    peer.say("call lookup {}").await;
    until("the tool is wanted", || {
        open.session
            .remote()
            .submit_tool_results([result("1:1", "found")])
            .is_ok()
    })
    .await;
    assert_eq!(peer.hear().await, "1:1 ok found");
    open.end().await;
}

fn result(id: &str, output: &str) -> ostler::session::SubmittedResult {
    ostler::session::SubmittedResult {
        id: id.into(),
        ok: true,
        output: output.into(),
    }
}

#[tokio::test]
async fn only_its_user_can_reach_the_socket() {
    let rig = rig(WAITS);
    let open = Open::new(&rig).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(open.socket.parent().unwrap()), mode(&open.socket)),
        (0o700, 0o600)
    );
    open.end().await;
}

#[tokio::test]
async fn misbehaving_bridge_is_disconnected_and_the_session_continues() {
    let rig = rig(WAITS);
    let mut open = Open::new(&rig).await;
    // A bridge that does not read the replies it requested.
    let mut deaf = open.connect().await;
    deaf.say("flood").await;
    let why = open.notice("bridge_dropped").await;
    assert!(why.contains("does not read"), "{why}");
    // A bridge that sends an overlong line.
    let mut endless = open.connect().await;
    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..17 {
        if endless.writing.write_all(&chunk).await.is_err() {
            break;
        }
    }
    let _ = endless.writing.write_all(b"\n").await;
    let why = open.notice("bridge_dropped").await;
    assert!(why.contains("the limit is 16777216"), "{why}");
    assert!(endless.is_sent_away().await);
    // A bridge that sends nonsense: the agent's dialect has to answer that.
    let mut garbled = open.connect().await;
    garbled
        .writing
        .write_all(b"\n\n \xff\xfe\0\x1b[2J\n")
        .await
        .unwrap();
    assert_eq!(garbled.hear().await, "3  \u{fffd}\u{fffd}\0\u{1b}[2J");
    // Too many connections.
    let mut crowd = Vec::new();
    for _ in 0..16 {
        crowd.push(open.connect().await);
    }
    let why = open.notice("bridge_refused").await;
    assert!(why.contains("16 are already open"), "{why}");
    garbled.say("still here").await;
    assert_eq!(garbled.hear().await, "3 still here");
    open.end().await;
}

/// A tool that runs until the test releases it, and reports when it is cancelled.
fn slow_tool(rig: &mut Rig) -> (Arc<Semaphore>, Arc<Flags>) {
    struct Off(Arc<Flags>);
    impl Drop for Off {
        fn drop(&mut self) {
            self.0.gone.store(true, Relaxed);
        }
    }
    let (end, flags) = (Arc::new(Semaphore::new(0)), Arc::new(Flags::default()));
    let (on_end, on_flags) = (end.clone(), flags.clone());
    rig.host = rig.host.clone().with_tool(ostler::tool(
        "slow",
        "Takes its time.",
        move |_: Nothing| {
            let (end, flags) = (on_end.clone(), on_flags.clone());
            async move {
                flags.running.store(true, Relaxed);
                let _off = Off(flags.clone());
                end.acquire().await.unwrap().forget();
                Ok("at last".to_owned())
            }
        },
    ));
    (end, flags)
}

#[derive(Default)]
struct Flags {
    running: AtomicBool,
    gone: AtomicBool,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

// A bridge that has closed its sending side still gets its replies, and is then disconnected.
#[tokio::test]
async fn half_closed_bridge_gets_its_replies() {
    let mut rig = rig(WAITS);
    let (end, flags) = slow_tool(&mut rig);
    let open = Open::new(&rig).await;
    let mut peer = open.connect().await;
    peer.say("call slow {}").await;
    peer.say("call slow {}").await;
    peer.writing.shutdown().await.unwrap();
    until("the tool runs", || flags.running.load(Relaxed)).await;
    // Another bridge connects and is served meanwhile.
    let mut other = open.connect().await;
    other.say("hello").await;
    assert_eq!(other.hear().await, "2 hello");
    end.add_permits(1);
    let first = peer.hear().await;
    assert!(
        first.starts_with("1:") && first.ends_with(" ok at last"),
        "{first}"
    );
    end.add_permits(1);
    let second = peer.hear().await;
    assert!(
        second.ends_with(" ok at last") && second != first,
        "{second}"
    );
    assert!(peer.is_sent_away().await, "it is owed nothing more");
    // A half-closed bridge without a pending request is disconnected.
    other.writing.shutdown().await.unwrap();
    assert!(other.is_sent_away().await);
    let seen = open.end().await;
    assert!(seen.notices("bridge_gone").is_empty());
}

// A tool is cancelled when its bridge disconnects, whether or not the bridge had closed its sending
// side before.
#[tokio::test]
async fn tools_are_called_off_when_their_bridge_is_gone() {
    for says_goodbye in [false, true] {
        let mut rig = rig(WAITS);
        let (_end, flags) = slow_tool(&mut rig);
        let mut open = Open::new(&rig).await;
        let mut peer = open.connect().await;
        peer.say("call slow {}").await;
        until("the tool runs", || flags.running.load(Relaxed)).await;
        if says_goodbye {
            peer.writing.shutdown().await.unwrap();
            // Later bridges are answered, so the half-close has been processed by then.
            for _ in 0..3 {
                let mut later = open.connect().await;
                later.say("hello").await;
                later.hear().await;
            }
            assert!(!flags.gone.load(Relaxed), "it still listens");
        }
        drop(peer);
        assert_eq!(open.notice("bridge_gone").await, "1");
        until("the tool is cancelled", || flags.gone.load(Relaxed)).await;
        open.end().await;
    }
}

// Repeated connection attempts do not flood the events.
#[tokio::test]
async fn refused_connections_are_summarised() {
    let rig = rig(WAITS);
    let open = Open::new(&rig).await;
    let mut crowd = Vec::new();
    for _ in 0..16 {
        let mut peer = open.connect().await;
        peer.say("hello").await;
        peer.hear().await;
        crowd.push(peer);
    }
    for _ in 0..40 {
        assert!(open.connect().await.is_sent_away().await);
    }
    let seen = open.end().await;
    let refusals = seen.notices("bridge_refused");
    assert_eq!(refusals.len(), 4, "{refusals:?}");
    assert!(
        refusals[2].message.contains("only counted") && refusals[3].message.contains("40 times"),
        "{refusals:?}"
    );
}

// Bridge traffic is a sign of life: the agent is working, although it prints nothing itself.
#[tokio::test]
async fn bridge_traffic_resets_the_idle_limit() {
    let mut rig = rig(WAITS);
    // The pauses add up to more than the limit. Each is a tenth of it, so a loaded machine does not
    // reach it.
    rig.spec.limits.idle = Some(Duration::from_secs(4));
    let open = Open::new(&rig).await;
    let mut peer = open.connect().await;
    for _ in 0..11 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        peer.say("working").await;
        assert_eq!(peer.hear().await, "1 working");
    }
    drop(peer);
    let Open {
        mut session,
        mut read,
        ..
    } = open;
    assert!(
        !read
            .iter()
            .any(|event| matches!(event.kind, EventKind::TurnEnded(_)))
    );
    read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    session.stop();
    finish_after(read, session).await;
}

#[tokio::test]
async fn nothing_is_left_however_it_ends() {
    // Killed.
    let deaf = rig("read-user\ninit\nignore-sigterm\nhang");
    let open = Open::new(&deaf).await;
    let mut peer = open.connect().await;
    open.session.kill();
    open.end().await;
    assert!(peer.is_sent_away().await);
    // Dropped.
    let waits = rig(WAITS);
    let open = Open::new(&waits).await;
    let place = open.socket.parent().unwrap().to_owned();
    drop(open);
    until("the directory goes", || !place.exists()).await;
    // Dropped with the runtime.
    let place = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let rig = rig(WAITS);
        let open = runtime.block_on(Open::new(&rig));
        drop(runtime);
        open.socket.parent().unwrap().to_owned()
    });
    assert!(!place.join().unwrap().exists());
    // Never started.
    let mut rig = rig(WAITS);
    let temp = tempfile::tempdir().unwrap();
    rig.spec.program = Some("/nowhere/agent".into());
    rig.host = crate::rig::host(&[
        ("PATH", crate::rig::PATH),
        ("TMPDIR", temp.path().to_str().unwrap()),
    ])
    .with_tool(ostler::tool("add", "Adds.", |_: Add| async {
        Ok(String::new())
    }))
    .with_bridge(BridgeProgram {
        program: "/opt/bridge".into(),
        args: Vec::new(),
    });
    finish_after(Vec::new(), start(&rig)).await;
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

// Each process of an agent has its own socket.
#[tokio::test]
async fn an_agent_that_is_started_again_gets_another_socket() {
    let rig = rig("read-user\ninit\ntext one\nresult one\nexit 3");
    let mut open = Open::new(&rig).await;
    let gone = open.notice("agent_gone").await;
    assert!(!open.socket.exists(), "{gone}");
    open.session.send("again").unwrap();
    let (read, second) = socket(&mut open.session).await;
    assert_ne!(open.socket, second);
    open.read.extend(read);
    open.socket = second;
    open.end().await;
}

#[tokio::test]
async fn missing_bridge_program_is_reported_once() {
    let mut rig = rig(WAITS);
    rig.host = crate::rig::host(&[("PATH", crate::rig::PATH)]).with_tool(ostler::tool(
        "add",
        "Adds.",
        |_: Add| async { Ok(String::new()) },
    ));
    let session = start(&rig);
    session.stop();
    let seen = finish_after(Vec::new(), session).await;
    let [notice] = seen.notices("no_bridge")[..] else {
        panic!("{:?}", seen.notices("no_bridge"))
    };
    assert!(
        notice.message.contains("(add)") && notice.message.contains("Host::with_bridge"),
        "{}",
        notice.message
    );
    assert!(seen.notices("bridge_at").is_empty());
    // Without tools there is nothing to connect to.
    rig.host = crate::rig::host(&[("PATH", crate::rig::PATH)]);
    let session = start(&rig);
    session.stop();
    let seen = finish_after(Vec::new(), session).await;
    assert!(seen.notices("no_bridge").is_empty() && seen.notices("bridge_at").is_empty());
}

/// Not a test: the bridge program that the agent of the next test starts.
#[test]
fn plays_the_bridge() {
    let Some(socket) = std::env::var_os("PLAYED_SOCKET") else {
        return;
    };
    ostler::host::bridge::run([socket], std::io::stdin(), std::io::stdout()).unwrap();
}

// End to end: the agent starts the program, which connects, and a tool answers. A sandbox has no
// local sockets, and the caller is notified.
#[tokio::test]
async fn an_agent_reaches_the_tools_through_the_program_but_not_in_a_sandbox() {
    for sandbox in [Sandbox::Off, Sandbox::ReadOnly] {
        let mut rig = rig("");
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\nfor f in {}/ostler-*/s; do [ -S \"$f\" ] && export PLAYED_SOCKET=\"$f\"; done\n\
             (echo 'call add {{\"a\":40,\"b\":2}}'; sleep 1) | {} --exact --nocapture services::bridge::plays_the_bridge\n",
            rig.path("tmp").display(),
            own.display()
        );
        std::fs::create_dir(rig.path("tmp")).unwrap();
        install(&rig.path("agent"), &script);
        rig.spec.program = Some(rig.path("agent"));
        rig.spec.sandbox = sandbox;
        rig.spec.after_turn = AfterTurn::End;
        rig.spec.raw_log = Some(rig.path("raw"));
        rig.host = crate::rig::host(&[
            ("PATH", crate::rig::PATH),
            ("TMPDIR", rig.path("tmp").to_str().unwrap()),
        ])
        .with_tool(ostler::tool(
            "add",
            "Adds.",
            |Add { a, b }: Add| async move { Ok((a + b).to_string()) },
        ))
        .with_bridge(BridgeProgram {
            program: own,
            args: Vec::new(),
        });
        let seen = finish_after(Vec::new(), start(&rig)).await;
        let (refusals, answered) = (
            seen.notices("no_bridge"),
            rig.text("raw").contains("1:1 ok 42"),
        );
        match sandbox {
            Sandbox::Off => assert!(
                answered && refusals.is_empty(),
                "{} {:?}",
                rig.text("raw"),
                seen.outcome()
            ),
            _ => assert!(
                !answered && refusals[0].message.contains("without --sandbox"),
                "{refusals:?}"
            ),
        }
    }
}
