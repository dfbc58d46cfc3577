//! Exported jobs and trajectories in Harbor's own models and viewer.

use std::process::Command;

use serde_json::Value;

use crate::eval::{SCRIPT, eval, example, object, run, suite};
use crate::rig::{Rig, finish};

/// Exports a run as a Harbor job below `jobs`.
fn export(rig: &Rig, run_args: &[&str], job: &str) {
    let done = finish(eval(rig, &["run", "--json"]).args(run_args));
    let name = object(&done)["run"].as_str().unwrap().to_owned();
    let out = format!("jobs/{job}");
    let done = run(rig, &["report", &name, "--format", "harbor", "--out", &out]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

// Trials that passed, that failed, and that the infrastructure prevented.
#[test]
fn jobs_are_read_by_harbor() {
    let python =
        std::env::var_os("OSTLER_TEST_HARBOR").expect("run `cargo xtask test --with-harbor`");
    let rig = Rig::new();
    std::fs::create_dir(rig.path("jobs")).unwrap();
    export(&rig, &[&example()], "example");
    suite(
        &rig,
        "README.md",
        "[[reply]]\nrepeat = true\nerror = { status = 503, message = \"busy\" }\n",
    );
    export(&rig, &["suite", "--retries", "0"], "broken");
    suite(&rig, "missing.txt", SCRIPT);
    let model = ["suite", "--agent", "scripted", "--model", "vendor/model"];
    export(&rig, &model, "model");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harbor_models.py");
    let read = Command::new(python)
        .arg(script)
        .arg(rig.path("jobs"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{stderr}");
    assert_eq!(stderr, "", "the viewer warns of what it cannot read");
    let text = String::from_utf8(read.stdout).unwrap();
    let trials: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |job: &str, is: &dyn Fn(&Value) -> bool| {
        let own = trials.iter().filter(|trial| trial["job"] == job);
        own.filter(|trial| is(trial)).count()
    };
    let has_reward = |wanted: i64| {
        move |trial: &Value| {
            let rewards = trial["rewards"].as_object().into_iter().flatten();
            rewards
                .map(|(_, reward)| reward)
                .all(|reward| reward.as_f64() == Some(wanted as f64))
                && trial["rewards"].is_object()
        }
    };
    assert_eq!(
        count("example", &|trial| trial["steps"].as_u64() > Some(1)),
        12,
        "{text}"
    );
    assert_eq!(count("example", &has_reward(1)), 8, "{text}");
    assert_eq!(
        count("broken", &|trial| trial["exception"].is_string()),
        2,
        "{text}"
    );
    assert_eq!(count("broken", &has_reward(1)), 0, "{text}");
    assert_eq!(count("model", &|_| true), 2, "{text}");
}
