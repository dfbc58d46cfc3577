//! Tests of layers, trust, errors and display, as tables.

use std::path::Path;
use std::time::Duration;

use ostler_core::spec::{Limits, Spec, keys};

use super::*;

fn source(name: &str, text: &str, author: Author) -> Source {
    let (dir, home) = (PathBuf::from("/project"), Some(PathBuf::from("/home/me")));
    Source {
        name: name.into(),
        text: text.into(),
        dir,
        home,
        author,
    }
}

fn own(text: &str) -> Source {
    source("own", text, Author::Trusted)
}

fn project(text: &str) -> Source {
    source("project", text, Author::Unknown)
}

fn load(sources: &[Source]) -> Config {
    Config::load(sources, &Agents::builtin())
        .map_err(|error| error.to_string())
        .unwrap()
}

fn errors(text: &str) -> Vec<String> {
    let error = Config::load(&[own(text)], &Agents::builtin())
        .map(|_| ())
        .unwrap_err();
    error.0.iter().map(Problem::to_string).collect()
}

/// Returns the spec for an agent after the defaults. `KEY` is the only variable.
fn filled(config: &Config, name: &str, mut spec: Spec) -> Result<Spec, String> {
    let lookup = |name: &str| (name == "KEY").then(|| "s3cret".to_owned());
    let defaults = config.defaults(name).unwrap();
    defaults
        .fill(&mut spec, &lookup)
        .map_err(|error| error.to_string())?;
    Ok(spec)
}

fn held(config: &Config, agent: Option<&str>, key: &str) -> (String, String) {
    let row = config
        .rows(agent)
        .into_iter()
        .find(|row| row.key == key)
        .unwrap();
    (row.value, row.from.to_string())
}

const ALL: &str = r#"
agent = "claude"
[agents.claude]
command = "~/bin/claude"
args = ["--one"]
env = { TOKEN = "Bearer ${KEY}", PLAIN = "x" }
model = "opus"
[agents.claude.models]
fast = "haiku"
[agents.claude.set]
effort = "high"
allowed_tools = ["Read", "Bash(git *)"]
bare = true
[limits]
timeout = "20m"
idle_timeout = 90
max_turns = 7
max_log_size = "10MB"
max_raw_size = "none"
max_tokens = 1000
"#;

#[test]
fn defaults_fill_what_the_spec_leaves_open() {
    let config = load(&[own(ALL)]);
    let spec = filled(&config, "claude", Spec::default()).unwrap();
    assert_eq!(
        spec.program.as_deref(),
        Some(Path::new("/home/me/bin/claude"))
    );
    assert_eq!(spec.extra_args, ["--one"]);
    assert_eq!(
        (spec.env["TOKEN"].as_str(), spec.env["PLAIN"].as_str()),
        ("Bearer s3cret", "x")
    );
    let settings = |key: &str| spec.values(key).unwrap().join("|");
    let got = [
        keys::MODEL,
        "effort",
        keys::ALLOWED_TOOLS,
        "bare",
        keys::MAX_TURNS,
    ]
    .map(settings);
    assert_eq!(got, ["opus", "high", "Read|Bash(git *)", "true", "7"]);
    let limits = config.limits();
    assert_eq!(
        (limits.wall, limits.idle),
        (
            Some(Duration::from_secs(1200)),
            Some(Duration::from_secs(90))
        )
    );
    assert_eq!(
        (limits.budget_tokens, limits.startup),
        (Some(1000), Limits::default().startup)
    );
    assert_eq!(
        (limits.event_bytes, limits.raw_bytes),
        (Some(10_000_000), None)
    );
    // An agent that is not configured gets only the limits.
    let spec = filled(&config, "openai-api", Spec::default()).unwrap();
    assert!(spec.program.is_none() && spec.env.is_empty() && spec.model.is_none());
}

#[test]
fn values_in_the_spec_win() {
    let mut spec = Spec::default()
        .extra_args(vec!["--two".into()])
        .program("mine");
    spec.model = Some("fast".into());
    spec.set(keys::ALLOWED_TOOLS, ["Edit"]).unwrap();
    spec.set(keys::MAX_TURNS, ["2"]).unwrap();
    spec.env.insert("TOKEN".into(), "other".into());
    let spec = filled(&load(&[own(ALL)]), "claude", spec).unwrap();
    assert_eq!(
        (spec.program.as_deref(), spec.env["TOKEN"].as_str()),
        (Some(Path::new("mine")), "other")
    );
    assert_eq!(
        spec.extra_args,
        ["--one", "--two"],
        "those of the caller come last, and so win"
    );
    let last = |key: &str| spec.values(key).unwrap().to_vec();
    // A model alias is resolved, wherever it was given.
    assert_eq!(
        (last(keys::MODEL), last(keys::ALLOWED_TOOLS)),
        (vec!["haiku".into()], vec!["Edit".into()])
    );
    assert_eq!(last(keys::MAX_TURNS), ["2"]);
}

