//! Scripted agents of the benchmarks: the same programs and lines for every contender.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Number of lines that the agent `latency` prints.
const LATENCY_LINES: usize = 1500;

/// Size of the output of the agent `mixed`.
const MIXED_BYTES: usize = 40_000_000;

/// Writes the agents and their lines to `dir`.
pub(super) fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let dir = &dir.canonicalize()?;
    let deltas = |count: usize| vec![delta("some words, "); count];
    let mut mixed = Vec::new();
    let (result, mut bytes) = (tool_result(), 0);
    while bytes < MIXED_BYTES {
        mixed.extend(deltas(200));
        mixed.push(result.clone());
        bytes += 200 * mixed[0].len() + result.len();
    }
    for (name, lines) in [
        ("idle", Vec::new()),
        ("short", deltas(11)),
        ("warm", deltas(5_000)),
        ("mixed", mixed),
    ] {
        let path = dir.join(format!("{name}.jsonl"));
        std::fs::write(&path, turn(&lines))?;
        let lines = format!("cat '{}'", path.display());
        write_agent(&dir.join(name), &lines)?;
    }
    let own = std::env::current_exe().context("find this program")?;
    let lines = format!("'{}' bench __latency", own.display());
    write_agent(&dir.join("latency"), &lines)
}

/// Writes an agent that answers control requests, and each message with what `lines` prints.
fn write_agent(path: &Path, lines: &str) -> Result<()> {
    let script = format!(
        r#"#!/bin/sh
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
    std::fs::write(path, script)?;
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

/// Returns the lines of one turn.
fn turn(lines: &[String]) -> String {
    let mut text = format!("{INIT}\n");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text + ASSISTANT + "\n" + RESULT + "\n"
}

/// Prints lines that say when they were written.
pub(super) fn print_latency_lines() -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{INIT}")?;
    for _ in 0..LATENCY_LINES {
        std::thread::sleep(Duration::from_micros(300));
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        out.write_all(format!("{}\n", delta(&now.as_nanos().to_string())).as_bytes())?;
        out.flush()?;
    }
    write!(out, "{ASSISTANT}\n{RESULT}\n")?;
    let _ = std::io::stdin().lock().lines().next();
    Ok(())
}

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/workspace","session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","tools":["Task","Bash","Edit","Read","Write"],"mcp_servers":[],"model":"a-model","permissionMode":"default","slash_commands":[],"apiKeySource":"none","claude_code_version":"2.1.325","output_style":"default","agents":[],"skills":[],"plugins":[],"uuid":"e3fc2062-c00b-42d3-9491-26402072b76f"}"#;

const ASSISTANT: &str = r#"{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"a-model","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":1,"service_tier":"standard"}},"parent_tool_use_id":null,"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","uuid":"5a7b0d1e-8a41-41a4-9bb4-6de0dbb4f1f0"}"#;

const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":120,"duration_api_ms":80,"num_turns":1,"result":"done","stop_reason":"end_turn","session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","total_cost_usd":0.0009372,"usage":{"input_tokens":100,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":25,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{},"permission_denials":[],"uuid":"0f5c6b8e-3c53-4a3e-8a54-0a4a5a2c7d11"}"#;

/// A piece of a reply, as it arrives while a model writes.
fn delta(text: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","parent_tool_use_id":null,"uuid":"2fea2793-8ced-486b-8b00-bd29b87626a6"}}"#
    )
}

/// The result of a tool that read a large file.
fn tool_result() -> String {
    let text = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(2000);
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_1","type":"tool_result","content":"{text}","is_error":false}}]}},"parent_tool_use_id":null,"session_id":"723fc66f-4762-48a6-90e4-880b35a9bdd7","uuid":"b2f8a7d4-93b7-4d10-9d0c-1a1f0e9b8d55","tool_use_result":{{"stdout":"{text}","stderr":"","interrupted":false}}}}"#
    )
}
