//! The example of the README: a small project that is really read, mended and tested, with nothing but Rust installed.

use std::path::{Path, PathBuf};

use crate::rig::{Rig, finish};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adder")
}

/// A copy to work on: the example itself stays broken.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && entry.file_name() == "target" => {}
            kind if kind.is_dir() => copy(&from, &to),
            _ => drop(std::fs::copy(from, to).unwrap()),
        }
    }
}

#[test]
fn the_failing_test_is_fixed_and_a_second_run_finds_nothing_to_do() {
    let rig = Rig::new();
    copy(&example(), &rig.path("adder"));
    // Where Rust is installed on this machine; the run sees no other part of the environment.
    let here: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"].iter().any(|wanted| name == wanted))
        .collect();
    let run = || {
        let args = ["run", "Fix the failing test", "--agent", "scripted", "--dir", "adder", "--output", "events"];
        finish(rig.ostler(&args).envs(here.clone()))
    };
    let first = run();
    assert_eq!(first.code, Some(0), "{}", first.stdout);
    let mended = std::fs::read_to_string(rig.path("adder/src/lib.rs")).unwrap();
    let broken = std::fs::read_to_string(example().join("src/lib.rs")).unwrap();
    assert_eq!(mended, broken.replace("    a - b\n", "    a + b\n"), "one line is changed");
    let results: Vec<_> = first.events().into_iter().filter(|event| event["type"] == "tool_result").collect();
    let told: Vec<_> = results.iter().map(|r| (r["name"].as_str().unwrap(), r["ok"].as_bool().unwrap())).collect();
    assert_eq!(
        told,
        [("list_files", true), ("run_command", false), ("read_file", true), ("edit_file", true), ("run_command", true)]
    );
    let output = results[4]["output"].as_str().unwrap();
    assert!(output.contains("2 passed"), "the tests really ran: {output}");
    let second = run();
    assert_eq!(second.code, Some(0), "{}", second.stdout);
    assert_eq!(std::fs::read_to_string(rig.path("adder/src/lib.rs")).unwrap(), mended);
}
