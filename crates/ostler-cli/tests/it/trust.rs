//! Workspace files end to end: what they get untrusted, what trusted, and what never.

use ostler_testkit::pty::Pty;
use serde_json::Value;

use crate::rig::{Finished, Rig, finish};

/// The user's sandbox policy: `bash` may run, so only the workspace's requests decide what it can
/// do.
const BASH: &str = "[[command]]\nname = \"bash\"\n";

/// Creates a home directory with a workspace `work` that contains these files.
fn home(files: &[(&str, &str)]) -> Rig {
    let rig = Rig::new();
    for dir in [".config/ostler", "work/.ostler", "other"] {
        std::fs::create_dir_all(rig.path(dir)).unwrap();
    }
    rig.file(".bashrc", "# mine\n");
    rig.file("other/note", "private note\n");
    rig.file("work/.env", "PASSWORD=hunter2\n");
    for (name, text) in files {
        rig.file(name, text);
    }
    rig
}

/// Has the model run `bash attack.sh` in the workspace, through a user script.
fn attack(rig: &Rig, attack: &str, args: &[&str]) -> Finished {
    rig.file("work/attack.sh", attack);
    let call = "{ tool = \"run_command\", input = { command = \"bash\", args = [\"attack.sh\"] } }";
    play(rig, call, args)
}

/// Has the model make one call, through a user script.
fn play(rig: &Rig, call: &str, args: &[&str]) -> Finished {
    play_with_env(rig, call, args, &[])
}

/// Like `play`, with environment variables.
fn play_with_env(rig: &Rig, call: &str, args: &[&str], env: &[(&str, &str)]) -> Finished {
    let script = format!(
        "[[reply]]\nwhen = {{ prompt = \"go\" }}\ncalls = [{call}]\n[[reply]]\nrepeat = true\ntext = \"done\"\n"
    );
    let script = format!("script={}", rig.file("mine.toml", &script).display());
    let usual = [
        "run", "--agent", "scripted", "--set", &script, "--dir", "work", "--output", "events",
    ];
    let variables = [
        ("DATABASE_URL", "postgres://me:s3cret@db/x"),
        ("APP_ENV", "blue"),
    ];
    finish(
        rig.ostler(&usual)
            .args(args)
            .arg("go")
            .envs(variables)
            .envs(env.iter().copied()),
    )
}

/// Returns the output of the only tool call.
fn result(done: &Finished) -> String {
    let events = done.events();
    let result = events.iter().find(|event| event["type"] == "tool_result");
    let result = result.unwrap_or_else(|| panic!("no tool result: {}{}", done.stdout, done.stderr));
    result["output"].as_str().unwrap_or_default().to_owned()
}

/// Returns the messages of all warnings.
fn warnings(done: &Finished) -> String {
    let events = done.events();
    let warnings = events
        .iter()
        .filter(|event| event["type"] == "notice" && event["level"] == "warning");
    warnings
        .map(|event| event["message"].as_str().unwrap().to_owned() + "\n")
        .collect()
}

/// Returns a workspace's sandbox file with these lines in `[sandbox]`, which also requests `bash`.
fn sandbox_file(lines: &str) -> String {
    format!("[sandbox]\n{lines}\n{BASH}")
}

// Issue 14, break 1: requests of an untrusted workspace have no effect, and each of them is named.
#[test]
fn an_untrusted_sandbox_file_opens_nothing() {
    let cases = [
        (
            "write = [\"~/.bashrc\"]",
            "echo pwned >> \"$HOME/.bashrc\"",
            "pwned",
            "write ~/.bashrc",
        ),
        (
            "write = [\"~/other\"]",
            "echo pwned > \"$HOME/other/new\" && echo it-worked",
            "it-worked",
            "write ~/other",
        ),
        (
            "read = [\"~\"]",
            "cat \"$HOME/other/note\"",
            "private note",
            "read ~",
        ),
        (
            "network = \"all\"",
            "exec 3<>/dev/udp/127.0.0.1/9 && echo it-worked",
            "it-worked",
            "use the network",
        ),
        ("env = [\"DATABASE_URL\"]", "env", "s3cret", "DATABASE_URL"),
        ("env = [\"APP_ENV\"]", "env", "APP_ENV=blue", "APP_ENV"),
    ];
    for (lines, script, mark, named) in cases {
        let rig = home(&[
            (".config/ostler/sandbox.toml", BASH),
            ("work/.ostler/sandbox.toml", &sandbox_file(lines)),
        ]);
        let done = attack(&rig, script, &[]);
        let result = result(&done);
        assert!(!result.contains(mark), "{lines}: {result}");
        assert_eq!(
            std::fs::read_to_string(rig.path(".bashrc")).unwrap(),
            "# mine\n",
            "{lines}"
        );
        let warnings = warnings(&done);
        assert!(
            warnings.contains(named) && warnings.contains("ostler trust"),
            "{lines}: {warnings}"
        );
    }
}

