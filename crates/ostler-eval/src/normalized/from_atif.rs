//! Normalized logs from trajectories in the Agent Trajectory Interchange Format.

use serde_json::Value;

use super::{
    ExecutionFacts, LogMessage, LogToolCall, LogUsage, MessageRole, NormalizedLog, complete, empty,
};
use crate::atif::{Step, StepSource, Trajectory};

/// Builds the log of a trajectory.
#[must_use]
pub fn from_atif(facts: &ExecutionFacts, trajectory: &Trajectory) -> NormalizedLog {
    let mut log = empty(facts);
    log.agent_info.version.clone_from(&trajectory.agent.version);
    if trajectory.agent.model_name.is_some() {
        log.model_info.name.clone_from(&trajectory.agent.model_name);
    }
    for step in &trajectory.steps {
        push(&mut log, step);
    }
    log.usage = trajectory.final_metrics.as_ref().map(|totals| LogUsage {
        input_tokens: totals.total_prompt_tokens,
        cached_input_tokens: totals.total_cached_tokens,
        output_tokens: totals.total_completion_tokens,
        reasoning_tokens: None,
        total_tokens: totals
            .total_prompt_tokens
            .zip(totals.total_completion_tokens)
            .map(|(input, output)| input.saturating_add(output)),
        cost_usd: totals.total_cost_usd,
        cost_source: match totals.total_cost_usd {
            Some(_) => "reported".to_owned(),
            None => "unknown".to_owned(),
        },
    });
    complete(log)
}

fn push(log: &mut NormalizedLog, step: &Step) {
    let calls = step.tool_calls.as_deref().unwrap_or_default();
    log.messages.push(LogMessage {
        role: match step.source {
            StepSource::System => MessageRole::System,
            StepSource::User => MessageRole::User,
            StepSource::Agent => MessageRole::Assistant,
        },
        content: step.text(),
        timestamp: step.timestamp.clone(),
        tool_call_ids: calls.iter().map(|call| call.tool_call_id.clone()).collect(),
        tool_call_id: None,
    });
    for call in calls {
        log.tool_calls.push(LogToolCall {
            id: call.tool_call_id.clone(),
            name: call.function_name.clone(),
            arguments: Value::Object(call.arguments.clone()).to_string(),
            result: None,
            ok: None,
            timestamp: step.timestamp.clone(),
        });
    }
    for result in step.observation.iter().flat_map(|it| &it.results) {
        let text = match &result.content {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let mut known = log.tool_calls.iter_mut().rev();
        if let Some(call) = known.find(|call| Some(&call.id) == result.source_call_id.as_ref()) {
            call.result = Some(text.clone());
        }
        log.messages.push(LogMessage {
            role: MessageRole::Tool,
            content: text,
            timestamp: step.timestamp.clone(),
            tool_call_ids: Vec::new(),
            tool_call_id: result.source_call_id.clone(),
        });
    }
}
