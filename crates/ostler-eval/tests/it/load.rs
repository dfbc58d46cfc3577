//! Case files: youBencha's field names, bounds, and faults with file, line and key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_eval::case::{Case, Expected, ResultExport, Source, Suite};
use ostler_eval::load::tree::{Problem, ProblemCode};
use ostler_eval::load::{AgentCatalogue, AgentInfo, LoadOptions, Variables, load, validate};
use tempfile::TempDir;

/// Two agents, each with an alias.
pub(crate) struct Agents;

impl AgentCatalogue for Agents {
    fn find(&self, name: &str) -> Option<AgentInfo> {
        let (name, agent_name_setting) = match name {
            "alpha" | "alpha-code" => ("alpha", Some("agent".to_owned())),
            "beta" | "beta-cli" => ("beta", None),
            _ => return None,
        };
        let settings = [
            "agent",
            "append_system_prompt",
            "system_prompt",
            "script",
            "effort",
        ];
        Some(AgentInfo {
            name: name.to_owned(),
            settings: Some(
                settings
                    .map(str::to_owned)
                    .into_iter()
                    .collect::<BTreeSet<_>>(),
            ),
            path_settings: ["script".to_owned()].into(),
            agent_name_setting,
        })
    }

    fn names(&self) -> Vec<String> {
        ["alpha", "beta"].map(str::to_owned).to_vec()
    }
}

pub(crate) fn options<'a>(variables: &'a Variables) -> LoadOptions<'a> {
    LoadOptions {
        agents: &Agents,
        variables,
        check_evaluator: None,
        allow_private_hosts: false,
    }
}

