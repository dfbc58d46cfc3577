//! Conformance checks: each has a script for the model and verifies the result.

use std::pin::Pin;
use std::rc::Rc;

use ostler::dialect::Capabilities;
use ostler::{Cause, EventKind};
use ostler_agents::Shell;
use ostler_standin::{Answer, Rule, Script};

use super::trial::{CheckFailed, Checked, Trial, TrialRun};

/// A single check.
pub(super) struct Check {
    /// Name, which is a row of docs/agents/matrix.md.
    pub(super) name: &'static str,
    /// Whether the check applies to an agent.
    pub(super) applies: fn(&Capabilities) -> bool,
    /// Script of the model.
    pub(super) script: fn(&Shell) -> Script,
    /// Runs the agent and verifies the result.
    pub(super) run: for<'a> fn(&'a Trial<'_>) -> CheckFuture<'a>,
}

/// Result of a check: nothing, or the problem.
pub(super) type CheckFuture<'a> = Pin<Box<dyn Future<Output = Checked> + 'a>>;

const ALWAYS: fn(&Capabilities) -> bool = |_| true;

const ANSWER: &str = "One two three four five six.";

const UNICODE_ANSWER: &str = "zurück: \u{1f40e} \u{4e2d}\u{6587}";

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
        script: |_| Script::always(UNICODE_ANSWER),
        run: |trial| Box::pin(unicode(trial)),
    },
    Check {
        name: "cwd",
        applies: ALWAYS,
        script: |shell| tool(shell, "touch made"),
        run: |trial| Box::pin(made(trial)),
    },
    Check {
        name: "tool",
        // Agents that report only at the end just count their calls; "cwd" checks that tools run.
        applies: |able| able.tells_tools,
        script: |shell| tool(shell, "touch made"),
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

fn tool(shell: &Shell, line: &str) -> Script {
    let (name, input) = shell.asking_call(line);
    Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(
            Rule::on_text("PROMPT")
                .with_tools()
                .answer(Answer::tool(name, input)),
        )
        .rule(Rule::any().text("Done."))
}

/// Fails the check unless the condition holds.
macro_rules! ensure {
    ($right:expr, $($wrong:tt)+) => {
        if !$right {
            return Err(CheckFailed::Problem(format!($($wrong)+)));
        }
    };
}

/// Runs a prompt, and checks the answer.
async fn answered(trial: &Trial<'_>, prompt: &str, expected: &str) -> Checked<Rc<TrialRun>> {
    let run = trial.completed(prompt).await?;
    let answer = &run.turn()?.text;
    ensure!(answer.trim() == expected, "the answer is {answer:?}");
    Ok(run)
}

async fn text(trial: &Trial<'_>) -> Checked {
    answered(trial, "PROMPT", ANSWER).await?;
    ensure!(
        trial.was_asked("PROMPT"),
        "the prompt never reached the model"
    );
    Ok(())
}

async fn deltas(trial: &Trial<'_>) -> Checked {
    let pieces = answered(trial, "PROMPT", ANSWER).await?.pieces();
    ensure!(pieces > 1, "the answer came in {pieces} pieces");
    Ok(())
}

async fn unicode(trial: &Trial<'_>) -> Checked {
    const PROMPT: &str = "PROMPT \u{1f40e} \u{4e2d}\u{6587} \u{e9}\u{301} \"'\\ $HOME";
    answered(trial, PROMPT, UNICODE_ANSWER).await?;
    ensure!(
        trial.was_asked(PROMPT),
        "the prompt reached the model changed"
    );
    Ok(())
}

async fn made(trial: &Trial<'_>) -> Checked {
    let run = trial.completed("PROMPT").await?;
    let results: Vec<_> = run.results().iter().map(|result| &result.output).collect();
    ensure!(
        trial.work().join("made").is_file(),
        "the command did not run in the working directory; tool results: {results:?}"
    );
    Ok(())
}

async fn called(trial: &Trial<'_>) -> Checked {
    match trial.completed("PROMPT").await?.results()[..] {
        [result] => ensure!(result.ok, "the tool failed: {}", result.output),
        ref results => ensure!(false, "one tool call returned {} results", results.len()),
    }
    Ok(())
}

async fn usage(trial: &Trial<'_>) -> Checked {
    let run = trial.completed("PROMPT").await?;
    let served = trial.server.served();
    let right: u64 = served.iter().map(|of| of.output).sum();
    let thought: u64 = served.iter().map(|of| of.reasoning).sum();
    let Some(found) = run.output_tokens() else {
        return Err(CheckFailed::new("the agent reported no usage"));
    };
    // Some agents leave out reasoning tokens.
    ensure!(
        found == right || found + thought == right,
        "the agent reported {found} output tokens, the model counted {right}"
    );
    Ok(())
}

async fn unauthorized(trial: &Trial<'_>) -> Checked {
    let run = trial.run(trial.spec("PROMPT")).await?;
    run.ended_with(Cause::Auth)?;
    ensure!(
        trial.was_asked(""),
        "the scripted model received no request"
    );
    Ok(())
}

async fn interrupt(trial: &Trial<'_>) -> Checked {
    let mut asked = false;
    let meanwhile = |event: &ostler::Event, session: &ostler::Session| {
        if matches!(event.kind, EventKind::Text(_)) && !asked {
            asked = true;
            drop(session.interrupt());
        }
    };
    let run = trial.follow(trial.spec("PROMPT"), meanwhile).await?;
    run.ended_with(Cause::Interrupted)?;
    Ok(())
}

async fn resume(trial: &Trial<'_>) -> Checked {
    let first = trial.completed("PROMPT the first").await?;
    let native = first
        .native()
        .ok_or_else(|| CheckFailed::new("the agent reported no session id"))?;
    let mut spec = trial.spec("PROMPT the second");
    spec.resume = Some(native.into());
    trial.run(spec).await?.ended_with(Cause::Completed)?;
    let calls = trial.server.requests();
    let last = calls
        .iter()
        .rfind(|call| call.last_user_text().contains("the second"));
    let last = last.ok_or_else(|| CheckFailed::new("the second prompt never reached the model"))?;
    ensure!(
        last.body.to_string().contains("the first"),
        "the resumed session does not contain the first prompt"
    );
    Ok(())
}
