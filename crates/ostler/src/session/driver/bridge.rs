//! The driver's side of the bridge, through which some agents reach the caller's tools.

use std::io;

use ostler_core::dialect::Bridge;
use ostler_core::event::{Level, NoticeCode};

use super::{CATCH_UP_READS, Driver};
use crate::clock;
use crate::session::bridge_server::BridgeEvent;

/// Maximum number of reports per kind of problem. Further occurrences are only counted.
const MAX_REPORTS: u64 = 3;

/// A reason why the agent cannot reach the caller's tools.
#[derive(Debug, thiserror::Error)]
enum NoBridge {
    /// Allowing local sockets would also expose everything else that listens on this machine.
    #[error("a sandboxed agent cannot use local sockets; run it without --sandbox")]
    Sandboxed,
    #[error("it needs a bridge program, and none is configured (`Host::with_bridge`)")]
    NotConfigured,
    #[error("the path of the bridge program is not valid UTF-8")]
    NotUtf8,
    #[error("cannot create its socket ({0})")]
    Socket(#[from] io::Error),
}

impl Driver {
    /// Opens a bridge socket if the agent needs one to reach the caller's tools.
    pub(super) fn open_bridge(&mut self) {
        self.bridge.close();
        self.state.bridge = None;
        if !self.setup.dialect.about().capabilities.bridged_tools
            || self.setup.spec.bound_tools.is_empty()
        {
            return;
        }
        match self.try_open_bridge() {
            Ok(bridge) => self.state.bridge = Some(bridge),
            Err(why) if !self.reported_no_bridge => {
                self.reported_no_bridge = true; // only once per session
                let tools = self.setup.spec.bound_tools.iter();
                let names: Vec<&str> = tools.map(|tool| tool.name.as_str()).collect();
                let message = format!(
                    "The agent cannot reach the caller's tools ({}): {why}.",
                    names.join(", ")
                );
                self.notice(Level::Warning, NoticeCode::NoBridge, message);
            }
            Err(_) => {}
        }
    }

    fn try_open_bridge(&mut self) -> Result<Bridge, NoBridge> {
        if self.setup.spec.sandbox.confines_agent() {
            return Err(NoBridge::Sandboxed);
        }
        let host = &self.setup.host;
        let bridge = host.bridge().ok_or(NoBridge::NotConfigured)?;
        let text = |part: &std::ffi::OsStr| part.to_str().map(str::to_owned);
        let program = text(bridge.program.as_os_str());
        let args: Option<Vec<String>> = bridge.args.iter().map(|arg| text(arg)).collect();
        let (program, mut args) = program.zip(args).ok_or(NoBridge::NotUtf8)?;
        args.push(self.bridge.open(&host.temp_dir())?);
        Ok(Bridge { program, args })
    }

    pub(super) fn on_bridge_event(&mut self, event: BridgeEvent) {
        match event {
            BridgeEvent::Readable(from) => {
                self.caller.shared.set_last_activity(clock::wall());
                let engine = &mut self.engine;
                let dropped = self
                    .bridge
                    .read_lines(from, |line| engine.on_bridge_line(from, line));
                self.report_dropped(from, dropped);
                self.close_if_finished(from);
            }
            BridgeEvent::Closed(from) => self.engine.on_bridge_closed(from),
            BridgeEvent::Problem(why) => {
                self.report_problem(NoticeCode::BridgeRefused, &format!("{why}."));
            }
        }
    }

    pub(super) fn write_bridge(&mut self, to: u32, line: Vec<u8>) {
        let dropped = self.bridge.write(to, line);
        self.report_dropped(to, dropped);
        self.close_if_finished(to);
    }

    /// Closes a connection whose peer has stopped sending, once all its replies are written.
    fn close_if_finished(&mut self, connection: u32) {
        if self.bridge.is_read_closed(connection) && !self.engine.owes_bridge_reply(connection) {
            self.bridge.close_after_writes(connection);
        }
    }

    /// Reads bridge lines that arrived before a deadline.
    pub(super) async fn catch_up_bridge(&mut self) {
        for _ in 0..CATCH_UP_READS {
            let next = self.bridge.next(true);
            let Ok(event) = tokio::time::timeout(std::time::Duration::ZERO, next).await else {
                return;
            };
            self.on_bridge_event(event);
        }
    }

    fn report_dropped(&mut self, connection: u32, why: Option<String>) {
        if let Some(why) = why {
            self.engine.on_bridge_closed(connection);
            let message = format!("A bridge connection was closed: {why}.");
            self.report_problem(NoticeCode::BridgeDropped, &message);
        }
    }

    /// Reports the first few problems of a kind and only counts the rest, so that a program that
    /// keeps connecting cannot flood the event stream.
    fn report_problem(&mut self, code: NoticeCode, message: &str) {
        let count = self.bridge_problems.entry(code.clone()).or_default();
        *count += 1;
        let message = match *count {
            1..MAX_REPORTS => message.to_owned(),
            MAX_REPORTS => format!("{message} Further occurrences are only counted."),
            _ => return,
        };
        self.notice(Level::Warning, code, message);
    }

    /// Closes the bridge after the agent's exit, and reports the total for each kind of problem
    /// that was not reported every time.
    pub(super) fn close_bridge(&mut self) {
        self.bridge.close();
        for (code, count) in std::mem::take(&mut self.bridge_problems)
            .into_iter()
            .filter(|(_, count)| *count > MAX_REPORTS)
        {
            let message = format!(
                "This happened {count} times in total; only the first {MAX_REPORTS} were reported."
            );
            self.notice(Level::Warning, code, message);
        }
    }
}
