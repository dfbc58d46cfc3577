//! What to start: the program of the entry, with its arguments and variables.

use ostler_core::dialect::{Arg, Inherits, Launch};
use ostler_core::spec::{Attendance, Spec, SpecError, keys};

use super::entry::{Entry, Mode};
use super::{servers, settings};

/// Checks the spec and says what to start.
pub(super) fn launch(entry: &'static Entry, spec: &Spec) -> Result<Launch, SpecError> {
    settings::check(spec)?;
    check_extra(spec)?;
    if spec.policy.is_some() {
        check_asks(entry, spec)?;
    }
    let mut args: Vec<String> = entry.args.iter().map(|arg| (*arg).to_owned()).collect();
    if let (Some(flag), Some(model)) = (entry.model_flag, spec.settings.last(keys::MODEL)) {
        args.push(format!("{flag}{model}"));
    }
    args.extend(
        mode(entry, spec)
            .iter()
            .flat_map(|mode| mode.args)
            .map(|arg| (*arg).to_owned()),
    );
    args.extend(spec.extra_args.iter().cloned());
    let mut args: Vec<Arg> = args.into_iter().map(Arg::Plain).collect();
    if let Some(prefix) = entry.server_flag {
        let (file, _) = servers::parted(servers::all(&spec.settings, spec.bridge.as_ref()));
        args.extend(file.map(|text| Arg::InFile { prefix, text }));
    }
    Ok(Launch {
        program: entry.program,
        natives: entry.natives,
        args,
        env: variables(entry, spec),
        inherits: inherits(entry, spec),
        needs: &[],
        state: entry.state,
    })
}

/// Whether anybody decides what the agent may do, rules or a person.
pub(super) fn attended(spec: &Spec) -> bool {
    spec.policy.is_some() || spec.attendance == Attendance::Attended
}

/// What it sees of the caller's environment: nothing that would decide in the place of those who do.
fn inherits(entry: &Entry, spec: &Spec) -> Inherits {
    let never = if attended(spec) && !entry.ask_never.is_empty() {
        entry.ask_never
    } else {
        entry.inherits.never
    };
    Inherits {
        never,
        ..entry.inherits
    }
}

/// The permission mode that is chosen at the start. Where there are rules, they decide, and the agent has to ask.
fn mode(entry: &Entry, spec: &Spec) -> Option<&'static Mode> {
    let word = spec
        .settings
        .last(keys::PERMISSION_MODE)
        .filter(|_| spec.policy.is_none());
    word.and_then(|word| entry.mode(word))
}

/// Variables that are set, unless the caller sets them.
fn variables(entry: &Entry, spec: &Spec) -> Vec<(&'static str, String)> {
    let asks = match mode(entry, spec) {
        Some(mode) => mode.env,
        None if attended(spec) => entry.ask_env,
        None => &[],
    };
    let usual = entry
        .env
        .iter()
        .filter(|(name, _)| !asks.iter().any(|(asked, _)| asked == name));
    let all = usual
        .chain(asks)
        .filter(|(name, _)| !spec.env.contains_key(*name));
    all.map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

/// Where there are rules, nothing may make the agent do things without asking.
fn check_asks(entry: &Entry, spec: &Spec) -> Result<(), SpecError> {
    let skips = &entry.skips;
    let mut names = entry
        .ask_env
        .iter()
        .map(|(name, _)| *name)
        .chain(skips.env.iter().copied());
    if let Some(name) = names.find(|name| spec.env.contains_key(*name)) {
        let why = "with a policy, its rules decide; leave out this variable or the policy";
        return Err(SpecError::new("env", name, why));
    }
    if let Some(mode) = spec
        .settings
        .last(keys::PERMISSION_MODE)
        .filter(|mode| skips.mode(mode))
    {
        let why = "with a policy, its rules decide, and in this mode the agent does not ask; leave out the mode or the policy";
        return Err(SpecError::new(keys::PERMISSION_MODE, mode, why));
    }
    match spec.extra_args.iter().find(|arg| skips.flag(arg)) {
        Some(arg) => Err(SpecError::new(
            "extra args",
            arg,
            "with a policy, its rules decide, and this can make the agent not ask; leave out the argument or the policy",
        )),
        None => Ok(()),
    }
}

fn check_extra(spec: &Spec) -> Result<(), SpecError> {
    let nul = spec.extra_args.iter().find(|arg| arg.contains('\0'));
    nul.map_or(Ok(()), |arg| {
        Err(SpecError::new(
            "extra args",
            arg,
            "a NUL character cannot be passed to a program",
        ))
    })
}
