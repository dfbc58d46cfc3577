//! `ostler loop`: runs any model with Ostler's tools until the task is done or a limit stops it.

mod resume;
mod model;
mod named_model;
mod shell_words;

use std::sync::Arc;

use ostler::agent_loop::CommandCheck;
use ostler::{Agent, Attendance, Denials, Host, Loop, Session, Settings, keys};

use self::shell_words::{resume_command, split};
use crate::args::{LoopArgs, LoopLimits, LoopMode, Time, ToolSet};
use crate::ask::{self, Prompter, QuestionReceiver};
use crate::exit::Code;
use crate::fault::Fault;
use crate::follow::follow;
use crate::output::{self, Dialects, ResumeCommand, Stored, View};
use crate::signals::Signals;
use crate::spec::{self, ChosenAgent, LOOP, LaunchContext};
use crate::store::{self, SessionStorage};
use crate::{config, files, prompt, trust_review};

/// Runs one task.
pub(crate) async fn run(args: LoopArgs) -> Result<Code, Fault> {
    let format = args.task.format();
    let StartedRun {
        session,
        signals,
        attendance,
        questions,
        resume,
        view,
    } = output::reporting(format, begin(args).await)?;
    let prompter = Prompter::new(session.remote(), attendance).with_model_questions(questions);
    follow(
        (session, prompter),
        output::open_loop(format, resume, view),
        signals,
    )
    .await
}

/// A loop that has started.
struct StartedRun {
    session: Session,
    signals: Signals,
    attendance: Attendance,
    /// Questions of the model.
    questions: QuestionReceiver,
    resume: Option<ResumeCommand>,
    view: View,
}

/// Validates the arguments and starts the loop.
async fn begin(mut args: LoopArgs) -> Result<StartedRun, Fault> {
    let dir = spec::directory(args.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "loop")?;
    let format = args.task.format();
    let attendance = ask::attendance_for(format);
    let project = trust_review::open((args.config, &args.policy), &dir, attendance)?;
    let config = config::load(args.config, &project)?;
    let mut start = args.start(LOOP);
    let SessionStorage { host, store } = store::prepare_storage(&mut start, &dir, &config)?;
    let mut host = trust_review::attach(host, &project, &config)?;
    if let Some(until) = &args.until {
        host = host.allowing(split(until)?);
    }
    let previous = resume::find_previous(
        start.agent_settings.resume.as_deref(),
        store.as_deref(),
        args.fork,
    )?;
    args.mode = args
        .mode
        .or(previous.is_approving.then_some(LoopMode::Approve));
    let context = model::ModelContext {
        config: &config,
        host: &host,
        args: &args,
        previous_model: previous.model,
    };
    let model = model::choose(&context).await?;
    let (agent, questions) = configure(
        Loop::around(model),
        &args,
        &(host.clone(), dir.clone(), attendance),
    )?;
    let streaming = format.is_streaming();
    let view = View {
        args: args.task.view,
        dir: Some(dir.clone()),
        dialects: Dialects::only(agent.dialect()),
        stored: Stored::Yes,
    };
    let context = LaunchContext {
        prompt: task,
        dir,
        project,
        streaming,
        attendance,
        has_model: true,
        ..LaunchContext::default()
    };
    let mut requested = spec::build(start, &config, context)?;
    requested.spec.denials = Denials::Tolerate;
    set(&mut requested.spec.settings, &args)?;
    let chosen = ChosenAgent {
        name: LOOP.to_owned(),
        agent: Arc::new(agent),
    };
    let spec = requested.resolve(&config, &chosen)?;
    let signals = Signals::listen()?;
    let session = chosen
        .agent
        .start(&host, spec)
        .map_err(|error| spec::spec_fault(&error, &*chosen.agent, "loop"))?;
    // A session that is not stored cannot be resumed.
    let resume = store.map(|_| ResumeCommand(resume_command(&args)));
    Ok(StartedRun {
        session,
        signals,
        attendance,
        questions,
        resume,
        view,
    })
}

/// Configures the loop: its tools, its check, and whether the model may ask questions.
fn configure(
    agent: Loop,
    args: &LoopArgs,
    environment: &(Host, std::path::PathBuf, Attendance),
) -> Result<(Loop, QuestionReceiver), Fault> {
    let (host, dir, attendance) = environment;
    let mut agent = if args.tools == ToolSet::None {
        agent.bare()
    } else {
        agent
    };
    if let Some(until) = &args.until {
        let check = CommandCheck::new(host, split(until)?, dir.clone());
        check
            .check_program()
            .map_err(|why| Fault::usage(format!("--until {until}: {why}")))?;
        agent = agent.verify(match args.until_timeout {
            Some(Time(Some(limit))) => check.limit(limit),
            Some(Time(None)) => check.limit(model::UNLIMITED),
            None => check,
        });
    }
    if let Some(Time(Some(longest))) = args.limits.tool_timeout {
        agent = agent.tool_timeout(longest);
    }
    let (ask, questions) = ask::question_channel();
    Ok(match (args.ask, attendance) {
        (true, Attendance::Attended) => (agent.person(ask), questions),
        (true, Attendance::Unattended) => (agent.may_ask(), questions),
        (false, _) => (agent, questions),
    })
}

/// Applies flags that are settings of the loop. `--set` takes precedence.
fn set(settings: &mut Settings, args: &LoopArgs) -> Result<(), Fault> {
    let LoopLimits {
        max_tool_calls,
        max_input_tokens,
        max_output_tokens,
        max_errors,
        context_window,
        ..
    } = args.limits.clone();
    let mode = args.mode.map(|mode| match mode {
        LoopMode::Auto => "auto",
        LoopMode::Plan => "plan",
        LoopMode::Approve => "approve",
    });
    let given = [
        (
            keys::SYSTEM_PROMPT,
            text_or_file(args.instructions.as_deref())?,
        ),
        (
            keys::APPEND_SYSTEM_PROMPT,
            text_or_file(args.append_system_prompt.as_deref())?,
        ),
        ("mode", mode.map(str::to_owned)),
        ("max_tool_calls", max_tool_calls),
        ("max_input_tokens", max_input_tokens),
        ("max_output_tokens", max_output_tokens),
        ("max_errors", max_errors),
        ("context_window", context_window),
    ];
    for (key, value) in given {
        if let Some(value) = value.filter(|_| settings.get(key).is_none()) {
            settings.set(key, value);
        }
    }
    Ok(())
}

/// Returns the text, or the contents of the file after an `@`.
fn text_or_file(given: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(given) = given else { return Ok(None) };
    let Some(file) = given.strip_prefix('@') else {
        return Ok(Some(given.to_owned()));
    };
    let text = files::text(file.as_ref())?;
    text.map(Some).ok_or_else(|| {
        Fault::usage(format!("file not found: {file}"))
            .hint("`@FILE` reads a file; remove the @ to pass the text itself")
    })
}
