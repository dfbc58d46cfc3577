//! `ostler loop`: runs any model with Ostler's tools until the task is done or a limit stops it.

mod resume;
mod model;
mod named_model;
mod shell_words;

use std::path::Path;
use std::sync::Arc;

use ostler::agent_loop::CommandCheck;
use ostler::spec::{Attendance, Denials, Settings, keys};
use ostler::{Agent, Host, Loop, Session};

use self::shell_words::{choice_name, resume_command, split};
use crate::args::{LoopArgs, LoopMode, Time, ToolSet};
use crate::ask::{self, Prompter, QuestionReceiver};
use crate::exit::Code;
use crate::fault::Result;
use crate::follow::follow;
use crate::output::{self, Dialects, LoopProgress, View};
use crate::signals::Signals;
use crate::spec::{self, ChosenAgent, LOOP, LaunchContext};
use crate::store::{self, SessionStorage};
use crate::{config, files, prompt, trust_review};

/// Runs one task.
pub(crate) async fn run(args: LoopArgs) -> Result<Code> {
    let format = args.task.format();
    let StartedRun {
        session,
        signals,
        attendance,
        questions,
        view,
    } = output::reporting(format, begin(args).await)?;
    let prompter = Prompter::new(session.remote(), attendance).with_model_questions(questions);
    follow(session, prompter, output::open(format, view), signals).await
}

/// A loop that has started.
struct StartedRun {
    session: Session,
    signals: Signals,
    attendance: Attendance,
    /// Questions of the model.
    questions: QuestionReceiver,
    view: View,
}

/// Validates the arguments and starts the loop.
async fn begin(mut args: LoopArgs) -> Result<StartedRun> {
    let dir = config::directory(args.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "loop")?;
    let format = args.task.format();
    let attendance = ask::attendance_for(format);
    let project = trust_review::open(args.config, &args.policy, &dir, attendance)?;
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
        .or((!previous.pending_calls.is_empty()).then_some(LoopMode::Approve));
    let context = model::ModelContext {
        config: &config,
        host: &host,
        args: &args,
        previous_model: previous.model,
    };
    let model = model::choose(&context).await?;
    let setup = LoopSetup {
        args: &args,
        host: &host,
        dir: &dir,
        attendance,
    };
    let (agent, questions) = setup.configure(Loop::around(model))?;
    let streaming = format.is_streaming();
    let view = View {
        args: args.task.view,
        dir: Some(dir.clone()),
        dialects: Dialects::only(agent.dialect()),
        is_live: true,
        is_stored: true,
        // A session that is not stored cannot be resumed.
        loop_progress: Some(LoopProgress::new(store.map(|_| resume_command(&args)))),
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
    Ok(StartedRun {
        session,
        signals,
        attendance,
        questions,
        view,
    })
}

/// What configures a loop.
struct LoopSetup<'a> {
    args: &'a LoopArgs,
    host: &'a Host,
    dir: &'a Path,
    attendance: Attendance,
}

impl LoopSetup<'_> {
    /// Configures the tools, the check, and whether the model may ask questions.
    fn configure(&self, mut agent: Loop) -> Result<(Loop, QuestionReceiver)> {
        let args = self.args;
        if args.tools == ToolSet::None {
            agent = agent.bare();
        }
        if let Some(until) = &args.until {
            let check = CommandCheck::new(self.host, split(until)?, self.dir.to_owned());
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
        let agent = match (args.ask, self.attendance) {
            (true, Attendance::Attended) => agent.person(ask),
            (true, Attendance::Unattended) => agent.may_ask(),
            (false, _) => agent,
        };
        Ok((agent, questions))
    }
}

/// Applies flags that are settings of the loop. `--set` takes precedence.
fn set(settings: &mut Settings, args: &LoopArgs) -> Result<()> {
    let limits = args.limits.clone();
    let given = [
        (
            keys::SYSTEM_PROMPT,
            text_or_file(args.instructions.as_deref())?,
        ),
        (
            keys::APPEND_SYSTEM_PROMPT,
            text_or_file(args.append_system_prompt.as_deref())?,
        ),
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
fn text_or_file(given: Option<&str>) -> Result<Option<String>> {
    let Some(given) = given else { return Ok(None) };
    let Some(file) = given.strip_prefix('@') else {
        return Ok(Some(given.to_owned()));
    };
    let text = files::text(file.as_ref())?;
    text.map(Some).ok_or_else(|| {
        usage!("file not found: {file}")
            .hint("`@FILE` reads a file; remove the @ to pass the text itself")
    })
}
