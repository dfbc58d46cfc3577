//! The system prompt: workspace, tools and boundaries.

use crate::config::LoopConfig;
use crate::runner_protocol::Ready;

/// Builds the system prompt.
pub(crate) fn prompt(config: &LoopConfig, ready: &Ready) -> String {
    let base = config
        .system_prompt
        .clone()
        .unwrap_or_else(|| standard(config, ready));
    // A server gets the schema in the request; a model that is not an API needs it in the prompt.
    let schema = config
        .json_schema
        .as_ref()
        .filter(|_| ready.looping.is_some());
    let schema = schema.map(|schema| {
        format!(
            "Your last answer is nothing but JSON of this schema: {}",
            schema.get()
        )
    });
    let parts = [Some(base), config.append_system_prompt.clone(), schema]
        .into_iter()
        .flatten();
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn standard(config: &LoopConfig, ready: &Ready) -> String {
    let asks = ready.looping.as_ref().is_some_and(|looping| looping.asks);
    let alone = if asks {
        "."
    } else {
        ": there is no one to answer questions while you work."
    };
    let mut text = format!(
        "You are a coding agent. You work in the directory {} (the workspace) and finish the task that the user gives \
         you, on your own{alone}\n",
        ready.cwd
    );
    if ready.tools.is_empty() {
        text.push_str("\nYou have no tools: answer from what you are told.\n");
    } else {
        let names: Vec<&str> = ready.tools.iter().map(|tool| tool.name.as_str()).collect();
        text.push_str(&format!(
            "\nTools: {}. Paths are relative to the workspace. Look before you change: read a file before you edit it, and \
             prefer small edits to rewriting. Check your work with the commands that the project has for it. A tool that fails \
             says why; fix the call or try another way. Independent calls that only read can be made together.\n",
            names.join(", ")
        ));
        text.push_str(
            "\nBoundaries: files outside the workspace and files that hold secrets cannot be reached, and some commands \
             are not allowed. Do not try to get around this; say what you could not do.\n",
        );
        if !ready.sandbox.is_empty() {
            text.push_str(&ready.sandbox);
            text.push('\n');
        }
        text.push_str(&format!(
            "\nLimits: at most {} steps for this task.\n",
            config.max_turns
        ));
    }
    text.push_str("\nWhen you are done, say in a few sentences what you did and what you found.");
    text
}
