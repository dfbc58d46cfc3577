//! Scripted agents of the benchmarks: the same programs and lines for every contender.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Number of lines that the agent `latency` prints.
const LATENCY_LINES: usize = 1500;

/// Sizes of the output of the agent `mixed`, and of each input of the row `decode`.
const MIXED_BYTES: usize = 40_000_000;
const DECODE_BYTES: usize = 16_000_000;

/// Size of the input whose instructions are counted.
const COUNTED_BYTES: usize = 1_000_000;

/// Deltas printed by the agents `events-N`.
pub(super) const EVENTS: [usize; 4] = [500, 5_000, 50_000, 500_000];

/// The message that starts a turn.
pub(super) const PROMPT: &str =
    "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

/// Writes the agents and their lines to `dir`.
pub(super) fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let dir = &dir.canonicalize()?;
    let deltas = |count: usize| delta("some words, ").repeat(count);
    for (name, lines) in [
        ("idle", String::new()),
        ("short", deltas(11)),
        ("warm", deltas(5_000)),
        ("mixed", fill(MIXED_BYTES, mixed_lines)),
    ] {
        write_replay(dir, name, &lines)?;
    }
    for count in EVENTS {
        write_replay(dir, &format!("events-{count}"), &deltas(count))?;
    }
    for (name, lines) in [
        ("deltas", fill(DECODE_BYTES, |_| delta("some words, "))),
        ("results", fill(DECODE_BYTES, tool_lines)),
        ("mixed", fill(DECODE_BYTES, mixed_lines)),
        ("counted", fill(COUNTED_BYTES, mixed_lines)),
    ] {
        std::fs::write(dir.join(format!("decode-{name}.jsonl")), lines)?;
    }
    std::fs::write(dir.join("prompt.jsonl"), PROMPT)?;
    let own = std::env::current_exe().context("find this program")?;
    let lines = format!("'{}' bench __latency", own.display());
    write_agent(&dir.join("latency"), &lines)
}

/// Writes the agents of the benchmark of the daemon to `dir`: folders `idle.bin`, `long.bin` and
/// `burst.bin` with the programs that a server finds on its path. An agent in `burst.bin` prints
/// this many deltas per turn.
pub(super) fn write_daemon_agents(dir: &Path, events: usize) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let dir = &dir.canonicalize()?;
    for (name, count) in [("idle", 1), ("long", 1_000), ("burst", events)] {
        write_replay(dir, name, &delta("some words, ").repeat(count))?;
        let path = dir.join(format!("{name}.acp.jsonl"));
        std::fs::write(&path, ACP_UPDATE.repeat(count))?;
        let script = ACP_AGENT.replace("UPDATES", &path.display().to_string());
        write_script(&dir.join(format!("{name}.bin/claude-agent-acp")), &script)?;
    }
    std::fs::write(dir.join("burst.count"), events.to_string())?;
    Ok(())
}

const ACP_UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words, "}}}}
"#;

/// An agent of the Agent Client Protocol, which answers each message with the lines of a file.
const ACP_AGENT: &str = r#"#!/bin/sh
case "$*" in
-v | --version) echo '0.61.0'; exit ;;
esac
while read -r line; do
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}' ;;
    *'"session/new"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*) cat 'UPDATES'; echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
    *'"id":'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{}}' ;;
    esac
done
"#;

/// Writes an agent that prints a turn with these lines.
fn write_replay(dir: &Path, name: &str, lines: &str) -> Result<()> {
    let path = dir.join(format!("{name}.jsonl"));
    let turn = format!("{INIT}\n{lines}{ASSISTANT}\n{RESULT}\n");
    std::fs::write(&path, turn)?;
    write_agent(&dir.join(name), &format!("cat '{}'", path.display()))
}

