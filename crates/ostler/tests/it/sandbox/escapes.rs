//! Other processes, the network, the kernel, the environment: none of it is a command's business.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};

use ostler_testkit::processes::{alive, wait_until};

use super::rig::{Scene, has, installed, program};

/// Somebody else's process, ended with the test.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").env("BYSTANDER", super::rig::SECRET).spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// S2-27: what the host holds for others is not to be found in their processes either.
#[tokio::test]
async fn other_processes_cannot_be_looked_into() {
    let (scene, other) = (Scene::new(), Bystander::new());
    if !has(&scene.runner().report(), "files", "other_processes_cannot_be_looked_into") {
        return;
    }
    let (own, other) = (std::process::id(), other.0.id());
    let outside = scene.at("outside");
    scene.attack(&format!(
        "#!/bin/sh\nfor pid in {own} {other} $PPID; do\n\
         cat /proc/$pid/environ && echo LEAK; cat /proc/$pid/maps && echo LEAK; head -c 1 /proc/$pid/mem && echo LEAK\n\
         cat /proc/$pid/root{}/file && echo LEAK; ls /proc/$pid/cwd/ && echo LEAK; ls -l /proc/$pid/fd/ | grep -q pipe && echo LEAK\ndone; echo end\n",
        outside.display()
    ));
    let done = scene.run().await;
    done.assert_no_secret();
    assert!(done.stdout().ends_with("end") && !done.text.contains("LEAK"), "{}", done.text);
}

#[tokio::test]
async fn other_processes_cannot_be_signalled() {
    let (scene, mut other) = (Scene::new(), Bystander::new());
    if !has(&scene.runner().report(), "signals", "other_processes_cannot_be_signalled") {
        return;
    }
    let pids = format!("{} {}", std::process::id(), other.0.id());
    scene.attack(&format!(
        "#!/bin/sh\nfor pid in {pids} $PPID; do for s in KILL TERM STOP; do kill -$s $pid && echo LEAK; done; done; kill -0 $$ && echo end\n"
    ));
    let done = scene.run().await;
    assert!(done.stdout().ends_with("end") && !done.text.contains("LEAK"), "{}", done.text);
    assert!(other.0.try_wait().unwrap().is_none(), "somebody else's process was ended");
}

