//! The crate `claude-codes`: its asynchronous client, as its documentation shows it.

use std::path::Path;

use claude_codes::{AsyncClient, ClaudeCliBuilder, ClaudeOutput};
use peers::{Peer, Result};

struct ClaudeCodes;

async fn connect(agent: &Path) -> Result<AsyncClient> {
    Ok(AsyncClient::from_builder(ClaudeCliBuilder::new().command(agent)).await?)
}

impl Peer for ClaudeCodes {
    type Idle = AsyncClient;

    async fn run(agent: &Path, mut each: impl FnMut(&str)) -> Result<()> {
        let mut client = connect(agent).await?;
        let mut stream = client.query_stream("hello").await?;
        while let Some(output) = stream.next().await {
            if let ClaudeOutput::StreamEvent(message) = output? {
                if let Some(text) = message.event["delta"]["text"].as_str() {
                    each(text);
                }
            }
        }
        Ok(client.shutdown().await?)
    }

    async fn start(agent: &Path) -> Result<Option<AsyncClient>> {
        let mut client = connect(agent).await?;
        client.query("hello").await?;
        Ok(Some(client))
    }

    fn decode(line: &str) -> bool {
        ClaudeOutput::parse_json_tolerant(line).is_ok()
    }
}

fn main() -> Result<()> {
    peers::measure::<ClaudeCodes>()
}