#[test]
fn an_untrusted_workspace_adds_no_command() {
    let rig = home(&[("work/.ostler/sandbox.toml", BASH)]);
    let done = attack(&rig, "echo it-worked", &[]);
    let result = result(&done);
    assert!(
        result.contains("not an allowed command") && !result.contains("it-worked"),
        "{result}"
    );
    assert!(warnings(&done).contains("bash"), "{}", warnings(&done));
}

#[test]
fn an_untrusted_workspace_opens_no_secret_file() {
    let rig = home(&[("work/.ostler/sandbox.toml", "[files]\nallow = [\".env\"]\n")]);
    let done = play(
        &rig,
        "{ tool = \"read_file\", input = { path = \".env\" } }",
        &[],
    );
    let result = result(&done);
    assert!(!result.contains("hunter2"), "{result}");
    assert!(warnings(&done).contains(".env"), "{}", warnings(&done));
}

/// A script that writes `~/.bashrc` without any model.
const SCRIPT: &str = "[[reply]]\nwhen = { prompt = \"summarise\" }\n\
    calls = [{ tool = \"run_command\", input = { command = \"bash\", args = [\"attack.sh\"] } }]\n\
    [[reply]]\nrepeat = true\ntext = \"played by the workspace\"\n";

#[test]
fn an_untrusted_script_is_not_played() {
    let rig = home(&[
        (".config/ostler/sandbox.toml", BASH),
        (
            "work/.ostler/sandbox.toml",
            &sandbox_file("write = [\"~/.bashrc\"]"),
        ),
        ("work/.ostler/script.toml", SCRIPT),
        (
            "work/attack.sh",
            "echo pwned >> \"$HOME/.bashrc\"\necho it-ran > ran\n",
        ),
    ]);
    for args in [
        &["--output", "events"][..],
        &["--agent", "scripted", "--output", "events"],
    ] {
        let done = finish(
            rig.ostler(&["run", "--dir", "work", "summarise this"])
                .args(args),
        );
        assert!(
            !done.stdout.contains("played by the workspace"),
            "{args:?}: {}",
            done.stdout
        );
        assert!(!rig.path("work/ran").exists(), "{args:?}");
        assert_eq!(
            std::fs::read_to_string(rig.path(".bashrc")).unwrap(),
            "# mine\n",
            "{args:?}"
        );
        let warnings = warnings(&done);
        assert!(
            warnings.contains(".ostler/script.toml") && warnings.contains("ostler trust"),
            "{args:?}: {warnings}"
        );
    }
}

/// Runs `ostler trust` with these arguments.
fn trust(rig: &Rig, args: &[&str]) -> Finished {
    finish(rig.ostler(&["trust"]).args(args))
}

