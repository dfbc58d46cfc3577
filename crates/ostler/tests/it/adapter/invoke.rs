//! Invoking an agent as a model: its arguments, its prompt, its reply, and every way it can fail to
//! reply.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ostler::adapter::{AgentModel, Message, ModelAdapter, ModelOptions, Stop, Update, Updates};
use ostler::event::RawJson;
use ostler::{Agents, Cause};
use ostler_testkit::processes::{alive, wait_until};

use super::{Part, Stage, ask, ask_listening, hello};
use crate::rig::{LONG, host, until};

// S0-5…S0-8, S0-25: arguments are an array, no shell and no `ps` sees the prompt, and the agent has
// no tools.
#[tokio::test]
async fn arguments_hide_the_prompt_and_disable_tools() {
    let stage = Stage::answering(Part::Claude, "42");
    ask(
        &stage.model(),
        &[Message::user("$(touch ran); `touch ran` \"'")],
    )
    .await
    .unwrap();
    let args = stage.args();
    assert!(
        args.contains(&"-p".to_owned()) && args.contains(&"--tools=".to_owned()),
        "{args:?}"
    );
    let forbidden = ["--no-input", "--model", "touch"];
    assert!(
        !args
            .iter()
            .any(|arg| forbidden.iter().any(|part| arg.contains(part))),
        "{args:?}"
    );
    assert_eq!(stage.prompt(), "[User]\n$(touch ran); `touch ran` \"'");
    assert!(!stage.rig.path("ran").exists());
    stage.assert_nothing_left();
}

// S0-5: an agent without such a flag is started without its shell tool, read-only, and asking
// before it acts.
#[tokio::test]
async fn agent_that_cannot_disable_tools_is_restricted() {
    let stage = Stage::answering(Part::Codex, "42");
    ask(&stage.model(), &hello()).await.unwrap();
    let args = stage.args();
    assert_eq!(args[0], "app-server");
    assert!(
        args.contains(&"--config=features.shell_tool=false".to_owned()),
        "{args:?}"
    );
    let stdin = stage.rig.text("stdin");
    for part in [
        r#""sandbox":"read-only""#,
        r#""approvalPolicy":"untrusted""#,
        r#""ephemeral":true"#,
    ] {
        assert!(stdin.contains(part), "{part}: {stdin}");
    }
}

