//! Launch command: the program of the profile, with its arguments and environment variables.

use ostler_core::dialect::{Arg, Inherits, Launch, Launching};
use ostler_core::spec::{Spec, SpecError, keys};

use super::profile::{AgentProfile, LaunchMode};
use super::{servers, settings};

/// Checks the spec and returns the command to launch.
pub(super) fn launch(
    profile: &'static AgentProfile,
    launching: &Launching<'_>,
) -> Result<Launch, SpecError> {
    let spec = launching.spec;
    settings::check(spec)?;
    check_extra(spec)?;
    if spec.policy.is_some() {
        check_approval(profile, spec)?;
    }
    let mut args: Vec<String> = profile.args.iter().map(|arg| (*arg).to_owned()).collect();
    if let (Some(flag), Some(model)) = (profile.model_flag, spec.model.as_deref()) {
        args.push(format!("{flag}{model}"));
    }
    args.extend(
        mode(profile, spec)
            .iter()
            .flat_map(|mode| mode.args)
            .map(|arg| (*arg).to_owned()),
    );
    args.extend(spec.extra_args.iter().cloned());
    let mut args: Vec<Arg> = args.into_iter().map(Arg::Plain).collect();
    if let Some(prefix) = profile.server_flag {
        let (file, _) = servers::split_stdio(servers::all(launching));
        args.extend(file.map(|text| Arg::InFile { prefix, text }));
    }
    Ok(Launch {
        program: profile.program,
        natives: profile.natives,
        args,
        env: variables(profile, spec),
        inherits: inherits(profile, spec),
        state: profile.state,
        ..Launch::default()
    })
}

/// Returns the inherited environment, without variables that would override whoever decides.
fn inherits(profile: &AgentProfile, spec: &Spec) -> Inherits {
    let never = if spec.ignores_project_settings() && !profile.ignore_never.is_empty() {
        profile.ignore_never
    } else if spec.is_supervised() && !profile.ask_never.is_empty() {
        profile.ask_never
    } else {
        profile.inherits.never
    };
    Inherits {
        never,
        ..profile.inherits
    }
}

/// Returns the permission mode to select at launch. With a policy there is none: the policy
/// decides, and the agent has to ask.
fn mode(profile: &AgentProfile, spec: &Spec) -> Option<&'static LaunchMode> {
    let name = spec
        .permission_mode
        .as_deref()
        .filter(|_| spec.policy.is_none());
    name.and_then(|name| profile.mode(name))
}

/// Returns the variables to set, except those that the caller sets.
fn variables(profile: &AgentProfile, spec: &Spec) -> Vec<(&'static str, String)> {
    let mode_env = match mode(profile, spec) {
        Some(mode) => mode.env,
        None if spec.is_supervised() => profile.ask_env,
        None => &[],
    };
    let defaults = profile
        .env
        .iter()
        .filter(|(name, _)| !mode_env.iter().any(|(asked, _)| asked == name));
    let ignore_env = if spec.ignores_project_settings() {
        profile.ignore_env
    } else {
        &[]
    };
    let all = defaults
        .chain(mode_env)
        .chain(ignore_env)
        .filter(|(name, _)| !spec.env.contains_key(*name));
    all.map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

/// Rejects anything that would make the agent act without asking while a policy is set.
fn check_approval(profile: &AgentProfile, spec: &Spec) -> Result<(), SpecError> {
    let auto_approve = &profile.auto_approve;
    let mut names = profile
        .ask_env
        .iter()
        .map(|(name, _)| *name)
        .chain(auto_approve.env.iter().copied());
    if let Some(name) = names.find(|name| spec.env.contains_key(*name)) {
        let why =
            "conflicts with the policy, whose rules decide; remove the variable or the policy";
        return Err(SpecError::new("env", name, why));
    }
    if let Some(mode) = spec
        .permission_mode
        .as_deref()
        .filter(|mode| auto_approve.includes_mode(mode))
    {
        let why = "conflicts with the policy: in this mode the agent does not ask; \
                   remove the mode or the policy";
        return Err(SpecError::new(keys::PERMISSION_MODE, mode, why));
    }
    match spec
        .extra_args
        .iter()
        .find(|arg| auto_approve.includes_flag(arg))
    {
        Some(arg) => Err(SpecError::new(
            "extra args",
            arg,
            "conflicts with the policy: it can make the agent act without asking; \
             remove the argument or the policy",
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
