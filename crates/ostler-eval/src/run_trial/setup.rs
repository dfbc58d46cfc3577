//! Setup of a trial: the agent, its isolation, and a fresh workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ostler::host::LoginCopy;
use ostler::sandbox::Sandbox;
use ostler::spec::{ProjectSettings, keys};
use ostler::{Cause, Host};

use super::reference::Reference;
use super::{TrialRequest, TrialServices, agent_request, is_program, runtime};
use crate::adapter::{AgentAdapter, AvailabilityError};
use crate::case::{Case, Expected, Isolation, Source};
use crate::embedder::EmbedderError;
use crate::git::{GitError, Seed, Snapshot};
use crate::private_root;
use crate::tree::{self, Omit};
use crate::trial::{TrialIdentity, TrialResult};
use crate::workspace::{
    CommandPlace, IsolationError, PrivateHome, Scratch, ceiling, choose_isolation,
};

/// A trial that is ready for its agent.
pub(super) struct Ready {
    pub(super) agent: TrialAgent,
    /// The copy of the agent's login in its home.
    pub(super) login: LoginCopy,
    pub(super) scratch: Scratch,
    pub(super) seed: Seed,
    /// The workspace as the agent found it.
    pub(super) base: Snapshot,
    /// Directory with what is expected.
    pub(super) expected: Option<PathBuf>,
    /// Whether the run's budget limits the agent more than the case does.
    pub(super) is_capped_by_run: bool,
}

/// What works in a trial.
pub(super) enum TrialAgent {
    /// An agent of the embedder.
    Adapter(Box<AgentAdapter>),
    /// One without a model.
    Reference(Reference),
}

/// A failure that is not the agent's.
#[derive(Debug)]
pub(super) struct Setback {
    pub(super) message: String,
    /// Whether it may pass by itself.
    pub(super) is_transient: bool,
    pub(super) cause: Option<Cause>,
}

impl Setback {
    pub(super) fn lasting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_transient: false,
            cause: None,
        }
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |error| Self::lasting(format!("{}: {error}", path.display()))
    }
}

impl From<GitError> for Setback {
    fn from(error: GitError) -> Self {
        // A network may come back, a missing revision does not.
        let is_transient = matches!(error, GitError::Command { .. });
        Self {
            is_transient,
            ..Self::lasting(error.to_string())
        }
    }
}

impl From<IsolationError> for Setback {
    fn from(error: IsolationError) -> Self {
        Self::lasting(error.to_string())
    }
}

impl From<EmbedderError> for Setback {
    fn from(error: EmbedderError) -> Self {
        Self {
            cause: Some(Cause::BadRequest),
            ..Self::lasting(error.to_string())
        }
    }
}

impl From<AvailabilityError> for Setback {
    fn from(error: AvailabilityError) -> Self {
        Self {
            cause: Some(Cause::Auth),
            ..Self::lasting(error.to_string())
        }
    }
}

/// Prepares everything up to the start of the agent.
pub(super) async fn prepare(
    request: &TrialRequest,
    services: &TrialServices,
    identity: &mut TrialIdentity,
) -> Result<Ready, Setback> {
    let artifacts = &request.artifacts;
    fs::create_dir_all(artifacts).map_err(Setback::io(artifacts))?;
    let scratch = create_scratch(request, services)?;
    let host = services.embedder.host();
    let isolation = choose_isolation(
        services.options.isolation,
        &request.case,
        &host,
        scratch.root(),
    )?;
    identity.isolation = isolation;
    let workspace = scratch.workspace();
    fs::create_dir_all(&workspace).map_err(Setback::io(&workspace))?;
    let home = create_home(services, &scratch)?;
    let place = AgentPlace {
        scratch: &scratch,
        home: home.as_ref(),
        isolation,
    };
    let reference = Reference::of(&request.contender.agent);
    let login = match reference {
        Some(agent) => {
            agent.check(&request.case)?;
            LoginCopy::default()
        }
        // An agent that cannot be used is reported before anything is checked out.
        None => check_agent(request, services, &place, identity).await?,
    };
    let seed = services.git.seed(&request.case.source).await?;
    identity.commit = seed.commit().to_owned();
    let base = create_workspace(request, services, &scratch, &seed, isolation).await?;
    let expected = check_out_expected(&request.case, services, &scratch).await?;
    let (agent, is_capped_by_run) = match reference {
        Some(agent) => (TrialAgent::Reference(agent), false),
        None => {
            // The embedder reads the files that the repository has for Ostler.
            let prepared = prepare_agent(request, services, &place).await?;
            let adapter = Box::new(prepared.adapter);
            (TrialAgent::Adapter(adapter), prepared.is_capped_by_run)
        }
    };
    Ok(Ready {
        agent,
        login,
        scratch,
        seed,
        base,
        expected,
        is_capped_by_run,
    })
}