// S0-8: `arguments_hide_the_prompt_and_disable_tools` covers the case without a model.
#[tokio::test]
async fn model_is_passed_only_if_configured() {
    for part in Part::BOTH {
        let mut stage = Stage::answering(part, "42");
        stage.options.model = Some("small".into());
        let model = stage.model();
        assert_eq!(model.name(), format!("{}-cli:small", part.name()));
        ask(&model, &hello()).await.unwrap();
        match part {
            Part::Claude => assert!(
                stage.args().contains(&"--model=small".to_owned()),
                "{:?}",
                stage.args()
            ),
            Part::Codex => assert!(stage.rig.text("stdin").contains(r#""model":"small""#)),
        }
    }
}

// S0-9: the default is the usual name on PATH. Every other test here names a program.
#[tokio::test]
async fn the_program_on_path_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let verbs = "read-user\ninit\ntext found\nresult found\nread-until-eof\nexit 0";
    let _path = ostler_testkit::fake::install_as(dir.path(), "claude", verbs);
    let path = dir.path().to_str().unwrap();
    let model = AgentModel::new(
        Agents::builtin().get("claude").unwrap(),
        host(&[("PATH", path)]),
        ModelOptions::default(),
    );
    assert_eq!(ask(&model, &hello()).await.unwrap().content, "found");
}

// S0-13
#[tokio::test]
async fn a_missing_program_is_named() {
    for part in Part::BOTH {
        let mut stage = Stage::answering(part, "42");
        stage.options.program = Some(format!("/nowhere/{}", part.name()).into());
        let began = Instant::now();
        let error = ask(&stage.model(), &hello()).await.unwrap_err();
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        assert_eq!(error.cause(), Cause::Unavailable, "{error:?}");
        assert!(
            error
                .to_string()
                .contains(&format!("/nowhere/{}", part.name())),
            "{error}"
        );
        assert!(error.outcome.hint.is_some(), "{error:?}");
    }
}

// S0-13
#[tokio::test]
async fn a_program_that_fails_says_why() {
    let verbs = [
        ("stderr out of luck\nexit 3\n", Cause::AgentDied),
        (
            "result-error success the provider's words\n",
            Cause::ServerError,
        ),
    ];
    for (verbs, cause) in verbs {
        let stage = Stage::new(Part::Claude, verbs);
        let error = ask(&stage.model(), &hello()).await.unwrap_err();
        assert_eq!(error.cause(), cause, "{error:?}");
        let said = format!("{error} {:?}", error.outcome.detail);
        assert!(
            said.contains("out of luck") || said.contains("the provider's words"),
            "{said}"
        );
        stage.assert_nothing_left();
    }
}

#[tokio::test]
async fn nothing_to_answer_is_a_wrong_question() {
    let stage = Stage::answering(Part::Claude, "42");
    assert_eq!(
        ask(&stage.model(), &[]).await.unwrap_err().cause(),
        Cause::BadRequest
    );
}

// S0-14, S0-15: as the agent sees it.
#[tokio::test]
async fn every_message_has_its_label() {
    for part in Part::BOTH {
        let stage = Stage::answering(part, "42");
        let parts = RawJson::parse(r#"[{"type":"text","text":"17 + 25?"}]"#).unwrap();
        let messages = [
            Message::system("Be brief."),
            Message::user(parts),
            Message::assistant("I count."),
            Message::tool("c1", "42"),
            Message::Other {
                name: "developer".into(),
                content: "psst".into(),
            },
        ];
        ask(&stage.model(), &messages).await.unwrap();
        let wanted = "[System]\nBe brief.\n\n[User]\n[{\"type\":\"text\",\"text\":\"17 + 25?\"}]\n\n[Assistant]\nI count.\n\n\
                      [Tool Result (c1)]\n42\n\n[developer]\npsst";
        assert_eq!(stage.prompt(), wanted);
    }
}

// S0-12
#[tokio::test]
async fn reply_is_trimmed_and_has_usage() {
    for part in Part::BOTH {
        let stage = Stage::answering(part, "\n  It is 42.  \n");
        let reply = ask(&stage.model(), &hello()).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.stop, reply.tool_calls.len()),
            ("It is 42.", Stop::End, 0)
        );
        let [usage] = &reply.usage[..] else {
            panic!("not one model: {reply:?}")
        };
        let tokens = [
            usage.input,
            usage.cache_write,
            usage.cache_read,
            usage.output,
        ];
        assert_eq!(tokens, [Some(100), Some(7), Some(11), Some(25)], "{part:?}");
        assert_eq!(
            usage.cost_usd,
            (part == Part::Claude).then_some(0.000_937_2)
        );
        stage.assert_nothing_left();
    }
}

// S0-10
#[tokio::test]
async fn reply_times_out() {
    for part in Part::BOTH {
        let mut stage = Stage::new(part, "ignore-sigterm\nhang\n");
        stage.options.timeout = Duration::from_millis(700);
        let began = Instant::now();
        let error = ask(&stage.model(), &hello()).await.unwrap_err();
        assert_eq!(error.cause(), Cause::WallLimit, "{error:?}");
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        assert!(error.outcome.hint.is_some(), "{error:?}");
        stage.assert_nothing_left();
    }
    assert_eq!(ModelOptions::default().timeout, Duration::from_secs(120));
}

/// 12 MB of text, in messages of this length.
fn twelve_megabytes(part: Part, length: usize) -> Stage {
    let stage = Stage::new(part, "file $DIR/much\nhang\n");
    let text = "x".repeat(length);
    let verbs = part.text(&text);
    let line = match part {
        Part::Claude => {
            serde_json::json!({"type": "assistant", "message": {"id": "m1", "type": "message", "role": "assistant",
            "model": "m", "content": [{"type": "text", "text": text}]}})
            .to_string()
        }
        Part::Codex => verbs.trim_start_matches("print ").trim_end().to_owned(),
    };
    std::fs::write(
        stage.rig.path("much"),
        format!("{line}\n").repeat(12_000_000 / length),
    )
    .unwrap();
    stage
}

