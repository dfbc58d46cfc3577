//! The parser of shell lines, compared with real shells: the rules see what a line really runs.
//!
//! - If a shell runs `git push`, a rule that denies `git push` has matched.
//! - If a rule allows `git status`, a shell runs exactly that, and writes nothing.
//! - A command means the same as a quoted line and as words.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use ostler_core::permission::{Command, Policy, PolicyAction, ToolKind, ToolUse, Trust};

use super::harness::{campaign, seeds};
use super::random::Random;

const TOKENS: [&str; 74] = [
    "git",
    "push",
    "status",
    "g",
    "it",
    "pu",
    "sh",
    "\"",
    "'",
    "\\",
    "$",
    "`",
    "(",
    ")",
    "{",
    "}",
    "|",
    "||",
    "&",
    "&&",
    ";",
    ";;",
    "\n",
    " ",
    "\t",
    "\r",
    "<",
    ">",
    ">>",
    "x",
    "-",
    "--",
    "-C",
    " . ",
    "if ",
    "; then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "case x in x) ",
    " ;; esac",
    "! ",
    "eval ",
    "command ",
    "exec ",
    "sh -c ",
    "bash -c ",
    "env ",
    "echo ",
    "true",
    "${x}",
    "$x",
    "x=push ",
    "x=git ",
    "=",
    "#",
    "*",
    "?",
    "[",
    "]",
    "~",
    "\u{a0}",
    "é",
    "<<E\n",
    "\nE\n",
    "$'",
    "2>&1",
    "time ",
    ",",
    "..",
    "\\\n",
    "${x:-push}",
    "$IFS",
];

/// Marks the end of each call's arguments.
const END: &str = "ostler-end-of-call";

/// A line, and the shell that runs it.
#[derive(Debug)]
struct Input {
    line: String,
    shell: &'static str,
    words: Vec<String>,
}

/// Returns a command in a random spelling.
fn spelled(random: &mut Random, words: &[&str]) -> String {
    let spelled: Vec<String> = words
        .iter()
        .map(|word| spelled_word(random, word))
        .collect();
    spelled.join(random.pick(&[" ", " ", "  ", "\t", " \\\n", " "]))
}

fn spelled_word(random: &mut Random, word: &str) -> String {
    let (head, tail) = word.split_at(word.floor_char_boundary(random.below(word.len() + 1)));
    match random.below(9) {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("{head}''{tail}"),
        3 => format!("{head}\"\"{tail}"),
        4 if !tail.is_empty() => format!("{head}\\{tail}"),
        5 => format!("{head}\\\n{tail}"),
        6 => format!("\"{head}\"'{tail}'"),
        _ => word.to_owned(),
    }
}

/// Returns a line that wraps another one, which a shell may run in the end.
fn wrapped(random: &mut Random, line: &str) -> String {
    let quoted = format!("'{}'", line.replace('\'', "'\\''"));
    match random.below(26) {
        0 => format!("true; {line}"),
        1 => format!("true && {line}"),
        2 => format!("false || {line}"),
        3 => format!("echo x | {line}"),
        4 => format!("({line})"),
        5 => format!("{{ {line}; }}"),
        6 => format!("echo $({line})"),
        7 => format!("echo `{line}`"),
        8 => format!("sh -c {quoted}"),
        9 => format!("eval {quoted}"),
        10 => format!("command {line}"),
        11 => format!("exec {line}"),
        12 => format!("env {line}"),
        13 => format!("x=1 {line}"),
        14 => format!("! {line}"),
        15 => format!("if true; then {line}; fi"),
        16 => format!("for x in 1; do {line}; done"),
        17 => format!("case a in a) {line};; esac"),
        18 => format!("sh <<E\n{line}\nE\n"),
        19 => format!("echo {quoted} | sh"),
        20 => format!("x={quoted}; eval \"$x\""),
        21 => format!("echo \"$({line})\""),
        22 => format!("{line} > out"),
        23 => format!("# comment\n{line}"),
        24 => format!("while {line}; do break; done"),
        _ => format!("{line} &"),
    }
}

fn input(random: &mut Random, seeds: &[String]) -> Input {
    let words = [
        "git",
        random.pick(&["push", "status"]),
        random.pick(&["x", "", "a b", "-f", "'", "$x", "é"]),
    ];
    let mut line = match random.below(4) {
        0 => seeds[random.below(seeds.len())].clone(),
        1 => {
            let tokens: Vec<&str> = (0..=random.below(9))
                .map(|_| random.pick(&TOKENS))
                .collect();
            tokens.concat()
        }
        _ => {
            let many = 2 + random.below(2);
            spelled(random, &words[..many])
        }
    };
    for _ in 0..random.below(3) {
        line = wrapped(random, &line);
    }
    if random.once_in(2) {
        line = random.mutate(&line, &TOKENS);
    }
    Input {
        line,
        shell: random.pick(&["sh", "bash"]),
        words: words.map(str::to_owned).to_vec(),
    }
}

/// A directory in which lines are run. Its only programs are shells and one that records its calls.
struct ShellRecorder {
    dir: tempfile::TempDir,
}

