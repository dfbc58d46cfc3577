//! Agents that are external programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{Dialect, Inherits, Launching};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Spec, SpecError};

use super::{Agent, ProbeFuture, check, directory, prepare, previous_session, session_id};
use crate::breaker::{BreakerState, SessionBreaker};
use crate::clock;
use crate::host::{Host, Lookup};
use crate::probe::{self, Probed};
use crate::process::PreparedCommand;
use crate::resume::{self, ResumeCheck, ResumeProblem, ResumeRequest};
use crate::session::{ChildSource, LaunchedChild, Session, SessionSetup};
use crate::trust;

/// An agent that runs as a child process and speaks any dialect.
///
/// ```
/// use ostler::agent::{Agent, ProcessAgent};
/// use ostler::agent::dialects::claude::Claude;
///
/// let claude = ProcessAgent::new(&Claude);
/// assert_eq!(claude.about().name, "claude");
/// ```
pub struct ProcessAgent(&'static dyn Dialect);

impl ProcessAgent {
    /// Creates an agent that speaks `dialect`.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect) -> Self {
        Self(dialect)
    }

    async fn run_probe(&self, host: &Host, spec: &Spec) -> Probed {
        match self.0.about().probe {
            Some(plan) => probe::probe(host, &plan, spec).await,
            None => Probed::Ready {
                version: None,
                path: None,
                login: None,
            },
        }
    }
}

impl Agent for ProcessAgent {
    fn is_found(&self, host: &Host, spec: &Spec) -> bool {
        let usual = || self.0.about().probe.map(|probe| Path::new(probe.program));
        let program = spec.program.as_deref().or_else(usual);
        program.is_some_and(|program| matches!(host.find(program), Lookup::Found(_)))
    }