// S0-11: at once or in pieces, it is an error and not a truncated reply.
#[tokio::test]
async fn output_over_the_limit_is_an_error() {
    for (part, length) in [
        (Part::Claude, 12_000_000),
        (Part::Claude, 50_000),
        (Part::Codex, 12_000_000),
    ] {
        let stage = twelve_megabytes(part, length);
        let error = ask(&stage.model(), &hello()).await.unwrap_err();
        assert_eq!(
            error.cause(),
            Cause::OutputLimit,
            "{part:?} {length}: {error:?}"
        );
        assert!(error.to_string().contains("10485760"), "{error}");
        stage.assert_nothing_left();
    }
}

// S0-11
#[tokio::test]
async fn the_limit_on_output_can_be_set() {
    for (most, fits) in [(5, true), (4, false)] {
        let mut stage = Stage::answering(Part::Claude, "12345");
        stage.options.max_output = most;
        let reply = ask(&stage.model(), &hello()).await;
        assert_eq!(
            reply.as_ref().is_ok_and(|reply| reply.content == "12345"),
            fits,
            "{reply:?}"
        );
        assert!(fits || reply.unwrap_err().cause() == Cause::OutputLimit);
    }
}

// S0-5: if an agent uses a tool anyway, its reply is rejected.
#[tokio::test]
async fn built_in_tool_use_is_a_breach() {
    for (part, tool) in [(Part::Claude, "Bash"), (Part::Codex, "exec_command")] {
        let stage = Stage::new(
            part,
            &format!("{}sleep 100\n{}", part.own_tool(), part.answers("done")),
        );
        let error = ask(&stage.model(), &hello()).await.unwrap_err();
        assert_eq!(error.cause(), Cause::Protocol, "{error:?}");
        let native = error
            .outcome
            .detail
            .as_ref()
            .and_then(|detail| detail.native.as_deref());
        assert_eq!(native, Some("own_tool"));
        assert!(
            error.to_string().contains(tool) && error.to_string().contains(part.name()),
            "{error}"
        );
        stage.assert_nothing_left();
    }
}

#[tokio::test]
async fn dropped_call_ends_the_agent() {
    for part in Part::BOTH {
        let stage = Stage::new(part, "hang\n");
        let model = stage.model();
        let asked = tokio::spawn(async move { model.invoke(&hello()).await });
        until("it was asked", || stage.rig.path("stdin").exists()).await;
        let pid = stage.rig.pid("pid");
        assert!(alive(pid));
        asked.abort();
        let gone = tokio::task::spawn_blocking(move || wait_until(LONG, || !alive(pid)));
        assert!(gone.await.unwrap());
        until("its directory is gone", || {
            !std::path::Path::new(&stage.rig.text("cwd")).exists()
        })
        .await;
    }
}

// The first word arrives while the agent is still working, and the streamed text is the reply.
#[tokio::test]
async fn text_is_streamed() {
    let body = "delta It \nloop 1000\nsleep 10\nend\n";
    let stage = Stage::new(Part::Claude, body);
    let streamed = Arc::new(Mutex::new(String::new()));
    let keep = streamed.clone();
    let updates = Updates::to(move |update| {
        if let Update::Text(text) = update {
            keep.lock().unwrap().push_str(text);
        }
    });
    let model = stage.model();
    let asked = tokio::spawn(async move { model.invoke_with_updates(&hello(), updates).await });
    until("text is streamed", || !streamed.lock().unwrap().is_empty()).await;
    assert!(!asked.is_finished());
    asked.abort();
    let stage = Stage::new(
        Part::Claude,
        "delta It \ndelta is 42.\ntext It is 42.\nresult It is 42.\n",
    );
    let (reply, streamed) = ask_listening(&stage.model(), &hello()).await;
    assert_eq!(
        (reply.content.as_str(), streamed.concat().as_str()),
        ("It is 42.", "It is 42.")
    );
}

/// Two concurrent calls of one model each get their reply.
#[tokio::test]
async fn concurrent_calls_do_not_interfere() {
    let stage = Stage::answering(Part::Claude, "42");
    let model: Arc<dyn ModelAdapter> = Arc::new(stage.model());
    let questions = hello();
    let (first, second) = tokio::join!(ask(&*model, &questions), ask(&*model, &questions));
    assert_eq!(
        (first.unwrap().content, second.unwrap().content),
        ("42".to_owned(), "42".to_owned())
    );
}
