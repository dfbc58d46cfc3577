//! `ostler loop`: runs any model with Ostler's tools until the task is done or a limit stops it.

mod resume;
mod model;
mod shell_words;

use std::sync::Arc;

use ostler::agent_loop::CommandCheck;
use ostler::spec::{Attendance, Denials, Settings, keys};
use ostler::{Agent, Loop};

use self::shell_words::{choice_name, resume_command};
use crate::args::{LoopArgs, LoopMode, Time, ToolSet};
use crate::ask::{self, Prompter, QuestionReceiver};
use crate::commands::split;
use crate::exit::Code;
use crate::fault::Result;
use crate::follow::{StartedRun, follow};
use crate::output::{Dialects, LoopProgress, View};
use crate::signals::Signals;
use crate::spec::{self, ChosenAgent, LOOP, LaunchContext};
use crate::store::{self, OpenedProject};
use crate::{config, environment, files, prompt};

/// Runs one task.
pub(crate) async fn run(args: LoopArgs) -> Result<Code> {
    let format = args.task.format();
    follow(format, begin(args).await).await
}

/// Validates the arguments and starts the loop.
async fn begin(mut args: LoopArgs) -> Result<StartedRun> {
    let dir = config::directory(args.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "loop")?;
    let format = args.task.format();
    let attendance = ask::attendance_for(format);
    let mut start = args.start(LOOP);
    let OpenedProject {
        project,
        config,
        mut host,
        store,
    } = store::open_project(&mut start, &dir, attendance)?;
    let until = args.until.as_deref().map(|until| split("--until", until));
    let until = until.transpose()?;
    if let Some(words) = &until {
        host = host.allowing(words.clone());
    }
    let previous = resume::find_previous(
        start.agent_settings.resume.as_deref(),
        store.as_deref(),
        args.fork,
    )?;
    let mut resume = resume_command(environment::args()).filter(|_| store.is_some());
    if args.mode.is_none() && !previous.pending_calls.is_empty() {
        args.mode = Some(LoopMode::Approve);
        resume = resume.map(|line| format!("{line} --mode approve"));
    }
    let context = model::ModelContext {
        config: &config,
        host: &host,
        args: &args,
        previous_model: previous.model,
    };
    let model = model::choose(&context).await?;
    let check = until.map(|words| CommandCheck::new(&host, words, dir.clone()));
    let (agent, questions) = configure(Loop::around(model), &args, check, attendance)?;
    let streaming = format.is_streaming();
    let view = View {
        args: args.task.view,
        dir: Some(dir.clone()),
        dialects: Dialects::only(agent.dialect()),
        is_live: true,
        is_stored: true,
        // A session that is not stored cannot be resumed.
        loop_progress: Some(LoopProgress::new(resume)),
        ..View::default()
    };
    let context = LaunchContext {
        prompt: task,
        dir,
        project,
        streaming,
        attendance,
        has_model: true,
        verb: "loop",
        ..LaunchContext::default()
    };
    let mut requested = spec::build(start, &config, context)?;
    requested.spec.denials = Denials::Tolerate;
    if resume::is_approval(&requested.spec.prompt) && !previous.pending_calls.is_empty() {
        requested.spec.approved_calls = previous.pending_calls;
        requested.spec.prompt.clear();
    }
    set(&mut requested.settings, &args)?;
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
    let prompter = Prompter::new(session.remote(), attendance);
    let prompter = prompter.with_model_questions(questions);
    Ok(StartedRun::local(session, prompter, signals, view))
}

/// Configures the tools, the check, and whether the model may ask questions.
fn configure(
    mut agent: Loop,
    args: &LoopArgs,
    check: Option<CommandCheck>,
    attendance: Attendance,
) -> Result<(Loop, QuestionReceiver)> {
    if args.tools == ToolSet::None {
        agent = agent.bare();
    }
    if let (Some(check), Some(until)) = (check, &args.until) {
        check
            .check_program()
            .map_err(|why| usage!("--until {until}: {why}"))?;
        agent = agent.verify(match args.until_timeout {
            Some(Time(limit)) => check.limit(limit.unwrap_or(model::UNLIMITED)),
            None => check,
        });
    }
    if let Some(Time(Some(longest))) = args.limits.tool_timeout {
        agent = agent.tool_timeout(longest);
    }
    let (ask, questions) = ask::question_channel();
    let agent = match (args.ask, attendance) {
        (true, Attendance::Attended) => agent.person(ask),
        (true, Attendance::Unattended) => agent.may_ask(),
        (false, _) => agent,
    };
    Ok((agent, questions))
}

/// Applies flags that are settings of the loop. `--set` takes precedence.
fn set(settings: &mut Settings, args: &LoopArgs) -> Result<()> {
    let limits = args.limits.clone();
    let instructions = args.instructions.as_deref().map(text_or_file);
    let appended = args.append_system_prompt.as_deref().map(text_or_file);
    let given = [
        (keys::SYSTEM_PROMPT, instructions.transpose()?),
        (keys::APPEND_SYSTEM_PROMPT, appended.transpose()?),
        ("mode", args.mode.and_then(choice_name)),
        ("max_tool_calls", limits.max_tool_calls),
        ("max_input_tokens", limits.max_input_tokens),
        ("max_output_tokens", limits.max_output_tokens),
        ("max_errors", limits.max_errors),
        ("context_window", limits.context_window),
    ];
    for (key, value) in given {
        if let Some(value) = value.filter(|_| settings.get(key).is_none()) {
            settings.set(key, value);
        }
    }
    Ok(())
}

/// Returns the text, or the contents of the file after an `@`.
fn text_or_file(given: &str) -> Result<String> {
    let Some(file) = given.strip_prefix('@') else {
        return Ok(given.to_owned());
    };
    files::text(file.as_ref())?.ok_or_else(|| {
        usage!("file not found: {file}")
            .hint("`@FILE` reads a file; remove the @ to pass the text itself")
    })
}
