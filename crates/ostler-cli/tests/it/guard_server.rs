//! The guard server: the guards that it forks are independent of each other and of the server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler::event::EventKind;
use ostler::host::GuardProgram;
use ostler::{Agents, Host, Outcome, Session, Spec};
use ostler_testkit::fake;
use ostler_testkit::processes::{alive, descendants, wait_until, with_argument};
use rustix::process::Signal;

use crate::acp::{RawClient, fake_claude};
use crate::guard::{all_gone, kill, pid};
use crate::rig::{PATIENCE, Rig, collect, signal};

/// An agent that works until it is stopped, with a child that has left its group and environment.
const WORKING: &str = "pid-file agent\nspawn-envless envless\nread\ninit\npid-file working\n\
                       answer-interrupt\nread-until-eof\nexit 0";

/// Sessions of this process under one guard server.
struct Sessions {
    rig: Rig,
    host: Host,
    /// An argument that only this server and its guards have.
    name: String,
    runtime: tokio::runtime::Handle,
    /// Descriptors that this process had before.
    before: Vec<(String, String)>,
}

impl Sessions {
    fn new() -> Self {
        let before = channels(std::process::id());
        let rig = Rig::new();
        let name = format!("test-{}", rig.dir().display());
        let guard = GuardProgram {
            program: env!("CARGO_BIN_EXE_ostler").into(),
            args: vec!["__guard".into(), name.clone().into()],
        };
        let path = ("PATH".into(), "/usr/bin:/bin".into());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Self {
            rig,
            host: Host::new([path]).with_guard(guard),
            name,
            runtime: handle,
            before,
        }
    }

    /// Starts an agent in the directory `name`, with a variable of that value.
    fn start(&self, name: &str) -> Session {
        let dir = self.rig.path(name);
        std::fs::create_dir(&dir).unwrap();
        let script = fake::script(&dir, WORKING).display().to_string();
        let env = [(fake::SCRIPT, script), ("TOKEN", format!("token-{name}"))];
        let mut spec = Spec::new("Do it.").program(fake::program()).dir(dir);
        spec.env = BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value)));
        let _inside = self.runtime.enter();
        let agent = Agents::builtin().get("claude").unwrap();
        agent.start(&self.host, spec).unwrap()
    }

    /// Waits until the agent in this directory works, and returns it and its child.
    fn working(&self, name: &str) -> [u32; 2] {
        self.rig.number(&format!("{name}/working"));
        ["agent", "envless"].map(|file| self.rig.number(&format!("{name}/{file}")))
    }

    /// Returns the server or the guards, by the name of the process.
    fn processes(&self, comm: &str) -> Vec<u32> {
        let mut found = with_argument(&self.name);
        found.retain(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == comm)
        });
        found
    }

    fn servers(&self) -> Vec<u32> {
        self.processes("guard-server")
    }

    fn guards(&self) -> Vec<u32> {
        self.processes("agent-guard")
    }

    fn stop(&self, session: Session) -> Outcome {
        session.stop();
        self.outcome(session)
    }

    fn outcome(&self, mut session: Session) -> Outcome {
        self.runtime.block_on(async {
            let mut outcome = None;
            while let Some(event) = session.next().await {
                if let EventKind::Ended(ended) = event.kind {
                    outcome = Some(ended.outcome);
                }
            }
            outcome.unwrap()
        })
    }
}

#[test]
fn one_server_forks_the_guards_of_all_sessions() {
    let sessions = Sessions::new();
    let (one, two) = (sessions.start("one"), sessions.start("two"));
    let (first, second) = (sessions.working("one"), sessions.working("two"));
    let (servers, guards) = (sessions.servers(), sessions.guards());
    assert_eq!((servers.len(), guards.len()), (1, 2));
    assert_eq!(sessions.stop(one).cause.as_str(), "stopped");
    assert!(first.iter().all(|pid| !alive(*pid)));
    assert!(second.iter().all(|pid| alive(*pid)), "the other still runs");
    assert_eq!(sessions.stop(two).cause.as_str(), "stopped");
    assert!(second.iter().all(|pid| !alive(*pid)));
    assert!(all_gone(&guards, PATIENCE));
    assert_eq!(sessions.servers(), servers, "the server is used again");
}