// Network out, in all its forms.
#[tokio::test]
async fn nobody_can_be_reached_over_tcp_or_udp() {
    let scene = Scene::new();
    if !installed("bash", "nobody_can_be_reached_over_tcp_or_udp")
        || !has(&scene.runner().report(), "network", "nobody_can_be_reached_over_tcp_or_udp")
    {
        return;
    }
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    scene.attack(&format!(
        "#!/bin/bash\n(echo x > /dev/tcp/127.0.0.1/{tcp_port}) && echo LEAK\n(echo x > /dev/udp/127.0.0.1/{udp_port}) && echo LEAK\n\
         command -v curl > /dev/null && curl -s --max-time 2 http://127.0.0.1:{tcp_port}/ && echo LEAK\n\
         git ls-remote git://127.0.0.1:{tcp_port}/x && echo LEAK\necho end\n"
    ));
    let done = scene.run().await;
    assert!(done.stdout().ends_with("end") && !done.text.contains("LEAK"), "{}", done.text);
    assert_eq!(tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody came");
    assert_eq!(udp.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "something came");
}

#[tokio::test]
async fn no_kind_of_socket_can_be_made() {
    let scene = Scene::new();
    if !installed("perl", "no_kind_of_socket_can_be_made")
        || !has(&scene.runner().report(), "system_calls", "no_kind_of_socket_can_be_made")
    {
        return;
    }
    let path = scene.work().join("socket");
    let service = UnixListener::bind(&path).unwrap();
    service.set_nonblocking(true).unwrap();
    // Local, IP, raw, netlink, packets: each family by its number; and a pair, which reaches nobody, is fine.
    scene.attack(
        "#!/usr/bin/perl\nuse Socket;\nfor my $f (1, 2, 10, 16, 17, 38, 40) { for my $t (1, 2, 3) {\n\
         print \"LEAK $f $t\\n\" if socket(my $s, $f, $t, 0);\n} }\n\
         my $u; socket($u, 1, 1, 0) and connect($u, sockaddr_un('socket')) and print \"LEAK connect\\n\";\n\
         socketpair(my $a, my $b, 1, 1, 0) and print \"end\\n\";\n",
    );
    let done = scene.run().await;
    assert!(done.stdout() == "end", "{}", done.text);
    assert_eq!(service.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

// Where a policy opens the network, services behind local sockets stay closed.
#[tokio::test]
async fn an_open_network_opens_no_local_sockets() {
    let scene = Scene::new().sandbox("network = \"all\"");
    if !installed("perl", "an_open_network_opens_no_local_sockets")
        || !has(&scene.runner().report(), "network", "an_open_network_opens_no_local_sockets")
    {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    scene.attack(&format!(
        "#!/usr/bin/perl\nuse Socket;\nprint \"LEAK\\n\" if socket(my $s, 1, 1, 0);\nprint \"LEAK raw\\n\" if socket(my $r, 2, 3, 1);\n\
         my $t; socket($t, 2, 1, 0) and connect($t, pack_sockaddr_in({port}, inet_aton('127.0.0.1'))) and print \"end\\n\";\n"
    ));
    let done = scene.run().await;
    assert_eq!(done.stdout(), "end", "{}", done.text);
}

#[tokio::test]
async fn the_view_of_the_system_cannot_be_changed() {
    let scene = Scene::new();
    if !has(&scene.runner().report(), "system_calls", "the_view_of_the_system_cannot_be_changed") {
        return;
    }
    scene.attack(
        "#!/bin/sh\nmount -t tmpfs none . && echo LEAK\nmount --bind / . && echo LEAK\numount /proc && echo LEAK\nunshare -r true && echo LEAK\n\
         unshare -m true && echo LEAK\nunshare -n true && echo LEAK\nchroot . /bin/true && echo LEAK\nnsenter -t 1 -m true && echo LEAK\n\
         mknod null c 1 3 && echo LEAK\nmknod disk b 8 0 && echo LEAK\ndmesg && echo LEAK\nhostname changed && echo LEAK\n\
         echo 1 > /proc/sys/vm/drop_caches && echo LEAK\necho x > /proc/sysrq-trigger && echo LEAK\nswapoff -a 2>/dev/null; reboot -f && echo LEAK\n\
         date -s 2001-01-01 && echo LEAK\necho end\n",
    );
    let done = scene.run().await;
    assert!(done.stdout().ends_with("end") && !done.stdout().contains("LEAK"), "{}", done.text);
}

#[tokio::test]
async fn privileges_are_gone_and_do_not_come_back() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\ngrep -E 'NoNewPrivs|CapEff|CapBnd|Seccomp:' /proc/self/status\n");
    let done = scene.run().await;
    let field = |name: &str| {
        let line = done.stdout().lines().find(|line| line.starts_with(name)).unwrap_or_default();
        u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap()
    };
    assert_eq!(field("NoNewPrivs"), 1);
    // Owners and modes of files, which the workspace needs; not the network, other processes, modules, mounts, devices.
    assert_eq!(field("CapEff") & !0b1_1011, 0, "{}", done.text);
    if has(&scene.runner().report(), "system_calls", "privileges_are_gone_and_do_not_come_back") {
        assert_eq!(field("Seccomp:"), 2);
    }
}

// A program that runs as its owner, or its group, would give root away, long after the command.
#[tokio::test]
async fn no_program_is_left_that_runs_as_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    if !has(&scene.runner().report(), "system_calls", "no_program_is_left_that_runs_as_its_owner") {
        return;
    }
    let made = "sysopen(F, 'd', 0101, 04755); chmod(04755, 'b'); use POSIX; mkfifo('e', 04755);";
    scene.attack(&format!(
        "#!/bin/sh\numask 0\ncp /bin/true a; cp a b; cp a c; cp a f\nchmod 4755 a; chmod u+s c; install -m 4755 a g; perl -e \"{made}\"\n\
         chmod 755 f && mkdir h && echo end; chmod 2755 f; chmod g+s h\n"
    ));
    let done = scene.run().await;
    assert_eq!(done.stdout(), "end", "an ordinary mode can be set: {}", done.text);
    for file in fs::read_dir(scene.work()).unwrap().map(Result::unwrap) {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?}", file.path());
    }
}

// S2-27, S2-30
#[tokio::test]
async fn secrets_of_the_host_are_not_in_the_environment() {
    let scene = Scene::new()
        .sandbox("env = [\"FLAVOUR\"]")
        .var("ANTHROPIC_API_KEY", "canary-1")
        .var("OPENAI_API_KEY", "canary-2")
        .var("GITHUB_TOKEN", "canary-3")
        .var("AWS_SECRET_ACCESS_KEY", "canary-4")
        .var("SSH_AUTH_SOCK", "canary-5")
        .var("HTTPS_PROXY", "http://user:canary-6@proxy")
        .var("LD_PRELOAD", "canary-7")
        .var("OSTLER_OTHER", "canary-8")
        .var("GIT_DIR", "canary-9")
        .var("FLAVOUR", "sweet")
        .var("LC_ALL", "C");
    scene.attack("#!/bin/sh\nenv\n");
    let done = scene.run().await;
    assert!(!done.text.contains("canary-"), "{}", done.text);
    for wanted in ["FLAVOUR=sweet", "LC_ALL=C", "TERM=dumb", "OSTLER_SESSION=session-", "TMPDIR=", "HOME="] {
        assert!(done.stdout().lines().any(|line| line.starts_with(wanted)), "{wanted}: {}", done.text);
    }
}

// S2-28: whatever it does to its group and session, nothing of it is left.
#[tokio::test]
async fn what_leaves_the_session_ends_with_the_command() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\nsetsid sleep 300 & echo $! > a\n(setsid sh -c 'sleep 301 & echo $! > b; wait' &)\nnohup sleep 302 > /dev/null 2>&1 & echo $! > c\nsleep 0.3\n");
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    for name in ["a", "b", "c"] {
        let pid: u32 = fs::read_to_string(scene.work().join(name)).unwrap().trim().parse().unwrap();
        assert!(!alive(pid), "{name} is left");
    }
    assert_eq!(scene.left(), [0; 0]);
}