/// Writes files, and returns their directory.
pub(crate) fn files(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

pub(crate) fn load_in(dir: &Path, path: &str) -> Result<Suite, Vec<Problem>> {
    let variables = Variables::default();
    let path = if path.is_empty() {
        dir.to_owned()
    } else {
        dir.join(path)
    };
    load(&[path], &options(&variables)).map_err(|problems| problems.0)
}

fn one_case(text: &str) -> Case {
    let dir = files(&[("case.yaml", text), ("prompts/task.md", "Do it.\n")]);
    let mut suite = load_in(dir.path(), "case.yaml").unwrap();
    assert_eq!(suite.cases.len(), 1);
    suite.cases.remove(0)
}

/// The problems of a file, as `line:column key code`.
fn faults(name: &str, text: &str) -> Vec<String> {
    let dir = files(&[(name, text)]);
    let problems = load_in(dir.path(), name).unwrap_err();
    assert!(problems.iter().all(|it| it.file == dir.path().join(name)));
    let place = |it: &Problem| it.at.map(|at| format!("{}:{}", at.line, at.column));
    let lines = problems.iter();
    lines
        .map(|it| format!("{} {} {:?}", place(it).unwrap_or_default(), it.key, it.code))
        .collect()
}

fn messages(text: &str) -> String {
    let dir = files(&[("case.yaml", text)]);
    let problems = load_in(dir.path(), "case.yaml").unwrap_err();
    let lines: Vec<String> = problems.into_iter().map(|it| it.message).collect();
    lines.join("\n")
}

const YOUBENCHA: &str = r#"
name: "Greeting in the README"
description: "Adds a greeting, and nothing else"
repo: https://git.example.org/team/hello.git
branch: main
commit: 0123abc
agent:
  type: alpha-code
  agent_name: reviewer
  model: some-model-4.5
  config:
    prompt: "Greet the reader of the README"
    append_system_prompt: |
      Be brief.
expected_source: branch
expected: feature/done
evaluators:
  - name: git-diff
    config:
      assertions:
        max_files_changed: 1
        max_change_entropy: 2.0
  - name: expected-diff
    config: { threshold: 0.85 }
  - name: agentic-judge-tone
    config:
      type: beta-cli
      agent_name: agentic-judge
      assertions:
        friendly: "The greeting is friendly. Score 1 if true, 0 if false."
pre_execution:
  - name: script
    config:
      command: echo
      args: ["ready: ${WORKSPACE_DIR}"]
      env: { LEVEL: 3 }
      timeout_ms: 10000
post_evaluation:
  - name: database
    config:
      type: json-file
      output_path: ./history.jsonl
      include_full_bundle: false
      append: true
  - name: script
    config: { command: ./notify.sh, args: ["${RESULTS_PATH}"], working_dir: "${WORKSPACE_DIR}/ci" }
timeout: 600000
workspace_name: greeting.1
"#;

// S4-46: the agent is one setting of the case.
#[test]
fn files_of_youbencha_run_as_they_are() {
    let case = one_case(YOUBENCHA);
    assert_eq!(case.name, "greeting-in-the-readme");
    assert_eq!(case.prompt, "Greet the reader of the README");
    assert_eq!(
        case.source,
        Source::Repository {
            url: "https://git.example.org/team/hello.git".into(),
            branch: Some("main".into()),
            commit: Some("0123abc".into()),
        }
    );
    let agent = case.agent.unwrap();
    assert_eq!(
        (agent.agent.as_str(), agent.model.as_deref()),
        ("alpha", Some("some-model-4.5"))
    );
    assert_eq!(agent.label, "alpha/some-model-4.5");
    assert_eq!(agent.settings["agent"], "reviewer");
    assert_eq!(agent.settings["append_system_prompt"], "Be brief.\n");
    assert!(!agent.settings.contains_key("prompt"));
    assert_eq!(
        case.expected,
        Some(Expected::Revision("feature/done".into()))
    );
    let kinds: Vec<&str> = case.evaluators.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["git-diff", "expected-diff", "judge"]);
    assert_eq!(case.evaluators[2].name, "agentic-judge-tone");
    assert_eq!(case.evaluators[2].config["agent"], "beta");
    assert_eq!(
        case.evaluators[0].config["assertions"]["max_files_changed"],
        1
    );
    let before = &case.pre_execution[0];
    assert_eq!(before.argv, ["echo", "ready: ${WORKSPACE_DIR}"]);
    assert_eq!(before.env["LEVEL"], "3");
    assert_eq!(before.timeout, Duration::from_secs(10));
    assert_eq!(
        case.post_evaluation[0].argv,
        ["./notify.sh", "${RESULTS_PATH}"]
    );
    assert_eq!(case.post_evaluation[0].dir, Some(PathBuf::from("ci")));
    let export = ResultExport {
        path: "./history.jsonl".into(),
        full: false,
        append: true,
    };
    assert_eq!(case.exports, [export]);
    assert_eq!(case.limits.timeout, Some(Duration::from_secs(600)));
    assert_eq!(case.workspace.name.as_deref(), Some("greeting.1"));
}

// CR-4.1: the contract's own example names an evaluator without a table.
#[test]
fn an_evaluator_can_be_a_name() {
    let case = one_case("prompt: x\nevaluators: ['git-diff', git-diff]\n");
    let names: Vec<&str> = case.evaluators.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["git-diff", "git-diff-2"]);
    assert_eq!(case.name, "case");
    assert_eq!(case.source, Source::Empty);
}

#[test]
fn yaml_toml_and_json_are_the_same() {
    let toml = "name = \"one\"\nprompt = \"x\"\ntimeout = \"90s\"\n[[evaluators]]\n\
                name = \"command\"\nconfig = { command = \"true\" }\nweight = 2.5\n";
    let json = r#"{"name": "one", "prompt": "x", "timeout": 90000, "evaluators":
        [{"name": "command", "config": {"command": "true"}, "weight": 2.5}]}"#;
    let yaml = "name: one\nprompt: x\ntimeout: 90s\nevaluators:\n- name: command\n  \
                config: {command: 'true'}\n  weight: 2.5\n";
    let dir = files(&[("a/c.toml", toml), ("b/c.json", json), ("c/c.yaml", yaml)]);
    let load = |path| {
        let mut case = load_in(dir.path(), path).unwrap().cases.remove(0);
        case.file = PathBuf::new();
        case
    };
    let one = load("a/c.toml");
    assert_eq!(one, load("b/c.json"));
    assert_eq!(one, load("c/c.yaml"));
    assert_eq!(one.limits.timeout, Some(Duration::from_secs(90)));
}

