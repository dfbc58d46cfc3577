//! The crate `cc-sdk`: its function `query`, which starts the program `claude` on the path with the
//! prompt as an argument. Its clients use a channel that drops messages when a reader is behind.

use std::path::Path;

use cc_sdk::{query, Message};
use futures::StreamExt;
use peers::{Peer, Result};

struct CcSdk;

impl Peer for CcSdk {
    type Idle = ();

    async fn run(agent: &Path, mut each: impl FnMut(&str)) -> Result<()> {
        // The benchmark wrote this folder, which has the agent under the name `claude`.
        std::env::set_var("PATH", format!("{}.bin:/usr/bin:/bin", agent.display()));
        let mut messages = std::pin::pin!(query("hello", None).await?);
        while let Some(message) = messages.next().await {
            match message? {
                Message::StreamEvent { event, .. } => {
                    if let Some(text) = event["delta"]["text"].as_str() {
                        each(text);
                    }
                }
                Message::Result { .. } => break, // the stream itself does not end
                _ => {}
            }
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    peers::measure::<CcSdk>()
}