// Without a guard, and with nothing left by which to find them but the cgroup.
#[tokio::test]
async fn what_has_no_environment_ends_too_where_there_is_a_cgroup() {
    let scene = Scene::new();
    let report = scene.runner().report();
    if !report.layers.iter().any(|layer| layer.name == "processes" && layer.by.contains("cgroup")) {
        eprintln!("skipped: what_has_no_environment_ends_too_where_there_is_a_cgroup: there is no cgroup");
        return;
    }
    scene.attack("#!/bin/sh\nenv -i setsid sleep 300 > /dev/null 2>&1 & echo $! > a\nsleep 0.3\n");
    assert_eq!(scene.run().await.code(), Some(0));
    let pid: u32 = fs::read_to_string(scene.work().join("a")).unwrap().trim().parse().unwrap();
    assert!(!alive(pid));
}

// Whoever drops the call has the command ended, and its traces in protected files removed.
#[tokio::test]
async fn a_call_that_is_dropped_ends_the_command() {
    let scene = Scene::new();
    fs::create_dir(scene.work().join(".ostler")).unwrap();
    fs::write(scene.work().join(".ostler/sandbox.toml"), "").unwrap();
    scene.attack("#!/bin/sh\necho 'network = \"all\"' > .ostler/sandbox.toml\necho $$ > pid\nexec sleep 300\n");
    let written = scene.work().join("pid");
    let pid = || fs::read_to_string(&written).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let there = async {
        while pid().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        done = scene.run() => panic!("it ended by itself: {}", done.text),
        () = there => {}
    }
    let restored = || fs::read_to_string(scene.work().join(".ostler/sandbox.toml")).unwrap().is_empty();
    for _ in 0..1000 {
        if restored() && !alive(pid().unwrap()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(restored() && wait_until(std::time::Duration::ZERO, || !alive(pid().unwrap())));
}

// A program of an allowed name that lies in the workspace is the model's own; it is neither run nor does it hide the real one.
#[tokio::test]
async fn a_planted_program_is_not_run() {
    let scene = Scene::new();
    let bin = scene.work().join("bin");
    fs::create_dir(&bin).unwrap();
    program(&bin.join("git"), "#!/bin/sh\ntouch planted\n");
    program(&bin.join("just"), "#!/bin/sh\ntouch planted\n");
    program(&scene.work().join("git"), "#!/bin/sh\ntouch planted\n");
    let path = format!("{}:.::{}/../bin:/usr/local/bin:/usr/bin:/bin", bin.display(), bin.display());
    let scene = scene.var("PATH", &path);
    let done = scene.call("git", &["--version"]).await.unwrap();
    assert!(done.stdout().starts_with("git version"), "{}", done.text);
    let refused = scene.call("just", &["x"]).await;
    assert!(refused.is_err_and(|error| matches!(error.code.word(), "denied_by_policy" | "file_not_found")));
    assert!(!scene.work().join("planted").exists());
}
