//! Services a session provides to an agent: files of the workspace, and a bridge to the caller's
//! tools.

mod bridge;
mod files;

use std::collections::BTreeSet;

use ostler::agent::ProcessAgent;
use ostler::dialect::{
    About, Action, Capabilities, Conversation, Dialect, Exit, FileAccess, FileJob, Launch,
    Launching, Outbox, ToAgent, ToolJob,
};
use ostler::event::{Level, Notice, RawJson};
use ostler::{Agent, Agents, Session, Spec, SpecError};
use serde_json::Value;

use crate::rig::Rig;

/// The fake agent's dialect, extended by file and bridge requests. The agent requests files with
/// lines such as `{"want":"read","path":"a"}`. A bridge runs a tool with `call NAME INPUT`, is sent
/// 64 MiB with `flood`, and gets everything else echoed back.
pub(crate) struct ServicesDialect;

fn claude() -> &'static dyn Dialect {
    Agents::builtin().get("claude").unwrap().dialect()
}

/// Returns the same spec without tools: they are reachable only through the bridge.
fn bare(spec: &Spec) -> Spec {
    spec.clone().bound_tools(Vec::new())
}

impl Dialect for ServicesDialect {
    fn about(&self) -> About {
        let claude = claude().about();
        About {
            capabilities: Capabilities {
                bridged_tools: true,
                ..claude.capabilities
            },
            settings: claude.settings,
            ..About::new("services")
        }
    }

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        claude().launch(&Launching::new(&bare(launching.spec)))
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        let bridge = launching
            .bridge
            .map(|bridge| format!("{} {}", bridge.program, bridge.args.join(" ")));
        Box::new(ServicesConversation {
            claude: claude().converse(&Launching::new(&bare(launching.spec))),
            bridge,
            requests: 0,
            open: BTreeSet::new(),
        })
    }
}

struct ServicesConversation {
    claude: Box<dyn Conversation>,
    bridge: Option<String>,
    requests: u64,
    /// Running tools: the bridge that called each, and the request id.
    open: BTreeSet<(u32, String)>,
}

impl ServicesConversation {
    fn file(&mut self, want: &Value, out: &mut Outbox) {
        self.requests += 1;
        let number = |key: &str| want[key].as_u64();
        let access = match want["text"].as_str() {
            Some(text) => FileAccess::Write(text.to_owned()),
            None => FileAccess::Read {
                line: number("line"),
                limit: number("limit"),
            },
        };
        let path = want["path"].as_str().unwrap().to_owned();
        out.push(Action::AccessFile(FileJob {
            id: self.requests.to_string(),
            path,
            access,
        }));
    }
}

fn emit_notice(out: &mut Outbox, code: &str, message: impl Into<String>) {
    out.event(Notice::new(Level::Info, code.into(), message));
}

impl Conversation for ServicesConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        if let Some(bridge) = &self.bridge {
            emit_notice(out, "bridge_at", bridge);
        }
        self.claude.on_start(out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::FileDone { id, result } => {
                let message = match result {
                    Ok(text) => format!("{id} ok {text}"),
                    Err(fault) => format!(
                        "{id} {} {}",
                        if fault.missing { "missing" } else { "refused" },
                        fault.why
                    ),
                };
                emit_notice(out, "file_done", message);
            }
            ToAgent::ToolDone { id, ok, output } => {
                let to = id.split(':').next().unwrap().parse().unwrap();
                self.open.remove(&(to, id.clone()));
                let line =
                    format!("{id} {} {output}\n", if ok { "ok" } else { "failed" }).into_bytes();
                out.push(Action::WriteBridge { to, line });
            }
            say => self.claude.send(say, out),
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        match serde_json::from_str::<Value>(line) {
            Ok(want) if want["want"].is_string() => self.file(&want, out),
            _ => self.claude.on_line(line, out),
        }
    }

    fn on_bridge_line(&mut self, from: u32, line: &str, out: &mut Outbox) {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("call"), Some(name), Some(input)) => {
                self.requests += 1;
                let (id, input) = (
                    format!("{from}:{}", self.requests),
                    RawJson::parse(input).unwrap(),
                );
                self.open.insert((from, id.clone()));
                out.push(Action::RunTool(ToolJob {
                    id,
                    call: None,
                    name: name.to_owned(),
                    input,
                }));
            }
            (Some("flood"), ..) => {
                for _ in 0..64 {
                    out.push(Action::WriteBridge {
                        to: from,
                        line: vec![b'x'; 1024 * 1024],
                    });
                }
            }
            _ => out.push(Action::WriteBridge {
                to: from,
                line: format!("{from} {line}\n").into_bytes(),
            }),
        }
    }

    fn owes_bridge_reply(&self, to: u32) -> bool {
        self.open.iter().any(|(from, _)| *from == to)
    }

    fn on_bridge_closed(&mut self, from: u32, out: &mut Outbox) {
        emit_notice(out, "bridge_gone", from.to_string());
        let (gone, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(by, _)| *by == from);
        self.open = open;
        let gone: BTreeSet<(u32, String)> = gone;
        gone.into_iter()
            .for_each(|(_, id)| out.push(Action::CancelTool(id)));
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.claude.on_exit(exit, out);
    }
}

pub(crate) fn start(rig: &Rig) -> Session {
    ProcessAgent::new(&ServicesDialect)
        .start(&rig.host, rig.spec.clone())
        .unwrap()
}