impl ShellRecorder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        // A NUL after each argument, since no argument contains one. Written at once, so that calls
        // do not mix.
        let text = format!("#!/bin/sh\nprintf '%s\\0' \"$@\" {END} >> \"$OSTLER_CALLS\"\n");
        fs::write(bin.join("git"), text).unwrap();
        fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, program) in [
            ("sh", "/bin/sh"),
            ("bash", "/bin/bash"),
            ("env", "/usr/bin/env"),
        ] {
            std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        }
        Self { dir }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Runs a line. Returns the arguments of each call of `git`, and whether a file was created.
    fn run(&self, shell: &str, line: &str) -> (Vec<Vec<String>>, bool) {
        let calls = self.dir.path().join("calls");
        let _ = fs::remove_file(&calls);
        let _ = fs::remove_dir_all(self.work());
        fs::create_dir(self.work()).unwrap();
        let mut process = Process::new(Path::new("/bin").join(shell));
        // Limits for a line that takes too long or too much.
        process.args([
            "-c",
            "ulimit -t 2; ulimit -f 64; ulimit -v 1000000; exec \"$0\" -c \"$1\"",
            shell,
            line,
        ]);
        process
            .env_clear()
            .env("PATH", self.dir.path().join("bin"))
            .env("OSTLER_CALLS", &calls)
            .current_dir(self.work());
        process
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = process.spawn().unwrap();
        let group = rustix::process::Pid::from_child(&child);
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_micros(300));
        }
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
        let text = fs::read(&calls)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default();
        let mut calls: Vec<&str> = text.split(&format!("{END}\0")).collect();
        calls.pop(); // the rest after the last call
        let calls = calls
            .iter()
            .map(|call| call.split_terminator('\0').map(str::to_owned).collect())
            .collect();
        (calls, fs::read_dir(self.work()).unwrap().next().is_some())
    }
}

/// Returns true if a line may be run: no path leads out of the directory, and nothing starts itself
/// repeatedly.
fn is_runnable(line: &str) -> bool {
    let escapes = [
        "/", "~", "()", "( )", "function", "alias", "..", "kill", "exec <", "coproc",
    ];
    line.len() < 400 && !escapes.iter().any(|word| line.contains(word)) && !line.contains('\0')
}

struct Rules {
    denies: Policy,
    allows: Policy,
}

impl Rules {
    fn new() -> Self {
        let parse = |action: &str, command: &str| {
            let text = format!("[[rule]]\ncommand = \"{command}\"\ndo = \"{action}\"\n");
            Policy::parse(&text, "fuzz", Trust::Full).unwrap()
        };
        Self {
            denies: parse("deny", "git push"),
            allows: parse("allow", "git status"),
        }
    }

    fn denies(&self, command: Command) -> bool {
        matches!(decide(&self.denies, command), PolicyAction::Deny(_))
    }

    fn allows(&self, command: Command) -> bool {
        matches!(decide(&self.allows, command), PolicyAction::Allow)
    }
}

fn decide(policy: &Policy, command: Command) -> PolicyAction {
    let wants = ToolUse {
        command: Some(command),
        ..ToolUse::new("Bash", ToolKind::Execute)
    };
    policy.decide(&wants, "/workspace").action
}

fn check(input: &Input, rules: &Rules, recorder: &ShellRecorder) -> Result<(), String> {
    let Input { line, shell, words } = input;
    let (denied, allowed) = (
        rules.denies(Command::Shell(line.clone())),
        rules.allows(Command::Shell(line.clone())),
    );
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    let as_words = Command::Words(words.clone());
    let as_line = Command::Shell(quoted.join(" "));
    if rules.denies(as_words.clone()) && !rules.denies(as_line.clone()) {
        return Err(format!("denied as words, but not as the line {as_line:?}"));
    }
    if rules.allows(as_line) && !rules.allows(as_words) {
        return Err("allowed as a line, but not as words".into());
    }
    // A shell costs a thousand times as much as the parser, so it only runs where its result can
    // matter.
    let matters = allowed || (!denied && line.contains("pu"));
    if !matters || !is_runnable(line) {
        return Ok(());
    }
    let (calls, created) = recorder.run(shell, line);
    let pushes = |call: &Vec<String>| call.first().is_some_and(|first| first == "push");
    if !denied && calls.iter().any(pushes) {
        return Err(format!("{shell} runs git push: {calls:?}"));
    }
    let is_status = |call: &Vec<String>| call.first().is_some_and(|first| first == "status");
    if allowed && (calls.len() != 1 || !calls.iter().all(is_status) || created) {
        return Err(format!(
            "allowed as git status; {shell} runs {calls:?}, files were created: {created}"
        ));
    }
    Ok(())
}

#[test]
fn what_a_shell_runs_is_what_the_rules_saw() {
    let (rules, recorder, seeds) = (Rules::new(), ShellRecorder::new(), seeds("shell.jsonl"));
    campaign(
        "shell",
        |random| input(random, &seeds),
        |input| check(input, &rules, &recorder),
    );
}

/// Checks the recorder: without it, nothing that a shell runs would be seen.
#[test]
fn recorder_sees_what_a_shell_runs() {
    let recorder = ShellRecorder::new();
    for shell in ["sh", "bash"] {
        assert_eq!(
            recorder.run(shell, "git 'push\n'").0,
            [["push\n".to_owned()]],
            "{shell}"
        );
        let (calls, created) = recorder.run(shell, "x=pu; git ${x}sh 'a b' && (git status > out)");
        assert_eq!(
            calls,
            [
                vec!["push".to_owned(), "a b".to_owned()],
                vec!["status".to_owned()]
            ],
            "{shell}"
        );
        assert!(created);
        assert_eq!(recorder.run(shell, "echo git push"), (Vec::new(), false));
    }
}
