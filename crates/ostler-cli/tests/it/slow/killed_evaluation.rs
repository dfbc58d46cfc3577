//! Chaos with the real program: `ostler eval run` is killed at random moments and resumed.

use std::time::{Duration, SystemTime};

use ostler_testkit::fake;
use serde_json::Value;

use crate::eval::{SCRIPT, eval, object, run, suite};
use crate::rig::Rig;

/// Number of kills.
const KILLS: u32 = 10;
/// Number of trials.
const TRIALS: u64 = 6;
/// What the fake agent reports for one answer, in US dollars.
const COST: f64 = 0.0009372;

/// Writes a suite whose agent notes every answer in `spent`.
fn prepare(rig: &Rig) {
    suite(rig, "README.md", SCRIPT);
    let script = fake::script(rig.dir(), "read\ninit\ntext all done\nresult all done\n");
    let agent = rig.path("agent.sh");
    let (fake_agent, spent) = (fake::program(), rig.path("spent"));
    let (fake_agent, spent) = (fake_agent.display(), spent.display());
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in --version|auth) exec {fake_agent} \"$@\";; esac\nsleep 0.1\n\
         echo answer >> {spent}\nexec {fake_agent} \"$@\"\n"
    );
    rig.file("agent.sh", &text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, mode).unwrap();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        &format!(
            "[agents.claude]\ncommand = {agent:?}\n[agents.claude.env]\n{} = {script:?}\n",
            fake::SCRIPT
        ),
    );
}

// Every trial has one accepted result, and the ledger has every answer that the agent gave, apart
// from attempts that were killed between the answer and its report: their trial names them.
#[test]
fn a_killed_program_is_resumed() {
    let rig = Rig::new();
    prepare(&rig);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let given = std::env::var("CHAOS_SEED").ok();
    let given = given.and_then(|text| text.parse::<u64>().ok());
    let mut seed = given.unwrap_or_else(|| u64::from(since.unwrap().subsec_nanos()));
    println!("repeat with CHAOS_SEED={seed}");
    let first = [
        "run",
        "suite",
        "--agent",
        "claude",
        "--repeat",
        "6",
        "--isolation",
        "directory",
    ];
    let mut name: Option<String> = None;
    let mut kills = 0;
    while kills < KILLS {
        let mut command = match &name {
            Some(name) => eval(&rig, &["run", "--resume", name]),
            None => eval(&rig, &first),
        };
        let mut child = command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis(100 + (seed >> 33) % 900));
        let is_over = child.try_wait().unwrap().is_some();
        let _ = child.kill(); // SIGKILL
        let _ = child.wait();
        kills += 1;
        let listed = run(&rig, &["list", "--json"]);
        let row = serde_json::from_str::<Value>(&listed.stdout).ok();
        name = row.map(|row| row["run"].as_str().unwrap().to_owned());
        if is_over && name.is_some() {
            break;
        }
    }
    let name = name.unwrap();
    let done = run(&rig, &["run", "--resume", &name, "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report = object(&done);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(
        (trials.len() as u64, &report["missing"]),
        (TRIALS, &0.into())
    );
    let named: usize = trials
        .iter()
        .map(|trial| trial["unmetered_attempts"].as_array().map_or(0, Vec::len))
        .sum();
    let answers = std::fs::read_to_string(rig.path("spent")).unwrap();
    let answers = answers.lines().count();
    let row = object(&run(&rig, &["list", "--json"]));
    let booked = (row["cost_usd"].as_f64().unwrap() / COST).round() as usize;
    assert!(
        booked <= answers && answers <= booked + named,
        "{answers} answers, {booked} booked, {named} named as unknown"
    );
}