#[test]
fn missing_variable_is_an_error_only_if_needed() {
    let config = load(&[own(
        "[agents.claude.env]\nA = \"${UNSET}\"\nB = \"${UNSET2}\"\n",
    )]);
    let error = filled(&config, "claude", Spec::default())
        .map(drop)
        .unwrap_err();
    let want = "own:2: agents.claude.env.A: the variable UNSET is not set in your environment\n\
                own:3: agents.claude.env.B: the variable UNSET2 is not set in your environment";
    assert_eq!(error, want);
    assert!(filled(&config, "openai-api", Spec::default()).is_ok());
    let mut spec = Spec::default();
    spec.env.extend([
        ("A".to_owned(), String::new()),
        ("B".to_owned(), String::new()),
    ]);
    assert!(
        filled(&config, "claude", spec).is_ok(),
        "the caller gave both"
    );
}

#[test]
fn later_layers_win_value_by_value() {
    let first = "agent = \"claude\"\n[agents.claude]\nmodel = \"opus\"\n[agents.claude.models]\na = \"x\"\nb = \"y\"\n[limits]\ntimeout = \"1m\"\n";
    let second = "[agents.claude]\nmodel = \"sonnet\"\n\n[agents.claude.models]\nb = \"z\"\n";
    let mut config = load(&[own(first), source("second", second, Author::Trusted)]);
    for (key, value, from) in [
        ("agent", "claude", "own:1"),
        ("agents.claude.model", "sonnet", "second:2"),
        ("agents.claude.command", "claude", "default"),
        ("agents.claude.models.a", "x", "own:5"),
        ("agents.claude.models.b", "z", "second:5"),
        ("limits.timeout", "1m", "own:8"),
        ("limits.idle_timeout", "10m", "default"),
    ] {
        assert_eq!(
            held(&config, Some("claude"), key),
            (value.into(), from.into()),
            "{key}"
        );
    }
    config.set(Key::Agent, "mock", Origin::Flag("--agent"));
    config.set(
        Key::AgentField("claude".into(), Field::Model),
        "haiku",
        Origin::Variable("OSTLER_MODEL"),
    );
    assert_eq!(
        held(&config, None, "agent"),
        ("mock".into(), "--agent".into())
    );
    assert_eq!(
        held(&config, None, "agents.claude.model"),
        ("haiku".into(), "$OSTLER_MODEL".into())
    );
}

// S4-46: changing the name changes the agent; a name can stand for an agent with its own defaults.
#[test]
fn alternative_name_has_its_own_defaults() {
    let text = format!(
        "{ALL}[agents.review]\nlike = \"claude\"\nmodel = \"fast\"\n[agents.review.env]\nPLAIN = \"y\"\n"
    );
    let config = load(&[own(&text)]);
    assert_eq!(config.agent("review").unwrap().about().name, "claude");
    let spec = filled(&config, "review", Spec::default()).unwrap();
    assert_eq!(spec.model.as_deref(), Some("haiku"));
    assert_eq!(
        (spec.env["PLAIN"].as_str(), spec.env["TOKEN"].as_str()),
        ("y", "Bearer s3cret")
    );
    assert_eq!(
        spec.program.as_deref(),
        Some(Path::new("/home/me/bin/claude"))
    );
    assert_eq!(
        filled(&config, "claude", Spec::default()).unwrap().env["PLAIN"],
        "x"
    );
    assert!(config.names().contains(&"review") && config.agents().get("review").is_none());
    assert_eq!(
        held(&config, Some("review"), "agents.review.args").0,
        "[\"--one\"]"
    );
}

#[test]
fn secrets_are_not_shown() {
    let text = format!(
        "{ALL}system_prompt = \"h1dden\"\n[agents.openai-api.set]\nheader = [\"X: h1dden\"]\n"
    )
    .replace(
        "bare = true\n",
        "bare = true\nmcp_config = ['{\"h1dden\":1}']\n",
    )
    .replace("PLAIN = \"x\"", "PLAIN = \"h1dden\"")
    .replace(
        "max_tokens = 1000\nsystem_prompt = \"h1dden\"",
        "max_tokens = 1000",
    );
    let config = load(&[own(&text)]);
    for agent in [None, Some("claude"), Some("openai-api")] {
        let shown = format!("{:?}{:?}", config.rows(agent), config.entries);
        assert!(!shown.contains("h1dden"), "{shown}");
    }
    assert_eq!(held(&config, None, "agents.claude.env.TOKEN").0, "…${KEY}");
    assert_eq!(held(&config, None, "agents.openai-api.set.header").0, "…");
}