/// Checks that the agent can be used, and copies its login to its home.
async fn check_agent(
    request: &TrialRequest,
    services: &TrialServices,
    place: &AgentPlace<'_>,
    identity: &mut TrialIdentity,
) -> Result<LoginCopy, Setback> {
    let PreparedTrial { adapter, user, .. } = prepare_agent(request, services, place).await?;
    let login = match place.home {
        Some(home) => home
            .copy_login(&user, adapter.agent.dialect())
            .map_err(|error| Setback::lasting(format!("the login cannot be copied: {error}")))?,
        None => LoginCopy::default(),
    };
    identity.agent = adapter.agent.about().name.to_owned();
    if let Some(model) = &adapter.spec.model {
        identity.model = Some(model.clone());
    }
    let availability = adapter.check_availability().await?;
    identity.agent_version = availability.version;
    if !availability.available {
        let reason = availability.reason.unwrap_or_default();
        return Err(Setback {
            cause: Some(Cause::Unavailable),
            ..Setback::lasting(reason)
        });
    }
    Ok(login)
}

/// Creates the directories of the attempt.
pub(super) fn create_scratch(
    request: &TrialRequest,
    services: &TrialServices,
) -> Result<Scratch, Setback> {
    let key = request.key();
    let text = format!("{}/{}/{}", key.case, key.contender, key.repetition);
    let hash = crate::identity::sha256(&text);
    let settings = &request.case.workspace;
    let prefix = settings.name.as_deref().unwrap_or(&request.run);
    let name = format!("{prefix}-{}-{}", &hash[..12], request.attempt);
    let work = settings.dir.as_deref().unwrap_or(&services.work);
    let keep = services.options.keep_workspaces;
    Scratch::create(work, &name, keep).map_err(Setback::io(work))
}

/// Creates the agent's private home, unless agents use the user's.
fn create_home(
    services: &TrialServices,
    scratch: &Scratch,
) -> Result<Option<PrivateHome>, Setback> {
    if services.options.share_login {
        return Ok(None);
    }
    let home = scratch.home("agent", None);
    home.map(Some).map_err(Setback::io(scratch.root()))
}

/// Where an agent works.
struct AgentPlace<'a> {
    scratch: &'a Scratch,
    home: Option<&'a PrivateHome>,
    isolation: Isolation,
}

/// An agent with its home, limits and isolation.
struct PreparedTrial {
    adapter: AgentAdapter,
    /// The host with the user's home.
    user: Host,
    is_capped_by_run: bool,
}

/// Prepares the agent with its home, limits and isolation.
async fn prepare_agent(
    request: &TrialRequest,
    services: &TrialServices,
    place: &AgentPlace<'_>,
) -> Result<PreparedTrial, Setback> {
    let AgentPlace {
        scratch,
        home,
        isolation,
    } = *place;
    let workspace = scratch.workspace();
    let wanted = agent_request(request, workspace.clone());
    let prepared = services.embedder.prepare(&wanted).await?;
    let user = prepared.host.clone();
    let mut adapter = AgentAdapter {
        agent: prepared.agent,
        host: prepared.host,
        spec: prepared.spec.dir(workspace.clone()),
    };
    adapter.spec.prompt = wanted.prompt;
    // The repository is the subject of the trial; its hooks and servers are not the agent's.
    if adapter.spec.project_settings == ProjectSettings::Untrusted {
        adapter.spec.project_settings = ProjectSettings::Ignored;
    }
    if let Some(home) = home {
        let (host, toolchains) = home.host(adapter.host, Some(adapter.agent.dialect()));
        adapter.host = host;
        for (name, value) in toolchains {
            adapter.spec.env.entry(name).or_insert(value);
        }
    }
    let mut hidden = hidden(request, services);
    // Hiding a directory around the workspace would hide the workspace.
    hidden.retain(|path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        !scratch.root().starts_with(real)
    });
    if isolation == Isolation::PrivateRoot {
        enter_private_root(request, scratch, &mut adapter)?;
    }
    adapter.host = adapter.host.with_hidden(hidden);
    let ceiling = ceiling(&workspace).to_string_lossy().into_owned();
    let env = &mut adapter.spec.env;
    env.entry("GIT_CEILING_DIRECTORIES".to_owned())
        .or_insert(ceiling);
    adapter.spec.sandbox = match (isolation, is_program(&adapter)) {
        (Isolation::Directory, true) => Sandbox::Usual,
        (Isolation::Directory, false) => Sandbox::Off,
        (_, true) => Sandbox::WorkspaceWrite,
        // Commands of an agent without a process are always confined.
        (_, false) => Sandbox::Usual,
    };
    let is_capped_by_run = limit(request, &mut adapter);
    Ok(PreparedTrial {
        adapter,
        user,
        is_capped_by_run,
    })
}

