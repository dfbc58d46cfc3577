//! Other processes, the network, the kernel, the environment: all out of a command's reach.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};

use ostler_testkit::processes::with_argument;

use super::rig::{Scene, has, installed, program};

/// An unrelated process, ended with the test.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        // Without capabilities, like an ordinary user's: a root process that has some is protected
        // by that alone.
        let bare = [
            "--bounding-set",
            "-all",
            "--inh-caps",
            "-all",
            "sleep",
            "60",
        ];
        let mut command = match rustix::process::geteuid().is_root() {
            true => Command::new("setpriv"),
            false => Command::new("env"),
        };
        let args = if rustix::process::geteuid().is_root() {
            &bare[..]
        } else {
            &bare[4..]
        };
        Self(
            command
                .args(args)
                .env("BYSTANDER", super::rig::SECRET)
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks that no file of the workspace has a set-id bit, and that there are at least `least` files
/// to check.
fn assert_no_special_mode(scene: &Scene, least: usize) {
    let mut count = 0;
    for file in fs::read_dir(scene.work()).unwrap().map(Result::unwrap) {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?}", file.path());
        count += 1;
    }
    assert!(count >= least, "only {count} files to check");
}

// S2-27: secrets the host holds cannot be found in other processes either.
#[tokio::test]
async fn other_processes_cannot_be_looked_into() {
    let (scene, other) = (Scene::new(), Bystander::new());
    if !has(
        &scene.runner().report(),
        "files",
        "other_processes_cannot_be_looked_into",
    ) {
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
    assert!(
        done.stdout().ends_with("end") && !done.text.contains("LEAK"),
        "{}",
        done.text
    );
}

#[tokio::test]
async fn other_processes_cannot_be_signalled() {
    let (scene, mut other) = (Scene::new(), Bystander::new());
    if !has(
        &scene.runner().report(),
        "signals",
        "other_processes_cannot_be_signalled",
    ) {
        return;
    }
    let pids = format!("{} {}", std::process::id(), other.0.id());
    scene.attack(&format!(
        "#!/bin/sh\nfor pid in {pids} $PPID; do for s in KILL TERM STOP; do kill -$s $pid && echo LEAK; done; done; kill -0 $$ && echo end\n"
    ));
    let done = scene.run().await;
    assert!(
        done.stdout().ends_with("end") && !done.text.contains("LEAK"),
        "{}",
        done.text
    );
    assert!(
        other.0.try_wait().unwrap().is_none(),
        "an unrelated process was ended"
    );
}

// Outgoing network, in all its forms.
#[tokio::test]
async fn no_host_is_reachable_over_tcp_or_udp() {
    let scene = Scene::new();
    if !installed("bash", "no_host_is_reachable_over_tcp_or_udp")
        || !has(
            &scene.runner().report(),
            "network",
            "no_host_is_reachable_over_tcp_or_udp",
        )
    {
        return;
    }
    let (tcp, udp) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
    );
    scene.attack(&format!(
        "#!/bin/bash\n(echo x > /dev/tcp/127.0.0.1/{tcp_port}) && echo LEAK\n(echo x > /dev/udp/127.0.0.1/{udp_port}) && echo LEAK\n\
         command -v curl > /dev/null && curl -s --max-time 2 http://127.0.0.1:{tcp_port}/ && echo LEAK\n\
         git ls-remote git://127.0.0.1:{tcp_port}/x && echo LEAK\necho end\n"
    ));
    let done = scene.run().await;
    assert!(
        done.stdout().ends_with("end") && !done.text.contains("LEAK"),
        "{}",
        done.text
    );
    assert_eq!(
        tcp.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "a connection arrived"
    );
    assert_eq!(
        udp.recv(&mut [0; 8]).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "a datagram arrived"
    );
}