#[test]
fn untrusted_project_sets_only_harmless_values() {
    let mine =
        "agent = \"openai-api\"\n[agents.claude]\nmodel = \"opus\"\n[limits]\ntimeout = \"30m\"\n";
    let table = [
        ("agent = \"claude\"", Some("only you choose the agent")),
        ("agents.claude.model = \"x\"", None),
        (
            "agents.claude.models.fast = \"x\"",
            Some("it changes the meaning of a model's name"),
        ),
        ("agents.claude.set.effort = \"high\"", None),
        ("agents.claude.set.fallback_model = \"x\"", None),
        ("agents.new.like = \"claude\"", None),
        (
            "agents.claude.command = \"./evil\"",
            Some("it determines which program runs, and how"),
        ),
        (
            "agents.claude.args = [\"--x\"]",
            Some("it determines which program runs, and how"),
        ),
        (
            "agents.new.acp = [\"evil\"]",
            Some("it determines which program runs, and how"),
        ),
        (
            "agents.claude.env.ANTHROPIC_BASE_URL = \"x\"",
            Some("it changes the agent's environment"),
        ),
        (
            "agents.openai-api.set.base_url = \"http://x\"",
            Some("this setting could widen what the agent may do or reach"),
        ),
        (
            "agents.claude.set.permission_mode = \"bypassPermissions\"",
            Some("this setting could widen what the agent may do or reach"),
        ),
        (
            "agents.claude.set.disallowed_tools = []",
            Some("this setting could widen what the agent may do or reach"),
        ),
        ("limits.timeout = \"10m\"", None),
        (
            "limits.timeout = \"31m\"",
            Some("it would raise the limit, which is 30m"),
        ),
        (
            "limits.timeout = \"none\"",
            Some("it would raise the limit, which is 30m"),
        ),
        (
            "limits.idle_timeout = \"11m\"",
            Some("it would raise the limit, which is 10m"),
        ),
        ("limits.max_tokens = 5", None),
        ("limits.max_log_size = \"1MB\"", None),
        ("limits.max_raw_size = 4096", None),
        (
            "limits.max_log_size = \"257MB\"",
            Some("it would raise the limit, which is 256MB"),
        ),
        (
            "limits.max_raw_size = \"none\"",
            Some("it would raise the limit, which is 512MB"),
        ),
    ];
    for (line, want) in table {
        let key = line.split(" = ").next().unwrap();
        let config = load(&[own(mine), project(line)]);
        let why = config.ignored().first().map(|ignored| ignored.why.as_str());
        assert_eq!(why, want, "{line}");
        let taken = config
            .entries
            .values()
            .any(|entry| entry.from.to_string() == "project:1");
        assert_eq!(taken, want.is_none(), "{line}");
        if want.is_some() {
            assert_eq!(config.ignored()[0].entry.key.to_string(), key);
        }
        // A trusted author may set all of them.
        if !line.contains("acp") {
            let config = load(&[own(mine), source("project", line, Author::Trusted)]);
            assert!(config.ignored().is_empty(), "{line}");
            assert_eq!(
                config
                    .entries
                    .values()
                    .filter(|entry| entry.from.to_string() == "project:1")
                    .count(),
                1
            );
        }
    }
}