/// Puts the agent into a private root, in which the task's directory is empty.
fn enter_private_root(
    request: &TrialRequest,
    scratch: &Scratch,
    adapter: &mut AgentAdapter,
) -> Result<(), Setback> {
    if !is_program(adapter) {
        let name = adapter.agent.about().name;
        let message = format!(
            "{name} runs inside Ostler and cannot be put into a private root; use an agent with a \
             program"
        );
        return Err(Setback::lasting(message));
    }
    let root = private_root::of_case(request.case.mounts.as_ref());
    let mut masked: Vec<PathBuf> = request
        .case
        .mounts
        .iter()
        .map(|root| root.task_dir.clone())
        .collect();
    masked.retain(|path| !scratch.root().starts_with(path));
    let dir = scratch.part("agent-root");
    let layout = private_root::for_agent(&root, dir, &scratch.workspace(), &masked);
    let layout = layout.map_err(|error| Setback::lasting(error.to_string()))?;
    adapter.host = adapter.host.clone().with_private_root(layout);
    for (name, value) in root.env {
        adapter.spec.env.entry(name).or_insert(value);
    }
    Ok(())
}

/// Sets the limits of a trial. Returns true if the run's budget is lower than the case's limit.
fn limit(request: &TrialRequest, adapter: &mut AgentAdapter) -> bool {
    let limits = &request.case.limits;
    let spec = &mut adapter.spec;
    if let Some(timeout) = limits.timeout {
        spec.limits.wall = Some(timeout);
    }
    spec.max_turns = limits.max_turns.or(spec.max_turns);
    spec.limits.budget_tokens = limits.max_tokens.or(spec.limits.budget_tokens);
    let own = limits.max_budget_usd.or(spec.max_budget_usd);
    let lowest = match (own, request.cap_usd) {
        (Some(own), Some(cap)) => Some(own.min(cap)),
        (own, cap) => own.or(cap),
    };
    spec.limits.budget_usd = lowest;
    spec.max_budget_usd = match adapter.agent.about().accepts(keys::MAX_BUDGET_USD) {
        true => lowest,
        false => None,
    };
    lowest.is_some() && lowest != own
}

/// Returns paths that the agent must not read: later commits, results, and what is expected.
fn hidden(request: &TrialRequest, services: &TrialServices) -> Vec<PathBuf> {
    let case = &request.case;
    let mut paths = vec![
        services.git.cache().to_owned(),
        request.artifacts.clone(),
        case.file.clone(),
    ];
    match &case.expected {
        Some(Expected::Directory(path) | Expected::Patch(path)) => paths.push(path.clone()),
        Some(Expected::Revision(_)) | None => {}
    }
    paths.extend(case.mounts.as_ref().map(|root| root.task_dir.clone()));
    // Hidden tests and programs beside the case.
    paths.extend(case.evaluator_paths());
    // Git reads a repository on this machine in place; its later commits must stay hidden too.
    if let Source::Repository { url, .. } = &case.source {
        let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
        if path.is_dir() {
            paths.push(path.to_owned());
        }
    }
    if let Source::Directory(path) = &case.source {
        paths.push(path.clone());
    }
    paths
}

