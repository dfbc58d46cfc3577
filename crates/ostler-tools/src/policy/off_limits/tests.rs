//! Paths and variables no workspace is granted: hidden files of homes, PATH, the system,
//! credentials.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scene = Self { dir };
        for name in [
            "work/sub",
            "home/.ssh",
            "home/.cache/tool",
            "home/.config/ostler",
            "home/data",
            "home/bin",
        ] {
            fs::create_dir_all(scene.at(name)).unwrap();
        }
        for name in [
            "home/go/bin",
            "elsewhere/pkg",
            "scratch",
            "agent",
            "tools/lib",
        ] {
            fs::create_dir_all(scene.at(name)).unwrap();
        }
        fs::write(scene.at("home/.bashrc"), "").unwrap();
        fs::write(scene.at("elsewhere/pkg/program"), "").unwrap();
        symlink(
            scene.at("elsewhere/pkg/program"),
            scene.at("home/bin/program"),
        )
        .unwrap();
        symlink(scene.at("home/.bashrc"), scene.at("work/link")).unwrap();
        symlink(scene.at("home"), scene.at("linked-home")).unwrap();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Evaluates a request in the workspace `work`, with the home given through a link.
    fn judge(&self, request: &Request) -> Result<Request, NotGranted> {
        let path: OsString =
            std::env::join_paths([self.at("home/bin"), self.at("home/go/bin")]).unwrap();
        let (work, user, tools) = (self.at("work"), self.at("linked-home"), [self.at("tools")]);
        let home = HostPaths {
            workspace: &work,
            temp: &work,
            home: Some(&user),
            path: &path,
            tools: &tools,
            secrets: &[],
            exempt: &[],
        };
        let limits = OffLimits::here(&home, &[self.at("home/.config/ostler"), self.at("agent")]);
        let value = |name: &str| (name == "CONNECTION").then(|| "amqp://me:pw@host".to_owned());
        limits.judge(request, &home, &value)
    }
}

// Issue 14, break 1.
#[test]
fn write_access_is_never_granted_outside_harmless_paths() {
    let scene = Scene::new();
    let named = [
        "~/.bashrc",
        "~/.new",
        "~/.config",
        "~/.config/systemd/user",
        "~/.ssh/authorized_keys",
        "~/.local/bin",
        "~",
        "~/",
        "~/bin",
        "~/bin/program",
        "~/go",
        "~/go/bin/new",
        "~/.cache",
        "~/Library/LaunchAgents",
        "../home",
        "../home/.bashrc",
        "link",
        "..",
        "/",
        "/etc",
        "/etc/cron.d",
        "/usr/local/bin",
        "/var/spool/cron",
        "/var",
        "/var/lib/x",
        "/var/games",
        "/tmp",
        "/var/tmp",
        "/opt",
        "/run/user",
        "/proc/self/root",
        "/root/x",
        "/home",
        "/home/else/x",
        "sub/../../home/.bashrc",
        "~/data/../.bashrc",
        "nothing/../../home/.bashrc",
        "~/.cache/../.bashrc",
        "../agent/a",
        "../tools",
        "../elsewhere",
        "../elsewhere/pkg/program",
    ];
    for path in named {
        let judged = scene.judge(&Request::Write(path.into()));
        assert!(judged.is_err(), "{path}: {judged:?}");
    }
    let whole = [
        scene.at("home/.config/ostler/x"),
        scene.at("agent"),
        scene.at("elsewhere/pkg"),
        scene.at("home"),
    ];
    for path in whole {
        assert!(
            scene.judge(&Request::Write(path.clone())).is_err(),
            "{}",
            path.display()
        );
    }
}

#[test]
fn trusted_workspace_is_granted_harmless_paths() {
    let scene = Scene::new();
    for (path, real) in [
        ("~/.cache/tool", "home/.cache/tool"),
        ("~/.cache/new/dir", "home/.cache/new/dir"),
        ("~/data", "home/data"),
        ("../scratch", "scratch"),
        ("sub", "work/sub"),
        ("new", "work/new"),
    ] {
        assert_eq!(
            scene.judge(&Request::Write(path.into())),
            Ok(Request::Write(scene.at(real))),
            "{path}"
        );
    }
}

#[test]
fn a_workspace_never_reads_homes_or_credentials() {
    let scene = Scene::new();
    for path in [
        "~",
        "..",
        "/",
        "~/.ssh",
        "~/.ssh/id",
        "~/.config",
        "~/.config/ostler/ostler.toml",
        "/tmp",
        "../agent",
    ] {
        assert!(scene.judge(&Request::Read(path.into())).is_err(), "{path}");
    }
    for path in ["~/data", "~/.m2/repository", "../scratch", "~/.cache/tool"] {
        assert!(scene.judge(&Request::Read(path.into())).is_ok(), "{path}");
    }
}

#[test]
fn a_workspace_never_gets_variables_that_may_hold_credentials() {
    let scene = Scene::new();
    for name in [
        "DATABASE_URL",
        "REDIS_URI",
        "SENTRY_DSN",
        "GITHUB_TOKEN",
        "my_api_key",
        "MYSQL_PWD",
        "GH_PAT",
        "DOCKER_HOST_SOCK",
        "AWS_PROFILE",
        "CONNECTION",
        "LD_PRELOAD",
        "PATH",
        "A=B",
        "",
    ] {
        assert!(scene.judge(&Request::Env(name.into())).is_err(), "{name}");
    }
    for name in ["JAVA_HOME", "MY_TOOL_HOME", "RUSTFLAGS", "NODE_ENV"] {
        assert!(scene.judge(&Request::Env(name.into())).is_ok(), "{name}");
    }
}

#[test]
fn workspace_is_never_granted_keys_or_an_unconfined_run() {
    let scene = Scene::new();
    for request in [
        Request::Files("id_rsa".into()),
        Request::Files("**/*.pem".into()),
        Request::Unconfined,
    ] {
        assert!(scene.judge(&request).is_err(), "{request}");
    }
    for request in [
        Request::Files(".env".into()),
        Request::Network,
        Request::Command("bash".into()),
    ] {
        assert!(scene.judge(&request).is_ok(), "{request}");
    }
}