#[test]
fn untrusted_project_has_no_detour() {
    // Every setting of every agent that is not on the list is ignored.
    for agent in Agents::builtin().iter() {
        for setting in agent
            .about()
            .settings
            .iter()
            .filter(|setting| !HARMLESS_SETTINGS.contains(&setting.key))
        {
            let entry = Entry {
                key: Key::AgentField(agent.about().name.into(), Field::Set(setting.key.into())),
                value: Value::Text("x".into()),
                from: Origin::Default,
            };
            assert!(
                trust::refusal(&entry, &BTreeMap::new()).is_some(),
                "{}",
                setting.key
            );
        }
    }
    // A value that the caller set for one agent does not go to another with the same name.
    let mine = "[agents.review]\nlike = \"claude\"\n[agents.review.env]\nK = \"v\"\n";
    let config = load(&[own(mine), project("agents.review.like = \"openai-api\"")]);
    assert_eq!(
        (
            config.ignored().len(),
            config.agent("review").unwrap().about().name
        ),
        (1, "claude")
    );
    // A script under another name is still a script. The caller may choose one, the project may
    // not.
    let config = load(&[
        own("agent = \"mock\""),
        project("agent = \"x\"\nagents.x.like = \"scripted\""),
    ]);
    assert_eq!(config.default_agent().unwrap().value.text(), "mock");
    // An agent that is ignored is not chosen either.
    let config = load(&[project(
        "agent = \"mine\"\n[agents.mine]\nacp = [\"x\"]\nmodel = \"m\"\n",
    )]);
    assert!(config.default_agent().is_none() && config.ignored().len() == 2);
}

#[test]
fn all_errors_are_reported_with_file_line_and_key() {
    let known = "did you mean";
    let text = "agnet = \"claude\"\n[agents.claude]\ncomand = \"x\"\nargs = \"--x\"\nmodel = 3\n[agents.claude.set]\neffrt = \"high\"\n\
                effort = \"huge\"\nbare = \"yes\"\nresume = \"x\"\nmodel = \"y\"\n[limit]\n[limits]\ntimeout = \"1d\"\nwall = 3\n";
    let want = [
        format!("own:1: agnet: unknown key; {known} agent or agents?"),
        format!("own:3: agents.claude.comand: unknown key; {known} command?"),
        "own:4: agents.claude.args: expected a list of strings, such as [\"--flag\"], found a string".into(),
        "own:5: agents.claude.model: expected a string, found a number".into(),
        format!("own:7: agents.claude.set.effrt: unknown setting; {known} effort?"),
        "own:8: agents.claude.set.effort: expected one of: low, medium, high, xhigh, max".into(),
        "own:9: agents.claude.set.bare: expected true or false".into(),
        "own:10: agents.claude.set.resume: this setting belongs to one run; use --resume".into(),
        "own:11: agents.claude.set.model: write it as model = … beside set".into(),
        format!("own:12: limit: unknown key; {known} limits?"),
        "own:14: limits.timeout: expected a time such as 500ms, 90s, 10m, 2h, or none".into(),
    ];
    let got = errors(text);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got, want);
    }
    assert!(
        got.len() == 12 && got[11].starts_with("own:15: limits.wall: unknown key; "),
        "{got:#?}"
    );
}

#[test]
fn errors_one_by_one() {
    for (text, want) in [
        (
            "agent = \"claud\"",
            "own:1: agent: unknown agent \"claud\"; did you mean claude or claude-agent-acp?",
        ),
        (
            "agents = 3",
            "own:1: agents: expected a table, found a number",
        ),
        (
            "agents.\"a b\" = {}",
            "own:1: agents.\"a b\": expected at most 100 letters, digits, dashes and underscores",
        ),
        (
            "agents.claude.models.fast = \"two words\"",
            "own:1: agents.claude.models.fast: expected one word that does not start with a dash",
        ),
        (
            "agents.claude.model = \"--x\"",
            "own:1: agents.claude.model: expected one word that does not start with a dash",
        ),
        (
            "agents.claude.like = \"mock\"",
            "own:1: agents.claude.like: claude is a built-in agent; choose another name",
        ),
        (
            "agents.claude.acp = [\"x\"]",
            "own:1: agents.claude.acp: claude is a built-in agent; choose another name",
        ),
        (
            "agents.a.acp = []",
            "own:1: agents.a.acp: expected a program and its arguments, such as [\"my-agent\", \"--acp\"]",
        ),
        (
            "agents.claude.env.OSTLER_X = \"1\"",
            "own:1: agents.claude.env.OSTLER_X: names that start with OSTLER_ are reserved",
        ),
        (
            "agents.claude.env.A = 1",
            "own:1: agents.claude.env.A: expected a string, found a number",
        ),
        (
            "agents.claude.env.A = \"${\"",
            "own:1: agents.claude.env.A: ${ has no }; write $${ for a literal ${",
        ),
        (
            "agents.openai-api.args = [\"x\"]",
            "own:1: agents.openai-api.args: openai-api is not an external program and takes no arguments",
        ),
        (
            "agents.openai-api.command = \"x\"",
            "own:1: agents.openai-api.command: openai-api is not an external program",
        ),
        (
            "limits.max_turns = 0",
            "own:1: limits.max_turns: expected a whole number of at least 1",
        ),
        (
            "limits.max_budget_usd = -1",
            "own:1: limits.max_budget_usd: expected a number greater than 0",
        ),
        (
            "limits.grace = \"none\"",
            "own:1: limits.grace: expected a time such as 5s",
        ),
        (
            "agents.claude.set.header = {}",
            "own:1: agents.claude.set.header: expected a string, a number, true, false or a list of strings, found a table",
        ),
    ] {
        assert_eq!(errors(text), [want], "{text}");
    }
    let got = errors("agents.codx.model = \"x\"");
    assert!(
        got[0].contains("unknown agent \"codx\"; ") && got[0].ends_with("or like = \"agent\")"),
        "{got:?}"
    );
    let got = errors("agents.a.like = \"b\"\nagents.b.like = \"mock\"");
    assert_eq!(
        got,
        ["own:1: agents.a.like: b is itself an alternative name; use the name of its agent"]
    );
    let got = errors("agent = \n[x\n");
    assert!(got[0].starts_with("own:1: "), "{got:?}");
    // An invalid value is not repeated: it may be a secret.
    assert!(!errors("agents.openai-api.set.header = [\"hunter2\"]")[0].contains("hunter2"));
}