// S4-10 (CR-2.5)
#[test]
fn a_prompt_file_is_read() {
    let text = "agent: {type: alpha, config: {prompt_file: ./prompts/task.md}}\n\
                evaluators: [git-diff]\n";
    assert_eq!(one_case(text).prompt, "Do it.\n");
}

// S4-39
#[test]
fn a_prompt_file_cannot_leave_the_directory() {
    for path in ["../secret", "/etc/passwd", "a/../../b", "..\\secret"] {
        let text = format!("prompt_file: '{path}'\nevaluators: [git-diff]\n");
        assert_eq!(
            faults("case.yaml", &text),
            ["1:1 prompt_file OutsideDirectory"],
            "{path}"
        );
    }
}

// S4-39, catalogue 29: a link is resolved before the directory is compared.
#[cfg(unix)]
#[test]
fn a_prompt_file_cannot_leave_by_a_link() {
    let outside = files(&[("secret.md", "secret")]);
    let text = "prompt_file: link.md\nevaluators: [git-diff]\n";
    let dir = files(&[("case.yaml", text), ("real.md", "inside")]);
    let link = dir.path().join("link.md");
    std::os::unix::fs::symlink(outside.path().join("secret.md"), &link).unwrap();
    let problems = load_in(dir.path(), "case.yaml").unwrap_err();
    assert_eq!(problems[0].code, ProblemCode::OutsideDirectory);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("real.md", &link).unwrap();
    let suite = load_in(dir.path(), "case.yaml").unwrap();
    assert_eq!(suite.cases[0].prompt, "inside");
}

// Catalogue 32: no key is accepted and ignored.
#[test]
fn unknown_keys_are_errors_with_suggestions() {
    let text = "promt: x\nprompt: x\nagent:\n  type: alpha\n  config:\n    effrot: high\n\
                evaluators:\n  - nmae: git-diff\n  - name: git-dif\ntimeout_ms: 3\n";
    assert_eq!(
        faults("case.yaml", text),
        [
            "1:1 promt UnknownKey",
            "6:5 agent.config.effrot UnknownKey",
            "8:5 evaluators[0].name MissingKey",
            "8:5 evaluators[0].nmae UnknownKey",
            "9:5 evaluators[1].name UnknownName",
            "10:1 timeout_ms UnknownKey",
        ]
    );
    let said = messages(text);
    for hint in [
        "did you mean prompt",
        "did you mean effort",
        "did you mean git-diff",
    ] {
        assert!(said.contains(hint), "{hint} in {said}");
    }
}

// S4-43
#[test]
fn a_message_says_what_would_be_right() {
    let said = messages("prompt: x\nagent: {type: alhpa}\nevaluators: [git-diff]\ntimeout: 30\n");
    assert!(
        said.contains("\"alhpa\" is not an agent; did you mean alpha?"),
        "{said}"
    );
    assert!(
        said.contains("a number is milliseconds; write \"30s\""),
        "{said}"
    );
}

#[test]
fn places_are_right_in_every_format() {
    let toml = "prompt = \"x\"\nevaluators = [\"git-diff\"]\n\n[limits]\nmax_turns = \"many\"\n";
    assert_eq!(faults("c.toml", toml), ["5:13 limits.max_turns WrongType"]);
    let json = "{\n \"prompt\": \"x\",\n \"evaluators\": [\n  {\"name\": 3}\n ]\n}";
    assert_eq!(
        faults("c.json", json),
        ["4:12 evaluators[0].name WrongType"]
    );
    let yaml = "prompt: x\nevaluators: [git-diff]\nlimits:\n  max_turns: 0\n";
    assert_eq!(faults("c.yaml", yaml), ["4:14 limits.max_turns WrongType"]);
}