/// Writes an agent that answers control requests, and each message with what `lines` prints. A
/// prompt can also be an argument after `--print --`; the agent exits after that turn.
///
/// The folder `PATH.bin` has the agent as `claude`, for SDKs that search the path.
fn write_agent(path: &Path, lines: &str) -> Result<()> {
    let script = format!(
        r#"#!/bin/sh
case "$*" in
-v | --version) echo '2.1.325 (Claude Code)'; exit ;;
*'--print -- '*) {lines}; exit ;;
esac
while read -r line; do
    case $line in
    *'"control_request"'*)
        id=${{line#*'"request_id":'}}; id=${{id#*'"'}}; id=${{id%%'"'*}}
        echo '{{"type":"control_response","response":{{"subtype":"success","request_id":"'"$id"'","response":{{}}}}}}'
        ;;
    *'"user"'*) {lines} ;;
    esac
done
"#
    );
    let mut folder = path.as_os_str().to_owned();
    folder.push(".bin");
    std::fs::create_dir_all(&folder)?;
    for path in [path.to_owned(), Path::new(&folder).join("claude")] {
        write_script(&path, &script)?;
    }
    Ok(())
}

fn write_script(path: &Path, script: &str) -> Result<()> {
    std::fs::write(path, script)?;
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

/// Concatenates groups of lines, each made from its number, until they have `bytes` bytes.
fn fill(bytes: usize, lines: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < bytes {
        number += 1;
        text.push_str(&lines(number));
    }
    text
}

fn mixed_lines(number: usize) -> String {
    delta("some words, ").repeat(200) + &tool_lines(number)
}

/// Prints lines that say when they were written.
pub(super) fn print_latency_lines() -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{INIT}")?;
    for _ in 0..LATENCY_LINES {
        std::thread::sleep(Duration::from_micros(300));
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        out.write_all(delta(&now.as_nanos().to_string()).as_bytes())?;
        out.flush()?;
    }
    write!(out, "{ASSISTANT}\n{RESULT}\n")?;
    let _ = std::io::stdin().lock().lines().next();
    Ok(())
}

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/workspace","session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","tools":["Task","Bash","Edit","Read","Write"],"mcp_servers":[],"model":"a-model","permissionMode":"default","slash_commands":[],"apiKeySource":"none","claude_code_version":"2.1.325","output_style":"default","agents":[],"skills":[],"plugins":[],"uuid":"e3fc2062-c00b-42d3-9491-26402072b76f"}"#;

const ASSISTANT: &str = r#"{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"a-model","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":1,"service_tier":"standard"}},"parent_tool_use_id":null,"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","uuid":"5a7b0d1e-8a41-41a4-9bb4-6de0dbb4f1f0"}"#;

const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":120,"duration_api_ms":80,"num_turns":1,"result":"done","stop_reason":"end_turn","session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","total_cost_usd":0.0009372,"usage":{"input_tokens":100,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":25,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{},"permission_denials":[],"uuid":"0f5c6b8e-3c53-4a3e-8a54-0a4a5a2c7d11"}"#;

/// A line with a piece of a reply, as it arrives while a model writes.
fn delta(text: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","parent_tool_use_id":null,"uuid":"2fea2793-8ced-486b-8b00-bd29b87626a6"}}
"#
    )
}

/// The lines of a tool call that reads a large file, and its result.
fn tool_lines(number: usize) -> String {
    let text = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(2000);
    let mut lines = format!(
        r#"{{"type":"assistant","message":{{"id":"msg_{number}","type":"message","role":"assistant","model":"a-model","content":[{{"type":"tool_use","id":"toolu_{number}","name":"Read","input":{{"file_path":"/workspace/main.rs"}}}}],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":100,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":1,"service_tier":"standard"}}}},"parent_tool_use_id":null,"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","uuid":"4a7b0d1e-8a41-41a4-9bb4-6de0dbb4f1f0"}}
"#
    );
    let _ = writeln!(
        lines,
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_{number}","type":"tool_result","content":"{text}","is_error":false}}]}},"parent_tool_use_id":null,"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","uuid":"b2f8a7d4-93b7-4d10-9d0c-1a1f0e9b8d55","tool_use_result":{{"stdout":"{text}","stderr":"","interrupted":false}}}}"#
    );
    lines
}