// If the server is killed, running sessions go on and are ended as usual, and the next session
// starts another server.
#[test]
fn a_killed_server_is_replaced_and_its_guards_stay() {
    let sessions = Sessions::new();
    let one = sessions.start("one");
    let first = sessions.working("one");
    let [server] = sessions.servers()[..] else {
        panic!("one server")
    };
    kill(server);
    assert!(wait_until(PATIENCE, || !alive(server)));
    assert!(first.iter().all(|pid| alive(*pid)), "the agent still runs");
    let two = sessions.start("two");
    let second = sessions.working("two");
    assert_eq!(sessions.servers().len(), 1);
    assert_ne!(sessions.servers(), [server]);
    for (session, pids) in [(one, first), (two, second)] {
        assert_eq!(sessions.stop(session).cause.as_str(), "stopped");
        assert!(pids.iter().all(|pid| !alive(*pid)));
    }
    assert!(wait_until(PATIENCE, || sessions.guards().is_empty()));
}

// A guard that cannot start an agent is a named cause.
#[test]
fn a_server_that_exits_at_once_is_reported() {
    let mut sessions = Sessions::new();
    sessions.host = sessions.host.with_guard(GuardProgram {
        program: "/bin/true".into(),
        args: vec![sessions.name.clone().into()],
    });
    for name in ["one", "two"] {
        let outcome = sessions.outcome(sessions.start(name));
        assert_eq!(outcome.cause.as_str(), "unavailable");
        assert!(outcome.message.contains("guard"), "{}", outcome.message);
    }
}

// A stopped server is continued when it is needed.
#[test]
fn a_stopped_server_still_starts_sessions() {
    let sessions = Sessions::new();
    let one = sessions.start("one");
    sessions.working("one");
    let server = sessions.servers()[0];
    rustix::process::kill_process(pid(server), Signal::STOP).unwrap();
    let two = sessions.start("two");
    sessions.working("two");
    assert_eq!(sessions.servers(), [server]);
    for session in [one, two] {
        assert_eq!(sessions.stop(session).cause.as_str(), "stopped");
    }
}

// The guard of the first agent is forked ahead of it. One that is stopped is continued with the
// server, and the server replaces one that was killed. Either ends with Ostler.
#[test]
fn a_first_guard_that_is_stopped_or_killed_delays_no_agent() {
    for cause in [Signal::STOP, Signal::KILL] {
        let rig = Rig::new();
        let mut client = RawClient::start(fake_claude(&rig, WORKING));
        let ostler = client.child.id();
        assert!(wait_until(PATIENCE, || descendants(ostler).len() == 2));
        let forked = descendants(ostler);
        let is_server = |process: &&u32| !descendants(**process).is_empty();
        let (server, first): (Vec<u32>, Vec<u32>) = forked.iter().partition(is_server);
        rustix::process::kill_process(pid(first[0]), cause).unwrap();
        if cause == Signal::STOP {
            rustix::process::kill_process(pid(server[0]), cause).unwrap();
        }
        let dir = rig.path("0");
        std::fs::create_dir(&dir).unwrap();
        let session = client.open(&dir);
        client.prompt(&session);
        rig.number("0/working");
        let pids = [forked, descendants(ostler)].concat();
        signal(&client.child, Signal::KILL);
        assert!(all_gone(&pids, PATIENCE), "{cause:?}");
        let _ = collect(client.child);
    }
}

// Without an agent, the first guard ends with Ostler, even if it is stopped.
#[test]
fn a_first_guard_without_an_agent_ends_with_ostler() {
    let rig = Rig::new();
    let client = RawClient::start(fake_claude(&rig, WORKING));
    let ostler = client.child.id();
    assert!(wait_until(PATIENCE, || descendants(ostler).len() == 2));
    let forked = descendants(ostler);
    for process in &forked {
        rustix::process::kill_process(pid(*process), Signal::STOP).unwrap();
    }
    signal(&client.child, Signal::KILL);
    assert!(all_gone(&forked, PATIENCE));
    let _ = collect(client.child);
}

