//! Judges: an agent session that may only read, or a plain model.

use ostler::Models;
use ostler::adapter::Message;
use ostler::host::LoginCopy;
use ostler::sandbox::Sandbox;
use ostler::sandbox::program::sandbox_gap;
use ostler::spec::keys;
use ostler_eval::case::{Contender, TrialLimits};
use ostler_eval::embedder::AgentRequest;
use ostler_eval::evaluators::judge::{
    JudgeBackend, JudgeError, JudgeFuture, JudgeReply, JudgeRequest,
};
use ostler_eval::workspace::PrivateHome;

use super::program::Program;
use crate::fault::{Fault, Result};

/// Maximum number of steps of an agent that judges.
const MAX_TURNS: u32 = 50;

impl JudgeBackend for Program {
    fn ask<'a>(&'a self, request: &'a JudgeRequest) -> JudgeFuture<'a> {
        Box::pin(async {
            let reply = match &request.agent {
                Some(agent) => self.ask_agent(agent, request).await,
                None => self.ask_model(request).await,
            };
            reply.map_err(|fault| {
                let outcome = fault.outcome();
                JudgeError(match outcome.hint {
                    Some(hint) => format!("{} ({hint})", outcome.message),
                    None => outcome.message,
                })
            })
        })
    }
}

impl Program {
    /// Asks an agent in a session on the copy of the workspace.
    async fn ask_agent(&self, agent: &str, request: &JudgeRequest) -> Result<JudgeReply> {
        let wanted = AgentRequest {
            contender: Contender {
                label: agent.to_owned(),
                agent: agent.to_owned(),
                model: request.model.clone(),
                settings: request.settings.clone().into_iter().collect(),
                prompt: None,
                instructions: None,
            },
            prompt: request.prompt.clone(),
            dir: request.workspace.clone(),
            limits: TrialLimits::default(),
        };
        let prepared = self.prepare_reader(&wanted).await?;
        let (agent, mut host) = (prepared.agent, prepared.host);
        let mut spec = prepared.spec.dir(request.workspace.clone());
        let mut login = LoginCopy::default();
        if !self.share_login {
            let home = PrivateHome::beside(&request.workspace).map_err(Fault::internal)?;
            let copied = home.copy_login(&host, agent.dialect());
            login =
                copied.map_err(|error| usage!("the judge's login cannot be copied: {error}"))?;
            let (private, toolchains) = home.host(host, Some(agent.dialect()));
            host = private;
            for (name, value) in toolchains {
                spec.env.entry(name).or_insert(value);
            }
        }
        let about = agent.about();
        let holds = about.is_program() && sandbox_gap(&host, &request.workspace).is_none();
        spec.sandbox = if holds {
            Sandbox::ReadOnly
        } else {
            Sandbox::Usual
        };
        if about.accepts(keys::JSON_SCHEMA) {
            spec.json_schema = Some(request.schema.to_string());
        }
        if about.accepts(keys::MAX_TURNS) && spec.max_turns.is_none() {
            spec.max_turns = Some(MAX_TURNS);
        }
        spec.limits.wall = Some(request.timeout);
        let mut session = agent
            .start(&host, spec)
            .map_err(|error| usage!("the judge cannot be started: {error}"))?;
        let run = session.wait().await;
        drop(login);
        if !run.outcome().is_success() {
            let outcome = run.outcome();
            let hint = outcome.hint.as_deref().unwrap_or("see the judge's session");
            return Err(usage!("the judge failed: {}", outcome.message).hint(hint));
        }
        let structured = run.turn.as_ref().and_then(|turn| turn.structured.as_ref());
        Ok(JudgeReply {
            text: run.text().to_owned(),
            structured: structured.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            usage: run.ended.usage.clone(),
        })
    }

    /// Asks a plain model, which sees nothing but the prompt.
    async fn ask_model(&self, request: &JudgeRequest) -> Result<JudgeReply> {
        let name = request.model.as_deref().unwrap_or_default();
        let config = self.configuration()?;
        let models =
            Models::new(self.host.clone(), config.agents().clone()).timeout(request.timeout);
        let model = models.get(name).map_err(|error| usage!("{error}"))?;
        let messages = [Message::user(request.prompt.clone())];
        let reply = tokio::time::timeout(request.timeout, model.invoke(&messages));
        let reply = reply
            .await
            .map_err(|_| usage!("the judge took longer than {} s", request.timeout.as_secs()))?
            .map_err(|error| usage!("the judge failed: {error}"))?;
        let usage = reply.usage.into_iter().reduce(|mut sum, part| {
            sum.add(&part);
            sum
        });
        Ok(JudgeReply {
            text: reply.content,
            structured: None,
            usage,
        })
    }
}
