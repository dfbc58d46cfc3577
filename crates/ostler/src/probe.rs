//! Probes: check whether an agent is installed and ready, and if not, what to do about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::dialect::{Login, Probe, Runtime, Version};
use ostler_core::spec::Spec;

use crate::host::{Host, Lookup};
use crate::process::{PreparedCommand, RunOutput, SpawnError, run_with_input};

/// How long an agent may take to report its version or login state.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Hint for a program that the caller named and that does not exist.
pub(crate) const NAMED_PROGRAM: &str = "Check the path: --program, or `command` in ostler.toml.";

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// The agent is not installed.
    Missing {
        /// What to do.
        hint: String,
        /// Where it was searched.
        searched: Vec<PathBuf>,
    },
    /// The location of its model is not configured.
    NotConfigured {
        /// What to do.
        hint: String,
    },
    /// The agent is installed but does not run.
    Broken {
        /// Path of the program.
        path: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        hint: String,
    },
    /// The installed version is too old.
    TooOld {
        /// Path of the program.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The minimum supported version.
        need: String,
        /// What to do.
        hint: String,
    },
    /// The agent is not logged in.
    NotLoggedIn {
        /// Path of the program.
        path: PathBuf,
        /// Its version.
        version: String,
        /// What to do.
        hint: String,
    },
    /// The agent can be started, but its login state is unknown.
    LoginUnknown {
        /// Path of the program.
        path: PathBuf,
        /// Its version.
        version: String,
        /// How to log in.
        hint: String,
    },
    /// The agent can be started.
    Ready {
        /// Its version.
        version: Option<String>,
        /// Path of the program; `None` for an agent that is part of Ostler.
        path: Option<PathBuf>,
        /// How it is logged in, if known.
        login: Option<String>,
    },
}

impl Probed {
    /// Returns true if the agent can be started and is not known to lack a login.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::LoginUnknown { .. })
    }

    /// Returns why this agent cannot be used, and what to do; `None` if it can.
    #[must_use]
    pub fn problem(&self, agent: &str) -> Option<(String, &str)> {
        Some(match self {
            Self::Ready { .. } | Self::LoginUnknown { .. } => return None,
            Self::Missing { hint, searched } => {
                let dirs: Vec<_> = searched.iter().map(|dir| dir.to_string_lossy()).collect();
                let dirs = dirs.join(", ");
                (format!("{agent} is not installed (searched: {dirs})"), hint)
            }
            Self::NotConfigured { hint } => (format!("{agent} is not configured"), hint),
            Self::Broken { path, why, hint } => {
                (format!("{} does not start: {why}", path.display()), hint)
            }
            Self::TooOld {
                version,
                need,
                hint,
                ..
            } => {
                let why = format!("{agent} {version} is too old; {need} or newer is required");
                (why, hint)
            }
            Self::NotLoggedIn { hint, .. } => (format!("{agent} is not logged in"), hint),
        })
    }

    /// Returns the result for an agent that is part of Ostler.
    pub(crate) fn built_in() -> Self {
        Self::Ready {
            version: Some(env!("CARGO_PKG_VERSION").into()),
            path: None,
            login: None,
        }
    }

    /// Records the result for a program or a server.
    pub(crate) fn trace(&self, program: &str) {
        let (result, version) = match self {
            Self::Missing { .. } => ("missing", None),
            Self::NotConfigured { .. } => ("not_configured", None),
            Self::Broken { .. } => ("broken", None),
            Self::TooOld { version, .. } => ("too_old", Some(version)),
            Self::NotLoggedIn { version, .. } => ("not_logged_in", Some(version)),
            Self::LoginUnknown { version, .. } => ("login_unknown", Some(version)),
            Self::Ready { version, .. } => ("ready", version.as_ref()),
        };
        tracing::debug!(program, result, version, "probed");
    }
}

/// Probes the agent as this spec would start it.
pub(crate) async fn probe(host: &Host, plan: &Probe, spec: &Spec) -> Probed {
    let probed = run(host, plan, spec).await;
    probed.trace(plan.program);
    probed
}

async fn run(host: &Host, plan: &Probe, spec: &Spec) -> Probed {
    let prober = Prober {
        host,
        plan,
        env: &spec.env,
    };
    let program = spec.program.as_deref().unwrap_or(Path::new(plan.program));
    // A program that the caller named is not replaced by its native binary.
    let natives = if spec.program.is_some() {
        &[]
    } else {
        plan.natives
    };
    let path = match host.find_native(program, natives) {
        Lookup::Found(path) => path,
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
        && let Some(why) = runtime_problem(&prober, &runtime).await
    {
        return Probed::Broken {
            path,
            why,
            hint: runtime.hint.into(),
        };
    }
    let version = match prober.run(&path, Query::new(plan.version_args)).await {
        Ok(output) if output.timed_out => {
            return broken(format!("it did not report its version within {TIMEOUT:?}"));
        }
        Ok(output) => match (plan.read_version)(output.printed()) {
            Some(version) => version,
            None => {
                let code = output.status.code;
                return broken(format!(
                    "it did not report its version (exit code {code:?})"
                ));
            }
        },
        Err(error) => return broken(error.to_string()),
    };
    if version < plan.minimum {
        return Probed::TooOld {
            path,
            version: version.to_string(),
            need: plan.minimum.to_string(),
            hint: plan.install_hint.into(),
        };
    }
    let login = match &plan.login {
        None => Login::Unknown,
        Some(login) => {
            let query = Query {
                args: login.args,
                env: login.env,
                input: login.input,
            };
            match prober.run(&path, query).await {
                Ok(output) => (login.read)(output.status.code, output.printed()),
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

/// A short invocation of the agent's program.
#[derive(Clone, Copy, Default)]
struct Query {
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    input: &'static str,
}

impl Query {
    fn new(args: &'static [&'static str]) -> Self {
        Self {
            args,
            ..Self::default()
        }
    }
}

/// Returns what is wrong with the runtime of the program, or `None` if it is suitable or unknown.
async fn runtime_problem(prober: &Prober<'_>, runtime: &Runtime) -> Option<String> {
    let name = runtime.program;
    let Lookup::Found(path) = prober.host.find(Path::new(name)) else {
        return Some(format!("it requires {name}, which is not in PATH"));
    };
    let output = prober.run(&path, Query::new(&["--version"])).await.ok()?;
    let version = Version::find(&output.stdout)?;
    (!(runtime.serves)(version)).then(|| format!("it does not support {name} {version}"))
}

/// Runs the queries of a probe.
struct Prober<'a> {
    host: &'a Host,
    plan: &'a Probe,
    env: &'a BTreeMap<String, String>,
}

impl Prober<'_> {
    async fn run(&self, path: &Path, query: Query) -> Result<RunOutput, SpawnError> {
        let mut prepared = PreparedCommand::query(
            self.host,
            path,
            query.args,
            &format!("probe-{}", uuid::Uuid::new_v4()),
        )?;
        let allowed = self.host.environment(&self.plan.inherits, self.env);
        let added = query
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let own = self
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        prepared
            .env
            .extend(allowed.into_iter().chain(added).chain(own));
        run_with_input(prepared, query.input, TIMEOUT).await
    }
}
