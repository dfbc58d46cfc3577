//! Conformance checks: each has a script for the model and verifies the result.

use std::future::Future;
use std::pin::Pin;

use ostler::{Capabilities, Cause, EventKind, keys};
use ostler_standin::{Answer, Offline, Rule, Script};

use super::trial::{Trial, TrialRun};

/// A single check.
pub(super) struct Check {
    /// Name, which is a row of docs/agents/matrix.md.
    pub(super) name: &'static str,
    /// Whether the check applies to an agent.
    pub(super) applies: fn(&Capabilities) -> bool,
    /// Script of the model.
    pub(super) script: fn(&Offline) -> Script,
    /// Runs the agent and verifies the result.
    pub(super) run: for<'a> fn(&'a Trial<'_>) -> CheckFuture<'a>,
}

/// Result of a check: all runs of the agent, or the problem.
pub(super) type CheckFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<TrialRun>, String>> + 'a>>;

const ALWAYS: fn(&Capabilities) -> bool = |_| true;

const ANSWER: &str = "One two three four five six.";

/// All checks, in the order they run.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "text",
        applies: ALWAYS,
        script: |_| Script::always(ANSWER),
        run: |trial| Box::pin(text(trial)),
    },
    Check {
        name: "deltas",
        applies: |able| able.stream_text,
        script: |_| Script::new().rule(Rule::any().answer(Answer::text(ANSWER).deltas(4))),
        run: |trial| Box::pin(deltas(trial)),
    },
    Check {
        name: "unicode",
        applies: ALWAYS,
        script: |_| Script::always("zurück: \u{1f40e} \u{4e2d}\u{6587}"),
        run: |trial| Box::pin(unicode(trial)),
    },
    Check {
        name: "cwd",
        applies: ALWAYS,
        script: |offline| tool(offline, "touch made"),
        run: |trial| Box::pin(made(trial)),
    },
    Check {
        name: "tool",
        // Agents that report only at the end just count their calls; "cwd" checks that tools run.
        applies: |able| able.tells_tools,
        script: |offline| tool(offline, "touch made"),
        run: |trial| Box::pin(called(trial)),
    },
    Check {
        name: "usage",
        applies: ALWAYS,
        script: |_| Script::always(ANSWER),
        run: |trial| Box::pin(usage(trial)),
    },
    Check {
        name: "auth error",
        applies: ALWAYS,
        script: |_| {
            Script::new().rule(Rule::any().answer(Answer::error(
                401,
                "authentication_error",
                "invalid api key",
            )))
        },
        run: |trial| Box::pin(unauthorized(trial)),
    },
    Check {
        name: "interrupt",
        applies: |able| able.interrupt,
        script: |_| {
            Script::new().rule(Rule::any().answer(Answer::text(ANSWER).deltas(6).hang_after(3)))
        },
        run: |trial| Box::pin(interrupt(trial)),
    },
    Check {
        name: "resume",
        applies: |able| able.resume,
        script: |_| Script::always(ANSWER),
        run: |trial| Box::pin(resume(trial)),
    },
];

fn tool(offline: &Offline, line: &str) -> Script {
    let (name, input) = (offline.shell)(line);
    Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(
            Rule::on_text("PROMPT")
                .with_tools()
                .answer(Answer::tool(name, input)),
        )
        .rule(Rule::any().text("Done."))
}

fn expect(right: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(wrong()) }
}

async fn text(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    let answer = &run.ended_with(Cause::Completed)?.text;
    expect(answer.trim() == ANSWER, || {
        format!("the answer is {answer:?}")
    })?;
    let asked = trial
        .server
        .requests()
        .iter()
        .any(|request| request.last_user_text().contains("PROMPT"));
    expect(asked, || "the prompt never reached the model".to_owned())?;
    Ok(vec![run])
}

async fn deltas(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    let answer = &run.ended_with(Cause::Completed)?.text;
    expect(answer.trim() == ANSWER, || {
        format!("the answer is {answer:?}")
    })?;
    expect(run.pieces() > 1, || {
        format!("the answer came in {} pieces", run.pieces())
    })?;
    Ok(vec![run])
}

async fn unicode(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    const PROMPT: &str = "PROMPT \u{1f40e} \u{4e2d}\u{6587} \u{e9}\u{301} \"'\\ $HOME";
    let run = trial.run(trial.spec(PROMPT)).await?;
    let answer = &run.ended_with(Cause::Completed)?.text;
    expect(
        answer.trim() == "zurück: \u{1f40e} \u{4e2d}\u{6587}",
        || format!("the answer is {answer:?}"),
    )?;
    let asked = trial
        .server
        .requests()
        .iter()
        .any(|request| request.last_user_text().contains(PROMPT));
    expect(asked, || "the prompt reached the model changed".to_owned())?;
    Ok(vec![run])
}

async fn made(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    run.ended_with(Cause::Completed)?;
    expect(trial.work().join("made").is_file(), || {
        let results: Vec<_> = run.results().iter().map(|result| &result.output).collect();
        format!("the command did not run in the working directory; tool results: {results:?}")
    })?;
    Ok(vec![run])
}

async fn called(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    run.ended_with(Cause::Completed)?;
    match run.results()[..] {
        [result] if result.ok => {}
        [result] => return Err(format!("the tool failed: {}", result.output)),
        ref results => return Err(format!("one tool call returned {} results", results.len())),
    }
    Ok(vec![run])
}

async fn usage(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    run.ended_with(Cause::Completed)?;
    let served = trial.server.served();
    let right: u64 = served.iter().map(|of| of.output).sum();
    let thought: u64 = served.iter().map(|of| of.reasoning).sum();
    match run.output_tokens() {
        // Some agents leave out reasoning tokens.
        Some(found) if found == right || found + thought == right => Ok(vec![run]),
        Some(found) => Err(format!(
            "the agent reported {found} output tokens, the model counted {right}"
        )),
        None => Err("the agent reported no usage".to_owned()),
    }
}

async fn unauthorized(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let run = trial.run(trial.spec("PROMPT")).await?;
    run.ended_with(Cause::Auth)?;
    expect(!trial.server.requests().is_empty(), || {
        "the scripted model received no request".to_owned()
    })?;
    Ok(vec![run])
}

async fn interrupt(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let mut asked = false;
    let meanwhile = |event: &ostler::Event, session: &ostler::Session| {
        if matches!(event.kind, EventKind::Text(_)) && !asked {
            asked = true;
            drop(session.interrupt());
        }
    };
    let run = trial.follow(trial.spec("PROMPT"), meanwhile).await?;
    run.ended_with(Cause::Interrupted)?;
    Ok(vec![run])
}

async fn resume(trial: &Trial<'_>) -> Result<Vec<TrialRun>, String> {
    let first = trial.run(trial.spec("PROMPT the first")).await?;
    first.ended_with(Cause::Completed)?;
    let native = first.native().ok_or("the agent reported no session id")?;
    let mut spec = trial.spec("PROMPT the second");
    spec.settings.set(keys::RESUME, native);
    let second = trial.run(spec).await?;
    second.ended_with(Cause::Completed)?;
    let calls = trial.server.requests();
    let last = calls
        .iter()
        .rfind(|call| call.last_user_text().contains("the second"));
    let last = last.ok_or("the second prompt never reached the model")?;
    expect(last.body.to_string().contains("the first"), || {
        "the resumed session does not contain the first prompt".to_owned()
    })?;
    Ok(vec![first, second])
}