/// Checks the base out, runs the case's setup, and copies the result as the agent's workspace.
async fn create_workspace(
    request: &TrialRequest,
    services: &TrialServices,
    scratch: &Scratch,
    seed: &Seed,
    isolation: Isolation,
) -> Result<Snapshot, Setback> {
    let snapshot = create_base(request, services, scratch, seed, isolation).await?;
    let (base, workspace) = (scratch.base(), scratch.workspace());
    tree::copy(&base, &workspace, Omit::Git).map_err(Setback::io(&workspace))?;
    // What the case's setup installed in its home is the agent's too.
    let (setup, agent) = (scratch.part("setup-home"), scratch.part("agent-home"));
    if agent.is_dir() {
        tree::copy(&setup, &agent, Omit::Nothing).map_err(Setback::io(&agent))?;
    }
    // The image of a Harbor task has no repository.
    if request.case.mounts.is_none() {
        services.git.give_repository(seed, &workspace).await?;
    }
    Ok(snapshot)
}

/// Creates the base of an earlier attempt again.
pub(super) async fn restore_base(
    request: &TrialRequest,
    services: &TrialServices,
    scratch: &Scratch,
    old: &TrialResult,
    isolation: Isolation,
) -> Result<(Seed, Snapshot), Setback> {
    let source = match &request.case.source {
        Source::Repository { url, branch, .. } => Source::Repository {
            url: url.clone(),
            branch: branch.clone(),
            commit: Some(old.identity.commit.clone()),
        },
        other => other.clone(),
    };
    let seed = services.git.seed(&source).await?;
    if seed.commit() != old.identity.commit {
        let message = "the case's directory has changed since; a trial cannot be regraded then";
        return Err(Setback::lasting(message));
    }
    let base = create_base(request, services, scratch, &seed, isolation).await?;
    Ok((seed, base))
}

/// Checks the base out and runs the case's setup in it.
async fn create_base(
    request: &TrialRequest,
    services: &TrialServices,
    scratch: &Scratch,
    seed: &Seed,
    isolation: Isolation,
) -> Result<Snapshot, Setback> {
    let base = scratch.base();
    services.git.check_out(seed, &base).await?;
    let root = request.case.mounts.iter();
    for (source, target, workdir) in root.flat_map(|root| {
        let copies = root.copies.iter();
        copies.map(|(source, target)| (source, target, &root.workdir))
    }) {
        if let Ok(below) = target.strip_prefix(workdir) {
            private_root::copy_to(source, &base.join(below)).map_err(Setback::io(source))?;
        }
    }
    if let Some(instructions) = &request.contender.instructions {
        let file = base.join("AGENTS.md");
        tree::remove(&file).map_err(Setback::io(&file))?; // it may be a link
        fs::write(&file, instructions).map_err(Setback::io(&file))?;
    }
    let home = scratch.home("setup", None);
    let home = home.map_err(Setback::io(scratch.root()))?;
    let host = services.embedder.host();
    let place = CommandPlace::new(host, &home, base.clone(), isolation);
    for command in &request.case.pre_execution {
        let command = runtime::command(command, request, &base);
        let shown = command.argv.join(" ");
        let output = place.run(&command).await;
        let output = output.map_err(|error| Setback::lasting(format!("pre_execution: {error}")))?;
        if !output.succeeded() {
            let ending = match output.exit_code {
                Some(code) => format!("exit code {code}"),
                None if output.timed_out => "it took too long".to_owned(),
                None => "it was killed".to_owned(),
            };
            let stderr = output.stderr_text();
            let message = format!("pre_execution `{shown}` failed ({ending}): {stderr}");
            return Err(Setback::lasting(message));
        }
    }
    let trial = scratch.trial();
    Ok(services.git.snapshot(seed, &trial, &base, &base).await?)
}

/// Creates a directory with what is expected.
pub(super) async fn check_out_expected(
    case: &Case,
    services: &TrialServices,
    scratch: &Scratch,
) -> Result<Option<PathBuf>, Setback> {
    let target = scratch.part("expected");
    match &case.expected {
        None => return Ok(None),
        Some(Expected::Directory(path)) => {
            tree::copy(path, &target, Omit::Git).map_err(Setback::io(path))?;
        }
        Some(Expected::Revision(revision)) => {
            let Source::Repository { url, .. } = &case.source else {
                let message = "`expected` names a revision, but the case has no repository";
                return Err(Setback::lasting(message));
            };
            let source = Source::Repository {
                url: url.clone(),
                branch: None,
                commit: Some(revision.clone()),
            };
            let seed = services.git.seed(&source).await?;
            services.git.check_out(&seed, &target).await?;
        }
        Some(Expected::Patch(patch)) => {
            tree::copy(&scratch.base(), &target, Omit::Git).map_err(Setback::io(&target))?;
            services.git.apply_patch(&target, patch).await?;
        }
    }
    Ok(Some(target))
}