// S4-48: every documented bound, just inside and just outside.
#[test]
fn values_have_bounds() {
    let text = |agent: &str, rest: &str| {
        let config = if agent.is_empty() {
            "{}".to_owned()
        } else {
            agent.to_owned()
        };
        format!("prompt: x\nevaluators: [git-diff]\nagent: {config}\n{rest}\n")
    };
    let with = |key: &str, value: &str| text(&format!("{{type: alpha, {key}: {value}}}"), "");
    let config =
        |key: &str, value: &str| text(&format!("{{type: alpha, config: {{{key}: {value}}}}}"), "");
    let a = |count: usize| "a".repeat(count);
    let cases = [
        (
            with("agent_name", &a(100)),
            with("agent_name", &a(101)),
            "agent.agent_name",
        ),
        (
            with("agent_name", "a-b_c"),
            with("agent_name", "'a b'"),
            "agent.agent_name",
        ),
        (
            with("model", &a(200)),
            with("model", &a(201)),
            "agent.model",
        ),
        (with("model", "m-4.5"), with("model", "'-x'"), "agent.model"),
        (
            config("append_system_prompt", &a(10_000)),
            config("append_system_prompt", &a(10_001)),
            "agent.config.append_system_prompt",
        ),
        (
            config("system_prompt", &a(50_000)),
            config("system_prompt", &a(50_001)),
            "agent.config.system_prompt",
        ),
        (
            format!("prompt: {}\nevaluators: [git-diff]\n", a(1_000_000)),
            format!("prompt: {}\nevaluators: [git-diff]\n", a(1_000_001)),
            "prompt",
        ),
        (
            format!("name: {}\nprompt: x\nevaluators: [git-diff]\n", a(200)),
            format!("name: {}\nprompt: x\nevaluators: [git-diff]\n", a(201)),
            "name",
        ),
    ];
    for (good, bad, key) in cases {
        one_case(&good);
        let found = faults("case.yaml", &bad);
        let last = found.last().unwrap();
        assert!(last.ends_with(&format!("{key} OutOfBounds")), "{found:?}");
    }
    let long = format!("prompt_file: {}\nevaluators: [git-diff]\n", a(501));
    assert_eq!(faults("case.yaml", &long), ["1:1 prompt_file OutOfBounds"]);
}

#[test]
fn exclusive_and_missing_keys() {
    let both = "prompt: x\nprompt_file: y\nevaluators: [git-diff]\n";
    assert_eq!(faults("case.yaml", both), ["2:1 prompt_file Conflict"]);
    let twice = "prompt: x\nagent: {type: alpha, config: {prompt: y}}\nevaluators: [git-diff]\n";
    assert_eq!(faults("case.yaml", twice), ["1:1 prompt Conflict"]);
    let none = "name: x\n";
    let found = faults("case.yaml", none);
    assert_eq!(
        found,
        ["1:1 evaluators MissingKey", "1:1 prompt MissingKey"]
    );
    let expected = "prompt: x\nexpected_source: branch\nevaluators: [git-diff]\n";
    assert_eq!(faults("case.yaml", expected), ["1:1 expected MissingKey"]);
}

#[test]
fn a_command_has_no_shell() {
    let steps =
        |step: &str| format!("prompt: x\nevaluators: [git-diff]\npre_execution:\n  - {step}\n");
    let argv = |step: &str| one_case(&steps(step)).pre_execution.remove(0).argv;
    assert_eq!(argv("cargo build --quiet"), ["cargo", "build", "--quiet"]);
    assert_eq!(argv("[sh, -c, 'a && b']"), ["sh", "-c", "a && b"]);
    assert_eq!(argv("{command: 'npm install'}"), ["npm", "install"]);
    assert_eq!(argv("{command: 'a b', args: [c]}"), ["a b", "c"]);
    let found = faults("case.yaml", &steps("cargo build && cargo test"));
    assert_eq!(found, ["4:5 pre_execution[0] OutOfBounds"]);
    let found = faults("case.yaml", &steps("{command: x, working_dir: ../y}"));
    assert_eq!(
        found,
        ["4:18 pre_execution[0].working_dir OutsideDirectory"]
    );
}

#[test]
fn a_webhook_is_refused_by_name() {
    let text = "prompt: x\nevaluators: [git-diff]\npost_evaluation:\n  - name: webhook\n    \
                config: {url: 'https://example.org'}\n";
    assert_eq!(
        faults("case.yaml", text),
        ["4:5 post_evaluation[0].name Unsupported"]
    );
}

