//! What goes on beside the agent: programs that it started reach the caller's tools through the session.

use ostler_core::event::{Level, Notice};
use ostler_core::machine::Input;
use ostler_core::spec::Bridge;

use super::{CATCH_UP, Driver};
use crate::clock;
use crate::session::aside::Met;

/// How often the same trouble is told.
const TOLD: u64 = 3;

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
        if self.beginning.spec.sandbox.confines_agent() {
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
                let mind = &mut self.mind;
                let sent_away = self.aside.hear(from, |line| mind.hear_aside(from, line));
                self.sent_away(from, sent_away);
                self.let_go(from);
            }
            Met::Gone(from) => self.mind.aside_gone(from),
            Met::Trouble(why) => self.trouble("bridge_refused", &format!("Beside the agent: {why}.")),
        }
    }

    pub(super) fn answer_aside(&mut self, to: u32, line: Vec<u8>) {
        let sent_away = self.aside.answer(to, line);
        self.sent_away(to, sent_away);
        self.let_go(to);
    }

    /// One that has nothing more to say goes when it has all its answers.
    fn let_go(&mut self, number: u32) {
        if self.aside.is_done(number) && !self.mind.owes_aside(number) {
            self.aside.let_go(number);
        }
    }

    /// What was said beside the agent in time is heard before time is called.
    pub(super) async fn catch_up_beside(&mut self) {
        for _ in 0..CATCH_UP {
            let next = self.aside.next(true);
            let Ok(met) = tokio::time::timeout(std::time::Duration::ZERO, next).await else { return };
            self.met(met);
        }
    }

    fn sent_away(&mut self, number: u32, why: Option<String>) {
        if let Some(why) = why {
            self.mind.aside_gone(number);
            let message = format!("A program through which the agent reaches the caller's tools was sent away: {why}.");
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
        self.mind.handle(Input::Remark(Notice::new(Level::Warning, code, message)));
    }

    /// The agent is gone, and who came beside it: how often there was trouble that was not told.
    pub(super) fn close_aside(&mut self) {
        self.aside.close();
        for (code, count) in std::mem::take(&mut self.troubles).into_iter().filter(|(_, count)| *count > TOLD) {
            let message = format!("Beside the agent, this happened {count} times in all; {TOLD} of them were told.");
            self.mind.handle(Input::Remark(Notice::new(Level::Warning, code, message)));
        }
    }
}
