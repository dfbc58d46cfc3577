//! Normalized logs with the field names that youBencha 1.0 publishes.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{LogToolCall, MessageRole, NormalizedLog};

/// Converts a log to the published field names. That format has no null, so that an unknown token
/// count is zero there, with `measurement_source` `unavailable`.
#[must_use]
pub fn published(log: &NormalizedLog) -> Value {
    let unknown = || "unknown".to_owned();
    let usage = log.usage.as_ref();
    let tokens = |get: fn(&super::LogUsage) -> Option<u64>| usage.and_then(get).unwrap_or(0);
    let measured = usage.is_some_and(|usage| usage.total_tokens.is_some());
    let mut counts = json!({
        "prompt_tokens": tokens(|usage| usage.input_tokens),
        "completion_tokens": tokens(|usage| usage.output_tokens),
        "total_tokens": tokens(|usage| usage.total_tokens),
        "measurement_source": if measured { "measured" } else { "unavailable" },
    });
    let optional = [
        (
            "cached_prompt_tokens",
            usage
                .and_then(|usage| usage.cached_input_tokens)
                .map(Value::from),
        ),
        (
            "reasoning_tokens",
            usage
                .and_then(|usage| usage.reasoning_tokens)
                .map(Value::from),
        ),
        (
            "cost_usd",
            usage.and_then(|usage| usage.cost_usd).map(Value::from),
        ),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            counts[name] = value;
        }
    }
    let started = &log.execution.started_at;
    let calls: HashMap<&str, &LogToolCall> = log
        .tool_calls
        .iter()
        .rev() // of two calls with one id, the first is meant
        .map(|call| (call.id.as_str(), call))
        .collect();
    json!({
        "version": "1.0.0",
        "agent": {
            "name": log.agent_info.name,
            "version": log.agent_info.version,
            "adapter_version": log.agent_info.adapter_version,
        },
        "model": {
            "name": log.model_info.name.clone().unwrap_or_else(unknown),
            "provider": log.model_info.provider.clone().unwrap_or_else(unknown),
            "parameters": log.model_info.parameters,
        },
        "execution": {
            "started_at": log.execution.started_at,
            "completed_at": log.execution.completed_at,
            "duration_ms": log.execution.duration_ms,
            "exit_code": log.execution.exit_code.unwrap_or(-1),
            "status": log.execution.status,
        },
        "messages": log.messages.iter().map(|message| {
            let ids = message.tool_call_ids.iter();
            let calls = ids.filter_map(|id| calls.get(id.as_str()).map(|call| tool_call(call)));
            let calls: Vec<Value> = calls.collect();
            let mut value = json!({
                "role": message.role,
                "content": message.content,
                "timestamp": message.timestamp.as_ref().unwrap_or(started),
            });
            if !calls.is_empty() {
                value["tool_calls"] = Value::from(calls);
            }
            if let (MessageRole::Tool, Some(id)) = (message.role, &message.tool_call_id) {
                value["tool_call_id"] = Value::from(id.as_str());
            }
            value
        }).collect::<Vec<_>>(),
        "usage": counts,
        "errors": log.errors.iter().map(|error| json!({
            "message": error.message,
            "timestamp": error.timestamp.as_ref().unwrap_or(&log.execution.completed_at),
        })).collect::<Vec<_>>(),
        "environment": {
            "os": log.environment.os,
            "node_version": "none",
            "youbencha_version": format!("ostler {}", log.environment.ostler_version),
            "working_directory": log.environment.working_directory,
        },
    })
}

fn tool_call(call: &LogToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}
