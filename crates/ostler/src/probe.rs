//! Whether an agent is there and ready, and if not, what a person can do about it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::dialect::{Login, Probe, Runtime, Version};
use ostler_core::spec::Spec;

use crate::host::{Found, Host};
use crate::process::{Finished, Prepared, SpawnError, run_once};

/// How long an agent may take to say its version or its login state.
const LIMIT: Duration = Duration::from_secs(20);

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It is not installed.
    Missing {
        /// What to do.
        hint: String,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// It needs to be told where its model is.
    NotConfigured {
        /// What to do.
        hint: String,
    },
    /// It is there but does not run.
    Broken {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        hint: String,
    },
    /// It is too old.
    TooOld {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The oldest one that is supported.
        need: String,
        /// What to do.
        hint: String,
    },
    /// Nobody is logged in.
    NotLoggedIn {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: String,
        /// What to do.
        hint: String,
    },
    /// It can be started.
    Ready {
        /// Its version.
        version: Option<String>,
        /// Where; none for an agent that is part of Ostler.
        path: Option<PathBuf>,
        /// How somebody is logged in, when it is known.
        login: Option<String>,
    },
}

/// Asks the agent, as this spec would have it started.
pub(crate) async fn probe(host: &Host, plan: &Probe, spec: &Spec) -> Probed {
    let asked = Asked { host, plan, env: &spec.env };
    let program = spec.program.as_deref().unwrap_or(Path::new(plan.program));
    // A program that the caller names is started as it is.
    let natives = if spec.program.is_some() { &[] } else { plan.natives };
    let path = match host.find_native(program, natives) {
        Found::At(path) => path,
        Found::Nowhere(searched) => return Probed::Missing { hint: plan.install_hint.into(), searched },
    };
    let broken = |why: String| Probed::Broken { path: path.clone(), why, hint: plan.install_hint.into() };
    if let Some(runtime) = plan.runtime
        && let Some(why) = unfit(&asked, &runtime).await
    {
        return Probed::Broken { path, why, hint: runtime.hint.into() };
    }
    let version = match asked.run(&path, plan.version_args).await {
        Ok(answer) if answer.timed_out => return broken(format!("it did not say its version within {LIMIT:?}")),
        Ok(answer) => match (plan.read_version)(&answer.stdout) {
            Some(version) => version,
            None => return broken(format!("it did not say its version (exit code {:?})", answer.status.code)),
        },
        Err(error) => return broken(error.to_string()),
    };
    if version < plan.minimum {
        return too_old(plan, path, version);
    }
    let login = match plan.login_args {
        [] => Login::Unknown,
        args => match asked.run(&path, args).await {
            Ok(answer) => (plan.read_login)(answer.status.code, &answer.stdout),
            Err(_) => Login::Unknown,
        },
    };
    let version = version.to_string();
    match login {
        Login::Out => Probed::NotLoggedIn { path, version, hint: plan.login_hint.into() },
        Login::In(how) => Probed::Ready { version: Some(version), path: Some(path), login: how },
        Login::Unknown => Probed::Ready { version: Some(version), path: Some(path), login: None },
    }
}

/// What is wrong with what the program runs on; none when that will do, or cannot be told.
async fn unfit(asked: &Asked<'_>, runtime: &Runtime) -> Option<String> {
    let name = runtime.program;
    let Found::At(path) = asked.host.find(Path::new(name)) else {
        return Some(format!("it runs on {name}, which is not in PATH"));
    };
    let answer = asked.run(&path, &["--version"]).await.ok()?;
    let version = Version::find(&answer.stdout)?;
    (!(runtime.serves)(version)).then(|| format!("it does not run on {name} {version}"))
}

fn too_old(plan: &Probe, path: PathBuf, version: Version) -> Probed {
    Probed::TooOld {
        path,
        version: version.to_string(),
        need: plan.minimum.to_string(),
        hint: plan.install_hint.into(),
    }
}

/// An agent that is asked.
struct Asked<'a> {
    host: &'a Host,
    plan: &'a Probe,
    env: &'a BTreeMap<String, String>,
}

impl Asked<'_> {
    async fn run(&self, path: &Path, args: &[&str]) -> Result<Finished, SpawnError> {
        let mut prepared = Prepared::query(self.host, path, args, &format!("probe-{}", uuid::Uuid::new_v4()))?;
        let allowed: BTreeMap<OsString, OsString> = self.host.environment(&self.plan.inherits, self.env);
        prepared.env.extend(allowed);
        prepared.env.extend(self.env.iter().map(|(name, value)| (name.into(), value.into())));
        run_once(prepared, LIMIT).await
    }
}