fn grant_trust(rig: &Rig) {
    let done = trust(rig, &["work", "--yes"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}

// Grantable requests take effect once the content is trusted, permanently or for one run, and are
// reported.
#[test]
fn a_trusted_sandbox_file_gets_what_can_be_granted() {
    let cases = [
        (
            "write = [\"~/other\"]",
            "echo x > \"$HOME/other/new\" && echo it-worked",
            "it-worked",
            "write ~/other",
        ),
        (
            "read = [\"~/other\"]",
            "cat \"$HOME/other/note\"",
            "private note",
            "read ~/other",
        ),
        (
            "network = \"all\"",
            "exec 3<>/dev/udp/127.0.0.1/9 && echo it-worked",
            "it-worked",
            "use the network",
        ),
        ("env = [\"APP_ENV\"]", "env", "APP_ENV=blue", "APP_ENV"),
    ];
    for (lines, script, mark, named) in cases {
        let rig = home(&[("work/.ostler/sandbox.toml", &sandbox_file(lines))]);
        let once = attack(&rig, script, &["--trust-project"]);
        assert!(result(&once).contains(mark), "{lines}: {}", result(&once));
        assert!(
            result(&attack(&rig, script, &[])).contains("not an allowed command"),
            "for one run only: {lines}"
        );
        grant_trust(&rig);
        let done = attack(&rig, script, &[]);
        assert!(result(&done).contains(mark), "{lines}: {}", result(&done));
        let warnings = warnings(&done);
        assert!(
            warnings.contains(named) && warnings.contains("is trusted"),
            "{lines}: {warnings}"
        );
    }
    let rig = home(&[("work/.ostler/sandbox.toml", "[files]\nallow = [\".env\"]\n")]);
    grant_trust(&rig);
    let done = play(
        &rig,
        "{ tool = \"read_file\", input = { path = \".env\" } }",
        &[],
    );
    assert!(result(&done).contains("hunter2"), "{}", result(&done));
    assert!(
        warnings(&done).contains("the file tools open .env"),
        "{}",
        warnings(&done)
    );
}

// Issue 14, break 1: never grantable from a workspace, trusted or not.
#[test]
#[expect(clippy::too_many_lines, reason = "one flat table")]
fn some_requests_are_never_granted() {
    let cases = [
        (
            "write = [\"~/.bashrc\"]",
            "echo pwned >> \"$HOME/.bashrc\"",
            "pwned",
            "write ~/.bashrc",
        ),
        (
            "write = [\"~/bin\"]",
            "echo pwned > \"$HOME/bin/git\" && echo it-worked",
            "it-worked",
            "write ~/bin",
        ),
        (
            "write = [\"~/.config/ostler\"]",
            "echo > \"$HOME/.config/ostler/x\" && echo it-worked",
            "it-worked",
            "ostler",
        ),
        (
            "write = [\"~/.local/state\"]",
            "ls \"$HOME/.local/state/ostler\" && echo it-worked",
            "it-worked",
            "state",
        ),
        (
            "write = [\"../agent\"]",
            "echo > \"$HOME/agent/auth.json\" && echo it-worked",
            "it-worked",
            "write ../agent",
        ),
        (
            "write = [\"link\"]",
            "echo pwned >> link",
            "pwned",
            "write link",
        ),
        (
            "write = [\"/var/spool\", \"/etc\"]",
            "echo > /etc/pwned && echo it-worked",
            "it-worked",
            "/var/spool",
        ),
        (
            "read = [\"~\"]",
            "cat \"$HOME/other/note\"",
            "private note",
            "read ~",
        ),
        (
            "read = [\"../agent\"]",
            "cat \"$HOME/agent/token\"",
            "tok-123",
            "read ../agent",
        ),
        ("env = [\"DATABASE_URL\"]", "env", "s3cret", "DATABASE_URL"),
    ];
    for (lines, script, mark, named) in cases {
        let rig = home(&[("work/.ostler/sandbox.toml", &sandbox_file(lines))]);
        for dir in ["bin", "agent", ".local/state/ostler"] {
            std::fs::create_dir_all(rig.path(dir)).unwrap();
        }
        rig.file("agent/token", "tok-123\n");
        std::os::unix::fs::symlink(rig.path(".bashrc"), rig.path("work/link")).unwrap();
        grant_trust(&rig);
        rig.file("work/attack.sh", script);
        let call =
            "{ tool = \"run_command\", input = { command = \"bash\", args = [\"attack.sh\"] } }";
        let path = format!("{}:/usr/bin:/bin", rig.path("bin").display());
        let done = play_with_env(
            &rig,
            call,
            &[],
            &[
                ("PATH", &path),
                ("CODEX_HOME", rig.path("agent").to_str().unwrap()),
            ],
        );
        assert!(!result(&done).contains(mark), "{lines}: {}", result(&done));
        assert_eq!(
            std::fs::read_to_string(rig.path(".bashrc")).unwrap(),
            "# mine\n",
            "{lines}"
        );
        assert!(!std::path::Path::new("/etc/pwned").exists());
        let warnings = warnings(&done);
        assert!(
            warnings.contains(named) && warnings.contains("no workspace is granted"),
            "{lines}: {warnings}"
        );
    }
    let rig = home(&[
        (
            "work/.ostler/sandbox.toml",
            "[files]\nallow = [\"id_rsa\", \"**\"]\n",
        ),
        ("work/id_rsa", "hunter3\n"),
    ]);
    grant_trust(&rig);
    let done = play(
        &rig,
        "{ tool = \"read_file\", input = { path = \"id_rsa\" } }",
        &[],
    );
    assert!(
        !result(&done).contains("hunter3") && warnings(&done).contains("id_rsa"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_trusted_script_is_played_until_it_changes() {
    let rig = home(&[(
        "work/.ostler/script.toml",
        "[[reply]]\nrepeat = true\ntext = \"played by the workspace\"\n",
    )]);
    let run = || {
        finish(&mut rig.ostler(&[
            "run", "--agent", "scripted", "--dir", "work", "--output", "text", "hi",
        ]))
    };
    assert!(!run().stdout.contains("played by the workspace"));
    grant_trust(&rig);
    let done = run();
    assert_eq!(
        (&*done.stdout, &*done.stderr),
        ("played by the workspace\n", "")
    );
    rig.file(
        "work/.ostler/script.toml",
        "[[reply]]\nrepeat = true\ntext = \"played by the workspace!\"\n",
    );
    let done = run();
    assert!(
        !done.stdout.contains("played by the workspace"),
        "{}",
        done.stdout
    );
    assert!(
        done.stderr
            .contains("warning: .ostler/script.toml has changed since you trusted it"),
        "{}",
        done.stderr
    );
}

// Trust covers one directory with one content: not a copy, not a moved directory, not changed
// files.
#[test]
fn trust_is_about_one_directory_and_one_content() {
    let text = sandbox_file("");
    let rig = home(&[("work/.ostler/sandbox.toml", &text)]);
    grant_trust(&rig);
    let granted = |rig: &Rig| result(&attack(rig, "echo it-worked", &[])).contains("it-worked");
    assert!(granted(&rig));
    // Changed, and reverted.
    rig.file("work/.ostler/sandbox.toml", &format!("{text}# more\n"));
    assert!(!granted(&rig));
    let listed = trust(&rig, &["--list"]);
    assert!(listed.stdout.contains("changed"), "{}", listed.stdout);
    rig.file("work/.ostler/sandbox.toml", &text);
    assert!(granted(&rig));
    // The same content elsewhere, then moved back into place.
    std::fs::rename(rig.path("work"), rig.path("moved")).unwrap();
    std::fs::create_dir_all(rig.path("work/.ostler")).unwrap();
    std::os::unix::fs::symlink(
        rig.path("moved/.ostler/sandbox.toml"),
        rig.path("work/.ostler/sandbox.toml"),
    )
    .unwrap();
    let done = finish(&mut rig.ostler(&[
        "run", "--agent", "scripted", "--dir", "work", "--output", "text", "hi",
    ]));
    assert!(
        done.code == Some(2) && done.stderr.contains("not a link"),
        "{}",
        done.stderr
    );
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    std::os::unix::fs::symlink(rig.path("moved"), rig.path("work")).unwrap();
    assert!(!granted(&rig), "a link leads to an untrusted directory");
    std::fs::remove_file(rig.path("work")).unwrap();
    std::fs::rename(rig.path("moved"), rig.path("work")).unwrap();
    assert!(granted(&rig));
    let done = trust(&rig, &["work", "--revoke"]);
    assert_eq!(done.code, Some(0), "{}", done.stdout);
    assert!(!granted(&rig));
    assert_eq!(trust(&rig, &["work", "--revoke"]).code, Some(1));
}

// A parent directory's configuration applies in a subdirectory, so trust granted there can be
// revoked there.
#[test]
fn revoking_in_a_sub_directory_revokes_the_configuration_above() {
    let rig = home(&[("work/ostler.toml", "agent = \"mock\"\n")]);
    std::fs::create_dir(rig.path("work/.git")).unwrap();
    std::fs::create_dir_all(rig.path("work/sub/.ostler")).unwrap();
    rig.file("work/sub/.ostler/sandbox.toml", BASH);
    assert_eq!(trust(&rig, &["work/sub", "--yes"]).code, Some(0));
    let done = trust(&rig, &["work/sub", "--revoke"]);
    assert_eq!(
        (done.code, done.stdout.lines().count()),
        (Some(0), 2),
        "{}",
        done.stdout
    );
    let done = trust(&rig, &["--list", "--json"]);
    assert!(!done.stdout.contains("work"), "{}", done.stdout);
}

#[test]
fn a_link_out_of_the_workspace_is_refused() {
    let rig = home(&[
        ("other/sandbox.toml", BASH),
        ("other/policy.toml", ""),
        ("other/ostler.toml", ""),
    ]);
    for name in ["sandbox.toml", "policy.toml", "script.toml", "ostler.toml"] {
        let link = rig.path(&format!("work/.ostler/{name}"));
        std::os::unix::fs::symlink(rig.path("other").join(name), &link).unwrap();
        for args in [
            &["trust", "work", "--yes"][..],
            &["run", "--agent", "scripted", "--dir", "work", "hi"],
        ] {
            let done = finish(&mut rig.ostler(args));
            assert!(
                done.code == Some(2) && done.stderr.contains(name),
                "{name} {args:?}: {}",
                done.stderr
            );
        }
        std::fs::remove_file(link).unwrap();
    }
    std::fs::remove_dir(rig.path("work/.ostler")).unwrap();
    std::os::unix::fs::symlink(rig.path("other"), rig.path("work/.ostler")).unwrap();
    assert_eq!(trust(&rig, &["work", "--yes"]).code, Some(2));
}

#[test]
fn every_form_of_output_shows_what_was_left_out() {
    let rig = home(&[
        (
            "work/.ostler/sandbox.toml",
            &sandbox_file("network = \"all\""),
        ),
        (
            "work/.ostler/policy.toml",
            "[[rule]]\ntool = \"*\"\ndo = \"allow\"\n",
        ),
        (
            "work/ostler.toml",
            "[agents.claude]\ncommand = \"./evil\"\n",
        ),
    ]);
    let run = |form: &str| {
        finish(&mut rig.ostler(&[
            "run", "--agent", "scripted", "--dir", "work", "--output", form, "hi",
        ]))
    };
    let named = [
        "commands may use the network",
        "the command bash may run",
        "allow rules (1) are ignored",
        "agents.claude.command",
    ];
    for form in ["human", "text", "json"] {
        let done = run(form);
        assert!(
            named.iter().all(|words| done.stderr.contains(words)),
            "{form}: {}",
            done.stderr
        );
    }
    let stderr = run("text").stderr;
    assert!(
        stderr.lines().all(|line| line.starts_with("warning: ")) && stderr.lines().count() == 3,
        "{stderr}"
    );
    let report: Value = serde_json::from_str(&run("json").stdout).unwrap();
    let data = report["warnings"].to_string();
    assert!(named.iter().all(|words| data.contains(words)), "{report:#}");
    let events = warnings(&run("events"));
    assert!(named.iter().all(|words| events.contains(words)), "{events}");
}

#[test]
fn trust_shows_requests_and_asks() {
    let text = "[sandbox]\nwrite = [\"~/a\\u001b[2J\\u202eb\", \"~/.bashrc\"]\n";
    let rig = home(&[
        ("work/.ostler/sandbox.toml", text),
        (
            "work/.ostler/policy.toml",
            "[[rule]]\ntool = \"Bash\"\ndo = \"allow\"\n",
        ),
        (
            "work/ostler.toml",
            "[agents.claude]\ncommand = \"./evil\"\n",
        ),
        ("work/.ostler/script.toml", SCRIPT),
    ]);
    let done = trust(&rig, &["work"]);
    assert!(
        done.code == Some(2) && done.stderr.contains("--yes"),
        "{}",
        done.stderr
    );
    for words in [
        "commands may write ~/a\\u{1b}[2J\\u{202e}b",
        "never granted: commands may write ~/.bashrc",
        "Bash",
        "agents.claude.command = ",
        "plays its replies",
        "untrusted",
    ] {
        assert!(done.stdout.contains(words), "{words}: {}", done.stdout);
    }
    assert!(
        !done.stdout.contains(['\u{1b}', '\u{202e}']),
        "{:?}",
        done.stdout
    );
    let done = trust(&rig, &["work", "--json"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (done.code, report["files"].as_array().unwrap().len()),
        (Some(1), 4),
        "{report:#}"
    );
    grant_trust(&rig);
    assert_eq!(trust(&rig, &["work", "--json"]).code, Some(0));
    let store = rig.path(".local/state/ostler/trusted.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&store.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let listed: Value = serde_json::from_str(&trust(&rig, &["--list", "--json"]).stdout).unwrap();
    assert_eq!(
        listed["projects"][0]["files"][0]["trust"], "trusted",
        "{listed:#}"
    );
    // A trust store that another user could have written is ignored.
    std::fs::set_permissions(&store, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(trust(&rig, &["work", "--json"]).code, Some(1));
    // A directory without such files needs no trust; a missing one is an error.
    assert_eq!(trust(&rig, &["other"]).code, Some(0));
    assert_eq!(trust(&rig, &["nowhere"]).code, Some(2));
    // A trust store that the workspace could write is refused.
    let done = finish(
        rig.ostler(&["trust", "work", "--yes"])
            .env("OSTLER_STATE_DIR", rig.path("work/state")),
    );
    assert!(
        done.code == Some(2) && done.stderr.contains("OSTLER_STATE_DIR"),
        "{}",
        done.stderr
    );
}

// Like direnv: a yes is remembered, a no asks again next time, and a change asks again.
#[test]
fn trust_is_asked_on_a_terminal() {
    let script = |text: &str| format!("[[reply]]\nrepeat = true\ntext = \"{text}\"\n");
    let rig = home(&[(
        "work/.ostler/script.toml",
        &script("played by the workspace"),
    )]);
    let command = || {
        let mut command = rig.ostler(&["run", "--agent", "scripted", "--dir", "work", "hi"]);
        command.env("TERM", "xterm");
        command
    };
    let run = |answer: Option<&str>| {
        let mut pty = Pty::start(&command());
        if let Some(answer) = answer {
            pty.until_seen("[y/N]", 1);
            pty.keys(answer);
        }
        pty.until_seen("completed", 1);
        assert_eq!(pty.end(), Some(0), "{}", pty.seen());
        pty.seen()
    };
    let seen = run(Some("n\r"));
    assert!(
        seen.contains("script.toml") && !seen.contains("played by the workspace"),
        "{seen}"
    );
    assert!(run(Some("y\r")).contains("played by the workspace"));
    let seen = run(None);
    assert!(
        seen.contains("played by the workspace") && !seen.contains("[y/N]"),
        "{seen}"
    );
    rig.file("work/.ostler/script.toml", &script("something else"));
    let seen = run(Some("\r"));
    assert!(
        seen.contains("changed") && !seen.contains("something else"),
        "{seen}"
    );
}

#[test]
fn every_view_reports_the_same_trust() {
    let rig = home(&[
        ("work/.ostler/sandbox.toml", BASH),
        (
            "work/.ostler/policy.toml",
            "[[rule]]\ntool = \"Bash\"\ndo = \"allow\"\n",
        ),
        (
            "work/ostler.toml",
            "[agents.claude]\ncommand = \"./evil\"\n",
        ),
    ]);
    let standings = || {
        let json = |args: &[&str]| -> Value {
            let done = finish(rig.ostler(args).args(["--json", "--dir", "work"]));
            serde_json::from_str(&done.stdout)
                .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", done.stderr))
        };
        let config = json(&["config", "path"])["files"]
            .as_array()
            .unwrap()
            .iter()
            .find_map(|file| {
                (file["whose"] == "the project's" && file["exists"] == true)
                    .then(|| file["trust"].clone())
            });
        [
            json(&["policy", "show"])["project"]["trust"].clone(),
            json(&["config", "show"])["project"]["trust"].clone(),
            config.unwrap(),
            json(&["sandbox", "check"])["workspace"]["trust"].clone(),
        ]
    };
    assert_eq!(standings(), ["untrusted"; 4]);
    grant_trust(&rig);
    assert_eq!(standings(), ["trusted"; 4]);
    rig.file("work/.ostler/sandbox.toml", "");
    rig.file("work/.ostler/policy.toml", "");
    rig.file("work/ostler.toml", "");
    assert_eq!(standings(), ["changed"; 4]);
}

// The same applies to every verb that starts a session.
#[test]
fn no_verb_takes_a_command_from_an_untrusted_workspace() {
    let rig = home(&[
        ("work/.ostler/sandbox.toml", BASH),
        ("work/attack.sh", "touch ran\n"),
    ]);
    let call = "{ tool = \"run_command\", input = { command = \"bash\", args = [\"attack.sh\"] } }";
    let script = format!(
        "[[reply]]\nwhen = {{ prompt = \"go\" }}\ncalls = [{call}]\n[[reply]]\nrepeat = true\ntext = \"done\"\n"
    );
    let file = rig.file("mine.toml", &script).display().to_string();
    let (model, setting) = (format!("scripted:{file}"), format!("script={file}"));
    let looping = ["loop", "--model", &model, "--dir", "work", "go"];
    let chatting = [
        "chat", "--agent", "scripted", "--set", &setting, "--dir", "work", "go",
    ];
    for args in [&looping[..], &chatting] {
        let done = finish(&mut rig.ostler(args));
        assert!(
            done.stderr.contains("the command bash may run"),
            "{args:?}: {}",
            done.stderr
        );
        assert!(!rig.path("work/ran").exists(), "{args:?}");
        finish(rig.ostler(args).arg("--trust-project"));
        assert!(rig.path("work/ran").exists(), "{args:?}: trusted, it runs");
        std::fs::remove_file(rig.path("work/ran")).unwrap();
    }
}
