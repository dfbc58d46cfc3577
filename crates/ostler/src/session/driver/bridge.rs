//! What goes on beside the agent: programs that it started reach the caller's tools through the session.

use ostler_core::event::{Level, Notice};
use ostler_core::machine::Input;
use ostler_core::spec::Bridge;

use super::{CATCH_UP, Driver};
use crate::clock;
use crate::session::bridge_server::BridgeEvent;

/// How often the same trouble is told.
const TOLD: u64 = 3;

/// The code of the notice that the tools cannot be reached.
const NO_BRIDGE: &str = "no_bridge";

impl Driver {
    /// Makes a way to the caller's tools for an agent that reaches them through a program.
    pub(super) fn open_aside(&mut self) {
        self.bridge.close();
        self.setup.spec.bridge = None;
        if !self.setup.dialect.bridges() || self.setup.spec.tools.is_empty() {
            return;
        }
        match self.bridge() {
            Ok(bridge) => self.setup.spec.bridge = Some(bridge),
            Err(why) if !self.told_no_bridge => {
                self.told_no_bridge = true; // once is enough, however often the agent is started
                let tools: Vec<&str> = self
                    .setup
                    .spec
                    .tools
                    .iter()
                    .map(|tool| tool.name.as_str())
                    .collect();
                let message = format!(
                    "The agent cannot reach the caller's tools ({}): {why}.",
                    tools.join(", ")
                );
                self.engine.handle(Input::Remark(Notice::new(
                    Level::Warning,
                    NO_BRIDGE,
                    message,
                )));
            }
            Err(_) => {}
        }
    }

    fn bridge(&mut self) -> Result<Bridge, String> {
        if self.setup.spec.sandbox.confines_agent() {
            // There it would also reach whatever else listens on this machine.
            return Err(
                "an agent in a sandbox has no local sockets; without --sandbox it reaches them"
                    .into(),
            );
        }
        let host = &self.setup.host;
        let Some(bridge) = host.bridge() else {
            return Err(
                "it reaches them through a program that it starts, and the host names none (Host::bridged_by)".into()
            );
        };
        let text = |part: &std::ffi::OsStr| part.to_str().map(str::to_owned);
        let program = text(bridge.program.as_os_str());
        let args: Option<Vec<String>> = bridge.args.iter().map(|arg| text(arg)).collect();
        let Some((program, mut args)) = program.zip(args) else {
            return Err("the name of the bridge's program is not UTF-8".into());
        };
        args.push(
            self.bridge
                .open(&host.temp_dir())
                .map_err(|error| format!("no socket can be made ({error})"))?,
        );
        Ok(Bridge { program, args })
    }

    pub(super) fn on_bridge_event(&mut self, on_bridge_event: BridgeEvent) {
        match on_bridge_event {
            BridgeEvent::Said(from) => {
                self.caller.shared.heard(clock::wall());
                let engine = &mut self.engine;
                let sent_away = self
                    .bridge
                    .hear(from, |line| engine.on_bridge_line(from, line));
                self.sent_away(from, sent_away);
                self.let_go(from);
            }
            BridgeEvent::Gone(from) => self.engine.on_bridge_closed(from),
            BridgeEvent::Trouble(why) => {
                self.trouble("bridge_refused", &format!("Beside the agent: {why}."))
            }
        }
    }

    pub(super) fn answer_aside(&mut self, to: u32, line: Vec<u8>) {
        let sent_away = self.bridge.answer(to, line);
        self.sent_away(to, sent_away);
        self.let_go(to);
    }

    /// One that has nothing more to say goes when it has all its answers.
    fn let_go(&mut self, number: u32) {
        if self.bridge.is_done(number) && !self.engine.owes_bridge_reply(number) {
            self.bridge.let_go(number);
        }
    }

    /// What was said beside the agent in time is heard before time is called.
    pub(super) async fn catch_up_beside(&mut self) {
        for _ in 0..CATCH_UP {
            let next = self.bridge.next(true);
            let Ok(on_bridge_event) = tokio::time::timeout(std::time::Duration::ZERO, next).await
            else {
                return;
            };
            self.on_bridge_event(on_bridge_event);
        }
    }

    fn sent_away(&mut self, number: u32, why: Option<String>) {
        if let Some(why) = why {
            self.engine.on_bridge_closed(number);
            let message = format!(
                "A program through which the agent reaches the caller's tools was sent away: {why}."
            );
            self.trouble("bridge_dropped", &message);
        }
    }

    /// Tells of something each of the first few times, and then only that it goes on: whoever knocks at the door again and
    /// again does not fill the events.
    fn trouble(&mut self, code: &'static str, message: &str) {
        let count = self.troubles.entry(code).or_default();
        *count += 1;
        let message = match *count {
            1..TOLD => message.to_owned(),
            TOLD => format!("{message} If this happens again, it is only counted."),
            _ => return,
        };
        self.engine
            .handle(Input::Remark(Notice::new(Level::Warning, code, message)));
    }

    /// The agent is gone, and who came beside it: how often there was trouble that was not told.
    pub(super) fn close_aside(&mut self) {
        self.bridge.close();
        for (code, count) in std::mem::take(&mut self.troubles)
            .into_iter()
            .filter(|(_, count)| *count > TOLD)
        {
            let message = format!(
                "Beside the agent, this happened {count} times in all; {TOLD} of them were told."
            );
            self.engine
                .handle(Input::Remark(Notice::new(Level::Warning, code, message)));
        }
    }
}
