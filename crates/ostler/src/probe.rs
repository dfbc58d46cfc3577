//! Whether an agent is there and ready, and if not, what a person can do about it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::dialect::{Login, Probe, Runtime, Version};
use ostler_core::spec::Spec;

use crate::host::{Host, Lookup};
use crate::process::{Finished, PreparedCommand, SpawnError, run_with_input};

/// How long an agent may take to say its version or its login state.
const LIMIT: Duration = Duration::from_secs(30);

/// The hint for a program that the caller named and that does not exist.
pub(crate) const NAMED_PROGRAM: &str = "Check the path: --program, or `command` in ostler.toml.";

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
    /// It can be started; whether somebody is logged in is not known.
    LoginUnknown {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: String,
        /// How to log in.
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

impl Probed {
    /// Returns true if the agent can be started and is not known to lack a login.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::LoginUnknown { .. })
    }
}

/// Asks the agent, as this spec would have it started.
pub(crate) async fn probe(host: &Host, plan: &Probe, spec: &Spec) -> Probed {
    let asked = Asked {
        host,
        plan,
        env: &spec.env,
    };
    let program = spec.program.as_deref().unwrap_or(Path::new(plan.program));
    // A program that the caller names is started as it is.
    let natives = if spec.program.is_some() {
        &[]
    } else {
        plan.natives
    };
    let path = match host.find_native(program, natives) {
        Lookup::Lookup(path) => path,
        Lookup::NotFound(searched) => {
            let hint = if spec.program.is_some() {
                NAMED_PROGRAM
            } else {
                plan.install_hint
            };
            return Probed::Missing {
                hint: hint.into(),
                searched,
            };
        }
    };
    let broken = |why: String| Probed::Broken {
        path: path.clone(),
        why,
        hint: plan.install_hint.into(),
    };
    if let Some(runtime) = plan.runtime
        && let Some(why) = unfit(&asked, &runtime).await
    {
        return Probed::Broken {
            path,
            why,
            hint: runtime.hint.into(),
        };
    }
    let version = match asked
        .run(
            &path,
            Query {
                args: plan.version_args,
                ..Query::default()
            },
        )
        .await
    {
        Ok(answer) if answer.timed_out => {
            return broken(format!("it did not say its version within {LIMIT:?}"));
        }
        Ok(answer) => match (plan.read_version)(&answer.stdout) {
            Some(version) => version,
            None => {
                return broken(format!(
                    "it did not say its version (exit code {:?})",
                    answer.status.code
                ));
            }
        },
        Err(error) => return broken(error.to_string()),
    };
    if version < plan.minimum {
        return too_old(plan, path, version);
    }
    let login = match &plan.login {
        None => Login::Unknown,
        Some(login) => {
            let query = Query {
                args: login.args,
                env: login.env,
                input: login.input,
            };
            match asked.run(&path, query).await {
                Ok(answer) => (login.read)(answer.status.code, &answer.stdout),
                Err(_) => Login::Unknown,
            }
        }
    };
    let version = version.to_string();
    match login {
        Login::LoggedOut => Probed::NotLoggedIn {
            path,
            version,
            hint: plan.login_hint.into(),
        },
        Login::LoggedIn(how) => Probed::Ready {
            version: Some(version),
            path: Some(path),
            login: how,
        },
        Login::Unknown => Probed::LoginUnknown {
            path,
            version,
            hint: plan.login_hint.into(),
        },
    }
}

/// A short run of the agent's program.
#[derive(Clone, Copy, Default)]
struct Query {
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    input: &'static str,
}

/// What is wrong with what the program runs on; none when that will do, or cannot be told.
async fn unfit(asked: &Asked<'_>, runtime: &Runtime) -> Option<String> {
    let name = runtime.program;
    let Lookup::Lookup(path) = asked.host.find(Path::new(name)) else {
        return Some(format!("it runs on {name}, which is not in PATH"));
    };
    let answer = asked
        .run(
            &path,
            Query {
                args: &["--version"],
                ..Query::default()
            },
        )
        .await
        .ok()?;
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
    async fn run(&self, path: &Path, query: Query) -> Result<Finished, SpawnError> {
        let mut prepared = PreparedCommand::query(
            self.host,
            path,
            query.args,
            &format!("probe-{}", uuid::Uuid::new_v4()),
        )?;
        let allowed: BTreeMap<OsString, OsString> =
            self.host.environment(&self.plan.inherits, self.env);
        prepared.env.extend(allowed);
        prepared.env.extend(
            query
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        prepared.env.extend(
            self.env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        run_with_input(prepared, query.input, LIMIT).await
    }
}
