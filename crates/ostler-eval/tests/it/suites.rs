//! Suites: what is combined with what.

use ostler_eval::case::Isolation;
use ostler_eval::load::tree::ProblemCode;

use crate::load::{files, load_in};

const CASE: &str = "prompt: x\nevaluators: [git-diff]\nlimits: {max_turns: 3}\n";

const SUITE: &str = r"
suite: demo
cases: [cases, {name: inline, prompt: y, evaluators: [git-diff]}]
agents:
  - alpha
  - {agent: beta, model: own, label: b, settings: {effort: high}}
models: [m1, m2]
prompts:
  - {name: plain, own: true}
  - {name: careful, text: 'Think first. {prompt}'}
instructions:
  - {name: short, file: short.md}
repetitions: 3
limits: {timeout: 10m, max_turns: 9, max_budget_usd: 0.5}
budget_usd: 20
jobs: 4
seed: 7
isolation: sandbox
";

#[test]
fn a_suite_combines_everything() {
    let dir = files(&[
        ("suite.yaml", SUITE),
        ("short.md", "Be short."),
        ("cases/one.yaml", CASE),
        ("cases/two/case.yaml", &format!("name: two\n{CASE}")),
        ("cases/notes.md", "not a case"),
    ]);
    let suite = load_in(dir.path(), "").unwrap();
    assert_eq!(suite.name, "demo");
    let names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["one", "two", "inline"]);
    let labels: Vec<&str> = suite
        .contenders
        .iter()
        .map(|it| it.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "alpha/m1+plain+short",
            "alpha/m1+careful+short",
            "alpha/m2+plain+short",
            "alpha/m2+careful+short",
            "b+plain+short",
            "b+careful+short",
        ]
    );
    assert_eq!(suite.contenders[4].model.as_deref(), Some("own"));
    assert_eq!(suite.contenders[4].settings["effort"], "high");
    assert_eq!(suite.contenders[0].prompt, None);
    assert_eq!(
        suite.contenders[1].prompt.as_deref(),
        Some("Think first. {prompt}")
    );
    assert_eq!(
        suite.contenders[0].instructions.as_deref(),
        Some("Be short.")
    );
    // A case's own limits win, value by value.
    assert_eq!(suite.cases[0].limits.max_turns, Some(3));
    assert_eq!(suite.cases[0].limits.max_budget_usd, Some(0.5));
    assert_eq!(suite.cases[2].limits.max_turns, Some(9));
    assert_eq!((suite.repetitions, suite.jobs, suite.seed), (3, Some(4), 7));
    assert_eq!(
        (suite.budget_usd, suite.isolation),
        (Some(20.0), Some(Isolation::Sandbox))
    );
}

#[test]
fn a_case_alone_is_a_suite_of_one() {
    let dir = files(&[("one.yaml", CASE)]);
    let suite = load_in(dir.path(), "one.yaml").unwrap();
    assert_eq!(
        (suite.name.as_str(), suite.cases.len(), suite.repetitions),
        ("one", 1, 1)
    );
    assert!(suite.contenders.is_empty());
}

#[test]
fn names_are_unique() {
    let dir = files(&[
        ("a.yaml", &format!("name: x\n{CASE}")),
        ("b.yaml", &format!("name: x\n{CASE}")),
    ]);
    let problems = load_in(dir.path(), "").unwrap_err();
    assert_eq!(problems[0].code, ProblemCode::Conflict);
    let suite = "cases: [{name: a, prompt: x, evaluators: [git-diff]}]\nagents: [alpha, alpha]\n";
    let dir = files(&[("s.yaml", suite)]);
    let problems = load_in(dir.path(), "s.yaml").unwrap_err();
    assert!(problems[0].message.contains("add `label`"), "{problems:?}");
}

#[test]
fn all_faults_of_all_files_are_reported() {
    let suite = "cases: [a.yaml, b.yaml, missing.yaml]\nagents: [alpah]\njobs: 0\n";
    let bad = "promt: x\nevaluators: [git-diff]\n";
    let dir = files(&[("s.yaml", suite), ("a.yaml", bad), ("b.yaml", bad)]);
    let problems = load_in(dir.path(), "s.yaml").unwrap_err();
    let places: Vec<String> = problems
        .iter()
        .map(|it| format!("{} {}", it.file.file_name().unwrap().display(), it.key))
        .collect();
    assert_eq!(
        places,
        [
            "a.yaml prompt",
            "a.yaml promt",
            "b.yaml prompt",
            "b.yaml promt",
            "s.yaml cases[2]",
            "s.yaml agents[0]",
            "s.yaml jobs",
        ]
    );
}

#[test]
fn a_directory_without_cases_says_so() {
    let dir = files(&[("notes.md", "x")]);
    let problems = load_in(dir.path(), "").unwrap_err();
    assert!(problems[0].message.contains("holds no case"));
}