#[test]
fn evaluators_come_from_files() {
    let case = "prompt: x\nevaluators:\n  - file: ./evaluators/tone.yaml\n";
    let tone = "name: agentic-judge:tone\ndescription: Tone\nconfig:\n  type: beta-cli\n  \
                prompt_file: tone.md\n  assertions: {friendly: yes}\n";
    let dir = files(&[
        ("case.yaml", case),
        ("evaluators/tone.yaml", tone),
        ("evaluators/tone.md", "Judge the tone."),
    ]);
    let case = load_in(dir.path(), "case.yaml").unwrap().cases.remove(0);
    let judge = &case.evaluators[0];
    assert_eq!(
        (judge.name.as_str(), judge.kind.as_str()),
        ("agentic-judge:tone", "judge")
    );
    assert_eq!(judge.config["prompt"], "Judge the tone.");
    assert!(!judge.config.contains_key("prompt_file"));
    // A fault in it names its own file.
    std::fs::write(dir.path().join("evaluators/tone.yaml"), "nam: x\n").unwrap();
    let problems = load_in(dir.path(), "case.yaml").unwrap_err();
    assert_eq!(problems[0].file, dir.path().join("./evaluators/tone.yaml"));
    assert_eq!(problems[0].at.unwrap().line, 1);
}

#[test]
fn an_evaluator_checks_its_configuration_with_its_place() {
    let text = "prompt: x\nevaluators:\n  - name: expected-diff\n    config:\n      \
                threshold: 7\n";
    let dir = files(&[("case.yaml", text)]);
    let check = |spec: &ostler_eval::case::EvaluatorSpec| {
        assert_eq!(spec.config["threshold"], 7);
        vec![ostler_eval::evaluator::ConfigProblem {
            key: "config.threshold".into(),
            message: "must be from 0 to 1".into(),
        }]
    };
    let variables = Variables::default();
    let mut options = options(&variables);
    options.check_evaluator = Some(&check);
    let problems = validate(&[dir.path().join("case.yaml")], &options);
    assert_eq!(problems.len(), 1);
    let shown = problems[0].to_string();
    let place = "case.yaml:5:7: `evaluators[0].config.threshold`: must be from 0 to 1";
    assert!(shown.ends_with(place), "{shown}");
}

#[test]
fn a_setting_that_is_a_path_starts_at_the_file() {
    let text = "prompt: x\nagent: {type: alpha, config: {script: s/a.toml}}\n\
                evaluators: [git-diff]\n";
    let dir = files(&[("case.yaml", text)]);
    let case = load_in(dir.path(), "case.yaml").unwrap().cases.remove(0);
    let expected = dir.path().join("s/a.toml").display().to_string();
    assert_eq!(case.agent.unwrap().settings["script"], expected);
}

/// The catalogue of a program that has the agent of the example.
struct Scripted;

impl AgentCatalogue for Scripted {
    fn find(&self, name: &str) -> Option<AgentInfo> {
        let settings: BTreeSet<String> = ["script".to_owned()].into();
        (name == "scripted").then(|| AgentInfo {
            name: name.to_owned(),
            settings: Some(settings.clone()),
            path_settings: settings,
            agent_name_setting: None,
        })
    }

    fn names(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }
}

#[test]
fn the_examples_are_valid() {
    let dir = files(ostler_eval::init::EXAMPLE);
    let variables = Variables::default();
    let options = LoadOptions {
        agents: &Scripted,
        ..options(&variables)
    };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/eval");
    let shipped = load(&[examples], &options).unwrap();
    assert_eq!((shipped.cases.len(), shipped.contenders.len()), (3, 2));
    let suite = load(&[dir.path().to_owned()], &options).unwrap();
    assert_eq!((suite.cases.len(), suite.contenders.len()), (1, 2));
    for contender in suite.contenders.iter().chain(&shipped.contenders) {
        let script = contender.settings["script"].as_str().unwrap();
        assert!(Path::new(script).is_file(), "{script}");
    }
}
