//! `ostler loop`: any model, with tools of Ostler's own, until the task is done or a condition stops it.

mod resume;
mod model;
mod named_model;
mod shell_words;

use std::sync::Arc;

use ostler::agent_loop::CommandCheck;
use ostler::{Agent, Attendance, Denials, Host, Loop, Session, Settings, keys};

use self::shell_words::{again, split};
use crate::args::{LoopArgs, LoopLimits, LoopMode, Time, ToolSet};
use crate::ask::{self, Asking, Line};
use crate::exit::Code;
use crate::fault::Fault;
use crate::follow::follow;
use crate::output::{self, Again, Dialects, Stored, View};
use crate::signals::Signals;
use crate::spec::{self, Chosen, LOOP, Way};
use crate::store::{self, Keeping};
use crate::{config, files, prompt, trust_review};

/// Runs one task.
pub(crate) async fn run(args: LoopArgs) -> Result<Code, Fault> {
    let format = args.task.format();
    let Begun {
        session,
        signals,
        attendance,
        line,
        again,
        view,
    } = output::reporting(format, begin(args).await)?;
    let asking = Asking::new(session.remote(), attendance).also_for(line);
    follow(
        (session, asking),
        output::open_loop(format, again, view),
        signals,
    )
    .await
}

/// A loop that is under way.
struct Begun {
    session: Session,
    signals: Signals,
    attendance: Attendance,
    /// Where the model's own questions come from.
    line: Line,
    again: Option<Again>,
    view: View,
}

/// Everything that can be wrong before the model is asked.
async fn begin(mut args: LoopArgs) -> Result<Begun, Fault> {
    let dir = spec::directory(args.dir.as_deref())?;
    let task = prompt::read(&args.task, &dir, "loop")?;
    let format = args.task.format();
    let attendance = ask::who_at(format);
    let project = trust_review::open((args.config, &args.policy), &dir, attendance)?;
    let config = config::load(args.config, &project)?;
    let mut start = args.start(LOOP);
    let Keeping { host, store } = store::keeping(&mut start, &dir, &config)?;
    let mut host = trust_review::attach(host, &project, &config)?;
    if let Some(until) = &args.until {
        host = host.allowing(split(until)?);
    }
    let before = resume::look(
        start.agent_settings.resume.as_deref(),
        store.as_deref(),
        args.fork,
    )?;
    args.mode = args
        .mode
        .or(before.is_approving.then_some(LoopMode::Approve));
    let sought = model::Sought {
        config: &config,
        host: &host,
        args: &args,
        before: before.model,
    };
    let model = model::choose(&sought).await?;
    let (agent, line) = around(
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
    let way = Way {
        prompt: task,
        dir,
        project,
        streaming,
        attendance,
        has_model: true,
        ..Way::default()
    };
    let mut wanted = spec::read(start, &config, way)?;
    wanted.spec.denials = Denials::Tolerate;
    set(&mut wanted.spec.settings, &args)?;
    let chosen = Chosen {
        name: LOOP.to_owned(),
        agent: Arc::new(agent),
    };
    let spec = wanted.told(&config, &chosen)?;
    let signals = Signals::listen()?;
    let session = chosen
        .agent
        .start(&host, spec)
        .map_err(|error| spec::wrong(&error, &*chosen.agent, "loop"))?;
    // What is not kept cannot be gone on with.
    let again = store.map(|_| Again(again(&args)));
    Ok(Begun {
        session,
        signals,
        attendance,
        line,
        again,
        view,
    })
}

/// Puts around the loop what was asked for: its check, and whom the model may ask.
fn around(
    agent: Loop,
    args: &LoopArgs,
    place: &(Host, std::path::PathBuf, Attendance),
) -> Result<(Loop, Line), Fault> {
    let (host, dir, attendance) = place;
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
            Some(Time(None)) => check.limit(model::FOR_EVER),
            None => check,
        });
    }
    if let Some(Time(Some(longest))) = args.limits.tool_timeout {
        agent = agent.tool_timeout(longest);
    }
    let (ask, line) = ask::line();
    Ok(match (args.ask, attendance) {
        (true, Attendance::Attended) => (agent.person(ask), line),
        (true, Attendance::Unattended) => (agent.may_ask(), line),
        (false, _) => (agent, line),
    })
}

/// What was typed and is a setting of the loop. What --set says stays.
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
        (keys::SYSTEM_PROMPT, told(args.instructions.as_deref())?),
        (
            keys::APPEND_SYSTEM_PROMPT,
            told(args.append_system_prompt.as_deref())?,
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

/// A text as it was typed, or that of the file behind an @.
fn told(given: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(given) = given else { return Ok(None) };
    let Some(file) = given.strip_prefix('@') else {
        return Ok(Some(given.to_owned()));
    };
    let text = files::text(file.as_ref())?;
    text.map(Some).ok_or_else(|| {
        Fault::usage(format!("{file} is not there")).hint("a text needs no @ before it")
    })
}