#[test]
fn program_paths_are_relative_to_the_file() {
    for (command, want) in [
        ("claude", "claude"),
        ("./bin/x", "/project/bin/x"),
        ("bin/x", "/project/bin/x"),
        ("../x", "/project/../x"),
        ("/opt/x", "/opt/x"),
        ("~/x", "/home/me/x"),
    ] {
        let config = load(&[own(&format!("agents.claude.command = {command:?}"))]);
        assert_eq!(held(&config, None, "agents.claude.command").0, want);
    }
}

/// Errors stay readable, whatever the size of the input.
#[test]
fn absurd_files_get_a_short_answer_quickly() {
    let long = "x".repeat(500_000);
    let many = |line: &dyn Fn(usize) -> String| (0..30_000).map(line).collect::<String>();
    for (text, want) in [
        (format!("agent = \"{long}\""), "1: agent: unknown agent"),
        (format!("{long} = 1"), "1: xxx"),
        (format!("[agents.{long}]"), "1: agents.xxx"),
        (format!("[limits]\n{long} = 1"), "2: limits.xxx"),
        (
            format!("[agents.claude.set]\n{long} = \"1\""),
            "2: agents.claude.set.xxx",
        ),
        (
            format!("[agents.claude.set]\neffort = \"{long}\""),
            "2: agents.claude.set.effort",
        ),
        (
            format!("[agents.claude.env]\n{long} = \"1\""),
            "2: agents.claude.env.xxx",
        ),
        (
            format!("[agents.claude]\nlike = \"{long}\""),
            "2: agents.claude.like",
        ),
        (format!("{long} {long}"), "1: "),
        (many(&|n| format!("k{n} = 1\n")), "1: k0: unknown key"),
        (
            many(&|n| format!("[agents.a{n}]\n")),
            "1: agents: expected at most 100, found 30000",
        ),
        (
            format!(
                "[agents.claude.set]\n{}",
                many(&|n| format!("k{n} = \"1\"\n"))
            ),
            "2: agents.claude.set.k0",
        ),
        (" ".repeat(1024 * 1024 + 1), "1: the file is larger"),
    ] {
        let error = Config::load(&[own(&text)], &Agents::builtin())
            .map(|_| ())
            .unwrap_err();
        let (message, start) = (error.to_string(), &text[..text.len().min(40)]);
        assert!(
            message.starts_with(&format!("own:{want}")),
            "{start}: {}",
            &message[..message.len().min(300)]
        );
        assert!(message.len() < 20_000, "{start}: {}", message.len());
        assert!(
            message.lines().count() <= MAX_LISTED + 1
                && error
                    .0
                    .iter()
                    .all(|problem| !problem.message.contains('\n'))
        );
    }
    let error = Config::load(
        &[own(&many(&|n| format!("k{n} = 1\n")))],
        &Agents::builtin(),
    )
    .map(|_| ())
    .unwrap_err();
    assert!(error.to_string().ends_with("\nand 29980 more"));
    assert_eq!(error.0[29_999].line, Some(30_000));
}

/// A long file is well below the limits.
#[test]
fn a_hundred_agents_are_not_too_many() {
    let config = load(&[own(&(0..100)
        .map(|n| format!("[agents.a{n}]\nlike = \"claude\"\n"))
        .collect::<String>())]);
    assert_eq!(config.configured().len(), 100);
}
