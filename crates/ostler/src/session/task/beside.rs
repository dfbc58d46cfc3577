//! What goes on beside the agent: programs that it started reach the caller's tools through the session.

use ostler_core::event::{Level, Notice};
use ostler_core::machine::Input;
use ostler_core::spec::{Bridge, Sandbox};

use super::{CATCH_UP, Driver};
use crate::clock;
use crate::session::aside::Met;

/// The code of the notice that the tools cannot be reached.
const NO_BRIDGE: &str = "no_bridge";

impl Driver {
    /// Makes a way to the caller's tools for an agent that reaches them through a program.
    pub(super) fn open_aside(&mut self) {
        self.aside.close();
        self.beginning.spec.bridge = None;
        if !self.beginning.dialect.bridges() || self.beginning.spec.tools.is_empty() {
            return;
        }
        match self.bridge() {
            Ok(bridge) => self.beginning.spec.bridge = Some(bridge),
            Err(why) if !self.told_no_bridge => {
                self.told_no_bridge = true; // once is enough, however often the agent is started
                let tools: Vec<&str> = self.beginning.spec.tools.iter().map(|tool| tool.name.as_str()).collect();
                let message = format!("The agent cannot reach the caller's tools ({}): {why}.", tools.join(", "));
                self.mind.handle(Input::Remark(Notice::new(Level::Warning, NO_BRIDGE, message)));
            }
            Err(_) => {}
        }
    }

    fn bridge(&mut self) -> Result<Bridge, String> {
        if self.beginning.spec.sandbox != Sandbox::Off {
            // There it would also reach whatever else listens on this machine.
            return Err("an agent in a sandbox has no local sockets; without --sandbox it reaches them".into());
        }
        let host = &self.beginning.host;
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
        args.push(self.aside.open(&host.temp_dir()).map_err(|error| format!("no socket can be made ({error})"))?);
        Ok(Bridge { program, args })
    }

    pub(super) fn met(&mut self, met: Met) {
        match met {
            Met::Said(from) => {
                self.caller.shared.heard(clock::wall());
                self.mind.out.weigh(self.aside.amount());
                let mind = &mut self.mind;
                let sent_away = self.aside.hear(from, |line| mind.hear_aside(from, line));
                self.sent_away(sent_away);
            }
            Met::Trouble(why) => self.trouble("bridge_refused", &format!("Beside the agent: {why}.")),
        }
    }

    pub(super) fn answer_aside(&mut self, to: u32, line: Vec<u8>) {
        let sent_away = self.aside.answer(to, line);
        self.sent_away(sent_away);
    }

    /// What was said beside the agent in time is heard before time is called.
    pub(super) async fn catch_up_beside(&mut self) {
        for _ in 0..CATCH_UP {
            let next = self.aside.next(true);
            let Ok(met) = tokio::time::timeout(std::time::Duration::ZERO, next).await else { return };
            self.met(met);
        }
    }

    fn sent_away(&mut self, why: Option<String>) {
        if let Some(why) = why {
            let message = format!("A program through which the agent reaches the caller's tools was sent away: {why}.");
            self.trouble("bridge_dropped", &message);
        }
    }

    fn trouble(&mut self, code: &str, message: &str) {
        self.mind.handle(Input::Remark(Notice::new(Level::Warning, code, message)));
    }
}