    fn probe<'a>(&'a self, host: &'a Host, spec: &'a Spec) -> ProbeFuture<'a> {
        let dialect = self.0.select_transport(spec).unwrap_or(self.0);
        let needs = dialect
            .launch(&Launching::new(spec))
            .map_or(&[][..], |launch| launch.needs);
        let missing = needs
            .iter()
            .find_map(|helper| match host.find_helper(helper) {
                Lookup::Found(_) => None,
                Lookup::NotFound(searched) => Some((helper, searched)),
            });
        match missing {
            Some((helper, searched)) => {
                let hint = format!(
                    "{helper} is part of Ostler: build it (cargo build --release -p ostler-tools) \
                     and add it to PATH."
                );
                Box::pin(async move { Probed::Missing { hint, searched } })
            }
            None => Box::pin(self.run_probe(host, spec)),
        }
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check(&spec, &self.0.about())?;
        prepare(host, &mut spec);
        let previous = previous_session::find(host, &spec, self.0.about().name)?;
        if let Some(previous) = &previous {
            previous_session::translate(&mut spec, previous)?;
        }
        let dir = directory(&spec);
        spec.dir = Some(dir.clone()); // dialects pass it on to the agent
        let dialect = self.0.select_transport(&spec).unwrap_or(self.0);
        if spec.policy.is_some() && !dialect.about().capabilities.ask {
            let why = "this agent does not ask before it uses a tool, so no rule can be enforced; \
                       choose another agent (or another transport of this one), or omit the policy";
            return Err(SpecError::new("permissions", dialect.about().name, why));
        }
        if let Some(tool) = spec
            .bound_tools
            .first()
            .filter(|_| !dialect.about().capabilities.tools)
        {
            let why = format!(
                "{} does not support tools of the caller this way; choose another agent \
                 (or another transport of this one), or omit the tools",
                dialect.about().name
            );
            return Err(SpecError::new("bound tools", &tool.name, why));
        }
        let about = dialect.about();
        let ignored = trust::ignored_agent_files(&about, &spec, &dir);
        if let (Some(file), false) = (ignored.first(), about.project_files.can_ignore) {
            let why = "with the agent's settings in the project, programs can run that no rule of \
                       the policy covers, and this agent cannot be told to ignore them; trust the \
                       project, remove the file, or omit the policy";
            return Err(SpecError::new("project settings", file, why));
        }
        let inherits = dialect.launch(&Launching::new(&spec))?.inherits;
        let id = session_id(&spec);
        let install_hint = match &spec.program {
            Some(_) => Some(probe::NAMED_PROGRAM),
            None => self.0.about().probe.map(|p| p.install_hint),
        };
        let launcher = Launcher {
            host: host.clone(),
            id: id.clone(),
            dir: dir.clone(),
            install_hint,
        };
        Ok(Session::start(SessionSetup {
            dialect,
            launch: Box::new(move |dialect, launching| launcher.launch(dialect, launching)),
            install_hint,
            id,
            dir,
            continues: previous
                .map(|previous| previous.session)
                .or_else(|| spec.follows.clone()),
            breaker: SessionBreaker::new(
                host.breakers().clone(),
                self.0.about().name,
                host.account(&inherits),
            ),
            host: host.clone(),
            past: Arc::default(),
            submissions: Arc::default(),
            spec,
        }))
    }

    fn breaker(&self, host: &Host, spec: &Spec) -> Option<BreakerState> {
        let dialect = self.0.select_transport(spec).unwrap_or(self.0);
        let inherits = dialect.launch(&Launching::new(spec)).ok()?.inherits;
        Some(BreakerState::new(
            host.breakers().clone(),
            self.0.about().name,
            host.account(&inherits),
            spec.model.clone(),
        ))
    }

    fn login(&self, host: &Host, spec: &Spec) -> Option<PathBuf> {
        let probe = self.0.about().probe?;
        let dialect = self.0.select_transport(spec).unwrap_or(self.0);
        let state = dialect
            .launch(&Launching::new(spec))
            .map_or(&[][..], |launch| launch.state);
        let mut env = host.environment(&probe.inherits, &spec.env);
        let added = spec.env.iter();
        env.extend(added.map(|(name, value)| (name.into(), value.into())));
        Some(login_path(state, probe.program, &env))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.0
    }
}

