//! Chaos with the real program: `ostler eval run` is killed at random moments and resumed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use ostler_eval::trial::TrialResult;
use ostler_store::{AttemptState, Ledger, Store};
use ostler_testkit::{fake, processes};
use serde_json::Value;

use crate::eval::{SCRIPT, eval, object, run, suite};
use crate::rig::{PATIENCE, Rig};

/// Number of kills; `EVAL_CHAOS_KILLS` overrides it.
const KILLS: u32 = 30;
/// Number of trials of a run. A run that is complete is followed by another.
const TRIALS: u32 = 20;
/// What the fake agent reports for one answer, in US dollars.
const COST: f64 = 0.0009372;

/// Writes a suite whose agent notes every answer in `spent`.
fn prepare(rig: &Rig) {
    suite(rig, "README.md", SCRIPT);
    let script = fake::script(
        rig.dir(),
        "read\ninit\ntext all done\nsleep 30\nresult all done\n",
    );
    let agent = rig.path("agent.sh");
    let (fake_agent, spent) = (fake::program(), rig.path("spent"));
    let (fake_agent, spent) = (fake_agent.display(), spent.display());
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in --version|auth) exec {fake_agent} \"$@\";; esac\n\
         echo answer >> {spent}\nexec {fake_agent} \"$@\"\n"
    );
    rig.file("agent.sh", &text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&agent, mode).unwrap();
    fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        &format!(
            "[agents.claude]\ncommand = {agent:?}\n[agents.claude.env]\n{} = {script:?}\n",
            fake::SCRIPT
        ),
    );
    rig.file("spent", "");
}

/// Random numbers, from a seed that the test prints.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let given = std::env::var("CHAOS_SEED").ok();
        let given = given.and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(since.unwrap().subsec_nanos()));
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// Returns the number of answers that the agent gave.
fn answers(rig: &Rig) -> usize {
    fs::read_to_string(rig.path("spent"))
        .unwrap()
        .lines()
        .count()
}

/// Kills the program a random time after its first, second or third answer, or after its start.
/// Returns false if it had ended before.
fn kill_at_random(rig: &Rig, moments: &mut Moments, child: &mut Child) -> bool {
    let wanted = answers(rig) + usize::try_from(moments.below(4)).unwrap();
    let has_come = || answers(rig) >= wanted || child.try_wait().unwrap().is_some();
    assert!(processes::wait_until(PATIENCE, has_come), "the run hangs");
    std::thread::sleep(Duration::from_millis(moments.below(60)));
    let _ = child.kill(); // SIGKILL
    child.wait().unwrap().signal() == Some(9)
}

/// Returns the name of the last run, if there is one.
fn last_run(rig: &Rig) -> Option<String> {
    let listed = run(rig, &["list", "--json"]);
    let mut rows = serde_json::Deserializer::from_str(&listed.stdout).into_iter::<Value>();
    Some(rows.next()?.unwrap()["run"].as_str().unwrap().to_owned())
}

// Every trial has exactly one accepted attempt. The ledger has every answer that had reached the
// program when it was killed: exactly those whose report is in the raw output of their attempt.
// The others are named by their trial.
#[test]
fn a_killed_program_is_resumed() {
    let wanted = std::env::var("EVAL_CHAOS_KILLS").ok();
    let wanted = wanted.map_or(KILLS, |text| text.parse().unwrap());
    let mut moments = Moments::new();
    println!("repeat with CHAOS_SEED={}", moments.0);
    let (mut kills, mut unread, mut checked) = (0, 0, 0);
    while kills < wanted {
        let rig = Rig::new();
        prepare(&rig);
        let repeat = TRIALS.to_string();
        let first = [
            "run",
            "suite",
            "--agent",
            "claude",
            "--repeat",
            &repeat,
            "--isolation",
            "directory",
        ];
        let mut name: Option<String> = None;
        let mut is_running = true;
        while kills < wanted && is_running {
            let mut command = match &name {
                Some(name) => eval(&rig, &["run", "--resume", name]),
                None => eval(&rig, &first),
            };
            let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
            is_running = kill_at_random(&rig, &mut moments, &mut quiet.spawn().unwrap());
            kills += u32::from(is_running);
            name = name.or_else(|| last_run(&rig));
        }
        if let Some(name) = name {
            unread += check_books(&rig, &name);
            checked += 1;
        }
    }
    assert!(checked > 0, "every kill came before the run was stored");
    // A kill hits at most the attempts of the two jobs between an answer and its report.
    assert!(unread <= 2 * kills, "{unread} answers in {kills} kills");
    println!("{kills} kills, {unread} answers that were never read");
}

/// Completes a run, and compares the ledger with the raw output of every attempt. Returns the
/// number of answers that had not reached the program when it was killed.
fn check_books(rig: &Rig, name: &str) -> u32 {
    let done = run(rig, &["run", "--resume", name, "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(object(&done)["missing"], 0);
    let store = Store::open(&rig.path(".local/state/ostler")).unwrap();
    let ledger = Ledger::new(&store);
    let row = ledger.run(name).unwrap().unwrap();
    let trials = ledger.trials(name).unwrap();
    assert_eq!(trials.len(), usize::try_from(TRIALS).unwrap());
    let mut read = 0;
    for trial in &trials {
        let result: TrialResult = serde_json::from_str(trial.result.as_ref().unwrap()).unwrap();
        let accepted = trial.attempts.iter();
        let accepted = accepted.filter(|it| it.state == AttemptState::Accepted);
        assert_eq!(accepted.count(), 1, "{trial:?}");
        let mut unknown = BTreeSet::new();
        for attempt in &trial.attempts {
            let repetition = trial.name.repetition;
            let dir = format!("readme/claude/{repetition}/attempt-{}", attempt.fence);
            let is_read = has_report(&row.artifacts.join(dir).join("claude-logs"));
            let cost = attempt.usage.as_ref().and_then(|usage| usage.cost_usd);
            match cost {
                Some(cost) => assert!((cost - COST).abs() < 1e-9, "{attempt:?}"),
                None => assert_eq!(attempt.state, AttemptState::Lost, "{attempt:?}"),
            }
            assert_eq!(cost.is_some(), is_read, "{attempt:?}");
            read += u32::from(is_read);
            if !is_read {
                unknown.insert(attempt.fence);
            }
        }
        let named: BTreeSet<u64> = result.unmetered_attempts.into_iter().collect();
        assert_eq!(named, unknown, "{trial:?}");
    }
    assert!((row.cost_usd.unwrap() - f64::from(read) * COST).abs() < 1e-9);
    u32::try_from(answers(rig)).unwrap() - read
}

/// Returns true if the raw output of an attempt has the report of the agent's answer.
fn has_report(logs: &Path) -> bool {
    let Ok(mut logs) = fs::read_dir(logs) else {
        return false;
    };
    let log = logs.next().map(|log| log.unwrap().path());
    let text = log.map_or_else(String::new, |log| fs::read_to_string(log).unwrap());
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    lines.any(|line| line.is_ok_and(|line| line["type"] == "result"))
}