#[tokio::test]
async fn no_kind_of_socket_can_be_made() {
    let scene = Scene::new();
    if !installed("perl", "no_kind_of_socket_can_be_made")
        || !has(
            &scene.runner().report(),
            "system_calls",
            "no_kind_of_socket_can_be_made",
        )
    {
        return;
    }
    let path = scene.work().join("socket");
    let service = UnixListener::bind(&path).unwrap();
    service.set_nonblocking(true).unwrap();
    // Local, IP, raw, netlink, packet: each family by its number. A socket pair, which reaches no
    // other process, is fine.
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
        || !has(
            &scene.runner().report(),
            "network",
            "an_open_network_opens_no_local_sockets",
        )
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
    if !has(
        &scene.runner().report(),
        "system_calls",
        "the_view_of_the_system_cannot_be_changed",
    ) {
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
    assert!(
        done.stdout().ends_with("end") && !done.stdout().contains("LEAK"),
        "{}",
        done.text
    );
}

#[tokio::test]
async fn privileges_are_gone_and_do_not_come_back() {
    let scene = Scene::new();
    scene.attack("#!/bin/sh\ngrep -E 'NoNewPrivs|Cap|Seccomp:' /proc/self/status\n");
    let done = scene.run().await;
    let field = |name: &str| {
        let line = done
            .stdout()
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap()
    };
    assert_eq!(field("NoNewPrivs"), 1);
    assert_eq!(
        (
            field("CapEff"),
            field("CapPrm"),
            field("CapInh"),
            field("CapBnd")
        ),
        (0, 0, 0, 0),
        "{}",
        done.text
    );
    if has(
        &scene.runner().report(),
        "system_calls",
        "privileges_are_gone_and_do_not_come_back",
    ) {
        assert_eq!(field("Seccomp:"), 2);
    }
}

// A set-uid or set-gid program would give root away, long after the command.
#[tokio::test]
async fn no_program_is_left_that_runs_as_its_owner() {
    let scene = Scene::new();
    if !has(
        &scene.runner().report(),
        "system_calls",
        "no_program_is_left_that_runs_as_its_owner",
    ) {
        return;
    }
    let made = "sysopen(F, 'd', 0101, 04755); chmod(04755, 'b'); use POSIX; mkfifo('e', 04755);";
    scene.attack(&format!(
        "#!/bin/sh\numask 0\ncp /bin/true a; cp a b; cp a c; cp a f\nchmod 4755 a; chmod u+s c; install -m 4755 a g; perl -e \"{made}\"\n\
         chmod 755 f && mkdir h && echo end; chmod 2755 f; chmod g+s h\n"
    ));
    let done = scene.run().await;
    assert_eq!(
        done.stdout(),
        "end",
        "an ordinary mode can be set: {}",
        done.text
    );
    assert_no_special_mode(&scene, 6);
}

// S2-27, S2-30
#[tokio::test]
async fn secrets_of_the_host_are_not_in_the_environment() {
    let scene = Scene::new()
        .sandbox("env = [\"FLAVOUR_LOG\", \"OTHER_LOG\"]")
        .var("ANTHROPIC_API_KEY", "canary-1")
        .var("OPENAI_API_KEY", "canary-2")
        .var("GITHUB_TOKEN", "canary-3")
        .var("AWS_SECRET_ACCESS_KEY", "canary-4")
        .var("SSH_AUTH_SOCK", "canary-5")
        .var("HTTPS_PROXY", "http://user:canary-6@proxy")
        .var("LD_PRELOAD", "canary-7")
        .var("OSTLER_OTHER", "canary-8")
        .var("GIT_DIR", "canary-9")
        .var("FLAVOUR_LOG", "sweet")
        // A harmless name with a password in its value.
        .var("OTHER_LOG", "postgres://me:canary-10@db/x")
        .var("LC_ALL", "C");
    scene.attack("#!/bin/sh\nenv\n");
    let done = scene.run().await;
    assert!(!done.text.contains("canary-"), "{}", done.text);
    for wanted in [
        "FLAVOUR_LOG=sweet",
        "LC_ALL=C",
        "TERM=dumb",
        "OSTLER_SESSION=session-",
        "TMPDIR=",
        "HOME=",
    ] {
        assert!(
            done.stdout().lines().any(|line| line.starts_with(wanted)),
            "{wanted}: {}",
            done.text
        );
    }
}

// S2-28: whatever a command does to its group and session, nothing of it is left.
#[tokio::test]
async fn processes_that_leave_the_session_end_with_the_command() {
    let scene = Scene::new();
    let nap = scene.nap();
    scene.attack(&format!(
        "#!/bin/sh\nsetsid sleep {nap} &\n(setsid sh -c 'sleep {nap} & touch b; wait' &)\nnohup sleep {nap} > /dev/null 2>&1 &\n\
         while [ ! -e b ]; do sleep 0.01; done\npgrep -x sleep | wc -l\n"
    ));
    let done = scene.run().await;
    assert_eq!(done.code(), Some(0), "{}", done.text);
    assert!(with_argument(&nap).is_empty(), "a process is left");
    assert_eq!(scene.left(), [0; 0]);
}

// There is no guard, and neither their session nor their environment identifies them.
#[tokio::test]
async fn processes_without_environment_end_with_the_command() {
    let scene = Scene::new();
    let report = scene.runner().report();
    let counts = report
        .layers
        .iter()
        .any(|layer| layer.name == "processes" && layer.by.contains("cgroup"));
    if !counts
        && !has(
            &report,
            "process_tree",
            "processes_without_environment_end_with_the_command",
        )
    {
        return;
    }
    let nap = scene.nap();
    scene.attack(&format!(
        "#!/bin/sh\nenv -i setsid sleep {nap} > /dev/null 2>&1 &\nsleep 0.3\n"
    ));
    assert_eq!(scene.run().await.code(), Some(0));
    assert!(with_argument(&nap).is_empty(), "a process is left");
}

// Dropping the call ends the command, and undoes its changes to protected files.
#[tokio::test]
async fn a_call_that_is_dropped_ends_the_command() {
    let scene = Scene::new();
    fs::create_dir(scene.work().join(".git")).unwrap();
    let (nap, hook) = (scene.nap(), scene.work().join(".git/hooks/pre-commit"));
    scene.attack(&format!(
        "#!/bin/sh\nmkdir .git/hooks; echo x > .git/hooks/pre-commit\necho > begun\nexec sleep {nap}\n"
    ));
    let begun = scene.work().join("begun");
    let there = async {
        while !begun.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        done = scene.run() => panic!("it ended by itself: {}", done.text),
        () = there => {}
    }
    assert!(hook.exists());
    while hook.exists() || !with_argument(&nap).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

// A set-id file for root to run, created without ever having a name.
#[tokio::test]
async fn a_file_without_a_name_gets_no_set_id_bit() {
    let scene = Scene::new();
    if !installed("perl", "a_file_without_a_name_gets_no_set_id_bit")
        || !has(
            &scene.runner().report(),
            "system_calls",
            "a_file_without_a_name_gets_no_set_id_bit",
        )
    {
        return;
    }
    // O_TMPFILE | O_WRONLY with a mode; linked into the workspace through its descriptor.
    scene.attack(
        "#!/usr/bin/perl\numask 0; for my $mode (04755, 02755, 06755, 0755) {\n\
         if (sysopen(my $file, '.', 020200001, $mode)) { print \"made\\n\"; system('ln', '-L', \"/proc/$$/fd/\" . fileno($file), \"planted-$mode\") }\n} print 'end';\n",
    );
    let done = scene.run().await;
    assert!(done.stdout().ends_with("end"), "{}", done.text);
    assert_no_special_mode(&scene, 1);
}

// A pair of datagram sockets could reach every path, and a raw one is the same under another name.
#[tokio::test]
async fn a_pair_of_sockets_reaches_no_server() {
    use std::os::unix::net::UnixDatagram;
    for network in ["none", "all"] {
        let scene = Scene::new().sandbox(&format!("network = \"{network}\""));
        if !installed("perl", "a_pair_of_sockets_reaches_no_server")
            || !has(
                &scene.runner().report(),
                "system_calls",
                "a_pair_of_sockets_reaches_no_server",
            )
        {
            return;
        }
        let server = UnixDatagram::bind(scene.work().join("socket")).unwrap();
        server.set_nonblocking(true).unwrap();
        scene.attack(
            "#!/usr/bin/perl\nuse Socket;\nfor my $kind (2, 3, 5, 2 | 02000000, 3 | 04000) {\n\
             if (socketpair(my $a, my $b, AF_UNIX, $kind, 0)) { send($a, 'x', 0, sockaddr_un('socket')) and print \"sent $kind\\n\" }\n}\n\
             socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) and print 'end';\n",
        );
        let done = scene.run().await;
        assert!(done.stdout().ends_with("end"), "{}", done.text);
        assert_eq!(
            server.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "data arrived: {}",
            done.text
        );
    }
}

// A signal that a command sends to its own group reaches neither the process that waits for it nor
// the one that ends with it.
#[tokio::test]
async fn command_can_only_stop_itself() {
    let scene = Scene::new();
    if !installed("perl", "command_can_only_stop_itself") {
        return;
    }
    scene.attack(
        "#!/usr/bin/perl\nif (!fork) { setpgrp; mkdir 'apart'; for (1..100) { select undef, undef, undef, 0.05; kill 'CONT', getppid } exit }\n\
         select undef, undef, undef, 0.01 until -e 'apart';\n\
         open my $group, '<', '/proc/self/stat'; my @own = split ' ', <$group>;\n\
         kill 'STOP', 0; print \"group $own[4] of $$\"; exit 7;\n",
    );
    let done = scene.run().await;
    assert_eq!(done.code(), Some(7), "{}", done.text);
    let words: Vec<&str> = done.stdout().split(' ').collect();
    assert_eq!(
        words[1], words[3],
        "the command does not have its own group: {}",
        done.text
    );
}

// What Python's `multiprocessing` needs works, and is not visible to other processes.
#[tokio::test]
async fn shared_memory_is_private_and_works() {
    let scene = Scene::new();
    if !installed("python3", "shared_memory_is_private_and_works")
        || !has(
            &scene.runner().report(),
            "attributes",
            "shared_memory_is_private_and_works",
        )
    {
        return;
    }
    let name = format!("ostler-{}", std::process::id());
    scene.attack(&format!(
        "#!/usr/bin/python3\nimport multiprocessing as m\nfrom multiprocessing.shared_memory import SharedMemory\nlock = m.Lock()\n\
         s = SharedMemory(name='{name}', create=True, size=10)\nopen('/dev/shm/left', 'w').write('x')\nprint('end')\ns.close()\n"
    ));
    let done = scene.run().await;
    assert!(done.stdout().ends_with("end"), "{}", done.text);
    assert!(
        !std::path::Path::new("/dev/shm").join(&name).exists()
            && !std::path::Path::new("/dev/shm/left").exists()
    );
}

// A command cannot change how other processes are scheduled.
#[tokio::test]
async fn the_scheduling_of_other_processes_cannot_be_changed() {
    let (scene, other) = (Scene::new(), Bystander::new());
    let pid = other.0.id();
    let scheduling = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<String> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let cpus = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed:"))
            .unwrap_or_default()
            .to_owned();
        let io = Command::new("ionice")
            .args(["-p", &pid.to_string()])
            .output()
            .map(|output| output.stdout);
        // Priority, nice value, real-time priority, policy.
        (
            [15, 16, 37, 38].map(|at| fields[at].clone()),
            cpus,
            io.unwrap_or_default(),
        )
    };
    let before = scheduling();
    scene.attack(&format!(
        "#!/bin/sh\nrenice -n 19 -p {pid} && echo LEAK\nrenice -n 19 -u $(id -u)\nchrt -b -p 0 {pid} && echo LEAK\nchrt -i -p 0 {pid} && echo LEAK\n\
         taskset -p 1 {pid} && echo LEAK\nionice -c 3 -p {pid} && echo LEAK\nionice -c 3 -u $(id -u)\nnice -n 1 true && echo end\n"
    ));
    let done = scene.run().await;
    assert!(
        done.stdout().ends_with("end") && !done.stdout().contains("LEAK"),
        "{}",
        done.text
    );
    assert_eq!(scheduling(), before);
}

// A program in the workspace with an allowed name belongs to the model: it is not run, and it does
// not hide the real one.
#[tokio::test]
async fn a_planted_program_is_not_run() {
    let scene = Scene::new();
    let bin = scene.work().join("bin");
    fs::create_dir(&bin).unwrap();
    program(&bin.join("git"), "#!/bin/sh\ntouch planted\n");
    program(&bin.join("just"), "#!/bin/sh\ntouch planted\n");
    program(&scene.work().join("git"), "#!/bin/sh\ntouch planted\n");
    let path = format!(
        "{}:.::{}/../bin:/usr/local/bin:/usr/bin:/bin",
        bin.display(),
        bin.display()
    );
    let scene = scene.var("PATH", &path);
    let done = scene.call("git", &["--version"]).await.unwrap();
    assert!(done.stdout().starts_with("git version"), "{}", done.text);
    let refused = scene.call("just", &["x"]).await;
    assert!(
        refused.is_err_and(|error| matches!(
            error.code.as_str(),
            "denied_by_policy" | "file_not_found"
        ))
    );
    assert!(!scene.work().join("planted").exists());
}