/// Returns where an agent with this environment stores its login: the first of its state
/// directories that a variable names, or else the first one below the home directory. Agents that
/// share a login have the same path. One whose state is unknown has a path of its own.
fn login_path(state: &[&str], program: &str, env: &BTreeMap<OsString, OsString>) -> PathBuf {
    let var = |name: &str| {
        let value = env.get(std::ffi::OsStr::new(name));
        value.filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    let named = state.iter().find_map(|path| {
        let (name, rest) = path
            .strip_prefix('$')?
            .split_once('/')
            .unwrap_or((&path[1..], ""));
        Some(var(name)?.join(rest))
    });
    let below_home = state.iter().find_map(|path| path.strip_prefix("~/"));
    let home = || var("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let path = named.unwrap_or_else(|| home().join(below_home.unwrap_or(program)));
    // Two names of one directory are one login.
    path.canonicalize()
        .unwrap_or_else(|_| path.components().collect())
}

/// Prepares the agent's process each time it is started.
struct Launcher {
    host: Host,
    id: Arc<str>,
    dir: PathBuf,
    install_hint: Option<&'static str>,
}

impl Launcher {
    fn launch(
        &self,
        dialect: &dyn Dialect,
        launching: &Launching<'_>,
    ) -> Result<LaunchedChild, Outcome> {
        let spec = launching.spec;
        let invalid = |error: SpecError| Outcome::new(Cause::BadRequest, error.to_string());
        let launch = dialect.launch(launching).map_err(invalid)?;
        let checked = self
            .check_resume(dialect, spec, &launch.inherits)
            .map_err(|problem| problem.outcome())?;
        let prepared = PreparedCommand::agent(&self.host, launching, &launch, &self.id);
        let prepared = prepared.map_err(|error| error.outcome(self.install_hint))?;
        let ResumeCheck {
            mut notices,
            written_by,
        } = checked;
        let delay = self.resume_delay(dialect, spec, &launch.inherits);
        notices.extend(delay.map(|(id, delay)| resume::delay_notice(id, delay)));
        let source = ChildSource::Process(Box::new(prepared), delay.map(|(_, delay)| delay));
        Ok(LaunchedChild {
            source,
            notices,
            written_by,
        })
    }

    /// Returns the id of the session to resume, and how long to wait before it can be resumed.
    fn resume_delay<'a>(
        &self,
        dialect: &dyn Dialect,
        spec: &'a Spec,
        inherits: &Inherits,
    ) -> Option<(&'a str, Duration)> {
        let (rule, id) = (dialect.about().resume_delay?, spec.resume.as_deref()?);
        let root = resume::root(rule.roots, &self.environment(spec, inherits))?;
        resume::delay(rule, &root, id, clock::wall()).map(|delay| (id, delay))
    }

    fn environment(&self, spec: &Spec, inherits: &Inherits) -> BTreeMap<OsString, OsString> {
        let mut env = self.host.environment(inherits, &spec.env);
        env.extend(
            spec.env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        env
    }

    /// Checks that the session to resume exists and is not in use.
    fn check_resume(
        &self,
        dialect: &dyn Dialect,
        spec: &Spec,
        inherits: &Inherits,
    ) -> Result<ResumeCheck, ResumeProblem> {
        let (Some(transcripts), Some(id)) = (dialect.about().transcripts, spec.resume.as_deref())
        else {
            return Ok(ResumeCheck::default());
        };
        let Some(root) = resume::root(transcripts.roots, &self.environment(spec, inherits)) else {
            return Ok(ResumeCheck::default());
        };
        let known = self.host.log().and_then(|log| log.find(id).ok().flatten());
        // Ignore this session's own record when its agent is restarted.
        let known = known.filter(|known| *known.session != *self.id);
        let fork = spec.fork;
        let request = ResumeRequest {
            agent: dialect.about().name,
            root: &root,
            dir: &self.dir,
            id,
            fork,
        };
        resume::check(transcripts, &request, known.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // P27: what is shared is the login, not the agent.
    #[test]
    fn agents_with_the_same_login_have_the_same_path() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        std::os::unix::fs::symlink(home.join(".claude"), dir.path().join("link")).unwrap();
        let login = |agent: &str, variable: Option<(&str, &Path)>| {
            let home = ("HOME".into(), home.clone().into_os_string());
            let more = variable.map(|(name, value)| (name.into(), value.into()));
            let host = Host::new(std::iter::once(home).chain(more));
            let agent = super::super::Agents::builtin().get(agent).unwrap();
            agent.login(&host, &Spec::new("x"))
        };
        let usual = login("claude", None).unwrap();
        assert_eq!(usual, home.canonicalize().unwrap().join(".claude"));
        assert_eq!(login("claude-agent-acp", None).unwrap(), usual);
        let link = dir.path().join("link");
        let linked = login("claude", Some(("CLAUDE_CONFIG_DIR", &link)));
        assert_eq!(linked.unwrap(), usual, "another name of the same directory");
        let other = login("claude", Some(("CLAUDE_CONFIG_DIR", Path::new("/other/"))));
        assert_eq!(other.unwrap(), Path::new("/other"));
        assert_eq!(login("codex", None), login("codex-acp", None));
        assert_ne!(login("codex", None).unwrap(), usual);
        assert_eq!(login("scripted", None), None);
        let paths: Vec<PathBuf> = super::super::Agents::builtin()
            .iter()
            .filter_map(|agent| login(agent.about().name, None))
            .collect();
        assert!(paths.iter().all(|path| *path != home), "{paths:?}");
    }
}