// P5, P67: everything ends with a killed driver, although a guard and the server are stopped.
#[test]
fn killing_ostler_leaves_nothing_of_twenty_sessions() {
    const SESSIONS: usize = 20;
    let rig = Rig::new();
    let mut client = RawClient::start(fake_claude(&rig, WORKING));
    let dirs: Vec<PathBuf> = (0..SESSIONS).map(|n| rig.path(&n.to_string())).collect();
    let opened: Vec<String> = dirs
        .iter()
        .map(|dir| {
            std::fs::create_dir(dir).unwrap();
            client.open(dir)
        })
        .collect();
    opened.iter().for_each(|session| client.prompt(session));
    let mut pids: Vec<u32> = Vec::new();
    for n in 0..SESSIONS {
        rig.number(&format!("{n}/working"));
        pids.extend(["agent", "envless"].map(|file| rig.number(&format!("{n}/{file}"))));
    }
    pids.extend(descendants(client.child.id()));
    let comm = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let find = |name: &str| *pids.iter().find(|pid| comm(pid).trim() == name).unwrap();
    for process in ["guard-server", "agent-guard"].map(find) {
        // `pkill -f ostler` must not find it, and it has no key of the user.
        let shown = |file| {
            let shown = std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
            shown.trim_end_matches('\0').to_owned()
        };
        assert_eq!(
            (&*shown("cmdline"), &*shown("environ")),
            ("agent-guard", "")
        );
        rustix::process::kill_process(pid(process), Signal::STOP).unwrap();
    }
    signal(&client.child, Signal::KILL);
    assert!(
        all_gone(&pids, PATIENCE),
        "left: {:?}",
        pids.iter().filter(|pid| alive(**pid)).collect::<Vec<_>>()
    );
    let _ = collect(client.child);
}

/// Returns the pipes and sockets of a process.
fn channels(pid: u32) -> Vec<(String, String)> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten();
    let named = fds.filter_map(|fd| {
        let number = fd.file_name().into_string().unwrap();
        let target = std::fs::read_link(fd.path()).ok()?;
        Some((number, target.to_str()?.to_owned()))
    });
    let mut found: Vec<(String, String)> = named
        .filter(|(_, target)| target.starts_with("pipe:") || target.starts_with("socket:"))
        .collect();
    found.sort();
    found
}

// An agent has its streams and nothing else. Its guard does not hold them: Ostler waits for their
// end. Nobody but a guard holds its socket: its end means that the guard has exited.
#[test]
fn no_descriptor_reaches_another_session() {
    let sessions = Sessions::new();
    let (one, two) = (sessions.start("one"), sessions.start("two"));
    let agents = [sessions.working("one")[0], sessions.working("two")[0]];
    let channels = |pid| {
        let mut found = channels(pid);
        found.retain(|(_, target)| !sessions.before.iter().any(|(_, before)| before == target));
        found
    };
    let mut all: Vec<String> = Vec::new();
    for agent in agents {
        let found = channels(agent);
        let numbers: Vec<&str> = found.iter().map(|(number, _)| number.as_str()).collect();
        assert_eq!(numbers, ["0", "1", "2"], "{found:?}");
        all.extend(found.into_iter().map(|(_, target)| target));
    }
    for process in sessions.guards().into_iter().chain(sessions.servers()) {
        let found = channels(process);
        assert_eq!(found.len(), 1, "{process}: {found:?}");
        assert!(found[0].1.starts_with("socket:"), "{found:?}");
        all.extend(found.into_iter().map(|(_, target)| target));
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((count, all.len()), (9, 9), "each is held by one process");
    for session in [one, two] {
        assert_eq!(sessions.stop(session).cause.as_str(), "stopped");
    }
}

// Neither the server nor a guard has the variables of a session, and no other session has them.
#[test]
fn no_variable_reaches_another_session() {
    let sessions = Sessions::new();
    let (one, two) = (sessions.start("one"), sessions.start("two"));
    let environ = |pid: u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    for (name, other) in [("one", "two"), ("two", "one")] {
        let env = environ(sessions.working(name)[0]);
        assert!(env.contains(&format!("TOKEN=token-{name}")), "{env}");
        assert!(!env.contains(&format!("token-{other}")), "{env}");
    }
    let guards = sessions.guards();
    assert_eq!(guards.len(), 2);
    for pid in guards.into_iter().chain(sessions.servers()) {
        assert_eq!(environ(pid), "");
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8(line).unwrap().contains("fake-agent"));
    }
    for session in [one, two] {
        assert_eq!(sessions.stop(session).cause.as_str(), "stopped");
    }
}
