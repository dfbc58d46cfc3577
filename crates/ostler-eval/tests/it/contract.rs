//! The contract of source document 004 through whole trials: what reaches the agent, and what its
//! log records.

use std::fs;
use std::sync::Arc;

use ostler::Host;
use ostler_eval::adapter::AgentAdapter;
use ostler_eval::case::Isolation;
use ostler_eval::embedder::{AgentRequest, Embedder as _};
use ostler_eval::normalized::{LogFormat, NormalizedLogs};
use ostler_eval::trial::Verdict;
use ostler_testkit::fake;
use serde_json::{Value, json};

use crate::rig::{ANSWER, Rig, contender};

/// Quotes, backticks, dollar signs, and whatever else a shell or JSON could take apart.
const AWKWARD: &str = "Say \"hi\" & 'bye' `whoami` $(id) $HOME ${PATH} \\ %s; rm -rf * | cat > x\n\
                       --help\t<é> \u{1f980} !!";

// S4-9, S4-11, S4-12, S4-16, S4-18, S4-38 (CR-2.4, CR-2.6, CR-2.7, CR-2.11, CR-2.13)
#[tokio::test]
async fn prompt_model_agent_name_and_variables_reach_the_agent() {
    let rig = Rig::new();
    let (args, env, stdin) = (rig.path("args"), rig.path("env"), rig.path("stdin"));
    let script = format!(
        "read-user\ninit\ndump-args {}\ndump-env {}\ndump-stdin {}\ntext done\nresult done\n",
        args.display(),
        env.display(),
        stdin.display()
    );
    let mut agent = rig.agent("true", &script);
    let key = ("ANTHROPIC_API_KEY".to_owned(), "sk-\"$x\" y".to_owned());
    agent.env.extend([key.clone()]);
    let mut case = rig.case(Vec::new());
    case.prompt = AWKWARD.to_owned();
    let contender = case.agent.as_mut().unwrap();
    contender.model = Some("claude-sonnet-4-5-20250929".to_owned());
    let name = json!("code-reviewer");
    contender.settings.insert("agent".to_owned(), name);
    let mut services = rig.services(Arc::new(agent));
    services.options.isolation = Some(Isolation::Directory);
    let result = rig.trial_with(&services, case).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    let args: Vec<String> = serde_json::from_slice(&fs::read(args).unwrap()).unwrap();
    for wanted in [
        "--model=claude-sonnet-4-5-20250929",
        "--agent=code-reviewer",
    ] {
        assert!(args.iter().any(|arg| arg == wanted), "{args:?}");
    }
    let env = fs::read(env).unwrap();
    let variable = format!("{}={}", key.0, key.1).into_bytes();
    assert!(env.split(|byte| *byte == 0).any(|found| found == variable));
    let stdin = fs::read_to_string(stdin).unwrap();
    let messages = stdin.lines().map(serde_json::from_str::<Value>);
    let prompts = messages.map(|message| message.unwrap()["message"]["content"].clone());
    assert!(
        prompts
            .into_iter()
            .any(|content| content == AWKWARD || content[0]["text"] == AWKWARD),
        "{stdin}"
    );
}

// S4-29 (CR-3.11)
#[tokio::test]
async fn a_truncated_output_is_recorded_in_the_log_with_its_limit() {
    let rig = Rig::new();
    let agent = rig.agent("true", "read\ninit\nflood 15000000 100000\nresult ok\n");
    let mut services = rig.services(Arc::new(agent));
    services.projections = vec![Arc::new(NormalizedLogs(LogFormat::Contract))];
    let result = rig.trial_with(&services, rig.case(Vec::new())).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    let text = fs::read_to_string(rig.path("artifacts/youbencha.log.json")).unwrap();
    let log: Value = serde_json::from_str(&text).unwrap();
    let errors = log["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["code"], "output_truncated");
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.contains("truncated at 10 MB"), "{message}");
}

// S4-1, S4-2, S4-5 (CR-1.1, CR-1.2, CR-1.5): neither a shell nor `which` is needed to find it.
#[tokio::test]
async fn an_agent_is_found_in_a_path_without_any_other_program() {
    let rig = Rig::new();
    let agent = rig.agent("", ANSWER);
    let request = AgentRequest {
        contender: contender("one"),
        prompt: "Do it.".to_owned(),
        dir: rig.path("repo"),
        limits: Default::default(),
    };
    for is_installed in [false, true] {
        if is_installed {
            let _ = fake::install_as(&rig.path("bin"), "claude", ANSWER);
        }
        let mut prepared = agent.prepare(&request).await.unwrap();
        prepared.spec.program = None;
        let vars = [("PATH", rig.path("bin")), ("HOME", rig.path("home"))];
        let adapter = AgentAdapter {
            agent: prepared.agent,
            host: Host::new(vars.map(|(name, path)| (name.into(), path.into()))),
            spec: prepared.spec.dir(rig.path("repo")),
        };
        let found = adapter.check_availability().await.unwrap();
        assert_eq!(found.available, is_installed, "{found:?}");
    }
}
